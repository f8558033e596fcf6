//! Clean-up of a worker's conversation runs once, before the next iteration begins.

use provost_core::{
    ids::SessionId,
    session::{Budget, OnFinish, SessionEffect, SessionSpec, StreamSignal, TeamMembership, Usage},
    team::{CleanUp, Event, LoopEnd, LoopEvent, LoopTemplate, MemberRole, TeamCommand},
};

use super::kit::{TestTeam, member, team_spec, template};
use crate::kit::{TURN_ENDED_OK, TestSession, spec};

/// A loop with an idle worker and a requested next iteration.
fn with_pending_iteration(clean_up: CleanUp) -> (TestTeam, TestSession, u32) {
    let mut as_member = SessionSpec { on_finish: OnFinish::Park, ..spec() };
    as_member.agent.settings.member = Some(TeamMembership { role: MemberRole::Worker });
    let mut harness = TestSession::running(as_member);
    harness.signal(StreamSignal::Ready { thread: Some("first".to_owned()) });
    harness.signal(StreamSignal::InputWritten { key: "instruction-1".to_owned() });
    harness.signal(StreamSignal::TurnStarted { turn: None }).signal(TURN_ENDED_OK);
    let mut team = TestTeam::open(team_spec());
    team.bind("boss", MemberRole::Manager, None);
    team.bind("hand", MemberRole::Worker, Some(harness.session.id));
    team.bind("eye", MemberRole::Reviewer, None);
    team.apply(&member("boss"), TeamCommand::AcknowledgeContract { revision: 0 });
    team.begin_loop(LoopTemplate { clean_up, ..template(5) });
    team.show_all_evidence("one");
    let no = team.continue_loop(2).expect("its evidence is there");
    (team, harness, no)
}

fn sync(team: &mut TestTeam, harness: &mut TestSession) {
    team.now = team.now.max(harness.now.mono_ms);
    let id: SessionId = harness.session.id;
    team.sessions.insert(id, harness.session.clone());
    team.advance();
    harness.session = team.sessions[&id].clone();
    harness.advance();
    team.sessions.insert(id, harness.session.clone());
}

fn clean_up_events(team: &TestTeam) -> Vec<&Event> {
    team.events
        .iter()
        .filter(|event| matches!(event, Event::Loop(LoopEvent::ConversationCleanedUp(_))))
        .collect()
}

fn queued(harness: &TestSession) -> Vec<(String, String)> {
    let queued = harness.session.input.messages.iter().filter(|one| !one.text.is_empty());
    queued.map(|one| (one.key.clone(), one.text.clone())).collect()
}

#[test]
fn compaction_precedes_the_continuation() {
    let (mut team, mut harness, no) = with_pending_iteration(CleanUp::Compact);
    sync(&mut team, &mut harness);
    sync(&mut team, &mut harness);
    assert_eq!(clean_up_events(&team).len(), 1, "once");
    assert_eq!(team.message_status(no).as_str(), "stored", "it waits for that");
    let key = harness.session.input.messages.last().expect("it is asked for").key.clone();
    assert!(harness.session.is_compacting());
    harness.signal(StreamSignal::InputWritten { key });
    sync(&mut team, &mut harness);
    assert_eq!(team.message_status(no).as_str(), "stored");
    harness.signal(StreamSignal::Compacted);
    sync(&mut team, &mut harness);
    assert_eq!(team.message_status(no).as_str(), "offered");
    assert_eq!((clean_up_events(&team).len(), harness.session.conversation.compactions), (1, 1));
}

/// A worker claims completion of each iteration: its work is sealed, but its conversation remains.
#[test]
fn compaction_works_after_sealed_work() {
    let (mut team, mut harness, no) = with_pending_iteration(CleanUp::Compact);
    harness.claim(provost_core::lifecycle::ClaimKind::Completed).settle();
    assert!(harness.sealed());
    sync(&mut team, &mut harness);
    let [Event::Loop(LoopEvent::ConversationCleanedUp(asked))] = clean_up_events(&team)[..] else {
        panic!("it is asked for")
    };
    assert_eq!(asked.skipped, None);
    let key = harness.session.input.messages.last().expect("it is asked for").key.clone();
    let deliver = SessionEffect::Deliver { launch: harness.launch(), message: key.clone() };
    assert!(harness.has_effect(&deliver), "{:?}", harness.session.effects());
    harness.signal(StreamSignal::InputWritten { key });
    harness.signal(StreamSignal::TurnStarted { turn: None });
    sync(&mut team, &mut harness);
    assert_eq!((team.message_status(no).as_str(), harness.session.attempt().no), ("stored", 1));
    harness.signal(StreamSignal::Compacted).signal(TURN_ENDED_OK);
    sync(&mut team, &mut harness);
    assert_eq!((team.message_status(no).as_str(), harness.session.attempt().no), ("offered", 2));
    assert_eq!((clean_up_events(&team).len(), harness.session.conversation.compactions), (1, 1));
}

