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
    let mut desk = TestTeam::paired();
    desk.apply(&member("hand"), propose(WORKER_PROPOSAL));
    desk.apply(&member("boss"), propose(MANAGER_PROPOSAL));
    desk
}

fn messages_to<'d>(desk: &'d TestTeam, name: &str) -> Vec<&'d TeamMessage> {
    let to = match name {
        "operator" => Recipient::Operator,
        name => Recipient::Member(name.to_owned()),
    };
    desk.task.messages.iter().filter(|message| message.to == to).map(AsRef::as_ref).collect()
}

#[test]
fn worker_proposal_is_hidden_until_manager_proposes() {
    let mut desk = TestTeam::paired();
    assert_eq!(desk.reject(&member("boss"), propose(MANAGER_PROPOSAL)), TeamRejection::WorkerFirst);
    desk.apply(&member("hand"), propose(WORKER_PROPOSAL));
    let round = desk.task.next.clone().expect("a round is open");
    assert_eq!(round.visible_to("hand"), (Some(WORKER_PROPOSAL), None));
    for other in ["boss", "eye", "operator"] {
        assert_eq!(round.visible_to(other), (None, None), "{other}");
    }
    let told: Vec<&TeamMessage> = desk.task.messages.iter().map(AsRef::as_ref).collect();
    assert!(told.iter().all(|message| !message.text.contains(WORKER_PROPOSAL)), "{told:?}");
    assert_eq!(
        desk.reject(&member("hand"), propose("another one, while it waits")).code(),
        "proposed_already"
    );
    desk.apply(&member("boss"), propose(MANAGER_PROPOSAL));
    let round = desk.task.next.clone().expect("a round is open");
    for name in ["hand", "boss", "eye"] {
        assert_eq!(
            round.visible_to(name),
            (Some(WORKER_PROPOSAL), Some(MANAGER_PROPOSAL)),
            "{name}"
        );
    }
    assert_eq!(
        desk.reject(&member("boss"), propose(MANAGER_PROPOSAL)),
        TeamRejection::AlreadyProposed(1)
    );
}

#[test]
fn both_proposals_go_quoted_to_reviewer_only() {
    let desk = with_both_proposals();
    let [asked] = messages_to(&desk, "eye")[..] else { panic!("{:?}", messages_to(&desk, "eye")) };
    // Provost asks with commands that run as written; the proposals are quoted.
    assert_eq!(asked.trust, MessageTrust::Trusted);
    let id = desk.task.id;
    for choice in ["worker", "manager", "stop"] {
        let command = format!("\n    provost team choose {choice} -t {id} --as eye --because TEXT");
        assert!(asked.text.contains(&command), "{}", asked.text);
    }
    for text in [WORKER_PROPOSAL, MANAGER_PROPOSAL] {
        assert!(asked.text.contains(&format!("\n> {text}")), "{}", asked.text);
    }
    assert!(messages_to(&desk, "boss").is_empty() && messages_to(&desk, "operator").is_empty());
    let mut desk = TestTeam::open(team_spec());
    desk.bind("hand", MemberRole::Worker, None);
    desk.apply(&member("hand"), propose(WORKER_PROPOSAL));
    desk.apply(&TeamActor::Operator, propose(MANAGER_PROPOSAL));
    assert_eq!(messages_to(&desk, "operator").len(), 1, "there is no reviewer");
    // The author of a proposal may not choose.
    assert_eq!(
        desk.reject(&TeamActor::Operator, choose(ProposalChoice::Manager)),
        TeamRejection::OwnProposal
    );
}

