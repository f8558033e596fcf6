//! Blind proposals for the next step by worker and manager, and the reviewer's choice.

use provost_core::{
    session::{Afterwards, End, Signal, Spec},
    task::{
        Action, Actor, Address, Choice, Command, Message, Phase, Rejected, Role, Standing, Trust,
    },
};

use super::kit::{A_REASON, Desk, member, task_spec};
use crate::kit::{Bench, OVER, spec};

const MINE: &str = "first the second caller, then its tests";
const THEIRS: &str = "first the tests of both callers";

fn propose(text: &str) -> Command {
    Command::ProposeNext { text: text.to_owned() }
}

fn choose(choice: Choice) -> Command {
    Command::ChooseNext { choice, because: A_REASON.to_owned() }
}

fn proposed() -> Desk {
    let mut desk = Desk::paired();
    desk.done(&member("hand"), propose(MINE));
    desk.done(&member("boss"), propose(THEIRS));
    desk
}

fn to<'d>(desk: &'d Desk, name: &str) -> Vec<&'d Message> {
    let to = match name {
        "operator" => Address::Operator,
        name => Address::Member(name.to_owned()),
    };
    desk.task.messages.iter().filter(|message| message.to == to).map(AsRef::as_ref).collect()
}

#[test]
fn the_worker_writes_first_and_nobody_sees_it_before_the_manager_wrote_its_own() {
    let mut desk = Desk::paired();
    assert_eq!(desk.refused(&member("boss"), propose(THEIRS)), Rejected::WorkerFirst);
    desk.done(&member("hand"), propose(MINE));
    let round = desk.task.next.clone().expect("a round is open");
    assert_eq!(round.seen_by("hand"), (Some(MINE), None));
    for other in ["boss", "eye", "operator"] {
        assert_eq!(round.seen_by(other), (None, None), "{other}");
    }
    let told: Vec<&Message> = desk.task.messages.iter().map(AsRef::as_ref).collect();
    assert!(told.iter().all(|message| !message.text.contains(MINE)), "{told:?}");
    assert_eq!(
        desk.refused(&member("hand"), propose("another one, while it waits")).code(),
        "proposed_already"
    );
    desk.done(&member("boss"), propose(THEIRS));
    let round = desk.task.next.clone().expect("a round is open");
    for name in ["hand", "boss", "eye"] {
        assert_eq!(round.seen_by(name), (Some(MINE), Some(THEIRS)), "{name}");
    }
    assert_eq!(desk.refused(&member("boss"), propose(THEIRS)), Rejected::Proposed(1));
}

#[test]
fn both_go_to_who_reviews_quoted_and_to_nobody_else() {
    let desk = proposed();
    let [asked] = to(&desk, "eye")[..] else { panic!("{:?}", to(&desk, "eye")) };
    // Provost asks with commands that run as written; the proposals are quoted.
    assert_eq!(asked.trust, Trust::Instructs);
    let id = desk.task.id;
    for choice in ["worker", "manager", "stop"] {
        let command =
            format!("\n    provost task choose {choice} --task {id} --as eye --because TEXT");
        assert!(asked.text.contains(&command), "{}", asked.text);
    }
    for text in [MINE, THEIRS] {
        assert!(asked.text.contains(&format!("\n> {text}")), "{}", asked.text);
    }
    assert!(to(&desk, "boss").is_empty() && to(&desk, "operator").is_empty());
    let mut desk = Desk::open(task_spec());
    desk.bind("hand", Role::Worker, None);
    desk.done(&member("hand"), propose(MINE));
    desk.done(&Actor::Operator, propose(THEIRS));
    assert_eq!(to(&desk, "operator").len(), 1, "there is no reviewer");
    // The author of a proposal may not choose.
    assert_eq!(desk.refused(&Actor::Operator, choose(Choice::Manager)), Rejected::OwnProposal);
}

