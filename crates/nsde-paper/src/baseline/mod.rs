//! LSTM and Transformer (Sec. 6.4), trained on one-step predictions; the only users of a tensor library.

mod lstm;
mod recurrent;
mod transformer;
mod weights;

pub use recurrent::{Baseline, Training, train};

/// Which network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Two stacked LSTMs of 64 units.
    Lstm,
    /// Two encoder layers, hidden size 64, two heads.
    Transformer,
}
