//! Unknown ids, and names that are hard to display.

use provost_testkit::TestHome;
use provost_testkit::env::assert_refused;
use provost_testkit::harness::string_value;

/// A name with escapes, a bell, bidirectional overrides and a newline.
const HOSTILE_NAME: &str =
    "\u{1b}[31mred\u{1b}]0;title\u{7}\u{202e}gnp.exe\u{2066}\u{9b}31m\nsecond\rline";

#[test]
fn unknown_id_is_not_found_by_any_command() {
    let home = TestHome::with_short_windows();
    let known = home.spawn(&["--", "true"]);
    for id in
        ["deadbeef", "01a1e12a-47e6-7199-8186-000000000000", "no such name", "..", "%2e%2e/x", "é"]
    {
        for args in [
            &["status", id][..],
            &["status", id, "--why"],
            &["logs", id],
            &["events", id],
            &["send", id, "hello"],
            &["stop", id],
            &["cancel", id],
            &["answer", id, "yes"],
            &["resolve", id, "--as", "accepted", "--because", "it is right"],
            &["limit", id, "--output", "1MiB"],
            &["report", "completed", "--session", id],
        ] {
            let output = home.provost(&[args, &["--json"]].concat());
            assert_refused(&output, 3, "not_found", &[id]);
            assert!(
                !output.json()["error"]["next"].as_array().expect("a list").is_empty(),
                "{args:?}"
            );
        }
    }
    assert_eq!(home.wait_sealed(&known)["state"], "completed");
}

#[test]
fn empty_id_is_bad_usage() {
    let home = TestHome::with_short_windows();
    home.spawn(&["--", "true"]);
    for args in [&["status", "", "--json"][..], &["stop", "", "--json"], &["logs", "", "--json"]] {
        let code = home.provost(args).code();
        assert!(matches!(code, Some(2 | 3)), "{args:?} gave {code:?}");
    }
}

#[test]
fn ambiguous_id_is_refused() {
    let home = TestHome::with_short_windows();
    for _ in 0..2 {
        home.spawn(&["--name", "twin", "--", "true"]);
    }
    let output = home.provost(&["stop", "twin", "--json"]);
    assert_refused(&output, 2, "bad_request", &["twin", "several"]);
}

#[test]
fn hostile_names_never_reach_terminal_raw() {
    let home = TestHome::with_short_windows();
    let id = home.spawn(&["--", "sh", "-c", "sleep 30", HOSTILE_NAME]);
    home.wait_state(&id, |row| {
        row["process"] == "alive" && row["launches"][0]["phase"] == "running"
    });
    home.provost(&["report", "working", "--session", &id, "--message", HOSTILE_NAME]).ok();
    home.provost(&["report", "fact", "--session", &id, "--artifact", HOSTILE_NAME]).ok();
    home.provost(&["cancel", &id, "--because", HOSTILE_NAME]).ok();
    home.wait_sealed(&id);
    home.provost(&["resolve", &id, "--as", "failed", "--because", HOSTILE_NAME]).ok();
    for args in [
        &["ls"][..],
        &["ls", "--all"],
        &["status"],
        &["status", &id],
        &["status", &id, "--why"],
        &["events"],
        &["events", &id],
        &["logs", &id],
        &["stop", HOSTILE_NAME],
        &["spawn", "--name", HOSTILE_NAME, "--", "true"],
        &["status", "\u{1b}[31mno\u{202e}"],
        &["ledger", "verify"],
    ] {
        let output = home.provost(args);
        for shown in [&output.stdout, &output.stderr] {
            let raw = shown.chars().find(|c| is_dangerous(*c));
            assert_eq!(raw, None, "{args:?} showed {shown:?}");
        }
    }
    let row = home.provost(&["status", &id, "--json"]).ok().json();
    assert_eq!(row["argv"][3], HOSTILE_NAME, "programs get it as it is");
}

#[test]
fn name_with_invisible_characters_is_refused() {
    let home = TestHome::with_short_windows();
    for name in [HOSTILE_NAME, "one\ntwo", "\u{1b}[31m", "a\u{202e}b"] {
        for flag in ["--name", "--role"] {
            let spawned = home.provost(&["spawn", flag, name, "--json", "--", "true"]);
            assert_refused(&spawned, 2, "bad_request", &[flag, "invisible characters"]);
        }
    }
    assert_nothing_was_started(&home);
}

#[test]
fn name_may_start_with_dash_but_not_be_empty() {
    let home = TestHome::with_short_windows();
    let id = home.spawn(&["--name=--json", "--", "true"]);
    assert_eq!(string_value(&home.wait_sealed(&id)["name"]), "--json");
    let empty = home.provost(&["spawn", "--name", "", "--json", "--", "true"]);
    match empty.code() {
        Some(2) => drop(assert_refused(&empty, 2, "bad_request", &["name"])),
        _ => assert_ne!(empty.ok().json()["session"]["name"], ""),
    }
}

#[test]
fn unrunnable_command_fails_the_launch() {
    let home = TestHome::with_short_windows();
    for command in ["/no/such/program", "/etc", ""] {
        let output = home.provost(&["spawn", "--json", "--", command]);
        if output.code() == Some(2) {
            continue;
        }
        let id = output.ok().id();
        let row = home.wait_sealed(&id);
        assert_eq!((&row["state"], &row["cause"]), (&"failed".into(), &"launch".into()), "{row}");
        assert!(!string_value(&row["reason"]).is_empty());
    }
}

#[test]
fn unknown_config_key_suggests_the_nearest() {
    let home = TestHome::with_short_windows();
    for (wrong, nearest) in [
        ("[session]\nsettel = \"2s\"\n", "settle"),
        ("[hooks.session]\ncompletd = \"true\"\n", "completed"),
        ("[agents.x]\ncomand = [\"true\"]\n", "command"),
    ] {
        home.configure(wrong);
        let output = home.provost(&["spawn", "--json", "--", "true"]);
        assert_refused(&output, 2, "bad_request", &[nearest, "provost.toml"]);
    }
    home.configure("[session]\nsettle = \"soon\"\n");
    let output = home.provost(&["spawn", "--json", "--", "true"]);
    assert_refused(&output, 2, "bad_request", &["session.settle", "soon"]);
    assert_nothing_was_started(&home);
}

fn assert_nothing_was_started(home: &TestHome) {
    assert!(!home.path().join("ledger").exists(), "a bad configuration starts nothing");
}

/// Whether a terminal would act on this character, or the character would reverse the rest of a line.
pub(super) fn is_dangerous(c: char) -> bool {
    provost_core::text::is_deceptive(c) && c != '\n' && c != '\t'
}
