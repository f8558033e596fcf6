//! Requests inferred from the screen: shown with their source, ignored by policy rules, never mixed up.

use provost_core::{
    lifecycle::State,
    policy::{Decision, Matcher, Policy, Rule},
    request::{Asked, Fate, Reply, RequestKind, Scope, Subject},
    session::{Glimpse, Hinted, MessageFate, Recorded, Signal, Spec},
};

use crate::{
    kit::Bench,
    watching::{Says as _, approval, delivery, terminal},
};

fn running(command: &str) -> Hinted {
    let subject = Subject { command: Some(command.to_owned()), ..Subject::default() };
    Hinted::Asks(Asked { subject: Some(Box::new(subject)), ..approval() })
}

fn command(bench: &Bench, no: usize) -> Option<&str> {
    bench.session.requests[no].asked.subject.as_deref()?.command.as_deref()
}

#[test]
fn the_screen_adds_what_is_asked_to_what_a_code_told_before() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").shows(Glimpse::Osc, 20, Hinted::Asks(approval()));
    assert_eq!(command(&bench, 0), None);
    bench.shows(Glimpse::Screen, 30, running("ls"));
    assert_eq!((bench.session.requests.len(), command(&bench, 0)), (1, Some("ls")));
    let request = &bench.session.requests[0];
    let subject = request.asked.subject.as_deref().unwrap();
    assert_eq!((request.revision, subject.guessed_by), (2, Some(Glimpse::Screen)));
    bench.shows(Glimpse::Osc, 40, Hinted::Working);
    assert_eq!(bench.state(), State::Working);
}

#[test]
fn a_title_says_that_somebody_is_needed_and_a_code_for_what() {
    let mut bench = Bench::running(terminal());
    let dialog = Asked { kind: RequestKind::Dialog, ..approval() };
    bench.begins(10, "a").shows(Glimpse::Title, 20, Hinted::Asks(dialog));
    bench.shows(Glimpse::Osc, 30, Hinted::Asks(approval()));
    let request = &bench.session.requests[0];
    assert_eq!((request.asked.kind, request.revision), (RequestKind::Approval, 2));
    bench.shows(Glimpse::Notify, 40, Hinted::Asks(approval()));
    assert_eq!(bench.session.requests[0].revision, 2, "that says nothing new");
}

#[test]
fn a_screen_that_is_behind_does_not_settle_what_a_code_told() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").shows(Glimpse::Osc, 20, Hinted::Asks(approval()));
    bench.shows(Glimpse::Screen, 30, Hinted::Working);
    assert_eq!(bench.state(), State::NeedsInput, "its question is yet to be drawn");
    bench.shows(Glimpse::Osc, 40, Hinted::Working);
    assert_eq!(bench.state(), State::Working);
}

#[test]
fn what_the_agent_itself_asked_is_not_overwritten_by_its_screen() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").records(20, Recorded::Asked(approval()));
    bench.shows(Glimpse::Screen, 30, running("ls"));
    assert_eq!((bench.session.requests.len(), command(&bench, 0)), (1, None));
}

#[test]
fn another_dialog_in_the_same_place_is_another_request() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").shows(Glimpse::Screen, 20, running("ls"));
    bench.shows(Glimpse::Screen, 30, running("rm -rf all"));
    let fates: Vec<Fate> = bench.session.requests.iter().map(|request| request.fate).collect();
    assert_eq!(fates, [Fate::AnsweredElsewhere, Fate::Open]);
    assert_eq!(command(&bench, 1), Some("rm -rf all"));
}

#[test]
fn an_answer_for_a_dialog_is_not_kept_for_the_next_one() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").shows(Glimpse::Screen, 20, running("ls"));
    let launch = bench.launch();
    bench.tell(provost_core::session::Command::PeopleAttached { launch, people: 1 });
    let (request, reply) = (bench.session.requests[0].id, Reply::Approve(Scope::Once));
    bench.tell(provost_core::session::Command::Answer { request, revision: 1, reply });
    bench.shows(Glimpse::Screen, 30, running("rm -rf all"));
    bench.tell(provost_core::session::Command::PeopleAttached { launch, people: 0 });
    assert!(matches!(bench.session.messages[0].fate, MessageFate::Undeliverable { .. }));
    assert_eq!((delivery(&bench), bench.state()), (None, State::NeedsInput));
}

#[test]
fn an_answer_that_was_typed_is_proved_by_the_next_dialog() {
    let mut bench = Bench::running(terminal());
    bench.begins(10, "a").shows(Glimpse::Screen, 20, running("ls"));
    let (request, reply) = (bench.session.requests[0].id, Reply::Approve(Scope::Once));
    bench.tell(provost_core::session::Command::Answer { request, revision: 1, reply });
    let key = delivery(&bench).unwrap();
    bench.signal(Signal::InputSeen { key }).shows(Glimpse::Screen, 30, running("rm -rf all"));
    assert!(matches!(bench.session.messages[0].fate, MessageFate::Delivered { .. }));
    assert_eq!((bench.session.requests.len(), bench.state()), (2, State::NeedsInput));
}

#[test]
fn no_rule_acts_on_a_guess() {
    let matches = Matcher::Command(vec!["ls".to_owned()]);
    let rules = vec![Rule { decision: Decision::Allow, matches }];
    let policy = Policy { rules, ..Policy::default() };
    let mut bench = Bench::running(Spec { policy, ..terminal() });
    bench.begins(10, "a").shows(Glimpse::Screen, 20, running("ls"));
    assert_eq!((bench.state(), bench.session.messages.len()), (State::NeedsInput, 0));
    bench.shows(Glimpse::Screen, 30, Hinted::Working);
    let Hinted::Asks(asked) = running("ls") else { unreachable!("it asks") };
    bench.records(40, Recorded::Asked(asked));
    assert_eq!(bench.session.messages.len(), 0, "a hook does not say where the command would run");
}
