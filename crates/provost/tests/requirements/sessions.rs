//! Sessions and commands: the displayed state matches the facts, and unfinished work is never shown
//! as finished.

use std::{fs, process::Stdio};

use provost_testkit::harness::{TestRepo, eventually};
use serde_json::{Value, json};

use crate::run_env::RunEnv;
use provost_testkit::env::{TALKER, TestEnv, is_running};

/// Asks a question with options, and ends its turn successfully once it is answered.
const ASKS_AND_FINISHES: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
emit = { type = "request", id = "q", kind = "question", blocking = true, title = "Storage", questions = [ { id = "s", header = "Storage", question = "Where should the records be kept?", options = [ { label = "SQLite" }, { label = "PostgreSQL" } ] } ] }
[[step]]
wait_input = { type = "answer" }
[[step]]
emit = { type = "claim", claim = "completed", text = "kept there" }
[[step]]
emit = { type = "turn_ended", turn = "t1", status = "ok" }
[[step]]
exit = 0
"#;

/// Starts a turn that is interrupted, then works on its next input.
const INTERRUPTED: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
emit = { type = "turn_ended", turn = "t1", status = "interrupted" }
[[step]]
wait_input = { type = "steer" }
[[step]]
emit = { type = "turn_started", turn = "t2" }
[[step]]
emit = { type = "claim", claim = "completed", text = "went on" }
[[step]]
emit = { type = "turn_ended", turn = "t2", status = "ok" }
[[step]]
exit = 0
"#;

fn short_id(id: &str) -> &str {
    &id[id.len() - 8..]
}

fn flags(row: &Value) -> Vec<String> {
    let all = row["flags"].as_array().unwrap().iter();
    all.map(|flag| flag.as_str().unwrap().to_owned()).collect()
}

#[test]
fn f1_s1_interrupted_turn_is_not_asked_to_report() {
    let stage = TestEnv::new();
    stage.configure_talker(INTERRUPTED, "");
    let id = stage.spawn_in(stage.root(), &["--agent", TALKER, "work"]);
    let row = stage.wait_state(&id, |row| flags(row).contains(&"interrupted".to_owned()));
    assert_eq!((&row["state"], &row["sealed"]), (&json!("idle"), &json!(false)), "{row:#}");
    assert!(row["reason"].as_str().unwrap().contains("it waits for you"), "{row:#}");
    let shown = stage.provost(&["status", &id]);
    let shown = shown.ok();
    assert!(shown.stdout.contains("interrupted"), "{shown:#?}");
    assert!(shown.stderr.contains(&format!("provost resume {}", short_id(&id))), "{shown:#?}");
    let listed = stage.provost(&["ls"]).ok().stdout.clone();
    assert!(listed.contains("interrupted"), "{listed}");
    // A restarted daemon waits as well, while other sessions are started, queried and sealed.
    stage.daemon().kill();
    stage.provost(&["spawn", "--wait", "--", "true"]).ok();
    assert_eq!(stage.status(&id)["state"], "idle");
    assert_eq!(stage.events_of(&id, "result.requested"), Vec::<Value>::new());
    stage.provost(&["send", &id, "Go on."]).ok();
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["claim_text"]), (&json!("completed"), &json!("went on")));
}

#[test]
fn f1_s2_wait_exits_7_and_prints_the_question() {
    let stage = TestEnv::new();
    stage.configure_talker(ASKS_AND_FINISHES, "");
    let asked = ["spawn", "--wait", "--name", "asks", "--agent", TALKER, "ask me"];
    let waited = stage.provost(&asked);
    let stderr = &waited.assert_code(7).stderr;
    for part in ["Where should the records be kept?", "SQLite | PostgreSQL", "provost answer"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    stage.provost(&["answer", "asks", "SQLite"]).ok();
    assert_eq!(stage.wait_sealed("asks")["state"], "completed");

    let arguments = ["spawn", "--wait", "--json", "--agent", TALKER, "ask me"];
    let reply = stage.provost(&arguments).assert_code(7).json();
    let error = &reply["error"];
    assert_eq!((&reply["ok"], &error["code"]), (&json!(false), &json!("input_needed")));
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("Where should the records be kept?"), "{reply:#}");
    assert!(error["next"][0].as_str().unwrap().starts_with("provost answer"), "{reply:#}");
    let options = &reply["session"]["requests"][0]["questions"][0]["options"];
    assert_eq!(*options, json!(["SQLite", "PostgreSQL"]), "{reply:#}");
    let id = reply["id"].as_str().unwrap();
    stage.provost(&["cancel", id]).ok();

    let codes = stage.provost(&["help", "exit-codes"]).ok().stdout.clone();
    assert!(codes.contains("7  waiting for input"), "{codes}");
}

