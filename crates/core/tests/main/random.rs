//! Random specs and commands: anything that can be requested of or observed about a session, in any order.

use provost_core::{
    ids::{LaunchId, RequestId, TreeId},
    lifecycle::ClaimKind,
    limits::Bounds,
    request::{AgentRequest, ApprovalScope, BlockingMode, RequestKind, RequestReply},
    session::{
        AgentInterface, CommandStdin, ContextUsage, Cursor, ExitZeroPolicy, FactKind, HookEnd,
        ManualOutcome, OnFinish, PaneState, ProcessExit, ProcessIdentity, Progress, Reaction,
        ReactionAction, ReactionTrigger, RecordSignal, RecordSource, ReportBody, Reporter,
        ScreenHint, ScreenSource, SendMode, Session, SessionCommand, SessionSpec, StoppedBy,
        StreamSignal, TurnEnd, TypingState, Usage,
    },
    shortage::{Resource, Shortage},
    verdict::{CheckEnd, EmptyDiff},
};

use crate::interfaces;
use crate::{
    kit::{receipt, snapshot, spec},
    rng::Rng,
};

/// Small time windows, so that a few random time steps cross them.
fn random_bounds(rng: &mut Rng) -> Bounds {
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
        confirm_ms: 150,
        unconfirmed_ms: 500,
        ..Bounds::default()
    }
}

pub(crate) fn random_spec(rng: &mut Rng) -> SessionSpec {
    let mut spec = spec();
    spec.bounds = random_bounds(rng);
    spec.checks = rng.pick(&[vec![], vec!["a".to_owned()], vec!["a".to_owned(), "b".to_owned()]]);
    let terminal = interfaces::screen();
    spec.agent.interface = rng.pick(&[
        AgentInterface::command(),
        AgentInterface::json_lines(),
        AgentInterface::json_lines(),
        interfaces::server(),
        interfaces::one_shot(),
        terminal.clone(),
    ]);
    let adopted = spec.agent.interface == terminal && rng.percent(40);
    spec.adopted = adopted.then(Default::default);
    // An adopted agent has no initial instruction and no checks.
    if adopted {
        spec.instruction = None;
        spec.checks.clear();
    }
    spec.agent.input = rng.pick(&[CommandStdin::Closed, CommandStdin::Open]);
    spec.exit_zero = rng.pick(&[ExitZeroPolicy::NotAClaim, ExitZeroPolicy::Completes]);
    spec.on_finish = rng.pick(&[OnFinish::Close, OnFinish::Park]);
    spec.empty_diff = rng.pick(&[EmptyDiff::Refused, EmptyDiff::Accepted]);
    spec.setup = rng.pick(&[None, None, Some("setup".to_owned())]);
    spec.hooks.retain(|_, _| rng.percent(70));
    spec.reactions = (0..rng.below(4)).map(|no| random_reaction(no, rng)).collect();
    spec
}

/// Returns any act for any occasion, valid or not.
fn random_reaction(no: u64, rng: &mut Rng) -> Reaction {
    let full = ReactionTrigger::Context { percent: 50 };
    let text = "go on".to_owned();
    let acts = [
        ReactionAction::Notify,
        ReactionAction::Nudge { text: text.clone() },
        ReactionAction::Interrupt { text },
        ReactionAction::Compact,
        ReactionAction::ResumeLater,
        ReactionAction::HandOver { agent: Box::new(spec().agent), text: None },
    ];
    Reaction {
        name: format!("r{no}"),
        on: rng.pick(&[
            ReactionTrigger::Quiet,
            ReactionTrigger::Stalled,
            ReactionTrigger::NeedsInput,
            full,
            ReactionTrigger::UsageLimit,
        ]),
        after_ms: rng.pick(&[0, 50, 300]),
        act: rng.pick(&acts),
        times: rng.pick(&[1, 2]),
        total: rng.pick(&[1, 3]),
    }
}

/// Returns a random command; many are invalid for the session.
pub(crate) fn random_command(session: &Session, rng: &mut Rng) -> SessionCommand {
    match rng.below(10) {
        0 => random_work_command(session, rng),
        1 | 2 => random_process_command(session, rng),
        3..=5 => random_observation(session, rng),
        6 | 7 => random_evidence_command(session, rng),
        _ => random_user_command(session, rng),
    }
}

