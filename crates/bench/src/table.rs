//! What was measured, beside its goal.

/// Collects rows and prints them.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<[String; 4]>,
}

/// Whether more or less is better.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// Reported, not judged.
    None,
}

impl Table {
    /// Adds a figure with what it was measured from.
    pub(crate) fn row(&mut self, what: &str, value: f64, unit: &str, goal: Goal, from: &str) {
        let (goal, verdict) = match goal {
            Goal::AtLeast(goal) => (format!("≥ {goal}{unit}"), value >= goal),
            Goal::AtMost(goal) => (format!("≤ {goal}{unit}"), value <= goal),
            Goal::None => ("–".to_owned(), true),
        };
        let mark = if verdict { "" } else { "  MISSED" };
        let figure =
            if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") };
        self.rows.push([
            what.to_owned(),
            format!("{figure}{unit}"),
            format!("{goal}{mark}"),
            from.to_owned(),
        ]);
    }

    #[expect(clippy::print_stderr, reason = "progress is talk")]
    pub(crate) fn say(&self, text: &str) {
        eprintln!("{text}");
    }

    #[expect(clippy::print_stdout, reason = "the table is the result")]
    pub(crate) fn print(&self) {
        println!("| what | measured | goal | from |");
        println!("|---|---|---|---|");
        for [what, value, goal, from] in &self.rows {
            println!("| {what} | {value} | {goal} | {from} |");
        }
    }
}
