//! Agents in terminals and external agents: their transcripts, their screens, and their reaction to typed input.
//!
//! Like all generated behavior, this depends only on the seed and on names.

use provost_core::{
    request::{AgentRequest, BlockingMode, RequestKind},
    session::{
        ContextUsage, ExitZeroPolicy, ExternalAgent, OnFinish, ProcessExit, Progress, RecordSignal,
        RecordSource, ScreenHint, ScreenSource, SessionSpec, TurnEnd, Usage, WorkLocation,
    },
};

use crate::interfaces;
use crate::{rng::Rng, run::Faults, script::AgentAction};

/// An output of an agent that can be observed without a protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScreenEntry {
    Transcript(RecordSource, RecordSignal),
    Hint(ScreenSource, ScreenHint),
}

/// The suffix that a message's key has when Enter is pressed again.
const RETRY_SUFFIX: &str = "-again";

/// The text that users send in scenarios with terminals.
pub(crate) const USER_TEXT: &str = "so it is";

/// Puts some sessions into terminals, and makes the agents of some of these sessions external.
pub(crate) fn on_screen(spec: SessionSpec, seed: u64, no: u64) -> SessionSpec {
    let mut rng = Rng::from_names(seed, &[12, no]);
    if !rng.percent(12) {
        return spec;
    }
    let mut spec =
        SessionSpec { on_finish: OnFinish::Park, exit_zero: ExitZeroPolicy::NotAClaim, ..spec };
    spec.agent.interface = interfaces::screen();
    spec.agent.profile = Default::default();
    if rng.percent(40) {
        spec.adopted = Some(Box::new(ExternalAgent::default()));
        (spec.instruction, spec.setup, spec.work) = (None, None, WorkLocation::Plain);
        spec.checks = Vec::new();
    }
    spec
}

/// Returns what a terminal agent does after its start: it reports its conversation and begins with the instruction from
/// its command line.
pub(crate) fn opening(seed: u64, session: u64, launch: u32, faults: &Faults) -> Vec<AgentAction> {
    let mut rng = Rng::from_names(seed, &[13, session, u64::from(launch)]);
    let named = RecordSignal::ThreadNamed { thread: format!("thread-{session}") };
    let mut acts =
        vec![recorded(RecordSource::Hook, named), hinted(ScreenSource::Osc, ScreenHint::AtPrompt)];
    if !faults.calm && rng.percent(15) {
        let dialog = ScreenHint::ShowsRequest(asked(RequestKind::Dialog, "trust"));
        acts.extend([
            hinted(ScreenSource::Screen, dialog),
            AgentAction::Sleep(rng.pick(&[200, 5_000])),
        ]);
        acts.push(hinted(ScreenSource::Screen, ScreenHint::AtPrompt));
    }
    for text in rng.pick(&[&["do it"][..], &["do it", "and more"]]) {
        acts.extend(turn(&mut rng, text, faults));
        acts.extend(switch_conversation(&mut rng, session));
    }
    if rng.percent(if faults.calm { 100 } else { 40 }) {
        let end = rng.pick(&[
            ProcessExit::Exit(0),
            ProcessExit::Exit(0),
            ProcessExit::Exit(1),
            ProcessExit::Signal(9),
        ]);
        acts.push(AgentAction::Exit(end));
    }
    acts
}

/// Sometimes makes a user switch to another conversation. A line in the transcript of the previous conversation may be
/// read late.
fn switch_conversation(rng: &mut Rng, session: u64) -> Vec<AgentAction> {
    if !rng.percent(20) {
        return Vec::new();
    }
    let thread = format!("thread-{session}-{}", rng.below(3));
    let moved =
        recorded(RecordSource::Hook, RecordSignal::ThreadSwitched { thread: thread.clone() });
    let late = rng.percent(30).then(|| recorded(RecordSource::Rollout, used()));
    let named = recorded(RecordSource::Rollout, RecordSignal::ThreadNamed { thread });
    std::iter::once(moved).chain(late).chain([named]).collect()
}

/// Returns the reaction of a terminal agent to typed input. Some agents accept the input at once, some accept it when
/// Enter is pressed again, and some never accept it.
pub(crate) fn reaction(
    seed: u64,
    session: u64,
    launch: u32,
    key: &str,
    text: &str,
    faults: &Faults,
) -> Vec<AgentAction> {
    let message = key.strip_suffix(RETRY_SUFFIX).unwrap_or(key);
    let digest = message.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31) ^ u64::from(byte));
    let mut rng = Rng::from_names(seed, &[14, session, u64::from(launch), digest]);
    let presses = rng.pick(&[1, 1, 1, 2, 3]);
    let pressed = if key.ends_with(RETRY_SUFFIX) { 2 } else { 1 };
    if presses == pressed { turn(&mut rng, text, faults) } else { Vec::new() }
}

/// Returns the reaction of a terminal agent to an interrupt.
pub(crate) fn interrupted() -> Vec<AgentAction> {
    let end = RecordSignal::TurnEnded { turn: None, end: TurnEnd::Interrupted, says: None };
    vec![recorded(RecordSource::Rollout, end), hinted(ScreenSource::Osc, ScreenHint::AtPrompt)]
}

