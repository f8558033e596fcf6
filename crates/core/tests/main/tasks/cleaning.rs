//! Clean-up of a worker's conversation runs once, before the next iteration begins.

use provost_core::{
    ids::SessionId,
    session::{Afterwards, Budget, Effect, Membership, Signal, Spec, Usage},
    task::{CleanUp, Command, Event, LoopEnd, Role, Template},
};

use super::kit::{Desk, member, task_spec, template};
use crate::kit::{Bench, OVER, spec};

/// A loop with an idle worker and a requested next iteration.
fn asked(clean_up: CleanUp) -> (Desk, Bench, u32) {
    let mut as_member = Spec { afterwards: Afterwards::Park, ..spec() };
    as_member.agent.settings.member = Some(Membership { role: Role::Worker });
    let mut bench = Bench::running(as_member);
    bench.signal(Signal::Ready { thread: Some("first".to_owned()) });
    bench.signal(Signal::InputSeen { key: "instruction-1".to_owned() });
    bench.signal(Signal::TurnStarted { turn: None }).signal(OVER);
    let mut desk = Desk::open(task_spec());
    desk.bind("boss", Role::Manager, None);
    desk.bind("hand", Role::Worker, Some(bench.session.id));
    desk.bind("eye", Role::Reviewer, None);
    desk.done(&member("boss"), Command::AcknowledgeContract { revision: 0 });
    desk.begin_loop(Template { clean_up, ..template(5) });
    desk.show_all("one");
    let no = desk.continues(2).expect("its evidence is there");
    (desk, bench, no)
}

fn meet(desk: &mut Desk, bench: &mut Bench) {
    desk.now = desk.now.max(bench.now.mono_ms);
    let id: SessionId = bench.session.id;
    desk.sessions.insert(id, bench.session.clone());
    desk.settle();
    bench.session = desk.sessions[&id].clone();
    bench.advance();
    desk.sessions.insert(id, bench.session.clone());
}

fn cleaned(desk: &Desk) -> Vec<&Event> {
    desk.events.iter().filter(|event| matches!(event, Event::CleanedUp(_))).collect()
}

fn queued(bench: &Bench) -> Vec<(String, String)> {
    let queued = bench.session.messages.iter().filter(|one| !one.text.is_empty());
    queued.map(|one| (one.key.clone(), one.text.clone())).collect()
}

#[test]
fn a_conversation_is_compacted_before_the_continuation_is_given() {
    let (mut desk, mut bench, no) = asked(CleanUp::Compact);
    meet(&mut desk, &mut bench);
    meet(&mut desk, &mut bench);
    assert_eq!(cleaned(&desk).len(), 1, "once");
    assert_eq!(desk.standing(no).word(), "stored", "it waits for that");
    let key = bench.session.messages.last().expect("it is asked for").key.clone();
    assert!(bench.session.is_compacting());
    bench.signal(Signal::InputSeen { key });
    meet(&mut desk, &mut bench);
    assert_eq!(desk.standing(no).word(), "stored");
    bench.signal(Signal::Compacted);
    meet(&mut desk, &mut bench);
    assert_eq!(desk.standing(no).word(), "offered");
    assert_eq!((cleaned(&desk).len(), bench.session.compactions), (1, 1));
}

/// A worker claims completion of each iteration: its work is sealed, but its conversation remains.
#[test]
fn a_conversation_is_compacted_though_its_last_work_is_over() {
    let (mut desk, mut bench, no) = asked(CleanUp::Compact);
    bench.claim(provost_core::lifecycle::ClaimKind::Completed).settle();
    assert!(bench.sealed());
    meet(&mut desk, &mut bench);
    let [Event::CleanedUp(asked)] = cleaned(&desk)[..] else { panic!("it is asked for") };
    assert_eq!(asked.skipped, None);
    let key = bench.session.messages.last().expect("it is asked for").key.clone();
    let deliver = Effect::Deliver { launch: bench.launch(), message: key.clone() };
    assert!(bench.owes(&deliver), "{:?}", bench.session.effects());
    bench.signal(Signal::InputSeen { key });
    bench.signal(Signal::TurnStarted { turn: None });
    meet(&mut desk, &mut bench);
    assert_eq!((desk.standing(no).word(), bench.session.attempt().no), ("stored", 1));
    bench.signal(Signal::Compacted).signal(OVER);
    meet(&mut desk, &mut bench);
    assert_eq!((desk.standing(no).word(), bench.session.attempt().no), ("offered", 2));
    assert_eq!((cleaned(&desk).len(), bench.session.compactions), (1, 1));
}

