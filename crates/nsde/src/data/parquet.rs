//! Parquet files, row by row; only with the feature `parquet`.

use super::builder::{Builder, Counting};
use super::cell::{Cell, one_line};
use super::fallible::caught;
use super::note::{LeftOut, Note};
use super::stamp::Stamp;
use super::{Dataset, LoadOptions, data_error};
use crate::error::Result;
use ::parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::Field;
use ::parquet::schema::types::Type;
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;

/// Reads the table in `bytes`. Nested columns and raw bytes are left out with a note.
pub(super) fn read(path: &Path, bytes: Vec<u8>, options: &LoadOptions) -> Result<Dataset> {
    // The reader trusts lengths and offsets of the file, and panics where they are wrong.
    caught(|| read_rows(path, bytes, options)).unwrap_or_else(|why| {
        let why = format!("the file is damaged, its reader gave up: {}; write it again", one_line(&why));
        Err(data_error(path, None, why))
    })
}

fn read_rows(path: &Path, bytes: Vec<u8>, options: &LoadOptions) -> Result<Dataset> {
    let broken = |why: ParquetError| data_error(path, None, why.to_string().replace('\n', " "));
    let reader = SerializedFileReader::new(Bytes::from(bytes)).map_err(broken)?;
    let schema = reader.metadata().file_metadata().schema();
    let (usable, others): (Vec<_>, Vec<_>) = schema.get_fields().iter().cloned().partition(readable);
    let names: Vec<String> = usable.iter().map(|field| one_line(field.name())).collect();
    let times: Vec<Option<Clock>> = usable.iter().map(Clock::of).collect();
    let wanted = Type::group_type_builder(schema.name()).with_fields(usable).build().map_err(broken)?;

    let mut builder = Builder::new(path, &names, None, Counting::Rows, options)?;
    for field in others {
        let (column, why) = (one_line(field.name()), LeftOut::Type { found: kind(&field) });
        builder.note(Note::LeftOut { column, why });
    }
    for (place, row) in reader.get_row_iter(Some(wanted)).map_err(broken)?.enumerate() {
        let fields = row.map_err(broken)?.into_columns();
        let cells = fields.iter().zip(&times).map(|((_, field), clock)| cell(field, *clock));
        builder.row(place as u64, cells)?;
    }
    builder.finish()
}

/// How a column counts time.
#[derive(Clone, Copy)]
struct Clock {
    /// Nanoseconds of one tick.
    tick: i128,
    offset: Option<i32>,
}

impl Clock {
    fn of(field: &Arc<Type>) -> Option<Clock> {
        let info = field.get_basic_info();
        let (unit, utc) = match (info.logical_type_ref(), info.converted_type()) {
            (Some(LogicalType::Timestamp(kind)), _) => (kind.unit, kind.is_adjusted_to_u_t_c),
            (_, ConvertedType::TIMESTAMP_MILLIS) => (TimeUnit::MILLIS, true),
            (_, ConvertedType::TIMESTAMP_MICROS) => (TimeUnit::MICROS, true),
            // The reader gives this old kind in milliseconds.
            _ if field.get_physical_type() == Physical::INT96 => (TimeUnit::MILLIS, false),
            _ => return None,
        };
        let tick = match unit {
            TimeUnit::MILLIS => 1_000_000,
            TimeUnit::MICROS => 1_000,
            TimeUnit::NANOS => 1,
        };
        Some(Clock { tick, offset: utc.then_some(0) })
    }

    fn stamp(self, ticks: i64) -> Stamp {
        Stamp { nanos: i128::from(ticks) * self.tick, offset: self.offset }
    }
}

/// Whether a column holds one number, text or time per row.
fn readable(field: &Arc<Type>) -> bool {
    let info = field.get_basic_info();
    if field.is_group() || info.repetition() == Repetition::REPEATED {
        return false;
    }
    let kind = info.converted_type();
    match field.get_physical_type() {
        Physical::BYTE_ARRAY => {
            matches!(
                kind,
                ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON | ConvertedType::DECIMAL
            )
        }
        Physical::FIXED_LEN_BYTE_ARRAY => {
            kind == ConvertedType::DECIMAL || info.logical_type_ref() == Some(&LogicalType::Float16)
        }
        _ => true,
    }
}

fn kind(field: &Arc<Type>) -> String {
    if field.is_group() { "group".into() } else { format!("{}", field.get_physical_type()) }
}