#[test]
fn compaction_after_work_times_out() {
    let (mut team, mut harness, no) = with_pending_iteration(CleanUp::Compact);
    harness.claim(provost_core::lifecycle::ClaimKind::Completed).settle();
    sync(&mut team, &mut harness);
    let key = harness.session.input.messages.last().expect("it is asked for").key.clone();
    harness.signal(StreamSignal::InputWritten { key });
    harness.signal(StreamSignal::TurnStarted { turn: None });
    harness.settle();
    assert!(!harness.session.is_compacting());
    sync(&mut team, &mut harness);
    let skipped = |event: &&Event| matches!(event, Event::Loop(LoopEvent::ConversationCleanedUp(one)) if one.skipped.is_some());
    assert_eq!(clean_up_events(&team).into_iter().filter(skipped).count(), 1);
    assert_eq!(team.message_status(no).as_str(), "offered");
}

#[test]
fn new_thread_starts_with_worker_onboarding() {
    let (mut team, mut harness, no) = with_pending_iteration(CleanUp::NewThread);
    sync(&mut team, &mut harness);
    assert_eq!(clean_up_events(&team).len(), 1);
    assert_eq!(harness.session.conversation.thread, None, "it has no conversation to continue");
    assert_eq!(harness.session.attempt().no, 2);
    let stopped = harness.session.launches[0].stop.is_some();
    assert!(stopped, "another process begins it");
    let (key, text) = queued(&harness).pop().expect("its instruction waits");
    assert_eq!((key.as_str(), team.message_status(no).as_str()), ("instruction-2", "offered"));
    let parts = [
        "You are hand, a worker of the team",
        "Work on one instruction at a time",
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
    let reports = team.task.messages.iter().filter(|one| one.text.contains("superseded")).count();
    assert_eq!(reports, 0, "that is not reported as news");
}

#[test]
fn keep_leaves_the_conversation_unchanged() {
    let (mut team, mut harness, no) = with_pending_iteration(CleanUp::Keep);
    sync(&mut team, &mut harness);
    assert!(clean_up_events(&team).is_empty());
    assert_eq!(team.message_status(no).as_str(), "offered");
    assert_eq!(harness.session.attempt().no, 1);
}

#[test]
fn impossible_clean_up_is_skipped_with_reason() {
    let (mut team, mut harness, no) = with_pending_iteration(CleanUp::Compact);
    harness.end(provost_core::session::ProcessExit::Exit(0));
    harness.settle();
    sync(&mut team, &mut harness);
    let [Event::Loop(LoopEvent::ConversationCleanedUp(kept))] = clean_up_events(&team)[..] else {
        panic!("it is recorded")
    };
    assert!(kept.skipped.is_some(), "{kept:?}");
    assert_eq!(team.message_status(no).as_str(), "offered");
}

#[test]
fn loop_out_of_budget_ends_and_notifies_requester() {
    let (mut team, mut harness, no) = with_pending_iteration(CleanUp::Keep);
    let looped = team.task.loop_state.as_mut().expect("a loop runs");
    looped.template.tokens = Some(10);
    harness.session.spending.budget = Budget::default();
    harness.signal(StreamSignal::Usage(Usage { input: 9, output: 1 }));
    sync(&mut team, &mut harness);
    sync(&mut team, &mut harness);
    assert_eq!(team.message_status(no).as_str(), "dead");
    let ended = team.task.loop_state.as_ref().and_then(|looped| looped.ended.clone());
    assert_eq!(ended, Some(LoopEnd::Budget { used: 10 }));
    let notified = team.task.messages.iter().filter(|one| one.text.contains("was not delivered"));
    let notified: Vec<&str> = notified.map(|one| one.to.name()).collect();
    assert_eq!(notified, ["boss"]);
}

#[test]
fn refused_compaction_is_recorded_as_skipped() {
    let (mut team, mut harness, no) = with_pending_iteration(CleanUp::Compact);
    sync(&mut team, &mut harness);
    let key = harness.session.input.messages.last().expect("it is asked for").key.clone();
    harness.signal(StreamSignal::InputWritten { key });
    sync(&mut team, &mut harness);
    let looped = team.task.loop_state.as_ref().expect("a loop runs");
    assert_eq!((looped.cleaned_for, looped.compactions), (Some(no), Some(0)), "it is waited for");
    harness.signal(StreamSignal::CompactionFailed { reason: "it would not".to_owned() });
    sync(&mut team, &mut harness);
    let [
        Event::Loop(LoopEvent::ConversationCleanedUp(first)),
        Event::Loop(LoopEvent::ConversationCleanedUp(then)),
    ] = clean_up_events(&team)[..]
    else {
        panic!("{:?}", clean_up_events(&team))
    };
    assert_eq!((&first.skipped, then.message), (&None, no));
    assert!(then.skipped.is_some(), "{then:?}");
    assert_eq!(team.message_status(no).as_str(), "offered");
    assert_eq!(harness.session.conversation.compactions, 0);
}
