//! Random specs and commands: anything that can be requested of or observed about a session, in any order.

use provost_core::{
    ids::{LaunchId, RequestId, TreeId},
    lifecycle::ClaimKind,
    limits::Bounds,
    request::{Asked, Reply, RequestKind, Scope, Waiting},
    session::{
        Act, Afterwards, Command, Context, Cursor, Driver, End, EndedBy, Exit0, FactKind, Glimpse,
        Hinted, HookEnd, Identity, Input, On, PaneSight, Progress, Reaction, Record, Recorded,
        Reporter, Resolve, SendMode, Session, Signal, Spec, Testimony, TurnEnd, Usage, Way,
    },
    shortage::{Resource, Shortage},
    verdict::{CheckEnd, EmptyDiff},
};

use crate::{
    kit::{receipt, snapshot, spec},
    rng::Rng,
};

/// Small time windows, so that a few random time steps cross them.
fn bounds(rng: &mut Rng) -> Bounds {
    Bounds {
        settle_ms: rng.pick(&[0, 50]),
        drain_ms: rng.pick(&[0, 80]),
        stream_settle_ms: 100,
        stale_ms: rng.pick(&[200, 1_000]),
        stop_grace_ms: 60,
        kill_grace_ms: 60,
        time_limit_ms: rng.pick(&[None, Some(0), Some(300), Some(2_000)]),
        rework: rng.below(3) as u32,
        snapshots: rng.below(3) as u32,
        proof_ms: 150,
        unproved_ms: 500,
        ..Bounds::default()
    }
}

pub(crate) fn random_spec(rng: &mut Rng) -> Spec {
    let mut spec = spec();
    spec.bounds = bounds(rng);
    spec.checks = rng.pick(&[vec![], vec!["a".to_owned()], vec!["a".to_owned(), "b".to_owned()]]);
    let terminal = Driver::CodexTerminal;
    spec.agent.driver = rng.pick(&[
        Driver::Command,
        Driver::Jsonl,
        Driver::Jsonl,
        Driver::Codex,
        Driver::CodexExec,
        terminal,
    ]);
    let adopted = spec.agent.driver == terminal && rng.percent(40);
    spec.adopted = adopted.then(Default::default);
    // An adopted agent has no initial instruction and no checks.
    if adopted {
        spec.instruction = None;
        spec.checks.clear();
    }
    spec.agent.input = rng.pick(&[Input::Closed, Input::Open]);
    spec.exit0 = rng.pick(&[Exit0::SaysNothing, Exit0::IsDone]);
    spec.afterwards = rng.pick(&[Afterwards::Close, Afterwards::Park]);
    spec.empty_diff = rng.pick(&[EmptyDiff::Refused, EmptyDiff::Accepted]);
    spec.setup = rng.pick(&[None, None, Some("setup".to_owned())]);
    spec.hooks.retain(|_, _| rng.percent(70));
    spec.reactions = (0..rng.below(4)).map(|no| random_reaction(no, rng)).collect();
    spec
}

/// Returns any act for any occasion, valid or not.
fn random_reaction(no: u64, rng: &mut Rng) -> Reaction {
    let full = On::Context { percent: 50 };
    let text = "go on".to_owned();
    let acts = [
        Act::Notify,
        Act::Nudge { text: text.clone() },
        Act::Interrupt { text },
        Act::Compact,
        Act::ResumeLater,
        Act::HandOver { agent: Box::new(spec().agent), text: None },
    ];
    Reaction {
        name: format!("r{no}"),
        on: rng.pick(&[On::Quiet, On::Stalled, On::NeedsInput, full, On::UsageLimit]),
        after_ms: rng.pick(&[0, 50, 300]),
        act: rng.pick(&acts),
        times: rng.pick(&[1, 2]),
        total: rng.pick(&[1, 3]),
    }
}

/// Returns a random command; many are invalid for the session.
pub(crate) fn random_command(session: &Session, rng: &mut Rng) -> Command {
    match rng.below(10) {
        0 => about_work(session, rng),
        1 | 2 => about_process(session, rng),
        3..=5 => observed(session, rng),
        6 | 7 => about_proof(session, rng),
        _ => by_people(session, rng),
    }
}

