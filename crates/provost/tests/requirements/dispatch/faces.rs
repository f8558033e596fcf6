//! Output for users and members: it is true, its commands work as printed, and it names its subject.

use std::{process::Command, thread};

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use super::kit::Desk;
use crate::kit::{CREDENTIALS, Stage, TALKER, output_of};

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("a number, not {value}"))
}

#[test]
fn the_time_to_accept_and_the_time_to_acknowledge_are_told_apart() {
    let desk = Desk::opened(&["--offer", "30s", "--lease", "10m"]);
    desk.send("hand", "Begin with the tests.");
    desk.send("hand", "Then the second caller.");
    let offered = desk.next("hand", &["--offer-only"]);
    assert!(offered["offer_until"].is_i64() && offered["lease_until"].is_null(), "{offered}");
    let (no, lease) = (offered["no"].to_string(), offered["lease"].to_string());
    let accepted = desk.act("hand", &["inbox", "accept", &no, "--lease", &lease]).ok().json();
    let longer = number(&accepted["lease_until"]) - number(&offered["offer_until"]);
    assert!((540_000..660_000).contains(&longer), "{longer}");
    let taken = desk.next("hand", &[]);
    assert!(taken["offer_until"].is_null(), "{taken}");
    assert!(number(&taken["lease_until"]) >= number(&accepted["lease_until"]), "{taken}");
}

#[test]
fn the_command_against_a_blocker_works_in_an_empty_environment() {
    let desk = Desk::new();
    desk.bind("limits", "the deputy's", "manager");
    let task = desk.task();
    let blocker = &task["blockers"][0];
    assert_eq!(blocker["code"], "contract_unacknowledged");
    let hint = blocker["hint"].as_str().unwrap();
    assert!(hint.starts_with("provost manager ack --revision 0 "), "{hint}");
    let command = blocker["next"].as_str().unwrap();
    let mut shell = Command::new("/usr/bin/env");
    shell.args(["-i", "/bin/sh", "-c", command]);
    let done = output_of(shell);
    done.ok();
    let left = desk.task()["blockers"].clone();
    assert!(!left.to_string().contains("contract_unacknowledged"), "{left}");
}

#[test]
fn who_chooses_is_given_commands_that_work_in_an_empty_environment() {
    let desk = Desk::new();
    desk.bind("limits", "eye", "reviewer");
    desk.act("hand", &["task", "propose", "Now the second caller."]).ok();
    desk.act("boss", &["task", "propose", "First the tests of both."]).ok();
    let item = desk.next("eye", &[]);
    let envelope = item["envelope"].as_str().unwrap();
    let command = envelope.lines().find(|line| line.contains("task choose manager")).unwrap();
    let command = command.trim().replace("TEXT", "'it says how it is tested'");
    let mut shell = Command::new("/usr/bin/env");
    shell.args(["-i", "/bin/sh", "-c", &command]);
    output_of(shell).ok();
    let message = desk.next("boss", &[]);
    assert!(
        message["text"].as_str().unwrap().contains("the proposal of boss comes next"),
        "{message}"
    );
}

#[test]
fn a_check_of_the_connection_passes_by_what_it_says_and_leaves_nothing_behind() {
    let desk = Desk::opened(&[]);
    desk.bind("limits", "eye", "reviewer");
    desk.bind("limits", "deputy", "manager");
    let checking = desk.command(&["pair", "check", "limits", "--timeout", "60", "--json"]);
    let checking = thread::spawn(move || output_of(checking));
    for name in ["hand", "boss", "eye", "deputy"] {
        let probe = desk.next(name, &["--wait", "--timeout", "30"]);
        let text = probe["text"].as_str().unwrap();
        let nonce = text.rsplit(' ').next().unwrap();
        desk.act(name, &["send", "--to", "operator", nonce]).ok();
        desk.ack(name, &probe).ok();
    }
    assert_eq!(checking.join().unwrap().ok().json()["ready"], true);
    assert_eq!(desk.operate(&["inbox", "ls"]).ok().json()["messages"], json!([]));
    // No member answers, and no trace can be found later.
    desk.provost(&["pair", "check", "limits", "--timeout", "1"]).exits(5);
    eventually("the probes are over", || {
        let waiting = desk.operate(&["inbox", "ls"]).ok().json()["messages"].clone();
        (waiting == json!([])).then_some(())
    });
}

