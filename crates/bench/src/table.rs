//! The measured figures and their goals.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// Collects figures, prints them, and writes them as JSON.
#[derive(Debug, Default)]
pub(crate) struct FigureTable {
    rows: Vec<FigureRow>,
}

/// One figure.
#[derive(Debug)]
struct FigureRow {
    name: String,
    value: f64,
    unit: String,
    goal: Goal,
    from: String,
}

/// The limit of a figure, and the direction that is better.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// The figure has no goal.
    None,
}

impl FigureTable {
    /// Adds a figure. `from` describes the measurements behind it.
    pub(crate) fn row(&mut self, what: &str, value: f64, unit: &str, goal: Goal, from: &str) {
        let (name, unit, from) = (what.to_owned(), unit.to_owned(), from.to_owned());
        self.rows.push(FigureRow { name, value, unit, goal, from });
    }

    #[expect(clippy::print_stderr, reason = "progress goes to stderr")]
    pub(crate) fn progress(&self, text: &str) {
        eprintln!("{text}");
    }

    #[expect(clippy::print_stdout, reason = "the table is the result")]
    pub(crate) fn print(&self) {
        println!("| measurement | result | goal | details |");
        println!("|---|---|---|---|");
        for row in &self.rows {
            println!("{}", row.line());
        }
    }

    /// Writes the figures as JSON: an array of objects with `name`, `unit`, `value`, `kind` and `goal`.
    pub(crate) fn write_json(&self, path: &Path) -> Result<()> {
        let rows: Vec<Value> = self.rows.iter().map(FigureRow::json).collect();
        let text = serde_json::to_string_pretty(&rows)? + "\n";
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

impl FigureRow {
    fn line(&self) -> String {
        let Self { name, value, unit, goal, from } = self;
        let (goal, met) = match goal {
            Goal::AtLeast(goal) => (format!("≥ {goal}{unit}"), value >= goal),
            Goal::AtMost(goal) => (format!("≤ {goal}{unit}"), value <= goal),
            Goal::None => ("–".to_owned(), true),
        };
        let mark = if met { "" } else { "  MISSED" };
        let figure =
            if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") };
        format!("| {name} | {figure}{unit} | {goal}{mark} | {from} |")
    }

    fn json(&self) -> Value {
        let goal = match self.goal {
            Goal::AtLeast(goal) => json!({"at_least": goal}),
            Goal::AtMost(goal) => json!({"at_most": goal}),
            Goal::None => Value::Null,
        };
        json!({
            "name": self.name,
            "unit": self.unit.trim_start(),
            "value": self.value,
            "kind": self.kind(),
            "goal": goal,
        })
    }

    /// Returns the kind of a figure. Ratios of two measurements in one run, and counts, can be
    /// compared across machines. Times, sizes and shares of a core cannot.
    fn kind(&self) -> &'static str {
        match self.unit.as_str() {
            "×" => "ratio",
            "" => "count",
            _ => "absolute",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_is_written_with_kind_and_goal() {
        let mut table = FigureTable::default();
        table.row("a", 0.85, "×", Goal::AtLeast(0.8), "n=3");
        table.row("b", 12.0, " ms", Goal::AtMost(10.0), "");
        table.row("c", 3.0, "", Goal::None, "");
        let rows: Vec<Value> = table.rows.iter().map(FigureRow::json).collect();
        assert_eq!(
            rows[0],
            json!({"name": "a", "unit": "×", "value": 0.85, "kind": "ratio", "goal": {"at_least": 0.8}})
        );
        assert_eq!((&rows[1]["unit"], &rows[1]["kind"]), (&json!("ms"), &json!("absolute")));
        assert_eq!((&rows[2]["kind"], &rows[2]["goal"]), (&json!("count"), &Value::Null));
        assert_eq!(table.rows[1].line(), "| b | 12.00 ms | ≤ 10 ms  MISSED |  |");
    }
}
