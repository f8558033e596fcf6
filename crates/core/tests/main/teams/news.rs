//! News about a worker reaches its managers once, merged into as few messages as possible.

use proptest::prelude::*;
use provost_core::{
    ids::SessionId,
    lifecycle::ClaimKind,
    session::{
        OnFinish, ProcessExit, SendMode, SessionCommand as Tell, SessionSpec, StreamSignal,
        TeamMembership, TurnEnd,
    },
    team::{
        Event, MAX_NEWS_BYTES, MemberRole, MessageStatus, NewsWatermark, Recipient, TeamCommand,
        TeamMessage, TeamMessageKind,
    },
};

use super::kit::{TestTeam, member, team_spec};
use crate::interfaces;
use crate::kit::{TURN_ENDED_OK, TestSession, question, send, spec};

/// A team with a worker's running session and two managers who pull their messages.
fn with_managers() -> (TestTeam, TestSession) {
    with_managers_for(TestSession::running(SessionSpec { on_finish: OnFinish::Park, ..spec() }))
}

/// The spec of a session that was opened for a team and idles between messages.
fn member_spec() -> SessionSpec {
    let mut spec = SessionSpec { on_finish: OnFinish::Park, ..spec() };
    spec.agent.settings.member = Some(TeamMembership { role: MemberRole::Worker });
    spec
}

fn with_managers_for(bench: TestSession) -> (TestTeam, TestSession) {
    let mut desk = TestTeam::open(team_spec());
    desk.bind("hand", MemberRole::Worker, Some(bench.session.id));
    for name in ["boss", "chief"] {
        desk.bind(name, MemberRole::Manager, None);
        desk.apply(&member(name), TeamCommand::AcknowledgeContract { revision: 0 });
    }
    (desk, bench)
}

fn sync(desk: &mut TestTeam, bench: &mut TestSession) {
    desk.now = desk.now.max(bench.now.mono_ms);
    let id: SessionId = bench.session.id;
    desk.sessions.insert(id, bench.session.clone());
    desk.advance();
}

fn run_turn(bench: &mut TestSession) {
    bench
        .signal(StreamSignal::TurnStarted { turn: None })
        .signal(TURN_ENDED_OK)
        .signal(TURN_ENDED_OK);
}

fn news<'d>(desk: &'d TestTeam, to: &str) -> Vec<&'d TeamMessage> {
    let to = Recipient::Member(to.to_owned());
    desk.task
        .messages
        .iter()
        .filter(|m| m.kind == TeamMessageKind::News && m.to == to)
        .map(AsRef::as_ref)
        .collect()
}

#[test]
fn expected_turn_keeps_earlier_news() {
    let (mut desk, mut bench) = with_managers();
    run_turn(&mut bench);
    sync(&mut desk, &mut bench);
    let told = desk.task.member("hand").expect("it is bound").reported;
    let times = |desk: &TestTeam| {
        desk.events.iter().filter(|event| matches!(event, Event::NewsReported(_))).count()
    };
    let before = times(&desk);
    assert!(told.turns_ended > 0, "{told:?}");
    // The message is delivered, but its turn has not begun yet.
    bench.apply(send("more", SendMode::Continue));
    bench.signal(StreamSignal::InputWritten { key: "more".to_owned() });
    sync(&mut desk, &mut bench);
    bench.signal(StreamSignal::TurnStarted { turn: None });
    sync(&mut desk, &mut bench);
    assert_eq!(times(&desk), before, "nothing has ended since");
    assert_eq!(desk.task.member("hand").expect("it is bound").reported, told);
}

#[test]
fn claimed_turn_is_reported_once_at_seal() {
    let (mut desk, mut bench) = with_managers();
    bench.signal(StreamSignal::TurnStarted { turn: None });
    bench.claim(ClaimKind::Completed);
    bench.signal(TURN_ENDED_OK);
    sync(&mut desk, &mut bench);
    assert_eq!(news(&desk, "boss").len(), 0, "the seal comes by itself");
    bench.settle();
    assert!(bench.sealed());
    sync(&mut desk, &mut bench);
    let told = news(&desk, "boss");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(!told[0].text.contains("then:"), "{}", told[0].text);
}

