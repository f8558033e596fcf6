//! Compares the outcome of an approved or denied item with the answer.

use provost_core::{
    lifecycle::Flag,
    request::{Asked, Reply, RequestKind, Scope},
    session::{Command, End, EndedBy, Event, Rejected, SendMode, Signal},
};

use crate::kit::{Bench, question, send, spec};

/// A session with an open approval request.
fn asked() -> Bench {
    let mut bench = Bench::running(spec());
    let asked = Asked { kind: RequestKind::Approval, ..question("a") };
    bench.signal(Signal::TurnStarted { turn: None }).signal(Signal::Asked(asked));
    bench
}

fn answered(reply: Reply) -> Bench {
    let mut bench = asked();
    let request = bench.session.requests[0].id;
    bench.tell(Command::Answer { request, revision: 1, reply });
    bench.signal(Signal::InputSeen { key: "answer-1-1".to_owned() });
    bench
}

fn came_out(done: bool) -> Signal {
    Signal::CameOut { native: "a".to_owned(), done }
}

fn is_flagged(bench: &Bench) -> bool {
    bench.has(Flag::SettledOtherwise)
}

#[test]
fn what_was_denied_and_done_or_approved_and_declined_is_flagged() {
    for (reply, done, flagged) in [
        (Reply::Deny, true, true),
        (Reply::Deny, false, false),
        (Reply::Approve(Scope::Once), false, true),
        (Reply::Approve(Scope::Session), true, false),
    ] {
        let mut bench = answered(reply.clone());
        let told = bench.try_signal(came_out(done));
        assert_eq!(told.is_ok(), flagged, "{reply:?}, done: {done}");
        assert_eq!(is_flagged(&bench), flagged, "{reply:?}, done: {done}");
        let otherwise = bench.session.requests[0].otherwise;
        assert_eq!(otherwise, flagged.then_some(done), "{reply:?}, done: {done}");
    }
}

#[test]
fn it_is_told_once_and_only_of_what_was_answered_here() {
    let nothing = Err(Rejected::Nothing);
    let mut bench = asked();
    assert_eq!(bench.try_signal(came_out(true)), nothing, "it was not answered here");
    let mut bench = answered(Reply::Deny);
    let another = Signal::CameOut { native: "another".to_owned(), done: true };
    assert_eq!(bench.try_signal(another), nothing);
    assert_eq!(bench.try_signal(came_out(true)), Ok(()));
    assert_eq!(bench.try_signal(came_out(true)), nothing);
    let told = bench.log.iter().filter(|(_, e)| matches!(e, Event::RequestContradicted(_)));
    assert_eq!(told.count(), 1);
}

#[test]
fn the_next_attempt_is_not_blamed_for_it() {
    let mut bench = answered(Reply::Deny);
    bench.signal(came_out(true));
    assert!(is_flagged(&bench));
    bench.exit(End::Exit(1), EndedBy::Itself).settle();
    assert!(bench.sealed() && is_flagged(&bench));
    bench.tell(send("k", SendMode::Continue));
    assert!(!bench.sealed() && !is_flagged(&bench));
}
