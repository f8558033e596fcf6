//! Recorded ratios and counts, and their comparison with a new measurement.
//!
//! Times and sizes depend on the machine, so they are not recorded. Their goals are still checked.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

/// The tolerated change of a ratio or a count, as a share of the baseline.
const TOLERANCE: f64 = 0.25;
/// Benchmarks with a different tolerance, because their ratios are close to 1 and steady.
const TOLERANCES: &[(&str, f64)] =
    &[("codex-turn", 0.15), ("graph-overhead", 0.10), ("watch-ingest", 0.15)];
/// The change of a count that is always tolerated, because one additional system call is not a
/// trend.
const COUNT_SLACK: f64 = 5.0;

/// One figure of a benchmark.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    name: String,
    unit: String,
    value: f64,
    kind: FigureKind,
    goal: FigureGoal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FigureKind {
    Ratio,
    Count,
    /// A time, a size or a share of a core. It is not recorded.
    Absolute,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum FigureGoal {
    AtLeast(f64),
    AtMost(f64),
    None,
}

/// The figures of a benchmark, and the commit at which they were measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Measurement {
    pub(super) commit: String,
    pub(super) date: String,
    pub(super) figures: Vec<Figure>,
}

/// The recorded figures of all benchmarks.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Baseline {
    benchmarks: BTreeMap<String, Measurement>,
}

/// A noteworthy change of one figure.
#[derive(Debug, PartialEq)]
pub(super) struct FigureFinding {
    pub(super) name: String,
    change: FigureChange,
}

#[derive(Debug, PartialEq)]
enum FigureChange {
    /// The goal is missed. `known` is true if the baseline missed the goal too.
    GoalMissed { text: String, known: bool },
    /// The figure is worse by more than the tolerance.
    Worse(String),
    /// The figure changed by more than the tolerance, and is better or has no direction.
    Moved(String),
    /// The figure is not in the baseline.
    New,
    /// The figure is in the baseline, but was not measured.
    Gone,
}

impl Baseline {
    /// Reads the recorded figures, or returns `None` if the file does not exist.
    pub(super) fn read(path: &Path) -> Result<Option<Self>> {
        if !path.exists() {
            return Ok(None);
        }
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let parsed = Self::parse(&text);
        parsed.with_context(|| format!("{} is not a baseline", path.display())).map(Some)
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let dir = path.parent().context("the baseline's path has no directory")?;
        fs::create_dir_all(dir)?;
        // After an interruption, either the old or the new file exists.
        let new = path.with_extension("new");
        fs::write(&new, self.text()?)?;
        fs::rename(&new, path).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Replaces the figures of one benchmark.
    pub(super) fn record(&mut self, benchmark: &str, mut measured: Measurement) {
        measured.figures.retain(|figure| figure.kind != FigureKind::Absolute);
        self.benchmarks.insert(benchmark.to_owned(), measured);
    }

    /// Compares new figures of a benchmark with the recorded ones.
    pub(super) fn compare(&self, benchmark: &str, figures: &[Figure]) -> Vec<FigureFinding> {
        let recorded: &[Figure] =
            self.benchmarks.get(benchmark).map_or(&[], |measured| &measured.figures);
        let mut findings = Vec::new();
        for figure in figures {
            let before = recorded.iter().find(|before| before.name == figure.name);
            let what = figure.change(before, tolerance(benchmark));
            findings
                .extend(what.map(|what| FigureFinding { name: figure.name.clone(), change: what }));
        }
        let gone = |before: &&Figure| !figures.iter().any(|figure| figure.name == before.name);
        findings.extend(
            recorded.iter().filter(gone).map(|before| FigureFinding {
                name: before.name.clone(),
                change: FigureChange::Gone,
            }),
        );
        findings
    }

    fn parse(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        let benchmarks = value["benchmarks"].as_object().context("`benchmarks` is missing")?;
        let mut all = BTreeMap::new();
        for (name, value) in benchmarks {
            let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
            let figures = figures_in(&value["figures"]).context(name.clone())?;
            let measured = Measurement { commit: text("commit"), date: text("date"), figures };
            all.insert(name.clone(), measured);
        }
        Ok(Self { benchmarks: all })
    }

    fn text(&self) -> Result<String> {
        let benchmarks: Map<String, Value> = self
            .benchmarks
            .iter()
            .map(|(name, measured)| {
                let figures: Vec<Value> = measured.figures.iter().map(Figure::json).collect();
                let Measurement { commit, date, .. } = measured;
                (name.clone(), json!({"commit": commit, "date": date, "figures": figures}))
            })
            .collect();
        Ok(serde_json::to_string_pretty(&json!({"benchmarks": benchmarks}))? + "\n")
    }
}

impl FigureFinding {
    /// Whether the finding fails a comparison.
    pub(super) fn is_bad(&self) -> bool {
        matches!(
            self.change,
            FigureChange::Worse(_) | FigureChange::GoalMissed { known: false, .. }
        )
    }
}

impl fmt::Display for FigureFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.change {
            FigureChange::GoalMissed { text, known: false } => {
                write!(f, "goal missed: {name}: {text}")
            }
            FigureChange::GoalMissed { text, known: true } => {
                write!(f, "goal missed as in the baseline: {name}: {text}")
            }
            FigureChange::Worse(text) => write!(f, "worse: {name}: {text}"),
            FigureChange::Moved(text) => write!(f, "moved: {name}: {text}"),
            FigureChange::New => write!(f, "not in the baseline: {name}"),
            FigureChange::Gone => write!(f, "in the baseline, but not measured: {name}"),
        }
    }
}