/// Returns a turn as the transcript and the screen show it. Both report the turn, but the screen also shows misleading
/// signs.
fn turn(rng: &mut Rng, text: &str, faults: &Faults) -> Vec<AgentAction> {
    let turn = Some(format!("turn-{}", rng.below(1_000)));
    let prompted = RecordSignal::InputTaken { text: text.to_owned() };
    let started = RecordSignal::TurnStarted { turn: turn.clone() };
    let mut acts = vec![hinted(ScreenSource::Osc, ScreenHint::Working)];
    if rng.percent(70) {
        acts.extend(
            [prompted.clone(), started.clone()].map(|what| recorded(RecordSource::Hook, what)),
        );
    }
    acts.extend([started, prompted].map(|what| recorded(RecordSource::Rollout, what)));
    for _ in 0..rng.below(5) {
        acts.extend(work(rng, faults));
    }
    let error = TurnEnd::Error("quota".to_owned());
    let end = rng.pick(&[TurnEnd::Ok, TurnEnd::Ok, TurnEnd::Ok, TurnEnd::Interrupted, error]);
    if faults.calm || rng.percent(90) {
        let ended = RecordSignal::TurnEnded { turn, end, says: None };
        let twice = rng.percent(60).then(|| recorded(RecordSource::Hook, ended.clone()));
        acts.extend(twice.into_iter().chain([recorded(RecordSource::Rollout, ended)]));
    }
    acts.push(hinted(ScreenSource::Osc, ScreenHint::AtPrompt));
    acts
}

fn work(rng: &mut Rng, faults: &Faults) -> Vec<AgentAction> {
    match rng.below(if faults.calm { 5 } else { 10 }) {
        0 => vec![AgentAction::Edit { good: rng.percent(70) }],
        1 => vec![recorded(RecordSource::Rollout, used())],
        2 => {
            let progress = Progress { done: rng.below(3), total: 3 };
            vec![recorded(RecordSource::Rollout, RecordSignal::Progress(progress))]
        }
        3 => vec![hinted(ScreenSource::Title, ScreenHint::Working)],
        4 => vec![AgentAction::Sleep(rng.pick(&[1, 30, 800]))],
        5 => approval(rng),
        6 => vec![
            AgentAction::Suspend(true),
            AgentAction::Sleep(rng.pick(&[50, 4_000])),
            AgentAction::Suspend(false),
        ],
        7 => {
            let retrying = ScreenHint::Retrying { detail: "Reconnecting".to_owned() };
            vec![hinted(ScreenSource::Screen, retrying), AgentAction::Sleep(4_000)]
        }
        // Output that any program can print into a terminal.
        8 => {
            let forged =
                rng.pick(&[ScreenHint::AtPrompt, ScreenHint::Finished, ScreenHint::Working]);
            vec![hinted(
                rng.pick(&[ScreenSource::Osc, ScreenSource::Title, ScreenSource::Notify]),
                forged,
            )]
        }
        // This entry ends a turn in another conversation.
        _ => {
            let turn = Some("hidden".to_owned());
            vec![recorded(
                RecordSource::Hook,
                RecordSignal::TurnEnded { turn, end: TurnEnd::Ok, says: None },
            )]
        }
    }
}

/// Returns the actions of an agent that requests an approval, signals the request through a hook, an escape code and
/// its screen, and continues when it is answered.
fn approval(rng: &mut Rng) -> Vec<AgentAction> {
    let asks = || asked(RequestKind::Approval, "run it");
    let mut acts = vec![
        recorded(RecordSource::Hook, RecordSignal::RequestOpened(asks())),
        hinted(ScreenSource::Osc, ScreenHint::ShowsRequest(asks())),
        hinted(ScreenSource::Screen, ScreenHint::ShowsRequest(asks())),
        AgentAction::AwaitAnswer,
        hinted(ScreenSource::Osc, ScreenHint::Working),
        hinted(ScreenSource::Screen, ScreenHint::Working),
    ];
    if rng.percent(50) {
        acts.push(recorded(RecordSource::Hook, RecordSignal::Continued));
    }
    acts
}

fn asked(kind: RequestKind, title: &str) -> AgentRequest {
    AgentRequest {
        native: format!("hook-{title}"),
        kind,
        waiting: BlockingMode::Blocking,
        title: title.to_owned(),
        questions: Vec::new(),
        subject: None,
    }
}

fn recorded(by: RecordSource, what: RecordSignal) -> AgentAction {
    AgentAction::Show(ScreenEntry::Transcript(by, what))
}

fn hinted(by: ScreenSource, what: ScreenHint) -> AgentAction {
    AgentAction::Show(ScreenEntry::Hint(by, what))
}

fn used() -> RecordSignal {
    let usage = Usage { input: 10, output: 3 };
    RecordSignal::UsageReported { usage, context: Some(ContextUsage { used: 13, window: 100 }) }
}
