//! Role permissions, enforced in the core for every channel.

use provost_core::team::{
    CriterionJudgement, EpilogueStep, Event, EvidenceRequirement, ManagerConfig, ManagerEvent,
    ManagerMode, MemberRole, MoveKind, ShownEvidence, TeamAction, TeamActor, TeamChange,
    TeamCommand, TeamRejection,
};

use super::kit::{A_REASON, TestTeam, challenge, continue_command, member, post, template};

fn because() -> String {
    A_REASON.to_owned()
}

fn configured(config: ManagerConfig) -> TestTeam {
    let mut team = TestTeam::paired();
    let config = Box::new(config);
    team.apply(&TeamActor::Operator, TeamCommand::Configure { config, expected: 0 });
    team
}

#[test]
fn d14_d22_workers_cannot_end_or_judge() {
    let mut team = TestTeam::paired();
    team.begin_loop(template(3));
    let no = team.criterion(EvidenceRequirement::Asserted);
    for (command, action) in [
        (TeamCommand::StopLoop { because: because() }, TeamAction::Loop),
        (TeamCommand::BeginLoop { template: Box::new(template(1)) }, TeamAction::Loop),
        (continue_command(2, "k"), TeamAction::Continue),
        (TeamCommand::Finish { because: because(), allow: Vec::new() }, TeamAction::End),
        (TeamCommand::Cancel { because: because() }, TeamAction::End),
        (TeamCommand::Fail { because: because() }, TeamAction::End),
        (TeamCommand::Pause { because: because() }, TeamAction::End),
        (
            TeamCommand::Retire {
                name: "boss".to_owned(),
                because: because(),
                to: None,
                dead_letter: true,
            },
            TeamAction::Bind,
        ),
        (TeamCommand::Judge { no, judgement: CriterionJudgement::Accept }, TeamAction::Judge),
        (TeamCommand::Configure { config: Box::default(), expected: 0 }, TeamAction::Configure),
        (
            TeamCommand::RecordMove { kind: MoveKind::Stop, because: because() },
            TeamAction::RecordMove,
        ),
        (TeamCommand::DeadLetter { no: 1, reason: because() }, TeamAction::ManageMessages),
    ] {
        for (name, role) in [("hand", MemberRole::Worker), ("eye", MemberRole::Reviewer)] {
            let why = TeamRejection::NotForRole { role, action };
            assert_eq!(team.reject(&member(name), command.clone()), why);
        }
    }
}

#[test]
fn unbound_actor_is_rejected() {
    let mut team = TestTeam::paired();
    let why = TeamRejection::NoMember { who: "stranger".to_owned() };
    assert_eq!(team.reject(&member("stranger"), post("hand", "a")), why);
    team.apply(
        &TeamActor::Operator,
        TeamCommand::Retire {
            name: "boss".to_owned(),
            because: because(),
            to: None,
            dead_letter: true,
        },
    );
    let why = TeamRejection::NoMember { who: "boss".to_owned() };
    assert_eq!(team.reject(&member("boss"), post("hand", "a")), why);
}

#[test]
fn manager_cannot_change_its_contract() {
    let mut team = TestTeam::paired();
    for (command, action) in [
        (TeamCommand::Configure { config: Box::default(), expected: 0 }, TeamAction::Configure),
        (
            TeamCommand::Retire {
                name: "hand".to_owned(),
                because: because(),
                to: None,
                dead_letter: true,
            },
            TeamAction::Bind,
        ),
    ] {
        let why = TeamRejection::NotForRole { role: MemberRole::Manager, action };
        assert_eq!(team.reject(&member("boss"), command), why);
    }
}

#[test]
fn denied_action_is_rejected_for_every_actor() {
    let denied = [TeamAction::Message].into();
    let mut team = configured(ManagerConfig { denied, ..ManagerConfig::default() });
    let why = TeamRejection::NotGranted(TeamAction::Message);
    assert_eq!(team.reject(&member("boss"), post("hand", "a")), why);
    assert_eq!(team.reject(&TeamActor::Policy, post("hand", "a")), why);
    team.post(&TeamActor::Operator, "hand", "a person is no manager");
}

