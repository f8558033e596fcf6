//! Plans that need approval.

use std::fs;

use provost_testkit::harness::{eventually, read_nonempty};
use serde_json::json;

use super::kit::PlanEnv;

fn two_step_plan() -> PlanEnv {
    let site =
        PlanEnv::new(&[("one", &[], "echo 1 > one.txt"), ("two", &["one"], "echo 2 > two.txt")]);
    let hooks = ["planned", "failed", "completed"];
    let hook = |name: &&str| {
        format!("\"run.{name}\" = \"cat > {}\"\n", site.stage.file(&format!("hook-{name}")))
    };
    let scenario = fs::read_to_string(site.stage.file("talker.toml")).unwrap();
    let hooks: String = hooks.iter().map(hook).collect();
    site.stage.configure_talker(&scenario, &format!("session.rework = 0\n[hooks]\n{hooks}"));
    site
}

#[test]
fn plan_awaits_approval_across_daemon_death() {
    let site = two_step_plan();
    let id = site.open_run(&["--approve-plan", "--name", "mine"]);
    site.stage.wait_state(&id, |row| row["awaits_approval"] == true);
    site.stage.daemon().kill();
    let row = site.stage.status(&id);
    assert_eq!(
        (&row["awaits_approval"], &row["stage"]),
        (&json!(true), &json!("plan_review")),
        "{row:#}"
    );
    assert_eq!(row["sessions"], json!([]));
    let shown = site.stage.provost(&["status", "mine"]);
    let printed = format!("{}{}", shown.ok().stdout, shown.stderr);
    for command in ["provost approve ", "provost deny ", "provost graph "] {
        assert!(printed.contains(command), "{command} in {printed}");
    }
    let planned = eventually("the hook", || read_nonempty(site.stage.file("hook-planned")));
    assert!(planned.contains(&id), "{planned}");
    site.stage.provost(&["approve", "mine"]).ok();
    let row = site.wait_sealed(&id);
    assert_eq!(
        (&row["state"], &row["tasks"]["merged"]),
        (&json!("completed"), &json!(2)),
        "{row:#}"
    );
    let again = site.stage.provost(&["approve", "mine"]);
    assert_ne!(again.code(), Some(0), "there is nothing to approve any more");
}

#[test]
fn e04_rejected_plan_fails_with_hook_and_exit_code() {
    let site = two_step_plan();
    let plan = site.stage.file("plan.toml");
    let talker = ["--agent", crate::kit::TALKER, "--review-task", "off", "go"];
    let run = ["run", "--name", "mine", "--plan", &plan, "--approve-plan"];
    let asked = site.stage.provost_in(site.repo.path(), &[&run[..], &talker].concat());
    assert!(asked.assert_code(7).stderr.contains("provost approve"), "{asked:#?}");
    site.stage.wait_state("mine", |row| row["awaits_approval"] == true);
    site.stage.provost(&["deny", "mine", "--because", "too many tasks"]).ok();
    let row = site.stage.wait_sealed("mine");
    site.stage.provost(&["monitor", "mine"]).assert_code(1);
    let status = site.stage.provost(&["status", "mine"]).ok().stdout.clone();
    assert!(status.contains("failed (plan)"), "{status}");
    assert!(status.contains("the plan was rejected: too many tasks"), "{status}");
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("plan")), "{row:#}");
    let hooked = eventually("the hook", || read_nonempty(site.stage.file("hook-failed")));
    assert!(hooked.contains("too many tasks"), "{hooked}");
    assert!(!site.stage.home.root().join("hook-completed").exists());
    assert!(site.log().is_empty(), "no agent worked on it");
}
