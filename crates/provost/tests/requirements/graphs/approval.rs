//! Plans that need approval.

use std::fs;

use provost_testkit::harness::{eventually, filled};
use serde_json::json;

use super::kit::Site;

fn site() -> Site {
    let site =
        Site::new(&[("one", &[], "echo 1 > one.txt"), ("two", &["one"], "echo 2 > two.txt")]);
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
fn a_plan_waits_to_be_approved_over_a_death_of_the_daemon_and_nothing_is_begun_before() {
    let site = site();
    let id = site.opened(&["--approve-plan", "--name", "mine"]);
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
    let said = format!("{}{}", shown.ok().stdout, shown.stderr);
    for command in ["provost approve ", "provost deny ", "provost graph "] {
        assert!(said.contains(command), "{command} in {said}");
    }
    let planned = eventually("the hook", || filled(site.stage.file("hook-planned")));
    assert!(planned.contains(&id), "{planned}");
    site.stage.provost(&["approve", "mine"]).ok();
    let row = site.ended(&id);
    assert_eq!(
        (&row["state"], &row["tasks"]["merged"]),
        (&json!("completed"), &json!(2)),
        "{row:#}"
    );
    let again = site.stage.provost(&["approve", "mine"]);
    assert_ne!(again.code(), Some(0), "there is nothing to approve any more");
}

#[test]
fn e04_a_rejected_plan_is_a_failure_with_hook_reason_and_exit_code() {
    let site = site();
    let plan = site.stage.file("plan.toml");
    let talker = ["--agent", crate::kit::TALKER, "--review-task", "off", "go"];
    let run = ["run", "--name", "mine", "--plan", &plan, "--approve-plan"];
    let asked = site.stage.provost_in(site.repo.path(), &[&run[..], &talker].concat());
    assert!(asked.exits(7).stderr.contains("provost approve"), "{asked:#?}");
    site.stage.wait_state("mine", |row| row["awaits_approval"] == true);
    site.stage.provost(&["deny", "mine", "--because", "too many tasks"]).ok();
    let row = site.stage.sealed("mine");
    site.stage.provost(&["monitor", "mine"]).exits(1);
    let status = site.stage.provost(&["status", "mine"]).ok().stdout.clone();
    assert!(status.contains("failed (plan)"), "{status}");
    assert!(status.contains("the plan was rejected: too many tasks"), "{status}");
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("plan")), "{row:#}");
    let hooked = eventually("the hook", || filled(site.stage.file("hook-failed")));
    assert!(hooked.contains("too many tasks"), "{hooked}");
    assert!(!site.stage.home.root().join("hook-completed").exists());
    assert!(site.log().is_empty(), "no agent worked on it");
}