impl Figure {
    fn change(&self, before: Option<&Figure>, tolerance: f64) -> Option<FigureChange> {
        if !self.meets_goal() {
            let known = before.is_some_and(|before| !before.meets_goal());
            return Some(FigureChange::GoalMissed { text: self.describe(before), known });
        }
        if self.kind == FigureKind::Absolute {
            return None;
        }
        let Some(before) = before else { return Some(FigureChange::New) };
        let slack = if self.kind == FigureKind::Count { COUNT_SLACK } else { 0.0 };
        let allowed = (before.value.abs() * tolerance).max(slack);
        let moved = self.value - before.value;
        if moved.abs() <= allowed {
            return None;
        }
        let worse = match self.goal {
            FigureGoal::AtLeast(_) => moved < 0.0,
            FigureGoal::AtMost(_) => moved > 0.0,
            FigureGoal::None => false,
        };
        let text = self.describe(Some(before));
        Some(if worse { FigureChange::Worse(text) } else { FigureChange::Moved(text) })
    }

    fn meets_goal(&self) -> bool {
        match self.goal {
            FigureGoal::AtLeast(goal) => self.value >= goal,
            FigureGoal::AtMost(goal) => self.value <= goal,
            FigureGoal::None => true,
        }
    }

    fn describe(&self, before: Option<&Figure>) -> String {
        let unit = &self.unit;
        let space = if matches!(self.kind, FigureKind::Absolute) { " " } else { "" };
        let mut text = format!("{:.2}{space}{unit}", self.value);
        if let Some(before) = before {
            text += &format!(", was {:.2}{space}{unit}", before.value);
        }
        match self.goal {
            FigureGoal::AtLeast(goal) => text + &format!(", goal at least {goal}{space}{unit}"),
            FigureGoal::AtMost(goal) => text + &format!(", goal at most {goal}{space}{unit}"),
            FigureGoal::None => text,
        }
    }

