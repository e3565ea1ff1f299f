//! The subcommands, one file each.

pub mod calibrate;
pub mod completions;
pub mod demo;
pub mod evaluate;
pub mod fit;
pub mod forecast;
pub mod inspect;
pub mod man;
pub mod moments;
pub mod predict;
pub mod report;
pub mod table;