fn random_work_command(session: &Session, rng: &mut Rng) -> SessionCommand {
    let reason = "no room".to_owned();
    match rng.below(10) {
        9 => {
            let pending = session.effects();
            let effect =
                if pending.is_empty() { "work".to_owned() } else { rng.pick(&pending).key() };
            let tries = session.tries_of(&effect);
            let shortage = Shortage::new(Resource::DiskSpace, reason);
            SessionCommand::EffectShortage { effect, tries, shortage }
        }
        0 => SessionCommand::WorkFailed { reason },
        8 => SessionCommand::ConversationRemoved,
        1 => SessionCommand::WorkRemoved,
        2 => SessionCommand::SetupFinished {
            attempt: session.worktree.setup_attempt,
            failure: Some(reason),
        },
        3 | 4 => {
            SessionCommand::SetupFinished { attempt: session.worktree.setup_attempt, failure: None }
        }
        _ => SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: Some(snapshot("t0")) },
    }
}

fn random_process_command(session: &Session, rng: &mut Rng) -> SessionCommand {
    let launch = random_launch(session, rng);
    let why = "why".to_owned();
    match rng.below(16) {
        15 => SessionCommand::PaneSeen {
            launch,
            sight: rng.pick(&[PaneState::Open, PaneState::OtherProgram]),
        },
        14 => {
            let key = session.input.messages.last().map(|message| message.key.clone());
            let states = [
                TypingState::Typing,
                TypingState::Typed,
                TypingState::Pressing,
                TypingState::Pressed,
                TypingState::Unconfirmed,
            ];
            SessionCommand::TypingChanged {
                launch,
                key: key.unwrap_or_default(),
                state: rng.pick(&states),
            }
        }
        13 => SessionCommand::ProcessSuspended { launch, suspended: rng.percent(50) },
        12 if session.spec.adopted.is_some() => {
            let child = ProcessIdentity { pid: 5, start_time: 6, boot_id: "boot".to_owned() };
            SessionCommand::LaunchAdopted { launch, child: rng.percent(80).then_some(child) }
        }
        11 => SessionCommand::ViewersChanged { launch, people: rng.below(3) as u32 },
        0 => SessionCommand::LaunchFailed { launch, reason: why },
        10 => SessionCommand::LaunchFollowed { launch },
        1 => SessionCommand::ProcessUnknown { launch, why },
        2 => SessionCommand::ProcessSeen { launch },
        3 => SessionCommand::ProcessUnobserved { launch, why },
        4 => SessionCommand::ProcessTreeGone {
            launch,
            leftovers: rng.below(2) as u32,
            verified: rng.percent(80),
        },
        5 | 6 => {
            let end = rng.pick(&[
                ProcessExit::Exit(0),
                ProcessExit::Exit(0),
                ProcessExit::Exit(3),
                ProcessExit::Signal(9),
            ]);
            let by = rng.pick(&[StoppedBy::Itself, StoppedBy::Itself, StoppedBy::Provost]);
            SessionCommand::ProcessEnded { launch, end, by }
        }
        _ => {
            let child = ProcessIdentity { pid: 5, start_time: 6, boot_id: "boot".to_owned() };
            SessionCommand::LaunchStarted { launch, holder: child.clone(), child }
        }
    }
}

fn random_observation(session: &Session, rng: &mut Rng) -> SessionCommand {
    let launch = random_launch(session, rng);
    let folded = session.launch(launch).map_or(0, |launch| launch.cursor.offset);
    let offset = if rng.percent(90) { folded + 1 + rng.below(3) } else { rng.below(folded + 1) };
    let cursor = Cursor { offset, skip: rng.below(2) };
    if session.spec.agent.interface.has_terminal() && rng.percent(70) {
        return random_watch_command(session, launch, rng);
    }
    match rng.below(20) {
        0 => SessionCommand::OutputAtLimit { launch },
        1 => SessionCommand::OutputLost { launch, cursor },
        _ => SessionCommand::Observed { launch, signal: random_signal(session, rng), cursor },
    }
}

