//! `cargo xtask test`: everything that has to hold, and the look afterwards for what was left behind.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    demo,
    junit::{self, Record, Tally},
    lint,
    process::{Watch, output, ran},
    say::say,
    tools::{self, Depth},
    workspace::{Programs, SEEDED_BUGS, SIMULATED, SIMULATOR, Workspace},
};

/// How many seeds the simulator plays.
const SEEDS: &str = "20000";
const DEEP_SEEDS: &str = "200000";
/// How many tests of a run in CI may fail and pass at a second try. Some thousand tests with real processes share a machine
/// there; each that is unsteady is named at the end, to be mended, and more than these are no accident.
const UNSTEADY_AT_MOST: usize = 4;
/// The rules that no mutant may survive in.
const MUTATED: &[&str] = &[
    "crates/core/src/lifecycle/**/*.rs",
    "crates/core/src/run/**/*.rs",
    "crates/core/src/session/**/*.rs",
];

/// What is to be tested.
pub(crate) struct Plan {
    depth: Depth,
    /// Names of tests; empty means everything.
    filters: Vec<String>,
}

impl Plan {
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self> {
        let (options, filters): (Vec<&str>, Vec<&str>) =
            arguments.iter().partition(|argument| argument.starts_with("--"));
        ensure!(options.iter().all(|option| *option == "--deep"), "unknown options: {options:?}");
        let depth = if options.is_empty() { Depth::Usual } else { Depth::Deep };
        Ok(Self { depth, filters: filters.into_iter().map(str::to_owned).collect() })
    }

    fn is_whole(&self) -> bool {
        self.filters.is_empty()
    }

    fn profile(&self) -> &'static str {
        match self.depth {
            Depth::Usual => "ci",
            Depth::Deep => "deep",
        }
    }
}

