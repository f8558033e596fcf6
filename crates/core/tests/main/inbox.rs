//! Messages to an agent: queued, delivered in order, or reported as lost.

use provost_core::{
    lifecycle::{ClaimKind, State},
    limits::MAX_QUEUED,
    session::{
        Command, Effect, End, EndedBy, Input, LaunchWhy, MessageFate, Rejected, SendMode, Signal,
        Spec,
    },
};

use crate::kit::{Bench, OVER, command_spec, send, snapshot, spec};

fn seen(key: &str) -> Signal {
    Signal::InputSeen { key: key.to_owned() }
}

fn lost(key: &str) -> Command {
    Command::MessageLost { key: key.to_owned(), reason: "gone".to_owned() }
}

/// Returns the key of the message to deliver next.
fn delivery(bench: &Bench) -> Option<String> {
    bench.session.effects().into_iter().find_map(|effect| {
        let Effect::Deliver { message, .. } = effect else { return None };
        Some(message)
    })
}

/// A plain command with an open standard input.
fn reading() -> Spec {
    let mut spec = command_spec();
    spec.agent.input = Input::Open;
    spec
}

#[test]
fn messages_are_delivered_one_by_one_in_their_order() {
    let mut bench = Bench::new(spec());
    bench.tell(send("first", SendMode::Continue));
    bench.tell(Command::WorkPrepared { cwd: "/work".to_owned(), base: Some(snapshot("old")) });
    assert_eq!(delivery(&bench), None, "no process is running yet");
    bench.start();
    for key in ["instruction-1", "first"] {
        assert_eq!(delivery(&bench).as_deref(), Some(key));
        bench.signal(seen(key));
    }
    assert_eq!(delivery(&bench), None);
}

#[test]
fn an_agent_that_is_being_ended_is_told_nothing_more() {
    let mut bench = Bench::running(spec());
    assert!(delivery(&bench).is_some());
    bench.tell(Command::Stop);
    assert_eq!(delivery(&bench), None);
}

#[test]
fn a_message_is_delivered_or_lost_once_and_its_text_forgotten() {
    let mut bench = Bench::running(spec());
    bench.tell(send("a", SendMode::Continue)).tell(send("b", SendMode::Continue));
    bench.signal(seen("a")).tell(lost("b"));
    let observed = Command::Observed {
        launch: bench.launch(),
        signal: seen("a"),
        cursor: bench.session.launches[0].cursor,
    };
    assert_eq!(bench.try_tell(observed), Err(Rejected::Nothing));
    assert_eq!(bench.try_tell(lost("a")), Err(Rejected::Nothing));
    assert_eq!(bench.try_tell(lost("b")), Err(Rejected::Nothing));
    let fates: Vec<(&MessageFate, &str)> =
        bench.session.messages.iter().map(|m| (&m.fate, m.text.as_str())).collect();
    let launch = bench.launch();
    assert_eq!(
        fates,
        [
            (&MessageFate::Queued, "do it"),
            (&MessageFate::Delivered { launch }, ""),
            (&MessageFate::Undeliverable { reason: "gone".to_owned() }, ""),
        ]
    );
}

#[test]
fn input_that_was_never_queued_is_nothing() {
    let mut bench = Bench::running(spec());
    let cursor = bench.session.launches[0].cursor;
    let forged = Command::Observed { launch: bench.launch(), signal: seen("forged"), cursor };
    assert_eq!(bench.try_tell(forged), Err(Rejected::Nothing));
}

#[test]
fn messages_beyond_the_bound_are_refused_until_some_are_taken() {
    let mut bench = Bench::running(spec());
    for no in 1..MAX_QUEUED {
        bench.tell(send(&no.to_string(), SendMode::Continue));
    }
    let more = send("one more", SendMode::Continue);
    assert_eq!(bench.try_tell(more.clone()), Err(Rejected::QueueFull(MAX_QUEUED)));
    bench.signal(seen("instruction-1")).tell(more);
}

