//! `cargo xtask demo`: six sessions of the real program run and end side by side, the daemon is
//! killed in the middle, and every outcome is reported correctly. Then a spec becomes a plan, and
//! real Codex works on its tasks until they have landed. Finally a manager and two workers take a
//! team's goal to its audited finish. The demo checks itself.

mod cast;
mod dispatch;
mod env;
mod shop;

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use self::{
    cast::{CAST, CastMember, DemoGate},
    env::DemoEnv,
};
use crate::{
    print::print_line,
    process::{Stopwatch, step},
    tools,
    workspace::{Programs, Workspace},
};

/// Builds the programs and runs the demo below the target directory.
pub(crate) fn build_and_run(workspace: &Workspace) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args([
        "build",
        "--quiet",
        "--package",
        "provost",
        "--package",
        "provost-testkit",
        "--bins",
    ]);
    step("build", &mut cargo)?;
    let codex = tools::ensure_codex(workspace)?;
    let root = workspace.target.join("demo").join("pv-demo");
    run(&workspace.programs("debug"), codex.as_deref(), &root)
}

/// Runs the demo in this directory with the programs next to this one.
pub(crate) fn run_beside(root: &Path, codex: Option<&str>) -> Result<()> {
    let this = std::env::current_exe().context("cannot find this program")?;
    let dir = this.parent().context("this program is not in a directory")?;
    run(&Programs::in_dir(dir), codex.map(Path::new), root)
}

/// Runs the demo with these programs in this directory, which it creates and removes. Without
/// Codex, skips the parts that need it.
pub(crate) fn run(programs: &Programs, codex: Option<&Path>, root: &Path) -> Result<()> {
    let watch = Stopwatch::start();
    let stage = DemoEnv::set_up(programs, codex, root)?;
    let mut sessions = play(&stage)?;
    if codex.is_some() {
        shop::play(&stage)?;
        dispatch::play(&stage)?;
        sessions += 2;
    } else {
        narrate(
            "Codex is not installed and cannot be installed, so its part of the demo is skipped.",
        );
    }
    stage.clear()?;
    print_line(&format!(
        "\nAll {} outcomes are as expected, and nothing was left behind ({:.1} s).",
        sessions,
        watch.seconds()
    ));
    Ok(())
}

fn play(stage: &DemoEnv) -> Result<usize> {
    narrate("Six agents start: five plain commands, and one that works in its own worktree.");
    let sessions: Vec<DemoSession> =
        CAST.iter().map(|part| start(stage, part)).collect::<Result<_>>()?;
    stage
        .wait("all six to run", |rows| all(&sessions, rows, |_, row| row["process"] == "alive"))?;
    stage.show(&["ls"])?;

    narrate("Three of them finish.");
    stage.open(DemoGate::First)?;
    let first = |part: &CastMember| part.gate == DemoGate::First;
    let before = stage.wait("three to finish", |rows| {
        all(&sessions, rows, |part, row| {
            !first(part) || (part.has_expected_outcome(row) && row["sealed"] == true)
        })
    })?;
    stage.show(&["ls"])?;

    let killed = stage.kill_daemon()?;
    narrate(&format!(
        "The daemon, process {killed}, was killed with SIGKILL. The other agents continue and finish."
    ));
    stage.open(DemoGate::Second)?;

    narrate("The next command starts a new daemon, which takes over the sessions.");
    let after = stage.wait("the other three to finish", |rows| {
        all(&sessions, rows, |part, row| {
            part.has_expected_outcome(row) && (first(part) || is_settled(row))
        })
    })?;
    let now = stage.daemon_pid()?;
    ensure!(now != killed, "the killed daemon still answers");
    stage.show(&["ls"])?;

    let last = sessions.last().context("the cast is empty")?;
    narrate(&format!("Why did `{}` fail? Every fact, with its source:", last.part.name));
    stage.show(&["status", &last.id, "--why"])?;

    check(&sessions, &before, &after)?;
    Ok(sessions.len())
}

/// A session and the part that its agent plays.
struct DemoSession {
    part: &'static CastMember,
    id: String,
}

fn start(stage: &DemoEnv, part: &'static CastMember) -> Result<DemoSession> {
    let spawned = stage.json(&stage.spawn_args(part)?)?;
    let id = spawned["id"].as_str().context("`spawn` printed no id")?.to_owned();
    print_line(&format!("  {:<18} {}", part.name, part.story));
    Ok(DemoSession { part, id })
}

/// Whether every session has an accepted row.
fn all(
    sessions: &[DemoSession],
    rows: &[Value],
    accept: impl Fn(&CastMember, &Value) -> bool,
) -> bool {
    sessions
        .iter()
        .all(|session| row(&session.id, rows).is_some_and(|row| accept(session.part, row)))
}

fn row<'a>(id: &str, rows: &'a [Value]) -> Option<&'a Value> {
    rows.iter().find(|row| row["id"] == id)
}

/// Whether a row has a final state, or a question that needs an answer.
fn is_settled(row: &Value) -> bool {
    row["sealed"] == true || row["state"] == "needs_input"
}

/// Verifies the outcomes, and that those from before the crash are the same after it.
fn check(sessions: &[DemoSession], before: &[Value], after: &[Value]) -> Result<()> {
    for DemoSession { part, id } in sessions {
        let found = row(id, after).context("a session is missing")?;
        ensure!(part.has_expected_outcome(found), "{} is {found}", part.name);
        if part.gate == DemoGate::First {
            let earlier = row(id, before).context("a session is missing")?;
            for key in ["state", "cause", "sealed", "claim", "exit", "rule"] {
                ensure!(earlier[key] == found[key], "{}: {key} changed by the crash", part.name);
            }
        }
    }
    Ok(())
}

fn narrate(text: &str) {
    print_line(&format!("\n▸ {text}"));
}
