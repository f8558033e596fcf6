//! `cargo xtask test`: all required tests in parts, followed by a check for leftovers.

mod parts;
mod test_dir;
mod unprivileged;

use std::{
    ffi::OsString,
    fs::{self, File},
    num::NonZero,
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    thread,
};

use anyhow::{Context as _, Result, ensure};

use self::{
    parts::{PartTimes, TestPart},
    test_dir::TestDir,
    unprivileged::{TestUser, UserTestInputs},
};
use crate::{
    demo,
    junit::{self, JunitRecord, Tally},
    lint,
    print::print_line,
    process::{output, try_step},
    tools::{self, Depth},
    workspace::{Programs, SEEDED_BUGS, SIMULATED, SIMULATED_SHORT, SIMULATOR, Workspace},
};

/// Simulator seeds. Without `--deep` they take less than a minute.
const SEEDS: &str = "3000";
const DEEP_SEEDS: &str = "200000";
/// The maximum number of tests in a CI run that may fail once and pass on retry, because thousands
/// of tests with real processes share a machine there. Each one is listed at the end, so that it
/// can be fixed.
const FLAKY_LIMIT: usize = 2;
/// The number of parallel tests per core. Tests mostly wait for processes, so the number is more
/// than one.
const TESTS_PER_CORE: usize = 2;
/// The number of random cases per property test of the core. `--deep` uses each test's own number.
const LAW_CASES: &str = "1000";
/// The nextest filter for tests that drive real Codex.
const AGENTS: &str = "binary_id(provost::codex) \
    + (package(provost-agent-codex) \
        & test(/^(auth|codex|drift|features|find|home|live|preflight|real|refresh|skills)::/)) \
    + (package(provost-holder) & test(/^relay_codex::/)) \
    + (package(provost-testkit) & test(/^model::/))";
/// The nextest filter for attacks on the security boundary.
const BOUNDARY: &str = "binary_id(provost::boundary)";
/// Source files in which no mutant may survive.
const MUTATED: &[&str] = &[
    "crates/core/src/lifecycle/**/*.rs",
    "crates/core/src/run/**/*.rs",
    "crates/core/src/session/**/*.rs",
];

/// The tests of a run.
pub(crate) struct TestPlan {
    depth: Depth,
    /// Runs only the boundary tests, and only as the unprivileged user.
    unprivileged: bool,
    /// Substrings of test names; empty means all tests.
    filters: Vec<String>,
}

impl TestPlan {
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self> {
        let (options, filters): (Vec<&str>, Vec<&str>) =
            arguments.iter().partition(|argument| argument.starts_with("--"));
        let unknown: Vec<&&str> = options
            .iter()
            .filter(|option| !["--deep", "--unprivileged"].contains(option))
            .collect();
        ensure!(unknown.is_empty(), "unknown options: {unknown:?}");
        let depth = if options.contains(&"--deep") { Depth::Deep } else { Depth::Usual };
        Ok(Self {
            depth,
            unprivileged: options.contains(&"--unprivileged"),
            filters: filters.into_iter().map(str::to_owned).collect(),
        })
    }

    fn is_whole(&self) -> bool {
        self.filters.is_empty() && !self.unprivileged
    }

    fn profile(&self) -> &'static str {
        match self.depth {
            Depth::Usual => "ci",
            Depth::Deep => "deep",
        }
    }
}

