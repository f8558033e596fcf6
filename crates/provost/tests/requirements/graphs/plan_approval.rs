//! Plans that need approval.

use std::fs;

use provost_testkit::harness::{eventually, read_nonempty};
use serde_json::json;

use super::plan_env::PlanEnv;

fn two_step_plan() -> PlanEnv {
    let env =
        PlanEnv::new(&[("one", &[], "echo 1 > one.txt"), ("two", &["one"], "echo 2 > two.txt")]);
    let hooks = ["planned", "failed", "completed"];
    let hook = |name: &&str| {
        format!("\"run.{name}\" = \"cat > {}\"\n", env.stage.file(&format!("hook-{name}")))
    };
    let scenario = fs::read_to_string(env.stage.file("talker.toml")).unwrap();
    let hooks: String = hooks.iter().map(hook).collect();
    env.stage.configure_talker(&scenario, &format!("session.rework = 0\n[hooks]\n{hooks}"));
    env
}

#[test]
fn plan_awaits_approval_across_daemon_death() {
    let env = two_step_plan();
    let id = env.open_run(&["--approve-plan", "--name", "mine"]);
    env.stage.wait_state(&id, |row| row["awaits_approval"] == true);
    env.stage.daemon().kill();
    let row = env.stage.status(&id);
    assert_eq!(
        (&row["awaits_approval"], &row["stage"]),
        (&json!(true), &json!("plan_review")),
        "{row:#}"
    );
    assert_eq!(row["sessions"], json!([]));
    let shown = env.stage.provost(&["status", "mine"]);
    let printed = format!("{}{}", shown.ok().stdout, shown.stderr);
    for command in ["provost approve ", "provost deny ", "provost graph "] {
        assert!(printed.contains(command), "{command} in {printed}");
    }
    let planned = eventually("the hook", || read_nonempty(env.stage.file("hook-planned")));
    assert!(planned.contains(&id), "{planned}");
    env.stage.provost(&["approve", "mine"]).ok();
    let row = env.wait_sealed(&id);
    assert_eq!(
        (&row["state"], &row["tasks"]["merged"]),
        (&json!("completed"), &json!(2)),
        "{row:#}"
    );
    let again = env.stage.provost(&["approve", "mine"]);
    assert_ne!(again.code(), Some(0), "there is nothing to approve any more");
}

#[test]
fn e04_rejected_plan_fails_with_hook_and_exit_code() {
    let env = two_step_plan();
    let plan = env.stage.file("plan.toml");
    let talker = ["--agent", provost_testkit::env::TALKER, "--review-task", "off", "go"];
    let run = ["run", "--name", "mine", "--plan", &plan, "--approve-plan"];
    let asked = env.stage.provost_in(env.repo.path(), &[&run[..], &talker].concat());
    assert!(asked.assert_code(7).stderr.contains("provost approve"), "{asked:#?}");
    env.stage.wait_state("mine", |row| row["awaits_approval"] == true);
    env.stage.provost(&["deny", "mine", "--because", "too many tasks"]).ok();
    let row = env.stage.wait_sealed("mine");
    env.stage.provost(&["monitor", "mine"]).assert_code(1);
    let status = env.stage.provost(&["status", "mine"]).ok().stdout.clone();
    assert!(status.contains("failed (plan)"), "{status}");
    assert!(status.contains("the plan was rejected: too many tasks"), "{status}");
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("plan")), "{row:#}");
    let hooked = eventually("the hook", || read_nonempty(env.stage.file("hook-failed")));
    assert!(hooked.contains("too many tasks"), "{hooked}");
    assert!(!env.stage.home.root().join("hook-completed").exists());
    assert!(env.log().is_empty(), "no agent worked on it");
}
