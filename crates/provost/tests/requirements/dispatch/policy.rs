//! A manager made of rules in `provost.toml` instead of a model, through the user commands.

use provost_testkit::harness::eventually;
use serde_json::Value;

use super::team_env::TeamEnv;

const RULES: &str = "[policies.gate]\nrework = 2\nrework_text = \"The gate is shut.\"\n";

fn show_shop(env: &TeamEnv) -> Value {
    env.provost(&["team", "show", "shop", "--json"]).ok().json()["team"].clone()
}

/// Takes the clerk's next message and acknowledges it.
fn handle_next(env: &TeamEnv) -> Value {
    let clerk = ["-t", "shop", "--as", "clerk", "--json"];
    let next = ["team", "next", "--wait", "--timeout", "60"];
    let item = env.provost(&[&next[..], &clerk].concat()).ok().json()["item"].clone();
    let (no, lease) = (item["no"].to_string(), item["lease"].to_string());
    env.provost(&[&["team", "inbox", "ack", &no, "--lease", &lease][..], &clerk].concat()).ok();
    item
}

#[test]
fn policy_checks_reworks_and_finishes_unattended() {
    let env = TeamEnv::new();
    env.configure(RULES);
    let repo = env.repo("shop");
    let new = ["team", "new", "shop", "--goal", "a shop that sells", "--policy", "gate"];
    env.provost_in(repo.path(), &new).ok();
    env.bind("shop", "clerk", "worker");
    assert!(env.stdout_of(&["team", "show", "shop"]).contains("manager   policy gate"));
    let sells =
        ["team", "criterion", "add", "it sells something", "--check", "test -e SOLD", "--accept"];
    env.provost(&[&sells[..], &["-t", "shop"]].concat()).ok();
    env.provost(&["team", "send", "clerk", "Sell something.", "-t", "shop"]).ok();
    handle_next(&env);
    let back = handle_next(&env);
    assert_eq!((&back["from"], &back["trust"]), (&"policy".into(), &"trusted".into()), "{back}");
    let text = back["text"].as_str().unwrap();
    assert!(text.starts_with("The gate is shut.\n\n`test -e SOLD`: exit 1"), "{text}");
    // The member acknowledged the message without doing any work, so the message is sent once more.
    // After that, the work exists.
    handle_next(&env);
    repo.write("SOLD", "yes\n");
    repo.commit("sold");
    env.provost(&["team", "send", "clerk", "Look again.", "-t", "shop"]).ok();
    handle_next(&env);
    eventually("the policy finishes the task", || {
        (show_shop(&env)["state"] == "done").then_some(())
    });
    let because = show_shop(&env)["because"].as_str().unwrap().to_owned();
    assert!(because.contains("the policy gate"), "{because}");
}

#[test]
fn unknown_policy_opens_nothing() {
    let env = TeamEnv::new();
    env.configure(RULES);
    let new = ["team", "new", "shop", "--goal", "a shop that sells", "--policy", "gat"];
    let refused = env.provost(&new);
    assert!(refused.assert_code(2).stderr.contains("did you mean \"gate\"?"), "{refused:?}");
    env.provost(&["team", "show", "shop"]).assert_code(3);
}

#[test]
fn recipe_applies_only_after_confirmation() {
    let env = TeamEnv::new();
    let set = ["team", "contract", "set", "--recipe", "strict", "--expect", "0"];
    let reply = env.act_as_operator(&set).ok().json();
    assert_eq!(reply["changed"], false);
    assert!(reply["summary"].as_array().unwrap().len() > 5, "{reply}");
    assert_eq!(env.show_task()["mode"], "guided");
    env.act_as_operator(&[&set[..], &["--yes"]].concat()).ok();
    assert_eq!(
        (&env.show_task()["mode"], &env.show_task()["revision"]),
        (&"strict".into(), &1.into())
    );
    env.act_as_operator(&["team", "contract", "set", "--recipe", "careful", "--expect", "1"])
        .assert_code(2);
}
