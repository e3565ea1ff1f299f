//! Recordings of robots: the paper's own in its published layout, if the user has it, or else the stand-in.

use crate::run::Run;
use crate::standard::dataset;
use anyhow::{Context, Result, bail};
use candle_core::{DType, Tensor};
use nsde::data::{Dataset, Series};
use std::ops::RangeInclusive;
use std::path::Path;

/// Recordings of one robot, in the units of the file.
pub struct Robot {
    /// Seconds between rows.
    pub dt: f64,
    /// What it is, for the page.
    pub about: String,
    /// Whether it is the paper's.
    pub published: bool,
    /// Learned from.
    pub train: Dataset,
    /// Chooses the weights that are kept.
    pub held_out: Dataset,
    /// The test of the same motions.
    pub same: Dataset,
    /// The test of other motions.
    pub transfer: Dataset,
    /// Test pieces begin this many rows apart.
    pub every: usize,
}

impl Robot {
    /// The paper's robot if its files are there, or else the stand-in.
    pub fn read(run: &Run, steps: usize) -> Result<Robot> {
        let files = FINGER.map(|file| run.data.path(file));
        if files.iter().any(|file| file.is_file()) {
            let files = files.each_ref().map(|file| file.as_path());
            return finger(files, steps);
        }
        schunk(run, steps)
    }
}

/// The paper's robot: training, test of the same controllers, test of other ones.
const FINGER: [&str; 3] = ["robot/3dof_train.npz", "robot/3dof_same.npz", "robot/3dof_transfer.npz"];

/// Joints of the finger.
const FINGER_JOINTS: usize = 3;

/// The finger of three joints: angles, speeds and measured torques are the state, the torques that were sent the inputs.
fn finger(files: [&Path; 3], steps: usize) -> Result<Robot> {
    let [train, same, transfer] = files;
    let mut learned = rollouts(train)?;
    if learned.len() < 2 {
        bail!("{}: at least two rollouts are needed, one of them to choose the weights", train.display());
    }
    let kept = learned.len().div_ceil(10);
    let held_out = learned.split_off(learned.len() - kept);
    let about = format!(
        "The paper's finger of three joints, 1000 rows a second; the state is angles, speeds and measured torques, the inputs are the \
         torques that were sent. {} rollouts train, the last {kept} of the file choose the weights that are kept.",
        learned.len()
    );
    let names = |kinds: &[&str]| -> Vec<String> {
        kinds.iter().flat_map(|kind| (1..=FINGER_JOINTS).map(move |j| format!("{kind}{j}"))).collect()
    };
    let data = |series| dataset(&names(&["q", "dq", "tau"]), &names(&["u"]), series);
    Ok(Robot {
        dt: 0.001,
        about,
        published: true,
        train: data(learned),
        held_out: data(held_out),
        same: data(rollouts(same)?),
        transfer: data(rollouts(transfer)?),
        every: 10 * steps,
    })
}

/// The rollouts of a file in the published layout: arrays `[rollouts, rows, joints]` by name.
fn rollouts(path: &Path) -> Result<Vec<Series>> {
    let names = ["measured_angles", "measured_velocities", "measured_torques", "constrained_torques"];
    let arrays = Tensor::read_npz_by_name(path, &names).with_context(|| {
        format!("{}: cannot read the arrays {} of the paper's robot", path.display(), names.join(", "))
    })?;
    let mut values = Vec::new();
    for (name, array) in names.iter().zip(&arrays) {
        if array.dims() != arrays[0].dims() || array.dims().len() != 3 || array.dims()[2] != FINGER_JOINTS {
            bail!(
                "{}: `{name}` has the shape {:?}; all four arrays must be [rollouts, rows, {FINGER_JOINTS}]",
                path.display(),
                array.dims()
            );
        }
        values.push(array.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>()?);
    }
    if let Some(name) = names.iter().zip(&values).find(|(_, v)| v.iter().any(|x| !x.is_finite())) {
        bail!("{}: `{}` holds a number that is not finite", path.display(), name.0);
    }
    let (count, rows) = (arrays[0].dims()[0], arrays[0].dims()[1]);
    let row = |array: usize, place: usize| &values[array][place * FINGER_JOINTS..(place + 1) * FINGER_JOINTS];
    let series = |s: usize| Series {
        name: s.to_string(),
        times: (0..rows).map(|t| t as f64 * 0.001).collect(),
        values: (0..rows)
            .flat_map(|t| (0..3).flat_map(move |array| row(array, s * rows + t)))
            .copied()
            .collect(),
        inputs: (0..rows).flat_map(|t| row(3, s * rows + t)).copied().collect(),
    };
    Ok((0..count).map(series).collect())
}

