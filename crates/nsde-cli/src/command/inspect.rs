//! `nsde inspect`: what a model file holds.

use crate::args::Inspect;
use crate::output::{load, one_line, print, short, table};
use anyhow::Result;
use nsde::{Diffusion, Layer, Model, Network, Scaling};
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::path::Path;

/// Prints the description.
pub fn run(args: &Inspect) -> Result<()> {
    let model = load(&args.model)?;
    print(
        |out| {
            if args.json { writeln!(out, "{:#}", document(&model)) } else { tables(out, &model, &args.model) }
        },
    )
}

/// A layer in a network: its place as in the names of tensors, and its widths.
struct Row<'a> {
    place: String,
    layer: &'a Layer,
    input: usize,
    output: usize,
    parameters: usize,
}

/// All layers, those inside a residual layer after it.
fn rows<'a>(network: &'a Network, prefix: &str, rows: &mut Vec<Row<'a>>) {
    let mut width = network.input();
    for (place, layer) in network.layers().iter().enumerate() {
        let place = format!("{prefix}{place}");
        let (output, parameters) = match layer {
            Layer::Linear(l) => (l.output(), l.weight().len() + l.bias().len()),
            Layer::Residual(inner) => (width, inner.parameter_count()),
            _ => (width, 0),
        };
        rows.push(Row { place: place.clone(), layer, input: width, output, parameters });
        if let Layer::Residual(inner) = layer {
            self::rows(inner, &format!("{place}.layers."), rows);
        }
        width = output;
    }
}

fn network_rows(network: &Network) -> Vec<Row<'_>> {
    let mut list = Vec::new();
    rows(network, "", &mut list);
    list
}

fn diffusion_parameters(diffusion: &Diffusion) -> usize {
    match diffusion {
        Diffusion::ConstantDiagonal(scale) | Diffusion::ConstantFull(scale) => scale.len(),
        other => other.network().map_or(0, Network::parameter_count),
    }
}

/// `dx = f(x, u) dt + L(x) dw`, with what the model has.
pub(crate) fn equation(model: &Model) -> String {
    let sde = &model.sde;
    let drift = if sde.inputs() > 0 { "f(x, u)" } else { "f(x)" };
    let noise = match sde.diffusion() {
        Diffusion::None => "",
        Diffusion::ConstantDiagonal(_) | Diffusion::ConstantFull(_) => " + L dw",
        _ if sde.diffusion_reads_inputs() => " + L(x, u) dw",
        _ => " + L(x) dw",
    };
    format!("dx = {drift} dt{noise}")
}

fn document(model: &Model) -> Value {
    let layers = |network: &Network| -> Value {
        let layer = |row: &Row<'_>| {
            let mut o = Map::new();
            o.insert("place".into(), json!(row.place));
            o.insert("type".into(), json!(row.layer.kind()));
            o.insert("in".into(), json!(row.input));
            o.insert("out".into(), json!(row.output));
            o.insert("parameters".into(), json!(row.parameters));
            match row.layer {
                Layer::Dropout { keep } => o.insert("keep".into(), json!(keep)),
                Layer::LeakyRelu { slope } => o.insert("slope".into(), json!(slope)),
                _ => None,
            };
            Value::from(o)
        };
        network_rows(network).iter().map(layer).collect()
    };
    let scaling = |s: &Option<Scaling>| s.as_ref().map(|s| json!({"mean": s.mean, "std": s.std}));
    let sde = &model.sde;
    json!({
        "version": 1,
        "equation": equation(model),
        "state": sde.state(),
        "inputs": sde.inputs(),
        "dt": model.dt,
        "init_var": model.init_var,
        "parameters": sde.parameter_count(),
        "drift": {"parameters": sde.drift().parameter_count(), "layers": layers(sde.drift())},
        "diffusion": {
            "kind": sde.diffusion().kind(),
            "inputs": sde.diffusion_reads_inputs(),
            "parameters": diffusion_parameters(sde.diffusion()),
            "layers": sde.diffusion().network().map(layers),
        },
        "scaling": scaling(&model.scaling),
        "inputs_scaling": scaling(&model.inputs_scaling),
        "columns": model.columns,
        "extra": model.extra,
        "extra_tensors": model.extra_tensors.iter().map(|(k, t)| (k.clone(), json!(t.shape))).collect::<Map<_, _>>(),
    })
}

