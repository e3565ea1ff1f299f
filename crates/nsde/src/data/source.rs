//! From a path to a data set: what the first bytes of a file say it is.

use super::{Dataset, LoadOptions, data_error, delimited, numpy};
use crate::error::{Error, Result};
use flate2::read::MultiGzDecoder;
use std::io::Read;
use std::path::Path;

/// First bytes of files that are often taken for tables, and what to do with them.
const NOT_TABLES: [(&[u8], &str); 3] = [
    (b"\xfd7zXZ\0", "this is packed with xz; unpack it, or pack it with gzip"),
    (b"\x28\xb5\x2f\xfd", "this is packed with zstd; unpack it, or pack it with gzip"),
    (b"\x89HDF\r\n", "this is an HDF5 file; convert it to CSV or NumPy"),
];

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Npy,
    Npz,
    Parquet,
}

/// Reads the table at `path`: CSV, TSV or semicolon-separated text, NumPy, or Parquet; gzipped or not.
///
/// The format is told by the first bytes of the file. See [`LoadOptions`] for the parts of the columns.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read, and [`Error::Data`] with a line number where there is one if
/// its content cannot be used.
pub fn load(path: &Path, options: &LoadOptions) -> Result<Dataset> {
    let mut bytes = std::fs::read(path).map_err(|source| Error::Io { path: path.to_path_buf(), source })?;
    if bytes.starts_with(b"\x1f\x8b") {
        let mut unpacked = Vec::new();
        let outcome = MultiGzDecoder::new(&bytes[..]).read_to_end(&mut unpacked);
        outcome
            .map_err(|why| data_error(path, None, format!("the gzip file is damaged or cut off ({why})")))?;
        bytes = unpacked;
    }
    match recognise(path, &bytes)? {
        Format::Text => delimited::read(path, &bytes, options),
        Format::Npy => numpy::read_npy(path, &bytes, options),
        Format::Npz => numpy::read_npz(path, &bytes, options),
        Format::Parquet => parquet(path, bytes, options),
    }
}

#[cfg(feature = "parquet")]
fn parquet(path: &Path, bytes: Vec<u8>, options: &LoadOptions) -> Result<Dataset> {
    super::parquet::read(path, bytes, options)
}

#[cfg(not(feature = "parquet"))]
fn parquet(path: &Path, _: Vec<u8>, _: &LoadOptions) -> Result<Dataset> {
    Err(data_error(path, None, "built without Parquet; convert to CSV or rebuild with --features parquet"))
}

/// Goes by content; a name that promises another format than the content is an error.
fn recognise(path: &Path, bytes: &[u8]) -> Result<Format> {
    if let Some((_, why)) = NOT_TABLES.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Err(data_error(path, None, *why));
    }
    let found = match bytes {
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Format::Npy,
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Format::Npz,
        [b'P', b'A', b'R', b'1', ..] => Format::Parquet,
        _ => Format::Text,
    };
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let promised = match extension.as_str() {
        "npy" => "a NumPy array",
        "npz" => "a NumPy archive",
        "parquet" => "a Parquet file",
        _ => return Ok(found),
    };
    if found == Format::Text && !bytes.is_empty() {
        return Err(data_error(
            path,
            None,
            format!("the name promises {promised}, but the content is not one"),
        ));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn load_as(name: &str, content: &[u8]) -> Result<Dataset> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        load(&path, &LoadOptions::default())
    }

    #[test]
    fn gzip_is_known_by_its_first_bytes() {
        let plain = load_as("data.csv", b"a\n1\n2\n").unwrap();
        assert_eq!(load_as("data.csv.gz", &gzip(b"a\n1\n2\n")).unwrap(), plain);
        assert_eq!(load_as("data.csv", &gzip(b"a\n1\n2\n")).unwrap(), plain);
        // Two gzip files one after the other are one.
        assert_eq!(load_as("data.gz", &[gzip(b"a\n1\n"), gzip(b"2\n")].concat()).unwrap(), plain);
        let cut = gzip(b"a\n1\n2\n");
        let why = load_as("data.gz", &cut[..cut.len() - 6]).unwrap_err().to_string();
        assert!(why.contains("damaged or cut off"), "{why}");
    }

    #[test]
    fn numpy_is_known_by_its_first_bytes() {
        let data = load_as("data.bin", include_bytes!("fixtures/stored.npz")).unwrap();
        assert_eq!((data.rows(), &data.series[0].name[..]), (3, "data"));
    }

    #[test]
    fn a_name_that_promises_something_else_is_an_error() {
        let why = load_as("data.npy", b"a\n1\n2\n").unwrap_err().to_string();
        assert!(
            why.ends_with("data.npy: the name promises a NumPy array, but the content is not one"),
            "{why}"
        );
        assert!(load_as("data.npy", b"").unwrap_err().to_string().ends_with("the file is empty"));
        let sheet = load_as("data.xlsx", b"PK\x03\x04 and no directory").unwrap_err().to_string();
        assert!(sheet.contains("ZIP archive is damaged"), "{sheet}");
        assert!(load_as("data.csv.xz", b"\xfd7zXZ\0\0").unwrap_err().to_string().contains("packed with xz"));
    }

    #[test]
    fn a_file_that_is_not_there_is_the_operating_systems_error() {
        assert!(matches!(load(Path::new("/no/such/file"), &LoadOptions::default()), Err(Error::Io { .. })));
    }

    #[cfg(not(feature = "parquet"))]
    #[test]
    fn without_the_feature_parquet_says_what_to_do() {
        let why = load_as("data.parquet", b"PAR1....PAR1").unwrap_err().to_string();
        assert!(
            why.contains("built without Parquet; convert to CSV or rebuild with --features parquet"),
            "{why}"
        );
    }
}
