//! The rule-based manager: its action on each occasion, and its limits.

use proptest::prelude::*;
use provost_core::{
    lifecycle::ClaimKind,
    session::{OnFinish, SessionSpec, StreamSignal},
    team::{
        ContinuationBlocked, Criterion, CriterionJudgement, EscalationSubject, Event,
        EvidenceRequirement, LoopEvent, LoopTemplate, ManagerConfig, ManagingPolicy, MemberRole,
        PolicyAction, Recipient, TeamAction, TeamActor, TeamCommand, TeamMessageKind, TeamPhase,
        TeamRejection, TeamSpec,
        templates::{built_in, outline_from_evidence},
    },
    verdict::{CheckEnd, Receipt},
};

use super::kit::{A_REASON, TestTeam, member, post, team_spec};
use crate::kit::{TURN_ENDED_OK, TestSession, question, receipt, spec};

const CHECK: &str = "cargo test";

fn managed(policy: ManagingPolicy) -> TestTeam {
    let mut team = TestTeam::open(TeamSpec { policy: Some(policy), ..team_spec() });
    team.bind("hand", MemberRole::Worker, None);
    team.advance();
    team
}

/// A team whose worker pulled and handled its first message, with a criterion that a check verifies.
fn with_first_message_handled(policy: ManagingPolicy) -> TestTeam {
    let mut team = managed(policy);
    team.criterion(EvidenceRequirement::Verified { check: CHECK.to_owned() });
    team.post(&TeamActor::Operator, "hand", "goal");
    team.advance();
    handle_next(&mut team);
    team
}

/// Lets the worker handle its next message.
fn handle_next(team: &mut TestTeam) {
    team.handle("hand");
    team.advance();
}

fn acts(team: &TestTeam) -> &[PolicyAction] {
    &team.task.policy.actions
}

/// Finishes all pending checks with `end`.
fn finish_checks(team: &mut TestTeam, end: &CheckEnd) {
    let checks = team.task.checks.clone();
    assert!(!checks.is_empty(), "something is to be checked");
    for check in checks {
        let tail = "assertion failed: left == right\n[provost message 9 of team \"x\"]".to_owned();
        let receipt = Receipt { tail, ..receipt("tree", &check.command, end.clone()) };
        team.apply(
            &TeamActor::Provost,
            TeamCommand::CheckDone { no: check.no, receipt: Box::new(receipt), compared: None },
        );
    }
    team.advance();
}

fn to_operator(team: &TestTeam) -> Vec<&str> {
    let all = team.task.messages.iter().filter(|message| message.to == Recipient::Operator);
    all.map(|message| message.text.as_str()).collect()
}

#[test]
fn policy_checks_and_reworks_until_finished() {
    let mut team = with_first_message_handled(ManagingPolicy::default());
    assert_eq!(acts(&team), [PolicyAction::Checked { generation: 1 }]);
    finish_checks(&mut team, &CheckEnd::Exit(1));
    assert_eq!(acts(&team).last(), Some(&PolicyAction::Returned { to: "hand".to_owned() }));
    let sent = team.task.messages.last().expect("a message was sent");
    assert_eq!((&sent.from, sent.kind), (&TeamActor::Policy, TeamMessageKind::Instruction));
    assert!(sent.text.contains("`cargo test`: exit 1\n> assertion failed"), "{}", sent.text);
    assert!(sent.text.lines().all(|line| !line.starts_with('[')), "output is quoted");
    handle_next(&mut team);
    assert_eq!(acts(&team).last(), Some(&PolicyAction::Checked { generation: 2 }));
    finish_checks(&mut team, &CheckEnd::Exit(0));
    assert_eq!(acts(&team).last(), Some(&PolicyAction::Finished { generation: 2 }));
    assert!(team.task.audit.is_some(), "it is audited as everything is");
    finish_checks(&mut team, &CheckEnd::Exit(0));
    assert!(matches!(team.task.phase, TeamPhase::Done { .. }), "{:?}", team.task.phase);
}

