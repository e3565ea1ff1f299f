//! The subcommands, one file each.

pub mod completions;
pub mod demo;
pub mod fit;
pub mod inspect;
pub mod man;
pub mod moments;
pub mod predict;
pub mod calibrate;
pub mod evaluate;
pub mod report;
pub mod forecast;
