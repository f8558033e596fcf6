//! Blind proposals for the next step by worker and manager, and the reviewer's choice.

use provost_core::{
    session::{OnFinish, ProcessExit, SessionSpec, StreamSignal},
    team::{
        MemberRole, MessageStatus, MessageTrust, ProposalChoice, Recipient, TeamAction, TeamActor,
        TeamCommand, TeamMessage, TeamPhase, TeamRejection,
    },
};

use super::kit::{A_REASON, TestTeam, member, team_spec};
use crate::kit::{TURN_ENDED_OK, TestSession, spec};

const WORKER_PROPOSAL: &str = "first the second caller, then its tests";
const MANAGER_PROPOSAL: &str = "first the tests of both callers";

fn propose(text: &str) -> TeamCommand {
    TeamCommand::ProposeNext { text: text.to_owned() }
}

fn choose(choice: ProposalChoice) -> TeamCommand {
    TeamCommand::ChooseNext { choice, because: A_REASON.to_owned() }
}

fn with_both_proposals() -> TestTeam {
    let mut team = TestTeam::paired();
    team.apply(&member("hand"), propose(WORKER_PROPOSAL));
    team.apply(&member("boss"), propose(MANAGER_PROPOSAL));
    team
}

fn messages_to<'d>(team: &'d TestTeam, name: &str) -> Vec<&'d TeamMessage> {
    let to = match name {
        "operator" => Recipient::Operator,
        name => Recipient::Member(name.to_owned()),
    };
    team.task.messages.iter().filter(|message| message.to == to).map(AsRef::as_ref).collect()
}

#[test]
fn worker_proposal_is_hidden_until_manager_proposes() {
    let mut team = TestTeam::paired();
    assert_eq!(team.reject(&member("boss"), propose(MANAGER_PROPOSAL)), TeamRejection::WorkerFirst);
    team.apply(&member("hand"), propose(WORKER_PROPOSAL));
    let round = team.task.next.clone().expect("a round is open");
    assert_eq!(round.visible_to("hand"), (Some(WORKER_PROPOSAL), None));
    for other in ["boss", "eye", "operator"] {
        assert_eq!(round.visible_to(other), (None, None), "{other}");
    }
    let messages: Vec<&TeamMessage> = team.task.messages.iter().map(AsRef::as_ref).collect();
    assert!(messages.iter().all(|message| !message.text.contains(WORKER_PROPOSAL)), "{messages:?}");
    assert_eq!(
        team.reject(&member("hand"), propose("another one, while it waits")).code(),
        "proposed_already"
    );
    team.apply(&member("boss"), propose(MANAGER_PROPOSAL));
    let round = team.task.next.clone().expect("a round is open");
    for name in ["hand", "boss", "eye"] {
        assert_eq!(
            round.visible_to(name),
            (Some(WORKER_PROPOSAL), Some(MANAGER_PROPOSAL)),
            "{name}"
        );
    }
    assert_eq!(
        team.reject(&member("boss"), propose(MANAGER_PROPOSAL)),
        TeamRejection::AlreadyProposed(1)
    );
}

#[test]
fn both_proposals_go_quoted_to_reviewer_only() {
    let team = with_both_proposals();
    let [asked] = messages_to(&team, "eye")[..] else { panic!("{:?}", messages_to(&team, "eye")) };
    // Provost asks with commands that run as written; the proposals are quoted.
    assert_eq!(asked.trust, MessageTrust::Trusted);
    let id = team.task.id.short();
    for choice in ["worker", "manager", "stop"] {
        let command = format!("\n    provost team choose {choice} -t {id} --as eye --because TEXT");
        assert!(asked.text.contains(&command), "{}", asked.text);
    }
    for text in [WORKER_PROPOSAL, MANAGER_PROPOSAL] {
        assert!(asked.text.contains(&format!("\n> {text}")), "{}", asked.text);
    }
    assert!(messages_to(&team, "boss").is_empty() && messages_to(&team, "operator").is_empty());
    let mut team = TestTeam::open(team_spec());
    team.bind("hand", MemberRole::Worker, None);
    team.apply(&member("hand"), propose(WORKER_PROPOSAL));
    team.apply(&TeamActor::Operator, propose(MANAGER_PROPOSAL));
    assert_eq!(messages_to(&team, "operator").len(), 1, "there is no reviewer");
    // The author of a proposal may not choose.
    assert_eq!(
        team.reject(&TeamActor::Operator, choose(ProposalChoice::Manager)),
        TeamRejection::OwnProposal
    );
}