fn cell(field: &Field, clock: Option<Clock>) -> Cell<'_> {
    match field {
        Field::Bool(x) => Cell::Number(u8::from(*x).into()),
        Field::Byte(x) => Cell::Number((*x).into()),
        Field::Short(x) => Cell::Number((*x).into()),
        Field::Int(x) => Cell::Number((*x).into()),
        Field::UByte(x) => Cell::Number((*x).into()),
        Field::UShort(x) => Cell::Number((*x).into()),
        Field::UInt(x) => Cell::Number((*x).into()),
        Field::ULong(x) => Cell::Number(*x as f64),
        Field::Float16(x) => Cell::Number(x.to_f64()),
        Field::Float(x) => Cell::Number((*x).into()),
        Field::Double(x) => Cell::Number(*x),
        Field::Decimal(_) => field.to_string().parse().map_or(Cell::Missing, Cell::Number),
        Field::Str(text) => Cell::Text(text),
        Field::Date(days) => {
            Cell::Stamp(Stamp { nanos: i128::from(*days) * 86_400_000_000_000, offset: None })
        }
        Field::Long(ticks) | Field::TimestampMillis(ticks) | Field::TimestampMicros(ticks) => {
            clock.map_or(Cell::Number(*ticks as f64), |clock| Cell::Stamp(clock.stamp(*ticks)))
        }
        Field::TimeMillis(x) => Cell::Number((*x).into()),
        Field::TimeMicros(x) => Cell::Number(*x as f64),
        Field::Null | Field::Bytes(_) | Field::Group(_) | Field::ListInternal(_) | Field::MapInternal(_) => {
            Cell::Missing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by PyArrow 26.0.1; see `fixtures/make.py`.
    const NANOSECONDS: &[u8] = include_bytes!("fixtures/ns.parquet");
    const MILLISECONDS: &[u8] = include_bytes!("fixtures/ms.parquet");

    fn load(bytes: &[u8], options: &LoadOptions) -> Result<Dataset> {
        read(Path::new("a.parquet"), bytes.to_vec(), options)
    }

    #[test]
    fn numbers_text_and_times_are_read() {
        let options = LoadOptions {
            series_column: Some("tank".into()),
            time_column: Some("when".into()),
            ..LoadOptions::default()
        };
        for (bytes, origin) in [(NANOSECONDS, "2014-01-01T00:00:00"), (MILLISECONDS, "2014-01-01T00:00:00Z")]
        {
            let data = load(bytes, &options).unwrap();
            assert_eq!(data.columns, ["level", "count", "open", "price"]);
            assert_eq!(data.time.origin.as_deref(), Some(origin));
            assert_eq!((data.series[1].name.as_str(), &data.series[1].times[..]), ("b", &[1.0, 3.0][..]));
            assert_eq!(data.series[0].values[..4], [1.5, 1.0, 1.0, 1.25]);
            assert!(data.series[0].values[7].is_nan() && data.series[1].values[0].is_nan());
            assert_eq!(data.series[1].values[1..4], [2.0, 0.0, -3.5]);
            assert!(
                data.notes
                    .iter()
                    .any(|note| note.to_string() == "column `words` is of type group and is left out")
            );
        }
    }

    #[test]
    fn times_nobody_asked_for_are_left_out_like_text() {
        let data = load(NANOSECONDS, &LoadOptions::default()).unwrap();
        assert_eq!((data.columns.len(), data.rows()), (4, 4));
        let text: Vec<String> = data.notes.iter().map(Note::to_string).collect();
        assert!(text.iter().any(|note| note.starts_with("column `when` holds text")), "{text:?}");
    }

    #[test]
    fn damage_is_an_error_of_one_line() {
        let why = load(&NANOSECONDS[..500], &LoadOptions::default()).unwrap_err().to_string();
        assert!(!why.contains('\n') && why.starts_with("a.parquet: "), "{why}");
        // A changed byte is noticed or not, but nobody panics, and a message is one line.
        for place in 0..MILLISECONDS.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut bytes = MILLISECONDS.to_vec();
                bytes[place] ^= change;
                if let Err(why) = load(&bytes, &LoadOptions::default()) {
                    let why = why.to_string();
                    assert!(!why.contains('\n') && why.starts_with("a.parquet: "), "{place}: {why}");
                }
            }
        }
        let options = LoadOptions { state_columns: Some(vec!["levl".into()]), ..LoadOptions::default() };
        let why = load(NANOSECONDS, &options).unwrap_err().to_string();
        assert_eq!(why, "a.parquet: there is no column `levl`; did you mean `level`?");
    }
}
