//! Cholesky's factor, for sampling and for distances.

/// The lower-triangular `L` with `L Lᵀ = a`, row-major; `None` if `a` is not positive definite.
pub fn cholesky(a: &[f64], n: usize) -> Option<Vec<f64>> {
    let mut l = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let dot = dot(&l[i * n..i * n + j], &l[j * n..j * n + j]);
            let rest = a[i * n + j] - dot;
            if i == j {
                if rest <= f64::EPSILON * a[i * n + i] {
                    return None;
                }
                l[i * n + i] = rest.sqrt();
            } else {
                l[i * n + j] = rest / l[j * n + j];
            }
        }
    }
    Some(l)
}

/// `L⁻¹ x` in place.
pub fn solve(l: &[f64], x: &mut [f64]) {
    let n = x.len();
    for i in 0..n {
        x[i] = (x[i] - dot(&l[i * n..i * n + i], &x[..i])) / l[i * n + i];
    }
}

/// `L⁻ᵀ x` in place.
pub fn solve_transposed(l: &[f64], x: &mut [f64]) {
    let n = x.len();
    for i in (0..n).rev() {
        x[i] /= l[i * n + i];
        let here = x[i];
        for (x, l) in x[..i].iter_mut().zip(&l[i * n..]) {
            *x -= l * here;
        }
    }
}

/// A sum of products in four strands, in a fixed order: the compiler makes one vector of them.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let (a4, b4) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest: f64 = a4.remainder().iter().zip(b4.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a4.zip(b4) {
        for k in 0..4 {
            sums[k] += a[k] * b[k];
        }
    }
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factor_and_solves_undo_each_other() {
        let n = 7;
        let entry = |i: usize, j: usize| ((i * 5 + j * 3) % 11) as f64 / 11.0;
        let mut a = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..n {
                a[i * n + j] = (0..n).map(|k| entry(i, k) * entry(j, k)).sum::<f64>() + f64::from(i == j);
            }
        }
        let l = cholesky(&a, n).unwrap();
        let x: Vec<f64> = (0..n).map(|i| i as f64 - 2.0).collect();
        let mut y: Vec<f64> = (0..n).map(|i| (0..n).map(|j| a[i * n + j] * x[j]).sum()).collect();
        solve(&l, &mut y);
        solve_transposed(&l, &mut y);
        assert!(x.iter().zip(&y).all(|(x, y)| (x - y).abs() < 1e-12));
        assert!(cholesky(&[1.0, 1.0, 1.0, 1.0], 2).is_none());
    }
}
