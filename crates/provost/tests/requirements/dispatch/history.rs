//! The history of a team: past states, events, their actors, and refusals.

use std::process::Command;

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use super::team_env::TeamEnv;
use crate::schemas::{assert_conforms, without_next};
use provost_testkit::env::{TALKER, output_of};

/// Works on one instruction after another and claims that each is done.
pub(super) const CLAIMS_EACH_DONE: &str = r#"
[[step]]
emit = { type = "ready", thread = "serving" }
[[step]]
[step.repeat]
times = 20
steps = [
  { wait_input = { type = "instruction" } },
  { emit = { type = "turn_started", turn = "t{{n}}" } },
  { emit = { type = "claim", claim = "completed", text = "that is done" } },
  { emit = { type = "turn_ended", turn = "t{{n}}", status = "ok" } },
]
"#;

/// Binds the worker `arm`, driven by Provost in its own session. Returns the session id.
pub(super) fn bind_session_worker(env: &TeamEnv) -> String {
    env.configure_talker(CLAIMS_EACH_DONE, "[session]\nstop_grace = \"100ms\"\n");
    let session = env.spawn_in(env.root(), &["--agent", TALKER, "begin"]);
    env.wait_sealed(&session);
    let bind = ["team", "bind", "limits", "arm", "--role", "worker", "--session", &session];
    env.provost(&bind).ok();
    let sent = ["team", "send", "arm", "Count the callers.", "--correlation", "story-7"];
    let no = env.act_as_operator(&sent).ok().json()["message"]["no"].clone();
    eventually("the session has the message", || {
        let found = env.list_messages().into_iter().find(|one| one["no"] == no);
        found.filter(|one| one["status"] == "acknowledged")
    });
    // The second attempt was its onboarding message.
    env.wait_state(&session, |row| row["attempt"] == 3 && row["sealed"] == true);
    session
}

fn newest_seq(env: &TeamEnv) -> u64 {
    env.provost(&["events", "--json", "--limit", "1"]).ok().json()["last"].as_u64().unwrap()
}

fn list_rows(reply: &Value, list: &str) -> Vec<Value> {
    reply[list].as_array().unwrap().clone()
}

#[test]
fn d7_observing_consumes_no_undelivered_text() {
    let env = TeamEnv::new();
    env.send("hand", "Begin with the tests.");
    let before = newest_seq(&env);
    let observed: &[&[&str]] = &[
        &["replay", "limits"],
        &["replay", "limits", "--as", "timeline", "--content"],
        &["replay", "limits", "--as", "transcript"],
        &["audit", "limits", "--content"],
        &["search", "begin", "tests"],
        &["telemetry", "-t", "limits"],
        &["status", "limits"],
        &["status", "limits", "--at", "3"],
        &["status", "limits", "--diff", "1..5"],
        &["team", "inbox", "ls", "--all", "-t", "limits"],
        &["team", "show", "limits"],
    ];
    for words in observed {
        env.provost(words).ok();
        env.provost(&[words, &["--json"][..]].concat()).ok();
    }
    assert_eq!(newest_seq(&env), before, "no read writes");
    assert_eq!(env.take_next("hand", &[])["text"], "Begin with the tests.");
}

#[test]
fn message_is_traced_into_session_without_texts() {
    let env = TeamEnv::new();
    let session = bind_session_worker(&env);
    let replay = env.stdout_of(&["replay", "limits", "--as", "timeline", "--json"]);
    for text in ["Count the callers", "that is done", "limit how often"] {
        assert!(!replay.contains(text), "{text} is in {replay}");
    }
    let replay: Value = serde_json::from_str(&replay).unwrap();
    let rows = list_rows(&replay, "rows");
    assert!(rows.is_sorted_by_key(|row| row["seq"].as_u64()));
    let stored = {
        let is_it =
            |row: &&Value| row["kind"] == "team.message_stored" && row["correlation"] == "story-7";
        rows.iter().find(is_it).unwrap()
    };
    assert_eq!((&stored["by"], &stored["channel"]), (&json!("operator"), &json!("command line")));
    assert_eq!(stored["text_bytes"], "Count the callers.".len());
    let followed: Vec<&Value> = rows.iter().filter(|row| row["correlation"] == "story-7").collect();
    let of = |kind: &str| followed.iter().any(|row| row["stream"] == *kind);
    assert!(of("team") && of("session"), "{followed:#?}");
    assert!(followed.iter().all(|row| row["message"] == stored["message"]), "{followed:#?}");
    assert_eq!(replay["sessions"][0]["id"], *session);
    let transcript = env.stdout_of(&["replay", "limits", "--as", "transcript", "--content"]);
    let times = |text: &str| transcript.matches(text).count();
    // The text appears twice: as it was sent, and as the session received it.
    assert_eq!(times("Count the callers."), 2, "{transcript}");
    assert!(times("that is done") >= 2, "{transcript}");
    let compact = env.provost(&["replay", "limits", "--json"]).ok().json();
    let whats: Vec<String> =
        compact["rows"].as_array().unwrap().iter().map(|row| row["what"].to_string()).collect();
    let has = |text: &str| whats.iter().any(|what| what.contains(text));
    assert!(has(": acknowledged") && has("session of arm: completed, 3 turns"), "{whats:#?}");
    assert!(whats.len() < rows.len());
}

