//! k-means with two clusters, for paths that settle in one of two modes.

/// Which of two clusters each point belongs to. The first centres are the points with the lowest and the
/// highest last coordinate, so the result depends on nothing but the points.
pub fn two_means(points: &[&[f64]]) -> Vec<bool> {
    let last = |p: &&&[f64]| p.last().copied().unwrap_or(0.0);
    let low = points.iter().min_by(|a, b| last(a).total_cmp(&last(b)));
    let high = points.iter().max_by(|a, b| last(a).total_cmp(&last(b)));
    let (Some(low), Some(high)) = (low, high) else { return Vec::new() };
    let mut centres = [low.to_vec(), high.to_vec()];
    let mut upper = vec![false; points.len()];
    loop {
        let distance = |p: &[f64], c: &[f64]| p.iter().zip(c).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        let next: Vec<bool> =
            points.iter().map(|p| distance(p, &centres[1]) < distance(p, &centres[0])).collect();
        for (side, centre) in centres.iter_mut().enumerate() {
            let own = || points.iter().zip(&next).filter(|(_, u)| **u == (side == 1)).map(|(p, _)| p);
            let count = own().count();
            if count > 0 {
                for (i, c) in centre.iter_mut().enumerate() {
                    *c = own().map(|p| p[i]).sum::<f64>() / count as f64;
                }
            }
        }
        // Every round lowers the sum of squares, so the loop ends.
        if next == upper {
            return upper;
        }
        upper = next;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_heaps_are_told_apart() {
        let points: Vec<[f64; 2]> = (0..20)
            .map(|i| {
                let side = if i % 3 == 0 { 1.0 } else { -1.0 };
                [0.1 * side + 0.01 * f64::from(i), side + 0.02 * f64::from(i % 5)]
            })
            .collect();
        let slices: Vec<&[f64]> = points.iter().map(|p| &p[..]).collect();
        let upper = super::two_means(&slices);
        assert!((0..20).all(|i| upper[i] == (i % 3 == 0)));
        assert!(super::two_means(&[]).is_empty());
    }
}
