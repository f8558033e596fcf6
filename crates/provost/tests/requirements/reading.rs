//! Reading output: filters of `logs` and `events`, hints, and short ids.

use provost_testkit::env::{HANGS, TestEnv};

/// Prints five lines, of which the third is red.
const FIVE_LINES: &str = "for n in 1 2 3 4 5; do if [ $n = 3 ]; then printf '\\033[1;31mline 3\\033[0m\\n'; else echo line $n; fi; done";

/// Returns the digits of an id that `ls` shows.
fn short_id(id: &str) -> &str {
    &id[id.len() - 8..]
}

fn five_lines(stage: &TestEnv) -> String {
    let id = stage.spawn_in(stage.root(), &["--", "sh", "-c", FIVE_LINES]);
    stage.wait_sealed(&id);
    stage.wait_state(&id, |row| row["activity"] == "exited");
    id
}

#[test]
fn logs_can_be_limited_by_count_and_time() {
    let stage = TestEnv::new();
    let id = five_lines(&stage);
    let lines = |flags: &[&str]| -> Vec<String> {
        let shown = stage.provost(&[&["logs", &id], flags].concat()).ok().stdout.clone();
        shown.lines().map(str::to_owned).collect()
    };
    assert_eq!(lines(&[]), ["line 1", "line 2", "line 3", "line 4", "line 5"]);
    assert_eq!(lines(&["--tail", "2"]), ["line 4", "line 5"]);
    assert_eq!(lines(&["--tail", "3", "-f"]), ["line 3", "line 4", "line 5"]);
    assert!(lines(&["--tail", "0"]).is_empty());
    assert_eq!(lines(&["--since", "10m"]).len(), 5);
    assert!(lines(&["--since", "2200-01-01"]).is_empty());
    assert_eq!(lines(&["--since", "2000-01-01T00:00:00Z", "--tail", "1"]), ["line 5"]);
    assert_eq!(lines(&["--tail", "1", "--json"]).len(), 1);
    stage.provost(&["logs", &id, "--since", "soon"]).assert_code(2);
    stage.provost(&["logs", &id, "--tail", "2", "--raw"]).assert_code(2);
}

#[test]
fn logs_strip_colors_unless_raw() {
    let stage = TestEnv::new();
    let id = five_lines(&stage);
    let shown = stage.provost(&["logs", &id]).ok().stdout.clone();
    assert!(shown.contains("\nline 3\n") && !shown.contains('␛'), "{shown:?}");
    let raw = stage.provost(&["logs", &id, "--raw"]).ok().stdout.clone();
    assert!(raw.contains("\u{1b}[1;31mline 3\u{1b}[0m\n"), "{raw:?}");
}

#[test]
fn timestamps_are_local() {
    let stage = TestEnv::new();
    let id = five_lines(&stage);
    let first = |zone: &str, arguments: &[&str]| {
        let mut command = stage.command(arguments);
        let output = command.env("TZ", zone).output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        shown.lines().next().unwrap_or_default().to_owned()
    };
    let logs = ["logs", &id, "--timestamps"];
    let (utc, east) = (first("UTC0", &logs), first("IST-5:30", &logs));
    assert!(utc.ends_with(" line 1") && east.ends_with(" line 1"), "{utc} {east}");
    assert_ne!(utc, east, "India is never at UTC");
    let events = ["events", &id];
    let (utc, east) = (first("UTC0", &events), first("IST-5:30", &events));
    assert!(utc != east && !utc.contains('Z'), "{utc} {east}");
}

#[test]
fn events_hide_bookkeeping_unless_verbose() {
    let stage = TestEnv::new();
    let id = five_lines(&stage);
    let count = |flags: &[&str]| {
        stage.provost(&[&["events", &id], flags].concat()).ok().stdout.lines().count()
    };
    let all = stage.provost(&["events", &id, "--json"]).ok().json();
    let all = all["events"].as_array().unwrap().len();
    assert_eq!(count(&["--verbose"]), all);
    assert!((1..all).contains(&count(&[])), "{} of {all}", count(&[]));
}

#[test]
fn events_start_at_a_time() {
    let stage = TestEnv::new();
    let id = five_lines(&stage);
    let count = |since: &str| {
        let shown = stage.provost(&["events", &id, "--since", since, "--json"]).ok().json();
        shown["events"].as_array().unwrap().len()
    };
    let all = count("0");
    assert!(all > 0);
    assert_eq!(count("10m"), all);
    assert_eq!(count("2000-01-01"), all);
    assert_eq!(count("2200-01-01 10:00"), 0);
    let row = stage.provost(&["events", &id, "--json"]).ok().json();
    let middle = row["events"][all / 2]["seq"].as_u64().unwrap();
    assert_eq!(count(&middle.to_string()), all - all / 2 - 1);
    stage.provost(&["events", "--since", "soon"]).assert_code(2);
}

#[test]
fn quiet_hides_hints_and_not_results() {
    let stage = TestEnv::new();
    let id = five_lines(&stage);
    let (loud, quiet) = (stage.provost(&["ls"]), stage.provost(&["ls", "-q"]));
    assert!(loud.ok().stderr.contains("next: "), "agents read the hints: {loud:?}");
    assert_eq!((quiet.ok().stderr.as_str(), &quiet.stdout), ("", &loud.stdout));
    let json = stage.provost(&["--quiet", "status", &id, "--json"]).ok().json();
    assert!(!json["next"].as_array().unwrap().is_empty(), "{json}");
}

/// `ls` shows the last digits of an id, because the first ones are its time.
#[test]
fn start_of_the_listed_id_is_enough() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario(HANGS, &[]);
    stage.pid(&id);
    let listed = short_id(&id);
    assert!(stage.provost(&["ls"]).ok().stdout.contains(listed));
    let start = &listed[..6];
    for command in [
        &["status"][..],
        &["status", "--why"],
        &["logs"],
        &["events"],
        &["rename", "--key", "k1"],
        &["stop"],
        &["resolve", "--as", "accepted", "--because", "enough"],
    ] {
        let name = if command[0] == "rename" { &["renamed"][..] } else { &[] };
        let words = [&command[..1], &[start], name, &command[1..]].concat();
        stage.provost(&words).ok();
    }
    let row = stage.provost(&["status", start, "--json"]).ok().json();
    assert_eq!((&row["id"], &row["name"]), (&id.as_str().into(), &"renamed".into()), "{row:#}");
    stage.provost(&["monitor", start, "--timeout", "30s"]).ok();
    stage.provost(&["report", "fact", "--branch", "b", "--session", start]).ok();
    let team =
        ["team", "start", "Do it.", "--name", "crew", "--pull", "--worker", "hand", "--json"];
    let team = stage.provost(&team).ok().json();
    let id = team["id"].as_str().or(team["team"]["id"].as_str()).unwrap();
    let team = short_id(id);
    for command in ["status", "events", "replay", "audit"] {
        stage.provost(&[command, &team[..6]]).ok();
    }
}
