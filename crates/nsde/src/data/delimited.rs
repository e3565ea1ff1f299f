//! Text tables: fields separated by commas, tabs or semicolons, under one line of names.

use super::builder::{Builder, Counting};
use super::cell::{Cell, one_line};
use super::{Dataset, LoadOptions, data_error};
use crate::error::Result;
use csv::StringRecord;
use std::path::Path;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads the table in `bytes`, the content of the file at `path`.
pub(super) fn read(path: &Path, bytes: &[u8], options: &LoadOptions) -> Result<Dataset> {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let mut lines = Lines { bytes, line: 1, counted: 0 };
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(data_error(path, Some(1), "the text is UTF-16; save it as UTF-8"));
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(bad) => {
            let at = bad.valid_up_to();
            let why = format!("the byte {:02x} is not UTF-8; save the file as UTF-8", bytes[at]);
            return Err(data_error(path, Some(lines.up_to(at)), why));
        }
    };
    if text.trim().is_empty() {
        return Err(data_error(path, None, "the file is empty"));
    }
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(separator(text))
        .from_reader(bytes);
    let mut next = |record: &mut StringRecord| {
        let found = reader.read_record(record).map_err(|bad| data_error(path, None, bad.to_string()))?;
        Ok(found.then(|| record.position().map_or(0, |place| place.byte() as usize)))
    };

    let mut record = StringRecord::new();
    let header = next(&mut record)?.map(|at| lines.of_record(at));
    let names: Vec<String> = record.iter().map(one_line).collect();
    if looks_like_data(&names) {
        let why = "numbers stand where the names of the columns should be; add a line with names";
        return Err(data_error(path, header, why));
    }
    let mut builder = Builder::new(path, &names, header, Counting::Lines, options)?;
    while let Some(at) = next(&mut record)? {
        let line = lines.of_record(at);
        if names.len() == 1 && lines.blank_line_before(at) {
            let why = "an empty line in a table of one column; write NA for a missing value";
            return Err(data_error(path, Some(line - 1), why));
        }
        if record.len() != names.len() {
            if record.iter().all(|field| field.trim().is_empty()) && record.len() == 1 {
                continue; // a line of blanks
            }
            let why = format!("{} fields, but the header has {}", record.len(), names.len());
            return Err(data_error(path, Some(line), why));
        }
        builder.row(line, record.iter().map(Cell::Text))?;
    }
    builder.finish()
}

/// Whether a header can only be a row of data: numbers throughout, and not just the numbers of columns.
fn looks_like_data(names: &[String]) -> bool {
    let number = |name: &String| name.parse::<f64>().is_ok_and(f64::is_finite);
    names.iter().all(number) && names.iter().any(|name| name.bytes().any(|b| !b.is_ascii_digit()))
}

/// The most frequent of comma, tab and semicolon outside quotes in the first line that is not empty.
fn separator(text: &str) -> u8 {
    let mut quoted = false;
    let mut counts = [(0, b','), (0, b'\t'), (0, b';')];
    for byte in text.trim_start_matches(['\r', '\n']).bytes() {
        match byte {
            b'"' => quoted = !quoted,
            b'\n' | b'\r' if !quoted => break,
            _ if quoted => {}
            _ => counts
                .iter_mut()
                .filter(|(_, separator)| *separator == byte)
                .for_each(|(count, _)| *count += 1),
        }
    }
    // The first of equals: a comma when there is none at all.
    counts.into_iter().rev().max_by_key(|(count, _)| *count).map_or(b',', |(_, separator)| separator)
}

/// Counts lines on the way through a text; `\n`, `\r\n` and `\r` each end one.
struct Lines<'a> {
    bytes: &'a [u8],
    line: u64,
    counted: usize,
}

