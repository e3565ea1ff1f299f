//! Transposes in square blocks, in registers where the machine can.

use super::real::to_f64;
use super::share::{join, pieces_of_bytes};
use super::{Mat, Real};
use std::ops::Range;

/// Copies the lower triangle of a square matrix onto the upper one.
pub(crate) fn mirror<T: Real>(m: &mut Mat<T>) {
    run(Job::Mirror(m));
}

/// `to = fromᵀ`.
pub(crate) fn transpose<T: Real>(to: &mut Mat<T>, from: &Mat<T>) {
    let (down, columns) = (to.stride, 0..from.cols);
    share(&mut to.data, down, columns, from, pieces_of_bytes(size_of_val(&*from.data)));
}

/// Some columns of `from`, which are rows of its transpose.
fn share<T: Real>(to: &mut [T], down: usize, columns: Range<usize>, from: &Mat<T>, pieces: usize) {
    if pieces < 2 || columns.len() < 2 * T::SIDE {
        return run(Job::Transpose { to, down, columns, from });
    }
    let few = pieces / 2;
    let half = (columns.len() * few / pieces).next_multiple_of(T::SIDE);
    let (above, below) = to.split_at_mut(half * down);
    let (left, right) = (columns.start..columns.start + half, columns.start + half..columns.end);
    join(|| share(above, down, left, from, few), || share(below, down, right, from, pieces - few));
}

/// All of the symmetric matrix of which the lower triangle is given, row by row and in `f64`. Not for packs.
pub(crate) fn dense<T: Real>(to: &mut [f64], from: &Mat<T>) {
    debug_assert_eq!(T::LANES, 1);
    let rows = 0..from.rows;
    if pieces_of_bytes(size_of_val(to)) < 2 {
        return run(Job::Dense { to, rows, from });
    }
    let half = (from.rows / 2).next_multiple_of(T::SIDE);
    let (above, below) = to.split_at_mut(half * from.cols);
    join(
        || run(Job::Dense { to: above, rows: 0..half, from }),
        || run(Job::Dense { to: below, rows: half..from.rows, from }),
    );
}

enum Job<'a, T> {
    Mirror(&'a mut Mat<T>),
    /// Some rows, from a multiple of [`Real::SIDE`] on.
    Dense {
        to: &'a mut [f64],
        rows: Range<usize>,
        from: &'a Mat<T>,
    },
    Transpose {
        to: &'a mut [T],
        down: usize,
        columns: Range<usize>,
        from: &'a Mat<T>,
    },
}

/// Entries of the largest block that is transposed at once.
const MOST: usize = 64;

fn run<T: Real>(job: Job<'_, T>) {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = super::dispatch::narrow() {
        return pulp::Simd::vectorize(simd, wide::Wide(simd, job));
    }
    job.run(|from, across, to, down| flip(from, across, to, down, T::SIDE, T::SIDE));
}

/// One block by hand, `rows` by `cols` entries of `from`, whose rows are `across` apart.
#[inline(always)]
fn flip<T: Real>(from: &[T], across: usize, to: &mut [T], down: usize, rows: usize, cols: usize) {
    for i in 0..rows {
        for j in 0..cols {
            to[j * down + i] = from[i * across + j];
        }
    }
}

/// Where blocks of [`Real::SIDE`] begin: the last one overlaps the one before it, so that none is ragged. Of a shorter
/// range, its start.
#[inline(always)]
fn blocks<T: Real>(all: Range<usize>) -> impl Iterator<Item = usize> {
    let last = all.end.saturating_sub(T::SIDE).max(all.start);
    all.step_by(T::SIDE).map(move |at| at.min(last))
}

