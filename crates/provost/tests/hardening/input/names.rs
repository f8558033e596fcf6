//! Unknown ids, and names that are hard to display.

use provost_testkit::Home;

use crate::kit::{configure, quick_home, refused, sealed, spawn, text};

/// A name with escapes, a bell, bidirectional overrides and a newline.
const NASTY: &str =
    "\u{1b}[31mred\u{1b}]0;title\u{7}\u{202e}gnp.exe\u{2066}\u{9b}31m\nsecond\rline";

#[test]
fn an_unknown_id_is_not_found_whatever_is_asked() {
    let home = quick_home();
    let known = spawn(&home, &["--", "true"]);
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
            refused(&output, 3, "not_found", &[id]);
            assert!(
                !output.json()["error"]["next"].as_array().expect("a list").is_empty(),
                "{args:?}"
            );
        }
    }
    assert_eq!(sealed(&home, &known)["state"], "completed");
}

#[test]
fn an_empty_id_is_bad_usage_and_means_no_session() {
    let home = quick_home();
    spawn(&home, &["--", "true"]);
    for args in [&["status", "", "--json"][..], &["stop", "", "--json"], &["logs", "", "--json"]] {
        let code = home.provost(args).code();
        assert!(matches!(code, Some(2 | 3)), "{args:?} gave {code:?}");
    }
}

#[test]
fn an_id_that_fits_several_sessions_names_them() {
    let home = quick_home();
    for _ in 0..2 {
        spawn(&home, &["--name", "twin", "--", "true"]);
    }
    let output = home.provost(&["stop", "twin", "--json"]);
    refused(&output, 2, "bad_request", &["twin", "several"]);
}

#[test]
fn nothing_that_an_agent_or_a_person_named_reaches_the_terminal_raw() {
    let home = quick_home();
    let id = spawn(&home, &["--", "sh", "-c", "sleep 30", NASTY]);
    home.wait_state(&id, |row| {
        row["process"] == "alive" && row["launches"][0]["phase"] == "running"
    });
    home.provost(&["report", "working", "--session", &id, "--message", NASTY]).ok();
    home.provost(&["report", "fact", "--session", &id, "--artifact", NASTY]).ok();
    home.provost(&["cancel", &id, "--because", NASTY]).ok();
    sealed(&home, &id);
    home.provost(&["resolve", &id, "--as", "failed", "--because", NASTY]).ok();
    for args in [
        &["ls"][..],
        &["ls", "--all"],
        &["status"],
        &["status", &id],
        &["status", &id, "--why"],
        &["events"],
        &["events", &id],
        &["logs", &id],
        &["stop", NASTY],
        &["spawn", "--name", NASTY, "--", "true"],
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
    assert_eq!(row["argv"][3], NASTY, "programs get it as it is");
}

#[test]
fn a_name_that_cannot_be_seen_whole_is_refused() {
    let home = quick_home();
    for name in [NASTY, "one\ntwo", "\u{1b}[31m", "a\u{202e}b"] {
        for flag in ["--name", "--role"] {
            let spawned = home.provost(&["spawn", flag, name, "--json", "--", "true"]);
            refused(&spawned, 2, "bad_request", &[flag, "invisible characters"]);
        }
    }
    assert_nothing_was_started(&home);
}

#[test]
fn a_name_may_begin_with_a_dash_and_an_empty_one_is_refused_or_replaced() {
    let home = quick_home();
    let id = spawn(&home, &["--name=--json", "--", "true"]);
    assert_eq!(text(&sealed(&home, &id)["name"]), "--json");
    let empty = home.provost(&["spawn", "--name", "", "--json", "--", "true"]);
    match empty.code() {
        Some(2) => drop(refused(&empty, 2, "bad_request", &["name"])),
        _ => assert_ne!(empty.ok().json()["session"]["name"], ""),
    }
}

#[test]
fn commands_that_cannot_run_are_failed_launches_with_their_reason() {
    let home = quick_home();
    for command in ["/no/such/program", "/etc", ""] {
        let output = home.provost(&["spawn", "--json", "--", command]);
        if output.code() == Some(2) {
            continue;
        }
        let id = text(&output.ok().json()["id"]);
        let row = sealed(&home, &id);
        assert_eq!((&row["state"], &row["cause"]), (&"failed".into(), &"launch".into()), "{row}");
        assert!(!text(&row["reason"]).is_empty());
    }
}

#[test]
fn an_unknown_key_of_the_configuration_is_rejected_with_the_nearest() {
    let home = quick_home();
    for (wrong, nearest) in [
        ("[session]\nsettel = \"2s\"\n", "settle"),
        ("[hooks.session]\ncompletd = \"true\"\n", "completed"),
        ("[agents.x]\ncomand = [\"true\"]\n", "command"),
    ] {
        configure(&home, wrong);
        let output = home.provost(&["spawn", "--json", "--", "true"]);
        refused(&output, 2, "bad_request", &[nearest, "provost.toml"]);
    }
    configure(&home, "[session]\nsettle = \"soon\"\n");
    let output = home.provost(&["spawn", "--json", "--", "true"]);
    refused(&output, 2, "bad_request", &["session.settle", "soon"]);
    assert_nothing_was_started(&home);
}

fn assert_nothing_was_started(home: &Home) {
    assert!(!home.path().join("ledger").exists(), "a bad configuration starts nothing");
}

/// Whether a terminal would act on this character, or the character would reverse the rest of a line.
pub(super) fn is_dangerous(c: char) -> bool {
    provost_core::text::is_deceptive(c) && c != '\n' && c != '\t'
}