#[test]
fn only_who_reviews_chooses_and_only_between_two() {
    let mut desk = proposed();
    for (name, role) in [("hand", Role::Worker), ("boss", Role::Manager)] {
        let why = Rejected::NotForRole { role, action: Action::Choose };
        assert_eq!(desk.refused(&member(name), choose(Choice::Worker)), why);
    }
    // A reviewer may propose criteria, so the error must not say that it may not propose.
    assert_eq!(desk.refused(&member("eye"), propose(MINE)), Rejected::ReviewerChooses);
    desk.done(&member("eye"), choose(Choice::Worker));
    assert_eq!(desk.task.phase, Phase::Active);
    let told = to(&desk, "boss");
    assert!(told[0].text.contains("the proposal of hand comes next"), "{}", told[0].text);
    assert_eq!(desk.refused(&member("eye"), choose(Choice::Stop)), Rejected::NotBoth);
    // The next round starts like the first.
    assert_eq!(desk.refused(&member("boss"), propose(THEIRS)), Rejected::WorkerFirst);
    desk.done(&member("hand"), propose(MINE));
    assert_eq!(desk.task.next.as_ref().map(|round| round.no), Some(2));
    assert_eq!(desk.refused(&member("eye"), choose(Choice::Worker)), Rejected::NotBoth);
}

#[test]
fn a_stop_pauses_the_task() {
    let mut desk = proposed();
    desk.done(&member("eye"), choose(Choice::Stop));
    assert!(desk.task.is_paused());
    assert_eq!(desk.next("hand"), None, "nothing is delivered");
}

#[test]
fn a_reviewer_that_cannot_be_asked_means_stop() {
    let mut desk = proposed();
    let no = to(&desk, "eye")[0].no;
    desk.settle();
    assert_eq!(desk.task.phase, Phase::Active, "it may still answer");
    desk.done(&Actor::Operator, Command::Bury { no, reason: "nobody is there".to_owned() });
    desk.settle();
    assert!(desk.task.is_paused());
    let chosen = desk.task.next.as_ref().and_then(|round| round.chosen.clone());
    let (choice, because) = chosen.expect("it is judged");
    assert_eq!(choice, Choice::Stop);
    assert!(because.contains("eye could not be asked: nobody is there"), "{because}");
    let events = desk.events.len();
    desk.settle();
    assert_eq!(desk.events.len(), events, "once");
}

#[test]
fn a_reviewer_whose_session_fails_after_it_was_asked_means_stop() {
    let mut bench = Bench::running(Spec { afterwards: Afterwards::Park, ..spec() });
    bench.signal(Signal::TurnStarted { turn: None }).signal(OVER).signal(OVER);
    let mut desk = Desk::open(task_spec());
    desk.now = bench.now.mono_ms;
    desk.bind("hand", Role::Worker, None);
    desk.bind("eye", Role::Reviewer, Some(bench.session.id));
    desk.sessions.insert(bench.session.id, bench.session.clone());
    desk.done(&member("hand"), propose(MINE));
    desk.done(&Actor::Operator, propose(THEIRS));
    desk.settle();
    let no = to(&desk, "eye")[0].no;
    assert_eq!(desk.standing(no).word(), "offered");
    bench.session = desk.sessions[&bench.session.id].clone();
    let queued: Vec<String> = bench.session.messages.iter().map(|one| one.key.clone()).collect();
    for key in queued {
        bench.signal(Signal::InputSeen { key });
    }
    bench.signal(Signal::TurnStarted { turn: None });
    desk.sessions.insert(bench.session.id, bench.session.clone());
    desk.settle();
    assert_eq!(*desk.standing(no), Standing::Acknowledged { by: "eye".to_owned(), lease: 1 });
    assert!(!desk.task.is_paused());
    bench.end(End::Signal(9));
    bench.settle();
    assert!(bench.sealed());
    desk.sessions.insert(bench.session.id, bench.session.clone());
    desk.settle();
    assert!(desk.task.is_paused(), "{:?}", desk.task.next);
}

#[test]
fn proposals_say_something_and_are_not_endless() {
    let mut desk = Desk::paired();
    assert!(matches!(desk.refused(&member("hand"), propose("ok")), Rejected::SaysNothing(_)));
    let long = "x".repeat(provost_core::task::MAX_PROPOSAL + 1);
    assert!(matches!(desk.refused(&member("hand"), propose(&long)), Rejected::TooLong(_)));
}
