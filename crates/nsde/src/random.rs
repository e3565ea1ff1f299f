//! Random numbers: one ChaCha stream per trajectory, one block of it per step, so that any step can
//! be drawn again on its own.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Words of the stream reserved for one step; a step draws far fewer.
const WORDS_PER_STEP: u128 = 1 << 40;

/// The generator of one step of one trajectory. Step 0 is the start.
pub(crate) fn stream(seed: u64, trajectory: usize, step: usize) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(trajectory as u64);
    rng.set_word_pos(step as u128 * WORDS_PER_STEP);
    rng
}

/// Uniform in `[0, 1)` with 53 bits.
pub(crate) fn uniform(rng: &mut impl Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}