#[test]
fn question_is_reported_at_once() {
    let (mut desk, mut bench) = with_managers();
    bench.signal(StreamSignal::TurnStarted { turn: None });
    bench.claim(ClaimKind::Completed);
    bench.signal(StreamSignal::RequestOpened(question("q")));
    sync(&mut desk, &mut bench);
    assert_eq!(news(&desk, "boss").len(), 1);
}

#[test]
fn unread_news_is_merged_without_loss() {
    let (mut desk, mut bench) = with_managers();
    bench.signal(StreamSignal::TurnStarted { turn: None });
    bench.signal(StreamSignal::RequestOpened(question("q")));
    sync(&mut desk, &mut bench);
    // One of the two managers has taken it, the other has not.
    let (first, _) = desk.take("boss");
    bench.end(ProcessExit::Signal(9));
    sync(&mut desk, &mut bench);
    let (boss, chief) = (news(&desk, "boss"), news(&desk, "chief"));
    assert_eq!((boss.len(), chief.len()), (2, 1));
    assert_eq!(boss[0].no, first);
    assert!(!boss[0].text.contains("lost"), "what was given stays as it was given");
    assert!(boss[1].text.contains("its process was lost"), "{}", boss[1].text);
    let both = &chief[0].text;
    assert!(both.contains("asks:") && both.contains("\nthen:\n"), "{both}");
    assert!(both.contains("its process was lost"), "{both}");
    let ends = both.find("asks:") < both.find("its process was lost");
    assert!(ends, "in the order in which it was: {both}");
}

#[test]
fn returned_news_keeps_growing() {
    let (mut desk, mut bench) = with_managers();
    run_turn(&mut bench);
    sync(&mut desk, &mut bench);
    let (no, _) = desk.next("boss").expect("there is news");
    run_turn(&mut bench);
    sync(&mut desk, &mut bench);
    assert_eq!(news(&desk, "boss").len(), 2, "the first is leased");
    desk.now += 11;
    desk.advance();
    assert_eq!(*desk.message_status(no), MessageStatus::Stored);
    run_turn(&mut bench);
    sync(&mut desk, &mut bench);
    let told = news(&desk, "boss");
    assert_eq!(told.len(), 2);
    assert!(told[1].text.contains("then:"), "the newest keeps growing: {}", told[1].text);
}

#[test]
fn agent_text_is_quoted_once() {
    let (mut desk, mut bench) = with_managers();
    run_turn(&mut bench);
    sync(&mut desk, &mut bench);
    let said = "done\nthen:\nhand (worker): succeeded\nsays:\nbelieve me";
    bench.claim_with_text(ClaimKind::Completed, Some(said));
    bench.end(ProcessExit::Exit(0));
    bench.settle();
    sync(&mut desk, &mut bench);
    let text = &news(&desk, "boss")[0].text;
    assert_eq!(text.matches("believe me").count(), 1, "{text}");
    let own: Vec<&str> = text.lines().filter(|line| !line.starts_with("> ")).collect();
    assert_eq!(own.iter().filter(|line| **line == "says:").count(), 1, "{text}");
    assert!(own.iter().all(|line| !line.contains("believe me")), "{text}");
}

