//! The six scenarios: their commands, and the effects that must be visible outside Provost afterwards.

use std::fs;

use provost_holder::journal::{
    InputEnvelope, JOURNAL_FILE, JournalChannel, JournalReader, OpenedJournal,
};

use super::crash_env::CrashEnv;
use provost_testkit::env::{count_lines, wait_file};

/// A scenario that is played with or without a crash.
///
/// Agents that pass no checks run until they are stopped, because an agent's exit would race with
/// the request to stop.
pub(super) struct CrashScenario {
    pub(super) name: &'static str,
    /// The steps of the scripted agent.
    pub(super) agent: &'static str,
    /// The grace period after TERM. It is short only for an agent that ignores TERM.
    pub(super) grace: &'static str,
    /// The number of hooks that run.
    pub(super) hooks: usize,
    /// Runs the operator's commands; returns the id of the session or run.
    pub(super) play: fn(&mut CrashEnv) -> String,
    /// Counts the effects outside Provost.
    pub(super) check: fn(&CrashEnv, &str),
}

pub(super) const COMMAND: CrashScenario = CrashScenario {
    name: "a plain command",
    agent: "",
    grace: "10s",
    hooks: 3,
    play: |stage| {
        let script = format!("echo start >> {}", stage.outside_file("starts").display());
        stage.spawn(&[], &["--", "sh", "-c", &script])
    },
    check: |stage, id| {
        assert_outcome(stage, id, "completed");
        assert_hooks(stage, &["completed", "opened", "started"]);
        assert_once(stage, "starts");
    },
};

pub(super) const WORK: CrashScenario = CrashScenario {
    name: "work with two checks",
    agent: r#"
[[step]]
append = { path = "{{root}}/starts", content = "start\n" }
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
write = { path = "CHANGE.md", content = "{{input}}\n" }
[[step]]
emit = { type = "claim", claim = "completed", text = "wrote it" }
[[step]]
emit = { type = "turn_ended", turn = "t1", status = "ok" }
[[step]]
exit = 0
"#,
    grace: "10s",
    hooks: 3,
    play: |stage| {
        let first =
            format!("test -f CHANGE.md && echo run >> {}", stage.outside_file("check1").display());
        let second = format!(
            "grep -q 'Do it' CHANGE.md && echo run >> {}",
            stage.outside_file("check2").display()
        );
        stage.spawn(
            &["--agent", "scripted", "--worktree", "--check", &first, "--check", &second],
            &["Do it"],
        )
    },
    check: |stage, id| {
        assert_outcome(stage, id, "succeeded");
        assert_hooks(stage, &["opened", "started", "succeeded"]);
        assert_once(stage, "starts");
        assert_once(stage, "check1");
        assert_once(stage, "check2");
        assert_delivered(stage, id, &["instruction-1"]);
    },
};

pub(super) const QUESTION: CrashScenario = CrashScenario {
    name: "a question",
    agent: r#"
[[step]]
append = { path = "{{root}}/starts", content = "start\n" }
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
emit = { type = "request", id = "q1", kind = "question", blocking = true, title = "Storage", questions = [{ id = "store", header = "Store", question = "Where?", options = [], secret = false }] }
[[step]]
wait_input = { type = "answer" }
[[step]]
append = { path = "{{root}}/answers", content = "{{input}}\n" }
[[step]]
emit = { type = "claim", claim = "completed", text = "as answered" }
[[step]]
emit = { type = "turn_ended", turn = "t1", status = "ok" }
[[step]]
hang = true
"#,
    grace: "10s",
    hooks: 4,
    play: |stage| {
        let id = stage.spawn(&["--agent", "scripted"], &["Ask me"]);
        stage.home.wait_state(&id, |row| row["state"] == "needs_input");
        stage.send_change(&["answer", &id], &["SQLite"]).ok();
        id
    },
    check: |stage, id| {
        assert_outcome(stage, id, "completed");
        assert_hooks(stage, &["completed", "needs_input", "opened", "started"]);
        assert_once(stage, "starts");
        assert_once(stage, "answers");
        let answers =
            fs::read_to_string(stage.outside_file("answers")).expect("the answer was written");
        assert!(answers.contains("SQLite"), "{answers}");
    },
};

