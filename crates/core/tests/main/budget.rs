//! The report budget of a launch, shared by all channels.

use provost_core::{
    lifecycle::{ClaimKind, Flag},
    limits::{MAX_REPORT_BYTES, MAX_REPORTS},
    session::{
        Afterwards, Command, Event, FactKind, Progress, Record, Recorded, Rejected, Reporter,
        Signal, Spec, Testimony, TurnEnd,
    },
    task::Call,
};

use crate::kit::{Bench, spec};

fn fact(bytes: u64) -> Testimony {
    let value = "v".repeat(usize::try_from(bytes).expect("it fits"));
    Testimony::Fact { kind: FactKind::Artifact, value }
}

fn working() -> Bench {
    let mut bench = Bench::running(Spec { afterwards: Afterwards::Park, ..spec() });
    bench.signal(Signal::InputSeen { key: "instruction-1".to_owned() });
    bench.signal(Signal::TurnStarted { turn: None });
    bench
}

/// Uses up the budget except for `bytes`.
fn leave(bench: &mut Bench, bytes: u64) {
    bench.signal(Signal::Said(fact(MAX_REPORT_BYTES - bytes)));
}

fn refusals(bench: &Bench) -> usize {
    bench.log.iter().filter(|(_, event)| matches!(event, Event::ReportsRefused(_))).count()
}

#[test]
fn f2_15_reports_on_the_stream_count_against_the_budget() {
    let mut bench = working();
    leave(&mut bench, 10);
    bench.signal(Signal::Said(fact(10)));
    let facts = bench.session.facts.len();
    bench.signal(Signal::Said(fact(1)));
    assert_eq!(bench.session.facts.len(), facts, "it is not recorded");
    assert!(bench.has(Flag::ReportsRefused));
    assert_eq!(bench.try_signal(Signal::Said(fact(1))), Err(Rejected::Nothing), "marked once");
    let claim = Testimony::Claim { kind: ClaimKind::Completed, text: Some("done".to_owned()) };
    assert_eq!(bench.try_signal(Signal::Said(claim.clone())), Err(Rejected::Nothing));
    let from = Reporter::Launch(bench.launch());
    let beside = bench.try_tell(Command::Report { from, testimony: claim });
    assert!(matches!(beside, Err(Rejected::ReportBudget { .. })), "{beside:?}");
    assert_eq!(refusals(&bench), 1);
}

#[test]
fn f2_15_number_of_reports_on_the_stream_is_bounded() {
    let mut bench = working();
    for _ in 0..MAX_REPORTS {
        bench.signal(Signal::Said(fact(0)));
    }
    bench.signal(Signal::Said(fact(0)));
    assert_eq!(refusals(&bench), 1);
    // The driver limits progress to one signal per second, so it needs no budget.
    bench.signal(Signal::Progress(Progress { done: 1, total: 2 }));
}

#[test]
fn f2_15_hooks_count_against_the_budget() {
    let mut bench = working();
    let hook = |launch, no: u32| {
        let (turn, says) = (Some(format!("t{no}")), Some("s".repeat(1_000)));
        let by = Record::Hook;
        let started = Recorded::TurnStarted { turn: turn.clone() };
        let ended = Recorded::TurnEnded { turn, end: TurnEnd::Ok, says };
        [started, ended].map(|what| Command::Recorded { launch, by, place: 0, what })
    };
    leave(&mut bench, 1_500);
    let launch = bench.launch();
    for command in hook(launch, 1) {
        bench.tell(command);
    }
    let [started, ended] = hook(launch, 2);
    bench.tell(started);
    bench.tell(ended.clone());
    assert_eq!(refusals(&bench), 1, "the end of the second turn is one too many");
    assert_eq!(bench.try_tell(ended), Err(Rejected::Nothing));
}

#[test]
fn f2_15_calls_count_against_the_budget() {
    let mut bench = working();
    let call = |bytes: usize| Box::new(Call::Finish { because: "b".repeat(bytes) });
    let native = |name: &str| name.to_owned();
    leave(&mut bench, 1_000);
    bench.signal(Signal::Called { native: native("a"), call: call(500) });
    bench.tell(Command::AnswerCall { no: 1, ok: true, text: "done".to_owned() });
    // Outside the stream it is rejected; on the stream it gets an error answer, because the agent waits for one.
    let launch = bench.launch();
    let beside = bench.try_tell(Command::Called { launch, native: native("b"), call: call(500) });
    assert!(matches!(beside, Err(Rejected::ReportBudget { .. })), "{beside:?}");
    bench.signal(Signal::Called { native: native("c"), call: call(500) });
    let open = bench.session.calls.open().and_then(|open| open.open.clone());
    let Some(Call::Unread { why }) = open else { panic!("{open:?}") };
    assert!(why.contains("8 MiB"), "{why}");
    assert_eq!(refusals(&bench), 1);
    let long = Signal::Called { native: "n".repeat(1_000), call: call(500) };
    assert_eq!(bench.try_signal(long), Err(Rejected::Nothing));
}
