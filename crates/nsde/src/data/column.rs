//! One column of numbers while it is read: missing values, and text where numbers should be.

use super::cell::{Cell, Value, quote};
use super::role::Role;

/// Texts at the beginning of a column after which nobody expects a number any more.
const TEXTS_TO_GIVE_UP: usize = 100;

/// A state or an input, one value per row of the file.
pub(super) struct Column {
    pub name: String,
    pub role: Role,
    /// `NaN` where missing; empty once the column has turned out to be text.
    pub values: Vec<f64>,
    numbers: bool,
    texts: usize,
    first_text: Option<(usize, String)>,
}

/// Why a cell does not fit, and in which row (counted from 0) the culprit is.
pub(super) type Misfit = (usize, String);

impl Column {
    pub fn new(name: String, role: Role) -> Self {
        Column { name, role, values: Vec::new(), numbers: false, texts: 0, first_text: None }
    }

    /// Adds the cell of row `row`.
    pub fn push(&mut self, row: usize, cell: Cell<'_>) -> Result<(), Misfit> {
        if self.texts >= TEXTS_TO_GIVE_UP {
            return Ok(());
        }
        let value = match cell {
            Cell::Missing => Value::Missing,
            Cell::Number(x) => Value::of(x),
            Cell::Text(text) => Value::read(text),
            Cell::Stamp(_) => Value::Text,
        };
        match value {
            Value::Missing => self.values.push(f64::NAN),
            Value::Number(x) => {
                if let Some((row, text)) = &self.first_text {
                    return Err((*row, self.not_a_number(text)));
                }
                self.numbers = true;
                self.values.push(x);
            }
            Value::Infinite => {
                return Err((row, format!("column `{}`: {} is not finite", self.name, show(cell))));
            }
            Value::DecimalComma => {
                let (name, text) = (&self.name, show(cell));
                return Err((
                    row,
                    format!("column `{name}`: {text} has a comma; write numbers with a decimal point"),
                ));
            }
            Value::Text => self.push_text(row, cell)?,
        }
        Ok(())
    }

    fn push_text(&mut self, row: usize, cell: Cell<'_>) -> Result<(), Misfit> {
        let may_be_text = matches!(self.role, Role::State { asked: false, .. });
        if self.numbers || !may_be_text {
            return Err((row, self.not_a_number(&show(cell))));
        }
        self.first_text.get_or_insert_with(|| (row, show(cell)));
        self.texts += 1;
        self.values.push(f64::NAN);
        if self.texts >= TEXTS_TO_GIVE_UP {
            self.values = Vec::new();
        }
        Ok(())
    }

    fn not_a_number(&self, text: &str) -> String {
        format!("column `{}`: {text} is not a number", self.name)
    }

    /// An example, if the column holds text.
    pub fn text(&self) -> Option<&str> {
        self.first_text.as_ref().map(|(_, text)| text.as_str())
    }
}

fn show(cell: Cell<'_>) -> String {
    match cell {
        Cell::Missing => "nothing".into(),
        Cell::Number(x) => quote(&x.to_string()),
        Cell::Text(text) => quote(text),
        Cell::Stamp(stamp) => quote(&stamp.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(asked: bool, texts: &[&str]) -> Result<Column, Misfit> {
        let mut column = Column::new("x".into(), Role::State { order: 0, asked });
        texts.iter().enumerate().try_for_each(|(row, text)| column.push(row, Cell::Text(text)))?;
        Ok(column)
    }

    #[test]
    fn a_column_of_words_is_text() {
        let column = read(false, &["NA", "north", "", "south"]).unwrap();
        assert_eq!(column.text(), Some("`north`"));
        let mut words = vec!["word"; TEXTS_TO_GIVE_UP];
        words.push("1"); // too late
        assert_eq!(read(false, &words).unwrap().text(), Some("`word`"));
    }

    #[test]
    fn a_word_among_numbers_is_an_error_wherever_it_stands() {
        for (texts, culprit) in [(["1", "NA", "two"], 2), (["one", "2", "3"], 0)] {
            let (row, why) = read(false, &texts).err().unwrap();
            assert_eq!(row, culprit);
            assert_eq!(why, format!("column `x`: `{}` is not a number", texts[culprit]));
        }
        assert_eq!(read(true, &["north", "south"]).err().unwrap().0, 0);
    }

    #[test]
    fn infinities_and_decimal_commas_are_errors() {
        assert_eq!(
            read(false, &["1", "-inf"]).err().unwrap(),
            (1, "column `x`: `-inf` is not finite".into())
        );
        assert!(read(false, &["1,5"]).err().unwrap().1.contains("decimal point"));
    }
}
