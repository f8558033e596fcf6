//! Members that are agents: they call tools, are idle between messages, and are woken by events.

use std::fs;

use provost_testkit::harness::{TestRepo, eventually, read_nonempty};
use serde_json::{Value, json};

use crate::reports::call_tools_as;
use provost_testkit::env::{TestEnv, WRITES_CREDENTIALS, text};

/// Starts a conversation and the turn in which the member gets its contract.
const STARTS_CONTRACT_TURN: &str = r#"
[[step]]
emit = { type = "ready" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started" }
"#;

const ENDS_TURN: &str = r#"
[[step]]
emit = { type = "turn_ended", status = "ok" }
"#;

/// Waits for the next message, and records it.
fn wait_message(file: &str) -> String {
    format!(
        "[[step]]\nwait_input = {{ type = \"steer\" }}\n[[step]]\nemit = {{ type = \"turn_started\" }}\n\
         [[step]]\nappend = {{ path = \"{file}\", content = \"{{{{input}}}}\\n--\\n\" }}\n"
    )
}

/// Calls a tool, and records its answer.
fn call_tool(id: &str, tool: &str, arguments: &str) -> String {
    format!(
        "[[step]]\nemit = {{ type = \"call\", id = \"{id}\", tool = \"provost_team_{tool}\", arguments = {arguments} }}\n\
         [[step]]\nwait_input = {{ type = \"returned\" }}\n\
         [[step]]\nappend = {{ path = \"{id}\", content = \"{{{{input}}}}\" }}\n"
    )
}

fn wait_file_step(name: &str) -> String {
    format!("[[step]]\nwait_file = \"{name}\"\n")
}

const HANGS_IDLE: &str = "[[step]]\nhang = true\n";

/// The team `limits`, whose manager `boss` and worker `hand` are scripted agents in one directory.
struct AgentPair {
    stage: TestEnv,
    repo: TestRepo,
    boss: String,
    hand: String,
}

impl AgentPair {
    #[track_caller]
    fn open(boss: &[&str], hand: &[&str], flags: &[&str]) -> AgentPair {
        let stage = TestEnv::new();
        let agent = |name: &str, steps: &[&str]| stage.scripted_agent(name, &steps.concat());
        stage.configure(&(agent("managing", boss) + &agent("working", hand)));
        let words = [
            "team",
            "start",
            "limit how often each caller may call",
            "--name",
            "limits",
            "--worker",
            "hand=working",
            "--manager",
            "boss=managing",
            "--no-worktree",
            "--json",
        ];
        // Checks run on commits, so the work is in a repository.
        let repo = stage.repo("work");
        let opened = stage.provost_in(repo.path(), &[&words, flags].concat()).ok().json();
        let members = opened["team"]["members"].as_array().unwrap().clone();
        let session = |name: &str| {
            let member = members.iter().find(|one| one["name"] == name).unwrap();
            member["session"].as_str().unwrap().to_owned()
        };
        let (boss, hand) = (session("boss"), session("hand"));
        AgentPair { stage, repo, boss, hand }
    }

    fn read_filled(&self, name: &str) -> Option<String> {
        read_nonempty(self.repo.path().join(name))
    }

    #[track_caller]
    fn answer(&self, name: &str) -> Value {
        eventually("the answer to a call", || {
            let text = self.read_filled(name)?;
            serde_json::from_str::<Value>(&text).ok()
        })
    }

    fn touch(&self, name: &str) {
        fs::write(self.repo.path().join(name), "").unwrap();
    }

    #[track_caller]
    fn task(&self) -> Value {
        self.stage.provost(&["team", "show", "limits", "--json"]).ok().json()["team"].clone()
    }

    #[track_caller]
    fn messages(&self, to: &str) -> Vec<Value> {
        let listed =
            self.stage.provost(&["team", "inbox", "ls", "--all", "-t", "limits", "--json"]);
        let all = listed.ok().json()["messages"].as_array().unwrap().clone();
        all.into_iter().filter(|one| one["to"] == to).collect()
    }
}

#[test]
fn d6_completion_reaches_manager_without_calls() {
    let boss = [STARTS_CONTRACT_TURN, ENDS_TURN, &wait_message("news"), ENDS_TURN, HANGS_IDLE];
    let hand = [STARTS_CONTRACT_TURN, &wait_file_step("go"), ENDS_TURN, HANGS_IDLE];
    let pair = AgentPair::open(&boss, &hand, &[]);
    pair.stage.wait(&pair.boss, "idle");
    pair.touch("go");
    let news = eventually("the manager is woken", || pair.read_filled("news"));
    assert!(news.contains("hand (worker): idle"), "{news}");
    pair.stage.wait(&pair.hand, "idle");
    pair.stage.wait(&pair.boss, "idle");
    // Both members are idle. Provost neither asks them for a result nor stops them.
    for id in [&pair.boss, &pair.hand] {
        assert!(pair.stage.events_of(id, "result.requested").is_empty());
        assert!(pair.stage.events_of(id, "attempt.sealed").is_empty());
    }
    assert_eq!(pair.messages("boss").len(), 1, "once");
    assert_eq!(pair.messages("boss")[0]["status"], "acknowledged");
}

#[test]
fn d5_pushed_message_is_not_pulled_again() {
    let boss = [STARTS_CONTRACT_TURN, ENDS_TURN, HANGS_IDLE];
    let hand = [STARTS_CONTRACT_TURN, ENDS_TURN, &wait_message("got"), ENDS_TURN, HANGS_IDLE];
    let pair = AgentPair::open(&boss, &hand, &[]);
    pair.stage.provost(&["team", "send", "hand", "begin with the tests", "-t", "limits"]).ok();
    let got = eventually("it is pushed", || pair.read_filled("got"));
    assert!(got.contains("begin with the tests"), "{got}");
    eventually("it is consumed", || {
        (pair.messages("hand")[0]["status"] == "acknowledged").then_some(())
    });
    let next = ["team", "next", "-t", "limits", "--as", "hand", "--json"];
    assert_eq!(pair.stage.provost(&next).ok().json()["item"], Value::Null);
}

#[test]
fn tool_call_runs_once_despite_daemon_kill() {
    let boss = [STARTS_CONTRACT_TURN, ENDS_TURN, HANGS_IDLE];
    let report = r#"{ to = "operator", text = "half of it is done", kind = "report" }"#;
    let call = call_tool("c1", "send", report);
    let hand = [STARTS_CONTRACT_TURN, &wait_file_step("go"), &call, ENDS_TURN, HANGS_IDLE];
    let pair = AgentPair::open(&boss, &hand, &[]);
    pair.stage.wait(&pair.hand, "working");
    pair.stage.daemon().kill();
    pair.touch("go");
    let answer = {
        pair.stage.status(&pair.hand);
        pair.answer("c1")
    };
    assert_eq!(answer["ok"], true, "{answer}");
    assert_eq!(answer["message"]["from"], "hand", "{answer}");
    pair.stage.daemon().kill();
    pair.stage.wait(&pair.hand, "idle");
    assert_eq!(pair.messages("operator").len(), 1);
    for kind in ["tool.called", "tool.answered"] {
        assert_eq!(pair.stage.events_of(&pair.hand, kind).len(), 1, "{kind}");
    }
    pair.stage.provost(&["ledger", "verify"]).ok();
}

#[test]
fn d14_d22_worker_cannot_end_loop_or_team_or_judge() {
    let because = r#"{ because = "because I would rather be done" }"#;
    let refused = [
        ("w1", "stop_loop", because.to_owned()),
        ("w2", "finish", because.to_owned()),
        ("w3", "judge_criterion", r#"{ criterion = 1, judgement = "accept" }"#.to_owned()),
        ("w4", "interrupt", r#"{ member = "boss" }"#.to_owned()),
        ("w5", "continue", r#"{ iteration = 2, to = "hand", text = "go on" }"#.to_owned()),
        ("w6", "send", r#"{ to = "boss", text = "x", from = "operator" }"#.to_owned()),
    ];
    let calls: String =
        refused.iter().map(|(id, tool, given)| call_tool(id, tool, given)).collect();
    let provost = text(&provost_testkit::harness::provost_bin());
    let by_hand = |n: usize, words: &str| {
        let line =
            format!("{provost} {words} --json > out{n} 2>&1; echo $? >> out{n}; mv out{n} done{n}");
        format!("[[step]]\nrun = [\"sh\", \"-c\", {line:?}]\n")
    };
    let tried = [
        "team done --because 'it is done, all of it'",
        "team loop stop --because 'it is done, all of it'",
        "team criterion accept 1",
        "team done --as boss --because 'it is done, all of it'",
    ];
    let by_hands: String = tried.iter().enumerate().map(|(n, words)| by_hand(n, words)).collect();
    let hand =
        [STARTS_CONTRACT_TURN, &wait_file_step("go"), &calls, &by_hands, ENDS_TURN, HANGS_IDLE];
    let flags = ["--require", "tests=asserted", "--criterion", "callers are told to wait"];
    let pair = AgentPair::open(&[STARTS_CONTRACT_TURN, ENDS_TURN, HANGS_IDLE], &hand, &flags);
    pair.touch("go");
    for (id, tool, _) in &refused[..5] {
        let answer = pair.answer(id);
        assert_eq!(
            (&answer["ok"], &answer["code"]),
            (&json!(false), &json!("not_for_role")),
            "{tool}"
        );
    }
    let malformed = pair.answer("w6");
    assert_eq!(malformed["code"], "malformed", "{malformed}");
    for (n, words) in tried.iter().enumerate() {
        let printed = eventually("it was tried by hand", || pair.read_filled(&format!("done{n}")));
        assert!(!printed.trim_end().ends_with("\n0"), "{words}: {printed}");
        assert!(
            ["cannot", "only", "can only act as"].iter().any(|part| printed.contains(part)),
            "{words}: {printed}"
        );
    }
    let task = pair.task();
    assert_eq!((&task["state"], &task["loop"]["ended"]), (&json!("active"), &Value::Null));
    assert_eq!(task["criteria"][0]["receipt"], Value::Null, "{task:#}");
    let id = task["id"].as_str().unwrap();
    let events = pair.stage.provost(&["events", "--json", "--limit", "10000"]).ok().json();
    let events = events["events"].as_array().unwrap();
    let kept = events.iter().filter(|one| one["kind"] == "team.action_refused");
    let kept: Vec<&Value> = kept.filter(|one| one["session"] == *id).collect();
    // A repeated refusal is recorded once, on every channel.
    assert!(kept.len() >= 4, "{kept:#?}");
    assert!(kept.iter().all(|one| one["data"]["code"] == "not_for_role"), "{kept:#?}");
}

#[test]
fn manager_reads_sends_and_interrupts_worker() {
    let boss = [
        STARTS_CONTRACT_TURN,
        &call_tool("m1", "status", "{}"),
        &call_tool("m2", "send", r#"{ to = "hand", text = "begin", kind = "instruction" }"#),
        &call_tool("m3", "acknowledge", "{ revision = 0 }"),
        &call_tool(
            "m4",
            "send",
            r#"{ to = "hand", text = "begin", kind = "instruction", key = "k" }"#,
        ),
        &call_tool(
            "m5",
            "send",
            r#"{ to = "hand", text = "begin", kind = "instruction", key = "k" }"#,
        ),
        &wait_file_step("at-work"),
        &call_tool("m6", "interrupt", r#"{ member = "hand", text = "leave that" }"#),
        ENDS_TURN,
        HANGS_IDLE,
    ];
    let interrupted = r#"
[[step]]
touch = "at-work"
[[step]]
wait_input = { type = "interrupt" }
[[step]]
emit = { type = "turn_ended", status = "interrupted" }
"#;
    let hand = [
        STARTS_CONTRACT_TURN,
        ENDS_TURN,
        &wait_message("got"),
        interrupted,
        &wait_message("got"),
        ENDS_TURN,
        HANGS_IDLE,
    ];
    let pair = AgentPair::open(&boss, &hand, &[]);
    let seen = pair.answer("m1");
    assert_eq!((&seen["you"]["name"], &seen["you"]["role"]), (&json!("boss"), &json!("manager")));
    assert_eq!(seen["members"][0]["name"], "hand", "{seen:#}");
    assert_eq!(seen["next"][0], "accept revision 0 of the contract", "{seen:#}");
    assert_eq!(pair.answer("m2")["code"], "contract_not_accepted");
    for id in ["m3", "m4", "m6"] {
        assert_eq!(pair.answer(id)["ok"], true, "{id}");
    }
    assert_eq!(pair.answer("m5")["repeated"], true);
    assert_eq!(pair.answer("m5")["message"]["no"], pair.answer("m4")["message"]["no"]);
    let got = eventually("the replacement instruction", || {
        pair.read_filled("got").filter(|text| text.contains("leave that"))
    });
    assert!(got.contains("begin"), "{got}");
    let instructions = pair.messages("hand");
    assert_eq!(instructions.len(), 1, "{instructions:#?}");
}

#[test]
fn killed_worker_is_reported_and_relaunched() {
    let boss = [
        STARTS_CONTRACT_TURN,
        ENDS_TURN,
        &wait_message("news"),
        ENDS_TURN,
        &wait_message("news"),
        ENDS_TURN,
        HANGS_IDLE,
    ];
    let dies = "[[step]]\nif_launch = 1\ndie = 9\n";
    let hand = [
        STARTS_CONTRACT_TURN,
        &wait_file_step("go"),
        dies,
        ENDS_TURN,
        &wait_message("got"),
        ENDS_TURN,
        HANGS_IDLE,
    ];
    let pair = AgentPair::open(&boss, &hand, &[]);
    pair.stage.wait(&pair.boss, "idle");
    pair.touch("go");
    let news = eventually("the manager hears of it", || {
        pair.read_filled("news").filter(|news| news.contains("its process was lost"))
    });
    assert!(news.contains("signal 9"), "{news}");
    pair.stage.wait_sealed(&pair.hand);
    pair.stage.provost(&["team", "send", "hand", "go on with it", "-t", "limits"]).ok();
    let row = pair.stage.wait_state(&pair.hand, |row| row["attempt"] == 2);
    assert_eq!(row["attempt"], 2);
    eventually("it has its message", || {
        let all = pair.messages("hand");
        (all.last()?["status"] == "acknowledged").then_some(())
    });
}

#[test]
fn check_requested_by_member_is_reported_back() {
    let boss = [
        STARTS_CONTRACT_TURN,
        &call_tool("m1", "acknowledge", "{ revision = 0 }"),
        &call_tool(
            "m2",
            "propose_criterion",
            r#"{ text = "the tests of it all pass", check = "true" }"#,
        ),
        &call_tool("m3", "judge_criterion", r#"{ criterion = 1, judgement = "accept" }"#),
        &call_tool("m4", "check", "{ criterion = 1 }"),
        ENDS_TURN,
        &wait_message("news"),
        ENDS_TURN,
        &wait_message("news"),
        &call_tool("m5", "finish", r#"{ because = "all of it holds" }"#),
        ENDS_TURN,
        &wait_message("news"),
        ENDS_TURN,
        HANGS_IDLE,
    ];
    let pair = AgentPair::open(
        &boss,
        &[STARTS_CONTRACT_TURN, ENDS_TURN, HANGS_IDLE],
        &["--check", "true"],
    );
    for id in ["m1", "m2", "m3"] {
        assert_eq!(pair.answer(id)["ok"], true, "{id}: {}", pair.answer(id));
    }
    assert_eq!(pair.answer("m4")["check"], 1, "{}", pair.answer("m4"));
    let news = eventually("the result of the check", || {
        pair.read_filled("news").filter(|news| news.contains("check 1 for criterion 1"))
    });
    assert!(news.contains("`true`"), "{news}");
    let criterion = || pair.task()["criteria"][0]["state"].as_str().map(str::to_owned);
    assert_eq!(criterion().as_deref(), Some("satisfied"), "{news}");
    let finished = pair.answer("m5");
    assert_eq!(finished["ok"], true, "{finished}");
    let report = eventually("the manager hears that it is done", || {
        pair.read_filled("news").filter(|news| news.contains("the team is done"))
    });
    assert_eq!(report.matches("the team is done").count(), 1);
    assert_eq!(pair.task()["state"], "done");
}

#[test]
fn mcp_member_calls_count_once() {
    let boss = [WRITES_CREDENTIALS, STARTS_CONTRACT_TURN, ENDS_TURN, HANGS_IDLE];
    let pair = AgentPair::open(&boss, &[STARTS_CONTRACT_TURN, ENDS_TURN, HANGS_IDLE], &[]);
    let found = eventually("the credentials of the manager", || pair.read_filled("credentials-1"));
    fs::write(pair.stage.file("credentials-1"), found).unwrap();
    let who = pair.stage.credentials(1);
    let request = |id: Value, method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    let call = |id: u32, tool: &str, arguments: Value| {
        let name = format!("provost_team_{tool}");
        request(json!(id), "tools/call", json!({"name": name, "arguments": arguments}))
    };
    let send = json!({"to": "hand", "text": "begin", "kind": "instruction"});
    let messages = [
        request(json!(0), "tools/list", Value::Null),
        call(1, "acknowledge", json!({"revision": 0})),
        call(2, "send", send.clone()),
        call(2, "send", send),
        call(3, "status", json!({})),
    ];
    let answers = call_tools_as(&pair.stage, &who, &["--role", "manager"], &messages);
    let listed = answers[0]["result"]["tools"].to_string();
    assert!(listed.contains("provost_team_finish") && !listed.contains("provost_report"));
    let answer = |n: usize| -> Value {
        let result = &answers[n]["result"];
        assert_eq!(result["isError"], false, "{result}");
        serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
    };
    assert_eq!(answer(2), answer(3), "the same call has the same answer");
    assert_eq!(answer(4)["you"]["name"], "boss");
    assert_eq!(pair.messages("hand").len(), 1);
}

#[test]
fn operator_interrupts_member_as_manager() {
    let boss = [STARTS_CONTRACT_TURN, ENDS_TURN, HANGS_IDLE];
    let left = r#"
[[step]]
wait_input = { type = "interrupt" }
[[step]]
emit = { type = "turn_ended", status = "interrupted" }
"#;
    let hand = [STARTS_CONTRACT_TURN, left, &wait_message("got"), ENDS_TURN, HANGS_IDLE];
    let pair = AgentPair::open(&boss, &hand, &[]);
    pair.stage.wait(&pair.hand, "working");
    let run_as = |by: &str, words: &[&str]| {
        let whose = ["-t", "limits", "--as", by];
        pair.stage.provost(&[words, &whose].concat())
    };
    let interrupt = ["interrupt", "--member", "hand", "leave that"];
    let unread = run_as("boss", &interrupt);
    assert!(
        unread.assert_code(4).stderr.contains("provost team contract accept --revision 0"),
        "{unread:?}"
    );
    run_as("boss", &["team", "contract", "accept", "--revision", "0"]).ok();
    let worker = run_as("hand", &interrupt);
    assert!(worker.assert_code(4).stderr.contains("a worker cannot interrupt"), "{worker:?}");
    let done = run_as("boss", &interrupt);
    assert!(done.ok().stdout.contains("asked hand of limits to interrupt its turn"), "{done:?}");
    let got = eventually("the replacement instruction", || pair.read_filled("got"));
    assert!(got.contains("leave that"), "{got}");
    let other = run_as("boss", &["compact", "--member", "nobody"]);
    assert!(other.assert_code(3).stderr.contains("nobody is not a member"), "{other:?}");
    let session = pair.stage.provost(&["interrupt", &pair.hand, "-t", "limits"]);
    assert!(session.assert_code(2).stderr.contains("--member"), "{session:?}");
}