    fn json(&self) -> Value {
        let goal = match self.goal {
            FigureGoal::AtLeast(goal) => json!({"at_least": goal}),
            FigureGoal::AtMost(goal) => json!({"at_most": goal}),
            FigureGoal::None => Value::Null,
        };
        let kind = match self.kind {
            FigureKind::Ratio => "ratio",
            FigureKind::Count => "count",
            FigureKind::Absolute => "absolute",
        };
        // More digits are noise, and would change every line of a new baseline.
        let value = (self.value * 1000.0).round() / 1000.0;
        json!({"name": self.name, "unit": self.unit, "value": value, "kind": kind, "goal": goal})
    }
}

/// Reads the figures that `provost-bench --json` wrote.
pub(super) fn parse_figures(text: &str) -> Result<Vec<Figure>> {
    figures_in(&serde_json::from_str(text)?)
}

fn figures_in(value: &Value) -> Result<Vec<Figure>> {
    let rows = value.as_array().context("the figures are not a list")?;
    rows.iter().map(|row| figure(row).with_context(|| format!("not a figure: {row}"))).collect()
}

fn figure(row: &Value) -> Option<Figure> {
    let kind = match row["kind"].as_str()? {
        "ratio" => FigureKind::Ratio,
        "count" => FigureKind::Count,
        "absolute" => FigureKind::Absolute,
        _ => return None,
    };
    let goal = match (row["goal"]["at_least"].as_f64(), row["goal"]["at_most"].as_f64()) {
        (Some(goal), _) => FigureGoal::AtLeast(goal),
        (None, Some(goal)) => FigureGoal::AtMost(goal),
        (None, None) => FigureGoal::None,
    };
    Some(Figure {
        name: row["name"].as_str()?.to_owned(),
        unit: row["unit"].as_str()?.to_owned(),
        value: row["value"].as_f64()?,
        kind,
        goal,
    })
}