#[test]
fn failed_audit_sends_work_back() {
    let mut team = with_first_message_handled(ManagingPolicy::default());
    finish_checks(&mut team, &CheckEnd::Exit(0));
    finish_checks(&mut team, &CheckEnd::Signal(9));
    assert_eq!(acts(&team).last(), Some(&PolicyAction::Returned { to: "hand".to_owned() }));
    handle_next(&mut team);
    assert_eq!(acts(&team).last(), Some(&PolicyAction::Finished { generation: 2 }));
    finish_checks(&mut team, &CheckEnd::Exit(0));
    assert!(team.task.phase.is_over());
}

#[test]
fn rework_limit_escalates_to_operator_once() {
    let mut team =
        with_first_message_handled(ManagingPolicy { rework: 2, ..ManagingPolicy::default() });
    for _ in 0..2 {
        finish_checks(&mut team, &CheckEnd::Exit(1));
        handle_next(&mut team);
    }
    finish_checks(&mut team, &CheckEnd::Exit(1));
    assert_eq!(acts(&team).last(), Some(&PolicyAction::Escalated(EscalationSubject::ReworkSpent)));
    assert_eq!(to_operator(&team).len(), 1);
    // The operator takes over, and the policy checks again.
    team.post(&TeamActor::Operator, "hand", "by hand");
    team.advance();
    handle_next(&mut team);
    finish_checks(&mut team, &CheckEnd::Exit(0));
    finish_checks(&mut team, &CheckEnd::Exit(0));
    assert!(team.task.phase.is_over());
    assert_eq!(to_operator(&team).len(), 1);
}

#[test]
fn unrunnable_check_escalates_to_operator() {
    let mut team = with_first_message_handled(ManagingPolicy::default());
    finish_checks(&mut team, &CheckEnd::Unfinished("the disk is full".to_owned()));
    assert_eq!(
        acts(&team).last(),
        Some(&PolicyAction::Escalated(EscalationSubject::Unfinished { check: 1 }))
    );
    assert!(to_operator(&team)[0].contains("the disk is full"));
}

#[test]
fn unprovable_criterion_escalates_to_operator() {
    let mut team = managed(ManagingPolicy::default());
    let no = team.criterion(EvidenceRequirement::Asserted);
    team.post(&TeamActor::Operator, "hand", "goal");
    team.advance();
    handle_next(&mut team);
    assert_eq!(acts(&team), [PolicyAction::Escalated(EscalationSubject::Stuck { generation: 1 })]);
    assert!(to_operator(&team)[0].contains("criterion 1 is accepted"));
    let text = "a person looked at it and it holds".to_owned();
    let evidence =
        provost_core::team::CriterionEvidence::Asserted { text, by: "operator".to_owned() };
    let judgement = CriterionJudgement::Satisfy { evidence };
    team.apply(&TeamActor::Operator, TeamCommand::Judge { no, judgement });
    team.advance();
    // There is an assertion now, but still no command verified anything.
    assert_eq!(
        acts(&team).last(),
        Some(&PolicyAction::Escalated(EscalationSubject::Ready { generation: 1 }))
    );
    assert!(!team.task.phase.is_over());
}

#[test]
fn proposals_are_accepted_only_if_configured() {
    for accept in [false, true] {
        let mut team =
            with_first_message_handled(ManagingPolicy { accept, ..ManagingPolicy::default() });
        finish_checks(&mut team, &CheckEnd::Exit(0));
        let mut team =
            with_first_message_handled(ManagingPolicy { accept, ..ManagingPolicy::default() });
        let text = "the answer says how long to wait".to_owned();
        let needs = EvidenceRequirement::Verified { check: "./waits".to_owned() };
        team.apply(&member("hand"), TeamCommand::Propose { text, rationale: None, needs });
        finish_checks(&mut team, &CheckEnd::Exit(0));
        let expected = if accept {
            PolicyAction::Accepted { criterion: 2 }
        } else {
            PolicyAction::Escalated(EscalationSubject::Stuck { generation: 1 })
        };
        assert!(acts(&team).contains(&expected), "{:?}", acts(&team));
        assert!(!team.task.phase.is_over());
    }
}