impl Lines<'_> {
    /// The line on which byte `at` stands; must not go back.
    fn up_to(&mut self, at: usize) -> u64 {
        for n in self.counted..at {
            let ends = match self.bytes[n] {
                b'\n' => true,
                b'\r' => self.bytes.get(n + 1) != Some(&b'\n'),
                _ => false,
            };
            self.line += u64::from(ends);
        }
        self.counted = self.counted.max(at);
        self.line
    }

    /// The line of the record the parser began to read at byte `at`: it may have had to skip line ends.
    fn of_record(&mut self, at: usize) -> u64 {
        self.up_to(self.first_of_record(at))
    }

    fn first_of_record(&self, at: usize) -> usize {
        let skipped = self.bytes[at..].iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
        at + skipped
    }

    /// Whether there is an empty line between this record and the one before.
    fn blank_line_before(&self, at: usize) -> bool {
        let before = &self.bytes[..self.first_of_record(at)];
        let one_end =
            before.strip_suffix(b"\r\n").or(before.strip_suffix(b"\n")).or(before.strip_suffix(b"\r"));
        one_end.is_some_and(|rest| rest.ends_with(b"\n") || rest.ends_with(b"\r"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: impl AsRef<[u8]>) -> Result<Dataset> {
        read(Path::new("folder/data.csv.gz"), text.as_ref(), &LoadOptions::default())
    }

    fn refusal(text: impl AsRef<[u8]>) -> String {
        load(text).unwrap_err().to_string().replace("folder/data.csv.gz: ", "")
    }

    #[test]
    fn separators_marks_and_line_ends_make_no_difference() {
        let plain = load("a,b c\n1,2\n3,4\n").unwrap();
        assert_eq!(
            (&plain.series[0].values[..], &plain.series[0].name[..]),
            (&[1.0, 2.0, 3.0, 4.0][..], "data")
        );
        for text in [
            "a;b c\n1;2\n3;4\n",
            "a\tb c\n1\t2\n3\t4",
            "\u{feff}a,b c\r\n1,2\r\n3,4\r\n",
            "\n\n\"a\", b  c \n 1, 2\n\n3,\"4\"\n\n   \n",
            "a,b c\r1,2\r3,4\r",
            "a,\"b\nc\"\n1,2\n3,4\n",
        ] {
            assert_eq!(load(text).unwrap(), plain, "{text:?}");
        }
    }

    #[test]
    fn separators_in_quotes_do_not_count() {
        assert_eq!(separator("\"a;b;c;d\",e\n1;2"), b',');
        assert_eq!(separator("a;b,c;d"), b';');
        assert_eq!(separator("alone"), b',');
    }

    #[test]
    fn files_without_rows_are_refused() {
        assert_eq!(refusal(""), "the file is empty");
        assert_eq!(refusal("\u{feff}\r\n \n"), "the file is empty");
        assert_eq!(refusal("a,b\n"), "there are column names, but no rows");
        assert!(refusal("1.5,2\n3,4\n").starts_with("line 1: numbers stand"));
        assert_eq!(load("0,1\n5,6\n7,8\n").unwrap().columns, ["0", "1"]);
    }

    #[test]
    fn lines_are_counted_through_gaps_and_quotes() {
        for text in [
            "a,b\n1,2\n\n\n3,4,5\n",
            "a,b\r\n1,2\r\n\r\n\r\n3,4,5\r\n",
            "a,\"b\n\n\"\n1,2\n3,4,5\n",
            "a,b\r1,2\r\r\r3,4,5",
        ] {
            assert_eq!(refusal(text), "line 5: 3 fields, but the header has 2", "{text:?}");
        }
        assert_eq!(refusal("a,b\r\n1,2\r\n3,x\r\n"), "line 3: column `b`: `x` is not a number");
    }

    #[test]
    fn an_empty_line_in_a_single_column_is_not_lost() {
        assert!(refusal("a\n1\n\n2\n").starts_with("line 3: an empty line"));
        assert!(refusal("a\r\n1\r\n\r\n2\r\n").starts_with("line 3: an empty line"));
        assert_eq!(load("a\r\n1\r\n2\r\n\r\n\r\n").unwrap().rows(), 2);
        assert!(load("a\n1\n\"\"\n2\n").unwrap().series[0].values[1].is_nan());
    }

    #[test]
    fn other_encodings_are_refused_with_their_line() {
        assert_eq!(
            refusal(b"a,b\n1,2\n3,\xe9\n"),
            "line 3: the byte e9 is not UTF-8; save the file as UTF-8"
        );
        assert!(refusal(b"\xff\xfea\0").contains("UTF-16"));
    }
}
