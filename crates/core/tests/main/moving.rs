//! Thread switches: followed when the user continues in another thread, but not for hidden threads.

use provost_core::{
    lifecycle::State,
    request::Fate,
    session::{
        Command, Context, Event, Glimpse, Hinted, MessageFate, Record, Recorded, Rejected, TurnEnd,
        Usage,
    },
};

use crate::{
    kit::{Bench, send},
    watching::{Says as _, approval, terminal},
};

fn named(thread: &str) -> Recorded {
    Recorded::Named { thread: thread.to_owned() }
}

fn hook(bench: &mut Bench, what: Recorded) -> Result<(), Rejected> {
    let launch = bench.launch();
    bench.try_tell(Command::Recorded { launch, by: Record::Hook, place: 0, what })
}

fn moves(bench: &mut Bench, thread: &str) -> Result<(), Rejected> {
    hook(bench, Recorded::Moved { thread: thread.to_owned() })
}

/// A terminal session whose first thread had one turn.
fn talked() -> Bench {
    let mut bench = Bench::running(terminal());
    bench.records(100, named("one")).begins(200, "a").ends(9_000, "a");
    bench
}

fn moved(bench: &Bench) -> Vec<(String, String)> {
    let mut moved = Vec::new();
    for (_, event) in &bench.log {
        if let Event::ThreadMoved(e) = event {
            moved.push((e.from.clone(), e.to.clone()));
        }
    }
    moved
}

#[test]
fn a_person_who_goes_on_in_another_conversation_is_followed_there_and_both_are_recorded() {
    let mut bench = talked();
    assert_eq!(moves(&mut bench, "two"), Ok(()));
    assert_eq!(bench.session.thread.as_deref(), Some("two"));
    assert_eq!(moved(&bench), [("one".to_owned(), "two".to_owned())]);
    assert_eq!(moves(&mut bench, "two"), Err(Rejected::Nothing), "it is recorded once");
    bench.records(50, named("two")).begins(60, "b");
    assert_eq!((bench.state(), bench.session.turns), (State::Working, 2), "places begin anew");
    bench.ends(70, "b");
    assert_eq!(bench.state(), State::Idle);
}

#[test]
fn what_is_still_read_of_the_conversation_that_was_left_says_nothing_of_the_new_one() {
    let mut bench = talked();
    moves(&mut bench, "two").unwrap();
    hook(&mut bench, Recorded::TurnStarted { turn: Some("b".to_owned()) }).unwrap();
    let launch = bench.launch();
    let late = |place, what| Command::Recorded { launch, by: Record::Rollout, place, what };
    let used = Recorded::Used { usage: Usage { input: 5, output: 5 }, context: None };
    let end = Recorded::TurnEnded { turn: None, end: TurnEnd::Interrupted, says: None };
    for (place, what) in (9_100..).zip([used, end, named("one")]) {
        assert_eq!(bench.try_tell(late(place, what)), Err(Rejected::Nothing));
    }
    assert_eq!(bench.state(), State::Working);
    bench.records(50, named("two")).ends(90, "b");
    assert_eq!(bench.state(), State::Idle, "its own places count, though they are smaller");
}

#[test]
fn t08_the_name_of_another_conversation_moves_nothing() {
    let mut bench = talked();
    bench.begins(9_100, "b");
    assert_eq!(hook(&mut bench, named("hidden")), Err(Rejected::Nothing));
    bench.records(9_200, named("hidden"));
    assert_eq!(bench.session.thread.as_deref(), Some("one"));
    assert_eq!((moved(&bench).len(), bench.state()), (0, State::Working));
}

#[test]
fn the_turn_and_the_question_that_were_left_behind_are_over() {
    let mut bench = talked();
    bench.begins(9_100, "b").records(9_200, Recorded::Asked(approval()));
    assert_eq!(bench.state(), State::NeedsInput);
    moves(&mut bench, "two").unwrap();
    assert_eq!(bench.session.requests[0].fate, Fate::AnsweredElsewhere);
    assert_eq!(bench.state(), State::Idle);
    let ends =
        |event: &Event| matches!(event, Event::TurnEnded(e) if e.end == TurnEnd::Interrupted);
    assert!(bench.log.iter().any(|(_, event)| ends(event)));
}

#[test]
fn how_full_the_old_conversation_was_is_not_true_of_the_new_one() {
    let mut bench = talked();
    let context = Some(Context { used: 90, window: 100 });
    bench.records(9_100, Recorded::Used { usage: Usage::default(), context });
    moves(&mut bench, "two").unwrap();
    assert_eq!(bench.session.context, None);
}

#[test]
fn a_text_that_was_typed_into_the_new_conversation_is_proved_there() {
    let mut bench = talked();
    bench.shows(Glimpse::Osc, 10, Hinted::AtPrompt);
    bench.tell(send("one", provost_core::session::SendMode::Continue));
    let text = bench.session.messages[0].text.clone();
    bench.signal(provost_core::session::Signal::InputSeen { key: "one".to_owned() });
    moves(&mut bench, "two").unwrap();
    hook(&mut bench, Recorded::Prompted { text }).unwrap();
    assert!(matches!(bench.session.messages[0].fate, MessageFate::Delivered { .. }));
}

#[test]
fn going_back_and_forth_is_followed_and_remembered() {
    let mut bench = talked();
    for thread in ["two", "one", "three"] {
        moves(&mut bench, thread).unwrap();
        bench.records(50, named(thread));
    }
    let left = &bench.session.current_launch().unwrap().watch.left;
    assert_eq!(
        (left.as_slice(), moved(&bench).len()),
        (["two".to_owned(), "one".to_owned()].as_slice(), 3)
    );
    for no in 0..100 {
        moves(&mut bench, &format!("thread-{no}")).unwrap();
    }
    assert_eq!(bench.session.current_launch().unwrap().watch.left.len(), 64);
}
