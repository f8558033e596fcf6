//! Every command has a snapshot with its output as text and as JSON, and with three errors.

use std::{collections::BTreeSet, fs, path::PathBuf};

use provost_testkit::harness::TestHome;

use crate::help::all_commands;

/// The number of errors that a command's snapshot shows.
const MIN_ERRORS: usize = 3;

/// Commands with fewer outputs, and the reason.
const EXEMPT: &[(&str, &[SnapshotPart], &str)] = &[
    ("adopt", OUTPUT, "needs an agent that runs outside of Provost"),
    ("attach", OUTPUT, "replaces the terminal by the agent's screen"),
    ("completions", OUTPUT, "prints a generated script of 5,000 lines"),
    ("config schema", OUTPUT, "docs/schemas/config.json is the output"),
    (
        "config show",
        &[SnapshotPart::Json],
        "as text already 200 lines; docs/configuration.md has all keys",
    ),
    ("daemon run", OUTPUT, "runs until it is stopped"),
    ("discover", OUTPUT, "lists all agents of the machine"),
    ("doctor", OUTPUT, "describes the machine"),
    ("ledger import", OUTPUT, "needs an empty home; the export tests import"),
    ("plan", OUTPUT, "needs an agent with structured results"),
    ("team ping", OUTPUT, "needs members that answer"),
    ("tour", OUTPUT, "has its own test"),
];

/// The parts that a command without a recorded result lacks.
const OUTPUT: &[SnapshotPart] = &[SnapshotPart::Text, SnapshotPart::Json];

/// A part that a snapshot has to contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SnapshotPart {
    Whole,
    Text,
    Json,
    Errors,
}

fn snapshots() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots")
}

/// The parts that are missing in the transcript of a command.
fn missing_parts(transcript: &str, command: &str) -> Vec<SnapshotPart> {
    let call = format!("$ provost {command}");
    let entries =
        transcript.split("\n\n$ ").map(|entry| format!("$ {}", entry.trim_start_matches("$ ")));
    let entries: Vec<String> = entries.filter(|entry| entry.starts_with(&call)).collect();
    let failed = |entry: &&String| entry.lines().any(|line| line.starts_with("[exit "));
    let as_json = |entry: &&String| {
        entry.lines().next().is_some_and(|line| line.split(' ').any(|word| word == "--json"))
    };
    let mut missing = Vec::new();
    if !entries.iter().any(|entry| !failed(&entry) && !as_json(&entry)) {
        missing.push(SnapshotPart::Text);
    }
    if !entries.iter().any(|entry| !failed(&entry) && as_json(&entry)) {
        missing.push(SnapshotPart::Json);
    }
    if entries.iter().filter(failed).count() < MIN_ERRORS {
        missing.push(SnapshotPart::Errors);
    }
    missing
}

#[test]
fn every_command_has_text_json_and_errors() {
    let home = TestHome::new();
    let mut wrong = Vec::new();
    for command in all_commands(&home) {
        // A command with subcommands only prints its help.
        if command.help.lines().any(|line| line == "Commands:") {
            continue;
        }
        let words = command.path.join(" ");
        let path = snapshots().join(format!("{}.snap", command.snapshot()));
        let missing = match fs::read_to_string(&path) {
            Ok(text) => missing_parts(body(&text), &words),
            Err(_) => vec![SnapshotPart::Whole],
        };
        let exempt = EXEMPT.iter().find(|(exempt, ..)| *exempt == words);
        let allowed = exempt.map_or(&[][..], |(_, parts, _)| parts);
        if missing != allowed {
            wrong.push(format!("{words}: missing {missing:?}, exempt {allowed:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_snapshot_belongs_to_a_command() {
    let home = TestHome::new();
    let mut known: BTreeSet<String> =
        all_commands(&home).iter().map(|command| format!("{}.snap", command.snapshot())).collect();
    known.extend(
        ["help.snap", "help_all.snap", "exit_codes.snap", "unknown.snap", "team_send_next.snap"]
            .map(str::to_owned),
    );
    for dir in [snapshots(), snapshots().join("help")] {
        let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
        let files = files.filter(|entry| entry.file_type().unwrap().is_file());
        let names: BTreeSet<String> =
            files.map(|entry| entry.file_name().into_string().unwrap()).collect();
        let strays: Vec<&String> = names.difference(&known).collect();
        assert!(strays.is_empty(), "snapshots without a command: {strays:?}");
    }
}

/// The text below the header of a snapshot file.
fn body(snapshot: &str) -> &str {
    snapshot.splitn(3, "---\n").nth(2).unwrap_or_default()
}