fn about_work(session: &Session, rng: &mut Rng) -> Command {
    let reason = "no room".to_owned();
    match rng.below(10) {
        9 => {
            let owed = session.effects();
            let effect = if owed.is_empty() { "work".to_owned() } else { rng.pick(&owed).key() };
            let tries = session.tries_of(&effect);
            let shortage = Shortage::new(Resource::DiskSpace, reason);
            Command::EffectShort { effect, tries, shortage }
        }
        0 => Command::WorkFailed { reason },
        8 => Command::StoreRemoved,
        1 => Command::WorkRemoved,
        2 => Command::SetupFinished { attempt: session.setup_for, failure: Some(reason) },
        3 | 4 => Command::SetupFinished { attempt: session.setup_for, failure: None },
        _ => Command::WorkPrepared { cwd: "/work".to_owned(), base: Some(snapshot("t0")) },
    }
}

fn about_process(session: &Session, rng: &mut Rng) -> Command {
    let launch = some_launch(session, rng);
    let why = "why".to_owned();
    match rng.below(16) {
        15 => Command::PaneSeen { launch, sight: rng.pick(&[PaneSight::Open, PaneSight::Taken]) },
        14 => {
            let key = session.messages.last().map(|message| message.key.clone());
            let ways = [Way::Typing, Way::Keys, Way::Pressing, Way::Pressed, Way::Doubted];
            Command::Keyed { launch, key: key.unwrap_or_default(), way: rng.pick(&ways) }
        }
        13 => Command::ProcessSuspended { launch, suspended: rng.percent(50) },
        12 if session.spec.adopted.is_some() => {
            let child = Identity { pid: 5, start_time: 6, boot_id: "boot".to_owned() };
            Command::LaunchAdopted { launch, child: rng.percent(80).then_some(child) }
        }
        11 => Command::PeopleAttached { launch, people: rng.below(3) as u32 },
        0 => Command::LaunchFailed { launch, reason: why },
        10 => Command::LaunchFollowed { launch },
        1 => Command::ProcessUnknown { launch, why },
        2 => Command::ProcessSeen { launch },
        3 => Command::ProcessUnobserved { launch, why },
        4 => {
            Command::TreeGone { launch, leftovers: rng.below(2) as u32, verified: rng.percent(80) }
        }
        5 | 6 => {
            let end = rng.pick(&[End::Exit(0), End::Exit(0), End::Exit(3), End::Signal(9)]);
            let by = rng.pick(&[EndedBy::Itself, EndedBy::Itself, EndedBy::Provost]);
            Command::ProcessEnded { launch, end, by }
        }
        _ => {
            let child = Identity { pid: 5, start_time: 6, boot_id: "boot".to_owned() };
            Command::LaunchStarted { launch, holder: child.clone(), child }
        }
    }
}

fn observed(session: &Session, rng: &mut Rng) -> Command {
    let launch = some_launch(session, rng);
    let folded = session.launch(launch).map_or(0, |launch| launch.cursor.offset);
    let offset = if rng.percent(90) { folded + 1 + rng.below(3) } else { rng.below(folded + 1) };
    let cursor = Cursor { offset, skip: rng.below(2) };
    if session.spec.agent.driver.has_terminal() && rng.percent(70) {
        return seen(session, launch, rng);
    }
    match rng.below(20) {
        0 => Command::OutputAtLimit { launch },
        1 => Command::OutputLost { launch, cursor },
        _ => Command::Observed { launch, signal: random_signal(session, rng), cursor },
    }
}