impl<T: Real> Job<'_, T> {
    /// `whole` moves a block of [`Real::SIDE`] rows and columns.
    #[inline(always)]
    fn run(self, whole: impl Fn(&[T], usize, &mut [T], usize)) {
        match self {
            // A pack is a vector, and moves as a whole.
            Job::Transpose { to, down, columns, from } if T::LANES > 1 => {
                for (j, to) in columns.zip(to.chunks_exact_mut(down)) {
                    for (to, from) in to.iter_mut().zip(from.data.chunks_exact(from.stride)) {
                        *to = from[j];
                    }
                }
            }
            Job::Mirror(m) => {
                let (n, stride) = (m.rows, m.stride);
                for i in blocks::<T>(0..n) {
                    let (above, below) = m.data.split_at_mut(i * stride);
                    for j in blocks::<T>(0..i) {
                        let (from, to) = (&below[j..], &mut above[j * stride + i..]);
                        if i >= T::SIDE {
                            whole(from, stride, to, stride);
                        } else {
                            flip(from, stride, to, stride, T::SIDE, i);
                        }
                    }
                    let square = &mut below[i..];
                    if n < T::SIDE {
                        for (row, column) in (1..n).flat_map(|row| (0..row).map(move |column| (row, column)))
                        {
                            square[column * stride + row] = square[row * stride + column];
                        }
                        continue;
                    }
                    let mut block = [T::ZERO; MOST];
                    whole(square, stride, &mut block, T::SIDE);
                    for (i, from) in block.chunks_exact(T::SIDE).enumerate().take(T::SIDE) {
                        let to = &mut square[i * stride..][..T::SIDE];
                        for j in 0..T::SIDE {
                            to[j] = if j > i { from[j] } else { to[j] };
                        }
                    }
                }
            }
            Job::Dense { to, rows, from } => {
                let (n, stride) = (from.cols, from.stride);
                for (i, to) in rows.step_by(T::SIDE).zip(to.chunks_mut(T::SIDE * n)) {
                    for (row, to) in (i..).zip(to.chunks_exact_mut(n)) {
                        to_f64(&mut to[..=row], &from.row(row)[..=row]);
                        // What is left of the square on the diagonal.
                        for column in row + 1..n.min(i + T::SIDE) {
                            to_f64(&mut to[column..=column], &from.row(column)[row..=row]);
                        }
                    }
                    let height = to.len() / n;
                    let mut block = [T::ZERO; MOST];
                    for j in (i + T::SIDE..n).step_by(T::SIDE) {
                        let (below, width) = (&from.data[j * stride + i..], T::SIDE.min(n - j));
                        if width == T::SIDE {
                            whole(below, stride, &mut block, T::SIDE);
                        } else {
                            flip(below, stride, &mut block, T::SIDE, width, height);
                        }
                        for (to, block) in to.chunks_exact_mut(n).zip(block.chunks_exact(T::SIDE)) {
                            to_f64(&mut to[j..j + width], &block[..width]);
                        }
                    }
                }
            }
            Job::Transpose { to, down, columns, from } => {
                let (rows, cols) = (T::SIDE.min(from.rows), T::SIDE.min(columns.len()));
                for i in blocks::<T>(0..from.rows) {
                    for j in blocks::<T>(columns.clone()) {
                        let across = from.stride;
                        let to = &mut to[(j - columns.start) * down + i..];
                        let from = &from.data[i * across + j..];
                        if rows == T::SIDE && cols == T::SIDE {
                            whole(from, across, to, down);
                        } else {
                            flip(from, across, to, down, rows, cols);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod wide {
    use super::{Job, Real};
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
                |from, across, to, down| T::flip(simd, from, across, to, down),
            );
        }
    }

    /// Eight by eight: pairs, then pairs of pairs, then halves change places.
    #[inline(always)]
    pub(crate) fn flip_f32(simd: V3, from: &[f32], across: usize, to: &mut [f32], down: usize) {
        let avx = simd.avx;
        let row = |i: usize| -> __m256 {
            let row: &[f32; 8] = from[i * across..].first_chunk().unwrap_or(&[0.0; 8]);
            cast(*row)
        };
        let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3));
        let (r4, r5, r6, r7) = (row(4), row(5), row(6), row(7));
        let low = |a, b| avx._mm256_unpacklo_ps(a, b);
        let high = |a, b| avx._mm256_unpackhi_ps(a, b);
        let first = |a, b| avx._mm256_shuffle_ps::<0x44>(a, b);
        let last = |a, b| avx._mm256_shuffle_ps::<0xEE>(a, b);
        let top = [
            first(low(r0, r1), low(r2, r3)),
            last(low(r0, r1), low(r2, r3)),
            first(high(r0, r1), high(r2, r3)),
            last(high(r0, r1), high(r2, r3)),
        ];
        let bottom = [
            first(low(r4, r5), low(r6, r7)),
            last(low(r4, r5), low(r6, r7)),
            first(high(r4, r5), high(r6, r7)),
            last(high(r4, r5), high(r6, r7)),
        ];
        for k in 0..4 {
            let near: [f32; 8] = cast(avx._mm256_permute2f128_ps::<0x20>(top[k], bottom[k]));
            let far: [f32; 8] = cast(avx._mm256_permute2f128_ps::<0x31>(top[k], bottom[k]));
            to[k * down..][..8].copy_from_slice(&near);
            to[(k + 4) * down..][..8].copy_from_slice(&far);
        }
    }

    /// Four by four.
    #[inline(always)]
    pub(crate) fn flip_f64(simd: V3, from: &[f64], across: usize, to: &mut [f64], down: usize) {
        let avx = simd.avx;
        let row = |i: usize| -> __m256d {
            let row: &[f64; 4] = from[i * across..].first_chunk().unwrap_or(&[0.0; 4]);
            cast(*row)
        };
        let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3));
        let low = [avx._mm256_unpacklo_pd(r0, r1), avx._mm256_unpacklo_pd(r2, r3)];
        let high = [avx._mm256_unpackhi_pd(r0, r1), avx._mm256_unpackhi_pd(r2, r3)];
        let columns: [[f64; 4]; 4] = [
            cast(avx._mm256_permute2f128_pd::<0x20>(low[0], low[1])),
            cast(avx._mm256_permute2f128_pd::<0x20>(high[0], high[1])),
            cast(avx._mm256_permute2f128_pd::<0x31>(low[0], low[1])),
            cast(avx._mm256_permute2f128_pd::<0x31>(high[0], high[1])),
        ];
        for (k, column) in columns.iter().enumerate() {
            to[k * down..][..4].copy_from_slice(column);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Real + PartialEq>() {
        for (rows, cols) in [
            (1, 1),
            (3, 3),
            (3, 9),
            (6, 6),
            (8, 8),
            (11, 11),
            (17, 5),
            (23, 23),
            (50, 50),
            (64, 33),
            (200, 200),
        ] {
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
                // What is above the diagonal does not count.
                for threads in [1, 2] {
                    let mut d = vec![f64::NAN; rows * cols];
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                    pool.install(|| dense(&mut d, &a));
                    assert!((0..rows * cols).all(|k| d[k] == c.at(k / cols, k % cols).lane(0)));
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