#[test]
fn f1_s2_run_without_tty_exits_7_on_question() {
    let stage = TestEnv::new();
    let repo = stage.repo("work");
    let steps = ASKS_AND_FINISHES.split_once("[[step]]\nwait_input").unwrap().1;
    let env = RunEnv::with_steps(stage, repo, &format!("[[step]]\nwait_input{steps}"));
    let goal = ["Keep the records.", "--agent", TALKER, "--no-triage", "--review-task", "off"];
    let waited = env.stage.provost_in(env.repo.path(), &[&["run"], &goal[..]].concat());
    let stderr = &waited.assert_code(7).stderr;
    for part in ["Where should the records be kept?", "SQLite | PostgreSQL", "provost answer"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let id = waited.stdout.lines().next().unwrap().to_owned();
    assert_eq!(env.stage.status(&id)["state"], "running", "the run is not ended by that");
    env.stage.provost(&["cancel", &id]).ok();
    env.wait_sealed(&id);

    let arguments = [&["run", "--json"], &goal[..]].concat();
    let reply = env.stage.provost_in(env.repo.path(), &arguments).assert_code(7).json();
    assert_eq!(reply["error"]["code"], "input_needed", "{reply:#}");
    let message = reply["error"]["message"].as_str().unwrap();
    assert!(message.contains("Where should the records be kept?"), "{reply:#}");
    let id = reply["id"].as_str().unwrap();
    env.stage.provost(&["cancel", id]).ok();
    env.wait_sealed(id);
}

fn branch_of(row: &Value) -> &str {
    row["worktree"]["branch"].as_str().unwrap()
}

#[test]
fn f1_s3_worktree_is_committed_without_a_check() {
    let stage = TestEnv::new();
    let repo = stage.repo("work");
    let outcomes = [("completed", "true"), ("failed", "false")];
    for (state, end) in outcomes {
        let line = format!("echo work > CHANGE.md; git init -q nested; {end}");
        let id = stage.spawn_in(repo.path(), &["--worktree", "--", "sh", "-c", &line]);
        let row = stage.wait_sealed(&id);
        assert_eq!(row["state"], state, "{row:#}");
        let branch = branch_of(&row);
        assert_eq!(repo.git(&["show", &format!("{branch}:CHANGE.md")]), "work");
        assert_eq!(*row["commit"].as_str().unwrap(), repo.git(&["rev-parse", branch]));
        let place = row["worktree"]["path"].as_str().unwrap();
        let dirty = repo.git(&["-C", place, "status", "--porcelain", "--", "CHANGE.md"]);
        assert_eq!(dirty, "", "nothing of it is left uncommitted");
        assert!(row["warnings"].to_string().contains("nested"), "what is left out is named");
        assert_eq!(row["verification"], "none");
    }
    assert!(repo.is_clean(), "the user's own checkout was touched");
}

#[test]
fn f1_s3_branch_has_the_work_when_the_wait_ends() {
    let stage = TestEnv::new();
    let repo = stage.repo("work");
    let arguments = ["spawn", "--wait", "--json", "--worktree", "--settle", "0ms", "--"];
    let line = "echo work > CHANGE.md";
    let spawned = stage.provost_in(repo.path(), &[&arguments[..], &["sh", "-c", line]].concat());
    let row = spawned.ok().json()["session"].clone();
    repo.git(&["merge", "--quiet", branch_of(&row)]);
    assert_eq!(repo.read("CHANGE.md"), "work\n");
}

/// A member that ends each turn and then waits, for any input.
const IDLES_BETWEEN_TURNS: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
emit = { type = "turn_ended", turn = "t1", status = "ok" }
[[step]]
hang = true
"#;

/// Opens a team of two scripted agents, and returns its members' sessions.
fn open_team(stage: &TestEnv, repo: &TestRepo, name: &str) -> Vec<String> {
    let agent = stage.scripted_agent("rests", IDLES_BETWEEN_TURNS);
    stage.configure(&format!("[session]\nstop_grace = \"1s\"\n{agent}"));
    let members = ["--worker", "hand=rests", "--manager", "boss=rests"];
    let words =
        [&["team", "start", "limit calls", "--name", name][..], &members, &["--no-worktree"]];
    let opened = stage.provost_in(repo.path(), &[&words.concat()[..], &["--json"]].concat());
    let members = opened.ok().json()["team"]["members"].as_array().unwrap().clone();
    members.iter().map(|one| one["session"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn f1_s6_finished_team_leaves_no_agent_running() {
    let stage = TestEnv::new();
    let repo = stage.repo("work");
    for (name, end) in [("done", "finish"), ("off", "cancel")] {
        let members = open_team(&stage, &repo, name);
        for member in &members {
            stage.wait(member, "idle");
        }
        let pids: Vec<u32> = members.iter().map(|id| stage.pid(id)).collect();
        let acknowledge =
            ["team", "contract", "accept", "--revision", "0", "-t", name, "--as", "boss"];
        stage.provost(&acknowledge).ok();
        let ended = match end {
            "finish" => {
                let finish = ["team", "done", name, "--because", "all done"];
                stage.provost(&[&finish[..], &["--allow", "nothing_proved"]].concat())
            }
            _ => stage.provost(&["team", "cancel", name, "--because", "not needed"]),
        };
        ended.ok();
        for (member, pid) in members.iter().zip(pids) {
            let row = stage.wait_sealed(member);
            let state = if end == "finish" { "stopped" } else { "cancelled" };
            assert_eq!(row["state"], state, "{name}: {row:#}");
            assert!(row["reason"].as_str().unwrap().contains("its team"), "{row:#}");
            eventually("the agent is gone", || (!is_running(pid)).then_some(()));
        }
        let shown = stage.provost(&["team", "show", name, "--json"]).ok().json();
        let task = &shown["team"];
        let last = stage.events_of(task["id"].as_str().unwrap(), "team.phase_changed");
        assert_eq!(task["since"], last.last().unwrap()["at"], "since when it is over");
    }
}

#[test]
fn f1_s6_team_leaves_foreign_agents_running() {
    let stage = TestEnv::new();
    let repo = stage.repo("work");
    let members = open_team(&stage, &repo, "limits");
    stage.wait(&members[0], "idle");
    let own = stage.spawn_in(stage.root(), &["--name", "mine", "--agent", "rests", "wait"]);
    let pid = stage.pid(&own);
    let bind = ["team", "bind", "limits", "mine", "--role", "worker", "--session", &own];
    stage.provost(&bind).ok();
    stage.provost(&["team", "cancel", "limits", "--because", "not needed"]).ok();
    for member in &members {
        stage.wait_sealed(member);
    }
    let row = stage.status(&own);
    assert!(is_running(pid) && row["sealed"] == false && row["process"] == "alive", "{row:#}");
}

const COMPLETES_AND_STAYS: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
emit = { type = "claim", claim = "completed", text = "done" }
[[step]]
emit = { type = "turn_ended", turn = "t1", status = "ok" }
[[step]]
hang = true
"#;

#[test]
fn f1_s6_live_process_after_finish_is_shown() {
    let stage = TestEnv::new();
    stage.configure_talker(COMPLETES_AND_STAYS, "");
    let id = stage.spawn_in(stage.root(), &["--keep", "--agent", TALKER, "work"]);
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "completed", "{row:#}");
    let pid = stage.pid(&id);
    let alive = format!("still alive, pid {pid}");
    for command in [&["ls"][..], &["status", &id]] {
        let shown = stage.provost(command).ok().stdout.clone();
        assert!(shown.contains(&alive), "{command:?}: {shown}");
    }
    let status = stage.provost(&["daemon", "status"]).ok().stdout.clone();
    assert!(status.contains("agents      1 running"), "{status}");
    let stopped = stage.provost(&["daemon", "stop"]);
    let notice = "daemon stopped; 1 agent is still running (provost ls)";
    assert!(stopped.ok().stderr.contains(notice), "{stopped:#?}");
    stage.provost(&["stop", &id]).ok();
    eventually("the agent is gone", || (!is_running(pid)).then_some(()));
    stage.wait_state(&id, |row| row["launches"][0]["phase"] == "ended");
    let stopped = stage.provost(&["daemon", "stop"]);
    assert!(stopped.ok().stderr.contains("daemon stopped\n"), "{stopped:#?}");
}

#[test]
fn f1_s7_plain_command_exit_0_is_completed() {
    let stage = TestEnv::new();
    let waited = stage.provost(&["spawn", "--wait", "--json", "--", "true"]);
    let row = waited.ok().json()["session"].clone();
    assert_eq!((&row["state"], &row["claim_source"]), (&json!("completed"), &json!("policy")));
    stage.provost(&["spawn", "--wait", "--", "false"]).assert_code(1);
    let silent = ["spawn", "--wait", "--json", "--no-exit-zero-completes", "--", "true"];
    let row = stage.provost(&silent).assert_code(1).json()["session"].clone();
    assert_eq!(row["state"], "exited_without_claim", "a command that reports by itself: {row:#}");
    let listed = stage.provost(&["ls", "--all"]).ok().stdout.clone();
    assert!(listed.contains("completed"), "{listed}");
}

#[test]
fn f1_s7_user_stop_shows_stopped() {
    let stage = TestEnv::new();
    let id = stage.spawn_in(stage.root(), &["--name", "long", "--", "sleep", "600"]);
    stage.pid(&id);
    stage.provost(&["stop", &id]).ok();
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["terminal"]), (&json!("stopped"), &json!(true)), "{row:#}");
    let listed = stage.provost(&["ls", "--all"]).ok().stdout.clone();
    let line = listed.lines().find(|line| line.contains("long")).unwrap();
    assert!(line.contains("stopped") && !line.contains("unclaimed"), "{listed}");
    let only = stage.provost(&["ls", "--all", "--state", "stopped", "--json"]).ok().json();
    assert_eq!(only["sessions"].as_array().unwrap().len(), 1, "{only:#}");
}

#[test]
fn f1_a4_since_is_when_the_state_began() {
    let env = RunEnv::new("while :; do sleep 0.1; done");
    let id = env.open_run(&[]);
    let session = env.stage.wait_state(&id, |row| row["sessions"][0]["id"].is_string());
    let session = session["sessions"][0]["id"].as_str().unwrap().to_owned();
    env.stage.pid(&session);
    let opened = env.stage.status(&id)["opened_at"].as_i64().unwrap();
    env.stage.provost(&["cancel", &id]).ok();
    let row = env.wait_sealed(&id);
    assert_eq!((&row["state"], &row["since"]), (&json!("cancelled"), &row["sealed_at"]));
    assert!(row["since"].as_i64().unwrap() > opened, "{row:#}");
    let row = env.stage.wait_sealed(&session);
    let at = |kind: &str| env.stage.events_of(&session, kind)[0]["at"].clone();
    assert_eq!(row["since"], at("attempt.cancelled"), "{row:#}");
    let listed = env.stage.provost(&["ls", "--all"]).ok().stdout.clone();
    let heads: Vec<&str> = listed.split_whitespace().collect();
    assert!(heads.contains(&"SINCE") && !heads.contains(&"AGE"), "{listed}");

    let env = RunEnv::new("exit 1");
    let id = env.open_run(&[]);
    let row = env.wait_sealed(&id);
    assert_eq!((&row["state"], &row["since"]), (&json!("failed"), &row["sealed_at"]), "{row:#}");
}

#[test]
fn f1_a12_unstartable_program_never_worked() {
    let stage = TestEnv::new();
    let spawned = stage.provost(&["spawn", "--name", "no", "--", "nosuchprogram"]);
    assert!(!spawned.ok().stderr.contains("working"), "{spawned:#?}");
    let row = stage.wait_sealed("no");
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("launch")), "{row:#}");
    assert_eq!(row["process"], "not_started", "{row:#}");
    let why = stage.provost(&["status", "no", "--why"]).ok().stdout.clone();
    let first = why.lines().next().unwrap();
    assert!(first.starts_with("no failed (launch): it could not be started"), "{why}");
    assert!(first.ends_with('.') && !first.contains("rule"), "{why}");
    assert!(why.contains("nosuchprogram") && !why.contains("Provost stopped it"), "{why}");
    let spawned = stage.provost(&["spawn", "--json", "--", "nosuchprogram"]).ok().json();
    assert_ne!(spawned["session"]["process"], "alive", "{spawned:#}");
    assert!(flags(&spawned["session"]).contains(&"starting".to_owned()), "{spawned:#}");
}

