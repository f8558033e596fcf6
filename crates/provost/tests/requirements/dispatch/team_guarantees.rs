//! Waits that end, keys that belong to one member, a finish that requires proof, and messages that
//! are never lost.

use std::{fs, path::PathBuf, thread};

use provost_testkit::harness::{ProgramOutput, eventually};
use serde_json::{Value, json};

use super::team_env::TeamEnv;
use provost_testkit::env::{HANGS, TALKER, WRITES_CREDENTIALS, output_of};

/// Takes one instruction, does nothing and claims completion.
const CLAIMS_WITHOUT_WORK: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started" }
[[step]]
emit = { type = "claim", claim = "completed", text = "that is done" }
[[step]]
emit = { type = "turn_ended", status = "ok" }
[[step]]
hang = true
"#;

/// A check that blocks until its gate file exists.
struct FileGate {
    path: PathBuf,
}

impl FileGate {
    fn new(env: &TeamEnv) -> FileGate {
        FileGate { path: PathBuf::from(env.file("gate")) }
    }

    fn check(&self) -> String {
        format!("until test -e {}; do sleep 0.05; done", self.path.display())
    }

    fn open(&self) {
        fs::write(&self.path, "").unwrap();
    }
}

/// A team in a repository with a manager, and a criterion whose check waits for its gate.
fn gated_criterion() -> (TeamEnv, FileGate) {
    let env = TeamEnv::in_repo(&[]);
    env.bind("limits", "boss", "manager");
    env.act_as("boss", &["team", "contract", "accept", "--revision", "0"]).ok();
    let gate = FileGate::new(&env);
    let add =
        ["team", "criterion", "add", "the tests of both callers pass", "--check", &gate.check()];
    env.act_as_operator(&[&add[..], &["--accept"]].concat()).ok();
    (env, gate)
}

const CHECK: [&str; 4] = ["team", "prove", "--criterion", "1"];

/// Runs a team command in a thread. Joining the thread returns the output.
fn run_in_background(env: &TeamEnv, words: &[&str]) -> thread::JoinHandle<ProgramOutput> {
    let command = env.command(&[words, &["-t", "limits", "--json"]].concat());
    thread::spawn(move || output_of(command))
}

fn error_text(output: &ProgramOutput) -> String {
    output.json()["error"]["message"].as_str().unwrap().to_owned()
}

