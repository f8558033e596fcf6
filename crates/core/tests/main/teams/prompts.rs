//! Snapshots of the contracts and messages that members get.

use insta::assert_snapshot;
use provost_core::{
    ids::SessionId,
    team::{
        CleanUp, EpilogueStep, LoopProof, LoopRequirement, LoopTemplate, ManagerConfig,
        ManagerMode, MemberMode, MemberRole, ProvostInvocation, TeamAction, TeamActor, TeamCommand,
        TeamCommandLines, build_handoff, build_heartbeats, contract, format_message,
    },
};
use uuid::Uuid;

use super::kit::{TestTeam, team_spec, template};

/// A team with a manager, two workers and a reviewer, none of them with a session.
fn four_members() -> TestTeam {
    let mut team = TestTeam::paired();
    team.bind("second hand", MemberRole::Worker, None);
    team
}

fn contract_text(team: &TestTeam, name: &str, via: MemberMode) -> String {
    let caller = ProvostInvocation::default();
    let commands = TeamCommandLines { caller: &caller, task: &team.task, member: Some(name) };
    contract(&commands, team.task.member(name).expect("it is bound"), via)
}

fn strict() -> ManagerConfig {
    ManagerConfig {
        mode: ManagerMode::Strict,
        objective: "callers are told when to come back".to_owned(),
        guidelines: vec!["small steps".to_owned(), "no new dependency".to_owned()],
        references: vec!["docs/limits.md".to_owned()],
        denied: [TeamAction::Interrupt, TeamAction::ManageMessages].into(),
        tools: vec!["gh".to_owned()],
        epilogue: [EpilogueStep::Checks, EpilogueStep::SeparateReview].into(),
        adversarial: true,
        questions: [("scope".to_owned(), "Per caller or per address?".to_owned())].into(),
        on_completion: Some("tell the team".to_owned()),
        ..ManagerConfig::default()
    }
}

#[test]
fn a_worker_by_commands() {
    let mut team = four_members();
    team.begin_loop(template(3));
    assert_snapshot!(contract_text(&team, "hand", MemberMode::Commands));
}

#[test]
fn a_worker_by_tools() {
    assert_snapshot!(contract_text(&four_members(), "hand", MemberMode::Tools));
}

#[test]
fn a_manager_by_commands() {
    let mut team = four_members();
    let config = Box::new(strict());
    team.apply(&TeamActor::Operator, TeamCommand::Configure { config, expected: 0 });
    assert_snapshot!(contract_text(&team, "boss", MemberMode::Commands));
}

#[test]
fn a_manager_by_tools() {
    let mut team = four_members();
    team.begin_loop(template(3));
    assert_snapshot!(contract_text(&team, "boss", MemberMode::Tools));
}

#[test]
fn a_reviewer_by_commands() {
    assert_snapshot!(contract_text(&four_members(), "eye", MemberMode::Commands));
}

#[test]
fn a_reviewer_by_tools() {
    assert_snapshot!(contract_text(&four_members(), "eye", MemberMode::Tools));
}

#[test]
fn worker_without_manager_answers_operator() {
    let mut team = TestTeam::open(team_spec());
    team.bind("hand", MemberRole::Worker, None);
    let text = contract_text(&team, "hand", MemberMode::Commands);
    assert!(text.contains("only the operator can."), "{text}");
    assert!(text.contains(" operator TEXT`"), "{text}");
}

#[test]
fn heartbeats_for_people() {
    let heartbeat =
        build_heartbeats(&four_members().task, &ProvostInvocation::default()).expect("all ask");
    assert_eq!(heartbeat.interval_minutes, 2);
    assert_eq!(heartbeat.others.len(), 2, "the second worker and the reviewer");
    assert_snapshot!(heartbeat.text());
    let stored = serde_json::to_string(&heartbeat).expect("it can be written");
    let read: provost_core::team::TeamHeartbeats = serde_json::from_str(&stored).expect("and read");
    assert_eq!(read, heartbeat);
}

#[test]
fn handoff_is_the_contract_with_its_command() {
    let team = four_members();
    let given =
        build_handoff(&team.task, "hand", &ProvostInvocation::default()).expect("it is bound");
    assert_eq!(given.prompt, contract_text(&team, "hand", MemberMode::Commands));
    assert_eq!(given.via, MemberMode::Commands);
    assert!(given.prompt.contains(&given.receive_command));
    assert!(given.heartbeat.is_some_and(|beat| beat.prompt.contains(&given.receive_command)));
    assert_eq!(build_handoff(&team.task, "nobody", &ProvostInvocation::default()), None);
}

#[test]
fn every_contract_has_the_common_rules() {
    for (name, via) in ["boss", "hand", "eye"]
        .into_iter()
        .flat_map(|name| [MemberMode::Tools, MemberMode::Commands].map(|via| (name, via)))
    {
        let text = contract_text(&four_members(), name, via);
        for needed in ["Never tear anything down on an idle poll", "as data", "limit how often"] {
            assert!(text.contains(needed), "{name}: {needed}");
        }
        assert_eq!(text.contains("manual poll only"), via == MemberMode::Commands, "{name}");
    }
}

/// The message that begins the second of four iterations.
fn continuation_text(team: &mut TestTeam) -> String {
    let artifact =
        LoopProof::Artifact { fields: vec!["changed files".to_owned(), "risk".to_owned()] };
    let word = LoopRequirement { name: "it's said".to_owned(), proof: LoopProof::Asserted };
    let mut looped = template(4);
    looped.evidence.push(LoopRequirement { name: "report".to_owned(), proof: artifact });
    looped.evidence.push(word);
    let tools = vec!["gh".to_owned()];
    team.begin_loop(LoopTemplate { clean_up: CleanUp::Compact, tools, ..looped });
    team.show_all_evidence("one");
    let no = team.continue_loop(2).expect("its evidence is there");
    let caller = ProvostInvocation {
        program: "/opt/pro vost".to_owned(),
        home: Some("/srv/provost's home".to_owned()),
    };
    format_message(&team.task, team.message(no), &caller)
}

#[test]
fn a_continuation_by_commands() {
    assert_snapshot!(continuation_text(&mut four_members()));
}

#[test]
fn a_continuation_by_tools() {
    let mut team = TestTeam::open(team_spec());
    team.bind("boss", MemberRole::Manager, None);
    team.bind("hand", MemberRole::Worker, Some(SessionId(Uuid::from_u128(9))));
    team.bind("eye", MemberRole::Reviewer, None);
    team.apply(&super::kit::member("boss"), TeamCommand::AcknowledgeContract { revision: 0 });
    assert_snapshot!(continuation_text(&mut team));
}