/// Returns a random watch command, at a position that may have been read before.
fn seen(session: &Session, launch: LaunchId, rng: &mut Rng) -> Command {
    let watch = session.launch(launch).map(|launch| launch.watch.clone()).unwrap_or_default();
    let newest = watch.records.values().chain(watch.hints.values()).map(|seen| seen.place).max();
    let place = newest.unwrap_or(0).saturating_sub(1) + rng.below(4);
    let turn = rng.pick(&[None, Some("a".to_owned()), Some("b".to_owned())]);
    let asked = Asked {
        native: rng.pick(&["n", "m"]).to_owned(),
        kind: rng.pick(&[RequestKind::Approval, RequestKind::Question, RequestKind::Dialog]),
        waiting: Waiting::Blocking,
        title: String::new(),
        questions: Vec::new(),
        subject: None,
    };
    if rng.percent(50) {
        let by = rng.pick(&[Glimpse::Osc, Glimpse::Title, Glimpse::Screen]);
        let what = match rng.below(6) {
            0 => Hinted::Working,
            5 => Hinted::Drafted,
            1 => Hinted::Asks(asked),
            2 => Hinted::Retrying { detail: "again".to_owned() },
            3 => Hinted::Rests,
            _ => Hinted::AtPrompt,
        };
        return Command::Hinted { launch, by, place, what };
    }
    let by = rng.pick(&[Record::Hook, Record::Rollout, Record::Rollout]);
    let text = session.messages.last().map(|message| message.text.clone()).unwrap_or_default();
    let what = match rng.below(11) {
        9 => Recorded::Compacting,
        10 => Recorded::Compacted,
        0 => Recorded::Named { thread: "t".to_owned() },
        1 | 2 => Recorded::TurnStarted { turn },
        3 | 4 => Recorded::TurnEnded {
            turn,
            end: rng.pick(&[TurnEnd::Ok, TurnEnd::Interrupted]),
            says: None,
        },
        5 => Recorded::Prompted { text },
        6 => Recorded::Used { usage: Usage { input: 1, output: 2 }, context: None },
        7 => Recorded::Asked(asked),
        _ => Recorded::WentOn,
    };
    Command::Recorded { launch, by, place, what }
}

fn random_signal(session: &Session, rng: &mut Rng) -> Signal {
    let native = rng.pick(&["n1", "n2"]).to_owned();
    match rng.below(21) {
        18 => Signal::Goal { active: rng.percent(70) },
        19 => {
            let keys = session.messages.iter().map(|m| m.write_key().into_owned());
            let keys: Vec<String> = keys.chain(["forged".to_owned()]).collect();
            let (key, reason) = (rng.pick(&keys), "busy".to_owned());
            Signal::MessageRefused { key, reason, busy: rng.percent(70) }
        }
        20 => Signal::Unreachable { reason: "gone".to_owned() },
        16 => Signal::Context(Context { used: rng.below(100), window: 100 }),
        17 => rng.pick(&[Signal::Compacted, Signal::NotCompacted { reason: "unknown".to_owned() }]),
        0 => Signal::Ready { thread: rng.pick(&[None, Some("t".to_owned())]) },
        1..=3 => Signal::TurnStarted { turn: rng.pick(&[None, Some("u".to_owned())]) },
        4..=6 => {
            let error = TurnEnd::Error("quota".to_owned());
            let limited = TurnEnd::Limited { until_ms: None, detail: "no more".to_owned() };
            let end = rng.pick(&[TurnEnd::Ok, TurnEnd::Ok, TurnEnd::Interrupted, error, limited]);
            Signal::TurnEnded { turn: None, end, usage: None, says: None }
        }
        7 | 8 => Signal::Said(testimony(rng)),
        9 => Signal::Asked(Asked {
            native,
            kind: RequestKind::Question,
            waiting: rng.pick(&[Waiting::Blocking, Waiting::Blocking, Waiting::Beside]),
            title: String::new(),
            questions: Vec::new(),
            subject: None,
        }),
        10 => Signal::Withdrawn { native },
        11 => Signal::Progress(Progress { done: 1, total: 2 }),
        12 => Signal::Usage(Usage { input: 1, output: 2 }),
        13 => rng.pick(&[
            Signal::Retrying { detail: "again".to_owned() },
            Signal::Oversized { bytes: 20 << 20 },
        ]),
        14 => {
            let keys = session.messages.iter().map(|m| m.write_key().into_owned());
            let keys: Vec<String> = keys.collect();
            let forged = vec!["forged".to_owned()];
            Signal::InputSeen { key: rng.pick(if keys.is_empty() { &forged } else { &keys }) }
        }
        _ => Signal::Closed,
    }
}

