//! Output for users and members: it is true, its commands work as printed, and it names its
//! subject.

use std::{process::Command, thread};

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use super::team_env::TeamEnv;
use provost_testkit::env::{TALKER, TestEnv, WRITES_CREDENTIALS, output_of};

fn expect_i64(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("a number, not {value}"))
}

#[test]
fn offer_and_lease_deadlines_are_distinct() {
    let env = TeamEnv::with_flags(&["--offer", "30s", "--lease", "10m"]);
    env.send("hand", "Begin with the tests.");
    env.send("hand", "Then the second caller.");
    let offered = env.take_next("hand", &["--hold"]);
    assert!(offered["offer_until"].is_i64() && offered["lease_until"].is_null(), "{offered}");
    let (no, lease) = (offered["no"].to_string(), offered["lease"].to_string());
    let accepted =
        env.act_as("hand", &["team", "inbox", "accept", &no, "--lease", &lease]).ok().json();
    let longer = expect_i64(&accepted["lease_until"]) - expect_i64(&offered["offer_until"]);
    assert!((540_000..660_000).contains(&longer), "{longer}");
    let taken = env.take_next("hand", &[]);
    assert!(taken["offer_until"].is_null(), "{taken}");
    assert!(expect_i64(&taken["lease_until"]) >= expect_i64(&accepted["lease_until"]), "{taken}");
}

#[test]
fn blocker_command_works_in_empty_environment() {
    let env = TeamEnv::new();
    env.bind("limits", "the deputy's", "manager");
    let task = env.show_task();
    let blocker = &task["blockers"][0];
    assert_eq!(blocker["code"], "contract_not_accepted");
    let hint = blocker["hint"].as_str().unwrap();
    assert!(hint.starts_with("provost team contract accept --revision 0 "), "{hint}");
    let command = blocker["next"].as_str().unwrap();
    let mut shell = Command::new("/usr/bin/env");
    shell.args(["-i", "/bin/sh", "-c", command]);
    let done = output_of(shell);
    done.ok();
    let left = env.show_task()["blockers"].clone();
    assert!(!left.to_string().contains("contract_not_accepted"), "{left}");
}

#[test]
fn choice_commands_work_in_empty_environment() {
    let env = TeamEnv::new();
    env.bind("limits", "eye", "reviewer");
    env.act_as("hand", &["team", "propose", "Now the second caller."]).ok();
    env.act_as("boss", &["team", "propose", "First the tests of both."]).ok();
    let item = env.take_next("eye", &[]);
    let envelope = item["envelope"].as_str().unwrap();
    let command = envelope.lines().find(|line| line.contains("team choose manager")).unwrap();
    let command = command.trim().replace("TEXT", "'it says how it is tested'");
    let mut shell = Command::new("/usr/bin/env");
    shell.args(["-i", "/bin/sh", "-c", &command]);
    output_of(shell).ok();
    let message = env.take_next("boss", &[]);
    assert!(
        message["text"].as_str().unwrap().contains("the proposal of boss comes next"),
        "{message}"
    );
}

#[test]
fn connection_check_passes_and_leaves_nothing() {
    let env = TeamEnv::with_flags(&[]);
    env.bind("limits", "eye", "reviewer");
    env.bind("limits", "deputy", "manager");
    let checking = env.command(&["team", "ping", "limits", "--timeout", "60", "--json"]);
    let checking = thread::spawn(move || output_of(checking));
    for name in ["hand", "boss", "eye", "deputy"] {
        let probe = env.take_next(name, &["--wait", "--timeout", "30"]);
        let text = probe["text"].as_str().unwrap();
        let nonce = text.rsplit(' ').next().unwrap();
        env.act_as(name, &["team", "send", "operator", nonce]).ok();
        env.ack(name, &probe).ok();
    }
    assert_eq!(checking.join().unwrap().ok().json()["ready"], true);
    assert_eq!(env.act_as_operator(&["team", "inbox", "ls"]).ok().json()["messages"], json!([]));
    // No member answers, and the ping leaves no messages behind.
    env.provost(&["team", "ping", "limits", "--timeout", "1"]).assert_code(5);
    eventually("the probes are over", || {
        let waiting = env.act_as_operator(&["team", "inbox", "ls"]).ok().json()["messages"].clone();
        (waiting == json!([])).then_some(())
    });
}

