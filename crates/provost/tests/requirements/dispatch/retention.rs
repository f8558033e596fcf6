//! A team's disk use is bounded: polling writes nothing, and finished teams are archived.

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use super::{
    history::{CLAIMS_EACH_DONE, bind_session_worker},
    kit::TeamEnv,
};
use crate::kit::TALKER;

fn newest_seq(desk: &TeamEnv) -> Value {
    desk.provost(&["events", "--json", "--limit", "1"]).ok().json()["last"].clone()
}

#[test]
fn d15_empty_polls_write_nothing() {
    let desk = TeamEnv::new();
    let before = newest_seq(&desk);
    for _ in 0..20 {
        assert_eq!(desk.take_next("hand", &[]), Value::Null);
        assert_eq!(desk.take_next("boss", &[]), Value::Null);
        desk.act_as("hand", &["team", "loop", "status"]);
    }
    assert_eq!(newest_seq(&desk), before);
    // A repeated refusal of the same request writes nothing either.
    let beg = || {
        let finish = ["team", "done", "limits", "--as", "hand", "--because", "it is done, I think"];
        desk.provost(&finish).assert_code(4);
    };
    beg();
    let once = newest_seq(&desk);
    (0..10).for_each(|_| beg());
    assert_eq!(newest_seq(&desk), once);
}

#[test]
fn d15_finished_team_is_archived_like_a_session() {
    let desk = TeamEnv::new();
    let session = bind_session_worker(&desk);
    desk.wait_state(&session, |row| row["process"] != "alive");
    let archive = ["ledger", "archive", "--older-than", "0s", "--apply", "--json"];
    // The next message would resume the session, so the session is kept as long as its team can
    // send one.
    let kept = eventually("the session could be put away", || {
        let archived = desk.provost(&archive).ok().json();
        assert_eq!(archived["streams"], 0, "{archived}");
        (archived["kept"] == 1).then_some(archived)
    });
    assert_eq!(kept["records"], 0, "{kept}");
    let output = desk.stdout_of(&["ledger", "archive", "--older-than", "0s"]);
    assert!(output.contains("kept 1 sessions that work for an open team"), "{}", output);
    let before = desk.provost(&["replay", "limits", "--as", "timeline", "--json"]).ok().json();
    desk.provost(&["team", "cancel", "limits", "--because", "nobody needs it any more"]).ok();
    eventually("the task and its session are put away", || {
        desk.provost(&archive).ok();
        let output = desk.provost(&["replay", "limits", "--json"]).ok().json();
        (output["team"]["archived"] == true && output["sessions"][0]["archived"] == true)
            .then_some(())
    });
    let after = desk.provost(&["replay", "limits", "--as", "timeline", "--json"]).ok().json();
    let length = |replay: &Value| replay["rows"].as_array().unwrap().len();
    assert_eq!(length(&after), length(&before) + 1);
    let audit = desk.stdout_of(&["audit", "limits"]);
    assert!(audit.contains("cancelled, archived"), "{}", audit);
    assert_eq!(desk.status("limits")["state"], "cancelled");
    let then = desk.provost(&["status", "limits", "--at", "1", "--json"]).ok().json();
    assert_eq!((&then["archived"], &then["row"]["state"]), (&json!(true), &json!("open")));
    let found = desk.provost(&["search", "limits", "--in", "teams", "--json"]).ok().json();
    assert_eq!(found["hits"][0]["archived"], true);
    let events = desk.provost(&["search", "callers", "--in", "events", "--json"]).ok().json();
    assert_eq!(events["hits"], json!([]), "the words of what was put away are gone");
    desk.provost(&["ledger", "verify"]).ok();
}

#[test]
fn d15_check_output_of_old_teams_is_removed() {
    let desk = TeamEnv::in_repo(&["--check", "echo checked"]);
    desk.provost(&["team", "done", "limits", "--because", "all of it holds now"]).ok();
    desk.wait_state("limits", |row| row["state"] == "done");
    let id = desk.status("limits")["id"].clone();
    let listed = desk.provost(&["gc", "--older-than", "0s", "--json"]).ok().json();
    let of_task = |reply: &Value| {
        let removed = reply["removed"].as_array().unwrap().iter();
        removed.filter(|one| one["team"] == id).cloned().collect::<Vec<_>>()
    };
    assert_eq!(of_task(&listed).len(), 1, "{listed}");
    let removed = desk.provost(&["gc", "--older-than", "0s", "--apply", "--json"]).ok().json();
    let path = of_task(&removed)[0]["path"].as_str().unwrap().to_owned();
    assert!(!std::path::Path::new(&path).exists());
    assert_eq!(
        of_task(&desk.provost(&["gc", "--older-than", "0s", "--json"]).ok().json()),
        [] as [Value; 0]
    );
}

#[test]
fn d15_worker_leftovers_stay_until_team_finishes() {
    let desk = TeamEnv::new();
    desk.configure_talker(CLAIMS_EACH_DONE, "[session]\nstop_grace = \"100ms\"\n");
    let repo = desk.repo("shop");
    let hand = format!("hand={TALKER}");
    let pair =
        ["team", "start", "a shop that sells", "--name", "shop", "--worker", &hand, "--json"];
    let task = desk.provost_in(repo.path(), &pair).ok().json();
    let session = task["team"]["members"][0]["session"].as_str().unwrap().to_owned();
    desk.wait_state(&session, |row| row["sealed"] == true && row["process"] == "alive");
    desk.provost(&["stop", &session]).ok();
    let row = desk.wait_state(&session, |row| row["process"] != "alive");
    let place = row["worktree"]["path"].as_str().unwrap();
    let gc = ["gc", "--older-than", "0s", "--apply", "--json"];
    let kept = desk.provost(&gc).ok().json();
    assert_eq!(kept["removed"], json!([]), "{kept}");
    assert_eq!(kept["kept"][0]["path"], place, "{kept}");
    assert_eq!(kept["kept"][0]["reason"], "the session belongs to team shop", "{kept}");
    assert!(std::path::Path::new(place).exists());
    desk.provost(&["team", "cancel", "shop", "--because", "nobody needs it"]).ok();
    desk.provost(&gc).ok();
    assert!(!std::path::Path::new(place).exists());
}
