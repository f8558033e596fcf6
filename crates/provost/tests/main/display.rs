//! The output for users: fitted to the terminal's width, and accurate.

#![expect(clippy::unwrap_used, reason = "a panic fails the test, also in helpers")]

use std::{fs, path::Path, process::Command};

use provost_testkit::harness::{ProgramOutput, TestHome, eventually};
use serde_json::Value;

/// Asks one question and waits for the answer.
const ASKS: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
emit = { type = "request", id = "r", kind = "question", blocking = true, title = "the key", questions = [{ id = "k", question = "Which key?", secret = SECRET }] }
[[step]]
hang = true
"#;

/// Ends its turn without a claim, and ignores the request for its result.
const NEVER_CLAIMS: &str = r#"
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
emit = { type = "turn_ended", turn = "t1", status = "ok" }
[[step]]
hang = true
"#;

fn home_with_agent(scenario: &str) -> TestHome {
    let home = TestHome::new();
    let agent = home.scripted_agent("one", scenario);
    home.configure(&format!("[session]\nstop_grace = \"100ms\"\n{agent}"));
    home
}

#[track_caller]
fn spawn(home: &TestHome, arguments: &[&str]) -> String {
    let spawned = home.provost(&[&["spawn", "--json"], arguments].concat()).ok().json();
    spawned["id"].as_str().unwrap().to_owned()
}

fn wait_state(home: &TestHome, id: &str, state: &str) -> Value {
    home.wait_state(id, |row| row["state"] == state)
}

/// Runs `provost` on a terminal and returns the lines of its output.
fn on_terminal(home: &TestHome, columns: u32, arguments: &str) -> Vec<String> {
    let provost = home.command(&["--version"]);
    let line = format!(
        "stty cols {columns} && exec {} {arguments}",
        shell_quote(provost.get_program().as_ref())
    );
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(home.root()).env_clear();
    script.envs(provost.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = script.env("NO_COLOR", "1").env("SHELL", "/bin/sh").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.trim_end_matches('\r').to_owned()).collect()
}

fn shell_quote(path: &Path) -> String {
    format!("'{}'", path.display())
}

#[track_caller]
fn assert_fits(lines: &[String], columns: usize) {
    let wide: Vec<_> = lines.iter().filter(|line| line.chars().count() > columns).collect();
    assert!(wide.is_empty(), "wider than {columns}: {wide:#?}");
}

const LONG_CLAIM: &str = "the login works again, and so do the seventeen tests that were red before it was fixed, as the log of the last run shows";

#[test]
fn output_fits_the_terminal_width() {
    let home = TestHome::new();
    let name = "a-session-with-a-name-of-many-words";
    let id = spawn(
        &home,
        &[
            "--name",
            name,
            "--",
            "sh",
            "-c",
            &format!("provost report completed --message '{LONG_CLAIM}'"),
        ],
    );
    home.wait_state(&id, |row| row["sealed"] == true);
    let short = &id[id.len() - 8..];
    let list = on_terminal(&home, 80, "ls");
    assert_fits(&list, 80);
    assert!(
        list.iter().any(|line| line.contains(short) && line.contains("completed")),
        "{list:#?}"
    );
    assert!(list.iter().any(|line| line.contains('…')), "{list:#?}");
    let narrow = on_terminal(&home, 60, "ls");
    let rows = narrow.iter().take_while(|line| !line.starts_with("next:"));
    assert_fits(&rows.cloned().collect::<Vec<_>>(), 60);
    assert!(narrow[1].contains(short) && narrow[1].contains("completed"), "{narrow:#?}");
    let wide = on_terminal(&home, 250, "ls").join("\n");
    assert!(wide.contains(LONG_CLAIM) && wide.contains(name), "{wide}");
    for arguments in ["status NAME", "status NAME --why", "events NAME", "status"] {
        let lines = on_terminal(&home, 80, &arguments.replace("NAME", name));
        assert_fits(&lines, 80);
        let words: Vec<_> = lines.iter().flat_map(|line| line.split_whitespace()).collect();
        let broken = arguments.contains("NAME") && !words.contains(&"seventeen");
        assert!(!broken, "{arguments}: {lines:#?}");
    }
    let piped = home.provost(&["status", name]).ok().stdout.clone();
    assert!(piped.contains(LONG_CLAIM), "a pipe has no width: {piped}");
}

#[test]
fn events_are_described_for_users_only() {
    let home = TestHome::new();
    let id =
        spawn(&home, &["--", "sh", "-c", "provost report completed --message 'all done'; exit 0"]);
    home.wait_state(&id, |row| row["sealed"] == true);
    let people = home.provost(&["events", &id]).ok().stdout.clone();
    for expected in
        ["agent claims completed: all done", "process ended: exit 0", "sealed as completed"]
    {
        assert!(people.contains(expected), "{expected}: {people}");
    }
    assert!(!people.contains('{'), "{people}");
    let json = home.provost(&["events", &id, "--json"]).ok().json();
    assert!(json["events"].as_array().unwrap().iter().any(|event| event["kind"] == "claim.made"));
}