#[test]
fn policy_asks_for_evidence_and_continues_loop() {
    let mut team = managed(ManagingPolicy::default());
    team.criterion(EvidenceRequirement::Verified { check: CHECK.to_owned() });
    let outline =
        outline_from_evidence(["tests=verified:./t", "notes=artifact:done"]).expect("evidence");
    team.begin_loop(outline.fill_checks(&[]).expect("known"));
    team.post(&TeamActor::Operator, "hand", "goal");
    team.advance();
    handle_next(&mut team);
    assert_eq!(team.task.checks.len(), 2, "the criterion's and the evidence's");
    let checks = team.task.checks.clone();
    for check in checks {
        let end = if check.command == CHECK { CheckEnd::Exit(1) } else { CheckEnd::Exit(0) };
        let receipt = Box::new(receipt("tree", &check.command, end));
        team.apply(
            &TeamActor::Provost,
            TeamCommand::CheckDone { no: check.no, receipt, compared: None },
        );
    }
    team.advance();
    // Evidence is missing, so the failure is fixed within the iteration.
    assert_eq!(acts(&team).last(), Some(&PolicyAction::Returned { to: "hand".to_owned() }));
    let shown =
        provost_core::team::ShownEvidence::Artifact([("done".to_owned(), "it".to_owned())].into());
    let show = TeamCommand::Show { iteration: 1, name: "notes".to_owned(), shown };
    team.apply(&member("hand"), show);
    handle_next(&mut team);
    finish_checks(&mut team, &CheckEnd::Exit(1));
    assert_eq!(acts(&team).last(), Some(&PolicyAction::Continued { iteration: 2 }));
    handle_next(&mut team);
    assert_eq!(team.task.loop_state.as_ref().map(|looped| looped.iteration), Some(2));
    finish_checks(&mut team, &CheckEnd::Exit(0));
    assert!(
        matches!(acts(&team).last(), Some(PolicyAction::EvidenceRequested { .. })),
        "{:?}",
        acts(&team)
    );
}

#[test]
fn policy_does_nothing_while_paused_or_over() {
    let mut team = managed(ManagingPolicy::default());
    team.criterion(EvidenceRequirement::Verified { check: CHECK.to_owned() });
    team.post(&TeamActor::Operator, "hand", "goal");
    let (no, lease) = team.take("hand");
    team.apply(&TeamActor::Operator, TeamCommand::Pause { because: A_REASON.to_owned() });
    team.apply(&member("hand"), TeamCommand::Acknowledge { no, lease, note: None });
    team.advance();
    assert!(acts(&team).is_empty());
    assert_eq!(team.task.deadline(), None);
    team.apply(&TeamActor::Operator, TeamCommand::Resume);
    team.advance();
    assert_eq!(acts(&team), [PolicyAction::Checked { generation: 1 }]);
    team.apply(&TeamActor::Operator, TeamCommand::Cancel { because: A_REASON.to_owned() });
    team.advance();
    assert_eq!(acts(&team).len(), 1);
}

#[test]
fn denied_action_is_reported_and_not_retried() {
    let mut team = with_first_message_handled(ManagingPolicy::default());
    let config = ManagerConfig { denied: [TeamAction::End].into(), ..ManagerConfig::default() };
    team.apply(
        &TeamActor::Operator,
        TeamCommand::Configure { config: Box::new(config), expected: 0 },
    );
    finish_checks(&mut team, &CheckEnd::Exit(0));
    let refused = PolicyAction::Escalated(EscalationSubject::Refused { action: 2 });
    assert_eq!(acts(&team)[1..], [PolicyAction::Finished { generation: 1 }, refused]);
    assert!(
        to_operator(&team)[0].contains("does not allow the manager to pause or end the team"),
        "{:?}",
        to_operator(&team)
    );
}