fn tables(out: &mut dyn Write, model: &Model, path: &Path) -> io::Result<()> {
    let sde = &model.sde;
    let exact = |x: &f64| Value::from(*x).to_string();
    let list = |numbers: &[f64]| numbers.iter().map(exact).collect::<Vec<_>>().join(", ");
    let mut facts = vec![
        ("model", path.display().to_string()),
        ("equation", equation(model)),
        ("state", sde.state().to_string()),
        ("inputs", sde.inputs().to_string()),
        ("dt", exact(&model.dt)),
        ("init_var", exact(&model.init_var)),
        ("parameters", sde.parameter_count().to_string()),
    ];
    if let Some(names) = &model.columns {
        facts.push(("columns", names.join(", ")));
    }
    for (mean, std, scaling) in [
        ("scaling mean", "scaling std", &model.scaling),
        ("inputs mean", "inputs std", &model.inputs_scaling),
    ] {
        if let Some(s) = scaling {
            facts.push((mean, list(&s.mean)));
            facts.push((std, list(&s.std)));
        }
    }
    if !model.extra.is_empty() {
        facts.push(("other keys", model.extra.keys().cloned().collect::<Vec<_>>().join(", ")));
    }
    if !model.extra_tensors.is_empty() {
        facts.push(("other tensors", model.extra_tensors.keys().cloned().collect::<Vec<_>>().join(", ")));
    }
    let facts: Vec<Vec<String>> =
        facts.iter().map(|(name, fact)| vec![(*name).into(), one_line(fact)]).collect();
    table(out, &facts, 2)?;

    let parameters = sde.drift().parameter_count();
    writeln!(out, "\ndrift f: {} → {}, {parameters} parameters", sde.drift().input(), sde.state())?;
    layer_table(out, sde.drift())?;
    let parameters = diffusion_parameters(sde.diffusion());
    match sde.diffusion() {
        Diffusion::None => writeln!(out, "\nno diffusion: a neural ODE"),
        Diffusion::ConstantDiagonal(scale) => {
            writeln!(out, "\ndiffusion L: constant, diagonal, {parameters} parameters: {}", list(scale))
        }
        Diffusion::ConstantFull(scale) => {
            writeln!(out, "\ndiffusion L: constant, lower triangular, {parameters} parameters")?;
            let rows: Vec<Vec<String>> =
                scale.chunks(sde.state()).map(|row| row.iter().map(|x| short(*x)).collect()).collect();
            table(out, &rows, 0)
        }
        other => {
            let Some(network) = other.network() else { return Ok(()) };
            let shape = if other.kind() == "full" { "lower triangular" } else { "diagonal" };
            let (input, output) = (network.input(), network.output());
            writeln!(out, "\ndiffusion L: {input} → {output}, {shape}, {parameters} parameters")?;
            layer_table(out, network)
        }
    }
}

fn layer_table(out: &mut dyn Write, network: &Network) -> io::Result<()> {
    table(out, &layer_rows(network), 3)
}

/// A head, then one row per layer.
pub(crate) fn layer_rows(network: &Network) -> Vec<Vec<String>> {
    let mut table_rows = vec![["place", "layer", "", "width", "parameters"].map(String::from).to_vec()];
    for row in network_rows(network) {
        let detail = match row.layer {
            Layer::Dropout { keep } => format!("keep {keep}"),
            Layer::LeakyRelu { slope } => format!("slope {slope}"),
            Layer::Residual(_) => "h + g(h), g:".into(),
            _ => String::new(),
        };
        let width = if row.input == row.output {
            row.input.to_string()
        } else {
            format!("{} → {}", row.input, row.output)
        };
        let parameters = if row.parameters > 0 { row.parameters.to_string() } else { String::new() };
        table_rows.push(vec![row.place, row.layer.kind().into(), detail, width, parameters]);
    }
    table_rows
}
