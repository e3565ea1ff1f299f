//! Which column of a file plays which part: series, time, state, input, or none.

use super::LoadOptions;
use super::cell::quote;
use super::nearest::nearest;
use super::note::{LeftOut, Note};
use std::collections::HashSet;

/// The part of one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Unused,
    Series,
    Time,
    /// The `order`-th state; `asked` for by name, or taken because it was there.
    State {
        order: usize,
        asked: bool,
    },
    /// The `order`-th input.
    Input {
        order: usize,
    },
}

/// The parts of all columns of a file.
#[derive(Debug)]
pub(super) struct Roles {
    /// One for each column of the file.
    pub of_column: Vec<Role>,
    /// Nobody asked for the time column; it was taken for its name.
    pub time_by_name: bool,
    /// What was decided here.
    pub notes: Vec<Note>,
}

impl Roles {
    /// Hands out the parts; fails for a name that is not there, or wanted twice.
    pub fn choose(names: &[String], options: &LoadOptions) -> Result<Roles, String> {
        let mut seen = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !name.is_empty() && !seen.insert(name.as_str())) {
            return Err(format!("two columns have the name {}", quote(twice)));
        }
        let mut roles =
            Roles { of_column: vec![Role::Unused; names.len()], time_by_name: false, notes: Vec::new() };
        if let Some(name) = &options.series_column {
            roles.give(names, name, Role::Series)?;
        }
        if let Some(name) = &options.time_column {
            roles.give(names, name, Role::Time)?;
        }
        for (order, name) in options.input_columns.iter().enumerate() {
            roles.give(names, name, Role::Input { order })?;
        }
        for (order, name) in options.state_columns.iter().flatten().enumerate() {
            roles.give(names, name, Role::State { order, asked: true })?;
        }
        if options.time_column.is_none() {
            roles.take_time_by_name(names);
        }
        if options.state_columns.is_none() {
            roles.take_every_other_column(names);
        }
        Ok(roles)
    }

    fn give(&mut self, names: &[String], wanted: &str, role: Role) -> Result<(), String> {
        let Some(column) = names.iter().position(|name| name == wanted) else {
            let nearest = nearest(wanted, names).map(|name| format!("; did you mean {}?", quote(name)));
            return Err(format!("there is no column {}{}", quote(wanted), nearest.unwrap_or_default()));
        };
        match self.of_column[column] {
            Role::Unused => self.of_column[column] = role,
            taken => {
                let (first, second, wanted) = (taken.noun(), role.noun(), quote(wanted));
                return Err(format!("column {wanted} cannot be used twice, as {first} and as {second}"));
            }
        }
        Ok(())
    }

    fn take_time_by_name(&mut self, names: &[String]) {
        let called_time = |name: &str| ["t", "time"].iter().any(|time| name.eq_ignore_ascii_case(time));
        let free = |n: &usize| self.of_column[*n] == Role::Unused && called_time(&names[*n]);
        if let Some(column) = (0..names.len()).find(free) {
            self.of_column[column] = Role::Time;
            self.time_by_name = true;
            self.notes.push(Note::TimeByName { column: names[column].clone() });
        }
    }

    fn take_every_other_column(&mut self, names: &[String]) {
        for (order, name) in names.iter().enumerate() {
            if self.of_column[order] != Role::Unused {
                continue;
            }
            if name.is_empty() {
                let column = (order + 1).to_string();
                self.notes.push(Note::LeftOut { column, why: LeftOut::Unnamed });
            } else {
                self.of_column[order] = Role::State { order, asked: false };
            }
        }
    }
}

impl Role {
    fn noun(self) -> &'static str {
        match self {
            Role::Unused => "nothing",
            Role::Series => "series",
            Role::Time => "time",
            Role::State { .. } => "state",
            Role::Input { .. } => "input",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn a_wrong_name_finds_the_nearest() {
        let options = LoadOptions { state_columns: Some(names(&["TMEP"])), ..LoadOptions::default() };
        let why = Roles::choose(&names(&["pressure", "temp", "t"]), &options).unwrap_err();
        assert_eq!(why, "there is no column `TMEP`; did you mean `temp`?");
    }

    #[test]
    fn columns_keep_the_order_asked_for() {
        let options = LoadOptions {
            state_columns: Some(names(&["c", "a"])),
            input_columns: names(&["b"]),
            ..LoadOptions::default()
        };
        let roles = Roles::choose(&names(&["a", "b", "c", "d"]), &options).unwrap();
        let state = |order| Role::State { order, asked: true };
        assert_eq!(roles.of_column, [state(1), Role::Input { order: 0 }, state(0), Role::Unused]);
    }

    #[test]
    fn the_time_is_known_by_its_name_unless_it_is_used_otherwise() {
        let file = names(&["x", "Time", "", "T"]);
        let roles = Roles::choose(&file, &LoadOptions::default()).unwrap();
        let state = |order| Role::State { order, asked: false };
        assert_eq!(roles.of_column, [state(0), Role::Time, Role::Unused, state(3)]);
        assert!(roles.time_by_name && roles.notes.len() == 2, "{:?}", roles.notes);

        let options = LoadOptions { state_columns: Some(names(&["T", "Time"])), ..LoadOptions::default() };
        assert!(!Roles::choose(&file, &options).unwrap().time_by_name);
    }

    #[test]
    fn no_column_has_two_names_or_two_parts() {
        let twice = Roles::choose(&names(&["a", "b", "a"]), &LoadOptions::default()).unwrap_err();
        assert_eq!(twice, "two columns have the name `a`");
        let options = LoadOptions {
            time_column: Some("a".into()),
            state_columns: Some(names(&["a"])),
            ..LoadOptions::default()
        };
        let twice = Roles::choose(&names(&["a", "b"]), &options).unwrap_err();
        assert_eq!(twice, "column `a` cannot be used twice, as time and as state");
        assert!(Roles::choose(&names(&["", "", "x"]), &LoadOptions::default()).is_ok());
    }
}