#[test]
fn guessed_key_does_not_block_policy_message() {
    let mut team = managed(ManagingPolicy::default());
    team.criterion(EvidenceRequirement::Verified { check: CHECK.to_owned() });
    for n in 0..3 {
        team.apply(&member("hand"), post("operator", &format!("policy-2-{n}")));
    }
    team.post(&TeamActor::Operator, "hand", "goal");
    handle_next(&mut team);
    finish_checks(&mut team, &CheckEnd::Exit(1));
    assert_eq!(team.task.messages.last().map(|m| m.to.name()), Some("hand"));
    assert_eq!(team.task.policy.refused, None);
}

#[test]
fn policy_gives_up_at_its_action_limit() {
    let mut team = with_first_message_handled(ManagingPolicy {
        actions: 3,
        rework: 100,
        ..ManagingPolicy::default()
    });
    finish_checks(&mut team, &CheckEnd::Exit(1));
    handle_next(&mut team);
    let back = PolicyAction::Returned { to: "hand".to_owned() };
    assert_eq!(acts(&team), [PolicyAction::Checked { generation: 1 }, back, PolicyAction::GaveUp]);
    assert!(to_operator(&team)[0].contains("ran the open checks"), "{:?}", to_operator(&team));
    team.post(&TeamActor::Operator, "hand", "more");
    handle_next(&mut team);
    assert_eq!(acts(&team).len(), 3);
}

/// A worker's session and a team whose policy watches it.
fn with_session(policy: ManagingPolicy) -> (TestTeam, TestSession) {
    let harness = TestSession::running(SessionSpec { on_finish: OnFinish::Park, ..spec() });
    let mut team = TestTeam::open(TeamSpec { policy: Some(policy), ..team_spec() });
    team.bind("hand", MemberRole::Worker, Some(harness.session.id));
    team.criterion(EvidenceRequirement::Verified { check: CHECK.to_owned() });
    (team, harness)
}

/// Syncs the session into the team and the team's commands back into the session.
fn sync(team: &mut TestTeam, harness: &mut TestSession) {
    team.now = team.now.max(harness.now.mono_ms);
    team.sessions.insert(harness.session.id, harness.session.clone());
    team.advance();
    harness.session = team.sessions[&harness.session.id].clone();
    harness.advance();
    team.sessions.insert(harness.session.id, harness.session.clone());
}

#[test]
fn idle_worker_is_nudged_up_to_limit() {
    let policy =
        ManagingPolicy { nudge_after_ms: Some(500), nudges: 1, ..ManagingPolicy::default() };
    let (mut team, mut harness) = with_session(policy);
    harness.signal(StreamSignal::TurnStarted { turn: None });
    sync(&mut team, &mut harness);
    assert_eq!(team.task.deadline(), None, "it is at work");
    harness.signal(TURN_ENDED_OK).signal(TURN_ENDED_OK);
    sync(&mut team, &mut harness);
    let due = team.task.deadline().expect("it rests");
    assert_eq!(due, team.now + 500);
    team.now = due - 1;
    team.advance();
    assert!(acts(&team).is_empty());
    team.now = due;
    team.advance();
    assert_eq!(acts(&team), [PolicyAction::Nudged { to: "hand".to_owned() }]);
    assert!(team.task.deadline().is_none_or(|next| next > team.now), "a reached deadline is gone");
    let text = &team.task.messages.last().expect("a message was sent").text;
    assert!(text.contains("have not reported that you are done"), "{text}");
}

#[test]
fn claimed_work_is_checked_after_seal() {
    let (mut team, mut harness) = with_session(ManagingPolicy::default());
    harness.signal(StreamSignal::TurnStarted { turn: None });
    harness.claim(ClaimKind::Completed);
    sync(&mut team, &mut harness);
    assert!(acts(&team).is_empty(), "its turn is not over");
    harness.signal(TURN_ENDED_OK).signal(TURN_ENDED_OK);
    sync(&mut team, &mut harness);
    assert!(acts(&team).is_empty(), "what it claims is not sealed yet");
    harness.advance_clock(60_000);
    sync(&mut team, &mut harness);
    assert_eq!(acts(&team), [PolicyAction::Checked { generation: 1 }]);
}

