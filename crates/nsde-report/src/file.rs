//! Files: written whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why a report or a picture could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be created, written or put in its place.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file that was to be.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder could not be created.
    #[error("cannot create the folder {}", path.display())]
    Folder {
        /// The folder that was to be.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Writes under a temporary name beside `path`, then renames: whoever looks sees the old file or the new one.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let wrap = |source| Error::Write { path: path.to_owned(), source };
    let name = path.file_name().ok_or_else(|| wrap(io::Error::from(io::ErrorKind::InvalidInput)))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(hidden);
    let put = || {
        let mut file = fs::File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    put().map_err(|source| {
        // The first failure is the one to report; the rest may still be there or not.
        let _ = fs::remove_file(&temporary);
        wrap(source)
    })
}

/// Creates the folder and those above it, where they are missing.
pub(crate) fn folder(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(|source| Error::Folder { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.html");
        write(&path, b"old").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failure_names_the_file_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let occupied = dir.path().join("taken");
        fs::create_dir(&occupied).unwrap();
        let error = write(&occupied, b"x").unwrap_err();
        assert!(error.to_string().contains("taken"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(write(&dir.path().join("none/x"), b"x").is_err());
        assert!(write(Path::new(".."), b"x").is_err());
    }
}
