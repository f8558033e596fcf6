//! Manager recipes and the summaries that users confirm.

use std::collections::BTreeMap;

use insta::assert_snapshot;
use provost_core::task::{
    Action, Actor, Blocker, Command, Config, Epilogue, Rejected, Role,
    recipes::{RECIPES, recipe, summary},
};

use super::kit::{A_REASON, Desk, member, post, task_spec};

#[test]
fn each_recipe_says_all_that_it_holds_a_manager_to() {
    let told: Vec<String> = RECIPES
        .iter()
        .map(|name| format!("{name}\n{}", summary(&recipe(name).expect("it is one")).join("\n")))
        .collect();
    assert_snapshot!(told.join("\n\n"), @"
    light
    mode light: it acts as it sees fit, within its role

    guided
    mode guided: it acknowledges this configuration before it acts
    guideline: Verify a claim before it is recorded.
    guideline: Give each worker exactly one next task.
    before the finish: checks
    before the finish: handover

    strict
    mode strict: it acknowledges this configuration, and records a matching move before each action
    guideline: Verify a claim before it is recorded.
    guideline: Give each worker exactly one next task.
    guideline: Ask the user before anything that cannot be taken back.
    asks you (done): What has to be true for you to call this done?
    asks you (limits): What must not be touched?
    may not: interrupt
    may not: sort
    before the finish: checks
    before the finish: separate_review
    before the finish: handover
    before the finish: a challenge of the work as a whole
    ");
    assert_eq!(recipe("careful"), None, "an unknown name selects no recipe");
}

/// Every field of a configuration shows up in its summary.
#[test]
fn two_configurations_with_one_summary_are_the_same() {
    let full = Config {
        objective: "o".to_owned(),
        guidelines: vec!["g".to_owned()],
        references: vec!["r".to_owned()],
        denied: [Action::End].into(),
        tools: vec!["t".to_owned()],
        epilogue: [Epilogue::Handover].into(),
        adversarial: true,
        questions: BTreeMap::from([("q".to_owned(), "?".to_owned())]),
        on_completion: Some("c".to_owned()),
        ..recipe("strict").expect("it is one")
    };
    let base = Config::default();
    let fields: [fn(&mut Config, &Config); 10] = [
        |config, full| config.mode = full.mode,
        |config, full| config.objective = full.objective.clone(),
        |config, full| config.guidelines = full.guidelines.clone(),
        |config, full| config.references = full.references.clone(),
        |config, full| config.denied = full.denied.clone(),
        |config, full| config.tools = full.tools.clone(),
        |config, full| config.epilogue = full.epilogue.clone(),
        |config, full| config.adversarial = full.adversarial,
        |config, full| config.questions = full.questions.clone(),
        |config, full| config.on_completion = full.on_completion.clone(),
    ];
    let mut seen = vec![summary(&base)];
    for change in fields {
        let mut config = base.clone();
        change(&mut config, &full);
        let told = summary(&config);
        assert!(!seen.contains(&told), "{told:?}");
        seen.push(told);
    }
}

#[test]
fn a_strict_manager_acts_only_under_a_move_and_a_light_one_at_once() {
    for (name, expected) in [("light", None), ("guided", Some("ack")), ("strict", Some("ack"))] {
        let config = recipe(name).expect("it is one");
        let mut desk = Desk::open(provost_core::task::TaskSpec { config, ..task_spec() });
        desk.bind("boss", Role::Manager, None);
        desk.bind("hand", Role::Worker, None);
        let first = desk.does(&member("boss"), post("hand", "a"));
        assert_eq!(first.is_err(), expected.is_some(), "{name}");
        if expected.is_none() {
            continue;
        }
        desk.done(&member("boss"), Command::AcknowledgeContract { revision: 0 });
        let second = desk.does(&member("boss"), post("hand", "a"));
        assert_eq!(second.is_err(), name == "strict", "{name}");
        let why = desk.refused(
            &member("hand"),
            Command::Finish { because: A_REASON.to_owned(), allow: Vec::new() },
        );
        assert!(matches!(why, Rejected::NotForRole { .. }));
        let blockers = desk.task.blockers(|_| None);
        assert_eq!(blockers.contains(&Blocker::NotAttacked), name == "strict");
        desk.done(&Actor::Operator, Command::Cancel { because: A_REASON.to_owned() });
    }
}