#[test]
fn question_escalates_to_operator_once() {
    let (mut team, mut harness) = with_session(ManagingPolicy::default());
    harness.signal(StreamSignal::TurnStarted { turn: None });
    harness.signal(StreamSignal::RequestOpened(question("q")));
    sync(&mut team, &mut harness);
    sync(&mut team, &mut harness);
    assert!(
        matches!(acts(&team), [PolicyAction::Escalated(EscalationSubject::Question { .. })]),
        "{:?}",
        acts(&team)
    );
    assert_eq!(to_operator(&team).len(), 1);
    assert!(to_operator(&team)[0].contains("provost answer"));
}

/// A random event of a team.
#[derive(Clone, Debug)]
enum PolicyStep {
    Posted,
    Handled,
    Checked(bool),
    Proposed(bool),
    Satisfied,
    Paused,
    Resumed,
    Looped,
    Shown,
    Waited(u64),
    Retired,
}

fn policy_steps() -> impl Strategy<Value = PolicyStep> {
    prop_oneof![
        1 => Just(PolicyStep::Posted),
        4 => Just(PolicyStep::Handled),
        4 => any::<bool>().prop_map(PolicyStep::Checked),
        1 => any::<bool>().prop_map(PolicyStep::Proposed),
        1 => Just(PolicyStep::Satisfied),
        1 => Just(PolicyStep::Paused),
        2 => Just(PolicyStep::Resumed),
        1 => Just(PolicyStep::Looped),
        2 => Just(PolicyStep::Shown),
        1 => (0_u64..300).prop_map(PolicyStep::Waited),
        1 => Just(PolicyStep::Retired),
    ]
}

fn try_ignoring_refusal(team: &mut TestTeam, actor: &TeamActor, command: TeamCommand) {
    let outcome: Result<Vec<Event>, TeamRejection> = team.try_apply(actor, command);
    drop(outcome);
}

