//! Transposes in blocks of eight by eight, in registers where the machine can.
//!
//! Rows are padded with zeros to whole cache lines, so that a block may reach beyond the last column;
//! rows beyond the last are taken as zero and never written.

use super::{Mat, Real};

/// Side of a block.
pub(crate) const SIDE: usize = 8;

pub(crate) type Block<T> = [[T; SIDE]; SIDE];

/// Copies the lower triangle of a square matrix onto the upper one.
pub(crate) fn mirror<T: Real>(m: &mut Mat<T>) {
    run(Job::Mirror(m));
}

/// `to = fromᵀ`.
pub(crate) fn transpose<T: Real>(to: &mut Mat<T>, from: &Mat<T>) {
    run(Job::Transpose { to, from });
}

enum Job<'a, T> {
    Mirror(&'a mut Mat<T>),
    Transpose { to: &'a mut Mat<T>, from: &'a Mat<T> },
}

fn run<T: Real>(job: Job<'_, T>) {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        return pulp::Simd::vectorize(simd, wide::Wide(simd, job));
    }
    job.run(|block| std::array::from_fn(|j| std::array::from_fn(|i| block[i][j])));
}

impl<T: Real> Job<'_, T> {
    #[inline(always)]
    fn run(self, flip: impl Fn(&Block<T>) -> Block<T>) {
        match self {
            Job::Mirror(m) => {
                let (n, stride) = (m.rows, m.stride);
                for i in (0..n).step_by(SIDE) {
                    for j in (0..i).step_by(SIDE) {
                        let block = flip(&load(&m.data, stride, n, i, j));
                        store(&mut m.data, stride, n, j, i, &block);
                    }
                    let block = load(&m.data, stride, n, i, i);
                    let above = flip(&block);
                    let whole: Block<T> = std::array::from_fn(|r| {
                        std::array::from_fn(|c| if c > r { above[r][c] } else { block[r][c] })
                    });
                    store(&mut m.data, stride, n, i, i, &whole);
                }
            }
            Job::Transpose { to, from } => {
                for i in (0..from.rows).step_by(SIDE) {
                    for j in (0..from.cols).step_by(SIDE) {
                        let block = flip(&load(&from.data, from.stride, from.rows, i, j));
                        store(&mut to.data, to.stride, to.rows, j, i, &block);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn load<T: Real>(data: &[T], stride: usize, rows: usize, i: usize, j: usize) -> Block<T> {
    let row =
        |r: usize| -> [T; SIDE] { data[(i + r) * stride + j..].first_chunk().copied().unwrap_or_default() };
    if i + SIDE <= rows {
        return std::array::from_fn(row);
    }
    std::array::from_fn(|r| if i + r < rows { row(r) } else { [T::ZERO; SIDE] })
}

#[inline(always)]
fn store<T: Real>(data: &mut [T], stride: usize, rows: usize, i: usize, j: usize, block: &Block<T>) {
    if i + SIDE <= rows {
        for r in 0..SIDE {
            data[(i + r) * stride + j..][..SIDE].copy_from_slice(&block[r]);
        }
    } else {
        for r in 0..rows - i {
            data[(i + r) * stride + j..][..SIDE].copy_from_slice(&block[r]);
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod wide {
    use super::{Block, Job, Real};
    use pulp::cast;
    use pulp::x86::V3;
    use std::arch::x86_64::{__m256, __m256d};

    pub(super) struct Wide<'a, T>(pub V3, pub Job<'a, T>);

    impl<T: Real> pulp::NullaryFnOnce for Wide<'_, T> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let Wide(simd, job) = self;
            job.run(
                #[inline(always)]
                |block| T::flip(simd, block),
            );
        }
    }

    /// Pairs, then pairs of pairs, then halves change places.
    #[inline(always)]
    pub(crate) fn flip_f32(simd: V3, block: &Block<f32>) -> Block<f32> {
        let avx = simd.avx;
        let row = |i: usize| -> __m256 { cast(block[i]) };
        let mut pairs = [avx._mm256_setzero_ps(); 8];
        for k in 0..4 {
            let (a, b) = (row(2 * k), row(2 * k + 1));
            pairs[2 * k] = avx._mm256_unpacklo_ps(a, b);
            pairs[2 * k + 1] = avx._mm256_unpackhi_ps(a, b);
        }
        let mut fours = pairs;
        for k in [0, 4] {
            fours[k] = avx._mm256_shuffle_ps::<0x44>(pairs[k], pairs[k + 2]);
            fours[k + 1] = avx._mm256_shuffle_ps::<0xEE>(pairs[k], pairs[k + 2]);
            fours[k + 2] = avx._mm256_shuffle_ps::<0x44>(pairs[k + 1], pairs[k + 3]);
            fours[k + 3] = avx._mm256_shuffle_ps::<0xEE>(pairs[k + 1], pairs[k + 3]);
        }
        std::array::from_fn(|i| {
            let (a, b) = (fours[i % 4], fours[i % 4 + 4]);
            cast(if i < 4 {
                avx._mm256_permute2f128_ps::<0x20>(a, b)
            } else {
                avx._mm256_permute2f128_ps::<0x31>(a, b)
            })
        })
    }

    #[inline(always)]
    pub(crate) fn flip_f64(simd: V3, block: &Block<f64>) -> Block<f64> {
        let mut out = [[0.0; 8]; 8];
        for (i, j) in [(0, 0), (0, 4), (4, 0), (4, 4)] {
            let avx = simd.avx;
            let row = |r: usize| -> __m256d {
                let b = &block[i + r];
                cast([b[j], b[j + 1], b[j + 2], b[j + 3]])
            };
            let low = [avx._mm256_unpacklo_pd(row(0), row(1)), avx._mm256_unpacklo_pd(row(2), row(3))];
            let high = [avx._mm256_unpackhi_pd(row(0), row(1)), avx._mm256_unpackhi_pd(row(2), row(3))];
            let columns = [
                avx._mm256_permute2f128_pd::<0x20>(low[0], low[1]),
                avx._mm256_permute2f128_pd::<0x20>(high[0], high[1]),
                avx._mm256_permute2f128_pd::<0x31>(low[0], low[1]),
                avx._mm256_permute2f128_pd::<0x31>(high[0], high[1]),
            ];
            for (c, column) in columns.into_iter().enumerate() {
                let column: [f64; 4] = cast(column);
                out[j + c][i..i + 4].copy_from_slice(&column);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Real + PartialEq>() {
        for (rows, cols) in [(1, 1), (3, 9), (8, 8), (17, 5), (50, 50), (64, 33)] {
            let values: Vec<f64> = (0..rows * cols).map(|k| k as f64 + 1.0).collect();
            let a = Mat::<T>::from_f64(rows, cols, &values);
            let mut b = Mat::zeros(cols, rows);
            transpose(&mut b, &a);
            for i in 0..rows {
                for j in 0..cols {
                    assert!(b.at(j, i) == a.at(i, j));
                }
            }
            assert!(
                (0..cols)
                    .all(|j| b.data[j * b.stride + rows..(j + 1) * b.stride].iter().all(|x| *x == T::ZERO))
            );
            if rows == cols {
                let mut c = a.clone();
                mirror(&mut c);
                for i in 0..rows {
                    for j in 0..cols {
                        assert!(c.at(i, j) == a.at(i.max(j), i.min(j)));
                    }
                }
            }
        }
    }

    #[test]
    fn transposes_and_mirrors_move_every_entry() {
        check::<f64>();
        check::<f32>();
    }
}