/// Joints of the stand-in: angles and speeds are the state, torques the inputs.
const JOINTS: usize = 6;

/// The Schunk arm. Columns `run`, `profile`, `t`, then angles, speeds, torques.
fn schunk(run: &Run, steps: usize) -> Result<Robot> {
    const DT: f64 = 0.004;
    let (columns, rows) = run.data.table("robot/schunk6dof.csv.gz")?;
    if columns.len() != 3 + 3 * JOINTS {
        bail!("the table of the arm has {} columns", columns.len());
    }
    let mut recordings: Vec<(usize, Series)> = Vec::new();
    for row in rows {
        let number = row[0] as usize;
        if recordings.last().is_none_or(|(n, _)| *n != number) {
            let empty = Series {
                name: number.to_string(),
                times: Vec::new(),
                values: Vec::new(),
                inputs: Vec::new(),
            };
            recordings.push((number, empty));
        }
        if let Some((_, series)) = recordings.last_mut() {
            series.times.push(series.times.len() as f64 * DT);
            series.values.extend(&row[3..3 + 2 * JOINTS]);
            // No torque acts after the last row, and the file has none.
            series.inputs.extend(row[3 + 2 * JOINTS..].iter().map(|u| if u.is_nan() { 0.0 } else { *u }));
        }
    }
    let (state, inputs) = columns[3..].split_at(2 * JOINTS);
    let some = |numbers: RangeInclusive<usize>| {
        let chosen = recordings.iter().filter(|(n, _)| numbers.contains(n));
        dataset(state, inputs, chosen.map(|(_, s)| s.clone()).collect())
    };
    let about = "Stand-in: a Schunk arm of six joints (Liu and Althoff, IROS 2018), 250 rows a second; the state is angles and \
                 speeds, the inputs are torques. Recordings 1 to 14 train, 15 and 16 choose the weights that are kept (LSTM and \
                 Transformer keep the last ones), 17 to 20 are the test of the same motion, 80 to 93 that of transfer to another, \
                 faster one. Within a motion the torques are the same in every recording.";
    Ok(Robot {
        dt: DT,
        about: about.into(),
        published: false,
        train: some(1..=run.size(14, 2)),
        held_out: some(15..=run.size(16, 15)),
        same: some(17..=20),
        transfer: some(80..=93),
        every: steps,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    /// Arrays whose entries tell where they stand: array, rollout, row, joint.
    fn write(path: &Path, rollouts: usize, rows: usize, joints: usize) {
        let names = ["measured_angles", "measured_velocities", "measured_torques", "constrained_torques"];
        let arrays: Vec<(&str, Tensor)> = (names.iter().enumerate())
            .map(|(a, name)| {
                let at = |i: usize| (1000 * a + 100 * (i / (rows * joints)) + i % (rows * joints)) as f64;
                let values: Vec<f64> = (0..rollouts * rows * joints).map(at).collect();
                (*name, Tensor::from_vec(values, (rollouts, rows, joints), &Device::Cpu).unwrap())
            })
            .collect();
        Tensor::write_npz(&arrays, path).unwrap();
    }

    #[test]
    fn the_published_layout_is_read_row_by_row() {
        let dir = tempfile::tempdir().unwrap();
        let paths = [0, 1, 2].map(|i| dir.path().join(format!("{i}.npz")));
        paths.iter().for_each(|path| write(path, 3, 4, FINGER_JOINTS));
        let robot = finger(paths.each_ref().map(|p| p.as_path()), 2).unwrap();
        assert_eq!((robot.train.series.len(), robot.held_out.series.len()), (2, 1));
        assert_eq!((robot.train.dim(), robot.train.inputs()), (9, 3));
        // Second rollout, third row.
        let series = &robot.same.series[1];
        assert_eq!(series.values[18..27], [106., 107., 108., 1106., 1107., 1108., 2106., 2107., 2108.]);
        assert_eq!(series.inputs[6..9], [3106., 3107., 3108.]);
    }

    #[test]
    fn other_shapes_and_missing_arrays_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        write(&path, 2, 3, 4);
        assert!(rollouts(&path).unwrap_err().to_string().contains("[2, 3, 4]"));
        let one = Tensor::zeros((1, 1, 3), DType::F64, &Device::Cpu).unwrap();
        Tensor::write_npz(&[("measured_angles", one)], &path).unwrap();
        assert!(rollouts(&path).unwrap_err().to_string().contains("measured_velocities"));
    }
}
