//! A team's disk use is bounded: polling writes nothing, and finished teams are archived.

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use super::{
    history::{CLAIMS_EACH_DONE, bind_session_worker},
    team_env::TeamEnv,
};
use provost_testkit::env::TALKER;

fn newest_seq(env: &TeamEnv) -> Value {
    env.provost(&["events", "--json", "--limit", "1"]).ok().json()["last"].clone()
}

#[test]
fn d15_empty_polls_write_nothing() {
    let env = TeamEnv::new();
    let before = newest_seq(&env);
    for _ in 0..20 {
        assert_eq!(env.take_next("hand", &[]), Value::Null);
        assert_eq!(env.take_next("boss", &[]), Value::Null);
        env.act_as("hand", &["team", "loop", "status"]);
    }
    assert_eq!(newest_seq(&env), before);
    // A repeated refusal of the same request writes nothing either.
    let beg = || {
        let finish = ["team", "done", "limits", "--as", "hand", "--because", "it is done, I think"];
        env.provost(&finish).assert_code(4);
    };
    beg();
    let once = newest_seq(&env);
    (0..10).for_each(|_| beg());
    assert_eq!(newest_seq(&env), once);
}

#[test]
fn d15_finished_team_is_archived_like_a_session() {
    let env = TeamEnv::new();
    let session = bind_session_worker(&env);
    env.wait_state(&session, |row| row["process"] != "alive");
    let archive = ["ledger", "archive", "--older-than", "0s", "--apply", "--json"];
    // The next message would resume the session, so the session is kept as long as its team can
    // send one.
    let kept = eventually("the session could be put away", || {
        let archived = env.provost(&archive).ok().json();
        assert_eq!(archived["streams"], 0, "{archived}");
        (archived["kept"] == 1).then_some(archived)
    });
    assert_eq!(kept["records"], 0, "{kept}");
    let output = env.stdout_of(&["ledger", "archive", "--older-than", "0s"]);
    assert!(output.contains("kept 1 sessions that work for an open team"), "{}", output);
    let before = env.provost(&["replay", "limits", "--as", "timeline", "--json"]).ok().json();
    env.provost(&["team", "cancel", "limits", "--because", "nobody needs it any more"]).ok();
    eventually("the task and its session are put away", || {
        env.provost(&archive).ok();
        let output = env.provost(&["replay", "limits", "--json"]).ok().json();
        (output["team"]["archived"] == true && output["sessions"][0]["archived"] == true)
            .then_some(())
    });
    let after = env.provost(&["replay", "limits", "--as", "timeline", "--json"]).ok().json();
    let length = |replay: &Value| replay["rows"].as_array().unwrap().len();
    assert_eq!(length(&after), length(&before) + 1);
    let audit = env.stdout_of(&["audit", "limits"]);
    assert!(audit.contains("cancelled, archived"), "{}", audit);
    assert_eq!(env.status("limits")["state"], "cancelled");
    let then = env.provost(&["status", "limits", "--at", "1", "--json"]).ok().json();
    assert_eq!((&then["archived"], &then["row"]["state"]), (&json!(true), &json!("open")));
    let found = env.provost(&["search", "limits", "--in", "teams", "--json"]).ok().json();
    assert_eq!(found["hits"][0]["archived"], true);
    let events = env.provost(&["search", "callers", "--in", "events", "--json"]).ok().json();
    assert_eq!(events["hits"], json!([]), "the words of what was put away are gone");
    env.provost(&["ledger", "verify"]).ok();
}

#[test]
fn d15_check_output_of_old_teams_is_removed() {
    let env = TeamEnv::in_repo(&["--check", "echo checked"]);
    env.provost(&["team", "done", "limits", "--because", "all of it holds now"]).ok();
    env.wait_state("limits", |row| row["state"] == "done");
    let id = env.status("limits")["id"].clone();
    let listed = env.provost(&["gc", "--older-than", "0s", "--json"]).ok().json();
    let of_task = |reply: &Value| {
        let removed = reply["removed"].as_array().unwrap().iter();
        removed.filter(|one| one["team"] == id).cloned().collect::<Vec<_>>()
    };
    assert_eq!(of_task(&listed).len(), 1, "{listed}");
    let removed = env.provost(&["gc", "--older-than", "0s", "--apply", "--json"]).ok().json();
    let path = of_task(&removed)[0]["path"].as_str().unwrap().to_owned();
    assert!(!std::path::Path::new(&path).exists());
    assert_eq!(
        of_task(&env.provost(&["gc", "--older-than", "0s", "--json"]).ok().json()),
        [] as [Value; 0]
    );
}

#[test]
fn d15_worker_leftovers_stay_until_team_finishes() {
    let env = TeamEnv::new();
    env.configure_talker(CLAIMS_EACH_DONE, "[session]\nstop_grace = \"100ms\"\n");
    let repo = env.repo("shop");
    let hand = format!("hand={TALKER}");
    let pair =
        ["team", "start", "a shop that sells", "--name", "shop", "--worker", &hand, "--json"];
    let task = env.provost_in(repo.path(), &pair).ok().json();
    let session = task["team"]["members"][0]["session"].as_str().unwrap().to_owned();
    env.wait_state(&session, |row| row["sealed"] == true && row["process"] == "alive");
    env.provost(&["stop", &session]).ok();
    let row = env.wait_state(&session, |row| row["process"] != "alive");
    let place = row["worktree"]["path"].as_str().unwrap();
    let gc = ["gc", "--older-than", "0s", "--apply", "--json"];
    let kept = env.provost(&gc).ok().json();
    assert_eq!(kept["removed"], json!([]), "{kept}");
    assert_eq!(kept["kept"][0]["path"], place, "{kept}");
    assert_eq!(kept["kept"][0]["reason"], "the session belongs to team shop", "{kept}");
    assert!(std::path::Path::new(place).exists());
    env.provost(&["team", "cancel", "shop", "--because", "nobody needs it"]).ok();
    env.provost(&gc).ok();
    assert!(!std::path::Path::new(place).exists());
}
