//! What is worth sharing with other cores, and how they wait for each other.
//!
//! Pieces of one matrix take some ten microseconds: a core that falls asleep between two of them, or asks the operating
//! system for the next one, is late by as much.

use super::Real;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// A piece of a product that is worth a core of its own has this many multiplications.
const WORTH_SPLITTING: usize = 1 << 18;

/// Over how many cores a product of so many multiplications goes.
pub(crate) fn pieces(work: usize) -> usize {
    match work / WORTH_SPLITTING {
        // Most products are small; to ask for the threads costs as much as some of them.
        few @ 0..2 => few,
        many => many.min(rayon::current_num_threads()),
    }
}

/// Over how many cores a pass over so many bytes goes: memory is slow. From outside their pool it is not worth the way.
pub(crate) fn pieces_of_bytes(bytes: usize) -> usize {
    match pieces(4 * bytes) {
        many @ 2.. if rayon::current_thread_index().is_some() => many,
        _ => 1,
    }
}

/// A pass over the rows of a matrix, in two halves if they are worth it: gives the storage of some rows, and which they
/// are. Every core keeps to its half, as in products, because what the other one wrote last is slow to come by.
pub(crate) fn by_halves<T: Real>(data: &mut [T], rows: usize, pass: impl Fn(&mut [T], Range<usize>) + Sync) {
    if T::LANES > 1 || pieces_of_bytes(size_of_val(data)) < 2 {
        return pass(data, 0..rows);
    }
    let half = rows / 2;
    let (above, below) = data.split_at_mut(data.len() / rows * half);
    join(|| pass(above, 0..half), || pass(below, half..rows));
}

/// How often a core that waits looks for the other one before it rests: about as long as a piece takes.
const PATIENCE: usize = 1000;

/// Two pieces of work, on two cores if one is free.
pub(crate) fn join(one: impl FnOnce() + Send, other: impl FnOnce() + Send) {
    let over = AtomicBool::new(false);
    let first = || {
        one();
        (0..PATIENCE).find(|_| look(&over));
    };
    let second = || {
        let _over = WhenDropped(&over);
        other();
    };
    rayon::join(first, second);
}

/// Does `work` while another core looks for pieces of it to take, without rest: between two products it would fall
/// asleep, and to wake it takes as long as its piece.
pub(crate) fn standing_by<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let over = AtomicBool::new(false);
    let ahead = || {
        let _over = WhenDropped(&over);
        work()
    };
    rayon::join(ahead, || while !look(&over) {}).0
}

/// Whether something is over; if not, lends a hand to whoever needs one.
fn look(over: &AtomicBool) -> bool {
    if over.load(Ordering::Acquire) {
        return true;
    }
    if rayon::yield_now() != Some(rayon::Yield::Executed) {
        std::hint::spin_loop();
    }
    false
}

/// Says so when it is dropped, by a panic too: nobody must wait for work that is over.
struct WhenDropped<'a>(&'a AtomicBool);

impl Drop for WhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn on(threads: usize, work: impl FnOnce() + Send) {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work);
    }

    /// On two threads and on one: the second must not wait for work that is over.
    #[test]
    fn a_core_that_stands_by_is_released_by_a_result_and_by_a_panic() {
        for threads in [1, 2] {
            on(threads, || {
                assert_eq!(standing_by(|| 7), 7);
                let broken = || standing_by(|| -> usize { panic!("on purpose") });
                assert!(catch_unwind(AssertUnwindSafe(broken)).is_err());
                assert_eq!(standing_by(|| 8), 8);
            });
        }
    }

    #[test]
    fn both_pieces_are_done_and_a_panic_of_either_is_passed_on() {
        for threads in [1, 2, 3] {
            on(threads, || {
                let (mut a, mut b, mut c) = (0, 0, 0);
                join(|| a = 1, || join(|| b = 2, || c = 3));
                assert_eq!((a, b, c), (1, 2, 3));
                assert!(catch_unwind(|| join(|| panic!("on purpose"), || ())).is_err());
                assert!(catch_unwind(|| join(|| (), || panic!("on purpose"))).is_err());
            });
        }
    }
}
