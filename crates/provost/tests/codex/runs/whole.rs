//! A whole run: asked, understood, decided, done, proved, reviewed and landed.

use super::kit::{ASKS, FINDING, review, triage, work};
use crate::kit::Stage;

const WRITE: &str = "echo hello > greeting.txt";
const CHECK: &str = "grep -q hello greeting.txt";

#[test]
fn r04_r21_a_goal_becomes_a_proved_branch_and_a_decision_is_told_to_every_later_stage() {
    let scenario = [triage(ASKS), work(WRITE), review(FINDING)].concat();
    let Some(stage) = Stage::new(&scenario) else { return };
    let id = stage.run_detached(&["Write a greeting.", "--name", "greet", "--check", CHECK]);
    let row = stage.wait_run(&id, |row| row["requests"][0].is_object());
    assert_eq!((&row["stage"], &row["state"]), (&"triage".into(), &"running".into()), "{row:#}");
    let shown = stage.provost(&["status", "greet"]).ok().stdout.clone();
    for part in ["needs input", "Which colour?", "provost answer "] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    stage.provost(&["answer", &id, "Blue"]).ok();
    let row = stage.run_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(row["decisions"][0]["answer"][0], "Blue", "{row:#}");
    assert_eq!(row["findings"][0]["title"], "No newline", "{row:#}");
    assert_eq!((&row["proved"], &row["landing"]["done"]), (&true.into(), &true.into()), "{row:#}");
    let branch = row["landing"]["branch"].as_str().unwrap();
    assert_eq!(stage.repo.git(&["show", &format!("{branch}:greeting.txt")]).trim(), "hello");
    for prompt in ["Do the task below", "Review the work"] {
        let heard = stage.model.wait_for_request(prompt, |made| {
            made.request.prompts().iter().any(|said| said.contains(prompt))
        });
        let told = heard.request.prompts().join("\n");
        assert!(told.contains("Which colour?") && told.contains("Decided: Blue"), "{told}");
    }
    stage.model.assert_all_as_scripted();
}