#[test]
fn changed_contract_must_be_acknowledged() {
    let mut team = configured(ManagerConfig::default());
    assert_eq!(
        team.reject(&member("boss"), post("hand", "a")),
        TeamRejection::ContractNotAccepted(1)
    );
    let stale = TeamCommand::AcknowledgeContract { revision: 0 };
    let why = team.reject(&member("boss"), stale);
    assert_eq!(
        why.to_string(),
        "the contract is at revision 1, not 0: read it again, then accept revision 1"
    );
    team.apply(&member("boss"), TeamCommand::AcknowledgeContract { revision: 1 });
    team.post(&member("boss"), "hand", "a");
}

#[test]
fn stale_contract_revision_is_rejected() {
    let mut team = configured(ManagerConfig::default());
    let late = TeamCommand::Configure { config: Box::default(), expected: 0 };
    let why = TeamRejection::StaleRevision { now: 1, given: 0, accepts: false };
    assert_eq!(team.reject(&TeamActor::Operator, late), why);
}

#[test]
fn light_manager_needs_no_contract_or_move() {
    let mut team =
        configured(ManagerConfig { mode: ManagerMode::Light, ..ManagerConfig::default() });
    team.post(&member("boss"), "hand", "a");
}

#[test]
fn strict_manager_records_a_move_per_action() {
    let mut team =
        configured(ManagerConfig { mode: ManagerMode::Strict, ..ManagerConfig::default() });
    team.apply(&member("boss"), TeamCommand::AcknowledgeContract { revision: 1 });
    let why = TeamRejection::NoMove(&[MoveKind::Nudge]);
    assert_eq!(team.reject(&member("boss"), post("hand", "a")), why);
    let record = |kind| TeamCommand::RecordMove { kind, because: because() };
    team.apply(&member("boss"), record(MoveKind::Wait));
    assert_eq!(team.reject(&member("boss"), post("hand", "a")), why, "it said otherwise");
    team.apply(&member("boss"), record(MoveKind::Nudge));
    team.post(&member("boss"), "hand", "a");
    assert_eq!(team.reject(&member("boss"), post("hand", "b")), why, "one move allows one action");
    team.apply(
        &member("boss"),
        TeamCommand::Propose {
            text: "what only proposes needs no move".to_owned(),
            rationale: None,
            needs: EvidenceRequirement::Asserted,
        },
    );
}

#[test]
fn refused_continuation_keeps_the_move() {
    let mut team =
        configured(ManagerConfig { mode: ManagerMode::Strict, ..ManagerConfig::default() });
    team.begin_loop(template(3));
    team.apply(&member("boss"), TeamCommand::AcknowledgeContract { revision: 1 });
    let record = TeamCommand::RecordMove { kind: MoveKind::Nudge, because: because() };
    team.apply(&member("boss"), record);
    team.continue_loop(2).expect_err("its evidence is missing");
    team.show_all_evidence("one");
    team.continue_loop(2).expect("the move is still there");
}

#[test]
fn only_bind_and_configure_are_operator_only() {
    let alone: Vec<TeamAction> = TeamAction::ALL
        .into_iter()
        .filter(|action| !MemberRole::ALL.into_iter().any(|role| action.is_open_to(role)))
        .collect();
    assert_eq!(alone, [TeamAction::Bind, TeamAction::Configure]);
}

#[test]
fn finish_is_the_last_event_in_strict_mode() {
    let mut team =
        configured(ManagerConfig { mode: ManagerMode::Strict, ..ManagerConfig::default() });
    team.apply(&member("boss"), TeamCommand::AcknowledgeContract { revision: 1 });
    team.satisfy_by_operator();
    let record = TeamCommand::RecordMove { kind: MoveKind::Stop, because: because() };
    team.apply(&member("boss"), record);
    let finish = TeamCommand::Finish { because: because(), allow: Vec::new() };
    let events = team.apply(&member("boss"), finish.clone());
    let ends = matches!(events.last(), Some(Event::Team(TeamChange::PhaseChanged(e))) if e.phase.is_over());
    assert!(ends, "{events:?}");
    assert!(
        events.iter().any(|event| matches!(event, Event::Manager(ManagerEvent::MoveUsed(_)))),
        "{events:?}"
    );
    assert_eq!(team.apply(&member("boss"), finish), [], "it is done, and stays as it is");
}

