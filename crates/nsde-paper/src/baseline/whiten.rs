//! `chol(K)⁻¹` with its gradient: what turns the values of Gaussian processes at their inducing points into independent ones. The
//! tensor library has no Cholesky factor.

use crate::cholesky::{cholesky, solve};
use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor, bail};

/// `W = L⁻¹` for `K = L Lᵀ`, so that `W K Wᵀ = I`.
pub struct Whiten;

/// `W` of a positive definite tensor `[n, n]`.
pub fn whitening(k: &Tensor) -> Result<Tensor> {
    k.contiguous()?.apply_op1(Whiten)
}

impl CustomOp1 for Whiten {
    fn name(&self) -> &'static str {
        "whiten"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (n, _) = layout.shape().dims2()?;
        let Some((from, to)) = layout.contiguous_offsets() else { bail!("whiten: not contiguous") };
        let k: Vec<f64> = storage.as_slice::<f32>()?[from..to].iter().map(|x| f64::from(*x)).collect();
        let Some(l) = cholesky(&k, n) else { bail!("whiten: a kernel matrix that is not positive definite") };
        let mut inverse = vec![0.0_f32; n * n];
        let mut column = vec![0.0; n];
        for j in 0..n {
            column.fill(0.0);
            column[j] = 1.0;
            solve(&l, &mut column);
            column.iter().enumerate().for_each(|(i, x)| inverse[i * n + j] = *x as f32);
        }
        Ok((CpuStorage::F32(inverse), Shape::from((n, n))))
    }

    /// `dW = −Φ(W dK Wᵀ) W`, where `Φ` keeps the lower triangle and half of the diagonal; `K̄ = −Wᵀ Φ(W̄ Wᵀ) W`, made symmetric.
    fn bwd(&self, _: &Tensor, w: &Tensor, w_bar: &Tensor) -> Result<Option<Tensor>> {
        let n = w.dim(0)?;
        let entry = |k: usize| match (k / n).cmp(&(k % n)) {
            std::cmp::Ordering::Greater => 1.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Less => 0.0,
        };
        let mask = Tensor::from_vec((0..n * n).map(entry).collect::<Vec<f32>>(), (n, n), w.device())?;
        let wt = w.t()?.contiguous()?;
        let inner = (w_bar.contiguous()?.matmul(&wt)? * mask)?;
        let k_bar = wt.matmul(&inner)?.matmul(w)?;
        Ok(Some(((&k_bar + k_bar.t()?)? * -0.5)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    /// A kernel matrix of five points, and some weights.
    fn problem() -> (Vec<f32>, Vec<f32>) {
        let point = |i: usize| (i as f32 * 1.3).sin() * 2.0;
        let k =
            |e: usize| (-0.5 * (point(e / 5) - point(e % 5)).powi(2)).exp() + 0.3 * f32::from(e / 5 == e % 5);
        ((0..25).map(k).collect(), (0..25).map(|e| (e as f32 * 0.7).cos()).collect())
    }

    #[test]
    fn a_whitened_kernel_is_the_identity() {
        let k = Tensor::from_vec(problem().0, (5, 5), &Device::Cpu).unwrap();
        let w = whitening(&k).unwrap();
        let unit = w.matmul(&k).unwrap().matmul(&w.t().unwrap()).unwrap().to_vec2::<f32>().unwrap();
        for (i, row) in unit.iter().enumerate() {
            assert!(row.iter().enumerate().all(|(j, x)| (x - f32::from(i == j)).abs() < 1e-5), "{unit:?}");
        }
    }

    #[test]
    fn its_gradient_matches_differences() {
        let (k, weights) = problem();
        let weights = Tensor::from_vec(weights, (5, 5), &Device::Cpu).unwrap();
        let value = |k: &Tensor| (whitening(k).unwrap() * &weights).unwrap().sum_all().unwrap();
        let var = Var::from_vec(k.clone(), (5, 5), &Device::Cpu).unwrap();
        let gradient = value(&var).backward().unwrap().get(&var).unwrap().to_vec2::<f32>().unwrap();
        for (i, j) in [(0, 0), (3, 3), (2, 1), (4, 0)] {
            // Both entries of a symmetric matrix move together.
            let moved = |by: f32| {
                let mut k = k.clone();
                k[i * 5 + j] += by;
                if i != j {
                    k[j * 5 + i] += by;
                }
                value(&Tensor::from_vec(k, (5, 5), &Device::Cpu).unwrap()).to_scalar::<f32>().unwrap()
            };
            let slope = (moved(5e-3) - moved(-5e-3)) / 1e-2;
            let found = if i == j { gradient[i][i] } else { gradient[i][j] + gradient[j][i] };
            assert!((slope - found).abs() < 1e-2 * (1.0 + slope.abs()), "{i} {j}: {slope} {found}");
        }
    }
}
