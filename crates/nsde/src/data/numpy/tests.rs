//! NumPy files, by hand and as NumPy writes them.

use super::*;

/// Written by NumPy 2.4.6; see `fixtures/make.py`.
const COMPRESSED: &[u8] = include_bytes!("../fixtures/compressed.npz");
const STORED: &[u8] = include_bytes!("../fixtures/stored.npz");
const SINGLE: &[u8] = include_bytes!("../fixtures/single.npz");

fn npy(descr: &str, fortran: bool, shape: &str, content: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n");
    [MAGIC, &[1, 0], &(header.len() as u16).to_le_bytes(), header.as_bytes(), content].concat()
}

fn floats(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn load(bytes: &[u8], options: &LoadOptions) -> Result<Dataset> {
    read_npy(Path::new("a.npy"), bytes, options)
}

fn refusal(bytes: &[u8]) -> String {
    load(bytes, &LoadOptions::default()).unwrap_err().to_string()
}

#[test]
fn every_type_and_order_gives_the_same_numbers() {
    let expected = Array { shape: vec![2, 3], data: vec![1.0, 2.0, 3.0, -4.0, 5.0, 6.0] };
    let by_columns = [1.0, -4.0, 2.0, 5.0, 3.0, 6.0];
    for (descr, fortran, content) in [
        ("'<f8'", false, floats(&expected.data)),
        ("'<f8'", true, floats(&by_columns)),
        ("'<f4'", false, expected.data.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect()),
        ("'>f4'", false, expected.data.iter().flat_map(|x| (*x as f32).to_be_bytes()).collect()),
        ("'<i4'", true, by_columns.iter().flat_map(|x| (*x as i32).to_le_bytes()).collect()),
        ("'<i8'", false, expected.data.iter().flat_map(|x| (*x as i64).to_le_bytes()).collect()),
        ("'>i8'", false, expected.data.iter().flat_map(|x| (*x as i64).to_be_bytes()).collect()),
        ("'>f8'", false, expected.data.iter().flat_map(|x| x.to_be_bytes()).collect()),
    ] {
        assert_eq!(
            Array::read(&npy(descr, fortran, "(2, 3)", &content)).unwrap(),
            expected,
            "{descr} {fortran}"
        );
    }
    // The second version of the format has a longer length.
    let mut second = npy("'<f8'", false, "(2, 3)", &floats(&expected.data));
    second[6] = 2;
    second.splice(10..10, [0, 0]);
    assert_eq!(Array::read(&second).unwrap(), expected);
}

#[test]
fn fortran_order_holds_for_three_axes() {
    let shape = [2, 3, 4];
    let at = |i: usize, j: usize, k: usize| (100 * i + 10 * j + k) as f64;
    let mut by_first = Vec::new();
    for k in 0..4 {
        for j in 0..3 {
            (0..2).for_each(|i| by_first.push(at(i, j, k)));
        }
    }
    let data = last_axis_first(&by_first, &shape);
    assert_eq!(data[..5], [at(0, 0, 0), at(0, 0, 1), at(0, 0, 2), at(0, 0, 3), at(0, 1, 0)]);
    assert_eq!(data[23], at(1, 2, 3));
}

#[test]
fn two_axes_are_rows_and_columns() {
    let bytes = npy("'<f8'", false, "(3, 2)", &floats(&[1.0, f64::NAN, 2.0, 5.0, 4.0, 6.0]));
    let data = load(&bytes, &LoadOptions::default()).unwrap();
    assert_eq!((&data.columns[..], data.rows(), data.series.len()), (&["x0".into(), "x1".into()][..], 3, 1));
    assert_eq!(data.series[0].times, [0.0, 1.0, 2.0]);
    assert!(data.series[0].values[1].is_nan());

    let options = LoadOptions { time_column: Some("x0".into()), ..LoadOptions::default() };
    let data = load(&bytes, &options).unwrap();
    assert_eq!(
        (&data.columns[..], &data.series[0].times[..]),
        (&["x1".to_string()][..], &[1.0, 2.0, 4.0][..])
    );
    assert_eq!(
        load(&npy("'<f8'", false, "(3,)", &floats(&[1.0; 3])), &LoadOptions::default()).unwrap().dim(),
        1
    );
}

#[test]
fn three_axes_are_series_rows_and_columns() {
    let numbers: Vec<f64> = (0..12).map(f64::from).collect();
    let data = load(&npy("'<f8'", false, "(2, 3, 2)", &floats(&numbers)), &LoadOptions::default()).unwrap();
    let names: Vec<&str> = data.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["0", "1"]);
    assert_eq!(data.series[1].values, [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
    assert_eq!(data.series[1].times, [0.0, 1.0, 2.0]);
}

#[test]
fn arrays_that_cannot_be_read_say_why() {
    let content = floats(&[0.0; 4]);
    for (bytes, part) in [
        (npy("'<f2'", false, "(2, 2)", &content), "type `<f2` is not supported; save with .astype(float)"),
        (npy("'|O'", false, "(2, 2)", &content), "type `|O` is not supported"),
        (npy("[('a', '<f8')]", false, "(2,)", &content), "named fields"),
        (npy("'<f8'", false, "(2, 3)", &content), "cut off"),
        (npy("'<f8'", false, "(4294967296, 4294967296, 9)", &content), "cut off"),
        (npy("'<f8'", false, "(1, 2, 2, 1)", &content), "not [1, 2, 2, 1]"),
        (npy("'<f8'", false, "()", &content), "not []"),
        (npy("'<f8'", false, "(0, 2)", &[]), "no rows"),
        (npy("'<f8'", false, "(2, 0)", &[]), "no column of numbers"),
        (npy("'<f8'", false, "(2, two)", &content), "not understood"),
        (npy("'<f8'", false, "(1, 4)", &content), "single row"),
        (
            npy("'<f8'", false, "(2, 2)", &floats(&[1.0, 1.0, 1.0, f64::INFINITY])),
            "row 1 (counted from 0): column `x1`",
        ),
    ] {
        assert!(refusal(&bytes).contains(part), "{}", refusal(&bytes));
    }
    let whole = npy("'<f8'", false, "(2, 2)", &content);
    for length in 0..whole.len() {
        assert!(Array::read(&whole[..length]).is_err(), "{length}");
    }
    let numbers = floats(&[0.0, 0.0, 0.0, 0.0, f64::NEG_INFINITY, 0.0]);
    assert!(refusal(&npy("'<f8'", false, "(2, 3, 1)", &numbers)).contains("series `1`, row 1 (counted"));
}

#[test]
fn archives_hold_states_times_and_inputs() {
    let data = read_npz(Path::new("a.npz"), COMPRESSED, &LoadOptions::default()).unwrap();
    assert_eq!((data.series.len(), data.dim(), data.inputs()), (2, 2, 1));
    let first = &data.series[0];
    assert_eq!(first.times, [0.0, 0.5, 2.0]);
    assert_eq!(first.values, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(first.inputs, [10.0, 20.0, 0.0]); // `u` has one row less
    assert_eq!(data.series[1].inputs, [30.0, 40.0, 0.0]);
    assert_eq!(data.time.column.as_deref(), Some("t"));
    assert_eq!(
        (&data.columns[..], &data.input_columns[..]),
        (&["x0".into(), "x1".into()][..], &["u0".into()][..])
    );

    let options = LoadOptions { input_columns: vec!["x1".into()], ..LoadOptions::default() };
    let data = read_npz(Path::new("a.npz"), COMPRESSED, &options).unwrap();
    assert_eq!(
        (&data.columns[..], &data.input_columns[..]),
        (&["x0".into()][..], &["x1".into(), "u0".into()][..])
    );
}

#[test]
fn other_arrays_are_left_out_with_a_note() {
    let data = read_npz(Path::new("a.npz"), STORED, &LoadOptions::default()).unwrap();
    assert_eq!(data.series[0].values, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]); // int32 in Fortran order
    assert!(data.notes.contains(&Note::LeftOut { column: "weights".into(), why: LeftOut::Array }));
    let data = read_npz(Path::new("a.npz"), SINGLE, &LoadOptions::default()).unwrap();
    assert_eq!((data.rows(), data.dim()), (4, 1));
}