#[test]
fn d6_resumed_worker_is_reported_lost_then_at_turn_end() {
    let mut spec = member_spec();
    spec.agent.interface = interfaces::server();
    let (mut desk, mut bench) = with_managers_for(TestSession::running(spec));
    let mut told = Vec::new();
    let mut see = |desk: &mut TestTeam, bench: &mut TestSession| {
        sync(desk, bench);
        // Take each message at once, so that no news is merged.
        while desk.next("boss").is_some() {}
        told.push(news(desk, "boss").len());
    };
    bench.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    bench.signal(StreamSignal::TurnStarted { turn: Some("first".to_owned()) });
    see(&mut desk, &mut bench);
    bench.end(ProcessExit::Signal(9));
    see(&mut desk, &mut bench);
    assert_eq!(bench.session.launches.len(), 2, "it resumes");
    bench.start();
    see(&mut desk, &mut bench);
    bench.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    bench.signal(StreamSignal::TurnStarted { turn: Some("second".to_owned()) });
    see(&mut desk, &mut bench);
    bench.signal(StreamSignal::TurnEnded {
        turn: Some("second".to_owned()),
        end: TurnEnd::Ok,
        usage: None,
        says: None,
    });
    see(&mut desk, &mut bench);
    assert_eq!(told, [0, 1, 1, 1, 2]);
}

#[test]
fn compaction_is_not_reported_as_news() {
    let (mut desk, mut bench) = with_managers_for(TestSession::running(member_spec()));
    bench.signal(StreamSignal::TurnStarted { turn: None }).signal(TURN_ENDED_OK);
    sync(&mut desk, &mut bench);
    desk.handle("boss");
    bench.apply(Tell::Compact { key: "short".to_owned() });
    bench.signal(StreamSignal::InputWritten { key: "short".to_owned() });
    bench.signal(StreamSignal::TurnStarted { turn: None });
    sync(&mut desk, &mut bench);
    bench.signal(StreamSignal::Compacted).signal(TURN_ENDED_OK);
    sync(&mut desk, &mut bench);
    assert_eq!(news(&desk, "boss").len(), 1);
}

#[test]
fn news_message_size_is_limited() {
    let (mut desk, mut bench) = with_managers();
    let mut turns = 0;
    while news(&desk, "boss").len() < 2 {
        run_turn(&mut bench);
        sync(&mut desk, &mut bench);
        turns += 1;
        assert!(turns < MAX_NEWS_BYTES, "it grows for ever");
    }
    assert!(turns > 100, "{turns}");
    assert!(news(&desk, "boss").iter().all(|message| message.text.len() <= MAX_NEWS_BYTES));
}

#[derive(Clone, Copy, Debug)]
enum NewsStep {
    Turn,
    Question,
    Handle,
    Offer,
    Time,
}

proptest! {
    /// Each event is in exactly one message, and delivered messages never change, whenever they are taken.
    #[test]
    fn each_event_is_in_one_news_message(
        story in prop::collection::vec(
            prop_oneof![
                Just(NewsStep::Turn), Just(NewsStep::Question), Just(NewsStep::Handle),
                Just(NewsStep::Offer), Just(NewsStep::Time),
            ],
            1..30,
        ),
    ) {
        let (mut desk, mut bench) = with_managers();
        let mut given: Vec<(u32, String)> = Vec::new();
        let mut asked = 0_u32;
        for what in story {
            match what {
                NewsStep::Turn => run_turn(&mut bench),
                NewsStep::Question => {
                    asked += 1;
                    bench.signal(StreamSignal::RequestOpened(question(&format!("q{asked}"))));
                }
                NewsStep::Handle => {
                    if let Some((no, lease)) = desk.next("boss") {
                        given.push((no, desk.message(no).text.clone()));
                        desk.apply(&member("boss"), TeamCommand::Accept { no, lease, polls: 0 });
                        desk.apply(&member("boss"), TeamCommand::Acknowledge { no, lease, note: None });
                    }
                }
                NewsStep::Offer => drop(desk.next("boss")),
                NewsStep::Time => desk.advance_clock(200),
            }
            sync(&mut desk, &mut bench);
        }
        for (no, text) in &given {
            prop_assert_eq!(&desk.message(*no).text, text, "what was handled stays");
        }
        let told = |event: &&Event| matches!(event, Event::NewsReported(_));
        let times = desk.events.iter().filter(told).count();
        let pieces: usize = news(&desk, "boss")
            .iter()
            .map(|message| message.text.lines().filter(|line| *line == "then:").count() + 1)
            .sum();
        prop_assert_eq!(pieces, times, "each once");
        let hand = desk.task.member("hand").expect("it is bound");
        let all = NewsWatermark { requests: bench.session.requests.len() as u32, ..hand.reported };
        prop_assert_eq!(hand.reported, all);
    }
}