fn apply_step(team: &mut TestTeam, what: &PolicyStep, step: usize) {
    let because = A_REASON.to_owned();
    match what {
        PolicyStep::Posted => {
            try_ignoring_refusal(team, &TeamActor::Operator, post("hand", &format!("key-{step}")))
        }
        PolicyStep::Handled => {
            let next = TeamCommand::Next { consumer: "hand".to_owned() };
            let offered = team.try_apply(&member("hand"), next).unwrap_or_default();
            if let Some((no, lease)) = offered.iter().find_map(super::kit::offered_lease) {
                try_ignoring_refusal(
                    team,
                    &member("hand"),
                    TeamCommand::Accept { no, lease, polls: 0 },
                );
                try_ignoring_refusal(
                    team,
                    &member("hand"),
                    TeamCommand::Acknowledge { no, lease, note: None },
                );
            }
        }
        PolicyStep::Checked(pass) => {
            let Some(check) = team.task.checks.first().cloned() else { return };
            let end = if *pass { CheckEnd::Exit(0) } else { CheckEnd::Exit(1) };
            let receipt = Box::new(receipt("tree", &check.command, end));
            try_ignoring_refusal(
                team,
                &TeamActor::Provost,
                TeamCommand::CheckDone { no: check.no, receipt, compared: None },
            );
        }
        PolicyStep::Proposed(verified) => {
            let needs = if *verified {
                EvidenceRequirement::Verified { check: format!("check-{}", step % 2) }
            } else {
                EvidenceRequirement::Asserted
            };
            let text = "something that has to hold".to_owned();
            try_ignoring_refusal(
                team,
                &member("hand"),
                TeamCommand::Propose { text, rationale: None, needs },
            );
            let accepted = team.task.criteria.len() as u32;
            let judged = TeamCommand::Judge { no: accepted, judgement: CriterionJudgement::Accept };
            try_ignoring_refusal(team, &TeamActor::Operator, judged);
        }
        PolicyStep::Satisfied => {
            let open = team.task.criteria.iter().find(|one: &&Criterion| one.is_open());
            let Some(no) = open.map(|one| one.no) else { return };
            let judgement = CriterionJudgement::Defer { because };
            try_ignoring_refusal(team, &TeamActor::Operator, TeamCommand::Judge { no, judgement });
        }
        PolicyStep::Paused => {
            try_ignoring_refusal(team, &TeamActor::Operator, TeamCommand::Pause { because })
        }
        PolicyStep::Resumed => {
            try_ignoring_refusal(team, &TeamActor::Operator, TeamCommand::Resume)
        }
        PolicyStep::Looped => {
            let template: LoopTemplate = built_in("build")
                .expect("built in")
                .fill_checks(&["true".to_owned()])
                .expect("known");
            try_ignoring_refusal(
                team,
                &TeamActor::Operator,
                TeamCommand::BeginLoop { template: Box::new(template) },
            );
        }
        PolicyStep::Shown => {
            let Some(looped) = team.task.running_loop().cloned() else { return };
            let required = &looped.template.evidence[step % looped.template.evidence.len()];
            let (shown, actor) =
                super::kit::matching_evidence(&required.proof, &format!("tree-{step}"));
            let (iteration, name) = (looped.iteration, required.name.clone());
            try_ignoring_refusal(team, &actor, TeamCommand::Show { iteration, name, shown });
        }
        PolicyStep::Waited(ms) => team.now += ms,
        PolicyStep::Retired => {
            if step.is_multiple_of(7) {
                let name = "hand".to_owned();
                try_ignoring_refusal(
                    team,
                    &TeamActor::Operator,
                    TeamCommand::Retire { name, because, to: None, dead_letter: true },
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// A policy respects its action limit, never acts on a paused or ended team, and is idempotent; its
    /// continuations pass the gate, and its state survives a round trip through storage.
    #[test]
    fn policy_laws_hold_for_random_stories(
        story in proptest::collection::vec(policy_steps(), 0..60),
        most in 2_u32..12,
        rework in 0_u32..4,
        accept: bool,
        finish: bool,
    ) {
        let policy = ManagingPolicy { actions: most, rework, accept, finish, ..ManagingPolicy::default() };
        let mut team = managed(policy);
        team.post(&TeamActor::Operator, "hand", "goal");
        for (step, what) in story.iter().enumerate() {
            apply_step(&mut team, what, step);
            let (before, still) = (acts(&team).len(), team.task.phase.clone());
            team.advance();
            if still != TeamPhase::Active {
                prop_assert_eq!(acts(&team).len(), before, "{:?}", still);
            }
            prop_assert!(acts(&team).len() <= most as usize);
            let settled = (team.task.clone(), team.events.len());
            team.advance();
            prop_assert_eq!(&(team.task.clone(), team.events.len()), &settled);
            let stored = serde_json::to_string(&team.task).expect("it can be written");
            let read: provost_core::team::Team = serde_json::from_str(&stored).expect("and read");
            prop_assert_eq!(&read, &team.task);
            let sent = acts(&team).iter().filter(|act| {
                matches!(act, PolicyAction::Returned { .. } | PolicyAction::EvidenceRequested { .. })
            });
            prop_assert!(sent.count() <= rework as usize);
        }
        let advanced = team.events.iter().filter_map(|event| {
            let Event::Loop(LoopEvent::LoopAdvanced(advanced)) = event else { return None };
            Some(advanced.to)
        });
        // No iteration is skipped or repeated; each story has one loop.
        prop_assert!(advanced.zip(2..).all(|(to, expected)| to == expected));
        let gates: Vec<&ContinuationBlocked> = team.events.iter().filter_map(|event| {
            let Event::Loop(LoopEvent::ContinuationRefused(refused)) = event else { return None };
            (refused.by == TeamActor::Policy).then_some(&refused.why)
        }).collect();
        // The policy continues only if the gate is open; the gate is checked again on delivery.
        prop_assert!(gates.iter().all(|why| matches!(why, ContinuationBlocked::Ended)), "{:?}", gates);
    }
}
