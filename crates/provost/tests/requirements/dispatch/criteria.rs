//! Criteria, receipts, and finishing a team.

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use super::team_env::TeamEnv;

fn blocker_codes(task: &Value) -> Vec<&str> {
    let blockers = task["blockers"].as_array().unwrap().iter();
    blockers.map(|blocker| blocker["code"].as_str().unwrap()).collect()
}

#[test]
fn worker_criterion_is_proposed_then_accepted() {
    let env = TeamEnv::new();
    let add = ["team", "criterion", "add", "the tests of both callers pass"];
    let proposed = env.act_as("hand", &add).ok().json()["criterion"].clone();
    assert_eq!((&proposed["state"], &proposed["source"]), (&json!("proposed"), &json!("worker")));
    env.act_as("hand", &["team", "criterion", "accept", "1"]).assert_code(4);
    let accepted =
        env.act_as("boss", &["team", "criterion", "accept", "1"]).ok().json()["criterion"].clone();
    assert_eq!(accepted["state"], "accepted");
}

#[test]
fn d12_empty_or_foreign_receipts_are_refused() {
    let env = TeamEnv::new();
    env.act_as_operator(&[
        "team",
        "criterion",
        "add",
        "the wording was read by a person",
        "--accept",
    ])
    .ok();
    for empty in ["x", "ok", "- - - - - - - - - - - -"] {
        env.act_as("boss", &["team", "criterion", "satisfy", "1", "--evidence", empty])
            .assert_code(2);
    }
    let evidence = "read aloud with the support team";
    let held = env
        .act_as("boss", &["team", "criterion", "satisfy", "1", "--evidence", evidence])
        .ok()
        .json();
    let held = &held["criterion"];
    assert_eq!((&held["state"], &held["receipt"]), (&json!("satisfied"), &json!("asserted")));
    assert_eq!(held["evidence"], format!("boss: {evidence}"));
}

#[test]
fn asserted_receipt_is_refused_when_verified_needed() {
    let env = TeamEnv::new();
    let add = [
        "team",
        "criterion",
        "add",
        "the file is there in the end",
        "--check",
        "test -e x",
        "--accept",
    ];
    env.act_as_operator(&add).ok();
    let word = ["team", "criterion", "satisfy", "1", "--evidence", "I have seen that it is there"];
    let refused = env.act_as("boss", &word);
    assert!(refused.assert_code(2).stdout.contains("test -e x"), "{refused:?}");
}

#[test]
fn finish_requires_passing_checks_on_the_tree() {
    let env = TeamEnv::new();
    let repo = env.repo("shop");
    let new = ["team", "new", "shop", "--goal", "a shop that sells", "--check", "test -e DONE"];
    env.provost_in(repo.path(), &new).ok();
    env.bind("shop", "clerk", "worker");
    let finish = ["team", "done", "shop", "--because", "all that was asked for is there"];
    env.provost(&finish).assert_code(4);
    let refused = env.provost(&["team", "show", "shop", "--json"]).ok().json()["team"].clone();
    assert_eq!(refused["being_audited"], false, "{refused:#}");
    assert_eq!(
        (blocker_codes(&refused), &refused["state"]),
        (vec!["check_failed"], &json!("active"))
    );
    repo.write("DONE", "yes\n");
    repo.commit("done");
    env.provost(&finish).ok();
    // Finishing a finished team reports that, and changes nothing.
    assert_eq!(
        env.provost(&["team", "done", "shop", "--because", "again", "--json"]).ok().json()["team"]
            ["state"],
        "done"
    );
}

#[test]
fn d17_manager_last_move_blocks_until_finish() {
    let env = TeamEnv::new();
    env.satisfy_criterion();
    env.act_as("boss", &["team", "contract", "move", "stop", "--because", "nothing is left to do"])
        .ok();
    let task = env.show_task();
    assert_eq!(
        (blocker_codes(&task), &task["state"]),
        (vec!["decided_not_finished"], &json!("active"))
    );
    let boss = ["team", "done", "limits", "--because", "nothing is left to do", "--as", "boss"];
    env.provost(&boss).ok();
    assert_eq!(
        (blocker_codes(&env.show_task()), &env.show_task()["state"]),
        (vec![], &json!("done"))
    );
}

#[test]
fn refused_accept_leaves_no_proposal() {
    let env = TeamEnv::new();
    let add = ["team", "criterion", "add", "the tests of both callers pass", "--accept"];
    let refused = env.act_as("hand", &add);
    assert!(
        refused.assert_code(4).stdout.contains("a worker cannot judge criteria"),
        "{refused:?}"
    );
    assert_eq!(env.show_task()["criteria"], json!([]));
    let accepted = env.act_as("boss", &add).ok().json()["criterion"].clone();
    assert_eq!(accepted["state"], "accepted");
}