#[test]
fn overview_shows_budget_and_news_without_taking() {
    let env = TeamEnv::new();
    let start = ["team", "loop", "start", "--require", "notes=asserted", "--max-iterations", "3"];
    env.act_as_operator(&start).ok();
    env.send("hand", "Begin with the tests.");
    let look = |since: &[&str]| {
        let words = [&["team", "overview", "limits", "--as", "boss", "--json"], since].concat();
        env.provost(&words).ok().json()["cycle"].clone()
    };
    let first = look(&[]);
    assert_eq!(first["budget"]["loop"]["iterations"], json!({"used": 1, "limit": 3}));
    let seq = first["new"]["seq"].to_string();
    assert!(first["new"]["total"].as_u64().unwrap() > 5, "{first}");
    assert_eq!(look(&["--since", &seq])["new"]["total"], 0);
    let notes = "read both files, and ran the tests";
    env.act_as("hand", &["team", "loop", "submit", "notes", "--text", notes]).ok();
    for _ in 0..2 {
        let new = look(&["--since", &seq])["new"].clone();
        assert_eq!(new["total"], 1, "looking takes nothing: {new}");
        let shown = &new["events"][0];
        assert_eq!((&shown["kind"], &shown["text"]), (&json!("team.evidence_shown"), &Value::Null));
    }
    let status = env.act_as_operator(&["team", "loop", "status"]).ok().json()["loop"].clone();
    assert_eq!(status["asserted"]["notes"], json!({"by": "hand", "text": notes}));
    assert_eq!((&status["backlog"], &status["tokens"]), (&json!(1), &Value::Null));
    let status = env.stdout_of(&["team", "loop", "status", "-t", "limits"]);
    for part in
        ["asserted by hand: read both", "1 stored, not yet accepted", "stopped after 3 iterations"]
    {
        assert!(status.contains(part), "{}", status);
    }
    let overview = env.stdout_of(&["team", "overview", "limits", "--since", &seq]);
    assert!(overview.contains("1 events since"), "{}", overview);
}

#[test]
fn team_with_unstartable_member_is_not_opened() {
    let stage = TestEnv::new();
    let repo = stage.repo("work");
    let config = "[agents.broken]\nadapter = \"jsonl\"\ncommand = [\"/nonexistent/agent\"]\n[agents.absent]\nadapter = \"jsonl\"\ncommand = [\"no-such-agent\"]\n";
    std::fs::write(repo.path().join("provost.toml"), config).unwrap();
    stage.trust(repo.path());
    for agent in ["broken", "absent"] {
        let worker = format!("b={agent}");
        let members = ["--worker", &worker, "--manager", "me"];
        let words = [&["team", "start", "some goal of it", "--name", "t"][..], &members].concat();
        let refused = stage.provost_in(repo.path(), &words);
        let refused = refused.assert_code(4);
        assert!(refused.stderr.contains("cannot start b: there is no program"), "{refused:?}");
        assert_eq!(stage.provost(&["team", "ls", "--json"]).ok().json()["teams"], json!([]));
        assert!(stage.list_sessions().is_empty());
    }
}

#[test]
fn renamed_team_and_session_are_found() {
    let env = TeamEnv::new();
    env.provost(&["team", "new", "other", "--goal", "another thing altogether"]).ok();
    let taken = env.provost(&["team", "rename", "limits", "other", "--json"]).assert_code(4).json();
    assert!(taken["error"]["message"].as_str().unwrap().contains("already"), "{taken}");
    let row = env.provost(&["team", "rename", "limits", "quotas", "--json"]).ok().json();
    assert_eq!(row["team"]["name"], "quotas");
    env.provost(&["team", "show", "limits"]).assert_code(3);
    env.provost(&["team", "show", "quotas"]).ok();
    let found = env.provost(&["search", "quotas", "--json"]).ok().json();
    assert_eq!(found["hits"][0]["name"], "quotas", "{found}");
    env.provost(&["team", "cancel", "quotas", "--because", "nobody needs it"]).ok();
    env.provost(&["team", "rename", "quotas", "again"]).assert_code(4);
    let session = env.spawn_in(env.home.root(), &["--name", "first", "--", "sleep", "600"]);
    let row = env.provost(&["rename", &session, "second", "--json"]).ok().json();
    assert_eq!(row["session"]["name"], "second", "{row}");
    assert_eq!(env.provost(&["status", "second", "--json"]).ok().json()["id"], *session);
    env.provost(&["stop", "second"]).ok();
    env.wait_state(&session, |row| row["sealed"] == true);
}

#[test]
fn dead_letter_is_no_refusal_and_reason_is_content() {
    let env = TeamEnv::new();
    env.send("hand", "nobody can do that");
    let item = env.take_next("hand", &[]);
    let (no, lease) = (item["no"].to_string(), item["lease"].to_string());
    let release =
        ["team", "inbox", "release", &no, "--lease", &lease, "--because", "not-mine-at-all"];
    env.act_as("hand", &release).ok();
    env.act_as_operator(&["team", "inbox", "dead-letter", &no, "--because", "no"]).ok();
    for words in [&["replay", "limits", "--as", "timeline"][..], &["audit", "limits"]] {
        let text = env.stdout_of(words);
        assert!(!text.contains("not-mine-at-all"), "{}", text);
    }
    let audit = env.provost(&["audit", "limits", "--json"]).ok().json();
    let actions = audit["actions"].as_array().unwrap();
    let buried = actions.iter().find(|action| action["kind"] == "team.message_dead");
    assert!(buried.is_none_or(|action| action["refused"].is_null()), "{audit}");
    let figures = env.provost(&["telemetry", "--json"]).ok().json();
    assert_eq!(figures["failures"], json!([]), "{figures}");
}

