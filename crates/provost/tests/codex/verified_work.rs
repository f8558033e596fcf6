//! Work that is done, claimed and checked.

use crate::codex_env::{CodexEnv, TestedCodex};

/// Edits a file with a shell command, then claims completion with the structured result.
const EDITS: &str = r#"
[[thread]]
turn = [
  { response = [
    { items = [{ shell = "echo hello > greeting.txt" }], usage = { input = 100, output = 10 } },
    { items = [{ message = "I wrote the file." }], usage = { input = 120, output = 20 } },
  ] },
  { response = [
    { items = [{ message = '{"status":"completed","summary":"wrote greeting.txt"}' }], usage = { input = 130, output = 5 } },
  ] },
]
"#;

#[test]
fn r16_shell_work_counts_and_result_is_asked_once() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let Some(stage) = CodexEnv::with_version(which, EDITS) else { return };
        let id = stage.spawn(&[
            "--worktree",
            "--check",
            "grep -q hello greeting.txt",
            "Write hello into greeting.txt.",
        ]);
        let row = stage.wait_sealed(&id);
        assert_eq!(row["state"], "succeeded", "{which:?}: {row:#}");
        assert_eq!(row["claim"], "completed");
        assert_eq!(stage.events_of(&id, "result.requested").len(), 1);
        assert_eq!(row["usage"]["input"], 350, "e24: what each call used, not the thread's total");
        assert_eq!(row["turns"], 2);
        assert!(row["thread"].is_string(), "e21");
        stage.model.assert_all_as_scripted();
    }
}

/// Starts a command that keeps changing the work.
const KEEPS_CHANGING: &str = r#"
[[thread]]
turn = [{ response = [
  { items = [{ shell = "while :; do date +%s%N > noise.txt; sleep 0.02; done", yield_time_ms = 300 }] },
  { items = [{ tool = "provost_report", args = { status = "completed", summary = "it never ends" } }] },
  { items = [{ message = "Done." }] },
] }]
"#;

#[test]
fn background_process_ends_before_snapshot() {
    let Some(stage) = CodexEnv::new(KEEPS_CHANGING) else { return };
    // The command may be killed between truncating the file and writing to it.
    let id = stage.spawn(&["--worktree", "--check", "test -e noise.txt", "Make noise."]);
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(stage.events_of(&id, "snapshot.taken").len(), 2, "the tree never moved");
}