#[test]
fn f1_a12_stop_facts_are_consistent() {
    let stage = TestEnv::new();
    let id = stage.spawn_in(stage.root(), &["--", "sleep", "600"]);
    stage.pid(&id);
    stage.provost(&["stop", &id]).ok();
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["process"], &row["exit"]["signal"]), (&json!("stopped"), &json!(15)));
    for shown in [&["status", &id][..], &["status", &id, "--why"]] {
        let output = stage.provost(shown).ok().stdout.clone();
        assert!(!output.contains("exit0") && !output.contains("cleanly"), "{output}");
        assert!(output.contains("signal 15"), "{output}");
    }
    let why = stage.provost(&["status", &id, "--why"]).ok().stdout.clone();
    assert!(why.contains("you stopped it"), "{why}");
}

#[test]
fn f1_a12_answer_resumes_only_if_agent_takes_it() {
    let stage = TestEnv::new();
    let plain = stage.spawn_sample("needs_input_exit0", &[]);
    let ended = |row: &Value| row["state"] == "needs_input" && row["process"] == "exit0";
    let row = stage.wait_state(&plain, ended);
    assert!(!flags(&row).contains(&"answer_resumes".to_owned()), "{row:#}");
    stage.provost(&["answer", &plain, "yes"]).assert_code(4);
    let asks = ASKS_AND_FINISHES.replace("wait_input = { type = \"answer\" }", "exit = 0");
    stage.configure_talker(&asks, "");
    let agent = stage.spawn_in(stage.root(), &["--agent", TALKER, "ask me"]);
    let row = stage.wait_state(&agent, ended);
    assert!(flags(&row).contains(&"answer_resumes".to_owned()), "{row:#}");
    stage.provost(&["answer", &agent, "SQLite"]).ok();
    stage.provost(&["cancel", &agent]).ok();
    stage.provost(&["cancel", &plain]).ok();
}