#[test]
fn a_look_tells_the_budget_and_what_is_new_and_takes_nothing() {
    let desk = Desk::new();
    let start = ["loop", "start", "--require", "notes=asserted", "--max-iterations", "3"];
    desk.operate(&start).ok();
    desk.send("hand", "Begin with the tests.");
    let look = |since: &[&str]| {
        let words = [&["cycle", "limits", "--as", "boss", "--json"], since].concat();
        desk.provost(&words).ok().json()["cycle"].clone()
    };
    let first = look(&[]);
    assert_eq!(first["budget"]["loop"]["iterations"], json!({"used": 1, "limit": 3}));
    let seq = first["new"]["seq"].to_string();
    assert!(first["new"]["in_all"].as_u64().unwrap() > 5, "{first}");
    assert_eq!(look(&["--since", &seq])["new"]["in_all"], 0);
    let said = "read both files, and ran the tests";
    desk.act("hand", &["loop", "show", "notes", "--text", said]).ok();
    for _ in 0..2 {
        let new = look(&["--since", &seq])["new"].clone();
        assert_eq!(new["in_all"], 1, "looking takes nothing: {new}");
        let shown = &new["shown"][0];
        assert_eq!((&shown["kind"], &shown["text"]), (&json!("task.evidence_shown"), &Value::Null));
    }
    let status = desk.operate(&["loop", "status"]).ok().json()["loop"].clone();
    assert_eq!(status["asserted"]["notes"], json!({"by": "hand", "text": said}));
    assert_eq!((&status["backlog"], &status["tokens"]), (&json!(1), &Value::Null));
    let card = desk.shown(&["loop", "status", "--task", "limits"]);
    for part in
        ["asserted by hand: read both", "1 stored, not yet accepted", "stopped after 3 iterations"]
    {
        assert!(card.contains(part), "{}", card);
    }
    let card = desk.shown(&["cycle", "limits", "--since", &seq]);
    assert!(card.contains("1 events since"), "{}", card);
}

#[test]
fn a_pair_of_which_one_cannot_be_started_is_not_begun() {
    let stage = Stage::new();
    let repo = stage.repo("work");
    let config = "[agents.broken]\ndriver = \"jsonl\"\ncommand = [\"/nonexistent/agent\"]\n[agents.absent]\ndriver = \"jsonl\"\ncommand = [\"no-such-agent\"]\n";
    std::fs::write(repo.path().join("provost.toml"), config).unwrap();
    stage.trust(repo.path());
    for agent in ["broken", "absent"] {
        let worker = format!("b={agent}");
        let words =
            ["pair", "some goal of it", "--name", "t", "--worker", &worker, "--pull-manager"];
        let words = [&words[..6], &["--manager", "me"]].concat();
        let refused = stage.provost_in(repo.path(), &words);
        let refused = refused.exits(4);
        assert!(refused.stderr.contains("cannot start b: there is no program"), "{refused:?}");
        assert_eq!(stage.provost(&["task", "ls", "--json"]).ok().json()["tasks"], json!([]));
        assert!(stage.rows().is_empty());
    }
}

#[test]
fn what_is_renamed_is_found_by_its_new_name() {
    let desk = Desk::new();
    desk.provost(&["task", "new", "other", "--goal", "another thing altogether"]).ok();
    let taken = desk.provost(&["task", "rename", "limits", "other", "--json"]).exits(4).json();
    assert!(taken["error"]["message"].as_str().unwrap().contains("already"), "{taken}");
    let row = desk.provost(&["task", "rename", "limits", "quotas", "--json"]).ok().json();
    assert_eq!(row["task"]["name"], "quotas");
    desk.provost(&["task", "show", "limits"]).exits(3);
    desk.provost(&["task", "show", "quotas"]).ok();
    let found = desk.provost(&["search", "quotas", "--json"]).ok().json();
    assert_eq!(found["hits"][0]["name"], "quotas", "{found}");
    desk.provost(&["task", "cancel", "quotas", "--because", "nobody needs it"]).ok();
    desk.provost(&["task", "rename", "quotas", "again"]).exits(4);
    let session = desk.spawn_in(desk.home.root(), &["--name", "first", "--", "sleep", "600"]);
    let row = desk.provost(&["rename", &session, "second", "--json"]).ok().json();
    assert_eq!(row["session"]["name"], "second", "{row}");
    assert_eq!(desk.provost(&["status", "second", "--json"]).ok().json()["id"], *session);
    desk.provost(&["stop", "second"]).ok();
    desk.wait_state(&session, |row| row["sealed"] == true);
}

#[test]
fn what_somebody_lays_aside_is_no_refusal_and_its_reason_is_content() {
    let desk = Desk::new();
    desk.send("hand", "nobody can do that");
    let item = desk.next("hand", &[]);
    let (no, lease) = (item["no"].to_string(), item["lease"].to_string());
    let release = ["inbox", "release", &no, "--lease", &lease, "--because", "not-mine-at-all"];
    desk.act("hand", &release).ok();
    desk.operate(&["inbox", "bury", &no, "--because", "no"]).ok();
    for words in [&["replay", "limits", "--as", "timeline"][..], &["audit", "limits"]] {
        let text = desk.shown(words);
        assert!(!text.contains("not-mine-at-all"), "{}", text);
    }
    let audit = desk.provost(&["audit", "limits", "--json"]).ok().json();
    let deeds = audit["deeds"].as_array().unwrap();
    let buried = deeds.iter().find(|deed| deed["kind"] == "task.message_dead");
    assert!(buried.is_none_or(|deed| deed["refused"].is_null()), "{audit}");
    let figures = desk.provost(&["telemetry", "--json"]).ok().json();
    assert_eq!(figures["failures"], json!([]), "{figures}");
}