/// Runs the tests and returns success if all passed. The last line counts passed and failed tests.
pub(crate) fn run(mut workspace: Workspace, plan: &TestPlan) -> Result<ExitCode> {
    let mut minutes = PartTimes::since_cargo_started();
    let report = run_parts(&mut workspace, plan, &mut minutes);
    print_line(&format!("── minutes\n{}", minutes.table()));
    let report = report?;
    for name in &report.flaky {
        print_line(&format!("   flaky, passed on retry: {name}"));
    }
    for trouble in &report.problems {
        print_line(&format!("   {trouble}"));
    }
    print_line(&format!("{} passed, {} failed", report.tally.passed, report.tally.failed));
    Ok(if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The result of a whole run.
struct TestReport {
    tally: Tally,
    flaky: Vec<String>,
    problems: Vec<String>,
}

fn run_parts(
    workspace: &mut Workspace,
    plan: &TestPlan,
    minutes: &mut PartTimes,
) -> Result<TestReport> {
    let missing =
        minutes.measure(TestPart::Tools, || tools::ensure_tools(workspace, plan.depth))?;
    if plan.is_whole() {
        minutes.measure(TestPart::Lint, || lint::before_test_build(workspace, plan.depth))?;
        workspace.deny_warnings_in_test_build()?;
    }
    let workspace = &*workspace;
    let programs = minutes.measure(TestPart::Build, || -> Result<Programs> {
        let programs = workspace.build_for_tests()?;
        if plan.is_whole() {
            lint::documents(workspace)?;
        }
        Ok(programs)
    })?;
    let room = TestDir::new()?;
    let user = if missing.iter().any(|tool| tools::USER_SWITCH_TOOLS.contains(tool)) {
        None
    } else {
        let needs = UserTestInputs {
            workspace,
            programs: &programs,
            codex: tools::codex_programs(workspace),
            variables: test_variables(plan, &missing),
        };
        TestUser::prepare(&room, &needs)?
    };
    let suite = Suite { workspace, plan, programs, room: &room, user, missing };
    let results = suite.all(minutes)?;
    let tally: Tally = results.iter().map(|result| result.tally).sum();
    let unsteady: Vec<String> =
        results.iter().flat_map(|result| result.flaky.iter().cloned()).collect();
    let mut troubles: Vec<String> =
        results.into_iter().filter_map(|result| result.problem).collect();
    if unsteady.len() > FLAKY_LIMIT {
        troubles.push(format!("failed: more than {FLAKY_LIMIT} flaky tests"));
    }
    troubles.extend(room.leftovers());
    troubles.extend(suite.user.iter().flat_map(|user| user.room.leftovers()));
    if troubles.is_empty() {
        room.remove()?;
    }
    Ok(TestReport { tally, flaky: unsteady, problems: troubles })
}

/// Returns the environment variables that set a test's depth and list the missing tools.
fn test_variables(plan: &TestPlan, missing: &[&str]) -> Vec<(&'static str, OsString)> {
    let mut variables = vec![("PROVOST_TEST_MISSING", missing.join(",").into())];
    variables.push(match plan.depth {
        Depth::Usual => ("PROVOST_LAW_CASES", LAW_CASES.into()),
        Depth::Deep => ("PROVOST_DEEP", "1".into()),
    });
    variables
}

/// The result of one part of the run.
#[derive(Default)]
struct PartOutcome {
    tally: Tally,
    flaky: Vec<String>,
    problem: Option<String>,
}

struct Suite<'a> {
    workspace: &'a Workspace,
    plan: &'a TestPlan,
    programs: Programs,
    room: &'a TestDir,
    /// The unprivileged user, if root runs the tests.
    user: Option<TestUser>,
    missing: Vec<&'static str>,
}

impl Suite<'_> {
    fn all(&self, minutes: &mut PartTimes) -> Result<Vec<PartOutcome>> {
        if self.plan.unprivileged {
            let user = self.user.as_ref();
            let user =
                user.context("--unprivileged needs root; other users run the tests without it")?;
            return Ok(vec![
                minutes
                    .measure(TestPart::BoundaryUnprivileged, || self.boundary_unprivileged(user))?,
            ]);
        }
        if !self.plan.is_whole() {
            return Ok(vec![minutes.measure(TestPart::CoreAndCli, || self.selected())?]);
        }
        let core_and_cli = format!("not ({AGENTS} + {BOUNDARY})");
        let mut outcomes = vec![
            minutes.measure(TestPart::CoreAndCli, || {
                self.tests(TestPart::CoreAndCli, &core_and_cli)
            })?,
            minutes.measure(TestPart::Agents, || self.tests(TestPart::Agents, AGENTS))?,
            minutes.measure(TestPart::Boundary, || self.tests(TestPart::Boundary, BOUNDARY))?,
        ];
        if let Some(user) = &self.user {
            outcomes
                .push(minutes.measure(TestPart::BoundaryUnprivileged, || {
                    self.boundary_unprivileged(user)
                })?);
        }
        outcomes.push(minutes.measure(TestPart::Simulator, || self.simulator())?);
        outcomes.extend(minutes.measure(TestPart::Demo, || self.demos())?);
        if self.plan.depth == Depth::Deep {
            outcomes.push(minutes.measure(TestPart::DocTests, || self.doc_tests())?);
            outcomes.push(minutes.measure(TestPart::Mutants, || self.mutants())?);
        }
        Ok(outcomes)
    }

    /// Runs the tests that the plan's filters select.
    fn selected(&self) -> Result<PartOutcome> {
        let mut nextest = self.nextest_of_workspace();
        nextest.args(&self.plan.filters);
        self.counted("tests", &mut nextest)
    }

    /// Runs the tests that a nextest expression selects.
    fn tests(&self, part: TestPart, selection: &str) -> Result<PartOutcome> {
        let mut nextest = self.nextest_of_workspace();
        self.counted(part.title(), nextest.args(["-E", selection]))
    }

    /// Runs the boundary tests as the unprivileged user. The runner itself still runs as root.
    fn boundary_unprivileged(&self, user: &TestUser) -> Result<PartOutcome> {
        let triple = self.workspace.triple()?.to_uppercase().replace('-', "_");
        let mut nextest = self.nextest_of_workspace();
        nextest.env(format!("CARGO_TARGET_{triple}_RUNNER"), user.runner()?);
        nextest.args(["-E", BOUNDARY]).args(&self.plan.filters);
        self.counted(TestPart::BoundaryUnprivileged.title(), &mut nextest)
    }

    /// Runs the simulator's seeds, in a build with the seeded bugs that it must find. A short run
    /// is optimized less, because its build takes longer than its seeds.
    fn simulator(&self) -> Result<PartOutcome> {
        if !self.has_simulator() {
            print_line("── simulator: not in this workspace");
            return Ok(PartOutcome::default());
        }
        let deep = self.plan.depth == Depth::Deep;
        let (packages, level) = if deep { (SIMULATED, 3) } else { (SIMULATED_SHORT, 1) };
        let mut nextest = self.nextest();
        nextest.args(["--package", SIMULATOR, "--features", "seeded-bugs"]);
        for package in packages {
            let set = |what: &str| format!("profile.dev.package.{package}.{what}");
            nextest.arg("--config").arg(set(&format!("opt-level={level}")));
            nextest.arg("--config").arg(set("debug-assertions=false"));
            nextest.arg("--config").arg(set("overflow-checks=false"));
        }
        nextest.env("PROVOST_SIM_SEEDS", if deep { DEEP_SEEDS } else { SEEDS });
        self.counted(TestPart::Simulator.title(), &mut nextest)
    }

    fn has_simulator(&self) -> bool {
        let (package, feature) = SEEDED_BUGS;
        self.workspace.has_feature(package, feature)
    }

    fn doc_tests(&self) -> Result<PartOutcome> {
        let mut cargo = self.prepared(self.workspace.cargo());
        cargo.args(["test", "--quiet", "--doc", "--workspace"]);
        cargo.args(["--features", &self.workspace.test_features()]);
        print_line("── documentation tests");
        let output = output(&mut cargo)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let trouble = (!output.status.success()).then(|| {
            print_line(&format!("{text}{}", String::from_utf8_lossy(&output.stderr)));
            "failed: documentation tests".to_owned()
        });
        Ok(PartOutcome {
            tally: junit::doc_tests(&text),
            problem: trouble,
            ..PartOutcome::default()
        })
    }

    /// Runs the demo, which checks itself and counts as one test per user. Both users' demos run at
    /// the same time, because they mostly wait. The unprivileged demo's output is shown only if it
    /// fails.
    fn demos(&self) -> Result<Vec<PartOutcome>> {
        let log = self.room.path.join("demo.log");
        let unprivileged = match &self.user {
            Some(user) => Some(start_demo(user, &log)?),
            None => None,
        };
        let codex = tools::pinned_codex(self.workspace);
        let root = self.room.path.join("pv-demo");
        let failure = demo::run(&self.programs, codex.as_deref(), &root).err();
        let mut outcomes = vec![one_test(failure.map(|error| format!("failed: demo: {error:#}")))];
        if let Some(mut demo) = unprivileged {
            let status = demo.wait().context("cannot wait for the unprivileged demo")?;
            print_line(&format!("── demo, unprivileged: {status}"));
            if !status.success() {
                print_line(&fs::read_to_string(&log)?);
            }
            let failure = (!status.success()).then(|| "failed: demo, unprivileged".to_owned());
            outcomes.push(one_test(failure));
        }
        Ok(outcomes)
    }

    /// Verifies that every mutation of the rules fails a test.
    fn mutants(&self) -> Result<PartOutcome> {
        let out = self.workspace.target.join("mutants");
        fs::create_dir_all(&out)?;
        let mut cargo = self.prepared(self.workspace.cargo());
        cargo
            .args(["mutants", "--package", "provost-core", "--test-tool", "nextest"])
            // Building takes most of the time. Without debug information, optimization and unit
            // tests, the build takes only a third as long.
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .env("PROVOST_LAW_CASES", "300")
            .arg("--cargo-arg=--config=profile.dev.package.provost-core.opt-level=0")
            .args(["--no-shuffle", "--jobs", "2", "--cargo-arg=--test=main", "--output"])
            .arg(&out);
        for files in MUTATED {
            cargo.args(["--file", files]);
        }
        let ended_well = try_step("mutants", &mut cargo)?;
        let survivors = fs::read_to_string(out.join("mutants.out/missed.txt"));
        let survivors = survivors.context("cargo-mutants left no list of survivors")?;
        let timed_out = fs::read_to_string(out.join("mutants.out/timeout.txt")).unwrap_or_default();
        // A mutant that hangs was detected, although cargo-mutants then exits with an error.
        let noticed = ended_well || !timed_out.is_empty();
        let trouble = (!survivors.is_empty() || !noticed)
            .then(|| format!("failed: mutants survived or could not be tried:\n{survivors}"));
        Ok(PartOutcome { problem: trouble, ..PartOutcome::default() })
    }

    /// Returns a nextest command for all packages except the simulator, which has its own build.
    fn nextest_of_workspace(&self) -> Command {
        let mut nextest = self.nextest();
        nextest.args(["--workspace", "--exclude", SIMULATOR]);
        nextest.args(["--features", &self.workspace.test_features()]);
        nextest.env("NEXTEST_TEST_THREADS", test_threads());
        nextest
    }

    fn nextest(&self) -> Command {
        let mut cargo = self.prepared(self.workspace.test_build_cargo());
        cargo.args(["nextest", "run", "--profile", self.plan.profile()]);
        match self.plan.depth {
            Depth::Usual if self.workspace.ci => cargo.args(["--retries", "1"]),
            Depth::Usual => &mut cargo,
            // Tests that take too long for every change are marked `#[ignore = "deep: …"]`.
            Depth::Deep => cargo.args(["--run-ignored", "all"]),
        };
        cargo
    }

    fn prepared(&self, mut command: Command) -> Command {
        command
            .env("PROVOST_BIN", &self.programs.provost)
            .env("PROVOST_SCRIPTED_AGENT", &self.programs.scripted_agent)
            .env("PROVOST_TEST_ROOT", &self.room.path)
            .envs(test_variables(self.plan, &self.missing))
            .envs(tools::codex_programs(self.workspace))
            .env("TMPDIR", self.room.temporary());
        command
    }

    /// Runs nextest and counts the tests in its JUnit record.
    fn counted(&self, title: &str, nextest: &mut Command) -> Result<PartOutcome> {
        // The runner writes its records below the workspace, independently of cargo's target
        // directory.
        let record =
            self.workspace.root.join("target/nextest").join(self.plan.profile()).join("junit.xml");
        if record.exists() {
            fs::remove_file(&record)?;
        }
        let passed = try_step(title, nextest)?;
        // If there is no record, no test ran: the build failed, or no test matched.
        let trouble = (!passed).then(|| format!("failed: {title}"));
        if !passed && !record.exists() {
            return Ok(PartOutcome { problem: trouble, ..PartOutcome::default() });
        }
        let JunitRecord { tally, flaky: unsteady } = junit::read(&record)?;
        // Keep the record under another name, because the next part overwrites the file. The times
        // in the record show which tests could be faster.
        fs::rename(
            &record,
            record.with_file_name(format!("{}.xml", title.replace([' ', ','], "-"))),
        )?;
        Ok(PartOutcome { tally, flaky: unsteady, problem: trouble })
    }
}

