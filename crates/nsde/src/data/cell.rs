//! What one cell of a table means: missing, a number, or text.

use super::stamp::Stamp;

/// Longest text from a file that a message repeats.
const LONGEST_QUOTE: usize = 60;

/// One cell as a format stores it. Text formats give [`Cell::Text`] throughout.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cell<'a> {
    Missing,
    Number(f64),
    Text(&'a str),
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "other formats write stamps as text"))]
    Stamp(Stamp),
}

/// What a text says where a number is expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Missing,
    /// Finite.
    Number(f64),
    /// `inf`, or a number beyond the range of `f64`.
    Infinite,
    /// Not a number, but would be one with a point in place of the comma.
    DecimalComma,
    Text,
}

impl Value {
    /// Reads `text`; blanks around it do not count.
    ///
    /// Missing are the empty text, `-`, and in either case `NA`, `NaN` and `null`.
    pub fn read(text: &str) -> Value {
        let text = text.trim();
        let missing = ["NA", "NaN", "null"].iter().any(|word| text.eq_ignore_ascii_case(word));
        if text.is_empty() || text == "-" || missing {
            return Value::Missing;
        }
        match text.parse::<f64>() {
            Ok(x) => Value::of(x),
            Err(_) if text.replacen(',', ".", 1).parse::<f64>().is_ok() => Value::DecimalComma,
            Err(_) => Value::Text,
        }
    }

    /// Sorts a number a file gave: `NaN` is missing.
    pub fn of(x: f64) -> Value {
        match x {
            x if x.is_nan() => Value::Missing,
            x if x.is_infinite() => Value::Infinite,
            x => Value::Number(x),
        }
    }
}

/// A name from a file on one line, so that a message with it is one too.
pub(super) fn one_line(name: &str) -> String {
    name.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// `text` in quotes on one line, shortened if long.
pub(super) fn quote(text: &str) -> String {
    let text = text.trim();
    let mut short: String = text.chars().take(LONGEST_QUOTE).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST_QUOTE).is_some() {
        short.push('…');
    }
    format!("`{short}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_to_write_nothing_are_missing() {
        for text in ["", " ", "NA", "NaN", "nan", "null", "NULL", "-", " NA ", "-nan"] {
            assert_eq!(Value::read(text), Value::Missing, "{text:?}");
        }
    }

    #[test]
    fn numbers_are_read_to_the_last_digit() {
        for (text, x) in [("1", 1.0), (" -0.1\t", -0.1), ("+2.5E3", 2500.0), (".5", 0.5), ("5e-324", 5e-324)]
        {
            assert_eq!(Value::read(text), Value::Number(x), "{text:?}");
        }
    }

    #[test]
    fn the_infinite_is_told_from_text() {
        for text in ["inf", "-inf", "Infinity", "1e999"] {
            assert_eq!(Value::read(text), Value::Infinite, "{text:?}");
        }
        for text in ["abc", "1 000", "--", "N/A", "0x10", "2014-01-01", "1,2,3"] {
            assert_eq!(Value::read(text), Value::Text, "{text:?}");
        }
        assert_eq!(Value::read("1,5"), Value::DecimalComma);
    }

    #[test]
    fn quotes_stay_on_one_short_line() {
        assert_eq!(quote(" a\nb "), "`a\\nb`");
        assert_eq!(one_line("\u{1b} a\r\nb  c "), "a b c");
        assert_eq!(quote(&"x".repeat(1000)).chars().count(), LONGEST_QUOTE + 3);
    }
}
