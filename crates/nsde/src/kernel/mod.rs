//! Small dense kernels, the home of SIMD: everything above speaks matrices and equations. (Rectifiers expand
//! whole layers in vectors in `layer/rectified.rs`, beside the formulas they vectorise.)

pub(crate) mod abreast;
pub(crate) mod aligned;
pub(crate) mod cholesky;
pub(crate) mod dispatch;
pub(crate) mod elementary;
pub(crate) mod lanes;
pub(crate) mod legendre;
pub(crate) mod mat;
pub(crate) mod paper;
pub(crate) mod product;
pub(crate) mod real;
pub(crate) mod root;
pub(crate) mod rows;
pub(crate) mod series;
pub(crate) mod share;
mod thin;
mod tile;
pub(crate) mod transpose;
pub(crate) mod upper;

pub(crate) use mat::Mat;
pub(crate) use real::{Real, Single};