#[test]
fn failed_start_hints_only_allowed_commands() {
    let env = TeamEnv::new();
    let words = ["team", "start", "some goal of it", "--name", "t", "--pull", "--worker", "a"];
    let refused = env.provost(&[&words[..], &["--criterion", "x", "--json"]].concat());
    let refused = refused.assert_code(2);
    assert!(!refused.stdout.contains("team show"), "{refused:?}");
    env.act_as_operator(&["team", "criterion", "add", "The wording was read", "--accept"]).ok();
    env.send("hand", "Begin with the tests.");
    let item = env.take_next("hand", &[]);
    let next = env.ack("hand", &item).ok().json()["next"].to_string();
    assert!(!next.contains("criterion satisfy") && next.contains("team next"), "{next}");
}

#[test]
fn export_is_operator_only() {
    let env = TeamEnv::new();
    env.configure_talker(&format!("{WRITES_CREDENTIALS}\n[[step]]\nhang = true\n"), "");
    let session = env.spawn_in(env.home.root(), &["--agent", TALKER, "begin"]);
    let who = env.credentials(1);
    for words in [
        &["export", "limits", "--to", "bundle", "--snapshot", "--json"][..],
        &["ledger", "export", "--json"],
        &["ledger", "backup", "copy", "--json"],
    ] {
        let mut command = env.command(words);
        command.env("PROVOST_LAUNCH", &who.launch).env("PROVOST_TOKEN", &who.token);
        let refused = output_of(command);
        assert!(
            !refused.status.success()
                && refused.stdout.contains("agents are not permitted to export")
        );
    }
    let bundle = env.file("bundle");
    env.provost(&["export", "limits", "--to", &bundle, "--snapshot"]).ok();
    env.provost(&["ledger", "backup", &env.file("copy")]).ok();
    env.provost(&["stop", &session]).ok();
    env.wait_state(&session, |row| row["process"] != "alive");
}

#[test]
fn refused_finish_shows_check_exit_and_output() {
    let env = TeamEnv::in_repo(&["--check", "echo no such tool as that >&2; exit 127"]);
    let finish = ["team", "done", "limits", "--because", "all of it holds now", "--json"];
    let refused = env.provost(&finish).assert_code(4).json();
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("exit 127; last output: \"no such tool as that\""), "{why}");
    let blocker = env.show_task()["blockers"][0].clone();
    assert_eq!(blocker["printed"], "no such tool as that", "{blocker}");
    let shown = env.stdout_of(&["team", "show", "limits"]);
    assert!(shown.contains("exit 127") && shown.contains("printed   no such tool"), "{}", shown);
}

#[test]
fn operator_backlog_is_listed_across_teams() {
    let env = TeamEnv::new();
    env.provost(&["team", "new", "other", "--goal", "something else to be done"]).ok();
    let nothing = env.provost(&["status", "--json"]).ok().json();
    assert_eq!(nothing["for_operator"], json!([]), "{nothing}");
    env.act_as("hand", &["team", "send", "operator", "Which of the two limits?"]).ok();
    let seen = env.provost(&["status", "--json"]).ok().json();
    let waits = json!([{"team": env.show_task()["id"], "name": "limits", "messages": 1}]);
    assert_eq!(seen["for_operator"], waits, "{seen}");
    let read = seen["next"][0].as_str().unwrap().to_owned();
    assert!(read.starts_with("provost team next --as operator -t "), "{read}");
    assert!(env.stdout_of(&["status"]).contains("1 message waits for you"));
    let listed = env.provost(&["team", "ls"]);
    assert!(listed.ok().stdout.contains("FOR YOU") && listed.stderr.contains(&read), "{listed:?}");
    for words in [
        &["team", "inbox", "ls", "--json"][..],
        &["team", "inbox", "ls", "--as", "operator", "--json"],
    ] {
        let all = env.provost(words).ok().json();
        assert_eq!(all["messages"][0]["name"], "limits", "{all}");
        assert_eq!(all["messages"][0]["text"], "Which of the two limits?", "{all}");
        assert_eq!(all["next"][0], read, "{all}");
    }
    assert!(env.stdout_of(&["team", "inbox", "ls"]).contains("Which of the two limits?"));
    let words: Vec<&str> = read.split(' ').skip(1).chain(["--json"]).collect();
    let item = env.provost(&words).ok().json()["item"].clone();
    env.ack("operator", &item).ok();
    let seen = env.provost(&["status", "--json"]).ok().json();
    assert_eq!(seen["for_operator"], json!([]), "{seen}");
    let none = env.provost(&["team", "inbox", "ls"]);
    assert!(none.ok().stderr.contains("no messages for you"), "{none:?}");
}

