//! Models of tables: `nsde fit-table`, `nsde predict-table`, and what `nsde evaluate` says about them.

mod apply;
pub mod arguments;
pub(crate) mod evaluate;
mod examples;
pub mod fit;
pub(crate) mod meta;
pub mod predict;
mod random;
mod text;
