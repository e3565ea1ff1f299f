//! LSTM and Transformer (Sec. 6.4), trained on one-step predictions; the only users of a tensor library.

mod classifier;
mod lstm;
mod recurrent;
mod transformer;
mod weights;

pub use classifier::{Classifier, Schooling, Sequences};
pub use recurrent::{Baseline, Training, train};
pub use weights::{Affine, Weights};

/// Which network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Two stacked LSTMs of 64 units.
    Lstm,
    /// Two encoder layers, hidden size 64, two heads.
    Transformer,
}