fn message_texts(env: &TeamEnv, to: &str) -> Vec<String> {
    let messages = env.list_messages().into_iter().filter(|one| one["to"] == to);
    messages.map(|one| one["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn f7_s1_check_wait_joins_a_running_check() {
    let (env, gate) = gated_criterion();
    env.act_as_operator(&CHECK).ok();
    let waiting: Vec<_> =
        (0..3).map(|_| run_in_background(&env, &[&CHECK[..], &["--wait"]].concat())).collect();
    let joined = run_in_background(&env, &[&CHECK[..], &["--wait", "--as", "boss"]].concat());
    eventually("boss asked, too", || {
        let id = env.show_task()["id"].as_str().unwrap().to_owned();
        (!env.events_of(&id, "team.check_joined").is_empty()).then_some(())
    });
    gate.open();
    for waiting in waiting.into_iter().chain([joined]) {
        let ended = waiting.join().unwrap();
        assert_eq!(ended.ok().json()["receipt"]["end"], json!({"exit": 0}), "{ended:?}");
    }
}

#[test]
fn f7_s1_check_wait_replays_its_key() {
    let (env, gate) = gated_criterion();
    gate.open();
    let first =
        env.act_as_operator(&[&CHECK[..], &["--wait", "--key", "once"]].concat()).ok().json();
    let again =
        env.act_as_operator(&[&CHECK[..], &["--wait", "--key", "once"]].concat()).ok().json();
    assert_eq!(first["receipt"], again["receipt"], "the same check");
}

#[test]
fn f7_s1_check_wait_ends_with_the_team() {
    let (env, gate) = gated_criterion();
    env.act_as_operator(&CHECK).ok();
    let waiting = run_in_background(&env, &[&CHECK[..], &["--wait"]].concat());
    let joined = run_in_background(&env, &[&CHECK[..], &["--wait", "--as", "boss"]].concat());
    eventually("boss asked, too", || {
        let id = env.show_task()["id"].as_str().unwrap().to_owned();
        (!env.events_of(&id, "team.check_joined").is_empty()).then_some(())
    });
    env.provost(&["team", "cancel", "limits", "--because", "nobody needs it"]).ok();
    let ended = joined.join().unwrap();
    assert!(
        error_text(ended.assert_code(1)).contains("the team is cancelled: nobody needs it"),
        "{ended:?}"
    );
    // The other command may have been sent after the end.
    assert_ne!(waiting.join().unwrap().code(), Some(0));
    gate.open();
}

#[test]
fn f7_s1_finish_wait_replays_key_after_refusal() {
    let env = TeamEnv::in_repo(&["--check", "false"]);
    let finish = ["team", "done", "limits", "--because", "all of it holds", "--key", "f"];
    for _ in 0..2 {
        let refused = env.provost(&[&finish[..], &["--json"]].concat());
        assert!(error_text(refused.assert_code(4)).contains("check_failed"), "{refused:?}");
    }
}

#[test]
fn f7_s1_ping_ends_with_the_team() {
    let env = TeamEnv::new();
    let check = ["team", "ping", "limits", "--timeout", "1000", "--json"];
    let command = env.command(&check);
    let waiting = thread::spawn(move || output_of(command));
    eventually("both are probed", || (env.list_messages().len() == 2).then_some(()));
    env.provost(&["team", "cancel", "limits", "--because", "nobody needs it"]).ok();
    let ended = waiting.join().unwrap();
    assert_eq!(ended.assert_code(5).json()["ready"], false);
}

#[test]
fn f7_s2_key_belongs_to_the_member() {
    let env = TeamEnv::new();
    env.bind("limits", "arm", "worker");
    env.bind("limits", "chief", "manager");
    for who in ["hand", "arm"] {
        let sent = env.act_as(who, &["team", "send", "boss", "It is done.", "--key", "done-1"]);
        assert_eq!(sent.ok().json()["message"]["from"], who);
        let add = ["team", "criterion", "add", "two callers are told to wait", "--key", "c"];
        env.act_as(who, &add).ok();
    }
    assert_eq!(message_texts(&env, "boss").len(), 2);
    assert_eq!(env.show_task()["criteria"].as_array().unwrap().len(), 2);
    let config = r#"{"objective": "be quick"}"#;
    env.act_as_operator(&["team", "contract", "set", config, "--expect", "0"]).ok();
    for who in ["boss", "chief"] {
        env.act_as(who, &["team", "contract", "accept", "--revision", "1", "--key", "ack-1"]).ok();
    }
    for member in env.show_task()["members"].as_array().unwrap() {
        let read = if member["role"] == "manager" { json!(1) } else { Value::Null };
        assert_eq!(member["acknowledged_revision"], read, "{member}");
    }
}

#[test]
fn f7_s2_key_with_other_content_is_refused() {
    let env = TeamEnv::new();
    let send = ["team", "send", "hand", "Begin.", "--key", "k"];
    env.act_as_operator(&send).ok();
    for other in [
        &["--priority", "high"][..],
        &["--kind", "note"],
        &["--expires", "30m"],
        &["--correlation", "c"],
        &["--steer"],
    ] {
        let refused = env.act_as_operator(&[&send[..], other].concat());
        assert!(
            error_text(refused.assert_code(4)).contains("another key"),
            "{other:?}: {refused:?}"
        );
    }
    env.act_as_operator(&[
        "team",
        "criterion",
        "add",
        "two callers are told to wait",
        "--key",
        "c",
    ])
    .ok();
    let other = env.act_as_operator(&[
        "team",
        "criterion",
        "add",
        "three callers are told to wait",
        "--key",
        "c",
    ]);
    assert!(error_text(other.assert_code(4)).contains("the key was already used"), "{other:?}");
    assert_eq!(env.show_task()["criteria"].as_array().unwrap().len(), 1);
}

#[test]
fn f7_s2_replay_returns_the_current_status() {
    let env = TeamEnv::new();
    let send = ["team", "send", "hand", "Begin.", "--key", "k"];
    assert_eq!(env.act_as_operator(&send).ok().json()["message"]["status"], "stored");
    let item = env.take_next("hand", &[]);
    assert_eq!(env.act_as_operator(&send).ok().json()["message"]["status"], "accepted");
    env.ack("hand", &item).ok();
    assert_eq!(env.act_as_operator(&send).ok().json()["message"]["status"], "acknowledged");
    env.provost(&["team", "cancel", "limits", "--because", "nobody needs it"]).ok();
    let over = env.act_as_operator(&send).ok().json();
    assert_eq!(
        (&over["message"]["status"], &over["team"]["state"]),
        (&json!("acknowledged"), &json!("cancelled"))
    );
}

const FINISH: [&str; 5] = ["team", "done", "limits", "--because", "all of it holds now"];

fn finish(env: &TeamEnv, flags: &[&str]) -> ProgramOutput {
    env.provost(&[&FINISH[..], flags, &["--json"]].concat())
}

#[test]
fn f7_s4_unproved_finish_is_refused() {
    let env = TeamEnv::new();
    let refused = finish(&env, &[]);
    assert!(error_text(refused.assert_code(4)).contains("nothing_proved"), "{refused:?}");
    // Only the operator can override this, and only with the explicit flag.
    let refused = finish(&env, &["--as", "boss", "--allow", "nothing_proved"]);
    assert!(error_text(refused.assert_code(4)).contains("only the operator"), "{refused:?}");
    finish(&env, &["--allow", "check_failed"]).assert_code(2);
    let done = finish(&env, &["--allow", "nothing_proved"]).ok().json();
    assert_eq!(done["team"]["allowed"][0]["code"], "nothing_proved");
    assert!(env.stdout_of(&["team", "show", "limits"]).contains("allowed"), "it is shown");
    let audit = env.stdout_of(&["audit", "limits"]);
    assert!(audit.contains("finish allowed despite: nothing_proved"), "{audit}");
}

#[test]
fn f7_s4_finish_with_open_instructions_is_refused() {
    let env = TeamEnv::in_repo(&["--check", "true"]);
    env.send("hand", "Begin.");
    let refused = finish(&env, &[]);
    assert!(
        error_text(refused.assert_code(4)).contains("instruction_open: hand has 1"),
        "{refused:?}"
    );
    let item = env.take_next("hand", &[]);
    let refused = finish(&env, &[]);
    assert!(
        error_text(refused.assert_code(4)).contains("instruction_open"),
        "accepted: {refused:?}"
    );
    env.ack("hand", &item).ok();
    finish(&env, &[]).ok();
}

#[test]
fn f7_s4_finish_settles_leased_messages() {
    let env = TeamEnv::in_repo(&["--check", "true"]);
    let item = {
        env.send("hand", "Begin.");
        env.take_next("hand", &[])
    };
    finish(&env, &["--allow", "instruction_open"]).ok();
    assert_eq!(env.list_messages()[0]["status"], "cancelled", "{item}");
}

#[test]
fn f7_s4_finish_while_a_worker_works_is_refused() {
    let env = TeamEnv::in_repo(&["--check", "true"]);
    let session = env.spawn_scenario(HANGS, &[]);
    env.pid(&session);
    let bind = ["team", "bind", "limits", "arm", "--role", "worker", "--session", &session];
    env.provost(&bind).ok();
    let refused = finish(&env, &[]);
    assert!(
        error_text(refused.assert_code(4)).contains("member_working: arm is working"),
        "{refused:?}"
    );
    assert_eq!(env.show_task()["blockers"][0]["code"], "member_working");
    finish(&env, &["--allow", "member_working,nothing_changed"]).ok();
    assert_eq!(env.show_task()["state"], "done");
}

#[test]
fn f7_s4_finish_of_an_untouched_base_is_refused() {
    let env = TeamEnv::new();
    env.configure_talker(
        CLAIMS_WITHOUT_WORK,
        "[session]\nstop_grace = \"100ms\"\nsettle = \"100ms\"\n",
    );
    let repo = env.repo("work");
    let worker = format!("arm={TALKER}");
    let pair = ["team", "start", "count the callers", "--name", "count", "--worker", &worker];
    let opened = env.provost_in(repo.path(), &[&pair[..], &["--check", "true", "--json"]].concat());
    let session = opened.ok().json()["team"]["members"][0]["session"].as_str().unwrap().to_owned();
    env.wait_state(&session, |row| row["sealed"] == true);
    let finish = ["team", "done", "count", "--because", "all of it holds now", "--json"];
    let refused = env.provost(&finish);
    assert!(
        error_text(refused.assert_code(4)).contains("nothing_changed: arm changed nothing"),
        "{refused:?}"
    );
    env.provost(&[&finish[..], &["--allow", "nothing_changed"]].concat()).ok();
}

#[test]
fn f7_s5_dead_letter_reaches_the_sender() {
    let env = TeamEnv::new();
    let send = ["team", "send", "hand", "Count the callers."];
    env.act_as("boss", &send).ok();
    for _ in 0..10 {
        let item = env.take_next("hand", &[]);
        let (no, lease) = (item["no"].to_string(), item["lease"].to_string());
        let release =
            ["team", "inbox", "release", &no, "--lease", &lease, "--because", "cannot do it"];
        env.act_as("hand", &release).ok();
    }
    let news = env.take_next("boss", &[]);
    let text = news["text"].as_str().unwrap();
    assert!(text.contains("message 1 to hand was not handled: cannot do it"), "{text}");
    let cycle = env.provost(&["team", "overview", "limits", "--as", "boss", "--json"]).ok().json();
    let next = cycle["cycle"]["next"].to_string();
    assert!(next.contains("message 1") && !next.contains("nothing is open"), "{next}");
    env.act_as_operator(&["team", "inbox", "cancel", "1", "--because", "it is done otherwise"])
        .ok();
    let cycle = env.provost(&["team", "overview", "limits", "--as", "boss", "--json"]).ok().json();
    assert!(!cycle["cycle"]["next"].to_string().contains("message 1"), "{cycle}");
}

#[test]
fn f7_s5_expired_message_reaches_the_sender() {
    let env = TeamEnv::new();
    env.act_as("boss", &["team", "send", "hand", "Count the callers.", "--expires", "1s"]).ok();
    let news = env.take_next("boss", &["--wait", "--timeout", "60"]);
    let text = news["text"].as_str().unwrap();
    assert!(text.contains("message 1 to hand was not handled: it expired"), "{text}");
}

#[test]
fn f7_s5_retire_refuses_hands_over_or_reports() {
    let env = TeamEnv::new();
    env.bind("limits", "arm", "worker");
    env.act_as("boss", &["team", "send", "hand", "Count the callers."]).ok();
    let retire = ["team", "retire", "limits", "hand", "--because", "its part is done", "--json"];
    let refused = env.provost(&retire);
    assert!(error_text(refused.assert_code(4)).contains("hand has 1 open message"), "{refused:?}");
    env.provost(&[&retire[..], &["--to", "arm"]].concat()).ok();
    let item = env.take_next("arm", &[]);
    assert_eq!(item["text"], "Count the callers.");
    env.act_as("boss", &["team", "send", "arm", "Now the tests."]).ok();
    env.bind("limits", "leg", "worker");
    let retire = ["team", "retire", "limits", "arm", "--because", "its part is done"];
    env.provost(&[&retire[..], &["--dead-letter"]].concat()).ok();
    let news = env.take_next("boss", &[])["text"].as_str().unwrap().to_owned();
    assert!(news.contains("arm has left the team"), "{news}");
    assert!(news.contains("Count the callers.") && news.contains("Now the tests."), "{news}");
    let requeue = ["team", "inbox", "requeue", "2", "--because", "another does it", "--to", "leg"];
    let requeued = env.act_as("boss", &requeue).ok().json();
    assert_eq!(
        (&requeued["message"]["to"], &requeued["message"]["status"]),
        (&json!("leg"), &json!("stored"))
    );
    assert_eq!(env.take_next("leg", &[])["text"], "Now the tests.");
}

#[test]
fn f7_s5_without_manager_news_reach_operator() {
    let env = TeamEnv::new();
    env.configure_talker(
        CLAIMS_WITHOUT_WORK,
        "[session]\nstop_grace = \"100ms\"\nsettle = \"100ms\"\n",
    );
    let worker = format!("arm={TALKER}");
    let pair = ["team", "start", "count the callers", "--name", "count", "--worker", &worker];
    env.provost(&[&pair[..], &["--no-worktree"]].concat()).ok();
    let news = eventually("the operator hears of it", || {
        let listed = env.provost(&["team", "inbox", "ls", "-t", "count", "--json"]).ok().json();
        let messages = listed["messages"].as_array().unwrap().clone();
        messages.into_iter().find(|one| one["to"] == "operator" && one["kind"] == "news")
    });
    assert!(news["text"].as_str().unwrap().contains("arm (worker)"), "{news}");
    let listed = env.stdout_of(&["team", "inbox", "ls"]);
    assert!(listed.contains("arm (worker)"), "{listed}");
    let status = env.provost(&["status"]);
    let shown = format!("{}{}", status.ok().stdout, status.stderr);
    assert!(shown.contains("wait for you") || shown.contains("waits for you"), "{shown}");
}

/// Team commands and reports share the budget of the launch, which survives the daemon.
#[test]
fn f2_15_team_commands_count_across_daemons() {
    let env = TeamEnv::new();
    // All but 88 kB of 8 MiB.
    let facts = format!(
        "[[step]]\nrepeat = {{ times = 83, steps = [ {{ emit = {{ type = \"fact\", fact = \"artifact\", value = \"{}\" }} }} ] }}\n[[step]]\nemit = {{ type = \"progress\", done = 1, total = 1 }}\n[[step]]\nhang = true\n",
        "v".repeat(100_000)
    );
    env.configure_talker(&format!("{WRITES_CREDENTIALS}{facts}"), "");
    let session = env.spawn_in(env.home.root(), &["--agent", TALKER, "begin"]);
    env.provost(&["team", "bind", "limits", "arm", "--role", "worker", "--session", &session]).ok();
    env.wait_state(&session, |row| row["progress"]["done"] == 1);
    let who = env.credentials(1);
    let sends = |text: &str| {
        let mut command = env.command(&["team", "send", "boss", text, "--json"]);
        command.env("PROVOST_LAUNCH", &who.launch).env("PROVOST_TOKEN", &who.token);
        output_of(command)
    };
    sends(&"a".repeat(60_000)).ok();
    env.daemon().kill();
    env.wait_state(&session, |row| row["process"] == "alive");
    let refused = sends(&"b".repeat(60_000)).assert_code(4).json();
    assert!(refused["error"]["message"].to_string().contains("8 MiB"), "{refused}");
    let row = env.wait_state(&session, |row| row["flags"].to_string().contains("reports_refused"));
    assert_eq!(row["sealed"], false, "{row}");
    let mut sent = env.list_messages();
    sent.retain(|message| message["from"] != "provost");
    assert_eq!(sent.len(), 1, "{sent:#?}");
    env.provost(&["stop", &session]).ok();
    env.wait_state(&session, |row| row["process"] != "alive");
}