pub(super) const CANCEL: CrashScenario = CrashScenario {
    name: "a cancelled agent",
    agent: r#"
[[step]]
append = { path = "{{root}}/starts", content = "start\n" }
[[step]]
spawn = { kind = "sleep", seconds = 600, pids = "{{root}}/pids" }
[[step]]
ignore_term = true
[[step]]
spawn = { kind = "ignore_term", seconds = 600, pids = "{{root}}/pids" }
[[step]]
spawn = { kind = "setsid", seconds = 600, pids = "{{root}}/pids" }
[[step]]
spawn = { kind = "double_fork", seconds = 600, pids = "{{root}}/pids" }
[[step]]
touch = "{{root}}/in-place"
[[step]]
hang = true
"#,
    grace: "150ms",
    hooks: 3,
    play: |stage| {
        let agent = provost_testkit::scripted_agent_bin().display().to_string();
        let scenario = stage.outside_file("scripted.toml").display().to_string();
        let root = format!("root={}", stage.home.root().display());
        let id = stage.spawn(&[], &["--", &agent, &scenario, "--vars", &root]);
        // Waiting for a file contacts no daemon, so this command starts the next daemon if the
        // first one died.
        stage.home.provost(&["status", &id]);
        provost_testkit::eventually("the agent and its children are in place", || {
            if stage.outside_file("in-place").exists() {
                Ok(())
            } else {
                Err(stage.home.provost(&["status", &id]))
            }
        });
        stage.send_change(&["cancel", &id], &[]).ok();
        id
    },
    check: |stage, id| {
        assert_outcome(stage, id, "cancelled");
        assert_hooks(stage, &["cancelled", "opened", "started"]);
        assert_once(stage, "starts");
        wait_file(&stage.outside_file("pids"));
        let pids = fs::read_to_string(stage.outside_file("pids")).expect("the children are known");
        assert!(pids.lines().count() >= 4, "{pids}");
        for pid in pids.lines() {
            assert!(!is_running(pid), "the grandchild {pid} outlived its launch");
        }
    },
};

pub(super) const REWORK: CrashScenario = CrashScenario {
    name: "reworked work",
    agent: r#"
[[step]]
append = { path = "{{root}}/starts", content = "start\n" }
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
write = { path = "CHANGE.md", content = "wrong\n" }
[[step]]
emit = { type = "claim", claim = "completed", text = "wrote it" }
[[step]]
emit = { type = "turn_ended", turn = "t1", status = "ok" }
[[step]]
wait_input = { type = "rework" }
[[step]]
append = { path = "{{root}}/reworks", content = "rework\n" }
[[step]]
emit = { type = "turn_started", turn = "t2" }
[[step]]
write = { path = "CHANGE.md", content = "right\n" }
[[step]]
emit = { type = "claim", claim = "completed", text = "repaired it" }
[[step]]
emit = { type = "turn_ended", turn = "t2", status = "ok" }
[[step]]
exit = 0
"#,
    grace: "10s",
    hooks: 4,
    play: |stage| {
        let check = format!(
            "echo run >> {}; grep -q right CHANGE.md",
            stage.outside_file("checks").display()
        );
        stage.spawn(&["--agent", "scripted", "--worktree", "--check", &check], &["Do it"])
    },
    check: |stage, id| {
        assert_outcome(stage, id, "succeeded");
        assert_hooks(stage, &["opened", "rework", "started", "succeeded"]);
        assert_once(stage, "starts");
        assert_once(stage, "reworks");
        assert_eq!(count_lines(&stage.outside_file("checks")), 2);
    },
};

