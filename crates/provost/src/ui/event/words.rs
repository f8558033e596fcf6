//! Every event in the project's words, with what is worth knowing of it.

use provost_core::{
    request::{Fate, Reply, Scope},
    result::Structured,
    session::{
        ClaimMade, ClaimSource, End, EndedBy, Event, FactKind, HookEnd, LaunchWhy, MessageKind,
        ProcessEnded, RequestOpened, Standing, StopStep, StopWhy, TreeGone, TurnEnd, Way,
    },
    verdict::{CheckEnd, Receipt},
};

use crate::ui::{size, span, spell_times};

/// The digits of a commit or tree that are shown.
const HASH: usize = 12;

/// Says what happened.
pub(super) fn of(event: &Event) -> String {
    match event {
        Event::SessionOpened(_)
        | Event::AttemptOpened(_)
        | Event::TaskAssigned(_)
        | Event::WorkPrepared(_)
        | Event::WorkFailed(_)
        | Event::WorkRemoved(_)
        | Event::StoreRemoved(_)
        | Event::SetupFinished(_)
        | Event::LaunchOwed(_)
        | Event::LaunchStarted(_)
        | Event::LaunchAdopted(_)
        | Event::LaunchFailed(_)
        | Event::LaunchFollowed(_) => beginning(event),
        Event::StreamReady(_)
        | Event::ThreadMoved(_)
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
        | Event::OutputNoRoom(_)
        | Event::OutputFlows(_)
        | Event::OutputLost(_)
        | Event::RecordForged(_)
        | Event::EffectShort(_)
        | Event::EffectRetried(_)
        | Event::ReportsRefused(_)
        | Event::LimitRaised(_)
        | Event::ProgressTold(_)
        | Event::UsageTold(_)
        | Event::ContextTold(_)
        | Event::ContextCompacted(_)
        | Event::ContextKept(_)
        | Event::SignalRecorded(_)
        | Event::SignalHinted(_)
        | Event::PaneSeen(_) => stream(event),
        Event::ProcessEnded(_)
        | Event::ProcessUnknown(_)
        | Event::ProcessSeen(_)
        | Event::ProcessSuspended(_)
        | Event::PeopleAttached(_)
        | Event::ProcessUnobserved(_)
        | Event::TreeGone(_)
        | Event::StopAsked(_)
        | Event::StopEscalated(_) => process(event),
        Event::ClaimMade(_)
        | Event::FactTold(_)
        | Event::RequestOpened(_)
        | Event::RequestSettled(_)
        | Event::RequestContradicted(_)
        | Event::RequestRuled(_)
        | Event::ToolCalled(_)
        | Event::ToolAnswered(_)
        | Event::MessageQueued(_)
        | Event::MessageDelivered(_)
        | Event::MessageTyped(_)
        | Event::MessageUnproved(_)
        | Event::MessageRefused(_)
        | Event::MessageLost(_)
        | Event::ResultAsked(_)
        | Event::ResultTold(_)
        | Event::ReworkSent(_) => speech(event),
        Event::SnapshotTaken(_)
        | Event::SnapshotFailed(_)
        | Event::CheckFinished(_)
        | Event::AttemptCancelled(_)
        | Event::AttemptSuperseded(_)
        | Event::ThreadLeft(_)
        | Event::AttemptStopped(_)
        | Event::AttemptResolved(_)
        | Event::AttemptSealed(_)
        | Event::ReactionDone(_)
        | Event::AgentReplaced(_)
        | Event::HookFinished(_) => outcome(event),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "of() is the exhaustive match")]
