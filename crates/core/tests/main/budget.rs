//! The report budget of a launch, shared by all channels.

use provost_core::{
    lifecycle::{ClaimKind, Flag},
    limits::{MAX_REPORT_BYTES, MAX_REPORTS},
    session::{
        Event, FactKind, OnFinish, Progress, RecordSignal, RecordSource, ReportBody, ReportEvent,
        Reporter, SessionCommand, SessionRejection, SessionSpec, StreamSignal, TurnEnd,
    },
    team::MemberCall,
};

use crate::kit::{TestSession, spec};

fn fact(bytes: u64) -> ReportBody {
    let value = "v".repeat(usize::try_from(bytes).expect("it fits"));
    ReportBody::Fact { kind: FactKind::Artifact, value }
}

fn working() -> TestSession {
    let mut harness = TestSession::running(SessionSpec { on_finish: OnFinish::Park, ..spec() });
    harness.signal(StreamSignal::InputWritten { key: "instruction-1".to_owned() });
    harness.signal(StreamSignal::TurnStarted { turn: None });
    harness
}

/// Uses up the budget except for `bytes`.
fn use_all_but(harness: &mut TestSession, bytes: u64) {
    harness.signal(StreamSignal::Reported(fact(MAX_REPORT_BYTES - bytes)));
}

fn refusals(harness: &TestSession) -> usize {
    harness
        .log
        .iter()
        .filter(|(_, event)| matches!(event, Event::Report(ReportEvent::ReportsRefused(_))))
        .count()
}

#[test]
fn f2_15_stream_reports_count_against_budget() {
    let mut harness = working();
    use_all_but(&mut harness, 10);
    harness.signal(StreamSignal::Reported(fact(10)));
    let facts = harness.session.reported.facts.len();
    harness.signal(StreamSignal::Reported(fact(1)));
    assert_eq!(harness.session.reported.facts.len(), facts, "it is not recorded");
    assert!(harness.has_flag(Flag::ReportsRefused));
    assert_eq!(
        harness.try_signal(StreamSignal::Reported(fact(1))),
        Err(SessionRejection::NothingNew),
        "marked once"
    );
    let claim = ReportBody::Claim { kind: ClaimKind::Completed, text: Some("done".to_owned()) };
    assert_eq!(
        harness.try_signal(StreamSignal::Reported(claim.clone())),
        Err(SessionRejection::NothingNew)
    );
    let from = Reporter::Launch(harness.launch());
    let beside = harness.try_apply(SessionCommand::Report { from, testimony: claim });
    assert!(matches!(beside, Err(SessionRejection::ReportBudget { .. })), "{beside:?}");
    assert_eq!(refusals(&harness), 1);
}

#[test]
fn f2_15_stream_report_count_is_bounded() {
    let mut harness = working();
    for _ in 0..MAX_REPORTS {
        harness.signal(StreamSignal::Reported(fact(0)));
    }
    harness.signal(StreamSignal::Reported(fact(0)));
    assert_eq!(refusals(&harness), 1);
    // The protocol limits progress to one signal per second, so it needs no budget.
    harness.signal(StreamSignal::Progress(Progress { done: 1, total: 2 }));
}

#[test]
fn f2_15_hooks_count_against_the_budget() {
    let mut harness = working();
    let hook = |launch, no: u32| {
        let (turn, says) = (Some(format!("t{no}")), Some("s".repeat(1_000)));
        let by = RecordSource::Hook;
        let started = RecordSignal::TurnStarted { turn: turn.clone() };
        let ended = RecordSignal::TurnEnded { turn, end: TurnEnd::Ok, says };
        [started, ended].map(|what| SessionCommand::RecordRead { launch, by, place: 0, what })
    };
    use_all_but(&mut harness, 1_500);
    let launch = harness.launch();
    for command in hook(launch, 1) {
        harness.apply(command);
    }
    let [started, ended] = hook(launch, 2);
    harness.apply(started);
    harness.apply(ended.clone());
    assert_eq!(refusals(&harness), 1, "the end of the second turn is one too many");
    assert_eq!(harness.try_apply(ended), Err(SessionRejection::NothingNew));
}

#[test]
fn f2_15_calls_count_against_the_budget() {
    let mut harness = working();
    let call = |bytes: usize| Box::new(MemberCall::Finish { because: "b".repeat(bytes) });
    let native = |name: &str| name.to_owned();
    use_all_but(&mut harness, 1_000);
    harness.signal(StreamSignal::ToolCalled { native: native("a"), call: call(500) });
    harness.apply(SessionCommand::AnswerCall { no: 1, ok: true, text: "done".to_owned() });
    // Outside the stream it is rejected; on the stream it gets an error answer, because the agent waits for one.
    let launch = harness.launch();
    let beside = harness.try_apply(SessionCommand::ToolCalled {
        launch,
        native: native("b"),
        call: call(500),
    });
    assert!(matches!(beside, Err(SessionRejection::ReportBudget { .. })), "{beside:?}");
    harness.signal(StreamSignal::ToolCalled { native: native("c"), call: call(500) });
    let open = harness.session.calls.open().and_then(|open| open.open.clone());
    let Some(MemberCall::Invalid { why }) = open else { panic!("{open:?}") };
    assert!(why.contains("8 MiB"), "{why}");
    assert_eq!(refusals(&harness), 1);
    let long = StreamSignal::ToolCalled { native: "n".repeat(1_000), call: call(500) };
    assert_eq!(harness.try_signal(long), Err(SessionRejection::NothingNew));
}

#[test]
fn f2_15_team_commands_count_against_the_budget() {
    let mut harness = working();
    use_all_but(&mut harness, 1_000);
    let launch = harness.launch();
    harness.apply(SessionCommand::CountTeamCommand { launch, bytes: 600 });
    let over = [
        SessionCommand::CountTeamCommand { launch, bytes: 600 },
        SessionCommand::Report { from: Reporter::Launch(launch), testimony: fact(600) },
    ];
    for command in over {
        let refused = harness.try_apply(command);
        assert!(matches!(refused, Err(SessionRejection::ReportBudget { .. })), "{refused:?}");
    }
    harness.apply(SessionCommand::CountTeamCommand { launch, bytes: 400 });
}