fn testimony(rng: &mut Rng) -> Testimony {
    match rng.below(7) {
        0 => Testimony::Progress(Progress { done: 1, total: 2 }),
        1 => Testimony::Fact { kind: FactKind::Branch, value: "b".to_owned() },
        _ => Testimony::Claim { kind: rng.pick(&ClaimKind::ALL), text: None },
    }
}

fn about_proof(session: &Session, rng: &mut Rng) -> Command {
    let attempt = session.attempt().no.saturating_sub(u32::from(rng.percent(10)));
    let no = session.attempt().verifying.taken + u32::from(rng.percent(90));
    let current = session.attempt().verifying.snapshot.as_ref().map(|s| s.tree.clone());
    let tree = match (current, rng.percent(80)) {
        (Some(TreeId(tree)), true) => tree,
        _ => rng.pick(&["t0", "t1", "t2"]).to_owned(),
    };
    match rng.below(10) {
        0 => Command::SnapshotFailed { attempt, no, reason: "full".to_owned() },
        1..=4 => {
            let caveats = Default::default();
            Command::SnapshotTaken { attempt, no, snapshot: snapshot(&tree), caveats }
        }
        5 => match session.hooks.first() {
            Some(hook) => Command::HookFinished { key: hook.key, end: HookEnd::Exit(0) },
            None => Command::Tick,
        },
        _ => {
            let bad = [CheckEnd::Exit(1), CheckEnd::TimeLimit, CheckEnd::Signal(9)];
            let end = if rng.percent(70) { CheckEnd::Exit(0) } else { rng.pick(&bad) };
            Command::CheckFinished { attempt, receipt: receipt(&tree, rng.pick(&["a", "b"]), end) }
        }
    }
}

fn by_people(session: &Session, rng: &mut Rng) -> Command {
    let because = "so".to_owned();
    match rng.below(18) {
        16 => {
            let text = rng.percent(50).then(|| because.clone());
            Command::Interrupt { key: format!("leave-{}", rng.below(1_000)), text }
        }
        17 => Command::Compact { key: format!("compact-{}", rng.below(1_000)) },
        0 => Command::Cancel { because },
        1 => Command::Stop,
        2 => {
            let to = rng.pick(&[Resolve::Accepted, Resolve::Failed, Resolve::Cancelled]);
            Command::Resolve { to, because }
        }
        3..=5 => {
            let mode = rng.pick(&[SendMode::Continue, SendMode::Continue, SendMode::Supersede]);
            Command::Send { key: format!("send-{}", rng.below(1_000)), text: because, mode }
        }
        6 | 7 => {
            let known: Vec<(RequestId, u32)> =
                session.requests.iter().map(|r| (r.id, r.revision)).collect();
            let forged = [(RequestId { session: session.id, no: 99 }, 1)];
            let (request, revision) = rng.pick(if known.is_empty() { &forged } else { &known });
            let approves = Reply::Approve(Scope::Once);
            let reply = rng.pick(&[Reply::Text(because), approves, Reply::Deny]);
            Command::Answer { request, revision, reply }
        }
        8 => Command::RaiseLimit { bytes: rng.pick(&[1, 1 << 40]) },
        9 => match session.messages.last() {
            Some(m) => Command::MessageLost { key: m.key.clone(), reason: because },
            None => Command::Tick,
        },
        10..=12 => {
            let from = if rng.percent(80) {
                Reporter::Launch(some_launch(session, rng))
            } else {
                Reporter::Operator
            };
            Command::Report { from, testimony: testimony(rng) }
        }
        13 => Command::Silence { launch: some_launch(session, rng), heard_ms: rng.below(5_000) },
        _ => Command::Tick,
    }
}

/// Mostly the newest launch, sometimes an older one, rarely one that does not exist.
fn some_launch(session: &Session, rng: &mut Rng) -> LaunchId {
    let newest = session.launches.len() as u32;
    let no = match rng.below(20) {
        0 => newest + 1,
        1..=4 => 1 + rng.below(u64::from(newest.max(1))) as u32,
        _ => newest.max(1),
    };
    LaunchId { session: session.id, no }
}
