//! Agents in terminals and external agents: their transcripts, their screens, and their reaction to typed input.
//!
//! Like all generated behaviour, this depends only on the seed and on names.

use provost_core::{
    request::{Asked, RequestKind, Waiting},
    session::{
        Adopted, Afterwards, Context, Driver, End, Exit0, Glimpse, Hinted, Progress, Record,
        Recorded, Spec, TurnEnd, Usage, Work,
    },
};

use crate::{rng::Rng, run::Faults, script::Act};

/// An observable sign of an agent outside of a protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Recorded(Record, Recorded),
    Hinted(Glimpse, Hinted),
}

/// The suffix of a message key when Enter is pressed once more.
const AGAIN: &str = "-again";

/// The text that users send in these scenarios.
pub(crate) const SAID: &str = "so it is";

/// Puts some sessions into terminals, and makes some of these external.
pub(crate) fn on_screen(spec: Spec, seed: u64, no: u64) -> Spec {
    let mut rng = Rng::named(seed, &[12, no]);
    if !rng.percent(12) {
        return spec;
    }
    let mut spec = Spec { afterwards: Afterwards::Park, exit0: Exit0::SaysNothing, ..spec };
    spec.agent.driver = Driver::CodexTerminal;
    spec.agent.carried = Default::default();
    if rng.percent(40) {
        spec.adopted = Some(Box::new(Adopted::default()));
        (spec.instruction, spec.setup, spec.work) = (None, None, Work::Plain);
        spec.checks = Vec::new();
    }
    spec
}

/// Returns the actions of a terminal agent from its start: it names its conversation and starts with the
/// instruction from its command line.
pub(crate) fn opening(seed: u64, session: u64, launch: u32, faults: &Faults) -> Vec<Act> {
    let mut rng = Rng::named(seed, &[13, session, u64::from(launch)]);
    let named = Recorded::Named { thread: format!("thread-{session}") };
    let mut acts = vec![recorded(Record::Hook, named), hinted(Glimpse::Osc, Hinted::AtPrompt)];
    if !faults.calm && rng.percent(15) {
        let dialog = Hinted::Asks(asked(RequestKind::Dialog, "trust"));
        acts.extend([hinted(Glimpse::Screen, dialog), Act::Sleep(rng.pick(&[200, 5_000]))]);
        acts.push(hinted(Glimpse::Screen, Hinted::AtPrompt));
    }
    for text in rng.pick(&[&["do it"][..], &["do it", "and more"]]) {
        acts.extend(turn(&mut rng, text, faults));
        acts.extend(begins_anew(&mut rng, session));
    }
    if rng.percent(if faults.calm { 100 } else { 40 }) {
        let end = rng.pick(&[End::Exit(0), End::Exit(0), End::Exit(1), End::Signal(9)]);
        acts.push(Act::Exit(end));
    }
    acts
}

/// Sometimes a user switches to another conversation. A line of the previous one may be read late.
fn begins_anew(rng: &mut Rng, session: u64) -> Vec<Act> {
    if !rng.percent(20) {
        return Vec::new();
    }
    let thread = format!("thread-{session}-{}", rng.below(3));
    let moved = recorded(Record::Hook, Recorded::Moved { thread: thread.clone() });
    let late = rng.percent(30).then(|| recorded(Record::Rollout, used()));
    let named = recorded(Record::Rollout, Recorded::Named { thread });
    std::iter::once(moved).chain(late).chain([named]).collect()
}

/// Returns the reaction of a terminal agent to typed input. Some accept it at once, some when Enter is pressed once
/// more, and some never.
pub(crate) fn reaction(
    seed: u64,
    session: u64,
    launch: u32,
    key: &str,
    text: &str,
    faults: &Faults,
) -> Vec<Act> {
    let message = key.strip_suffix(AGAIN).unwrap_or(key);
    let said = message.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31) ^ u64::from(byte));
    let mut rng = Rng::named(seed, &[14, session, u64::from(launch), said]);
    let presses = rng.pick(&[1, 1, 1, 2, 3]);
    let pressed = if key.ends_with(AGAIN) { 2 } else { 1 };
    if presses == pressed { turn(&mut rng, text, faults) } else { Vec::new() }
}

/// Returns the reaction of a terminal agent to an interrupt.
pub(crate) fn interrupted() -> Vec<Act> {
    let end = Recorded::TurnEnded { turn: None, end: TurnEnd::Interrupted, says: None };
    vec![recorded(Record::Rollout, end), hinted(Glimpse::Osc, Hinted::AtPrompt)]
}