#[test]
fn message_lists_sender_channel_trust_and_terms() {
    let env = TeamEnv::new();
    let urgent = ["team", "send", "hand", "Stop that.", "--priority", "high", "--expires", "1h"];
    env.act_as_operator(&urgent).ok();
    env.act_as("hand", &["team", "send", "boss", "It is done."]).ok();
    let [first, second] = &env.list_messages()[..] else { panic!("two messages") };
    let of = |row: &Value| {
        let fields = ["from", "channel", "trust", "priority"].map(|field| row[field].clone());
        fields.map(|field| field.as_str().unwrap().to_owned())
    };
    assert_eq!(of(first), ["operator", "command line", "trusted", "high"]);
    assert_eq!(of(second), ["hand", "command line", "untrusted", "normal"]);
    let waits = expect_i64(&first["expires_at"]) - expect_i64(&first["stored_at"]);
    assert_eq!((waits, &second["expires_at"]), (3_600_000, &Value::Null));
    let listed = env.stdout_of(&["team", "inbox", "ls", "-t", "limits"]);
    assert!(listed.contains("CHANNEL") && listed.contains("command line  trusted"), "{}", listed);
    assert!(listed.contains("[high, expires in 59m"), "{}", listed);
}

#[test]
fn loop_names_who_asserted_evidence() {
    let env = TeamEnv::new();
    let asks = ["--require", "challenge", "--require", "report=artifact:risk"];
    env.act_as_operator(&[&["team", "loop", "start"], &asks[..]].concat()).ok();
    let challenge = ["--failure-mode", "two callers at once", "--check", "a hundred in parallel"];
    let result = ["--result", "none of them was let through"];
    env.act_as(
        "boss",
        &[&["team", "loop", "submit", "challenge"], &challenge[..], &result].concat(),
    )
    .ok();
    env.act_as("hand", &["team", "loop", "submit", "report", "--field", "risk=none that is known"])
        .ok();
    let asserted =
        env.act_as_operator(&["team", "loop", "status"]).ok().json()["loop"]["asserted"].clone();
    assert_eq!(
        (&asserted["challenge"]["by"], &asserted["report"]["by"]),
        (&json!("boss"), &json!("hand"))
    );
    let shown = env.stdout_of(&["team", "loop", "status", "-t", "limits"]);
    assert!(shown.contains("asserted by boss: two callers at once; a hundred in"), "{}", shown);
    assert!(shown.contains("asserted by hand: risk: none that is known"), "{}", shown);
}

#[test]
fn agent_commands_are_audited_and_finish_is_shown() {
    let env = TeamEnv::new();
    env.configure_talker(&format!("{WRITES_CREDENTIALS}\n[[step]]\nhang = true\n"), "");
    let session = env.spawn_in(env.home.root(), &["--agent", TALKER, "begin"]);
    env.provost(&["team", "bind", "limits", "arm", "--role", "manager", "--session", &session])
        .ok();
    let who = env.credentials(1);
    let types = |words: &[&str]| {
        let mut command = env.command(&[words, &["--json"]].concat());
        command.env("PROVOST_LAUNCH", &who.launch).env("PROVOST_TOKEN", &who.token);
        output_of(command)
    };
    types(&["team", "contract", "accept", "--revision", "0"]).ok();
    let audit = env.provost(&["audit", "limits", "--json"]).ok().json();
    let actions = audit["actions"].as_array().unwrap().iter().filter(|one| one["by"] == "arm");
    let channels: Vec<&Value> = actions.map(|one| &one["channel"]).collect();
    assert_eq!(channels, ["command line"], "{audit:#}");
    let finish = ["team", "done", "--because", "all of it holds now"];
    env.satisfy_criterion();
    types(&finish).ok();
    env.wait_state("limits", |row| row["state"] == "done");
    // The member has no open team, so its query refers to the team that finished.
    let next = types(&["team", "next"]);
    assert!(next.assert_code(4).stdout.contains("the team is done"), "{next:?}");
    assert_eq!(types(&finish).ok().json()["team"]["state"], "done");
    assert_eq!(types(&["team", "show"]).ok().json()["team"]["name"], "limits");
    env.provost(&["stop", &session]).ok();
    env.wait_state(&session, |row| row["process"] != "alive");
}
