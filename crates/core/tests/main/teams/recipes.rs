//! Manager recipes and the summaries that users confirm.

use std::collections::BTreeMap;

use insta::assert_snapshot;
use provost_core::team::{
    EpilogueStep, FinishBlocker, ManagerConfig, MemberRole, TeamAction, TeamActor, TeamCommand,
    TeamRejection,
    recipes::{RECIPES, recipe, summary},
};

use super::kit::{A_REASON, TestTeam, member, post, team_spec};

#[test]
fn recipe_summaries_are_complete() {
    let summaries: Vec<String> = RECIPES
        .iter()
        .map(|name| format!("{name}\n{}", summary(&recipe(name).expect("it is one")).join("\n")))
        .collect();
    assert_snapshot!(summaries.join("\n\n"), @"
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
    not permitted: interrupt
    not permitted: manage_messages
    before the finish: checks
    before the finish: separate_review
    before the finish: handover
    before the finish: a challenge of the work as a whole
    ");
    assert_eq!(recipe("careful"), None, "an unknown name selects no recipe");
}

/// Every field of a configuration shows up in its summary.
#[test]
fn every_config_field_is_in_the_summary() {
    let full = ManagerConfig {
        objective: "o".to_owned(),
        guidelines: vec!["g".to_owned()],
        references: vec!["r".to_owned()],
        denied: [TeamAction::End].into(),
        tools: vec!["t".to_owned()],
        epilogue: [EpilogueStep::Handover].into(),
        adversarial: true,
        questions: BTreeMap::from([("q".to_owned(), "?".to_owned())]),
        on_completion: Some("c".to_owned()),
        ..recipe("strict").expect("it is one")
    };
    let base = ManagerConfig::default();
    let fields: [fn(&mut ManagerConfig, &ManagerConfig); 10] = [
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
        let summary_lines = summary(&config);
        assert!(!seen.contains(&summary_lines), "{summary_lines:?}");
        seen.push(summary_lines);
    }
}

#[test]
fn recipe_modes_gate_manager_actions() {
    for (name, expected) in [("light", None), ("guided", Some("ack")), ("strict", Some("ack"))] {
        let config = recipe(name).expect("it is one");
        let mut team = TestTeam::open(provost_core::team::TeamSpec { config, ..team_spec() });
        team.bind("boss", MemberRole::Manager, None);
        team.bind("hand", MemberRole::Worker, None);
        let first = team.try_apply(&member("boss"), post("hand", "a"));
        assert_eq!(first.is_err(), expected.is_some(), "{name}");
        if expected.is_none() {
            continue;
        }
        team.apply(&member("boss"), TeamCommand::AcknowledgeContract { revision: 0 });
        let second = team.try_apply(&member("boss"), post("hand", "a"));
        assert_eq!(second.is_err(), name == "strict", "{name}");
        let why = team.reject(
            &member("hand"),
            TeamCommand::Finish { because: A_REASON.to_owned(), allow: Vec::new() },
        );
        assert!(matches!(why, TeamRejection::NotForRole { .. }));
        let blockers = team.task.blockers(|_| None);
        assert_eq!(blockers.contains(&FinishBlocker::NotChallenged), name == "strict");
        team.apply(&TeamActor::Operator, TeamCommand::Cancel { because: A_REASON.to_owned() });
    }
}
