//! What a user sees of a table: which columns, which rows, which words when something is wrong.

use super::*;
use crate::error::Result;

fn load_text(text: &str, options: &LoadOptions) -> Result<Dataset> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.csv");
    std::fs::write(&path, text).unwrap();
    load(&path, options)
}

/// The message without the folder.
fn refusal(text: &str, options: &LoadOptions) -> String {
    let why = load_text(text, options).unwrap_err().to_string();
    assert!(!why.contains('\n'), "{why}");
    why[why.find("data.csv").unwrap()..].to_string()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

fn series(column: &str) -> LoadOptions {
    LoadOptions { series_column: Some(column.into()), ..LoadOptions::default() }
}

fn inputs(columns: &[&str]) -> LoadOptions {
    LoadOptions { input_columns: names(columns), ..LoadOptions::default() }
}

fn states(columns: &[&str]) -> LoadOptions {
    LoadOptions { state_columns: Some(names(columns)), ..LoadOptions::default() }
}

#[test]
fn a_plain_table_is_one_series_of_equal_spacing() {
    let data = load_text("a,b\n1,2\n3,4\n5,6\n", &LoadOptions::default()).unwrap();
    assert_eq!(data.columns, ["a", "b"]);
    assert_eq!(data.time, TimeAxis::default());
    assert_eq!(data.notes, []);
    let expected = Series {
        name: "data".into(),
        times: vec![0.0, 1.0, 2.0],
        values: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        inputs: vec![],
    };
    assert_eq!(data.series, [expected]);
}

#[test]
fn series_may_be_interleaved_and_keep_their_order() {
    let text = "id,t,x\nb,5,1\n001,0,2\nb,6,3\n001,7,4\n b ,9,5\n";
    let data = load_text(text, &series("id")).unwrap();
    let found: Vec<_> = data.series.iter().map(|s| (s.name.as_str(), &s.times[..], &s.values[..])).collect();
    assert_eq!(
        found,
        [("b", &[5.0, 6.0, 9.0][..], &[1.0, 3.0, 5.0][..]), ("001", &[0.0, 7.0][..], &[2.0, 4.0][..])]
    );
    assert_eq!(data.median_spacing(), Some(3.0));
    let counted = load_text("id,x\nb,1\na,2\nb,3\na,4\n", &series("id")).unwrap();
    assert_eq!(counted.series[1].times, [0.0, 1.0]);
    assert_eq!(
        refusal("id,x\na,1\n,2\n", &series("id")),
        "data.csv: line 3: column `id`: the name of the series is missing"
    );
}

#[test]
fn stamps_start_at_zero_with_the_earliest_of_all_series() {
    let text = "id,time,x\na,2014-01-02T00:00:00Z,1\nb,2014-01-01T06:00:00Z,2\n\
                a,2014-01-02T06:00:00Z,3\nb,2014-01-01T12:00:00Z,4\n";
    let data = load_text(text, &series("id")).unwrap();
    assert_eq!(data.time.unit, Some(TimeUnit::Hour));
    assert_eq!(data.time.origin.as_deref(), Some("2014-01-01T06:00:00Z"));
    assert_eq!((&data.series[0].times[..], &data.series[1].times[..]), (&[18.0, 24.0][..], &[0.0, 6.0][..]));
    assert_eq!(data.time.stamp(24.0).as_deref(), Some("2014-01-02T06:00:00Z"));
    assert_eq!(data.notes[0], Note::TimeByName { column: "time".into() });
    let days = LoadOptions { time_unit: Some(TimeUnit::Day), ..series("id") };
    assert_eq!(load_text(text, &days).unwrap().series[0].times, [0.75, 1.0]);
    assert!(
        refusal("x\n1\n2\n", &LoadOptions { time_unit: Some(TimeUnit::Day), ..LoadOptions::default() })
            .contains("--time")
    );
}

#[test]
fn times_must_increase() {
    let named = LoadOptions { time_column: Some("clock".into()), ..LoadOptions::default() };
    let text = "clock,x\n1,1\n2,2\n2,3\n";
    let why = "data.csv: line 4: column `clock`: time 2 is there twice in series `data`; \
               times must increase strictly; if there are several series, name the column that tells them apart \
               with --series-column";
    assert_eq!(refusal(text, &named), why);
    let why = refusal("T,x\n1,1\n\n0.5,2\n", &LoadOptions::default());
    assert!(
        why.starts_with("data.csv: line 4: column `T`: time 0.5 comes after 1 in series `data`"),
        "{why}"
    );
    assert!(why.contains("taken as time because of its name"), "{why}");
    assert_eq!(load_text("T,x\n1,1\n0.5,2\n", &states(&["T", "x"])).unwrap().dim(), 2);
    assert!(
        refusal("t,x\n1,1\n,2\n", &LoadOptions::default())
            .starts_with("data.csv: line 3: column `t`: the time is missing")
    );
}

#[test]
fn missing_values_stay_missing() {
    let data = load_text("a,b\n1,\nNA,2\nnan,-\n4,null\nNaN,5\n", &LoadOptions::default()).unwrap();
    let missing: Vec<bool> = data.series[0].values.iter().map(|x| x.is_nan()).collect();
    assert_eq!(missing, [false, true, true, false, true, true, false, true, true, false]);
    assert_eq!(data.notes[0], Note::Missing { column: "a".into(), count: 3, rows: 5 });
    let why = "data.csv: every value of column `b` is missing; choose other columns with --state";
    assert_eq!(refusal("a,b\n1,\n2,NA\n", &LoadOptions::default()), why);
}

#[test]
fn inputs_may_be_missing_in_the_last_row_of_a_series_only() {
    let options = LoadOptions { series_column: Some("id".into()), ..inputs(&["v", "u"]) };
    let data = load_text("id,x,u,v\na,1,5,6\nb,1,7,8\na,2,,NA\nb,2,9,-\n", &options).unwrap();
    assert_eq!(data.input_columns, ["v", "u"]);
    assert_eq!(
        (&data.series[0].inputs[..], &data.series[1].inputs[..]),
        (&[6.0, 5.0, 0.0, 0.0][..], &[8.0, 7.0, 0.0, 9.0][..])
    );
    let why = refusal("id,x,u,v\na,1,5,6\nb,1,7,\na,2,,6\nb,2,9,9\na,3,1,1\n", &options);
    assert!(why.starts_with("data.csv: line 3: column `v`: an input is missing"), "{why}");
    assert!(refusal("x,u\n1,a\n2,b\n", &inputs(&["u"])).contains("line 2: column `u`: `a` is not a number"));
}

#[test]
fn text_is_left_out_unless_asked_for() {
    let text = "wind,x\nnorth,1\nNA,2\nsouth,3\n";
    let data = load_text(text, &LoadOptions::default()).unwrap();
    assert_eq!(data.columns, ["x"]);
    assert_eq!(
        data.notes[0],
        Note::LeftOut { column: "wind".into(), why: LeftOut::Text { example: "`north`".into() } }
    );
    assert_eq!(refusal(text, &states(&["wind"])), "data.csv: line 2: column `wind`: `north` is not a number");
    assert_eq!(
        refusal("x\n1\noops\n", &LoadOptions::default()),
        "data.csv: line 3: column `x`: `oops` is not a number"
    );
    assert_eq!(
        refusal("x\n1\ninf\n", &LoadOptions::default()),
        "data.csv: line 3: column `x`: `inf` is not finite"
    );
    assert_eq!(
        refusal("x\na\nb\n", &LoadOptions::default()),
        "data.csv: no column of numbers is left for the state"
    );
}

#[test]
fn columns_nobody_asked_for_may_hold_anything() {
    let data = load_text("a,b,c\n1,inf,x\n2,1,2\n", &states(&["a"])).unwrap();
    assert_eq!((data.columns, data.notes), (names(&["a"]), vec![]));
    let data = load_text(",a,b\n0,1,2\n1,3,5\n", &LoadOptions::default()).unwrap();
    assert_eq!(data.columns, ["a", "b"]);
    assert_eq!(data.notes, [Note::LeftOut { column: "1".into(), why: LeftOut::Unnamed }]);
}

#[test]
fn wrong_names_are_refused_on_the_header_line() {
    assert_eq!(
        refusal("\nlevel,t\n1,2\n", &states(&["levle"])),
        "data.csv: line 2: there is no column `levle`; did you mean `level`?"
    );
    assert_eq!(
        refusal("a,b,a\n1,2,3\n", &LoadOptions::default()),
        "data.csv: line 1: two columns have the name `a`"
    );
    assert!(
        refusal("a,b\n1,2\n", &LoadOptions { state_columns: Some(vec![]), ..LoadOptions::default() })
            .contains("no column")
    );
}

#[test]
fn series_of_single_rows_show_no_change() {
    assert_eq!(
        refusal("a\n1\n", &LoadOptions::default()),
        "data.csv: series `data` has a single row, and change needs two"
    );
    let why = refusal("id,x\np,1\nq,2\n", &series("id"));
    assert!(why.starts_with("data.csv: every series has a single row (the first is `p`)"), "{why}");
    let data = load_text("id,x\np,1\nq,2\nq,3\n", &series("id")).unwrap();
    assert_eq!(data.notes, [Note::SingleRow { series: "p".into(), count: 1 }]);
}

#[test]
fn too_many_columns_are_refused() {
    let table = |width: usize| {
        let line = |cell: &dyn Fn(usize) -> String| (0..width).map(cell).collect::<Vec<_>>().join(",") + "\n";
        line(&|n| format!("c{n}")) + &line(&|n| n.to_string()) + &line(&|n| (n * n % 7).to_string())
    };
    assert_eq!(load_text(&table(MAX_STATES), &LoadOptions::default()).unwrap().dim(), MAX_STATES);
    let why = refusal(&table(MAX_STATES + 1), &LoadOptions::default());
    assert!(why.contains("covariance of 2001 × 2001 numbers; choose columns with --state"), "{why}");
}

#[test]
fn constant_and_identical_columns_are_noted() {
    let data = load_text("a,b,c,d\n1,5,1,1\n2,5,2,2\n3,5,3,9\n", &LoadOptions::default()).unwrap();
    assert_eq!(
        data.notes,
        [
            Note::Constant { column: "b".into(), value: 5.0 },
            Note::Identical { first: "a".into(), second: "c".into() }
        ]
    );
}
