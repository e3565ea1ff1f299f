//! The recordings of the Schunk arm: a hundred folders of time, trajectory and input, as one table.

use super::{Made, numbers, row};
use anyhow::{Result, ensure};
use std::path::Path;

/// Recordings.
const RUNS: usize = 100;
/// The last recording of each motion.
const PROFILES: [usize; 6] = [20, 40, 60, 79, 93, RUNS];
/// Joints.
const JOINTS: usize = 6;

/// The table. A torque acts from its row to the next: the last row of a recording has none.
pub fn make(from: &Path) -> Result<Vec<Made>> {
    let joints = |what: &str| (1..=JOINTS).map(|j| format!("{what}{j}")).collect::<Vec<_>>();
    let names =
        [vec!["run".into(), "profile".into(), "t".into()], joints("q"), joints("dq"), joints("tau")].concat();
    let mut out = names.join(",") + "\n";
    for run in 1..=RUNS {
        let folder = from.join("Robot").join(format!("measurement_{run}"));
        let read = |file: &str| numbers(&folder.join(file), |c| c == ',' || c.is_whitespace());
        let (time, state, torque) = (read("time.csv")?, read("trajectory.csv")?, read("input.csv")?);
        ensure!(
            time.len() == state.len() && torque.len() + 1 >= state.len(),
            "measurement_{run}: {} times, {} states, {} inputs",
            time.len(),
            state.len(),
            torque.len()
        );
        let profile = 1 + PROFILES.iter().take_while(|last| run > **last).count();
        for (n, (t, x)) in time.iter().zip(&state).enumerate() {
            let none = vec![f64::NAN; JOINTS];
            let tau = torque.get(n).filter(|_| n + 1 < state.len()).unwrap_or(&none);
            out += &row(&[&[run as f64, profile as f64], t.as_slice(), x, tau].concat());
        }
    }
    Ok(vec![Made { name: "robot/schunk6dof.csv.gz".into(), content: out.into() }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_become_rows_and_the_last_of_each_has_no_torque() {
        let from = tempfile::tempdir().unwrap();
        for run in 1..=RUNS {
            let folder = from.path().join(format!("Robot/measurement_{run}"));
            std::fs::create_dir_all(&folder).unwrap();
            let state = |t: usize| {
                (0..12).map(|i| format!("{}", run * 100 + 12 * t + i)).collect::<Vec<_>>().join(",")
            };
            std::fs::write(folder.join("time.csv"), "0\n0.004\n").unwrap();
            std::fs::write(folder.join("trajectory.csv"), format!("{}\n{}\n", state(0), state(1))).unwrap();
            std::fs::write(folder.join("input.csv"), "1,2,3,4,5,6\n").unwrap();
        }
        let made = make(from.path()).unwrap().remove(0);
        let text = String::from_utf8(made.content).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + 2 * RUNS);
        assert!(
            lines[0].starts_with("run,profile,t,q1,q2")
                && lines[0].ends_with("dq6,tau1,tau2,tau3,tau4,tau5,tau6")
        );
        assert_eq!(lines[1], "1,1,0,100,101,102,103,104,105,106,107,108,109,110,111,1,2,3,4,5,6");
        assert!(lines[2].starts_with("1,1,0.004,112,") && lines[2].ends_with(",123,NaN,NaN,NaN,NaN,NaN,NaN"));
        // The first recording of the fourth motion, the last of the fifth.
        assert!(lines[1 + 2 * 60].starts_with("61,4,0,") && lines[1 + 2 * 92].starts_with("93,5,0,"));
    }
}