#[test]
fn only_reviewer_chooses_and_needs_both_proposals() {
    let mut team = with_both_proposals();
    for (name, role) in [("hand", MemberRole::Worker), ("boss", MemberRole::Manager)] {
        let why = TeamRejection::NotForRole { role, action: TeamAction::Choose };
        assert_eq!(team.reject(&member(name), choose(ProposalChoice::Worker)), why);
    }
    // A reviewer may propose criteria, so the error must not say that it may not propose.
    assert_eq!(
        team.reject(&member("eye"), propose(WORKER_PROPOSAL)),
        TeamRejection::ReviewerChooses
    );
    team.apply(&member("eye"), choose(ProposalChoice::Worker));
    assert_eq!(team.task.phase, TeamPhase::Active);
    let messages = messages_to(&team, "boss");
    assert!(messages[0].text.contains("the proposal of hand comes next"), "{}", messages[0].text);
    assert_eq!(
        team.reject(&member("eye"), choose(ProposalChoice::Stop)),
        TeamRejection::ProposalsMissing
    );
    // The next round starts like the first.
    assert_eq!(team.reject(&member("boss"), propose(MANAGER_PROPOSAL)), TeamRejection::WorkerFirst);
    team.apply(&member("hand"), propose(WORKER_PROPOSAL));
    assert_eq!(team.task.next.as_ref().map(|round| round.no), Some(2));
    assert_eq!(
        team.reject(&member("eye"), choose(ProposalChoice::Worker)),
        TeamRejection::ProposalsMissing
    );
}

#[test]
fn choosing_stop_pauses_the_team() {
    let mut team = with_both_proposals();
    team.apply(&member("eye"), choose(ProposalChoice::Stop));
    assert!(team.task.is_paused());
    assert_eq!(team.next("hand"), None, "nothing is delivered");
}

#[test]
fn unreachable_reviewer_means_stop() {
    let mut team = with_both_proposals();
    let no = messages_to(&team, "eye")[0].no;
    team.advance();
    assert_eq!(team.task.phase, TeamPhase::Active, "it may still answer");
    team.apply(
        &TeamActor::Operator,
        TeamCommand::DeadLetter { no, reason: "nobody is there".to_owned() },
    );
    team.advance();
    assert!(team.task.is_paused());
    let chosen = team.task.next.as_ref().and_then(|round| round.chosen.clone());
    let (choice, because) = chosen.expect("it is judged");
    assert_eq!(choice, ProposalChoice::Stop);
    assert!(because.contains("eye could not be asked: nobody is there"), "{because}");
    let events = team.events.len();
    team.advance();
    assert_eq!(team.events.len(), events, "once");
}

#[test]
fn failed_reviewer_session_means_stop() {
    let mut harness = TestSession::running(SessionSpec { on_finish: OnFinish::Park, ..spec() });
    harness
        .signal(StreamSignal::TurnStarted { turn: None })
        .signal(TURN_ENDED_OK)
        .signal(TURN_ENDED_OK);
    let mut team = TestTeam::open(team_spec());
    team.now = harness.now.mono_ms;
    team.bind("hand", MemberRole::Worker, None);
    team.bind("eye", MemberRole::Reviewer, Some(harness.session.id));
    team.sessions.insert(harness.session.id, harness.session.clone());
    team.apply(&member("hand"), propose(WORKER_PROPOSAL));
    team.apply(&TeamActor::Operator, propose(MANAGER_PROPOSAL));
    team.advance();
    let no = messages_to(&team, "eye")[0].no;
    assert_eq!(team.message_status(no).as_str(), "offered");
    harness.session = team.sessions[&harness.session.id].clone();
    let queued: Vec<String> =
        harness.session.input.messages.iter().map(|one| one.key.clone()).collect();
    for key in queued {
        harness.signal(StreamSignal::InputWritten { key });
    }
    harness.signal(StreamSignal::TurnStarted { turn: None });
    team.sessions.insert(harness.session.id, harness.session.clone());
    team.advance();
    assert_eq!(
        *team.message_status(no),
        MessageStatus::Acknowledged { by: "eye".to_owned(), lease: 1 }
    );
    assert!(!team.task.is_paused());
    harness.end(ProcessExit::Signal(9));
    harness.settle();
    assert!(harness.sealed());
    team.sessions.insert(harness.session.id, harness.session.clone());
    team.advance();
    assert!(team.task.is_paused(), "{:?}", team.task.next);
}

#[test]
fn meaningless_or_oversized_proposal_is_rejected() {
    let mut team = TestTeam::paired();
    assert!(matches!(team.reject(&member("hand"), propose("ok")), TeamRejection::TextTooShort(_)));
    let long = "x".repeat(provost_core::team::MAX_PROPOSAL + 1);
    assert!(matches!(team.reject(&member("hand"), propose(&long)), TeamRejection::TooLong(_)));
}