#[test]
fn refusals_are_audited_with_caller_and_reason() {
    let env = TeamEnv::new();
    for _ in 0..2 {
        let refused = env.provost(&[
            "team",
            "done",
            "limits",
            "--as",
            "hand",
            "--because",
            "it is done, I think",
        ]);
        refused.assert_code(4);
    }
    env.act_as_operator(&[
        "team",
        "criterion",
        "add",
        "the tests pass",
        "--check",
        "true",
        "--accept",
    ])
    .ok();
    let word = ["team", "criterion", "satisfy", "1", "--evidence", "believe me, I ran all of them"];
    env.act_as("boss", &word).assert_code(2);
    env.act_as_operator(&[
        "team",
        "loop",
        "start",
        "--require",
        "notes=asserted",
        "--max-iterations",
        "3",
    ])
    .ok();
    env.act_as_operator(&["team", "send", "hand", "go on", "--next"]).assert_code(4);
    env.provost(&["team", "done", "limits", "--because", "it is done, I think"]).assert_code(4);
    let audit = env.provost(&["audit", "limits", "--json"]).ok().json();
    let refused: Vec<(String, String)> = list_rows(&audit, "actions")
        .iter()
        .filter(|action| !action["refused"].is_null())
        .map(|action| {
            (
                action["by"].as_str().unwrap().to_owned(),
                action["refused"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    let refusal = |by: &str, code: &str| (by.to_owned(), code.to_owned());
    assert_eq!(
        refused[..3],
        [
            refusal("hand", "not_for_role"),
            refusal("boss", "insufficient"),
            refusal("operator", "missing_evidence")
        ],
        "each thing once: {refused:?}"
    );
    assert_eq!(refused.len(), 4, "{refused:?}");
    let criterion = &audit["criteria"][0];
    assert_eq!(criterion["criterion"]["state"], "accepted");
    assert_eq!(criterion["judgements"][0]["judgement"], "accept");
    let text = env.stdout_of(&["audit", "limits"]);
    assert!(text.contains("missing_evidence") && text.contains("4 refused"), "{}", text);
}

#[test]
fn differing_signals_are_divergences() {
    let env = TeamEnv::new();
    let repo = env.repo("work");
    let claims =
        "[[step]]\nwrite = { path = \"a\", content = \"a\" }\n[[step]]\nreport = \"completed\"\n";
    let session = env.spawn_scenario_in(repo.path(), claims, &["--worktree", "--check", "false"]);
    env.wait_sealed(&session);
    env.provost(&["team", "bind", "limits", "arm", "--role", "worker", "--session", &session]).ok();
    let audit = env.provost(&["audit", "limits", "--json"]).ok().json();
    let codes: Vec<&str> = audit["divergences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["code"].as_str().unwrap())
        .collect();
    assert!(codes.contains(&"claim_contradicts_checks"), "{codes:?}");
    assert_eq!(audit["divergences"][0]["member"], "arm");
}

#[test]
fn past_state_of_team_session_and_run_is_shown() {
    let env = TeamEnv::new();
    let session = bind_session_worker(&env);
    let now = env.status("limits");
    let id = now["id"].as_str().unwrap().to_owned();
    let then = env.provost(&["status", "limits", "--at", "1", "--json"]).ok().json();
    assert_eq!((&then["kind"], &then["id"]), (&json!("team"), &json!(id)));
    assert_eq!((&then["row"]["state"], &then["row"]["members"]), (&json!("open"), &json!([])));
    let last = newest_seq(&env);
    let latest = env.provost(&["status", &id, "--at", &last.to_string(), "--json"]).ok().json();
    assert_eq!(latest["row"]["state"], now["state"]);
    let diff =
        env.provost(&["status", "limits", "--diff", &format!("1..{last}"), "--json"]).ok().json();
    let state = diff["changes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["field"] == "state")
        .unwrap()
        .clone();
    assert_eq!((&state["from"], &state["to"]), (&json!("open"), &json!("active")));
    let first = env.events(&session)[0]["seq"].as_u64().unwrap();
    let born = env.provost(&["status", &session, "--at", &first.to_string(), "--json"]).ok().json();
    assert_eq!((&born["kind"], &born["row"]["sealed"]), (&json!("session"), &json!(false)));
    let early = env.provost(&["status", &session, "--at", "1", "--json"]).assert_code(3).json();
    assert!(
        early["error"]["message"].as_str().unwrap().contains(&format!("it began at event {first}")),
        "{early}"
    );
    let late = env.provost(&["status", "limits", "--at", "999999", "--json"]).assert_code(2).json();
    assert!(late["error"]["message"].as_str().unwrap().contains("has not happened"), "{late}");
}

#[test]
fn search_results_name_source_and_next_command() {
    let env = TeamEnv::new();
    let session = bind_session_worker(&env);
    env.provost(&["team", "new", "other", "--goal", "something else altogether"]).ok();
    let search = |words: &[&str]| {
        let reply = env.provost(&[&["search"], words, &["--json"]].concat()).ok().json();
        list_rows(&reply, "hits")
    };
    let places = |hits: &[Value]| {
        hits.iter().map(|hit| hit["in"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // The goal is in the team, in the onboarding message for `arm`, and in the attempt that it started.
    assert_eq!(places(&search(&["LIMIT", "how"])), ["teams", "events", "events"]);
    let pairs = search(&["limits", "--in", "members"]);
    let members: Vec<&Value> = pairs.iter().map(|hit| &hit["member"]).collect();
    assert_eq!(members, ["hand", "boss", "arm"]);
    let events = search(&["callers", "count"]);
    assert!(places(&events).iter().all(|place| place == "events"), "{events:#?}");
    let of_task = events.iter().find(|hit| hit["kind"] == "team.message_stored").unwrap();
    assert!(of_task["what"].as_str().unwrap().contains("to arm"), "{events:#?}");
    let sessions = search(&[TALKER, "--in", "sessions"]);
    assert_eq!((&sessions[0]["id"], &sessions[0]["member"]), (&json!(session), &json!("arm")));
    for hit in pairs.iter().chain(&sessions).chain(&events) {
        for next in hit["next"].as_array().unwrap() {
            let next = next.as_str().unwrap();
            if next.contains("TEXT") || next.contains("team next") {
                continue;
            }
            let words: Vec<&str> = next.split(' ').skip(1).collect();
            env.provost(&words).ok();
        }
    }
    // The command works verbatim in an environment without the home.
    env.send("hand", "Begin with the tests.");
    let receive = pairs[0]["communication"]["receive_command"].as_str().unwrap();
    let mut shell = Command::new("/usr/bin/env");
    shell.args(["-i", "/bin/sh", "-c", receive]);
    assert_eq!(output_of(shell).ok().json()["item"]["text"], "Begin with the tests.");
    env.provost(&["search", "--", "--"]).assert_code(2);
    env.provost(&["search", "…", "--json"]).assert_code(2);
}

#[test]
fn telemetry_counts_messages_waits_refusals_checks() {
    let env = TeamEnv::new();
    env.send("hand", "one");
    env.send("hand", "two");
    let item = env.take_next("hand", &[]);
    env.ack("hand", &item).ok();
    env.provost(&["team", "done", "limits", "--as", "hand", "--because", "it is done, I think"])
        .assert_code(4);
    let figures = env.provost(&["telemetry", "--json"]).ok().json();
    let metrics = &figures["metrics"];
    assert_eq!(metrics["messages"], json!({"acknowledged": 1, "stored": 1}));
    assert_eq!(metrics["refusals"], json!({"not_for_role": 1}));
    assert_eq!(metrics["stored_to_accepted_ms"]["count"], 1);
    assert!(metrics["accepted_to_acknowledged_ms"]["p95"].is_u64());
    assert_eq!(
        (&figures["teams"][0]["name"], &figures["teams"][0]["messages"]),
        (&json!("limits"), &json!(2))
    );
    assert_eq!(figures["failures"].as_array().unwrap().len(), 1);
    let none = env.provost(&["telemetry", "--window", "0s", "--json"]).ok().json();
    assert_eq!(none["metrics"]["messages"], json!({}));
    let text = env.stdout_of(&["telemetry", "--view", "metrics"]);
    assert!(text.contains("refusals  1 not_for_role"), "{}", text);
}

#[test]
fn history_answers_match_their_schemas() {
    let env = TeamEnv::new();
    bind_session_worker(&env);
    env.act_as_operator(&["team", "criterion", "add", "the wording was read", "--accept"]).ok();
    env.provost(&["team", "done", "limits", "--as", "hand", "--because", "it is done, I think"])
        .assert_code(4);
    let looks: [(&str, &[&str]); 6] = [
        ("as-of", &["status", "limits", "--at", "3"]),
        ("diff", &["status", "limits", "--diff", "1..9"]),
        ("replay", &["replay", "limits", "--as", "timeline"]),
        ("audit", &["audit", "limits"]),
        ("search", &["search", "limits"]),
        ("telemetry", &["telemetry"]),
    ];
    for (schema, words) in looks {
        let answer = env.provost(&[words, &["--json"]].concat()).ok().json();
        assert_conforms(schema, &without_next(answer));
    }
}

#[test]
fn teams_messages_and_handoffs_match_schemas() {
    let env = TeamEnv::new();
    bind_session_worker(&env);
    env.act_as_operator(&["team", "loop", "start", "--require", "notes=asserted"]).ok();
    env.act_as_operator(&["team", "criterion", "add", "the wording was read", "--accept"]).ok();
    env.act_as("boss", &["team", "contract", "move", "wait", "--because", "its tests still run"])
        .ok();
    env.send("hand", "Begin with the tests.");
    assert_conforms("inbox-item", &env.take_next("hand", &[]));
    assert_conforms("team", &env.show_task());
    env.list_messages().iter().for_each(|message| assert_conforms("team-message", message));
    let handed = env.provost(&["team", "handoff", "limits", "--json"]).ok().json();
    list_rows(&handed, "handoffs").iter().for_each(|one| assert_conforms("handoff", one));
    assert_conforms("heartbeat", &handed["heartbeat"]);
}

#[test]
fn d16_history_commands_have_json_help_and_examples() {
    let env = TeamEnv::new();
    for name in ["replay", "audit", "search", "telemetry", "export", "import", "status"] {
        let help = env.stdout_of(&[name, "--help"]);
        assert!(help.contains("Examples:\n"), "{name}");
        let missing = env.provost(&[name, "--json", "--no-such-flag"]).assert_code(2).json();
        assert_eq!(missing["ok"], false, "{name}");
    }
    for words in [
        &["replay", "nobody"][..],
        &["audit", "nobody"],
        &["telemetry", "-t", "nobody"],
        &["export", "nobody", "--to", "nowhere"],
        &["import", "nowhere"],
        &["status", "nobody", "--at", "1"],
    ] {
        let missing = env.provost(&[words, &["--json"]].concat()).assert_code(3).json();
        assert_eq!(missing["error"]["code"], "not_found", "{words:?}: {missing}");
    }
}

#[test]
fn telemetry_closes_messages_with_team_and_member() {
    let env = TeamEnv::new();
    env.send("hand", "one");
    env.send("boss", "two");
    let retire = ["team", "retire", "limits", "boss", "--because", "its part is done"];
    env.provost(&retire).assert_code(4);
    env.provost(&[&retire[..], &["--dead-letter"]].concat()).ok();
    env.provost(&["team", "cancel", "limits", "--because", "nobody needs it"]).ok();
    let figures = env.provost(&["telemetry", "--json"]).ok().json();
    // The operator was notified that boss did not handle its message.
    assert_eq!(figures["metrics"]["messages"], json!({"cancelled": 2, "dead": 1}));
}

#[test]
fn failures_name_team_and_omitted_count() {
    let env = TeamEnv::new();
    env.act_as_operator(&["team", "loop", "start", "--require", "notes=asserted"]).ok();
    for _ in 0..52 {
        env.act_as_operator(&["team", "send", "hand", "go on", "--next"]).assert_code(4);
    }
    let figures = env.provost(&["telemetry", "--json"]).ok().json();
    assert_eq!(list_rows(&figures, "failures").len(), 50);
    assert_eq!(
        (&figures["older_failures"], &figures["failures"][0]["name"]),
        (&json!(2), &json!("limits"))
    );
    let shown = env.stdout_of(&["telemetry", "--view", "failures"]);
    assert!(shown.starts_with("2 older failures are not shown\n"), "{}", shown);
    assert!(shown.contains("limits · operator"), "{}", shown);
}

#[test]
fn suggested_diff_is_not_empty() {
    let env = TeamEnv::new();
    let next = |at: &str| {
        let then = env.provost(&["status", "limits", "--at", at, "--json"]).ok().json();
        then["next"][0].as_str().unwrap().to_owned()
    };
    assert!(next("3").ends_with(" --diff 2..3"), "{}", next("3"));
    assert!(!next("1").contains("--diff"), "{}", next("1"));
}

#[test]
fn finished_team_reaches_no_member() {
    let env = TeamEnv::new();
    let pairs = |env: &TeamEnv| {
        let found = env.provost(&["search", "limits", "--in", "members", "--json"]).ok().json();
        list_rows(&found, "hits")
    };
    let shown = env.stdout_of(&["search", "limits", "--in", "members"]);
    assert!(shown.contains("polled") && !shown.contains("PROVOST_HOME"), "{}", shown);
    assert!(pairs(&env).iter().all(|hit| hit["communication"].is_object()));
    env.provost(&["team", "cancel", "limits", "--because", "nobody needs it"]).ok();
    assert!(pairs(&env).iter().all(|hit| hit["communication"].is_null()));
}