/// Returns a turn as the transcript and the screen show it. Both report the same things; the screen also shows
/// false signs.
fn turn(rng: &mut Rng, text: &str, faults: &Faults) -> Vec<Act> {
    let turn = Some(format!("turn-{}", rng.below(1_000)));
    let prompted = Recorded::Prompted { text: text.to_owned() };
    let started = Recorded::TurnStarted { turn: turn.clone() };
    let mut acts = vec![hinted(Glimpse::Osc, Hinted::Working)];
    if rng.percent(70) {
        acts.extend([prompted.clone(), started.clone()].map(|what| recorded(Record::Hook, what)));
    }
    acts.extend([started, prompted].map(|what| recorded(Record::Rollout, what)));
    for _ in 0..rng.below(5) {
        acts.extend(work(rng, faults));
    }
    let error = TurnEnd::Error("quota".to_owned());
    let end = rng.pick(&[TurnEnd::Ok, TurnEnd::Ok, TurnEnd::Ok, TurnEnd::Interrupted, error]);
    if faults.calm || rng.percent(90) {
        let ended = Recorded::TurnEnded { turn, end, says: None };
        let twice = rng.percent(60).then(|| recorded(Record::Hook, ended.clone()));
        acts.extend(twice.into_iter().chain([recorded(Record::Rollout, ended)]));
    }
    acts.push(hinted(Glimpse::Osc, Hinted::AtPrompt));
    acts
}

fn work(rng: &mut Rng, faults: &Faults) -> Vec<Act> {
    match rng.below(if faults.calm { 5 } else { 10 }) {
        0 => vec![Act::Edit { good: rng.percent(70) }],
        1 => vec![recorded(Record::Rollout, used())],
        2 => {
            let progress = Progress { done: rng.below(3), total: 3 };
            vec![recorded(Record::Rollout, Recorded::Progress(progress))]
        }
        3 => vec![hinted(Glimpse::Title, Hinted::Working)],
        4 => vec![Act::Sleep(rng.pick(&[1, 30, 800]))],
        5 => approval(rng),
        6 => vec![Act::Suspend(true), Act::Sleep(rng.pick(&[50, 4_000])), Act::Suspend(false)],
        7 => {
            let retrying = Hinted::Retrying { detail: "Reconnecting".to_owned() };
            vec![hinted(Glimpse::Screen, retrying), Act::Sleep(4_000)]
        }
        // Output that any program can print into a terminal.
        8 => {
            let forged = rng.pick(&[Hinted::AtPrompt, Hinted::Rests, Hinted::Working]);
            vec![hinted(rng.pick(&[Glimpse::Osc, Glimpse::Title, Glimpse::Notify]), forged)]
        }
        // The end of a turn of another conversation.
        _ => {
            let turn = Some("hidden".to_owned());
            vec![recorded(Record::Hook, Recorded::TurnEnded { turn, end: TurnEnd::Ok, says: None })]
        }
    }
}

/// The agent asks, signals it by a hook, an escape code and its screen, and continues when it is answered.
fn approval(rng: &mut Rng) -> Vec<Act> {
    let asks = || asked(RequestKind::Approval, "run it");
    let mut acts = vec![
        recorded(Record::Hook, Recorded::Asked(asks())),
        hinted(Glimpse::Osc, Hinted::Asks(asks())),
        hinted(Glimpse::Screen, Hinted::Asks(asks())),
        Act::AwaitAnswer,
        hinted(Glimpse::Osc, Hinted::Working),
        hinted(Glimpse::Screen, Hinted::Working),
    ];
    if rng.percent(50) {
        acts.push(recorded(Record::Hook, Recorded::WentOn));
    }
    acts
}

fn asked(kind: RequestKind, title: &str) -> Asked {
    Asked {
        native: format!("hook-{title}"),
        kind,
        waiting: Waiting::Blocking,
        title: title.to_owned(),
        questions: Vec::new(),
        subject: None,
    }
}

fn recorded(by: Record, what: Recorded) -> Act {
    Act::Show(Shown::Recorded(by, what))
}

fn hinted(by: Glimpse, what: Hinted) -> Act {
    Act::Show(Shown::Hinted(by, what))
}

fn used() -> Recorded {
    let usage = Usage { input: 10, output: 3 };
    Recorded::Used { usage, context: Some(Context { used: 13, window: 100 }) }
}