#[test]
fn stopped_agent_with_question_needs_input() {
    let home = home_with_agent(&ASKS.replace("SECRET", "false"));
    let id = spawn(&home, &["--agent", "one", "go"]);
    wait_state(&home, &id, "needs_input");
    home.provost(&["stop", &id]).ok();
    let row = home.wait_state(&id, |row| row["rule"] == "X7");
    assert_eq!((&row["claim"], &row["claim_source"]), (&"needs_input".into(), &"agent".into()));
    assert_eq!(row["claim_text"], "the key");
    let why = home.provost(&["status", &id, "--why", "--json"]).ok().json();
    let facts = why["facts"].as_array().unwrap();
    let claim = facts.iter().find(|fact| fact["fact"] == "claim").unwrap();
    assert_eq!((&claim["value"], &claim["source"]), (&"needs_input".into(), &"agent".into()));
    let next = row["next"].as_array().unwrap();
    assert!(next.iter().any(|next| next.as_str().unwrap().contains("provost answer")), "{next:?}");
    assert!(!next.iter().any(|next| next.as_str().unwrap().contains("provost stop")), "{next:?}");
}

#[test]
fn secret_is_read_from_stdin() {
    let home = home_with_agent(&ASKS.replace("SECRET", "true"));
    let id = spawn(&home, &["--agent", "one", "go"]);
    let row = wait_state(&home, &id, "needs_input");
    let hint = row["next"][0].as_str().unwrap();
    assert!(hint.ends_with("--revision 1 --secret"), "{hint}");
    let refused = home.provost(&["answer", &id, "hunter2", "--json"]);
    assert_eq!(refused.json()["error"]["next"][0], hint);
    let typed = hint.trim_start_matches("provost ");
    let typed: Vec<&str> = typed.split(' ').collect();
    home.provost_with_input(&typed, "hunter2\n").ok();
}

#[test]
fn plain_command_needing_input_suggests_resolve() {
    let home = TestHome::new();
    let id = spawn(&home, &["--", "sh", "-c", "provost report needs-input --message 'Which one?'"]);
    let row = home.wait_state(&id, |row| row["state"] == "needs_input" && !row["exit"].is_null());
    let answered = home.provost(&["answer", &id, "this one", "--json"]).assert_code(4).json();
    for next in [&row["next"], &answered["error"]["next"]] {
        let text = next.to_string();
        assert!(text.contains("provost resolve") && text.contains("provost cancel"), "{text}");
        assert!(!text.contains("provost send"), "{text}");
    }
    let why = home.provost(&["status", &id, "--why", "--json"]).ok().json();
    assert!(why["rule"].as_str().unwrap().contains("takes no answer"), "{why}");
    let hint = row["next"][1].as_str().unwrap().trim_start_matches("provost ").to_owned();
    home.provost(&hint.split(' ').collect::<Vec<_>>()).ok();
}

#[test]
fn pending_result_request_is_shown() {
    let home = home_with_agent(NEVER_CLAIMS);
    let id = spawn(&home, &["--agent", "one", "go"]);
    let row = home.wait_state(&id, |row| {
        row["reason"].as_str().is_some_and(|reason| reason.contains("asked for its result"))
    });
    assert_eq!(row["state"], "working");
    let list = home.provost(&["ls"]).ok().stdout.clone();
    assert!(list.contains("asked for its result"), "{list}");
    let why = home.provost(&["status", &id, "--why"]).ok().stdout.clone();
    assert!(why.contains("it was asked for its result"), "{why}");
}

#[test]
fn time_limit_is_shown_in_seconds_to_users() {
    let home = TestHome::new();
    let id = spawn(&home, &["--time-limit", "1s", "--", "sleep", "600"]);
    let row = home.wait_state(&id, |row| row["sealed"] == true);
    assert_eq!(row["reason"], "the time limit of 1000 ms was reached");
    let people = eventually("the text for users", || {
        let shown: ProgramOutput = home.provost(&["status", &id]);
        shown.stdout.contains("the time limit of 1 s was reached").then_some(shown.stdout)
    });
    assert!(!people.contains("1000 ms"), "{people}");
    for shown in [home.provost(&["ls"]), home.provost(&["events", &id])] {
        assert!(shown.stdout.contains("the time limit of 1 s was reached"), "{}", shown.stdout);
    }
}

#[test]
fn unknown_project_is_not_found() {
    let home = TestHome::new();
    let repo = home.repo("work");
    let path = repo.path().to_str().unwrap().to_owned();
    let missing = home.root().join("missing").display().to_string();
    let error = home.provost(&["ls", "--project", &missing, "--json"]).assert_code(3).json();
    assert!(error["error"]["message"].as_str().unwrap().contains(&missing), "{error}");
    let id = home.provost_in(repo.path(), &["spawn", "--json", "--", "true"]).ok().json();
    home.wait_state(id["id"].as_str().unwrap(), |row| row["sealed"] == true);
    fs::remove_dir_all(repo.path()).unwrap();
    let list = home.provost(&["ls", "--project", &path, "--json"]).ok().json();
    assert_eq!(
        list["sessions"].as_array().unwrap().len(),
        1,
        "its sessions are still listed: {list}"
    );
}
