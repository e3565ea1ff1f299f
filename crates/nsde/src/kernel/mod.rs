//! Small dense kernels, the only place with SIMD: everything above speaks matrices and equations.

pub(crate) mod cholesky;
pub(crate) mod elementary;
pub(crate) mod legendre;
pub(crate) mod mat;
pub(crate) mod paper;
pub(crate) mod real;
pub(crate) mod rows;
pub(crate) mod series;
pub(crate) mod tile;
pub(crate) mod transpose;

pub(crate) use mat::Mat;
pub(crate) use real::Real;
