//! A manager made of rules in `provost.toml` instead of a model, through the user commands.

use provost_testkit::harness::eventually;
use serde_json::Value;

use super::kit::TeamEnv;

const RULES: &str = "[policies.gate]\nrework = 2\nrework_text = \"The gate is shut.\"\n";

fn show_shop(desk: &TeamEnv) -> Value {
    desk.provost(&["team", "show", "shop", "--json"]).ok().json()["team"].clone()
}

/// Takes the clerk's next message and acknowledges it.
fn handle_next(desk: &TeamEnv) -> Value {
    let clerk = ["-t", "shop", "--as", "clerk", "--json"];
    let next = ["team", "next", "--wait", "--timeout", "60"];
    let item = desk.provost(&[&next[..], &clerk].concat()).ok().json()["item"].clone();
    let (no, lease) = (item["no"].to_string(), item["lease"].to_string());
    desk.provost(&[&["team", "inbox", "ack", &no, "--lease", &lease][..], &clerk].concat()).ok();
    item
}

#[test]
fn policy_checks_reworks_and_finishes_unattended() {
    let desk = TeamEnv::new();
    desk.configure(RULES);
    let repo = desk.repo("shop");
    let new = ["team", "new", "shop", "--goal", "a shop that sells", "--policy", "gate"];
    desk.provost_in(repo.path(), &new).ok();
    desk.bind("shop", "clerk", "worker");
    assert!(desk.stdout_of(&["team", "show", "shop"]).contains("manager   policy gate"));
    let sells =
        ["team", "criterion", "add", "it sells something", "--check", "test -e SOLD", "--accept"];
    desk.provost(&[&sells[..], &["-t", "shop"]].concat()).ok();
    desk.provost(&["team", "send", "clerk", "Sell something.", "-t", "shop"]).ok();
    handle_next(&desk);
    let back = handle_next(&desk);
    assert_eq!((&back["from"], &back["trust"]), (&"policy".into(), &"trusted".into()), "{back}");
    let text = back["text"].as_str().unwrap();
    assert!(text.starts_with("The gate is shut.\n\n`test -e SOLD`: exit 1"), "{text}");
    // The member acknowledged the message without doing any work, so the message is sent once more.
    // After that, the work exists.
    handle_next(&desk);
    repo.write("SOLD", "yes\n");
    repo.commit("sold");
    desk.provost(&["team", "send", "clerk", "Look again.", "-t", "shop"]).ok();
    handle_next(&desk);
    eventually("the policy finishes the task", || {
        (show_shop(&desk)["state"] == "done").then_some(())
    });
    let because = show_shop(&desk)["because"].as_str().unwrap().to_owned();
    assert!(because.contains("the policy gate"), "{because}");
}

#[test]
fn unknown_policy_opens_nothing() {
    let desk = TeamEnv::new();
    desk.configure(RULES);
    let new = ["team", "new", "shop", "--goal", "a shop that sells", "--policy", "gat"];
    let refused = desk.provost(&new);
    assert!(refused.assert_code(2).stderr.contains("did you mean \"gate\"?"), "{refused:?}");
    desk.provost(&["team", "show", "shop"]).assert_code(3);
}

#[test]
fn recipe_applies_only_after_confirmation() {
    let desk = TeamEnv::new();
    let set = ["team", "contract", "set", "--recipe", "strict", "--expect", "0"];
    let reply = desk.act_as_operator(&set).ok().json();
    assert_eq!(reply["changed"], false);
    assert!(reply["summary"].as_array().unwrap().len() > 5, "{reply}");
    assert_eq!(desk.show_task()["mode"], "guided");
    desk.act_as_operator(&[&set[..], &["--yes"]].concat()).ok();
    assert_eq!(
        (&desk.show_task()["mode"], &desk.show_task()["revision"]),
        (&"strict".into(), &1.into())
    );
    desk.act_as_operator(&["team", "contract", "set", "--recipe", "careful", "--expect", "1"])
        .assert_code(2);
}
