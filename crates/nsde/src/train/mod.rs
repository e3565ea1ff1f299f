//! Training (Sec. 6): objectives, an optimiser, and a loop that can be stopped and resumed.

mod adam;
mod checkpoint;
mod classification;
mod forecast;
mod kept;
mod regression;
mod supervised;
mod trainer;
mod window;

pub use adam::{Adam, clip};
pub use checkpoint::{load as load_checkpoint, save as save_checkpoint, write_atomically};
pub use classification::ClassificationTask;
pub use forecast::{Architecture, ForecastTask, Objective};
pub use regression::RegressionTask;
pub use supervised::SupervisedTask;
pub use trainer::{Progress, Record, Task, TrainOptions, TrainState, advance};
pub use window::{Window, WindowOptions, start, window, windows};