fn beginning(event: &Event) -> String {
    match event {
        Event::SessionOpened(e) => {
            format!("opened {}: {}", e.spec.name, e.spec.agent.argv.join(" "))
        }
        Event::AttemptOpened(e) => {
            with(format!("attempt {} opened", e.no), e.instruction.as_deref())
        }
        Event::TaskAssigned(e) => format!("task {} assigned", e.assignment.task),
        Event::WorkPrepared(e) => {
            let base =
                e.base.as_ref().map(|base| format!(", from commit {}", hash(&base.commit.0)));
            format!("place of work ready: {}{}", e.cwd, base.unwrap_or_default())
        }
        Event::WorkFailed(e) => format!("place of work could not be made: {}", e.reason),
        Event::WorkRemoved(_) => "worktree removed".to_owned(),
        Event::StoreRemoved(_) => "conversation removed, it can no longer be resumed".to_owned(),
        Event::SetupFinished(e) => match &e.failure {
            None => "setup done".to_owned(),
            Some(why) => format!("setup failed: {why}"),
        },
        Event::LaunchOwed(e) => {
            let why = match e.why {
                LaunchWhy::First => "",
                LaunchWhy::Answer => ", for the answer",
                LaunchWhy::Instruction => ", for the instruction",
                LaunchWhy::Crash => ", for the agent died at work",
                LaunchWhy::HandedOver => ", for the agent that goes on",
                LaunchWhy::Retry => ", for the first was not reached",
                LaunchWhy::Limit => ", for the usage limit has passed",
            };
            format!("launch {} owed{why}", e.launch.no)
        }
        Event::LaunchStarted(e) => format!("launch {} started, pid {}", e.launch.no, e.child.pid),
        Event::LaunchAdopted(e) => match &e.child {
            Some(child) => format!("launch {} adopted, pid {}", e.launch.no, child.pid),
            None => format!("launch {} adopted, its process is not known", e.launch.no),
        },
        Event::LaunchFailed(e) => format!("launch {} could not start: {}", e.launch.no, e.reason),
        Event::LaunchFollowed(e) => {
            format!("launch {} is followed again, by a new daemon", e.launch.no)
        }
        _ => unreachable!("of() sends only beginnings here"),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "of() is the exhaustive match")]
fn stream(event: &Event) -> String {
    match event {
        Event::ThreadMoved(e) => {
            format!("its screen went on in the conversation {}, from {}", e.to, e.from)
        }
        Event::StreamReady(e) => match &e.thread {
            None => "agent ready".to_owned(),
            Some(thread) => format!("agent ready, thread {thread}"),
        },
        Event::TurnStarted(e) => format!("{} started", turn(e.turn.as_deref())),
        Event::TurnEnded(e) => {
            let turn = turn(e.turn.as_deref());
            match &e.end {
                TurnEnd::Ok => format!("{turn} ended"),
                TurnEnd::Interrupted => format!("{turn} interrupted"),
                TurnEnd::Error(why) => format!("{turn} ended with an error: {why}"),
                TurnEnd::Limited { detail, .. } => {
                    with(format!("{turn} ended by a limit of the account"), Some(detail))
                }
            }
        }
        Event::StreamRefused(e) => format!("agent refused: {}", e.reason),
        Event::StreamUnreachable(e) => format!("agent could not be connected to: {}", e.reason),
        Event::GoalChanged(e) if e.active => "agent pursues a goal".to_owned(),
        Event::GoalChanged(_) => "agent pursues no goal any more".to_owned(),
        Event::TurnMissing(_) => "the agent did not begin the turn that was expected".to_owned(),
        Event::AgentWarned(e) => format!("warning: {}", e.text),
        Event::LimitSlot(_) => "waits for its turn among the sessions of its account".to_owned(),
        Event::LimitLifted(_) => "the account's limit is over, work goes on".to_owned(),
        Event::SessionRenamed(e) => format!("renamed \"{}\"", e.name),
        Event::SessionTakenOver(_) => "taken over from the home it was imported from".to_owned(),
        Event::SessionDismissed(e) => format!("dismissed: {}", e.because),
        Event::BudgetRaised(e) => {
            let part = |what: &str, to: Option<u64>| to.map(|to| format!("{to} {what}"));
            let parts = [part("tokens", e.tokens), part("turns", e.turns.map(u64::from))];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            format!("budget raised to {}", parts.join(", "))
        }
        Event::StreamHeard(_) => "heard again".to_owned(),
        Event::StreamSilent(_) => "silent past the window".to_owned(),
        Event::StreamRetrying(e) => with("retrying".to_owned(), Some(&e.detail)),
        Event::StreamClosed(_) => "output closed".to_owned(),
        Event::StreamSettled(_) => "process lives on behind its closed output".to_owned(),
        Event::OutputOversized(e) => format!("line of {} kept unread", size(e.bytes)),
        Event::OutputAtLimit(_) => "output limit reached, agent held back".to_owned(),
        Event::OutputNoRoom(e) => format!("no room on the disk of {}, agent held back", e.dir),
        Event::OutputFlows(_) => "room on the disk again".to_owned(),
        Event::OutputLost(_) => "some output was lost".to_owned(),
        Event::RecordForged(e) => {
            format!("forged record of {} moved to {}; the effect ran", e.effect, e.moved_to)
        }
        Event::EffectShort(e) => {
            let name = e.shortage.resource.name();
            format!("{} waits for {name}: {}", e.effect, e.shortage.detail)
        }
        Event::EffectRetried(e) => format!("{} tried again", e.effect),
        Event::ReportsRefused(e) => {
            format!("{} reports of {} taken, further ones refused", e.reports, size(e.bytes))
        }
        Event::LimitRaised(e) => format!("output limit raised to {}", size(e.bytes)),
        Event::ProgressTold(e) => format!("progress {}/{}", e.progress.done, e.progress.total),
        Event::SignalRecorded(e) => format!("{}: {}", e.by.word(), e.said.word()),
        Event::SignalHinted(e) => format!("{} shows: {}", e.by.word(), e.said.word()),
        Event::PaneSeen(e) => e.sight.word().to_owned(),
        Event::UsageTold(e) => format!("tokens: {} in, {} out", e.usage.input, e.usage.output),
        Event::ContextCompacted(_) => "conversation compacted".to_owned(),
        Event::ContextKept(e) => format!("conversation not compacted: {}", e.reason),
        Event::ContextTold(e) => {
            format!("context: {} of {} tokens", e.context.used, e.context.window)
        }
        _ => unreachable!("of() sends only what a stream shows here"),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "of() is the exhaustive match")]
