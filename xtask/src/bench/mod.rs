//! `cargo xtask bench`: builds the release and runs `provost-bench`, one benchmark at a time, so
//! that an interrupted run keeps its results. `--baseline` records the results, and `--compare`
//! compares them with the baseline.

mod baseline;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};

use self::baseline::{Baseline, Figure, FigureFinding, Measurement};
use crate::{
    print::print_line,
    process::{Stopwatch, capture, step, try_step},
    tools,
    workspace::{Programs, Workspace},
};

/// The file of recorded ratios, relative to the workspace.
const BASELINE: &str = "bench/baseline.json";

/// The action to take with the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BenchMode {
    Print,
    Record,
    Compare,
}

/// The selected benchmarks, and the action to take with their results.
pub(crate) struct BenchPlan {
    mode: BenchMode,
    /// Names of benchmarks or of groups. Empty means all.
    names: Vec<String>,
}

impl BenchPlan {
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self> {
        let (options, names): (Vec<&str>, Vec<&str>) =
            arguments.iter().partition(|argument| argument.starts_with("--"));
        let mode = match options.as_slice() {
            [] => BenchMode::Print,
            ["--baseline"] => BenchMode::Record,
            ["--compare"] => BenchMode::Compare,
            _ => bail!("unknown options: {options:?}; expected --baseline or --compare"),
        };
        Ok(Self { mode, names: names.into_iter().map(str::to_owned).collect() })
    }
}

/// Runs the benchmarks of the plan. Fails if one fails. With `--compare`, also fails on a missed
/// goal or a worse ratio.
pub(crate) fn run(workspace: &Workspace, plan: &BenchPlan) -> Result<()> {
    let bench = BenchRunner::build(workspace)?;
    let names = bench.names(&plan.names)?;
    let mut troubles = Vec::new();
    let mut durations = Vec::new();
    for (index, name) in names.iter().enumerate() {
        print_line(&format!("── {name} ({} of {})", index + 1, names.len()));
        let watch = Stopwatch::start();
        match bench.run_benchmark(name, plan.mode) {
            Ok(findings) => troubles.extend(findings),
            Err(error) => troubles.push(format!("{name}: {error:#}")),
        }
        durations.push(format!("{name} {:.0} s", watch.seconds()));
        print_line(&format!("   {name}: {:.0} s", watch.seconds()));
    }
    print_line(&format!("── benchmarks: {}", durations.join(", ")));
    ensure!(troubles.is_empty(), "benchmarks:\n{}", troubles.join("\n"));
    Ok(())
}

/// The programs of the benchmarks, and the directory of their results.
struct BenchRunner<'a> {
    workspace: &'a Workspace,
    programs: Programs,
    program: PathBuf,
    codex: Option<PathBuf>,
    results: PathBuf,
}

impl<'a> BenchRunner<'a> {
    fn build(workspace: &'a Workspace) -> Result<Self> {
        let mut build = workspace.cargo();
        build.args(["build", "--release", "--package", "provost", "--package", "provost-bench"]);
        step("release build", &mut build)?;
        let programs = workspace.programs("release");
        let results = workspace.target.join("bench");
        fs::create_dir_all(&results)?;
        Ok(Self {
            workspace,
            program: programs.provost.with_file_name("provost-bench"),
            programs,
            codex: tools::ensure_codex(workspace)?,
            results,
        })
    }

    /// Returns the names of the selected benchmarks.
    fn names(&self, wanted: &[String]) -> Result<Vec<String>> {
        let list = capture(self.workspace.command(&self.program).arg("--list").args(wanted))?;
        Ok(list.lines().map(str::to_owned).collect())
    }

    /// Runs one benchmark, records or compares its results, and returns the problems.
    fn run_benchmark(&self, name: &str, mode: BenchMode) -> Result<Vec<String>> {
        let figures = self.measure(name)?;
        match mode {
            BenchMode::Print => Ok(Vec::new()),
            BenchMode::Record => {
                let path = self.workspace.root.join(BASELINE);
                let mut baseline = Baseline::read(&path)?.unwrap_or_default();
                baseline.record(name, self.describe(figures)?);
                baseline.write(&path)?;
                print_line(&format!("   recorded in {BASELINE}"));
                Ok(Vec::new())
            }
            BenchMode::Compare => self.compare(name, &figures),
        }
    }

    /// Compares the figures with the baseline. Measures a benchmark with a bad result once more,
    /// and reports only figures that are bad both times.
    fn compare(&self, name: &str, figures: &[Figure]) -> Result<Vec<String>> {
        let baseline = Baseline::read(&self.workspace.root.join(BASELINE))?;
        let baseline = baseline.with_context(|| {
            format!("{BASELINE} does not exist; `cargo xtask bench --baseline` writes it")
        })?;
        let first = report(baseline.compare(name, figures));
        if first.is_empty() {
            return Ok(Vec::new());
        }
        print_line("   measuring once more");
        let second = report(baseline.compare(name, &self.measure(name)?));
        let both = second.into_iter().filter(|bad| first.iter().any(|one| one.name == bad.name));
        Ok(both.map(|bad| format!("{name}: {bad}")).collect())
    }

    /// Runs one benchmark and returns its figures, which are also kept below the target directory.
    fn measure(&self, name: &str) -> Result<Vec<Figure>> {
        let json = self.results.join(format!("{name}.json"));
        if json.exists() {
            fs::remove_file(&json)?;
        }
        let mut run = self.workspace.command(&self.program);
        run.arg("--json").arg(&json).arg(name).env("PROVOST_BIN", &self.programs.provost);
        run.envs(self.codex.as_ref().map(|codex| ("PROVOST_CODEX", codex)));
        ensure!(try_step(name, &mut run)?, "the benchmark failed");
        read_figures(&json)
    }

    fn describe(&self, figures: Vec<Figure>) -> Result<Measurement> {
        let git = |args: &[&str]| capture(self.workspace.command("git").args(args));
        let commit = git(&["rev-parse", "--short=12", "HEAD"])?.trim().to_owned();
        let changed =
            !git(&["status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench"])?
                .trim()
                .is_empty();
        let date = capture(self.workspace.command("date").args(["-u", "+%Y-%m-%d"]))?;
        Ok(Measurement {
            commit: if changed { format!("{commit} with changes") } else { commit },
            date: date.trim().to_owned(),
            figures,
        })
    }
}

/// Prints findings and returns those that fail the run.
fn report(findings: Vec<FigureFinding>) -> Vec<FigureFinding> {
    findings.iter().for_each(|finding| print_line(&format!("   {finding}")));
    findings.into_iter().filter(FigureFinding::is_bad).collect()
}

fn read_figures(path: &Path) -> Result<Vec<Figure>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    baseline::parse_figures(&text).with_context(|| format!("{} has no figures", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_has_a_mode_and_names() {
        let plan = BenchPlan::parse(&["--compare", "graph-queue"]).unwrap();
        assert_eq!(
            (plan.mode, plan.names.as_slice()),
            (BenchMode::Compare, &["graph-queue".to_owned()][..])
        );
        assert_eq!(BenchPlan::parse(&[]).unwrap().mode, BenchMode::Print);
        assert!(BenchPlan::parse(&["--compare", "--baseline"]).is_err());
        assert!(BenchPlan::parse(&["--compair"]).is_err());
    }
}
