//! A batch of rollouts over NumPy arrays: nothing is copied but the trajectories at work.

use crate::error::{Result, refuse};
use nsde::{Gaussian, Model};
use numpy::{PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::FromPyObject;

type Array<'py> = PyReadonlyArrayDyn<'py, f64>;

/// What Python hands over, C-contiguous and of the right number of dimensions: `mean [B, D]`, `cov [D, D]`
/// or `[B, D, D]` or nothing, step sizes `[K]`, and `inputs [K, U]` or `[K, B, U]` or nothing.
#[derive(FromPyObject)]
pub struct Arrays<'py>(Array<'py>, Option<Array<'py>>, Array<'py>, Option<Array<'py>>);

/// Slices of these arrays.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    /// Number of trajectories `B`.
    pub count: usize,
    /// Step sizes, `[K]`.
    pub dts: &'a [f64],
    mean: &'a [f64],
    cov: Option<(&'a [f64], bool)>,
    inputs: Option<(&'a [f64], bool)>,
}

fn slice<'a>(what: &str, array: &'a Array<'_>) -> Result<&'a [f64]> {
    match array.as_slice() {
        Ok(values) => Ok(values),
        Err(_) => refuse(format!("{what}: expected a C-contiguous array")),
    }
}

fn shape(what: &str, array: &Array<'_>, allowed: &[&[usize]]) -> Result<()> {
    if allowed.contains(&array.shape()) {
        return Ok(());
    }
    let list: Vec<String> = allowed.iter().map(|s| format!("{s:?}")).collect();
    refuse(format!("{what}: expected shape {}, found {:?}", list.join(" or "), array.shape()))
}

/// The values, and whether every trajectory has its own.
fn perhaps_each<'a>(what: &str, array: &'a Option<Array<'_>>) -> Result<Option<(&'a [f64], bool)>> {
    array.as_ref().map(|a| Ok((slice(what, a)?, a.ndim() == 3))).transpose()
}

impl Arrays<'_> {
    /// Checks the shapes against the model.
    pub fn batch(&self, model: &Model) -> Result<Batch<'_>> {
        let (state, width) = (model.sde.state(), model.sde.inputs());
        let Arrays(mean, cov, dts, inputs) = self;
        let count = mean.shape().first().copied().unwrap_or(0);
        shape("x0", mean, &[&[count, state]])?;
        let steps = dts.len();
        if let Some(cov) = cov {
            shape("cov", cov, &[&[state, state], &[count, state, state]])?;
        }
        if let Some(inputs) = inputs {
            shape("inputs", inputs, &[&[steps, width], &[steps, count, width]])?;
        } else if width > 0 {
            return refuse(format!(
                "inputs: the model has {width} control inputs; give an array of shape [{steps}, {width}] \
                 or [{steps}, {count}, {width}]"
            ));
        }
        Ok(Batch {
            count,
            dts: slice("dt", dts)?,
            mean: slice("x0", mean)?,
            cov: perhaps_each("cov", cov)?,
            inputs: perhaps_each("inputs", inputs)?,
        })
    }
}

impl Batch<'_> {
    /// The start of trajectory `i` in the units of the networks, checked in those of the data.
    pub fn start(&self, model: &Model, i: usize) -> nsde::Result<Gaussian> {
        let d = model.sde.state();
        let mean = self.mean[i * d..(i + 1) * d].to_vec();
        let start = match self.cov {
            None => model.start(mean)?,
            Some((cov, each)) => {
                let from = if each { i * d * d } else { 0 };
                Gaussian::new(mean, cov[from..from + d * d].to_vec())?
            }
        };
        Ok(model.to_net_start(&start))
    }

    /// The control inputs of trajectory `i`, `[K, U]`, in the units of the networks.
    pub fn inputs(&self, model: &Model, i: usize) -> Vec<f64> {
        let (steps, u) = (self.dts.len(), model.sde.inputs());
        match self.inputs {
            None => Vec::new(),
            Some((all, false)) => model.to_net_inputs(all),
            Some((all, true)) => {
                let row = |k: usize| &all[(k * self.count + i) * u..][..u];
                model.to_net_inputs(&(0..steps).flat_map(row).copied().collect::<Vec<_>>())
            }
        }
    }
}