fn process(event: &Event) -> String {
    match event {
        Event::ProcessEnded(e) => ended(e),
        Event::ProcessUnknown(e) => format!("process cannot be looked at: {}", e.why),
        Event::ProcessSeen(_) => "process is seen again".to_owned(),
        Event::ProcessSuspended(e) => match e.suspended {
            true => "process is stopped".to_owned(),
            false => "process goes on".to_owned(),
        },
        Event::PeopleAttached(e) => match e.people {
            0 => "nobody is attached any more".to_owned(),
            1 => "somebody is attached".to_owned(),
            people => format!("{people} are attached"),
        },
        Event::ProcessUnobserved(e) => format!("process ended, nobody saw how: {}", e.why),
        Event::TreeGone(e) => gone(e),
        Event::StopAsked(e) => {
            let why = match e.why {
                StopWhy::Operator => ", asked for by the operator",
                StopWhy::Decided => ", its outcome was decided",
                StopWhy::Finished => ", its work is finished",
                StopWhy::Unclaimed => ", it claims nothing",
                StopWhy::ReworkExhausted => ", its work was refuted too often",
                StopWhy::Leftover => ", it closed its output and lived on",
                StopWhy::HandedOver => ", another agent goes on",
                StopWhy::Unreachable => ", it could not be connected to",
                StopWhy::TeamEnded => ", its team is over",
            };
            format!("stop begins: {}{why}", step(e.step))
        }
        Event::StopEscalated(e) => format!("stop goes on: {}", step(e.step)),
        _ => unreachable!("of() sends only events about a process here"),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "of() is the exhaustive match")]