/// Runs what is planned and gives whether all is well; the last line says how many tests passed and failed.
pub(crate) fn run(workspace: &Workspace, plan: &Plan) -> Result<ExitCode> {
    let watch = Watch::start();
    let missing = tools::provide(workspace, plan.depth)?;
    if plan.is_whole() {
        lint::run(workspace, plan.depth)?;
    }
    let programs = workspace.build_for_tests()?;
    let room = Room::new()?;
    let suite = Suite { workspace, plan, programs, room: &room, missing: missing.join(",") };
    let results = suite.all()?;
    let tally: Tally = results.iter().map(|result| result.tally).sum();
    let unsteady: Vec<&String> = results.iter().flat_map(|result| &result.unsteady).collect();
    let shaken = (unsteady.len() > UNSTEADY_AT_MOST)
        .then(|| format!("failed: more than {UNSTEADY_AT_MOST} tests are unsteady"));
    for name in unsteady {
        say(&format!("   unsteady, passed at the second try: {name}"));
    }
    let mut troubles: Vec<String> =
        results.into_iter().filter_map(|result| result.trouble).chain(shaken).collect();
    troubles.extend(room.leftovers());
    if troubles.is_empty() {
        room.remove()?;
    }
    say(&format!("── all tests: {:.0} s", watch.seconds()));
    for trouble in &troubles {
        say(&format!("   {trouble}"));
    }
    say(&format!("{} passed, {} failed", tally.passed, tally.failed));
    Ok(if troubles.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What came out of one part of the run.
#[derive(Default)]
struct Outcome {
    tally: Tally,
    unsteady: Vec<String>,
    trouble: Option<String>,
}

struct Suite<'a> {
    workspace: &'a Workspace,
    plan: &'a Plan,
    programs: Programs,
    room: &'a Room,
    missing: String,
}

impl Suite<'_> {
    fn all(&self) -> Result<Vec<Outcome>> {
        let mut outcomes = vec![self.tests()?];
        if self.plan.is_whole() {
            outcomes.push(self.doc_tests()?);
            outcomes.push(self.simulator()?);
            outcomes.push(self.demo());
        }
        if self.plan.is_whole() && self.plan.depth == Depth::Deep {
            outcomes.push(self.mutants()?);
        }
        Ok(outcomes)
    }

    fn tests(&self) -> Result<Outcome> {
        let mut nextest = self.nextest();
        nextest.args(["--workspace", "--features", &self.workspace.test_features()]);
        nextest.args(["--exclude", SIMULATOR]).args(&self.plan.filters);
        self.counted("tests", &mut nextest)
    }

    /// The simulator's seeds. What they run through is optimised like a release; all else is shared with the other tests, for
    /// building it again would take longer than the seeds.
    fn simulator(&self) -> Result<Outcome> {
        if !self.has_simulator() {
            say("── simulator: not there yet");
            return Ok(Outcome::default());
        }
        let seeds = if self.plan.depth == Depth::Deep { DEEP_SEEDS } else { SEEDS };
        let mut nextest = self.nextest();
        nextest.args(["--package", SIMULATOR, "--features", "seeded-bugs"]);
        for package in SIMULATED {
            let set = |what: &str| format!("profile.dev.package.{package}.{what}");
            nextest.arg("--config").arg(set("opt-level=3"));
            nextest.arg("--config").arg(set("debug-assertions=false"));
            nextest.arg("--config").arg(set("overflow-checks=false"));
        }
        nextest.env("PROVOST_SIM_SEEDS", seeds);
        self.counted("simulator", &mut nextest)
    }

    fn has_simulator(&self) -> bool {
        self.workspace.has_feature(SEEDED_BUGS)
    }

    fn doc_tests(&self) -> Result<Outcome> {
        let mut cargo = self.prepared(self.workspace.cargo());
        cargo.args(["test", "--quiet", "--doc", "--workspace"]);
        cargo.args(["--features", &self.workspace.test_features()]);
        say("── documentation tests");
        let output = output(&mut cargo)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let trouble = (!output.status.success()).then(|| {
            say(&format!("{text}{}", String::from_utf8_lossy(&output.stderr)));
            "failed: documentation tests".to_owned()
        });
        Ok(Outcome { tally: junit::doc_tests(&text), trouble, ..Outcome::default() })
    }

    /// The demo checks itself; here it is one more test.
    fn demo(&self) -> Outcome {
        let codex = tools::pinned_codex(self.workspace);
        match demo::run(&self.programs, codex.as_deref(), &self.room.path.join("pv-demo")) {
            Ok(()) => Outcome { tally: Tally { passed: 1, failed: 0 }, ..Outcome::default() },
            Err(error) => Outcome {
                tally: Tally { passed: 0, failed: 1 },
                trouble: Some(format!("failed: demo: {error:#}")),
                ..Outcome::default()
            },
        }
    }

    /// Every change to the rules has to fail a test.
    fn mutants(&self) -> Result<Outcome> {
        let out = self.workspace.target.join("mutants");
        fs::create_dir_all(&out)?;
        let mut cargo = self.prepared(self.workspace.cargo());
        cargo
            .args(["mutants", "--package", "provost-core", "--test-tool", "nextest"])
            // Building is most of the work: without debug information, optimisation and unit tests it is a third of it.
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .env("PROVOST_LAW_CASES", "300")
            .arg("--cargo-arg=--config=profile.dev.package.provost-core.opt-level=0")
            .args(["--no-shuffle", "--jobs", "2", "--cargo-arg=--test=main", "--output"])
            .arg(&out);
        for files in MUTATED {
            cargo.args(["--file", files]);
        }
        let ended_well = ran("mutants", &mut cargo)?;
        let survivors = fs::read_to_string(out.join("mutants.out/missed.txt"));
        let survivors = survivors.context("cargo-mutants left no list of survivors")?;
        let timed_out = fs::read_to_string(out.join("mutants.out/timeout.txt")).unwrap_or_default();
        // A mutant that hangs was noticed, though cargo-mutants ends with an error then.
        let noticed = ended_well || !timed_out.is_empty();
        let trouble = (!survivors.is_empty() || !noticed)
            .then(|| format!("failed: mutants survived or could not be tried:\n{survivors}"));
        Ok(Outcome { trouble, ..Outcome::default() })
    }

    fn nextest(&self) -> Command {
        let mut cargo = self.prepared(self.workspace.cargo());
        cargo.args(["nextest", "run", "--profile", self.plan.profile()]);
        if self.workspace.ci && self.plan.depth == Depth::Usual {
            cargo.args(["--retries", "1"]);
        }
        cargo
    }

    fn prepared(&self, mut command: Command) -> Command {
        command
            .env("PROVOST_BIN", &self.programs.provost)
            .env("PROVOST_SCRIPTED_AGENT", &self.programs.scripted_agent)
            .env("PROVOST_TEST_ROOT", &self.room.path)
            .env("PROVOST_TEST_MISSING", &self.missing)
            .envs(tools::codex_programs(self.workspace))
            .env("TMPDIR", self.room.temporary());
        if self.plan.depth == Depth::Deep {
            command.env("PROVOST_DEEP", "1");
        }
        command
    }

    /// Runs the test runner and counts by its record.
    fn counted(&self, title: &str, nextest: &mut Command) -> Result<Outcome> {
        // The runner keeps its records below the workspace, wherever cargo builds.
        let record =
            self.workspace.root.join("target/nextest").join(self.plan.profile()).join("junit.xml");
        if record.exists() {
            fs::remove_file(&record)?;
        }
        let passed = ran(title, nextest)?;
        // Without a record nothing was run: the build failed, or no test matched.
        let trouble = (!passed).then(|| format!("failed: {title}"));
        if !passed && !record.exists() {
            return Ok(Outcome { trouble, ..Outcome::default() });
        }
        let Record { tally, unsteady } = junit::read(&record)?;
        Ok(Outcome { tally, unsteady, trouble })
    }
}

