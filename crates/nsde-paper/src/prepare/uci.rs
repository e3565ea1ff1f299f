//! The eight UCI sets with the names of their columns, and the test rows of their standard splits.

use super::{Made, numbers, row, text};
use anyhow::{Context, Result};
use std::path::Path;

/// Folder of a set, its name here, and its columns; the source has none. The answer comes last.
const SETS: [(&str, &str, &str); 8] = [
    ("bostonHousing", "boston", "CRIM,ZN,INDUS,CHAS,NOX,RM,AGE,DIS,RAD,TAX,PTRATIO,B,LSTAT,MEDV"),
    (
        "concrete",
        "concrete",
        "cement,blast_furnace_slag,fly_ash,water,superplasticizer,coarse_aggregate,fine_aggregate,age_days,compressive_strength",
    ),
    (
        "energy",
        "energy",
        "relative_compactness,surface_area,wall_area,roof_area,overall_height,orientation,glazing_area,\
         glazing_area_distribution,heating_load",
    ),
    ("kin8nm", "kin8nm", "theta1,theta2,theta3,theta4,theta5,theta6,theta7,theta8,y"),
    (
        "naval-propulsion-plant",
        "naval",
        "lever_position,ship_speed,gt_shaft_torque,gt_rate_of_revolutions,gas_generator_rate_of_revolutions,\
         starboard_propeller_torque,port_propeller_torque,hp_turbine_exit_temperature,gt_compressor_inlet_air_temperature,\
         gt_compressor_outlet_air_temperature,hp_turbine_exit_pressure,gt_compressor_inlet_air_pressure,\
         gt_compressor_outlet_air_pressure,gt_exhaust_gas_pressure,turbine_injection_control,fuel_flow,gt_compressor_decay",
    ),
    ("power-plant", "power", "AT,V,AP,RH,PE"),
    ("protein-tertiary-structure", "protein", "F1,F2,F3,F4,F5,F6,F7,F8,F9,RMSD"),
    (
        "wine-quality-red",
        "wine_red",
        "fixed_acidity,volatile_acidity,citric_acid,residual_sugar,chlorides,free_sulfur_dioxide,total_sulfur_dioxide,density,\
         pH,sulphates,alcohol,quality",
    ),
];

/// Every set that is there: two files each.
pub fn make(from: &Path) -> Result<Vec<Made>> {
    let mut all = Vec::new();
    for (source, name, columns) in SETS {
        let folder = from.join("UCI_Datasets").join(source).join("data");
        let rows = numbers(&folder.join("data.txt"), char::is_whitespace)?;
        let index = |file: &str| -> Result<Vec<usize>> {
            let list = numbers(&folder.join(file), char::is_whitespace)?;
            Ok(list.concat().into_iter().map(|x| x as usize).collect())
        };
        let mut order = index("index_features.txt")?;
        order.extend(index("index_target.txt")?);
        let mut table = format!("{columns}\n");
        for values in &rows {
            let values: Option<Vec<f64>> = order.iter().map(|i| values.get(*i).copied()).collect();
            table += &row(&values.with_context(|| format!("{source}: a row is too short"))?);
        }
        let count: usize =
            text(&folder.join("n_splits.txt"))?.trim().parse().context("n_splits.txt: not a number")?;
        let mut splits = String::new();
        for n in 0..count {
            let test = index(&format!("index_test_{n}.txt"))?;
            splits += &(test.iter().map(usize::to_string).collect::<Vec<_>>().join(" ") + "\n");
        }
        all.push(Made { name: format!("uci/{name}.csv"), content: table.into() });
        all.push(Made { name: format!("uci/{name}.splits.txt"), content: splits.into() });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_comes_last_and_every_split_has_a_line() {
        let from = tempfile::tempdir().unwrap();
        for (source, _, columns) in SETS {
            let folder = from.path().join("UCI_Datasets").join(source).join("data");
            std::fs::create_dir_all(&folder).unwrap();
            let features = columns.split(',').count() - 1;
            // The answer is the first column there, and one more is not used.
            let row: Vec<String> = (0..features + 2).map(|i| format!("{i}.500000e+00")).collect();
            let file = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
            file("data.txt", format!("{}\n{}\n", row.join(" "), row.join("\t")));
            file("index_features.txt", (1..=features).map(|i| format!("{i}.0\n")).collect());
            file("index_target.txt", "0.0\n".into());
            file("n_splits.txt", "2\n".into());
            file("index_test_0.txt", "1.0\n0.0\n".into());
            file("index_test_1.txt", "0.0\n".into());
        }
        let made = make(from.path()).unwrap();
        let text = |name: &str| {
            let file = made.iter().find(|m| m.name == name).unwrap();
            String::from_utf8(file.content.clone()).unwrap()
        };
        assert_eq!(text("uci/power.csv"), "AT,V,AP,RH,PE\n1.5,2.5,3.5,4.5,0.5\n1.5,2.5,3.5,4.5,0.5\n");
        assert_eq!(text("uci/power.splits.txt"), "1 0\n0\n");
        assert_eq!(made.len(), 16);
    }
}