fn tolerance(benchmark: &str) -> f64 {
    let own = TOLERANCES.iter().find(|(name, _)| *name == benchmark);
    own.map_or(TOLERANCE, |(_, tolerance)| *tolerance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(value: f64, goal: FigureGoal) -> Figure {
        Figure { name: "r".to_owned(), unit: "×".to_owned(), value, kind: FigureKind::Ratio, goal }
    }

    fn count(value: f64) -> Figure {
        Figure {
            unit: String::new(),
            kind: FigureKind::Count,
            ..ratio(value, FigureGoal::AtMost(93.0))
        }
    }

    /// Returns the findings for one figure compared with another. `!` marks bad findings.
    fn compared(benchmark: &str, before: &Figure, now: &Figure) -> Vec<String> {
        let mut baseline = Baseline::default();
        let figures = vec![before.clone()];
        baseline.record(benchmark, Measurement { figures, ..Measurement::default() });
        let findings = baseline.compare(benchmark, std::slice::from_ref(now));
        findings
            .iter()
            .map(|one| format!("{}{one}", if one.is_bad() { "! " } else { "" }))
            .collect()
    }

    #[test]
    fn ratio_within_its_tolerance_is_not_reported() {
        let goal = FigureGoal::AtLeast(0.5);
        assert_eq!(compared("append", &ratio(1.0, goal), &ratio(0.76, goal)), [""; 0]);
        assert_eq!(compared("append", &ratio(1.0, goal), &ratio(1.24, goal)), [""; 0]);
    }

    #[test]
    fn goal_defines_the_worse_direction() {
        let (least, most) = (FigureGoal::AtLeast(0.5), FigureGoal::AtMost(2.0));
        assert_eq!(
            compared("append", &ratio(1.0, least), &ratio(0.7, least)),
            ["! worse: r: 0.70×, was 1.00×, goal at least 0.5×"]
        );
        assert_eq!(
            compared("append", &ratio(1.0, most), &ratio(1.3, most)),
            ["! worse: r: 1.30×, was 1.00×, goal at most 2×"]
        );
        assert_eq!(
            compared("append", &ratio(1.0, most), &ratio(0.7, most)),
            ["moved: r: 0.70×, was 1.00×, goal at most 2×"]
        );
        assert_eq!(
            compared("append", &ratio(1.0, FigureGoal::None), &ratio(3.0, FigureGoal::None)),
            ["moved: r: 3.00×, was 1.00×"]
        );
    }

    #[test]
    fn missed_goal_within_tolerance_is_bad() {
        let goal = FigureGoal::AtLeast(8.0);
        assert_eq!(
            compared("append", &ratio(8.0, goal), &ratio(7.9, goal)),
            ["! goal missed: r: 7.90×, was 8.00×, goal at least 8×"]
        );
        assert_eq!(
            compared("append", &ratio(7.8, goal), &ratio(7.9, goal)),
            ["goal missed as in the baseline: r: 7.90×, was 7.80×, goal at least 8×"]
        );
        let time = Figure {
            unit: "ms".to_owned(),
            kind: FigureKind::Absolute,
            ..ratio(21.0, FigureGoal::AtMost(20.0))
        };
        assert_eq!(
            compared("exit", &time, &time),
            ["! goal missed: r: 21.00 ms, goal at most 20 ms"]
        );
    }

    #[test]
    fn steady_benchmark_has_a_smaller_tolerance() {
        let goal = FigureGoal::AtMost(1.25);
        let before = ratio(1.02, goal);
        assert_eq!(compared("append", &before, &ratio(1.2, goal)), [""; 0]);
        assert_eq!(compared("graph-overhead", &before, &ratio(1.2, goal)).len(), 1);
    }

    #[test]
    fn small_count_has_slack() {
        assert_eq!(compared("wakeups", &count(0.0), &count(5.0)), [""; 0]);
        assert_eq!(compared("wakeups", &count(0.0), &count(6.0)).len(), 1);
        assert_eq!(compared("graph-queue", &count(52.0), &count(65.0)), [""; 0]);
        assert_eq!(compared("graph-queue", &count(52.0), &count(66.0)).len(), 1);
    }

    #[test]
    fn new_and_gone_figures_are_reported() {
        let figure = ratio(1.0, FigureGoal::None);
        let other = Figure { name: "s".to_owned(), ..figure.clone() };
        assert_eq!(
            compared("append", &figure, &other),
            ["not in the baseline: s", "in the baseline, but not measured: r"]
        );
    }

    #[test]
    fn baseline_keeps_other_benchmarks_and_no_times() {
        let time = Figure {
            name: "t".to_owned(),
            kind: FigureKind::Absolute,
            ..ratio(1.0, FigureGoal::None)
        };
        let measured = |value: f64| Measurement {
            commit: "c".to_owned(),
            date: "2026-01-01".to_owned(),
            figures: vec![ratio(value, FigureGoal::AtMost(2.0)), time.clone()],
        };
        let mut baseline = Baseline::default();
        baseline.record("append", measured(0.12345));
        let mut baseline = Baseline::parse(&baseline.text().unwrap()).unwrap();
        baseline.record("replay", measured(0.5));
        let text = baseline.text().unwrap();
        let read = Baseline::parse(&text).unwrap();
        assert_eq!(read.benchmarks["append"].figures, [ratio(0.123, FigureGoal::AtMost(2.0))]);
        assert_eq!(read.benchmarks["replay"], baseline.benchmarks["replay"]);
        assert!(Baseline::parse("[]").is_err());
    }

    #[test]
    fn figures_of_the_benchmarks_are_read() {
        let text = r#"[{"name": "r", "unit": "×", "value": 0.85, "kind": "ratio", "goal": {"at_least": 0.8}}]"#;
        assert_eq!(parse_figures(text).unwrap(), [ratio(0.85, FigureGoal::AtLeast(0.8))]);
        let no_value =
            r#"[{"name": "r", "unit": "", "value": null, "kind": "count", "goal": null}]"#;
        assert!(parse_figures(no_value).is_err());
    }
}
