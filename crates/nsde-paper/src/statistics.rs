//! Averages over repetitions.

/// The mean.
pub fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

/// The standard deviation of single values, `n − 1` in the denominator; 0 for one value.
pub fn deviation(x: &[f64]) -> f64 {
    if x.len() < 2 {
        return 0.0;
    }
    let m = mean(x);
    (x.iter().map(|x| (x - m).powi(2)).sum::<f64>() / (x.len() - 1) as f64).sqrt()
}

/// The standard error of the mean.
pub fn standard_error(x: &[f64]) -> f64 {
    deviation(x) / (x.len() as f64).sqrt()
}

/// The median; of an even number of values, the upper one of the middle two.
pub fn median(x: &[f64]) -> f64 {
    let mut sorted = x.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Mean and standard error as the paper prints them: `1.75(0.03)`.
pub fn printed(x: &[f64]) -> String {
    rounded(x, 2)
}

/// The same with so many decimals.
pub fn rounded(x: &[f64], digits: usize) -> String {
    match x {
        // One value has no error.
        [one] => format!("{one:.digits$}"),
        _ => format!("{:.digits$}({:.digits$})", mean(x), standard_error(x)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_values_by_hand() {
        let x = [1.0, 2.0, 6.0];
        assert_eq!((mean(&x), median(&x)), (3.0, 2.0));
        assert!((deviation(&x) - 7f64.sqrt()).abs() < 1e-15);
        assert_eq!(printed(&x), "3.00(1.53)");
        assert_eq!(standard_error(&[4.0]), 0.0);
    }
}