fn speech(event: &Event) -> String {
    match event {
        Event::ClaimMade(e) => claimed(e),
        Event::FactTold(e) => {
            let fact = match e.fact {
                FactKind::Branch => "branch",
                FactKind::Pr => "pull request",
                FactKind::Artifact => "artifact",
            };
            format!("{fact} told: {}{}", e.value, standing(e.standing))
        }
        Event::RequestOpened(e) => asked(e),
        Event::RequestContradicted(e) => {
            let what = match e.done {
                true => "was denied and done all the same",
                false => "was approved and declined all the same",
            };
            format!("q{} {what}: another answer came first", e.request.no)
        }
        Event::RequestRuled(e) => {
            let decided = match &e.reply {
                Reply::Approve(_) => "approved",
                Reply::Deny => "denied",
                Reply::Text(_) | Reply::Answers(_) => "answered",
            };
            format!("request q{} {decided} by the policy: {}", e.request.no, e.rule)
        }
        Event::ToolCalled(e) => format!("call {} of a tool of its task: {}", e.no, e.call.word()),
        Event::ToolAnswered(e) if e.ok => format!("call {} answered", e.no),
        Event::ToolAnswered(e) => format!("call {} refused: {}", e.no, e.text),
        Event::RequestSettled(e) => {
            let fate = match e.fate {
                Fate::Open => "open",
                Fate::Answered => "answered",
                Fate::Withdrawn => "withdrawn",
                Fate::AnsweredElsewhere => "answered on the agent's screen",
                Fate::Void => "void, the session ended",
            };
            format!("q{} {fate}", e.request.no)
        }
        Event::MessageQueued(e) => {
            let said = Some(e.text.as_str()).filter(|text| !text.is_empty());
            let decided = match &e.reply {
                Some(Reply::Approve(Scope::Once)) => " (approved)",
                Some(Reply::Approve(Scope::Session)) => " (approved for the session)",
                Some(Reply::Deny) => " (denied)",
                Some(Reply::Text(_) | Reply::Answers(_)) | None => "",
            };
            with(format!("{} for the agent{decided}", message(e.kind)), said)
        }
        Event::MessageDelivered(e) => format!("{} delivered", e.key),
        Event::MessageTyped(e) => match e.way {
            Way::CommandLine => format!("{} given on the command line", e.key),
            Way::Typing => format!("{} about to be typed", e.key),
            Way::Untyped => format!("{} not typed, its pane took no keys", e.key),
            Way::Keys => format!("{} typed", e.key),
            Way::Again => format!("{} is not in the agent's record, to be sent off again", e.key),
            Way::Pressing => format!("{} about to be sent off again", e.key),
            Way::Pressed => format!("{} sent off again", e.key),
            Way::Doubted => format!("{} may have been typed", e.key),
        },
        Event::MessageUnproved(e) => format!("{} waits: {}", e.key, e.reason),
        Event::MessageRefused(e) => {
            let next = if e.again { ", sent again after the open turn" } else { "" };
            format!("{} refused by the agent's program{next}: {}", e.key, e.reason)
        }
        Event::MessageLost(e) => format!("{} not delivered: {}", e.key, e.reason),
        Event::ResultAsked(_) => "turn ended without a claim, asked for the result".to_owned(),
        Event::ResultTold(e) => match &e.result {
            Structured::Triage(_) => "said how it understands the task".to_owned(),
            Structured::Plan(_) => "told a plan".to_owned(),
            Structured::PlanReview(_) => "told what it thinks of the plan".to_owned(),
            Structured::Review(review) => match review.findings.len() {
                0 => "found nothing to mend".to_owned(),
                1 => "found 1 thing".to_owned(),
                many => format!("found {many} things"),
            },
        },
        Event::ReworkSent(e) => with("work sent back".to_owned(), Some(&e.text)),
        _ => unreachable!("of() sends only what was said here"),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "of() is the exhaustive match")]
fn outcome(event: &Event) -> String {
    match event {
        Event::SnapshotTaken(e) => {
            let (commit, tree) = (hash(&e.snapshot.commit.0), hash(&e.snapshot.tree.0));
            format!("work committed as {commit}, tree {tree}")
        }
        Event::SnapshotFailed(e) => format!("work could not be committed: {}", e.reason),
        Event::CheckFinished(e) => checked(&e.receipt),
        Event::AttemptCancelled(e) => with("cancelled".to_owned(), Some(&e.because)),
        Event::AttemptSuperseded(_) => "superseded by a newer instruction".to_owned(),
        Event::ThreadLeft(_) => "conversation left, the next one is new".to_owned(),
        Event::AttemptStopped(e) => format!("ended by Provost: {}", spell_times(&e.detail)),
        Event::AttemptResolved(e) => {
            format!("resolved as {}: {}", plain(e.state.word()), e.because)
        }
        Event::AttemptSealed(e) => {
            let judged = &e.sealed.judgement;
            let cause = judged.cause.map(|cause| format!(" ({})", plain(cause.word())));
            let state = plain(judged.state.word());
            format!("sealed as {state}{}, rule {}", cause.unwrap_or_default(), judged.rule.word())
        }
        Event::ReactionDone(e) => format!("reaction {}", e.reaction),
        Event::AgentReplaced(e) => format!("handed over from {} to {}", e.from, e.to),
        Event::HookFinished(e) => {
            let end = match &e.end {
                HookEnd::Exit(code) => format!("exit {code}"),
                HookEnd::Signal(signal) => format!("signal {signal}"),
                HookEnd::TimeLimit => "time limit".to_owned(),
                HookEnd::OutputLimit => "output limit".to_owned(),
                HookEnd::NotStarted(why) => format!("could not start: {why}"),
                HookEnd::Uncertain(why) => format!("nobody saw how: {why}"),
            };
            format!("hook {} ended: {end}", e.key.event)
        }
        _ => unreachable!("of() sends only outcomes and what they rest on here"),
    }
}

