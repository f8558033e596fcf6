//! Describes all session events for the user.

use provost_core::{
    request::{ApprovalScope, RequestReply, RequestStatus},
    result::StructuredResult,
    session::{
        AgentMessageKind, AttemptEvent, BudgetEvent, ClaimMade, ClaimSource, ConversationEvent,
        EffectEvent, Event, EvidenceEvent, FactKind, HookEnd, InputEvent, LaunchReason,
        ProcessEnded, ProcessEvent, ProcessExit, ProcessTreeReaped, ReportEvent, ReportStatus,
        RequestEvent, RequestOpened, SessionChange, StopReason, StopStep, StoppedBy, StreamEvent,
        ToolEvent, TurnEnd, TurnEvent, TypingState, WorktreeEvent,
    },
    verdict::{CheckEnd, Receipt},
};

use crate::ui::{expand_durations, format_duration, format_size, join_lines};

/// How many digits of a commit or tree hash to show.
const HASH_DIGITS: usize = 12;

/// Describes an event.
pub(super) fn describe(event: &Event) -> String {
    match event {
        Event::Session(event) => describe_change(event),
        Event::Attempt(event) => describe_attempt(event),
        Event::Worktree(event) => describe_worktree(event),
        Event::Process(event) => describe_process(event),
        Event::Stream(event) => describe_stream(event),
        Event::Turn(event) => describe_turn(event),
        Event::Conversation(event) => describe_conversation(event),
        Event::Budget(event) => describe_budget(event),
        Event::Input(event) => describe_input(event),
        Event::Report(event) => describe_report(event),
        Event::Request(event) => describe_request_event(event),
        Event::Tool(event) => describe_tool(event),
        Event::Evidence(event) => describe_evidence(event),
        Event::Effect(event) => describe_effect(event),
    }
}

