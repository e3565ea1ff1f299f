//! The log-density of Gaussians with covariance `S Sᵀ + diag(c)`, with its gradient.

use crate::cholesky::{cholesky, solve, solve_transposed};
use candle_core::{CpuStorage, CustomOp3, Layout, Result, Shape, Tensor, bail};

/// `log N(d; 0, S Sᵀ + diag(c))` for each row of `d`.
struct LowRank;

/// The log-densities `[n]` of `d`, `[n, D]`, under the factors `s`, `[n, D, r]`, and the variances `c`, `[D]`.
pub fn log_density(d: &Tensor, s: &Tensor, c: &Tensor) -> Result<Tensor> {
    d.contiguous()?.apply_op3(&s.contiguous()?, &c.contiguous()?, LowRank)
}

/// One row: its covariance's Cholesky factor, and `Σ⁻¹ d`.
fn solved(d: &[f32], s: &[f32], c: &[f32]) -> Result<(Vec<f64>, Vec<f64>)> {
    let (dim, rank) = (d.len(), s.len() / d.len());
    let mut cov = vec![0.0; dim * dim];
    for i in 0..dim {
        for j in 0..=i {
            let (a, b) = (&s[i * rank..(i + 1) * rank], &s[j * rank..(j + 1) * rank]);
            cov[i * dim + j] = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
        }
        cov[i * dim + i] += f64::from(c[i]);
    }
    let Some(l) = cholesky(&cov, dim) else { bail!("a covariance that is not positive definite") };
    let mut x: Vec<f64> = d.iter().map(|x| f64::from(*x)).collect();
    solve(&l, &mut x);
    solve_transposed(&l, &mut x);
    Ok((l, x))
}