#[test]
fn a_pair_that_cannot_be_opened_names_no_task_and_a_worker_nothing_that_it_may_not_do() {
    let desk = Desk::new();
    let words = ["pair", "some goal of it", "--name", "t", "--pull", "--worker", "a"];
    let refused = desk.provost(&[&words[..], &["--criterion", "x", "--json"]].concat());
    let refused = refused.exits(2);
    assert!(!refused.stdout.contains("task show"), "{refused:?}");
    desk.operate(&["criteria", "add", "The wording was read", "--accept"]).ok();
    desk.send("hand", "Begin with the tests.");
    let item = desk.next("hand", &[]);
    let next = desk.ack("hand", &item).ok().json()["next"].to_string();
    assert!(!next.contains("criteria satisfy") && next.contains("inbox next"), "{next}");
}

#[test]
fn an_agent_exports_nothing_and_a_person_all() {
    let desk = Desk::new();
    desk.configure_talker(&format!("{CREDENTIALS}\n[[step]]\nhang = true\n"), "");
    let session = desk.spawn_in(desk.home.root(), &["--agent", TALKER, "begin"]);
    let who = desk.credentials(1);
    for words in [
        &["export", "limits", "--to", "bundle", "--snapshot", "--json"][..],
        &["ledger", "export", "--json"],
        &["ledger", "backup", "copy", "--json"],
    ] {
        let mut command = desk.command(words);
        command.env("PROVOST_LAUNCH", &who.launch).env("PROVOST_TOKEN", &who.token);
        let refused = output_of(command);
        assert!(!refused.status.success() && refused.stdout.contains("an agent may not export"));
    }
    let bundle = desk.file("bundle");
    desk.provost(&["export", "limits", "--to", &bundle, "--snapshot"]).ok();
    desk.provost(&["ledger", "backup", &desk.file("copy")]).ok();
    desk.provost(&["stop", &session]).ok();
    desk.wait_state(&session, |row| row["process"] != "alive");
}

#[test]
fn a_finish_that_a_check_refuses_tells_how_it_ended_and_what_it_printed() {
    let desk = Desk::in_repo(&["--check", "echo no such tool as that >&2; exit 127"]);
    let finish = ["finish", "limits", "--because", "all of it holds now", "--wait", "--json"];
    let refused = desk.provost(&finish).exits(4).json();
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("exit 127; last output: \"no such tool as that\""), "{why}");
    let blocker = desk.task()["blockers"][0].clone();
    assert_eq!(blocker["printed"], "no such tool as that", "{blocker}");
    let card = desk.shown(&["task", "show", "limits"]);
    assert!(card.contains("exit 127") && card.contains("printed   no such tool"), "{}", card);
}

#[test]
fn what_waits_for_the_operator_is_seen_at_a_glance_and_of_all_tasks_at_once() {
    let desk = Desk::new();
    desk.provost(&["task", "new", "other", "--goal", "something else to be done"]).ok();
    let nothing = desk.provost(&["status", "--json"]).ok().json();
    assert_eq!(nothing["for_operator"], json!([]), "{nothing}");
    desk.act("hand", &["send", "--to", "operator", "Which of the two limits?"]).ok();
    let seen = desk.provost(&["status", "--json"]).ok().json();
    let waits = json!([{"task": desk.task()["id"], "name": "limits", "messages": 1}]);
    assert_eq!(seen["for_operator"], waits, "{seen}");
    let read = seen["next"][0].as_str().unwrap().to_owned();
    assert!(read.starts_with("provost inbox next --as operator --task "), "{read}");
    assert!(desk.shown(&["status"]).contains("1 message waits for you"));
    let listed = desk.provost(&["task", "ls"]);
    assert!(listed.ok().stdout.contains("FOR YOU") && listed.stderr.contains(&read), "{listed:?}");
    for words in [&["inbox", "ls", "--json"][..], &["inbox", "ls", "--as", "operator", "--json"]] {
        let all = desk.provost(words).ok().json();
        assert_eq!(all["messages"][0]["name"], "limits", "{all}");
        assert_eq!(all["messages"][0]["text"], "Which of the two limits?", "{all}");
        assert_eq!(all["next"][0], read, "{all}");
    }
    assert!(desk.shown(&["inbox", "ls"]).contains("Which of the two limits?"));
    let words: Vec<&str> = read.split(' ').skip(1).chain(["--json"]).collect();
    let item = desk.provost(&words).ok().json()["item"].clone();
    desk.ack("operator", &item).ok();
    let seen = desk.provost(&["status", "--json"]).ok().json();
    assert_eq!(seen["for_operator"], json!([]), "{seen}");
    let none = desk.provost(&["inbox", "ls"]);
    assert!(none.ok().stderr.contains("no messages for you"), "{none:?}");
}