#[test]
fn strict_manager_starts_loop_without_a_move() {
    let mut team =
        configured(ManagerConfig { mode: ManagerMode::Strict, ..ManagerConfig::default() });
    team.apply(&member("boss"), TeamCommand::AcknowledgeContract { revision: 1 });
    team.apply(&member("boss"), TeamCommand::BeginLoop { template: Box::new(template(2)) });
    let why = TeamRejection::NoMove(&[MoveKind::Stop]);
    let stop = TeamCommand::StopLoop { because: because() };
    assert_eq!(team.reject(&member("boss"), stop.clone()), why, "to stop one is to stop");
    let record = TeamCommand::RecordMove { kind: MoveKind::Stop, because: because() };
    team.apply(&member("boss"), record.clone());
    team.apply(&member("boss"), stop);
    // Starting a loop revokes the recorded stop.
    team.apply(&member("boss"), record);
    team.apply(&member("boss"), TeamCommand::BeginLoop { template: Box::new(template(2)) });
    let finish = TeamCommand::Finish { because: because(), allow: Vec::new() };
    assert_eq!(team.reject(&member("boss"), finish), why);
}

#[test]
fn separate_review_needs_a_reviewer() {
    let evidence = || "read line by line, two remarks".to_owned();
    let step = |step| TeamCommand::DoEpilogue { step, evidence: evidence() };
    let mut team = TestTeam::paired();
    for by in [member("hand"), member("boss"), TeamActor::Operator] {
        let why = team.reject(&by, step(EpilogueStep::SeparateReview));
        assert_eq!(why.code(), "not_for_role", "{by:?}");
    }
    for other in [EpilogueStep::DraftPullRequest, EpilogueStep::Handover] {
        for by in ["hand", "eye"] {
            assert_eq!(team.reject(&member(by), step(other)).code(), "not_for_role", "{by}");
        }
        team.apply(&member("boss"), step(other));
    }
    team.apply(&member("eye"), step(EpilogueStep::SeparateReview));
    let mut team = TestTeam::paired();
    team.apply(
        &TeamActor::Operator,
        TeamCommand::Retire {
            name: "eye".to_owned(),
            because: because(),
            to: None,
            dead_letter: true,
        },
    );
    assert_eq!(
        team.reject(&member("hand"), step(EpilogueStep::SeparateReview)).code(),
        "not_for_role"
    );
    team.apply(&member("boss"), step(EpilogueStep::SeparateReview));
}

#[test]
fn worker_cannot_challenge_its_own_work() {
    let whole = || TeamCommand::ChallengeWork { challenge: challenge() };
    let shown = || TeamCommand::Show {
        iteration: 1,
        name: "challenge".to_owned(),
        shown: ShownEvidence::Challenge(challenge()),
    };
    let mut team = TestTeam::paired();
    team.begin_loop(template(2));
    for command in [whole(), shown()] {
        assert_eq!(team.reject(&member("hand"), command).code(), "not_for_role");
    }
    for by in ["boss", "eye"] {
        team.apply(&member(by), whole());
        team.apply(&member(by), shown());
    }
    // Without a reviewer, a worker may challenge its own iterations, but never the whole work.
    team.apply(
        &TeamActor::Operator,
        TeamCommand::Retire {
            name: "eye".to_owned(),
            because: because(),
            to: None,
            dead_letter: true,
        },
    );
    team.apply(&member("hand"), shown());
    assert_eq!(team.reject(&member("hand"), whole()).code(), "not_for_role");
}