fn ended(e: &ProcessEnded) -> String {
    let how = match e.end {
        End::Exit(code) => format!("exit {code}"),
        End::Signal(signal) => format!("signal {signal}"),
    };
    match e.by {
        EndedBy::Itself => format!("process ended: {how}"),
        EndedBy::Provost => format!("process ended by Provost: {how}"),
    }
}

fn gone(e: &TreeGone) -> String {
    match (e.leftovers, e.verified) {
        (0, true) => "no process is left".to_owned(),
        (count, true) => format!("no process is left, {count} had to be ended"),
        (_, false) => "nobody can say whether a process is left".to_owned(),
    }
}

fn claimed(e: &ClaimMade) -> String {
    let kind = plain(e.kind.word());
    let claim = match e.source {
        ClaimSource::Agent => format!("agent claims {kind}"),
        ClaimSource::DropBox => format!("agent claims {kind}, by the drop box"),
        ClaimSource::Operator => format!("operator claims {kind}"),
        ClaimSource::Policy => format!("exit 0 counts as {kind}"),
        ClaimSource::TurnError => format!("the turn's error counts as {kind}"),
    };
    with(format!("{claim}{}", standing(e.standing)), e.text.as_deref())
}

fn asked(e: &RequestOpened) -> String {
    let (kind, no) = (e.asked.kind.word(), e.request.no);
    let first = e.asked.questions.first().map(|question| question.question.as_str());
    let title = Some(e.asked.title.as_str()).filter(|title| !title.is_empty()).or(first);
    with(format!("{kind} q{no}"), title)
}

fn checked(receipt: &Receipt) -> String {
    let (result, detail) = match &receipt.end {
        CheckEnd::Exit(0) => ("passed", String::new()),
        CheckEnd::Exit(code) => ("failed", format!("exit {code}, ")),
        CheckEnd::Signal(signal) => ("failed", format!("signal {signal}, ")),
        CheckEnd::TimeLimit => ("unfinished", "time limit, ".to_owned()),
        CheckEnd::OutputLimit => ("unfinished", "output limit, ".to_owned()),
        CheckEnd::Unfinished(why) => ("unfinished", format!("{why}, ")),
    };
    format!("check {result}: {} ({detail}{})", receipt.command, span(receipt.duration_ms))
}

fn message(kind: MessageKind) -> &'static str {
    match kind {
        MessageKind::Instruction => "instruction",
        MessageKind::Steer => "message",
        MessageKind::Rework => "rework",
        MessageKind::ResultWanted => "question for the result",
        MessageKind::Answer => "answer",
        MessageKind::Returned => "answer to a call",
        MessageKind::Continue => "continuation",
        MessageKind::Nudge => "nudge",
        MessageKind::Interrupt => "interrupt",
        MessageKind::Compact => "request to compact",
    }
}

fn step(step: StopStep) -> &'static str {
    match step {
        StopStep::Interrupt => "interrupt",
        StopStep::Terminate => "TERM",
        StopStep::Kill => "KILL",
        StopStep::GivenUp => "given up",
    }
}

fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::Applied => "",
        Standing::Recorded => " (recorded only)",
        Standing::RecordedLate => " (too late, recorded)",
    }
}

fn turn(name: Option<&str>) -> String {
    name.map_or_else(|| "turn".to_owned(), |name| format!("turn {name}"))
}

fn with(what: String, text: Option<&str>) -> String {
    text.map_or(what.clone(), |text| format!("{what}: {text}"))
}

fn plain(word: &str) -> String {
    word.replace('_', " ")
}

fn hash(digits: &str) -> &str {
    digits.get(..HASH).unwrap_or(digits)
}
