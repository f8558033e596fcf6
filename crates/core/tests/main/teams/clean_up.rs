//! Clean-up of a worker's conversation runs once, before the next iteration begins.

use provost_core::{
    ids::SessionId,
    session::{Budget, OnFinish, SessionEffect, SessionSpec, StreamSignal, TeamMembership, Usage},
    team::{CleanUp, Event, LoopEnd, LoopTemplate, MemberRole, TeamCommand},
};

use super::kit::{TestTeam, member, team_spec, template};
use crate::kit::{TURN_ENDED_OK, TestSession, spec};

/// A loop with an idle worker and a requested next iteration.
fn with_pending_iteration(clean_up: CleanUp) -> (TestTeam, TestSession, u32) {
    let mut as_member = SessionSpec { on_finish: OnFinish::Park, ..spec() };
    as_member.agent.settings.member = Some(TeamMembership { role: MemberRole::Worker });
    let mut bench = TestSession::running(as_member);
    bench.signal(StreamSignal::Ready { thread: Some("first".to_owned()) });
    bench.signal(StreamSignal::InputWritten { key: "instruction-1".to_owned() });
    bench.signal(StreamSignal::TurnStarted { turn: None }).signal(TURN_ENDED_OK);
    let mut desk = TestTeam::open(team_spec());
    desk.bind("boss", MemberRole::Manager, None);
    desk.bind("hand", MemberRole::Worker, Some(bench.session.id));
    desk.bind("eye", MemberRole::Reviewer, None);
    desk.apply(&member("boss"), TeamCommand::AcknowledgeContract { revision: 0 });
    desk.begin_loop(LoopTemplate { clean_up, ..template(5) });
    desk.show_all_evidence("one");
    let no = desk.continue_loop(2).expect("its evidence is there");
    (desk, bench, no)
}

fn sync(desk: &mut TestTeam, bench: &mut TestSession) {
    desk.now = desk.now.max(bench.now.mono_ms);
    let id: SessionId = bench.session.id;
    desk.sessions.insert(id, bench.session.clone());
    desk.advance();
    bench.session = desk.sessions[&id].clone();
    bench.advance();
    desk.sessions.insert(id, bench.session.clone());
}

fn clean_up_events(desk: &TestTeam) -> Vec<&Event> {
    desk.events.iter().filter(|event| matches!(event, Event::ConversationCleanedUp(_))).collect()
}

fn queued(bench: &TestSession) -> Vec<(String, String)> {
    let queued = bench.session.messages.iter().filter(|one| !one.text.is_empty());
    queued.map(|one| (one.key.clone(), one.text.clone())).collect()
}

#[test]
fn compaction_precedes_the_continuation() {
    let (mut desk, mut bench, no) = with_pending_iteration(CleanUp::Compact);
    sync(&mut desk, &mut bench);
    sync(&mut desk, &mut bench);
    assert_eq!(clean_up_events(&desk).len(), 1, "once");
    assert_eq!(desk.message_status(no).as_str(), "stored", "it waits for that");
    let key = bench.session.messages.last().expect("it is asked for").key.clone();
    assert!(bench.session.is_compacting());
    bench.signal(StreamSignal::InputWritten { key });
    sync(&mut desk, &mut bench);
    assert_eq!(desk.message_status(no).as_str(), "stored");
    bench.signal(StreamSignal::Compacted);
    sync(&mut desk, &mut bench);
    assert_eq!(desk.message_status(no).as_str(), "offered");
    assert_eq!((clean_up_events(&desk).len(), bench.session.compactions), (1, 1));
}

/// A worker claims completion of each iteration: its work is sealed, but its conversation remains.
#[test]
fn compaction_works_after_sealed_work() {
    let (mut desk, mut bench, no) = with_pending_iteration(CleanUp::Compact);
    bench.claim(provost_core::lifecycle::ClaimKind::Completed).settle();
    assert!(bench.sealed());
    sync(&mut desk, &mut bench);
    let [Event::ConversationCleanedUp(asked)] = clean_up_events(&desk)[..] else {
        panic!("it is asked for")
    };
    assert_eq!(asked.skipped, None);
    let key = bench.session.messages.last().expect("it is asked for").key.clone();
    let deliver = SessionEffect::Deliver { launch: bench.launch(), message: key.clone() };
    assert!(bench.has_effect(&deliver), "{:?}", bench.session.effects());
    bench.signal(StreamSignal::InputWritten { key });
    bench.signal(StreamSignal::TurnStarted { turn: None });
    sync(&mut desk, &mut bench);
    assert_eq!((desk.message_status(no).as_str(), bench.session.attempt().no), ("stored", 1));
    bench.signal(StreamSignal::Compacted).signal(TURN_ENDED_OK);
    sync(&mut desk, &mut bench);
    assert_eq!((desk.message_status(no).as_str(), bench.session.attempt().no), ("offered", 2));
    assert_eq!((clean_up_events(&desk).len(), bench.session.compactions), (1, 1));
}

