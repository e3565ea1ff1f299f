//! What a reader of data should tell its user: decisions taken, and properties that make a fit harder.

use std::fmt;

/// Something worth knowing about a data set that is no error.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// Nobody named the time column; this one was taken because of its name.
    TimeByName {
        /// Its name.
        column: String,
    },
    /// A column (or array) that nobody asked for is not used.
    LeftOut {
        /// Its name, or its number counted from 1 if it has none.
        column: String,
        /// The reason.
        why: LeftOut,
    },
    /// Some values of a state column are missing. They are never filled in.
    Missing {
        /// Its name.
        column: String,
        /// How many are missing.
        count: usize,
        /// Of how many.
        rows: usize,
    },
    /// A column has the same value in every row where it has one.
    Constant {
        /// Its name.
        column: String,
        /// The value.
        value: f64,
    },
    /// Two state columns are equal in every row: their covariance is singular.
    Identical {
        /// The earlier column.
        first: String,
        /// The later column.
        second: String,
    },
    /// Two state columns are nearly proportional: their covariance is close to singular.
    NearlyIdentical {
        /// The earlier column.
        first: String,
        /// The later column.
        second: String,
        /// Their correlation over at most 256 rows, evenly spread.
        correlation: f64,
    },
    /// Series of a single row, which show no change.
    SingleRow {
        /// The first of them.
        series: String,
        /// How many there are.
        count: usize,
    },
}

/// Why a column is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeftOut {
    /// It holds text.
    Text {
        /// The first text in it, in quotes.
        example: String,
    },
    /// It has no name in the header.
    Unnamed,
    /// Its type is neither number, text nor time (Parquet).
    Type {
        /// The type, in the words of the format.
        found: String,
    },
    /// It is an array beside the ones that are read (NumPy).
    Array,
}

impl Note {
    /// Share of missing values between 0 and 1, if the note is about them.
    pub fn missing_share(&self) -> Option<f64> {
        match self {
            Note::Missing { count, rows, .. } => Some(*count as f64 / *rows as f64),
            _ => None,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::TimeByName { column } => {
                write!(f, "column `{column}` is taken as time because of its name")
            }
            Note::LeftOut { column, why } => match why {
                LeftOut::Text { example } => {
                    write!(
                        f,
                        "column `{column}` holds text ({example}) and is left out; \
                         if it tells series apart, name it with --series-column"
                    )
                }
                LeftOut::Unnamed => write!(f, "column {column} has no name and is left out"),
                LeftOut::Type { found } => write!(f, "column `{column}` is of type {found} and is left out"),
                LeftOut::Array => write!(f, "array `{column}` is left out"),
            },
            Note::Missing { column, count, rows } => {
                let percent = 100.0 * *count as f64 / *rows as f64;
                write!(f, "column `{column}`: {percent:.2} % of the values are missing ({count} of {rows})")
            }
            Note::Constant { column, value } => write!(f, "column `{column}` is constant ({value})"),
            Note::Identical { first, second } => {
                write!(
                    f,
                    "columns `{first}` and `{second}` are equal in every row; leave one out with --state"
                )
            }
            Note::NearlyIdentical { first, second, correlation } => {
                write!(
                    f,
                    "columns `{first}` and `{second}` are nearly proportional (correlation {correlation:.6})"
                )
            }
            Note::SingleRow { series, count: 1 } => {
                write!(f, "series `{series}` has a single row and shows no change")
            }
            Note::SingleRow { series, count } => {
                write!(f, "{count} series have a single row and show no change (the first is `{series}`)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_read_as_sentences() {
        let column = || "x".to_string();
        let missing = Note::Missing { column: column(), count: 1, rows: 8 };
        assert_eq!(missing.to_string(), "column `x`: 12.50 % of the values are missing (1 of 8)");
        assert_eq!(missing.missing_share(), Some(0.125));
        assert_eq!(
            Note::Constant { column: column(), value: 0.5 }.to_string(),
            "column `x` is constant (0.5)"
        );
        let unnamed = Note::LeftOut { column: "3".into(), why: LeftOut::Unnamed };
        assert_eq!(unnamed.to_string(), "column 3 has no name and is left out");
        assert!(Note::TimeByName { column: column() }.to_string().contains("because of its name"));
        let near = Note::NearlyIdentical { first: column(), second: "y".into(), correlation: -0.99995 };
        assert_eq!(near.to_string(), "columns `x` and `y` are nearly proportional (correlation -0.999950)");
        assert!(Note::SingleRow { series: column(), count: 1 }.to_string().starts_with("series `x` has"));
        assert_eq!(near.missing_share(), None);
    }
}
