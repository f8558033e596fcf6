//! `cargo xtask demo`: six sessions of the real program live and end side by side, the daemon is killed in
//! the middle, and every ending is told as it was. Then a spec becomes a plan, and real Codex works on its tasks
//! until they are landed; and a manager and two workers take a task to its audited end. The demo checks itself.

mod cast;
mod dispatch;
mod shop;
mod stage;

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use self::{
    cast::{CAST, Gate, Part},
    stage::Stage,
};
use crate::{
    process::{Watch, step},
    say::say,
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
    let codex = tools::provide_codex(workspace)?;
    let root = workspace.target.join("demo").join("pv-demo");
    run(&workspace.programs("debug"), codex.as_deref(), &root)
}

/// Runs the demo in this directory with the programs beside this one.
pub(crate) fn run_beside(root: &Path, codex: Option<&str>) -> Result<()> {
    let this = std::env::current_exe().context("cannot find this program")?;
    let dir = this.parent().context("a program is in a directory")?;
    run(&Programs::in_dir(dir), codex.map(Path::new), root)
}

/// Runs the demo with these programs in this directory, which it makes and removes. Without Codex the
/// part that needs it is left out.
pub(crate) fn run(programs: &Programs, codex: Option<&Path>, root: &Path) -> Result<()> {
    let watch = Watch::start();
    let stage = Stage::set_up(programs, codex, root)?;
    let mut sessions = play(&stage)?;
    if codex.is_some() {
        shop::play(&stage)?;
        dispatch::play(&stage)?;
        sessions += 2;
    } else {
        tell("Codex is not here and could not be installed, so its part of the demo is left out.");
    }
    stage.clear()?;
    say(&format!(
        "\nAll {} endings are what they have to be, and nothing was left behind ({:.1} s).",
        sessions,
        watch.seconds()
    ));
    Ok(())
}

fn play(stage: &Stage) -> Result<usize> {
    tell("Six agents start: five plain commands, and one that works in its own worktree.");
    let sessions: Vec<Session> =
        CAST.iter().map(|part| start(stage, part)).collect::<Result<_>>()?;
    stage
        .wait("all six to live", |rows| all(&sessions, rows, |_, row| row["process"] == "alive"))?;
    stage.show(&["ls"])?;

    tell("Three of them come to their ends.");
    stage.open(Gate::First)?;
    let first = |part: &Part| part.gate == Gate::First;
    let before = stage.wait("three to have ended", |rows| {
        all(&sessions, rows, |part, row| {
            !first(part) || (part.has_ended_well(row) && row["sealed"] == true)
        })
    })?;
    stage.show(&["ls"])?;

    let killed = stage.kill_daemon()?;
    tell(&format!(
        "The daemon, process {killed}, was killed with SIGKILL. The other agents go on, and end."
    ));
    stage.open(Gate::Second)?;

    tell("The next command finds no daemon and starts one, which takes up what it finds.");
    let after = stage.wait("the other three to have ended", |rows| {
        all(&sessions, rows, |part, row| part.has_ended_well(row) && (first(part) || settled(row)))
    })?;
    let now = stage.daemon_pid()?;
    ensure!(now != killed, "the killed daemon still answers");
    stage.show(&["ls"])?;

    let last = sessions.last().context("the cast is not empty")?;
    tell(&format!("Why did `{}` fail? Every fact, with who said or saw it:", last.part.name));
    stage.show(&["status", &last.id, "--why"])?;

    check(&sessions, &before, &after)?;
    Ok(sessions.len())
}

/// A session and the part that its agent plays.
struct Session {
    part: &'static Part,
    id: String,
}

fn start(stage: &Stage, part: &'static Part) -> Result<Session> {
    let spawned = stage.json(&stage.spawn_args(part)?)?;
    let id = spawned["id"].as_str().context("spawn gave no id")?.to_owned();
    say(&format!("  {:<18} {}", part.name, part.story));
    Ok(Session { part, id })
}

/// Says whether every session has a row that is accepted.
fn all(sessions: &[Session], rows: &[Value], accept: impl Fn(&Part, &Value) -> bool) -> bool {
    sessions
        .iter()
        .all(|session| row(&session.id, rows).is_some_and(|row| accept(session.part, row)))
}

fn row<'a>(id: &str, rows: &'a [Value]) -> Option<&'a Value> {
    rows.iter().find(|row| row["id"] == id)
}

/// A terminal state that nothing changes any more, or a question that waits for its answer.
fn settled(row: &Value) -> bool {
    row["sealed"] == true || row["state"] == "needs_input"
}

/// The endings are right, and those from before the crash are told the same after it.
fn check(sessions: &[Session], before: &[Value], after: &[Value]) -> Result<()> {
    for Session { part, id } in sessions {
        let told = row(id, after).context("a session is missing")?;
        ensure!(part.has_ended_well(told), "{} is {told}", part.name);
        if part.gate == Gate::First {
            let earlier = row(id, before).context("a session is missing")?;
            for key in ["state", "cause", "sealed", "claim", "exit", "rule"] {
                ensure!(earlier[key] == told[key], "{}: {key} changed by the crash", part.name);
            }
        }
    }
    Ok(())
}

fn tell(text: &str) {
    say(&format!("\n▸ {text}"));
}
