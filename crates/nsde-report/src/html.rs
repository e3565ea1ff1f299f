//! The page: a report as HTML that opens from disk, on a phone, in the dark and on paper.

use std::fmt::{self, Write};

use crate::report::{Report, Section, Table};
use crate::svg::Escaped;
use crate::theme::Theme;

/// From this many sections on the page begins with a list of them.
const MANY: usize = 3;

/// Nothing may be fetched and nothing run, whatever the page contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

const STYLE: &str = "
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--text);
font:16px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',Arial,sans-serif}
main,header,footer{max-width:1120px;margin:0 auto;padding:0 24px}
header{padding-top:40px}
h1{font-size:2rem;line-height:1.2;margin:0;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:1.35rem;line-height:1.3;margin:48px 0 12px;padding-top:16px;border-top:1px solid var(--rule);
overflow-wrap:anywhere}
p{max-width:72ch;margin:0 0 12px;overflow-wrap:anywhere}
.subtitle{color:var(--muted);font-size:1.1rem;margin:8px 0 0}
nav{margin-top:20px;display:flex;flex-wrap:wrap;gap:6px 20px}
a{color:var(--series0)}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));
gap:20px;margin:20px 0;align-items:start}
figure,.scroll{background:var(--surface);border:1px solid var(--rule);border-radius:10px}
figure{margin:0;padding:8px;min-width:0}
figure svg{display:block;width:100%;height:auto;max-width:640px;margin:0 auto}
figure svg svg{max-width:none}
figcaption{color:var(--muted);font-size:.92rem;line-height:1.45;padding:8px 12px 8px;overflow-wrap:anywhere}
.scroll{overflow-x:auto;margin:20px 0}
table{border-collapse:collapse;width:100%;font-size:.95rem}
caption{text-align:left;font-weight:700;padding:12px 14px 8px}
th,td{padding:7px 14px;text-align:left;white-space:nowrap;border-top:1px solid var(--rule)}
thead th{border-top:0;border-bottom:2px solid var(--rule);color:var(--muted);font-weight:600}
tbody tr:first-child>*{border-top:0}
.number{text-align:right;font-variant-numeric:tabular-nums}
footer{color:var(--muted);font-size:.85rem;padding-top:40px;padding-bottom:32px}
@media (max-width:560px){
main,header,footer{padding-left:12px;padding-right:12px}
header{padding-top:24px}
h1{font-size:1.6rem}
h2{margin-top:36px}
figure{padding:2px 0}
figcaption{font-size:.85rem}
}
@media print{
:root{color-scheme:light}
body{background:none;font-size:10.5pt}
main,header,footer{max-width:none;padding-left:0;padding-right:0}
header{padding-top:0}
nav{display:none}
h2{break-after:avoid;margin-top:24px}
.charts{grid-template-columns:1fr 1fr;gap:10px}
.charts>:only-child{grid-column:1/-1}
p{break-after:avoid}
figure,tr,.scroll{break-inside:avoid}
.scroll{overflow:visible}
figure,.scroll{border-radius:0}
th,td{white-space:normal;padding:3px 8px}
svg{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
";

pub(crate) fn page(report: &Report) -> String {
    let mut out = String::new();
    write_page(report, &mut out).expect("writing to a string cannot fail");
    out
}

fn write_page(report: &Report, out: &mut String) -> fmt::Result {
    let title = Escaped(&report.title);
    writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\" />\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n\
         <meta name=\"color-scheme\" content=\"light dark\" />\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\" />\n\
         <meta name=\"generator\" content=\"nsde-report {}\" />\n\
         <link rel=\"icon\" href=\"data:,\" />\n<title>{title}</title>",
        env!("CARGO_PKG_VERSION")
    )?;
    let (light, dark) = (Theme::Light.properties(), Theme::Dark.properties());
    writeln!(
        out,
        "<style>\n:root{{color-scheme:light dark;--page:#f6f7f8;--rule:#d9dde1;{light}}}\n\
         @media screen and (prefers-color-scheme:dark){{:root{{--page:#0d0f12;--rule:#2e343b;{dark}}}}}\
         {STYLE}</style>\n\
         </head>\n<body>"
    )?;
    writeln!(out, "<header>\n<h1>{title}</h1>")?;
    if !report.subtitle.is_empty() {
        writeln!(out, "<p class=\"subtitle\">{}</p>", Escaped(&report.subtitle))?;
    }
    if report.sections.len() >= MANY {
        writeln!(out, "<nav aria-label=\"Sections\">")?;
        for (i, section) in report.sections.iter().enumerate() {
            writeln!(out, "<a href=\"#section-{}\">{}</a>", i + 1, Escaped(&section.heading))?;
        }
        writeln!(out, "</nav>")?;
    }
    writeln!(out, "</header>\n<main>")?;
    for (i, section) in report.sections.iter().enumerate() {
        write_section(section, i + 1, out)?;
    }
    writeln!(out, "</main>\n<footer>Written by nsde-report {}.</footer>", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "</body>\n</html>")
}

fn write_section(section: &Section, number: usize, out: &mut String) -> fmt::Result {
    writeln!(out, "<section id=\"section-{number}\">\n<h2>{}</h2>", Escaped(&section.heading))?;
    for paragraph in &section.paragraphs {
        writeln!(out, "<p>{}</p>", Escaped(paragraph))?;
    }
    if !section.charts.is_empty() {
        writeln!(out, "<div class=\"charts\">")?;
        for (chart, caption) in &section.charts {
            write!(out, "<figure>\n{}", chart.inline())?;
            if !caption.is_empty() {
                writeln!(out, "<figcaption>{}</figcaption>", Escaped(caption))?;
            }
            writeln!(out, "</figure>")?;
        }
        writeln!(out, "</div>")?;
    }
    for table in &section.tables {
        write_table(table, out)?;
    }
    writeln!(out, "</section>")
}

fn write_table(table: &Table, out: &mut String) -> fmt::Result {
    let columns = table.rows.iter().map(Vec::len).max().unwrap_or(0).max(table.header.len());
    let class = |column: usize| {
        let mut cells =
            table.rows.iter().filter_map(|row| row.get(column)).filter(|cell| !cell.trim().is_empty());
        let some = cells.clone().next().is_some();
        if some && cells.all(|cell| numeric(cell)) { " class=\"number\"" } else { "" }
    };
    let classes: Vec<&str> = (0..columns).map(class).collect();
    // A box that scrolls must be reachable by keyboard, and then needs a name.
    let name = if table.caption.is_empty() { "Table" } else { &table.caption };
    writeln!(
        out,
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">\n<table>",
        Escaped(name)
    )?;
    if !table.caption.is_empty() {
        writeln!(out, "<caption>{}</caption>", Escaped(&table.caption))?;
    }
    let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
    if !table.header.is_empty() {
        write!(out, "<thead><tr>")?;
        for (column, class) in classes.iter().enumerate() {
            write!(out, "<th scope=\"col\"{class}>{}</th>", Escaped(&cell(&table.header, column)))?;
        }
        writeln!(out, "</tr></thead>")?;
    }
    writeln!(out, "<tbody>")?;
    for row in &table.rows {
        write!(out, "<tr>")?;
        for (column, class) in classes.iter().enumerate() {
            write!(out, "<td{class}>{}</td>", Escaped(&cell(row, column)))?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody>\n</table>\n</div>")
}

/// Whether a cell holds a number, perhaps with a sign, a percentage, an error or a unit behind it.
fn numeric(cell: &str) -> bool {
    let cell = cell.trim();
    let digits = cell.trim_start_matches(['-', '−', '+', '±', '<', '>', '≤', '≥', '≈', '~', ' ', '.']);
    digits.starts_with(|c: char| c.is_ascii_digit())
        || matches!(cell, "–" | "—" | "-")
        || ["nan", "inf", "-inf", "∞", "−∞"].contains(&cell.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_from_words() {
        for cell in ["1", "-1.5", "−3e-4", "±0.1", "12 ms", "–", "NaN", "< 0.01", "50 %"] {
            assert!(numeric(cell), "{cell}");
        }
        for cell in ["BMM", "x1", "-x", "", "time 3"] {
            assert!(!numeric(cell), "{cell}");
        }
    }
}