#[test]
fn f1_a23_why_of_a_run_explains_the_run() {
    let env = RunEnv::new("exit 1");
    let id = env.open_run(&[]);
    let row = env.wait_sealed(&id);
    let session = row["sessions"][0]["id"].as_str().unwrap();
    let why = env.stage.provost(&["status", &id, "--why"]).ok().stdout.clone();
    let first = why.lines().next().unwrap();
    let name = row["name"].as_str().unwrap();
    assert!(first.starts_with(&format!("{name} failed")), "{why}");
    assert!(first.contains("its work failed"), "{why}");
    assert!(first.ends_with(&format!("(session {}).", short_id(session))), "{why}");
    let output = env.stage.provost(&["status", &id, "--why", "--json"]).ok().json();
    assert_eq!(output["session"]["session"]["id"], *session, "{output:#}");
    assert!(output["why"].as_str().unwrap().starts_with("its work failed"), "{output:#}");

    let env = RunEnv::new("while :; do sleep 0.1; done");
    let id = env.open_run(&[]);
    env.stage.wait_state(&id, |row| row["sessions"][0]["id"].is_string());
    let output = env.stage.provost(&["status", &id, "--why", "--json"]).ok().json();
    assert_eq!(output["why"], "it waits for its session of the stage work", "{output:#}");
    env.stage.provost(&["cancel", &id, "--because", "enough"]).ok();
    env.wait_sealed(&id);
    let output = env.stage.provost(&["status", &id, "--why", "--json"]).ok().json();
    assert_eq!(output["why"], "it was cancelled: enough", "{output:#}");
}