/// Returns a random watch command, at a position that may have been read before.
fn random_watch_command(session: &Session, launch: LaunchId, rng: &mut Rng) -> SessionCommand {
    let watch = session.launch(launch).map(|launch| launch.watch.clone()).unwrap_or_default();
    let newest = watch.records.values().chain(watch.hints.values()).map(|seen| seen.place).max();
    let place = newest.unwrap_or(0).saturating_sub(1) + rng.below(4);
    let turn = rng.pick(&[None, Some("a".to_owned()), Some("b".to_owned())]);
    let asked = AgentRequest {
        native: rng.pick(&["n", "m"]).to_owned(),
        kind: rng.pick(&[RequestKind::Approval, RequestKind::Question, RequestKind::Dialog]),
        waiting: BlockingMode::Blocking,
        title: String::new(),
        questions: Vec::new(),
        subject: None,
    };
    if rng.percent(50) {
        let by = rng.pick(&[ScreenSource::Osc, ScreenSource::Title, ScreenSource::Screen]);
        let what = match rng.below(6) {
            0 => ScreenHint::Working,
            5 => ScreenHint::UnsentText,
            1 => ScreenHint::ShowsRequest(asked),
            2 => ScreenHint::Retrying { detail: "again".to_owned() },
            3 => ScreenHint::Finished,
            _ => ScreenHint::AtPrompt,
        };
        return SessionCommand::ScreenHinted { launch, by, place, what };
    }
    let by = rng.pick(&[RecordSource::Hook, RecordSource::Rollout, RecordSource::Rollout]);
    let text =
        session.input.messages.last().map(|message| message.text.clone()).unwrap_or_default();
    let what = match rng.below(11) {
        9 => RecordSignal::Compacting,
        10 => RecordSignal::Compacted,
        0 => RecordSignal::ThreadNamed { thread: "t".to_owned() },
        1 | 2 => RecordSignal::TurnStarted { turn },
        3 | 4 => RecordSignal::TurnEnded {
            turn,
            end: rng.pick(&[TurnEnd::Ok, TurnEnd::Interrupted]),
            says: None,
        },
        5 => RecordSignal::InputTaken { text },
        6 => RecordSignal::UsageReported { usage: Usage { input: 1, output: 2 }, context: None },
        7 => RecordSignal::RequestOpened(asked),
        _ => RecordSignal::Continued,
    };
    SessionCommand::RecordRead { launch, by, place, what }
}

fn random_signal(session: &Session, rng: &mut Rng) -> StreamSignal {
    let native = rng.pick(&["n1", "n2"]).to_owned();
    match rng.below(21) {
        18 => StreamSignal::Goal { active: rng.percent(70) },
        19 => {
            let keys = session.input.messages.iter().map(|m| m.write_key().into_owned());
            let keys: Vec<String> = keys.chain(["forged".to_owned()]).collect();
            let (key, reason) = (rng.pick(&keys), "busy".to_owned());
            StreamSignal::MessageRefused { key, reason, busy: rng.percent(70) }
        }
        20 => StreamSignal::Unreachable { reason: "gone".to_owned() },
        16 => StreamSignal::Context(ContextUsage { used: rng.below(100), window: 100 }),
        17 => rng.pick(&[
            StreamSignal::Compacted,
            StreamSignal::CompactionFailed { reason: "unknown".to_owned() },
        ]),
        0 => StreamSignal::Ready { thread: rng.pick(&[None, Some("t".to_owned())]) },
        1..=3 => StreamSignal::TurnStarted { turn: rng.pick(&[None, Some("u".to_owned())]) },
        4..=6 => {
            let error = TurnEnd::Error("quota".to_owned());
            let limited = TurnEnd::Limited { until_ms: None, detail: "no more".to_owned() };
            let end = rng.pick(&[TurnEnd::Ok, TurnEnd::Ok, TurnEnd::Interrupted, error, limited]);
            StreamSignal::TurnEnded { turn: None, end, usage: None, says: None }
        }
        7 | 8 => StreamSignal::Reported(random_testimony(rng)),
        9 => StreamSignal::RequestOpened(AgentRequest {
            native,
            kind: RequestKind::Question,
            waiting: rng.pick(&[
                BlockingMode::Blocking,
                BlockingMode::Blocking,
                BlockingMode::NonBlocking,
            ]),
            title: String::new(),
            questions: Vec::new(),
            subject: None,
        }),
        10 => StreamSignal::RequestWithdrawn { native },
        11 => StreamSignal::Progress(Progress { done: 1, total: 2 }),
        12 => StreamSignal::Usage(Usage { input: 1, output: 2 }),
        13 => rng.pick(&[
            StreamSignal::Retrying { detail: "again".to_owned() },
            StreamSignal::Oversized { bytes: 20 << 20 },
        ]),
        14 => {
            let keys = session.input.messages.iter().map(|m| m.write_key().into_owned());
            let keys: Vec<String> = keys.collect();
            let forged = vec!["forged".to_owned()];
            StreamSignal::InputWritten {
                key: rng.pick(if keys.is_empty() { &forged } else { &keys }),
            }
        }
        _ => StreamSignal::Closed,
    }
}

