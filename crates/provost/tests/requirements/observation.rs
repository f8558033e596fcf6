//! Observing agents: which signals count, and which output is kept.

use std::{
    collections::BTreeSet,
    fs,
    process::{Child, Stdio},
};

use provost_testkit::harness::{eventually, scripted_agent_bin};
use serde_json::{Value, json};

use provost_testkit::env::{TestEnv, is_running, text};

#[test]
fn m10_cpu_use_does_not_count_as_output() {
    let stage = TestEnv::new();
    let go = stage.file("go");
    let busy = format!("while [ ! -e {go} ]; do :; done");
    let quiet = format!("while [ ! -e {go} ]; do sleep 0.05; done");
    let silent = ["--stale-after", "300ms", "--"];
    let ids = [busy, quiet].map(|line| {
        stage.spawn_in(stage.home.root(), &[&silent[..], &["sh", "-c", &line]].concat())
    });
    let states = ids.clone().map(|id| {
        let row = stage.wait(&id, "stalled");
        (row["process"].clone(), row["activity"].clone(), row["rule"].clone())
    });
    assert_eq!(states[0], states[1]);
    assert_eq!(states[0].0, "alive");
    fs::write(&go, "").unwrap();
    for id in ids {
        assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    }
}

/// Characters that are drawn around text (boxes, marks and bars), also alone on their lines.
const DRAWING_LINES: [&str; 6] = [
    "╭────────────────╮",
    "│ 3 tests failed │",
    "╰────────────────╯",
    "› • ▌ ─ the reason stands here ─ ▐",
    "⠋ ⠙ ⠹ ▁▂▃▄▅▆▇█",
    "│",
];

#[test]
fn m20_drawing_characters_and_text_are_kept() {
    let stage = TestEnv::new();
    for form in [&["--tty", "--"][..], &["--"]] {
        let line =
            format!("printf '%s\\n' {}; exit 3", DRAWING_LINES.map(|l| format!("'{l}'")).join(" "));
        let id = stage.spawn_in(stage.home.root(), &[form, &["sh", "-c", &line]].concat());
        stage.wait_sealed(&id);
        let logs = stage.home.provost(&["logs", &id]).ok().stdout.clone();
        let lines: Vec<&str> = logs.lines().map(|line| line.trim_end_matches('\r')).collect();
        assert!(
            lines.windows(DRAWING_LINES.len()).any(|these| these == DRAWING_LINES),
            "{form:?}: {logs}"
        );
    }
}

#[test]
fn m11_terminal_output_is_journaled_and_view_keeps_tail() {
    let stage = TestEnv::new();
    let flood = "[[step]]\nrepeat = { times = 20000, steps = [{ say = \"line {{n}} of what it did, at some length\" }] }\n";
    let path = text(&stage.home.scenario("flood", flood));
    let agent = text(&scripted_agent_bin());
    let id = stage.spawn_in(stage.home.root(), &["--tty", "--", &agent, &path]);
    stage.wait_sealed(&id);
    let whole = stage.home.provost(&["logs", &id, "--raw"]).ok().stdout.clone();
    let expected: String =
        (1..=20_000).map(|no| format!("line {no} of what it did, at some length\r\n")).collect();
    assert_eq!(whole.len(), expected.len());
    assert!(whole == expected, "each line once and in order");
    let row = stage.status(&id);
    assert!(row.to_string().len() < 20_000, "a view has not all of it");
}

/// Starts `count` sessions at the same time; each prints its own number.
fn start_sessions(stage: &TestEnv, count: usize) -> Vec<Child> {
    let start = |no: usize| {
        let line = format!("echo mine-{no}-$PROVOST_SESSION");
        let name = format!("s{no}");
        let arguments = ["spawn", "--json", "--name", &name, "--", "sh", "-c", &line];
        let mut command = stage.home.command(&arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    };
    (0..count).map(start).collect()
}

#[test]
fn m15_hundred_concurrent_starts_do_not_mix() {
    let stage = TestEnv::new();
    let mut ids = BTreeSet::new();
    for (no, child) in start_sessions(&stage, 100).into_iter().enumerate() {
        let output = child.wait_with_output().unwrap();
        let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
        let id = reply["id"].as_str().unwrap().to_owned();
        let row = stage.wait_sealed(&id);
        assert_eq!(row["name"], format!("s{no}"));
        let output = stage.home.provost(&["logs", &id]).ok().stdout.clone();
        assert_eq!(output.lines().next(), Some(format!("mine-{no}-{id}").as_str()));
        assert!(ids.insert(id), "an id was given twice");
    }
    assert_eq!(stage.list_sessions().len(), 100);
}

#[test]
fn m18_leftover_processes_are_reported_and_ended() {
    let stage = TestEnv::new();
    for form in [&["--tty", "--"][..], &["--"]] {
        let pids = stage.file(&format!("pids-{}", form.len()));
        let scenario = format!(
            "[[step]]\nspawn = {{ kind = \"setsid\", count = 2, seconds = 600, pids = {pids:?} }}\n[[step]]\nreport = \"completed\"\n"
        );
        let path = text(&stage.home.scenario("leaves", &scenario));
        let agent = text(&scripted_agent_bin());
        let id = stage.spawn_in(stage.home.root(), &[form, &[&agent, &path]].concat());
        let row = stage.wait_sealed(&id);
        assert_eq!(row["state"], "completed", "{form:?}: {row:#}");
        assert_eq!(row["launches"][0]["leftovers"], 2, "{form:?}: {row:#}");
        assert!(row["flags"].as_array().unwrap().contains(&json!("leftovers")), "{row:#}");
        let left = fs::read_to_string(&pids).unwrap();
        let left: Vec<u32> = left.lines().map(|pid| pid.parse().unwrap()).collect();
        assert_eq!(left.len(), 2);
        eventually("they are gone", || left.iter().all(|pid| !is_running(*pid)).then_some(()));
    }
}