#[test]
fn compaction_after_work_times_out() {
    let (mut desk, mut bench, no) = with_pending_iteration(CleanUp::Compact);
    bench.claim(provost_core::lifecycle::ClaimKind::Completed).settle();
    sync(&mut desk, &mut bench);
    let key = bench.session.messages.last().expect("it is asked for").key.clone();
    bench.signal(StreamSignal::InputWritten { key });
    bench.signal(StreamSignal::TurnStarted { turn: None });
    bench.settle();
    assert!(!bench.session.is_compacting());
    sync(&mut desk, &mut bench);
    let skipped = |event: &&Event| matches!(event, Event::ConversationCleanedUp(one) if one.skipped.is_some());
    assert_eq!(clean_up_events(&desk).into_iter().filter(skipped).count(), 1);
    assert_eq!(desk.message_status(no).as_str(), "offered");
}

#[test]
fn new_thread_starts_with_worker_onboarding() {
    let (mut desk, mut bench, no) = with_pending_iteration(CleanUp::NewThread);
    sync(&mut desk, &mut bench);
    assert_eq!(clean_up_events(&desk).len(), 1);
    assert_eq!(bench.session.thread, None, "it has no conversation to continue");
    assert_eq!(bench.session.attempt().no, 2);
    let stopped = bench.session.launches[0].stop.is_some();
    assert!(stopped, "another process begins it");
    let (key, text) = queued(&bench).pop().expect("its instruction waits");
    assert_eq!((key.as_str(), desk.message_status(no).as_str()), ("instruction-2", "offered"));
    let parts = [
        "You are hand, a worker of the team",
        "One instruction at a time",
        "provost_team_send",
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
fn keep_leaves_the_conversation_unchanged() {
    let (mut desk, mut bench, no) = with_pending_iteration(CleanUp::Keep);
    sync(&mut desk, &mut bench);
    assert!(clean_up_events(&desk).is_empty());
    assert_eq!(desk.message_status(no).as_str(), "offered");
    assert_eq!(bench.session.attempt().no, 1);
}

#[test]
fn impossible_clean_up_is_skipped_with_reason() {
    let (mut desk, mut bench, no) = with_pending_iteration(CleanUp::Compact);
    bench.end(provost_core::session::ProcessExit::Exit(0));
    bench.settle();
    sync(&mut desk, &mut bench);
    let [Event::ConversationCleanedUp(kept)] = clean_up_events(&desk)[..] else {
        panic!("it is recorded")
    };
    assert!(kept.skipped.is_some(), "{kept:?}");
    assert_eq!(desk.message_status(no).as_str(), "offered");
}

#[test]
fn loop_out_of_budget_ends_and_notifies_requester() {
    let (mut desk, mut bench, no) = with_pending_iteration(CleanUp::Keep);
    let looped = desk.task.loop_state.as_mut().expect("a loop runs");
    looped.template.tokens = Some(10);
    bench.session.budget = Budget::default();
    bench.signal(StreamSignal::Usage(Usage { input: 9, output: 1 }));
    sync(&mut desk, &mut bench);
    sync(&mut desk, &mut bench);
    assert_eq!(desk.message_status(no).as_str(), "dead");
    let ended = desk.task.loop_state.as_ref().and_then(|looped| looped.ended.clone());
    assert_eq!(ended, Some(LoopEnd::Budget { used: 10 }));
    let told = desk.task.messages.iter().filter(|one| one.text.contains("was not delivered"));
    let told: Vec<&str> = told.map(|one| one.to.name()).collect();
    assert_eq!(told, ["boss"]);
}

#[test]
fn refused_compaction_is_recorded_as_skipped() {
    let (mut desk, mut bench, no) = with_pending_iteration(CleanUp::Compact);
    sync(&mut desk, &mut bench);
    let key = bench.session.messages.last().expect("it is asked for").key.clone();
    bench.signal(StreamSignal::InputWritten { key });
    sync(&mut desk, &mut bench);
    let looped = desk.task.loop_state.as_ref().expect("a loop runs");
    assert_eq!((looped.cleaned_for, looped.compactions), (Some(no), Some(0)), "it is waited for");
    bench.signal(StreamSignal::CompactionFailed { reason: "it would not".to_owned() });
    sync(&mut desk, &mut bench);
    let [Event::ConversationCleanedUp(first), Event::ConversationCleanedUp(then)] =
        clean_up_events(&desk)[..]
    else {
        panic!("{:?}", clean_up_events(&desk))
    };
    assert_eq!((&first.skipped, then.message), (&None, no));
    assert!(then.skipped.is_some(), "{then:?}");
    assert_eq!(desk.message_status(no).as_str(), "offered");
    assert_eq!(bench.session.compactions, 0);
}
