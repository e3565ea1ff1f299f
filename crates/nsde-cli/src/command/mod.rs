//! The subcommands, one file each.

pub mod completions;
pub mod inspect;
pub mod man;
pub mod moments;
pub mod predict;