fn describe_change(event: &SessionChange) -> String {
    match event {
        SessionChange::SessionOpened(e) => {
            format!("opened {}: {}", e.spec.name, e.spec.agent.argv.join(" "))
        }
        SessionChange::SessionRenamed(e) => format!("renamed \"{}\"", e.name),
        SessionChange::SessionTakenOver(_) => {
            "taken over from the home that exported it".to_owned()
        }
        SessionChange::SessionDismissed(e) => format!("dismissed: {}", e.because),
        SessionChange::AgentReplaced(e) => format!("handed over from {} to {}", e.from, e.to),
        SessionChange::ReactionDone(e) => format!("reaction {}", e.reaction),
        SessionChange::HookFinished(e) => {
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
    }
}

fn describe_attempt(event: &AttemptEvent) -> String {
    match event {
        AttemptEvent::AttemptOpened(e) => {
            append_text(format!("attempt {} opened", e.no), e.instruction.as_deref())
        }
        AttemptEvent::TaskAssigned(e) => format!("task {} assigned", e.assignment.task),
        AttemptEvent::ResultRequested(_) => {
            "turn ended without a claim, the agent is asked for its result".to_owned()
        }
        AttemptEvent::ReworkSent(e) => append_text("rework requested".to_owned(), Some(&e.text)),
        AttemptEvent::AttemptCancelled(e) => append_text("cancelled".to_owned(), Some(&e.because)),
        AttemptEvent::AttemptSuperseded(_) => "superseded by a newer instruction".to_owned(),
        AttemptEvent::AttemptStopped(e) => {
            format!("stopped by Provost: {}", expand_durations(&e.detail))
        }
        AttemptEvent::AttemptResolved(e) => {
            format!("resolved as {}: {}", spaced(e.state.as_str()), e.because)
        }
        AttemptEvent::AttemptSealed(e) => {
            let judged = &e.sealed.judgement;
            let cause = judged.cause.map(|cause| format!(" ({})", spaced(cause.as_str())));
            format!("sealed as {}{}", spaced(judged.state.as_str()), cause.unwrap_or_default())
        }
    }
}

fn describe_worktree(event: &WorktreeEvent) -> String {
    match event {
        WorktreeEvent::WorkPrepared(e) => {
            let base =
                e.base.as_ref().map(|base| format!(", from commit {}", short_hash(&base.commit.0)));
            format!("working directory ready: {}{}", e.cwd, base.unwrap_or_default())
        }
        WorktreeEvent::WorkFailed(e) => {
            format!("cannot create the working directory: {}", join_lines(&e.reason))
        }
        WorktreeEvent::WorkRemoved(_) => "worktree removed".to_owned(),
        WorktreeEvent::SetupFinished(e) => match &e.failure {
            None => "setup done".to_owned(),
            Some(why) => format!("setup failed: {why}"),
        },
    }
}

fn describe_process(event: &ProcessEvent) -> String {
    match event {
        ProcessEvent::LaunchRequested(e) => {
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
        ProcessEvent::LaunchStarted(e) => {
            format!("launch {} started, pid {}", e.launch.no, e.child.pid)
        }
        ProcessEvent::LaunchAdopted(e) => match &e.child {
            Some(child) => format!("launch {} adopted, pid {}", e.launch.no, child.pid),
            None => format!("launch {} adopted, its process is unknown", e.launch.no),
        },
        ProcessEvent::LaunchFailed(e) => {
            format!("launch {} could not start: {}", e.launch.no, e.reason)
        }
        ProcessEvent::LaunchFollowed(e) => {
            format!("a new daemon follows launch {}", e.launch.no)
        }
        ProcessEvent::ProcessEnded(e) => describe_exit(e),
        ProcessEvent::ProcessUnknown(e) => format!("cannot inspect the process: {}", e.why),
        ProcessEvent::ProcessSeen(_) => "process is visible again".to_owned(),
        ProcessEvent::ProcessSuspended(e) if e.suspended => "process suspended".to_owned(),
        ProcessEvent::ProcessSuspended(_) => "process resumed".to_owned(),
        ProcessEvent::ViewersChanged(e) => match e.viewers {
            0 => "no viewer is attached anymore".to_owned(),
            1 => "1 viewer is attached".to_owned(),
            people => format!("{people} viewers are attached"),
        },
        ProcessEvent::ProcessUnobserved(e) => {
            format!("process ended, exit status unknown: {}", e.why)
        }
        ProcessEvent::ProcessTreeReaped(e) => describe_tree_exit(e),
        ProcessEvent::StopRequested(e) => {
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
        ProcessEvent::StopEscalated(e) => format!("stop escalated: {}", stop_step_name(e.step)),
    }
}

fn describe_stream(event: &StreamEvent) -> String {
    match event {
        StreamEvent::StreamReady(e) => match &e.thread {
            None => "agent ready".to_owned(),
            Some(thread) => format!("agent ready, thread {thread}"),
        },
        StreamEvent::StreamRefused(e) => format!("agent refused: {}", e.reason),
        StreamEvent::StreamUnreachable(e) => format!("cannot connect to the agent: {}", e.reason),
        StreamEvent::StreamHeard(_) => "output received again".to_owned(),
        StreamEvent::StreamSilent(_) => "silent for longer than the silence window".to_owned(),
        StreamEvent::StreamRetrying(e) => append_text("retrying".to_owned(), Some(&e.detail)),
        StreamEvent::StreamClosed(_) => "output closed".to_owned(),
        StreamEvent::StreamSettled(_) => {
            "process is still running after it closed its output".to_owned()
        }
        StreamEvent::AgentWarned(e) => format!("warning: {}", e.text),
        StreamEvent::OutputOversized(e) => {
            format!("line of {} stored but not parsed", format_size(e.bytes))
        }
        StreamEvent::OutputAtLimit(_) => "output limit reached, agent paused".to_owned(),
        StreamEvent::OutputDiskFull(e) => {
            format!("no space on the disk of {}, agent paused", e.dir)
        }
        StreamEvent::OutputResumed(_) => "disk space is available again".to_owned(),
        StreamEvent::OutputLost(_) => "some output was lost".to_owned(),
        StreamEvent::LimitRaised(e) => format!("output limit raised to {}", format_size(e.bytes)),
    }
}

fn describe_turn(event: &TurnEvent) -> String {
    match event {
        TurnEvent::TurnStarted(e) => format!("{} started", turn_label(e.turn.as_deref())),
        TurnEvent::TurnEnded(e) => {
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
        TurnEvent::GoalChanged(e) if e.active => "agent pursues a goal".to_owned(),
        TurnEvent::GoalChanged(_) => "agent no longer pursues a goal".to_owned(),
        TurnEvent::TurnMissing(_) => "the agent did not start the expected turn".to_owned(),
    }
}

fn describe_conversation(event: &ConversationEvent) -> String {
    match event {
        ConversationEvent::ThreadSwitched(e) => {
            format!("the agent's screen switched to conversation {}, from {}", e.to, e.from)
        }
        ConversationEvent::ThreadRestarted(_) => {
            "conversation abandoned, the next one is new".to_owned()
        }
        ConversationEvent::ContextReported(e) => {
            format!("context: {} of {} tokens", e.context.used, e.context.window)
        }
        ConversationEvent::ContextCompacted(_) => "conversation compacted".to_owned(),
        ConversationEvent::CompactionFailed(e) => {
            format!("conversation not compacted: {}", e.reason)
        }
        ConversationEvent::ConversationDeleted(_) => {
            "conversation removed; the session can no longer be resumed".to_owned()
        }
    }
}

fn describe_budget(event: &BudgetEvent) -> String {
    match event {
        BudgetEvent::UsageReported(e) => {
            format!("tokens: {} in, {} out", e.usage.input, e.usage.output)
        }
        BudgetEvent::BudgetRaised(e) => {
            let part = |what: &str, to: Option<u64>| to.map(|to| format!("{to} {what}"));
            let parts = [part("tokens", e.tokens), part("turns", e.turns.map(u64::from))];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            format!("budget set to {}", parts.join(", "))
        }
        BudgetEvent::LimitSlot(_) => "waiting for other sessions of the same account".to_owned(),
        BudgetEvent::LimitLifted(_) => "the account's limit was lifted, so work resumes".to_owned(),
    }
}

fn describe_input(event: &InputEvent) -> String {
    match event {
        InputEvent::SignalRecorded(e) => format!("{}: {}", e.by.as_str(), e.said.describe()),
        InputEvent::SignalInferred(e) => format!("{} shows: {}", e.by.as_str(), e.said.describe()),
        InputEvent::PaneSeen(e) => e.state.describe().to_owned(),
        InputEvent::MessageQueued(e) => {
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
        InputEvent::MessageDelivered(e) => format!("{} delivered", e.key),
        InputEvent::MessageTyped(e) => match e.state {
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
        InputEvent::MessageUnconfirmed(e) => format!("{} waits: {}", e.key, e.reason),
        InputEvent::MessageRefused(e) => {
            let next = if e.retry { ", resent after the open turn" } else { "" };
            format!("{} rejected by the agent{next}: {}", e.key, e.reason)
        }
        InputEvent::MessageLost(e) => format!("{} not delivered: {}", e.key, e.reason),
    }
}

fn describe_report(event: &ReportEvent) -> String {
    match event {
        ReportEvent::ClaimMade(e) => describe_claim(e),
        ReportEvent::FactReported(e) => {
            let fact = match e.fact {
                FactKind::Branch => "branch",
                FactKind::Pr => "pull request",
                FactKind::Artifact => "artifact",
            };
            format!("{fact} reported: {}{}", e.value, status_suffix(e.status))
        }
        ReportEvent::ResultReported(e) => match &e.result {
            StructuredResult::Triage(_) => "reported its understanding of the task".to_owned(),
            StructuredResult::Plan(_) => "submitted a plan".to_owned(),
            StructuredResult::PlanReview(_) => "reviewed the plan".to_owned(),
            StructuredResult::Review(review) => match review.findings.len() {
                0 => "review found no problems".to_owned(),
                1 => "review found 1 problem".to_owned(),
                many => format!("review found {many} problems"),
            },
        },
        ReportEvent::ProgressReported(e) => {
            format!("progress {}/{}", e.progress.done, e.progress.total)
        }
        ReportEvent::ReportsRefused(e) => {
            format!(
                "{} reports of {} accepted, further ones refused",
                e.reports,
                format_size(e.bytes)
            )
        }
        ReportEvent::TeamCommandCounted(e) => format!("team command of {}", format_size(e.bytes)),
    }
}

fn describe_request_event(event: &RequestEvent) -> String {
    match event {
        RequestEvent::RequestOpened(e) => describe_request(e),
        RequestEvent::RequestSettled(e) => {
            let fate = match e.status {
                RequestStatus::Open => "open",
                RequestStatus::Answered => "answered",
                RequestStatus::Withdrawn => "withdrawn",
                RequestStatus::AnsweredElsewhere => "answered on the agent's screen",
                RequestStatus::Void => "void, the session ended",
            };
            format!("q{} {fate}", e.request.no)
        }
        RequestEvent::RequestContradicted(e) => {
            let what = if e.done {
                "was denied here but carried out"
            } else {
                "was approved here but declined"
            };
            format!("q{} {what}: another answer came first", e.request.no)
        }
        RequestEvent::RequestRuled(e) => {
            let decided = match &e.reply {
                RequestReply::Approve(_) => "approved",
                RequestReply::Deny => "denied",
                RequestReply::Text(_) | RequestReply::Answers(_) => "answered",
            };
            format!("request q{} {decided} by the policy: {}", e.request.no, e.rule)
        }
    }
}

fn describe_tool(event: &ToolEvent) -> String {
    match event {
        ToolEvent::ToolCalled(e) => format!("tool call {}: {}", e.no, e.call.as_str()),
        ToolEvent::ToolAnswered(e) if e.ok => format!("call {} answered", e.no),
        ToolEvent::ToolAnswered(e) => format!("call {} refused: {}", e.no, e.text),
    }
}

fn describe_evidence(event: &EvidenceEvent) -> String {
    match event {
        EvidenceEvent::SnapshotTaken(e) => {
            let (commit, tree) = (short_hash(&e.snapshot.commit.0), short_hash(&e.snapshot.tree.0));
            format!("work committed as {commit}, tree {tree}")
        }
        EvidenceEvent::SnapshotFailed(e) => {
            format!("cannot commit the work: {}", join_lines(&e.reason))
        }
        EvidenceEvent::CheckFinished(e) => describe_check(&e.receipt),
    }
}

fn describe_effect(event: &EffectEvent) -> String {
    match event {
        EffectEvent::RecordForged(e) => {
            format!(
                "forged record of effect {} moved to {}; the effect was carried out",
                e.effect, e.moved_to
            )
        }
        EffectEvent::EffectShortage(e) => {
            let name = e.shortage.resource.name();
            format!("{} waits for {name}: {}", e.effect, e.shortage.detail)
        }
        EffectEvent::EffectRetried(e) => format!("{} retried", e.effect),
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
