//! LSTM, Transformer and diffWGP (Sec. 6.4), on a tensor library; the rivals of Table 1 use its weights too.

mod classifier;
mod low_rank;
mod lstm;
mod recurrent;
mod transformer;
mod weights;
mod whiten;
mod wishart;

pub use classifier::{Classifier, Schooling, Sequences};
pub use recurrent::{Baseline, Training, train};
pub use weights::{Affine, Weights};
pub use wishart::Wishart;

/// Which network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Two stacked LSTMs of 64 units.
    Lstm,
    /// Two encoder layers, hidden size 64, two heads.
    Transformer,
}