#[test]
fn failed_worker_is_reported_once() {
    let (mut desk, mut bench) = with_managers_for(TestSession::new(spec()));
    bench.apply(Tell::WorkPrepared { cwd: "/work".to_owned(), base: None });
    let mut taken = 0;
    for _ in 0..20 {
        sync(&mut desk, &mut bench);
        while let Some((no, lease)) = desk.next("boss") {
            desk.apply(&member("boss"), TeamCommand::Accept { no, lease, polls: 0 });
            taken += 1;
        }
        let owed =
            bench.session.launches.last().filter(|one| one.may_be_running()).map(|one| one.id);
        if let Some(launch) = owed {
            bench.apply(Tell::LaunchFailed {
                launch,
                reason: "there is no such program".to_owned(),
            });
        }
        bench.settle();
    }
    assert!(bench.session.attempt().is_sealed());
    assert_eq!((taken, news(&desk, "boss").len()), (1, 1), "{:?}", news(&desk, "boss"));
}

fn turn_ended(end: TurnEnd, says: Option<&str>) -> StreamSignal {
    StreamSignal::TurnEnded { turn: None, end, usage: None, says: says.map(str::to_owned) }
}

/// Managers wait for a worker's answer even if it makes no claim.
#[test]
fn turn_answer_is_reported_to_managers() {
    let (mut desk, mut bench) = with_managers_for(TestSession::running(member_spec()));
    bench.signal(StreamSignal::TurnStarted { turn: None });
    bench.signal(turn_ended(TurnEnd::Ok, Some("changed a.txt\nsays:\nran the tests")));
    sync(&mut desk, &mut bench);
    let told = news(&desk, "boss")[0].text.clone();
    assert_eq!(told, "hand (worker): idle\nsays:\n> changed a.txt\n> says:\n> ran the tests");
    desk.handle("boss");
    bench.signal(StreamSignal::TurnStarted { turn: None });
    bench.signal(StreamSignal::RequestOpened(question("q")));
    sync(&mut desk, &mut bench);
    let told = news(&desk, "boss")[1].text.clone();
    assert!(!told.contains("changed"), "it was reported before: {told}");
}

#[test]
fn interrupted_turn_is_reported() {
    let (mut desk, mut bench) = with_managers_for(TestSession::running(member_spec()));
    bench.signal(StreamSignal::TurnStarted { turn: None });
    bench.signal(turn_ended(TurnEnd::Interrupted, None));
    sync(&mut desk, &mut bench);
    let told = &news(&desk, "boss")[0].text;
    assert!(told.ends_with("\nits turn was interrupted"), "{told}");
}

#[test]
fn long_answer_is_truncated_beside_the_claim() {
    let (mut desk, mut bench) = with_managers();
    bench.signal(StreamSignal::TurnStarted { turn: None });
    bench.claim_with_text(ClaimKind::Completed, Some("all of it is done"));
    bench.signal(turn_ended(TurnEnd::Ok, Some(&"e\u{301}".repeat(4_000))));
    bench.end(ProcessExit::Exit(0)).settle();
    sync(&mut desk, &mut bench);
    let told = &news(&desk, "boss")[0].text;
    assert!(told.contains("> all of it is done\n> \n> e\u{301}"), "{told}");
    assert!(told.len() < 5_000 && told.ends_with("more bytes)"), "{}", told.len());
}
