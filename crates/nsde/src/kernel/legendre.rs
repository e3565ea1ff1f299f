//! Gauss–Legendre nodes on `[0, 1]`, by Newton's method on the Legendre polynomial.

/// Nodes and weights of the `n`-point rule on `[0, 1]`, ascending.
pub(crate) fn rule(n: usize) -> Vec<(f64, f64)> {
    let mut out = vec![(0.0, 0.0); n];
    for i in 0..n.div_ceil(2) {
        let mut x = (std::f64::consts::PI * (i as f64 + 0.75) / (n as f64 + 0.5)).cos();
        let mut slope = 1.0;
        for _ in 0..100 {
            let (mut p, mut before) = (1.0, 0.0);
            for k in 0..n {
                let k = k as f64;
                (p, before) = (((2.0 * k + 1.0) * x * p - k * before) / (k + 1.0), p);
            }
            slope = n as f64 * (x * p - before) / (x * x - 1.0);
            let step = p / slope;
            x -= step;
            if step.abs() < 1e-16 {
                break;
            }
        }
        let weight = 1.0 / ((1.0 - x * x) * slope * slope);
        out[i] = (0.5 * (1.0 - x), weight);
        out[n - 1 - i] = (0.5 * (1.0 + x), weight);
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn rule_integrates_polynomials_of_twice_its_order() {
        for n in [1, 2, 5, 16, 20, 40] {
            let rule = super::rule(n);
            for degree in 0..2 * n {
                let got: f64 = rule.iter().map(|(x, w)| w * x.powi(degree as i32)).sum();
                assert!((got - 1.0 / (degree as f64 + 1.0)).abs() < 1e-14, "{n} nodes, x^{degree}");
            }
        }
    }
}