/// The directory below which all tests make their homes and temporary files.
struct Room {
    path: PathBuf,
}

impl Room {
    /// A fresh one, with a short name, outside of this repository: a place that is in no repository is
    /// part of what is tested.
    fn new() -> Result<Self> {
        let all = std::env::temp_dir().join("provost-tests");
        remove_of_the_dead(&all);
        let path = all.join(std::process::id().to_string());
        let room = Self { path };
        fs::create_dir_all(room.temporary())
            .with_context(|| format!("cannot make {}", room.path.display()))?;
        Ok(room)
    }

    fn temporary(&self) -> PathBuf {
        self.path.join("tmp")
    }

    /// What the tests left behind, although they passed: homes, processes, sockets, worktrees, panics,
    /// temporary files.
    fn leftovers(&self) -> Vec<String> {
        let mut found = provost_testkit::leftovers_under(&self.path);
        found.extend(provost_testkit::leftovers(&self.temporary()));
        match fs::read_dir(self.temporary()) {
            Ok(files) => found.extend(
                files
                    .flatten()
                    .map(|file| format!("temporary file left behind: {}", file.path().display())),
            ),
            Err(error) => found.push(format!("could not look for temporary files: {error}")),
        }
        found.sort();
        found.dedup();
        found
    }

    fn remove(self) -> Result<()> {
        fs::remove_dir_all(&self.path)
            .with_context(|| format!("cannot remove {}", self.path.display()))
    }
}

/// Removes the rooms of earlier runs; they were kept because something was left in them.
fn remove_of_the_dead(all: &Path) {
    for room in fs::read_dir(all).into_iter().flatten().flatten() {
        let living = Path::new("/proc").join(room.file_name()).exists();
        if !living && fs::remove_dir_all(room.path()).is_err() {
            say(&format!("   cannot remove {}", room.path().display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_has_a_depth_and_filters_and_nothing_else() {
        let plan = Plan::parse(&["--deep", "crash", "ledger"]).unwrap();
        assert_eq!((plan.profile(), plan.filters.len(), plan.is_whole()), ("deep", 2, false));
        let plan = Plan::parse(&[]).unwrap();
        assert_eq!((plan.profile(), plan.is_whole()), ("ci", true));
        assert!(Plan::parse(&["--depp"]).is_err());
    }

    #[test]
    fn what_tests_leave_behind_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let room = Room { path: dir.path().to_owned() };
        fs::create_dir_all(room.temporary()).unwrap();
        assert_eq!(room.leftovers(), Vec::<String>::new());

        fs::create_dir_all(dir.path().join("pv-abc/home/log")).unwrap();
        fs::write(dir.path().join("pv-abc/home/log/daemon.log"), "thread 'x' panicked at y\n")
            .unwrap();
        fs::write(room.temporary().join("forgotten"), "").unwrap();
        let mut sleeper = Command::new("sleep").arg("60").current_dir(dir.path()).spawn().unwrap();
        let found = room.leftovers().join("\n");
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        for expected in
            ["home left behind", "panicked at y", "temporary file", "process left running"]
        {
            assert!(found.contains(expected), "{expected} is not in:\n{found}");
        }
    }
}