/// Starts the demo as the user, with its output in a file.
fn start_demo(user: &TestUser, log: &Path) -> Result<Child> {
    let log = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut xtask = user.xtask();
    xtask.arg("demo-in").arg(user.room.path.join("pv-demo")).args(user.pinned_codex());
    xtask.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    xtask.spawn().with_context(|| format!("cannot run {xtask:?}"))
}

/// Returns the outcome of a part that counts as one test.
fn one_test(trouble: Option<String>) -> PartOutcome {
    let failed = u64::from(trouble.is_some());
    PartOutcome {
        tally: Tally { passed: 1 - failed, failed },
        problem: trouble,
        ..PartOutcome::default()
    }
}

/// Returns the number of parallel tests: the user's setting, or else a multiple of the number of
/// cores.
fn test_threads() -> OsString {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let by_cores = || (cores * TESTS_PER_CORE).to_string().into();
    crate::workspace::variable("NEXTEST_TEST_THREADS").unwrap_or_else(by_cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_has_options_and_filters() {
        let plan = TestPlan::parse(&["--deep", "crash", "ledger"]).unwrap();
        assert_eq!((plan.profile(), plan.filters.len(), plan.is_whole()), ("deep", 2, false));
        let plan = TestPlan::parse(&[]).unwrap();
        assert_eq!((plan.profile(), plan.is_whole()), ("ci", true));
        let plan = TestPlan::parse(&["--unprivileged", "f2_10"]).unwrap();
        assert!(plan.unprivileged && !plan.is_whole());
        assert!(TestPlan::parse(&["--depp"]).is_err());
    }
}