#[test]
fn only_reviewer_chooses_and_needs_both_proposals() {
    let mut desk = with_both_proposals();
    for (name, role) in [("hand", MemberRole::Worker), ("boss", MemberRole::Manager)] {
        let why = TeamRejection::NotForRole { role, action: TeamAction::Choose };
        assert_eq!(desk.reject(&member(name), choose(ProposalChoice::Worker)), why);
    }
    // A reviewer may propose criteria, so the error must not say that it may not propose.
    assert_eq!(
        desk.reject(&member("eye"), propose(WORKER_PROPOSAL)),
        TeamRejection::ReviewerChooses
    );
    desk.apply(&member("eye"), choose(ProposalChoice::Worker));
    assert_eq!(desk.task.phase, TeamPhase::Active);
    let told = messages_to(&desk, "boss");
    assert!(told[0].text.contains("the proposal of hand comes next"), "{}", told[0].text);
    assert_eq!(
        desk.reject(&member("eye"), choose(ProposalChoice::Stop)),
        TeamRejection::ProposalsMissing
    );
    // The next round starts like the first.
    assert_eq!(desk.reject(&member("boss"), propose(MANAGER_PROPOSAL)), TeamRejection::WorkerFirst);
    desk.apply(&member("hand"), propose(WORKER_PROPOSAL));
    assert_eq!(desk.task.next.as_ref().map(|round| round.no), Some(2));
    assert_eq!(
        desk.reject(&member("eye"), choose(ProposalChoice::Worker)),
        TeamRejection::ProposalsMissing
    );
}

#[test]
fn choosing_stop_pauses_the_team() {
    let mut desk = with_both_proposals();
    desk.apply(&member("eye"), choose(ProposalChoice::Stop));
    assert!(desk.task.is_paused());
    assert_eq!(desk.next("hand"), None, "nothing is delivered");
}

#[test]
fn unreachable_reviewer_means_stop() {
    let mut desk = with_both_proposals();
    let no = messages_to(&desk, "eye")[0].no;
    desk.advance();
    assert_eq!(desk.task.phase, TeamPhase::Active, "it may still answer");
    desk.apply(
        &TeamActor::Operator,
        TeamCommand::DeadLetter { no, reason: "nobody is there".to_owned() },
    );
    desk.advance();
    assert!(desk.task.is_paused());
    let chosen = desk.task.next.as_ref().and_then(|round| round.chosen.clone());
    let (choice, because) = chosen.expect("it is judged");
    assert_eq!(choice, ProposalChoice::Stop);
    assert!(because.contains("eye could not be asked: nobody is there"), "{because}");
    let events = desk.events.len();
    desk.advance();
    assert_eq!(desk.events.len(), events, "once");
}

#[test]
fn failed_reviewer_session_means_stop() {
    let mut bench = TestSession::running(SessionSpec { on_finish: OnFinish::Park, ..spec() });
    bench
        .signal(StreamSignal::TurnStarted { turn: None })
        .signal(TURN_ENDED_OK)
        .signal(TURN_ENDED_OK);
    let mut desk = TestTeam::open(team_spec());
    desk.now = bench.now.mono_ms;
    desk.bind("hand", MemberRole::Worker, None);
    desk.bind("eye", MemberRole::Reviewer, Some(bench.session.id));
    desk.sessions.insert(bench.session.id, bench.session.clone());
    desk.apply(&member("hand"), propose(WORKER_PROPOSAL));
    desk.apply(&TeamActor::Operator, propose(MANAGER_PROPOSAL));
    desk.advance();
    let no = messages_to(&desk, "eye")[0].no;
    assert_eq!(desk.message_status(no).as_str(), "offered");
    bench.session = desk.sessions[&bench.session.id].clone();
    let queued: Vec<String> = bench.session.messages.iter().map(|one| one.key.clone()).collect();
    for key in queued {
        bench.signal(StreamSignal::InputWritten { key });
    }
    bench.signal(StreamSignal::TurnStarted { turn: None });
    desk.sessions.insert(bench.session.id, bench.session.clone());
    desk.advance();
    assert_eq!(
        *desk.message_status(no),
        MessageStatus::Acknowledged { by: "eye".to_owned(), lease: 1 }
    );
    assert!(!desk.task.is_paused());
    bench.end(ProcessExit::Signal(9));
    bench.settle();
    assert!(bench.sealed());
    desk.sessions.insert(bench.session.id, bench.session.clone());
    desk.advance();
    assert!(desk.task.is_paused(), "{:?}", desk.task.next);
}

#[test]
fn meaningless_or_oversized_proposal_is_rejected() {
    let mut desk = TestTeam::paired();
    assert!(matches!(desk.reject(&member("hand"), propose("ok")), TeamRejection::TextTooShort(_)));
    let long = "x".repeat(provost_core::team::MAX_PROPOSAL + 1);
    assert!(matches!(desk.reject(&member("hand"), propose(&long)), TeamRejection::TooLong(_)));
}
