//! The folder of a result: data, charts, and a page that sets our figures beside the paper's claims.

use crate::heat::Heat;
use crate::machine;
use crate::run::Run;
use anyhow::Result;
use nsde::train::write_atomically;
use nsde_report::{Chart, Theme};

/// Collects what an experiment found, writes data and charts at once and the page at the end.
///
/// Data files are the same, byte for byte, for the same seed. Seconds are not: they go into [`times`], and
/// nowhere else but the page.
///
/// [`times`]: Outcome::times
pub struct Outcome<'a> {
    run: &'a Run,
    claims: Vec<[String; 3]>,
    body: String,
    files: Vec<(String, String)>,
}

/// A number in a data file: as many digits as it takes to read it back exactly.
pub fn number(x: f64) -> String {
    format!("{x}")
}

impl<'a> Outcome<'a> {
    /// Nothing found yet.
    pub fn new(run: &'a Run) -> Self {
        Outcome { run, claims: Vec::new(), body: String::new(), files: Vec::new() }
    }

    /// A claim of the paper, what we found, and a verdict: confirmed, contradicted, or in what way both.
    pub fn claim(&mut self, paper: &str, ours: &str, verdict: &str) {
        self.claims.push([paper.into(), ours.into(), verdict.into()]);
    }

    /// A heading on the page.
    pub fn heading(&mut self, text: &str) {
        self.body += &format!("## {text}\n\n");
    }

    /// A paragraph on the page.
    pub fn text(&mut self, text: &str) {
        self.body += &format!("{text}\n\n");
    }

    /// A table on the page.
    pub fn table(&mut self, header: &[&str], rows: &[Vec<String>]) {
        self.body += &markdown(header, rows);
    }

    /// Writes `NAME.csv`.
    pub fn data(&mut self, name: &str, about: &str, header: &[&str], rows: &[Vec<String>]) -> Result<()> {
        let mut text = csv_line(header);
        rows.iter().for_each(|row| text += &csv_line(row));
        self.file(&format!("{name}.csv"), about, text.as_bytes())
    }

    /// Writes `times.csv`: what differs from run to run and from machine to machine.
    pub fn times(&mut self, header: &[&str], rows: &[Vec<String>]) -> Result<()> {
        self.data("times", "seconds, which differ from run to run", header, rows)
    }

    /// Writes `NAME.svg` and `NAME.png`, and shows the chart on the page.
    pub fn chart(&mut self, chart: Chart, name: &str, caption: &str) -> Result<()> {
        let chart = chart.named(name);
        let file = self.run.folder.join(chart.name());
        chart.write_svg(file.with_extension("svg"), Theme::Light)?;
        chart.write_png(file.with_extension("png"), Theme::Light)?;
        self.body += &format!("![{caption}]({}.svg)\n\n{caption}\n\n", chart.name());
        Ok(())
    }

    /// Writes a square matrix as a picture, `NAME.svg` and `NAME.png`, and as `NAME.csv`.
    pub fn matrix(
        &mut self,
        values: &[f64],
        n: usize,
        blocks: &[usize],
        name: &str,
        caption: &str,
    ) -> Result<()> {
        let heat = Heat { values, n, blocks };
        let file = self.run.folder.join(name);
        write_atomically(&file.with_extension("svg"), heat.svg(caption).as_bytes())?;
        write_atomically(&file.with_extension("png"), &heat.png()?)?;
        self.body += &format!("![{caption}]({name}.svg)\n\n{caption}\n\n");
        let columns: Vec<String> = (0..n).map(|i| i.to_string()).collect();
        let header: Vec<&str> = columns.iter().map(String::as_str).collect();
        let rows: Vec<Vec<String>> =
            values.chunks(n).map(|row| row.iter().map(|x| number(*x)).collect()).collect();
        self.data(name, "the matrix of the picture", &header, &rows)
    }

    fn file(&mut self, name: &str, about: &str, bytes: &[u8]) -> Result<()> {
        write_atomically(&self.run.folder.join(name), bytes)?;
        self.files.push((name.into(), about.into()));
        Ok(())
    }

    /// Writes `README.md`. `repetitions` says how many stand behind each number, `seconds` how long the
    /// cells took in all.
    pub fn finish(self, about: &str, repetitions: &str, seconds: f64) -> Result<()> {
        let run = self.run;
        let mut page = format!("# {} ({})\n\n{about}\n\n", run.name, run.paper);
        if run.quick {
            page += "**This is the small version (`--quick`): it shows that the experiment runs, not what \
                     comes out.**\n\n";
        }
        let claims: Vec<Vec<String>> = self.claims.iter().map(|c| c.to_vec()).collect();
        page += &markdown(&["the paper says", "we find", "so it is"], &claims);
        page += &self.body;
        page += "## How this was made\n\n";
        let wall = run.began.elapsed().as_secs_f64();
        let facts = [
            ["command", &format!("`{}`", run.command())],
            ["seed", &run.seed.to_string()],
            ["repetitions", repetitions],
            ["commit", &run.commit()],
            ["date", &machine::today()],
            ["machine", &machine::processor()],
            ["time", &format!("{seconds:.0} s summed over all cells; the last start took {wall:.0} s")],
        ];
        page += &markdown(&["", ""], &facts.map(|[a, b]| vec![a.into(), b.into()]));
        let files: Vec<Vec<String>> =
            self.files.iter().map(|(name, about)| vec![format!("[{name}]({name})"), about.clone()]).collect();
        page += &markdown(&["file", "what is in it"], &files);
        write_atomically(&run.folder.join("README.md"), (page.trim_end().to_owned() + "\n").as_bytes())?;
        Ok(())
    }
}

/// A line of CSV: what holds a comma or a quotation mark is quoted.
fn csv_line(fields: &[impl AsRef<str>]) -> String {
    let quoted = |field: &str| match field.contains([',', '"', '\n']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    };
    fields.iter().map(|f| quoted(f.as_ref())).collect::<Vec<_>>().join(",") + "\n"
}

/// A table in Markdown; nothing if it has no rows.
pub fn markdown(header: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(header.to_vec()) + &line(vec!["---"; header.len()]);
    rows.iter().for_each(|row| text += &line(row.iter().map(String::as_str).collect()));
    if rows.is_empty() { String::new() } else { text + "\n" }
}

#[cfg(test)]
mod tests {
    use super::csv_line;

    #[test]
    fn names_with_commas_stay_one_field() {
        assert_eq!(
            csv_line(&["a", "rate 1, decay 2", "say \"no\""]),
            "a,\"rate 1, decay 2\",\"say \"\"no\"\"\"\n"
        );
    }
}