#[test]
fn failed_check_shows_exit_and_author() {
    let env = TeamEnv::in_repo(&[]);
    let check = "while test ! -e GO; do sleep 0.1; done; exit 7";
    let go = env.file("GO");
    let check = check.replace("GO", &go);
    env.act_as_operator(&[
        "team",
        "criterion",
        "add",
        "it can be gone on",
        "--check",
        &check,
        "--accept",
    ])
    .ok();
    env.act_as_operator(&[
        "team",
        "loop",
        "start",
        "--require",
        &format!("tests=verified:{check}"),
    ])
    .ok();
    env.act_as_operator(&["team", "prove", "--criterion", "1"]).ok();
    env.act_as_operator(&["team", "prove", "--evidence", "tests"]).ok();
    assert_eq!(env.show_task()["criteria"][0]["being_checked"], true);
    assert_eq!(env.show_task()["loop"]["being_checked"], json!(["tests"]));
    assert!(env.stdout_of(&["team", "show", "limits"]).contains("· being checked"));
    let listed = ["team", "criterion", "ls", "-t", "limits"];
    assert!(env.stdout_of(&listed).contains("being checked by"));
    std::fs::write(&go, "").unwrap();
    let task = eventually("both checks ended", || {
        let task = env.show_task();
        let ended = task["criteria"][0]["failed"].is_object()
            && task["loop"]["failed"]["tests"].is_object();
        ended.then_some(task)
    });
    let failed = &task["criteria"][0]["failed"];
    assert_eq!(
        (&failed["command"], &failed["end"], &failed["worker"]),
        (&json!(check), &json!("exit 7"), &json!("hand"))
    );
    assert_eq!(task["criteria"][0]["being_checked"], false);
    let shown = env.stdout_of(&["team", "show", "limits"]);
    assert!(shown.contains("did not pass: exit 7 on the work of hand, tree"), "{}", shown);
    let shown = env.stdout_of(&["team", "loop", "status", "-t", "limits"]);
    assert!(shown.contains("did not pass: exit 7 on the work of hand, tree"), "{}", shown);
    assert!(env.stdout_of(&listed).contains("did not pass: exit 7"));
}

#[test]
fn audit_findings_and_finished_work_are_visible() {
    let env = TeamEnv::in_repo(&["--check", "test -e DONE"]);
    env.bind("limits", "boss", "manager");
    let finish = ["team", "done", "limits", "--because", "all that was asked for is there"];
    let refused = env.provost(&[&finish[..], &["--json"]].concat()).assert_code(4).json();
    let next = refused["error"]["next"][0].as_str().unwrap();
    assert!(next.starts_with("provost team contract accept --revision 0 -t "), "{refused}");
    assert!(next.ends_with(" --as boss"), "{refused}");
    env.provost(&next.split(' ').skip(1).collect::<Vec<_>>()).ok();
    env.provost(&finish).assert_code(4);
    assert_eq!(blocker_codes(&env.show_task()), ["check_failed"]);
    let cycle = env.provost(&["team", "overview", "limits", "--as", "boss", "--json"]).ok().json();
    assert_eq!(blocker_codes(&cycle["cycle"]), ["check_failed"], "{cycle:#}");
    let overview = env.stdout_of(&["team", "overview", "limits", "--as", "boss"]);
    assert!(overview.contains("have the work fixed: `test -e DONE` does not pass"), "{}", overview);
    let top = env.show_task()["cwd"].as_str().unwrap().to_owned();
    std::fs::write(std::path::Path::new(&top).join("DONE"), "yes\n").unwrap();
    env.provost(&finish).ok();
    let done = eventually("the task is done", || {
        let task = env.show_task();
        (task["state"] == "done").then_some(task)
    });
    assert_eq!(done["audited"]["worker"], "hand", "{done:#}");
    let tree = &done["audited"]["tree"].as_str().unwrap()[..12];
    let shown = env.stdout_of(&["team", "show", "limits"]);
    assert!(shown.contains(&format!("hand · tree {tree} was audited")), "{}", shown);
    assert!(shown.contains("check     test -e DONE"), "{}", shown);
    let again = env.stdout_of(&finish);
    assert!(again.contains(&format!("tree {tree} was audited")), "{}", again);
    let audit = env.stdout_of(&["audit", "limits"]);
    assert!(audit.contains(&format!("the work of hand, tree {tree}")), "{}", audit);
}

#[test]
fn criteria_are_drafted_from_worker_list() {
    let env = TeamEnv::new();
    let answer = "Done. Before it can go out:\n- An answer says how long to wait\n1. The tests of both callers pass\n- ok\n";
    let sent = env.act_as("hand", &["team", "send", "boss", answer]).ok().json();
    let no = sent["message"]["no"].to_string();
    let looked =
        env.act_as("boss", &["team", "criterion", "draft", "--from", &no, "--dry-run"]).ok().json();
    assert_eq!(looked["draft"]["proposed"].as_array().map(Vec::len), Some(2), "{looked:#}");
    assert_eq!(looked["draft"]["left_out"][0]["why"], "empty");
    assert_eq!(env.show_task()["criteria"], json!([]), "nothing is proposed");
    let drafted = env.act_as("boss", &["team", "criterion", "draft", "--from", &no]).ok().json();
    assert_eq!(drafted["draft"]["proposed"][1]["no"], 2, "{drafted:#}");
    let criteria = env.show_task()["criteria"].clone();
    assert_eq!(criteria[0]["text"], "An answer says how long to wait");
    assert_eq!(
        (&criteria[0]["state"], &criteria[0]["source"]),
        (&json!("proposed"), &json!("worker"))
    );
    assert_eq!(criteria[0]["rationale"], format!("drafted from message {no} of hand"));
    let words = ["team", "criterion", "draft", "--from", "-", "--of", "hand", "-t", "limits"];
    let shown = env.provost_with_input(&words, "criterion: no caller is told of another");
    assert!(shown.ok().stdout.contains("no caller is told of another"), "{shown:?}");
    assert_eq!(env.show_task()["criteria"][2]["source"], "worker");
    env.act_as("boss", &["team", "criterion", "draft", "--from", "999"]).assert_code(3);
    env.act_as("boss", &["team", "criterion", "draft", "--from", "x"]).assert_code(2);
}