#[test]
fn a_message_is_listed_with_who_wrote_it_the_way_the_trust_and_its_terms() {
    let desk = Desk::new();
    let urgent = ["send", "--to", "hand", "Stop that.", "--priority", "high", "--expires", "1h"];
    desk.operate(&urgent).ok();
    desk.act("hand", &["send", "--to", "boss", "It is done."]).ok();
    let [first, second] = &desk.messages()[..] else { panic!("two messages") };
    let of = |row: &Value| {
        let fields = ["from", "channel", "trust", "priority"].map(|field| row[field].clone());
        fields.map(|field| field.as_str().unwrap().to_owned())
    };
    assert_eq!(of(first), ["operator", "command line", "instructs", "high"]);
    assert_eq!(of(second), ["hand", "command line", "claims", "normal"]);
    let waits = number(&first["expires_at"]) - number(&first["stored_at"]);
    assert_eq!((waits, &second["expires_at"]), (3_600_000, &Value::Null));
    let listed = desk.shown(&["inbox", "ls", "--task", "limits"]);
    assert!(listed.contains("WAY") && listed.contains("command line  instructs"), "{}", listed);
    assert!(listed.contains("[high, expires in 59m"), "{}", listed);
}

#[test]
fn of_all_evidence_that_is_somebodys_word_the_loop_says_whose() {
    let desk = Desk::new();
    let asks = ["--require", "attack", "--require", "report=artifact:risk"];
    desk.operate(&[&["loop", "start"], &asks[..]].concat()).ok();
    let attack = ["--failure-mode", "two callers at once", "--check", "a hundred in parallel"];
    let result = ["--result", "none of them was let through"];
    desk.act("boss", &[&["loop", "show", "attack"], &attack[..], &result].concat()).ok();
    desk.act("hand", &["loop", "show", "report", "--field", "risk=none that is known"]).ok();
    let asserted = desk.operate(&["loop", "status"]).ok().json()["loop"]["asserted"].clone();
    assert_eq!(
        (&asserted["attack"]["by"], &asserted["report"]["by"]),
        (&json!("boss"), &json!("hand"))
    );
    let shown = desk.shown(&["loop", "status", "--task", "limits"]);
    assert!(shown.contains("asserted by boss: two callers at once; a hundred in"), "{}", shown);
    assert!(shown.contains("asserted by hand: risk: none that is known"), "{}", shown);
}

#[test]
fn an_agent_that_types_commands_is_audited_so_and_told_that_its_task_is_done() {
    let desk = Desk::new();
    desk.configure_talker(&format!("{CREDENTIALS}\n[[step]]\nhang = true\n"), "");
    let session = desk.spawn_in(desk.home.root(), &["--agent", TALKER, "begin"]);
    desk.provost(&["task", "bind", "limits", "arm", "--role", "manager", "--session", &session])
        .ok();
    let who = desk.credentials(1);
    let types = |words: &[&str]| {
        let mut command = desk.command(&[words, &["--json"]].concat());
        command.env("PROVOST_LAUNCH", &who.launch).env("PROVOST_TOKEN", &who.token);
        output_of(command)
    };
    types(&["manager", "ack", "--revision", "0"]).ok();
    let audit = desk.provost(&["audit", "limits", "--json"]).ok().json();
    let deeds = audit["deeds"].as_array().unwrap().iter().filter(|one| one["by"] == "arm");
    let ways: Vec<&Value> = deeds.map(|one| &one["channel"]).collect();
    assert_eq!(ways, ["command line"], "{audit:#}");
    let finish = ["finish", "--because", "all of it holds now"];
    desk.prove();
    types(&finish).ok();
    desk.wait_state("limits", |row| row["state"] == "done");
    // It has no open team any more: its query concerns the one it finished.
    let next = types(&["inbox", "next"]);
    assert!(next.exits(4).stdout.contains("the team is done"), "{next:?}");
    assert_eq!(types(&finish).ok().json()["task"]["state"], "done");
    assert_eq!(types(&["task", "show"]).ok().json()["task"]["name"], "limits");
    desk.provost(&["stop", &session]).ok();
    desk.wait_state(&session, |row| row["process"] != "alive");
}