#[test]
fn a_plain_command_takes_input_only_if_it_was_given_one_and_runs() {
    let takes_none = Err(Rejected::TakesNoInstruction("test".to_owned()));
    let steer = send("a", SendMode::Continue);
    let mut deaf = Bench::running(command_spec());
    assert_eq!(deaf.try_tell(steer.clone()), takes_none);

    let mut bench = Bench::new(reading());
    assert_eq!(bench.try_tell(steer.clone()), Err(Rejected::NotRunning));
    bench.tell(Command::WorkPrepared { cwd: "/work".to_owned(), base: None });
    bench.start();
    bench.tell(steer);
    assert_eq!(bench.try_tell(send("b", SendMode::Supersede)), takes_none, "it has no next one");
    bench.exit(End::Exit(0), EndedBy::Itself);
    assert_eq!(bench.try_tell(send("c", SendMode::Continue)), Err(Rejected::NotRunning));
    bench.settle();
    assert_eq!(bench.try_tell(send("d", SendMode::Continue)), takes_none);
}

#[test]
fn what_listens_is_what_has_a_protocol_or_an_open_input() {
    assert!(spec().agent.listens());
    assert!(reading().agent.listens());
    assert!(!command_spec().agent.listens());
}

#[test]
fn a_cancelled_session_takes_no_more_messages() {
    let mut bench = Bench::running(spec());
    bench.tell(Command::Cancel { because: "no".to_owned() });
    assert_eq!(bench.try_tell(send("a", SendMode::Continue)), Err(Rejected::Cancelled));
}

#[test]
fn what_is_sent_after_the_seal_opens_the_next_attempt() {
    for mode in [SendMode::Continue, SendMode::Supersede] {
        let mut bench = Bench::running(spec());
        bench.claim(ClaimKind::Completed).end(End::Exit(0)).settle().tell(send("more", mode));
        let attempt = bench.session.attempt();
        assert_eq!((attempt.no, attempt.instruction.as_deref()), (2, Some("the text of more")));
        let message = bench.session.messages.last().unwrap();
        assert_eq!((message.key.as_str(), message.attempt), ("instruction-2", 2));
        let first = bench.session.attempts[0].sealed.as_ref().unwrap();
        assert_eq!(first.judgement.state, State::Completed, "what ended was not superseded");
    }
}

#[test]
fn only_an_agent_that_ended_in_need_of_input_is_resumed_by_a_message() {
    let steer = send("a", SendMode::Continue);
    let mut ended = Bench::running(spec());
    ended.end(End::Exit(0)).tell(steer.clone());
    assert_eq!(ended.session.launches.len(), 1);

    let mut waiting = Bench::running(spec());
    waiting.claim(ClaimKind::NeedsInput).signal(OVER).tell(steer);
    assert_eq!((waiting.state(), waiting.session.launches.len()), (State::NeedsInput, 1));

    waiting.end(End::Exit(0)).tell(send("b", SendMode::Continue));
    assert_eq!(waiting.session.launches[1].why, LaunchWhy::Answer);
}

#[test]
fn what_is_said_while_the_operator_stops_it_is_refused_until_it_has_ended() {
    let mut bench = Bench::running(spec());
    bench.tell(Command::Stop);
    let said = send("a", SendMode::Continue);
    assert_eq!(bench.try_tell(said.clone()), Err(Rejected::EndsUnheard));
    bench.end_by(End::Signal(15), EndedBy::Provost);
    assert_eq!(bench.try_tell(said.clone()), Err(Rejected::EndsUnheard), "its end is not sealed");
    bench.settle();
    assert!(bench.sealed() && bench.session.messages.iter().all(|m| m.key != "a"));
    bench.tell(said);
    assert_eq!(bench.session.attempt().no, 2, "it continues with that");

    let mut waiting = Bench::running(spec());
    waiting.claim(ClaimKind::NeedsInput).signal(OVER).tell(Command::Stop);
    waiting.end_by(End::Signal(15), EndedBy::Provost).tell(send("b", SendMode::Continue));
    assert_eq!(waiting.session.launches[1].why, LaunchWhy::Answer);
}

#[test]
fn what_still_waits_at_the_seal_is_told_as_lost() {
    let mut bench = Bench::running(spec());
    bench.tell(send("a", SendMode::Continue)).claim(ClaimKind::Completed).end(End::Exit(0));
    bench.settle();
    assert!(bench.sealed());
    let lost = |m: &provost_core::session::Message| {
        m.fate == MessageFate::Undeliverable { reason: "the session ended first".to_owned() }
    };
    assert!(bench.session.messages.iter().all(lost));
}