/// The same key detaches from a terminal and from Codex's screen.
#[test]
fn f1_s1_attach_explains_detaching() {
    let stage = TestEnv::new();
    let id = stage.spawn_in(stage.root(), &["--tty", "--", "cat"]);
    let pid = stage.pid(&id);
    let shown = stage.file("shown");
    let line = format!("{} attach {id}", stage.command(&["x"]).get_program().to_string_lossy());
    let like = stage.command(&["status"]);
    let variables = like.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let mut script = std::process::Command::new("script");
    script.env_clear().envs(variables).current_dir(stage.root());
    script.stdin(Stdio::piped()).stdout(fs::File::create(&shown).unwrap());
    let mut script = script.args(["-qec", &line, "/dev/null"]).spawn().unwrap();
    let says = |text: &str| {
        eventually(text, || {
            let shown = String::from_utf8_lossy(&fs::read(&shown).unwrap()).into_owned();
            if shown.contains(text) { Ok(()) } else { Err(shown) }
        });
    };
    says("press Ctrl-\\ to detach");
    let mut keys = script.stdin.take().unwrap();
    std::io::Write::write_all(&mut keys, b"hello\r").unwrap();
    says("hello");
    std::io::Write::write_all(&mut keys, b"\x1c").unwrap();
    says("detached; the agent keeps running");
    drop(keys);
    assert!(script.wait().unwrap().success());
    assert!(is_running(pid));
    stage.provost(&["stop", &id]).ok();
    stage.wait_sealed(&id);
}