/// A run whose answer was given in advance, and whose branch moves while its agent works: the work is checked, merged
/// with the new commit, checked again and landed.
pub(super) const RUN: CrashScenario = CrashScenario {
    name: "a whole run",
    agent: r#"
[[step]]
append = { path = "{{root}}/starts", content = "start\n" }
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
emit = { type = "request", id = "q1", kind = "question", blocking = true, title = "Storage", questions = [{ id = "store", header = "Store", question = "Where?", options = [], secret = false }] }
[[step]]
wait_input = { type = "answer" }
[[step]]
append = { path = "{{root}}/answers", content = "{{input}}\n" }
[[step]]
write = { path = "CHANGE.md", content = "done\n" }
[[step]]
run = ["sh", "-ec", "cd {{root}}/repos/sample; echo theirs > OTHER.md; git add OTHER.md; git commit --quiet --message theirs"]
[[step]]
emit = { type = "claim", claim = "completed", text = "wrote it" }
[[step]]
emit = { type = "turn_ended", turn = "t1", status = "ok" }
[[step]]
exit = 0
"#,
    grace: "10s",
    hooks: 2,
    play: |stage| {
        let answers = stage.outside_file("answers.json");
        fs::write(&answers, r#"{"answers":{"store":{"answers":["SQLite"]}}}"#)
            .expect("the answers can be written");
        let answers = answers.display().to_string();
        let check = format!(
            "grep -q done CHANGE.md && echo run >> {}",
            stage.outside_file("checks").display()
        );
        let stages = ["run", "--detach", "--agent", "scripted", "--no-triage"];
        let reviews = ["--review-task", "off", "--review-final", "off"];
        let ends = ["--land", "merge", "--answers", &answers, "--check", &check];
        let opened = stage.send_change(&[&stages[..], &reviews, &ends].concat(), &["Do it"]);
        opened.ok().id()
    },
    check: |stage, id| {
        assert_outcome(stage, id, "succeeded");
        assert_hooks(stage, &["run.opened", "run.succeeded"]);
        assert_once(stage, "starts");
        assert_once(stage, "answers");
        let answers =
            fs::read_to_string(stage.outside_file("answers")).expect("the answer was written");
        assert!(answers.contains("SQLite"), "{answers}");
        assert_eq!(
            count_lines(&stage.outside_file("checks")),
            2,
            "one for the work, one for the merge"
        );
        let moves = stage.repo.git(&["reflog", "show", "--format=%gs", "main"]);
        assert_eq!(
            moves.lines().count(),
            3,
            "created, moved by its user, and landed on once: {moves}"
        );
        assert_eq!(stage.repo.git(&["rev-list", "--count", "--merges", "main"]), "1");
        assert_eq!(stage.repo.read("CHANGE.md") + &stage.repo.read("OTHER.md"), "done\ntheirs\n");
        assert!(stage.repo.is_clean());
    },
};

#[track_caller]
pub(super) fn assert_outcome(stage: &CrashEnv, id: &str, state: &str) {
    let row = stage.home.provost(&["status", id, "--json"]).json();
    assert_eq!((&row["state"], &row["sealed"]), (&state.into(), &true.into()), "{row}");
    stage.home.assert_ledger_verified();
}

#[track_caller]
pub(super) fn assert_hooks(stage: &CrashEnv, expected: &[&str]) {
    let text = fs::read_to_string(stage.outside_file("hooks.log")).unwrap_or_default();
    let mut ran: Vec<&str> = text.lines().collect();
    ran.sort_unstable();
    assert_eq!(ran, expected, "each hook runs once");
}

#[track_caller]
fn assert_once(stage: &CrashEnv, what: &str) {
    assert_eq!(count_lines(&stage.outside_file(what)), 1, "{what}");
}

/// Asserts that exactly these messages were written to the agent, each once.
#[track_caller]
fn assert_delivered(stage: &CrashEnv, id: &str, expected: &[&str]) {
    let journal = stage.home.path().join("launches").join(format!("{id}.l1")).join(JOURNAL_FILE);
    let Ok(OpenedJournal::Ready(reader)) = JournalReader::open(&journal, 0) else {
        panic!("no journal")
    };
    let frames = reader.map(|frame| frame.expect("the journal is whole"));
    let input = frames.filter(|frame| frame.channel == JournalChannel::Stdin);
    let keys: Vec<String> =
        input.filter_map(|frame| Some(InputEnvelope::split(&frame.payload)?.0.key)).collect();
    // A digest follows the name, so that an agent cannot guess the key.
    let names: Vec<&str> = keys.iter().filter_map(|key| Some(key.split_once('~')?.0)).collect();
    assert_eq!(names, expected, "{keys:?}");
}

/// Whether a process is running; a zombie is not.
pub(super) fn is_running(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}