#[test]
fn a_compaction_after_the_work_that_never_ends_is_given_up() {
    let (mut desk, mut bench, no) = asked(CleanUp::Compact);
    bench.claim(provost_core::lifecycle::ClaimKind::Completed).settle();
    meet(&mut desk, &mut bench);
    let key = bench.session.messages.last().expect("it is asked for").key.clone();
    bench.signal(Signal::InputSeen { key });
    bench.signal(Signal::TurnStarted { turn: None });
    bench.settle();
    assert!(!bench.session.is_compacting());
    meet(&mut desk, &mut bench);
    let skipped = |event: &&Event| matches!(event, Event::CleanedUp(one) if one.skipped.is_some());
    assert_eq!(cleaned(&desk).into_iter().filter(skipped).count(), 1);
    assert_eq!(desk.standing(no).word(), "offered");
}

#[test]
fn a_new_conversation_is_begun_with_what_the_worker_has_to_know() {
    let (mut desk, mut bench, no) = asked(CleanUp::NewThread);
    meet(&mut desk, &mut bench);
    assert_eq!(cleaned(&desk).len(), 1);
    assert_eq!(bench.session.thread, None, "it has no conversation to continue");
    assert_eq!(bench.session.attempt().no, 2);
    let stopped = bench.session.launches[0].stop.is_some();
    assert!(stopped, "another process begins it");
    let (key, text) = queued(&bench).pop().expect("its instruction waits");
    assert_eq!((key.as_str(), desk.standing(no).word()), ("instruction-2", "offered"));
    let parts = [
        "You are hand, a worker of the task",
        "One instruction at a time",
        "provost_task_send",
        "new conversation",
        "limit how often each caller",
        "This begins iteration 2 of 5 of the loop",
        "go on",
    ];
    for part in parts {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("iteration 1 of"), "the one before is over: {text}");
    let told = desk.task.messages.iter().filter(|one| one.text.contains("superseded")).count();
    assert_eq!(told, 0, "that is not reported as news");
}

#[test]
fn a_conversation_that_is_kept_is_kept() {
    let (mut desk, mut bench, no) = asked(CleanUp::Keep);
    meet(&mut desk, &mut bench);
    assert!(cleaned(&desk).is_empty());
    assert_eq!(desk.standing(no).word(), "offered");
    assert_eq!(bench.session.attempt().no, 1);
}

#[test]
fn what_cannot_be_cleaned_up_is_kept_with_the_reason() {
    let (mut desk, mut bench, no) = asked(CleanUp::Compact);
    bench.end(provost_core::session::End::Exit(0));
    bench.settle();
    meet(&mut desk, &mut bench);
    let [Event::CleanedUp(kept)] = cleaned(&desk)[..] else { panic!("it is recorded") };
    assert!(kept.skipped.is_some(), "{kept:?}");
    assert_eq!(desk.standing(no).word(), "offered");
}

#[test]
fn a_loop_without_budget_ends_once_and_whoever_asked_is_told() {
    let (mut desk, mut bench, no) = asked(CleanUp::Keep);
    let looped = desk.task.looped.as_mut().expect("a loop runs");
    looped.template.tokens = Some(10);
    bench.session.budget = Budget::default();
    bench.signal(Signal::Usage(Usage { input: 9, output: 1 }));
    meet(&mut desk, &mut bench);
    meet(&mut desk, &mut bench);
    assert_eq!(desk.standing(no).word(), "dead");
    let ended = desk.task.looped.as_ref().and_then(|looped| looped.ended.clone());
    assert_eq!(ended, Some(LoopEnd::Budget { used: 10 }));
    let told = desk.task.messages.iter().filter(|one| one.text.contains("was not delivered"));
    let told: Vec<&str> = told.map(|one| one.to.name()).collect();
    assert_eq!(told, ["boss"]);
}

#[test]
fn a_compaction_that_never_happened_is_told_as_that() {
    let (mut desk, mut bench, no) = asked(CleanUp::Compact);
    meet(&mut desk, &mut bench);
    let key = bench.session.messages.last().expect("it is asked for").key.clone();
    bench.signal(Signal::InputSeen { key });
    meet(&mut desk, &mut bench);
    let looped = desk.task.looped.as_ref().expect("a loop runs");
    assert_eq!((looped.cleaned_for, looped.compactions), (Some(no), Some(0)), "it is waited for");
    bench.signal(Signal::NotCompacted { reason: "it would not".to_owned() });
    meet(&mut desk, &mut bench);
    let [Event::CleanedUp(first), Event::CleanedUp(then)] = cleaned(&desk)[..] else {
        panic!("{:?}", cleaned(&desk))
    };
    assert_eq!((&first.skipped, then.message), (&None, no));
    assert!(then.skipped.is_some(), "{then:?}");
    assert_eq!(desk.standing(no).word(), "offered");
    assert_eq!(bench.session.compactions, 0);
}