fn random_testimony(rng: &mut Rng) -> ReportBody {
    match rng.below(7) {
        0 => ReportBody::Progress(Progress { done: 1, total: 2 }),
        1 => ReportBody::Fact { kind: FactKind::Branch, value: "b".to_owned() },
        _ => ReportBody::Claim { kind: rng.pick(&ClaimKind::ALL), text: None },
    }
}

fn random_evidence_command(session: &Session, rng: &mut Rng) -> SessionCommand {
    let attempt = session.attempt().no.saturating_sub(u32::from(rng.percent(10)));
    let no = session.attempt().verifying.taken + u32::from(rng.percent(90));
    let current = session.attempt().verifying.snapshot.as_ref().map(|s| s.tree.clone());
    let tree = match (current, rng.percent(80)) {
        (Some(TreeId(tree)), true) => tree,
        _ => rng.pick(&["t0", "t1", "t2"]).to_owned(),
    };
    match rng.below(10) {
        0 => SessionCommand::SnapshotFailed { attempt, no, reason: "full".to_owned() },
        1..=4 => {
            let caveats = Default::default();
            SessionCommand::SnapshotTaken { attempt, no, snapshot: snapshot(&tree), caveats }
        }
        5 => match session.hook_log.pending.first() {
            Some(hook) => SessionCommand::HookFinished { key: hook.key, end: HookEnd::Exit(0) },
            None => SessionCommand::Tick,
        },
        _ => {
            let bad = [CheckEnd::Exit(1), CheckEnd::TimeLimit, CheckEnd::Signal(9)];
            let end = if rng.percent(70) { CheckEnd::Exit(0) } else { rng.pick(&bad) };
            SessionCommand::CheckFinished {
                attempt,
                receipt: receipt(&tree, rng.pick(&["a", "b"]), end),
            }
        }
    }
}

fn random_user_command(session: &Session, rng: &mut Rng) -> SessionCommand {
    let because = "so".to_owned();
    match rng.below(18) {
        16 => {
            let text = rng.percent(50).then(|| because.clone());
            SessionCommand::Interrupt { key: format!("leave-{}", rng.below(1_000)), text }
        }
        17 => SessionCommand::Compact { key: format!("compact-{}", rng.below(1_000)) },
        0 => SessionCommand::Cancel { because },
        1 => SessionCommand::Stop,
        2 => {
            let to = rng.pick(&[
                ManualOutcome::Accepted,
                ManualOutcome::Failed,
                ManualOutcome::Cancelled,
            ]);
            SessionCommand::Resolve { to, because }
        }
        3..=5 => {
            let mode = rng.pick(&[SendMode::Continue, SendMode::Continue, SendMode::Supersede]);
            SessionCommand::Send { key: format!("send-{}", rng.below(1_000)), text: because, mode }
        }
        6 | 7 => {
            let known: Vec<(RequestId, u32)> =
                session.requests.iter().map(|r| (r.id, r.revision)).collect();
            let forged = [(RequestId { session: session.id, no: 99 }, 1)];
            let (request, revision) = rng.pick(if known.is_empty() { &forged } else { &known });
            let approves = RequestReply::Approve(ApprovalScope::Once);
            let reply = rng.pick(&[RequestReply::Text(because), approves, RequestReply::Deny]);
            SessionCommand::Answer { request, revision, reply }
        }
        8 => SessionCommand::RaiseLimit { bytes: rng.pick(&[1, 1 << 40]) },
        9 => match session.input.messages.last() {
            Some(m) => SessionCommand::MessageLost { key: m.key.clone(), reason: because },
            None => SessionCommand::Tick,
        },
        10..=12 => {
            let from = if rng.percent(80) {
                Reporter::Launch(random_launch(session, rng))
            } else {
                Reporter::Operator
            };
            SessionCommand::Report { from, testimony: random_testimony(rng) }
        }
        13 => SessionCommand::Silence {
            launch: random_launch(session, rng),
            heard_ms: rng.below(5_000),
        },
        _ => SessionCommand::Tick,
    }
}

/// Mostly the newest launch, sometimes an older one, rarely one that does not exist.
fn random_launch(session: &Session, rng: &mut Rng) -> LaunchId {
    let newest = session.launches.len() as u32;
    let no = match rng.below(20) {
        0 => newest + 1,
        1..=4 => 1 + rng.below(u64::from(newest.max(1))) as u32,
        _ => newest.max(1),
    };
    LaunchId { session: session.id, no }
}
