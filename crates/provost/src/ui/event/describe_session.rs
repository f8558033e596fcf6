//! Describes all session events for the user.

use provost_core::{
    request::{ApprovalScope, RequestReply, RequestStatus},
    result::StructuredResult,
    session::{
        AgentMessageKind, ClaimMade, ClaimSource, Event, FactKind, HookEnd, LaunchReason,
        ProcessEnded, ProcessExit, ProcessTreeReaped, ReportStatus, RequestOpened, StopReason,
        StopStep, StoppedBy, TurnEnd, TypingState,
    },
    verdict::{CheckEnd, Receipt},
};

use crate::ui::{expand_durations, format_duration, format_size, join_lines};

/// How many digits of a commit or tree hash to show.
const HASH_DIGITS: usize = 12;

/// Describes an event.
pub(super) fn describe(event: &Event) -> String {
    match event {
        Event::SessionOpened(_)
        | Event::AttemptOpened(_)
        | Event::TaskAssigned(_)
        | Event::WorkPrepared(_)
        | Event::WorkFailed(_)
        | Event::WorkRemoved(_)
        | Event::ConversationDeleted(_)
        | Event::SetupFinished(_)
        | Event::LaunchRequested(_)
        | Event::LaunchStarted(_)
        | Event::LaunchAdopted(_)
        | Event::LaunchFailed(_)
        | Event::LaunchFollowed(_) => describe_start(event),
        Event::StreamReady(_)
        | Event::ThreadSwitched(_)
        | Event::TurnStarted(_)
        | Event::TurnEnded(_)
        | Event::StreamRefused(_)
        | Event::StreamUnreachable(_)
        | Event::GoalChanged(_)
        | Event::TurnMissing(_)
        | Event::AgentWarned(_)
        | Event::LimitSlot(_)
        | Event::LimitLifted(_)
        | Event::BudgetRaised(_)
        | Event::SessionRenamed(_)
        | Event::SessionTakenOver(_)
        | Event::SessionDismissed(_)
        | Event::StreamHeard(_)
        | Event::StreamSilent(_)
        | Event::StreamRetrying(_)
        | Event::StreamClosed(_)
        | Event::StreamSettled(_)
        | Event::OutputOversized(_)
        | Event::OutputAtLimit(_)
        | Event::OutputDiskFull(_)
        | Event::OutputResumed(_)
        | Event::OutputLost(_)
        | Event::RecordForged(_)
        | Event::EffectShortage(_)
        | Event::EffectRetried(_)
        | Event::ReportsRefused(_)
        | Event::LimitRaised(_)
        | Event::ProgressReported(_)
        | Event::UsageReported(_)
        | Event::ContextReported(_)
        | Event::ContextCompacted(_)
        | Event::CompactionFailed(_)
        | Event::SignalRecorded(_)
        | Event::SignalInferred(_)
        | Event::PaneSeen(_) => describe_stream(event),
        Event::ProcessEnded(_)
        | Event::ProcessUnknown(_)
        | Event::ProcessSeen(_)
        | Event::ProcessSuspended(_)
        | Event::ViewersChanged(_)
        | Event::ProcessUnobserved(_)
        | Event::ProcessTreeReaped(_)
        | Event::StopRequested(_)
        | Event::StopEscalated(_) => describe_process(event),
        Event::ClaimMade(_)
        | Event::FactReported(_)
        | Event::RequestOpened(_)
        | Event::RequestSettled(_)
        | Event::RequestContradicted(_)
        | Event::RequestRuled(_)
        | Event::ToolCalled(_)
        | Event::ToolAnswered(_)
        | Event::TeamCommandCounted(_)
        | Event::MessageQueued(_)
        | Event::MessageDelivered(_)
        | Event::MessageTyped(_)
        | Event::MessageUnconfirmed(_)
        | Event::MessageRefused(_)
        | Event::MessageLost(_)
        | Event::ResultRequested(_)
        | Event::ResultReported(_)
        | Event::ReworkSent(_) => describe_exchange(event),
        Event::SnapshotTaken(_)
        | Event::SnapshotFailed(_)
        | Event::CheckFinished(_)
        | Event::AttemptCancelled(_)
        | Event::AttemptSuperseded(_)
        | Event::ThreadRestarted(_)
        | Event::AttemptStopped(_)
        | Event::AttemptResolved(_)
        | Event::AttemptSealed(_)
        | Event::ReactionDone(_)
        | Event::AgentReplaced(_)
        | Event::HookFinished(_) => describe_outcome(event),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the caller matches exhaustively")]
fn describe_start(event: &Event) -> String {
    match event {
        Event::SessionOpened(e) => {
            format!("opened {}: {}", e.spec.name, e.spec.agent.argv.join(" "))
        }
        Event::AttemptOpened(e) => {
            append_text(format!("attempt {} opened", e.no), e.instruction.as_deref())
        }
        Event::TaskAssigned(e) => format!("task {} assigned", e.assignment.task),
        Event::WorkPrepared(e) => {
            let base =
                e.base.as_ref().map(|base| format!(", from commit {}", short_hash(&base.commit.0)));
            format!("working directory ready: {}{}", e.cwd, base.unwrap_or_default())
        }
        Event::WorkFailed(e) => {
            format!("cannot create the working directory: {}", join_lines(&e.reason))
        }
        Event::WorkRemoved(_) => "worktree removed".to_owned(),
        Event::ConversationDeleted(_) => {
            "conversation removed; the session can no longer be resumed".to_owned()
        }
        Event::SetupFinished(e) => match &e.failure {
            None => "setup done".to_owned(),
            Some(why) => format!("setup failed: {why}"),
        },
        Event::LaunchRequested(e) => {
            let why = match e.why {
                LaunchReason::First => "",
                LaunchReason::Answer => ", for the answer",
                LaunchReason::Instruction => ", for the instruction",
                LaunchReason::Crash => ", because the agent crashed",
                LaunchReason::HandedOver => ", for the agent that takes over",
                LaunchReason::Retry => ", because the first was unreachable",
                LaunchReason::Limit => ", because the usage limit was lifted",
            };
            format!("launch {} pending{why}", e.launch.no)
        }
        Event::LaunchStarted(e) => format!("launch {} started, pid {}", e.launch.no, e.child.pid),
        Event::LaunchAdopted(e) => match &e.child {
            Some(child) => format!("launch {} adopted, pid {}", e.launch.no, child.pid),
            None => format!("launch {} adopted, its process is unknown", e.launch.no),
        },
        Event::LaunchFailed(e) => format!("launch {} could not start: {}", e.launch.no, e.reason),
        Event::LaunchFollowed(e) => {
            format!("a new daemon follows launch {}", e.launch.no)
        }
        _ => unreachable!("only events of a start are passed here"),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the caller matches exhaustively")]
fn describe_stream(event: &Event) -> String {
    match event {
        Event::ThreadSwitched(e) => {
            format!("the agent's screen switched to conversation {}, from {}", e.to, e.from)
        }
        Event::StreamReady(e) => match &e.thread {
            None => "agent ready".to_owned(),
            Some(thread) => format!("agent ready, thread {thread}"),
        },
        Event::TurnStarted(e) => format!("{} started", turn_label(e.turn.as_deref())),
        Event::TurnEnded(e) => {
            let turn = turn_label(e.turn.as_deref());
            match &e.end {
                TurnEnd::Ok => format!("{turn} ended"),
                TurnEnd::Interrupted => format!("{turn} interrupted"),
                TurnEnd::Error(why) => format!("{turn} ended with an error: {why}"),
                TurnEnd::Limited { detail, .. } => {
                    append_text(format!("{turn} ended by a limit of the account"), Some(detail))
                }
            }
        }
        Event::StreamRefused(e) => format!("agent refused: {}", e.reason),
        Event::StreamUnreachable(e) => format!("cannot connect to the agent: {}", e.reason),
        Event::GoalChanged(e) if e.active => "agent pursues a goal".to_owned(),
        Event::GoalChanged(_) => "agent no longer pursues a goal".to_owned(),
        Event::TurnMissing(_) => "the agent did not start the expected turn".to_owned(),
        Event::AgentWarned(e) => format!("warning: {}", e.text),
        Event::LimitSlot(_) => "waiting for other sessions of the same account".to_owned(),
        Event::LimitLifted(_) => "the account's limit was lifted, so work resumes".to_owned(),
        Event::SessionRenamed(e) => format!("renamed \"{}\"", e.name),
        Event::SessionTakenOver(_) => "taken over from the home that exported it".to_owned(),
        Event::SessionDismissed(e) => format!("dismissed: {}", e.because),
        Event::BudgetRaised(e) => {
            let part = |what: &str, to: Option<u64>| to.map(|to| format!("{to} {what}"));
            let parts = [part("tokens", e.tokens), part("turns", e.turns.map(u64::from))];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            format!("budget set to {}", parts.join(", "))
        }
        Event::StreamHeard(_) => "output received again".to_owned(),
        Event::StreamSilent(_) => "silent for longer than the silence window".to_owned(),
        Event::StreamRetrying(e) => append_text("retrying".to_owned(), Some(&e.detail)),
        Event::StreamClosed(_) => "output closed".to_owned(),
        Event::StreamSettled(_) => "process is still running after it closed its output".to_owned(),
        Event::OutputOversized(e) => {
            format!("line of {} stored but not parsed", format_size(e.bytes))
        }
        Event::OutputAtLimit(_) => "output limit reached, agent paused".to_owned(),
        Event::OutputDiskFull(e) => format!("no space on the disk of {}, agent paused", e.dir),
        Event::OutputResumed(_) => "disk space is available again".to_owned(),
        Event::OutputLost(_) => "some output was lost".to_owned(),
        Event::RecordForged(e) => {
            format!(
                "forged record of effect {} moved to {}; the effect was carried out",
                e.effect, e.moved_to
            )
        }
        Event::EffectShortage(e) => {
            let name = e.shortage.resource.name();
            format!("{} waits for {name}: {}", e.effect, e.shortage.detail)
        }
        Event::EffectRetried(e) => format!("{} retried", e.effect),
        Event::ReportsRefused(e) => {
            format!(
                "{} reports of {} accepted, further ones refused",
                e.reports,
                format_size(e.bytes)
            )
        }
        Event::LimitRaised(e) => format!("output limit raised to {}", format_size(e.bytes)),
        Event::ProgressReported(e) => format!("progress {}/{}", e.progress.done, e.progress.total),
        Event::SignalRecorded(e) => format!("{}: {}", e.by.as_str(), e.said.describe()),
        Event::SignalInferred(e) => format!("{} shows: {}", e.by.as_str(), e.said.describe()),
        Event::PaneSeen(e) => e.state.describe().to_owned(),
        Event::UsageReported(e) => format!("tokens: {} in, {} out", e.usage.input, e.usage.output),
        Event::ContextCompacted(_) => "conversation compacted".to_owned(),
        Event::CompactionFailed(e) => format!("conversation not compacted: {}", e.reason),
        Event::ContextReported(e) => {
            format!("context: {} of {} tokens", e.context.used, e.context.window)
        }
        _ => unreachable!("only events of a stream are passed here"),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the caller matches exhaustively")]
fn describe_process(event: &Event) -> String {
    match event {
        Event::ProcessEnded(e) => describe_exit(e),
        Event::ProcessUnknown(e) => format!("cannot inspect the process: {}", e.why),
        Event::ProcessSeen(_) => "process is visible again".to_owned(),
        Event::ProcessSuspended(e) if e.suspended => "process suspended".to_owned(),
        Event::ProcessSuspended(_) => "process resumed".to_owned(),
        Event::ViewersChanged(e) => match e.viewers {
            0 => "no viewer is attached anymore".to_owned(),
            1 => "1 viewer is attached".to_owned(),
            people => format!("{people} viewers are attached"),
        },
        Event::ProcessUnobserved(e) => format!("process ended, exit status unknown: {}", e.why),
        Event::ProcessTreeReaped(e) => describe_tree_exit(e),
        Event::StopRequested(e) => {
            let why = match e.why {
                StopReason::Operator => ", requested by the operator",
                StopReason::Decided => ", its outcome was decided",
                StopReason::Finished => ", its work is finished",
                StopReason::Unclaimed => ", it made no claim",
                StopReason::ReworkExhausted => ", its work failed its checks too often",
                StopReason::Leftover => ", it closed its output and still ran",
                StopReason::HandedOver => ", another agent takes over",
                StopReason::Unreachable => ", it was unreachable",
                StopReason::TeamEnded => ", its team ended",
            };
            format!("stop started: {}{why}", stop_step_name(e.step))
        }
        Event::StopEscalated(e) => format!("stop escalated: {}", stop_step_name(e.step)),
        _ => unreachable!("only events of a process are passed here"),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the caller matches exhaustively")]
fn describe_exchange(event: &Event) -> String {
    match event {
        Event::ClaimMade(e) => describe_claim(e),
        Event::FactReported(e) => {
            let fact = match e.fact {
                FactKind::Branch => "branch",
                FactKind::Pr => "pull request",
                FactKind::Artifact => "artifact",
            };
            format!("{fact} reported: {}{}", e.value, status_suffix(e.status))
        }
        Event::RequestOpened(e) => describe_request(e),
        Event::RequestContradicted(e) => {
            let what = if e.done {
                "was denied here but carried out"
            } else {
                "was approved here but declined"
            };
            format!("q{} {what}: another answer came first", e.request.no)
        }
        Event::RequestRuled(e) => {
            let decided = match &e.reply {
                RequestReply::Approve(_) => "approved",
                RequestReply::Deny => "denied",
                RequestReply::Text(_) | RequestReply::Answers(_) => "answered",
            };
            format!("request q{} {decided} by the policy: {}", e.request.no, e.rule)
        }
        Event::ToolCalled(e) => format!("tool call {}: {}", e.no, e.call.as_str()),
        Event::ToolAnswered(e) if e.ok => format!("call {} answered", e.no),
        Event::ToolAnswered(e) => format!("call {} refused: {}", e.no, e.text),
        Event::TeamCommandCounted(e) => format!("team command of {}", format_size(e.bytes)),
        Event::RequestSettled(e) => {
            let fate = match e.status {
                RequestStatus::Open => "open",
                RequestStatus::Answered => "answered",
                RequestStatus::Withdrawn => "withdrawn",
                RequestStatus::AnsweredElsewhere => "answered on the agent's screen",
                RequestStatus::Void => "void, the session ended",
            };
            format!("q{} {fate}", e.request.no)
        }
        Event::MessageQueued(e) => {
            let text = Some(e.text.as_str()).filter(|text| !text.is_empty());
            let decided = match &e.reply {
                Some(RequestReply::Approve(ApprovalScope::Once)) => " (approved)",
                Some(RequestReply::Approve(ApprovalScope::Session)) => {
                    " (approved for the session)"
                }
                Some(RequestReply::Deny) => " (denied)",
                Some(RequestReply::Text(_) | RequestReply::Answers(_)) | None => "",
            };
            append_text(format!("{} for the agent{decided}", message_kind_name(e.kind)), text)
        }
        Event::MessageDelivered(e) => format!("{} delivered", e.key),
        Event::MessageTyped(e) => match e.state {
            TypingState::CommandLine => format!("{} given on the command line", e.key),
            TypingState::Typing => format!("typing {}", e.key),
            TypingState::Untyped => format!("{} not typed, the pane accepted no keys", e.key),
            TypingState::Typed => format!("{} typed", e.key),
            TypingState::RetryEnter => {
                format!("{} is not in the agent's transcript, Enter is retried", e.key)
            }
            TypingState::Pressing => format!("retrying Enter for {}", e.key),
            TypingState::Pressed => format!("retried Enter for {}", e.key),
            TypingState::Unconfirmed => format!("{} may have been typed", e.key),
        },
        Event::MessageUnconfirmed(e) => format!("{} waits: {}", e.key, e.reason),
        Event::MessageRefused(e) => {
            let next = if e.retry { ", resent after the open turn" } else { "" };
            format!("{} rejected by the agent{next}: {}", e.key, e.reason)
        }
        Event::MessageLost(e) => format!("{} not delivered: {}", e.key, e.reason),
        Event::ResultRequested(_) => {
            "turn ended without a claim, the agent is asked for its result".to_owned()
        }
        Event::ResultReported(e) => match &e.result {
            StructuredResult::Triage(_) => "reported its understanding of the task".to_owned(),
            StructuredResult::Plan(_) => "submitted a plan".to_owned(),
            StructuredResult::PlanReview(_) => "reviewed the plan".to_owned(),
            StructuredResult::Review(review) => match review.findings.len() {
                0 => "review found no problems".to_owned(),
                1 => "review found 1 problem".to_owned(),
                many => format!("review found {many} problems"),
            },
        },
        Event::ReworkSent(e) => append_text("rework requested".to_owned(), Some(&e.text)),
        _ => unreachable!("only claims, requests and messages are passed here"),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the caller matches exhaustively")]
fn describe_outcome(event: &Event) -> String {
    match event {
        Event::SnapshotTaken(e) => {
            let (commit, tree) = (short_hash(&e.snapshot.commit.0), short_hash(&e.snapshot.tree.0));
            format!("work committed as {commit}, tree {tree}")
        }
        Event::SnapshotFailed(e) => format!("cannot commit the work: {}", join_lines(&e.reason)),
        Event::CheckFinished(e) => describe_check(&e.receipt),
        Event::AttemptCancelled(e) => append_text("cancelled".to_owned(), Some(&e.because)),
        Event::AttemptSuperseded(_) => "superseded by a newer instruction".to_owned(),
        Event::ThreadRestarted(_) => "conversation abandoned, the next one is new".to_owned(),
        Event::AttemptStopped(e) => format!("stopped by Provost: {}", expand_durations(&e.detail)),
        Event::AttemptResolved(e) => {
            format!("resolved as {}: {}", spaced(e.state.as_str()), e.because)
        }
        Event::AttemptSealed(e) => {
            let judged = &e.sealed.judgement;
            let cause = judged.cause.map(|cause| format!(" ({})", spaced(cause.as_str())));
            format!("sealed as {}{}", spaced(judged.state.as_str()), cause.unwrap_or_default())
        }
        Event::ReactionDone(e) => format!("reaction {}", e.reaction),
        Event::AgentReplaced(e) => format!("handed over from {} to {}", e.from, e.to),
        Event::HookFinished(e) => {
            let end = match &e.end {
                HookEnd::Exit(code) => format!("exit {code}"),
                HookEnd::Signal(signal) => format!("signal {signal}"),
                HookEnd::TimeLimit => "time limit".to_owned(),
                HookEnd::OutputLimit => "output limit".to_owned(),
                HookEnd::NotStarted(why) => format!("cannot start: {why}"),
                HookEnd::Uncertain(why) => format!("result unknown: {why}"),
            };
            format!("hook {} ended: {end}", e.key.event)
        }
        _ => unreachable!("only outcomes and their evidence are passed here"),
    }
}

fn describe_exit(e: &ProcessEnded) -> String {
    let how = match e.end {
        ProcessExit::Exit(code) => format!("exit {code}"),
        ProcessExit::Signal(signal) => format!("signal {signal}"),
    };
    match e.by {
        StoppedBy::Itself => format!("process ended: {how}"),
        StoppedBy::Provost => format!("process stopped by Provost: {how}"),
    }
}

fn describe_tree_exit(e: &ProcessTreeReaped) -> String {
    match (e.leftovers, e.verified) {
        (0, true) => "no process is left".to_owned(),
        (count, true) => format!("no process is left, {count} had to be killed"),
        (_, false) => "processes may remain".to_owned(),
    }
}

fn describe_claim(e: &ClaimMade) -> String {
    let kind = spaced(e.kind.as_str());
    let claim = match e.source {
        ClaimSource::Agent => format!("agent claims {kind}"),
        ClaimSource::DropBox => format!("agent claims {kind}, through the drop box"),
        ClaimSource::Operator => format!("operator claims {kind}"),
        ClaimSource::Policy => format!("exit 0 counts as {kind}"),
        ClaimSource::TurnError => format!("the turn's error counts as {kind}"),
    };
    append_text(format!("{claim}{}", status_suffix(e.status)), e.text.as_deref())
}

fn describe_request(e: &RequestOpened) -> String {
    let (kind, no) = (e.asked.kind.as_str(), e.request.no);
    let first = e.asked.questions.first().map(|question| question.question.as_str());
    let title = Some(e.asked.title.as_str()).filter(|title| !title.is_empty()).or(first);
    append_text(format!("{kind} q{no}"), title)
}

fn describe_check(receipt: &Receipt) -> String {
    let (result, detail) = match &receipt.end {
        CheckEnd::Exit(0) => ("passed", String::new()),
        CheckEnd::Exit(code) => ("failed", format!("exit {code}, ")),
        CheckEnd::Signal(signal) => ("failed", format!("signal {signal}, ")),
        CheckEnd::TimeLimit => ("unfinished", "time limit, ".to_owned()),
        CheckEnd::OutputLimit => ("unfinished", "output limit, ".to_owned()),
        CheckEnd::Unfinished(why) => ("unfinished", format!("{why}, ")),
    };
    format!(
        "check {result}: {} ({detail}{})",
        receipt.command,
        format_duration(receipt.duration_ms)
    )
}

fn message_kind_name(kind: AgentMessageKind) -> &'static str {
    match kind {
        AgentMessageKind::Instruction => "instruction",
        AgentMessageKind::Steer => "message",
        AgentMessageKind::Rework => "rework",
        AgentMessageKind::ResultWanted => "request for the result",
        AgentMessageKind::Answer => "answer",
        AgentMessageKind::Returned => "tool result",
        AgentMessageKind::Continue => "continuation",
        AgentMessageKind::Nudge => "nudge",
        AgentMessageKind::Interrupt => "interrupt",
        AgentMessageKind::Compact => "request to compact",
    }
}

fn stop_step_name(step: StopStep) -> &'static str {
    match step {
        StopStep::Interrupt => "interrupt",
        StopStep::Terminate => "TERM",
        StopStep::Kill => "KILL",
        StopStep::GivenUp => "given up",
    }
}

fn status_suffix(status: ReportStatus) -> &'static str {
    match status {
        ReportStatus::Applied => "",
        ReportStatus::Recorded => " (recorded only)",
        ReportStatus::RecordedLate => " (too late, recorded)",
    }
}

fn turn_label(name: Option<&str>) -> String {
    name.map_or_else(|| "turn".to_owned(), |name| format!("turn {name}"))
}

fn append_text(what: String, text: Option<&str>) -> String {
    text.map_or(what.clone(), |text| format!("{what}: {text}"))
}

fn spaced(word: &str) -> String {
    word.replace('_', " ")
}

fn short_hash(digits: &str) -> &str {
    digits.get(..HASH_DIGITS).unwrap_or(digits)
}
