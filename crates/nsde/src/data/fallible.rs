//! Somebody else's code that may panic on bad input: its panic becomes a message.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread is caught, and so needs no words.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`; a panic in it is returned as one line, and nothing is printed.
///
/// The hook of the process is wrapped at the first call. It stays silent only while `work` runs, and only for the
/// thread that runs it. Where panics abort, there is nothing to catch.
pub(super) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static WRAPPED: Once = Once::new();
    WRAPPED.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |info| {
            if !CAUGHT.get() {
                previous(info);
            }
        }));
    });
    let before = CAUGHT.replace(true);
    // `work` owns what it changes: after a panic nobody sees it again.
    let done = catch_unwind(AssertUnwindSafe(work));
    CAUGHT.set(before);
    done.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
        text.lines().next().unwrap_or_default().to_string()
    })
}

#[cfg(test)]
mod tests {
    use super::caught;

    #[test]
    fn a_panic_becomes_one_line() {
        assert_eq!(caught(|| 3), Ok(3));
        let index = std::hint::black_box(7);
        let why = caught(|| [1, 2][index]).unwrap_err();
        assert_eq!(why, "index out of bounds: the len is 2 but the index is 7");
        assert_eq!(caught(|| -> u8 { panic!("one\ntwo") }), Err("one".to_string()));
    }
}