impl CustomOp3 for LowRank {
    fn name(&self) -> &'static str {
        "low-rank-density"
    }

    fn cpu_fwd(
        &self,
        d: &CpuStorage,
        d_at: &Layout,
        s: &CpuStorage,
        s_at: &Layout,
        c: &CpuStorage,
        c_at: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (rows, dim) = d_at.shape().dims2()?;
        let at = |storage: &CpuStorage, layout: &Layout| -> Result<Vec<f32>> {
            let Some((from, to)) = layout.contiguous_offsets() else { bail!("density: not contiguous") };
            Ok(storage.as_slice::<f32>()?[from..to].to_vec())
        };
        let (d, s, c) = (at(d, d_at)?, at(s, s_at)?, at(c, c_at)?);
        let mut out = Vec::with_capacity(rows);
        for (d, s) in d.chunks(dim).zip(s.chunks(s.len() / rows)) {
            let (l, x) = solved(d, s, &c)?;
            let square: f64 = d.iter().zip(&x).map(|(d, x)| f64::from(*d) * x).sum();
            let log_det: f64 = (0..dim).map(|i| 2.0 * l[i * dim + i].ln()).sum();
            let constant = dim as f64 * (2.0 * std::f64::consts::PI).ln();
            out.push((-0.5 * (constant + log_det + square)) as f32);
        }
        Ok((CpuStorage::F32(out), Shape::from(rows)))
    }

    /// With `r = Σ⁻¹ d`: `d̄ = −r`, `S̄ = (r rᵀ − Σ⁻¹) S`, `c̄ = ½ diag(r rᵀ − Σ⁻¹)`.
    fn bwd(
        &self,
        d: &Tensor,
        s: &Tensor,
        c: &Tensor,
        _: &Tensor,
        bar: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let (rows, dim) = d.dims2()?;
        let flat = |x: &Tensor| x.flatten_all()?.to_vec1::<f32>();
        let (all_d, all_s, c_values, bar) = (flat(d)?, flat(s)?, flat(c)?, flat(bar)?);
        let width = all_s.len() / rows;
        let rank = width / dim;
        let mut d_bar = Vec::with_capacity(rows * dim);
        let mut s_bar = Vec::with_capacity(rows * width);
        let mut c_bar = vec![0.0_f64; dim];
        let mut column = vec![0.0; dim];
        let mut solved_s = vec![0.0; width];
        for ((d, s), bar) in all_d.chunks(dim).zip(all_s.chunks(width)).zip(bar) {
            let bar = f64::from(bar);
            let (l, r) = solved(d, s, &c_values)?;
            d_bar.extend(r.iter().map(|r| (-bar * r) as f32));
            for k in 0..rank {
                (0..dim).for_each(|i| column[i] = f64::from(s[i * rank + k]));
                let along: f64 = column.iter().zip(&r).map(|(s, r)| s * r).sum();
                solve(&l, &mut column);
                solve_transposed(&l, &mut column);
                (0..dim).for_each(|i| solved_s[i * rank + k] = r[i] * along - column[i]);
            }
            s_bar.extend(solved_s.iter().map(|x| (bar * x) as f32));
            for i in 0..dim {
                column.fill(0.0);
                column[i] = 1.0;
                solve(&l, &mut column);
                let inverse: f64 = column.iter().map(|x| x * x).sum();
                c_bar[i] += 0.5 * bar * (r[i] * r[i] - inverse);
            }
        }
        let tensor = |values: Vec<f32>, like: &Tensor| Tensor::from_vec(values, like.shape(), like.device());
        let c_bar = c_bar.into_iter().map(|x| x as f32).collect();
        Ok((Some(tensor(d_bar, d)?), Some(tensor(s_bar, s)?), Some(tensor(c_bar, c)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    fn waves(count: usize, speed: f32) -> Vec<f32> {
        (0..count).map(|k| (k as f32 * speed + 0.3).sin()).collect()
    }

    /// In one dimension the density has a formula of one line.
    #[test]
    fn one_dimension_is_the_normal_density() {
        let tensor = |x: &[f32], shape: &[usize]| Tensor::from_slice(x, shape, &Device::Cpu).unwrap();
        let (d, s, c) = (tensor(&[0.7], &[1, 1]), tensor(&[0.5, -0.2], &[1, 1, 2]), tensor(&[0.3], &[1]));
        let found = log_density(&d, &s, &c).unwrap().to_vec1::<f32>().unwrap()[0];
        let var = 0.25 + 0.04 + 0.3_f32;
        let expected = -0.5 * ((2.0 * std::f32::consts::PI * var).ln() + 0.49 / var);
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }

    #[test]
    fn its_gradient_matches_differences() {
        let shapes: [&[usize]; 3] = [&[2, 4], &[2, 4, 3], &[4]];
        let values = [waves(8, 0.9), waves(24, 1.7), vec![0.4, 0.9, 1.1, 0.6]];
        let value = |x: &[Tensor]| {
            let weights = Tensor::from_slice(&[1.0_f32, -0.4], 2, &Device::Cpu).unwrap();
            (log_density(&x[0], &x[1], &x[2]).unwrap() * weights).unwrap().sum_all().unwrap()
        };
        let vars: Vec<Var> =
            values.iter().zip(shapes).map(|(v, s)| Var::from_slice(v, s, &Device::Cpu).unwrap()).collect();
        let tensors: Vec<Tensor> = vars.iter().map(|v| v.as_tensor().clone()).collect();
        let gradients = value(&tensors).backward().unwrap();
        for (n, var) in vars.iter().enumerate() {
            let found = gradients.get(var).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
            for (k, found) in found.iter().enumerate() {
                let moved = |by: f32| {
                    let mut changed = values[n].clone();
                    changed[k] += by;
                    let mut x = tensors.clone();
                    x[n] = Tensor::from_vec(changed, shapes[n], &Device::Cpu).unwrap();
                    value(&x).to_scalar::<f32>().unwrap()
                };
                let slope = (moved(5e-3) - moved(-5e-3)) / 1e-2;
                assert!((slope - found).abs() < 2e-3 * (1.0 + slope.abs()), "{n} {k}: {slope} {found}");
            }
        }
    }
}
