//! A row-major matrix whose rows begin at cache lines and are padded with zeros to whole ones.

use super::Real;
use super::aligned::{Aligned, LINE};
use super::real::{from_f64, to_f64};

/// Number of scalars in a padded row of `cols` entries.
pub(crate) fn padded<T: Real>(cols: usize) -> usize {
    cols.next_multiple_of(LINE / size_of::<T>())
}

/// Number of scalars from one row to the next: rows a power of two apart would share few cache sets.
fn spaced<T: Real>(cols: usize) -> usize {
    let n = padded::<T>(cols);
    if (n * size_of::<T>()).is_multiple_of(512) { n + LINE / size_of::<T>() } else { n }
}

/// Row-major, `stride ≥ cols`; the entries between `cols` and `stride` are zero at all times,
/// so that kernels may run over whole vectors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mat<T> {
    pub rows: usize,
    pub cols: usize,
    pub stride: usize,
    pub data: Aligned<T>,
}

impl<T: Real> Mat<T> {
    pub fn zeros(rows: usize, cols: usize) -> Self {
        let stride = spaced::<T>(cols);
        Mat { rows, cols, stride, data: Aligned::zeros(rows * stride) }
    }

    pub fn from_f64(rows: usize, cols: usize, values: &[f64]) -> Self {
        let mut out = Self::zeros(rows, cols);
        out.set_f64(values);
        out
    }

    /// Takes the first columns of `from`, as many as there are here.
    pub fn copy_left_from(&mut self, from: &Mat<T>) {
        let cols = self.cols;
        for i in 0..self.rows {
            self.row_mut(i)[..cols].copy_from_slice(&from.row(i)[..cols]);
        }
    }

    /// Takes dense row-major values, the same in all lanes.
    #[track_caller]
    pub fn set_f64(&mut self, values: &[f64]) {
        assert_eq!(values.len(), self.rows * self.cols);
        for (i, row) in values.chunks_exact(self.cols.max(1)).enumerate() {
            for (x, v) in self.row_mut(i).iter_mut().zip(row) {
                *x = T::of(*v);
            }
        }
    }

    /// Takes dense row-major values, those of all lanes side by side.
    #[inline(always)]
    pub fn set_lanes(&mut self, values: &[f64]) {
        let cols = self.cols;
        for (i, row) in values.chunks_exact((cols * T::LANES).max(1)).enumerate() {
            from_f64(self.row_mut(i), row);
        }
    }

    /// Gives them.
    #[inline(always)]
    pub fn get_lanes(&self, values: &mut [f64]) {
        for (i, row) in values.chunks_exact_mut((self.cols * T::LANES).max(1)).enumerate() {
            to_f64(row, self.row(i));
        }
    }

    /// Gives the dense row-major values of one lane.
    #[track_caller]
    pub fn get_lane(&self, lane: usize, values: &mut [f64]) {
        assert_eq!(values.len(), self.rows * self.cols);
        for (i, row) in values.chunks_exact_mut(self.cols.max(1)).enumerate() {
            for (v, x) in row.iter_mut().zip(self.row(i)) {
                *v = x.lane(lane);
            }
        }
    }

    #[inline]
    pub fn row(&self, i: usize) -> &[T] {
        &self.data[i * self.stride..i * self.stride + self.cols]
    }

    #[inline]
    pub fn row_mut(&mut self, i: usize) -> &mut [T] {
        &mut self.data[i * self.stride..i * self.stride + self.cols]
    }

    #[inline]
    pub fn at(&self, i: usize, j: usize) -> T {
        self.data[i * self.stride + j]
    }

    #[inline]
    pub fn at_mut(&mut self, i: usize, j: usize) -> &mut T {
        &mut self.data[i * self.stride + j]
    }

    pub fn fill_zero(&mut self) {
        self.data.fill(T::ZERO);
    }

    /// The identity, or its leading columns if the matrix is tall.
    pub fn set_identity(&mut self) {
        self.fill_zero();
        for i in 0..self.rows.min(self.cols) {
            *self.at_mut(i, i) = T::ONE;
        }
    }

    pub fn copy_from(&mut self, other: &Mat<T>) {
        debug_assert_eq!((self.rows, self.cols), (other.rows, other.cols));
        self.data.copy_from_slice(&other.data);
    }

    /// Takes over the lower triangle, and what shares a cache line with it.
    pub fn copy_lower_from(&mut self, other: &Mat<T>) {
        debug_assert_eq!((self.rows, self.cols), (other.rows, other.cols));
        for i in 0..self.rows {
            let row = i * self.stride..i * self.stride + padded::<T>(i + 1);
            self.data[row.clone()].copy_from_slice(&other.data[row]);
        }
    }

    pub fn add_assign(&mut self, other: &Mat<T>) {
        debug_assert_eq!((self.rows, self.cols), (other.rows, other.cols));
        for (a, b) in self.data.iter_mut().zip(&other.data) {
            *a += *b;
        }
    }

    pub fn transpose_from(&mut self, other: &Mat<T>) {
        debug_assert_eq!((self.rows, self.cols), (other.cols, other.rows));
        super::transpose::transpose(self, other);
    }
}
