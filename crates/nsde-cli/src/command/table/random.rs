//! Random numbers for the first weights and the held-out examples, the same for the same seed.

use anyhow::Result;
use nsde::Linear;

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Weights and biases uniform in `±1/√input`, as [`Linear::random`] draws them.
    pub fn linear(&mut self, input: usize, output: usize) -> Result<Linear> {
        let bound = 1.0 / (input.max(1) as f64).sqrt();
        let mut draw = |n: usize| -> Vec<f64> {
            let one = |_| bound * (2.0 * (self.next() >> 11) as f64 / (1u64 << 53) as f64 - 1.0);
            (0..n).map(one).collect()
        };
        let (weight, bias) = (draw(input * output), draw(output));
        Ok(Linear::new(input, output, weight, bias)?)
    }

    /// Some of the numbers below `n`.
    pub fn choose(&mut self, n: usize, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..n).collect();
        for i in 0..count {
            let other = i + (self.next() % (n - i) as u64) as usize;
            all.swap(i, other);
        }
        all.truncate(count);
        all
    }
}
