//! Twenty concurrent Codex sessions with worktrees and checks. All must succeed. Measures the
//! resources of the daemon and the holders per session.

use std::path::Path;

use anyhow::{Result, ensure};

use super::env::CodexBenchEnv;
use crate::{
    daemon::{cpu_ms, private_kib},
    table::{FigureTable, Goal},
    timing::{Sample, now},
};

/// The number of concurrent sessions.
const SESSIONS: usize = 20;
/// One turn with a command, and a second one that reports the result.
const SCENARIO: &str = r#"
[[thread]]
repeat = "forever"
turn = [
  { response = [
    { items = [{ shell = "echo hello > greeting.txt" }] },
    { items = [{ message = "Written." }] },
  ] },
  { response = [{ items = [{ json = { status = "completed", summary = "written" } }] }] },
]
"#;

pub(crate) fn run(table: &mut FigureTable, codex: &Path) -> Result<()> {
    let scene = CodexBenchEnv::new(codex, SCENARIO)?;
    let before = ProcessUsage::for_process(scene.daemon.pid()?)?;
    let mut happenings = scene.follow_events()?;
    let started = now();
    for _ in 0..SESSIONS {
        scene.spawn(&["--worktree", "--keep", "--check", "grep -q hello greeting.txt"])?;
    }
    happenings.wait_for("attempt.sealed", SESSIONS)?;
    let seconds = started.elapsed().as_secs_f64();
    scene.assert_all_in_state("succeeded", SESSIONS)?;
    let daemon = ProcessUsage::for_process(scene.daemon.pid()?)?;
    let (mut memory, mut processor) = (Sample::default(), Sample::default());
    let holders = scene.daemon.holders()?;
    ensure!(holders.len() == SESSIONS, "{} holders remain", holders.len());
    for pid in holders {
        let holder = ProcessUsage::for_process(pid)?;
        memory.add(holder.private_kib / 1024.0);
        processor.add(holder.processor_ms);
    }
    let each = SESSIONS as f64;
    let mut row = |what: &str, value: f64, unit: &str, from: &str| {
        table.row(&format!("20 sessions of Codex: {what}"), value, unit, Goal::None, from);
    };
    row(
        "daemon's processor time for each",
        (daemon.processor_ms - before.processor_ms) / each,
        " ms",
        &format!(
            "{SESSIONS} at once with worktree and check, all succeeded, {seconds:.1} s together"
        ),
    );
    row(
        "daemon's private memory for each",
        (daemon.private_kib - before.private_kib) / each,
        " KB",
        &format!("{:.0} to {:.0} KB, agents kept", before.private_kib, daemon.private_kib),
    );
    row("a holder's processor time", processor.median(), " ms", &processor.spread(" ms"));
    row("a holder's private memory", memory.median(), " MB", &memory.spread(" MB"));
    Ok(())
}

/// The resources a process has used so far.
struct ProcessUsage {
    private_kib: f64,
    processor_ms: f64,
}

impl ProcessUsage {
    fn for_process(pid: u32) -> Result<ProcessUsage> {
        let (dirty, _) = private_kib(pid)?;
        Ok(ProcessUsage { private_kib: dirty, processor_ms: cpu_ms(pid)? })
    }
}
