//! Describes events. Text that a user or agent wrote is kept apart so that it can be redacted.

use provost_core::{
    request::Fate,
    session::{self, Event as SessionEvent, TurnEnd},
    task::{
        Actor, Blocked, Event as TaskEvent, Evidence, Judgement, LoopEnd, Needs, Purpose, Shown,
        Way,
    },
    verdict::CheckEnd,
};

/// A description of an event.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The event, without any text that a user or agent wrote.
    pub(super) what: String,
    /// The text that a user or agent wrote.
    pub(super) text: Option<String>,
    /// The actor, where the event names it.
    pub(super) by: Option<String>,
    /// The channel, where the event names it.
    pub(super) channel: Option<&'static str>,
    pub(super) refused: Option<String>,
    pub(super) message: Option<u32>,
    pub(super) correlation: Option<String>,
    /// The session's key for the message that the event is about.
    pub(super) key: Option<String>,
    /// Whether the event is a message of a user or agent.
    pub(super) said: bool,
}

impl Told {
    fn new(what: impl Into<String>) -> Told {
        Told { what: what.into(), ..Told::default() }
    }

    fn text(self, text: impl Into<String>) -> Told {
        Told { text: Some(text.into()).filter(|text| !text.is_empty()), ..self }
    }

    fn by(self, actor: &Actor) -> Told {
        Told { by: Some(actor.name().to_owned()), ..self }
    }

    fn refused(self, code: impl Into<String>) -> Told {
        Told { refused: Some(code.into()), ..self }
    }

    fn said(self) -> Told {
        Told { said: true, ..self }
    }

    fn key(self, key: &str) -> Told {
        Told { key: Some(key.to_owned()), ..self }
    }
}

/// Describes an event of a team together with its actor: a message that a user dead-letters is not
/// a refusal.
pub(super) fn done_by(event: &TaskEvent, actor: &str) -> Told {
    let told = of_task(event);
    let aside = told.refused.as_deref() == Some(UNDELIVERABLE) && actor != Actor::Provost.name();
    if aside && matches!(event, TaskEvent::MessageDead(_)) {
        Told { what: "dead-lettered".to_owned(), refused: None, ..told }
    } else {
        told
    }
}

/// Describes an event of a team.
pub(super) fn of_task(event: &TaskEvent) -> Told {
    match event {
        TaskEvent::TaskOpened(e) => {
            Told::new(format!("opened \"{}\"", e.spec.name)).text(&e.spec.goal)
        }
        TaskEvent::TaskRenamed(e) => Told::new(format!("renamed \"{}\"", e.name)),
        TaskEvent::PhaseChanged(e) => Told::new(e.phase.word()).text(because(&e.phase)),
        TaskEvent::MemberBound(_)
        | TaskEvent::MemberLeft(_)
        | TaskEvent::MemberRotated(_)
        | TaskEvent::MemberLabelled(_)
        | TaskEvent::ContractAcknowledged(_)
        | TaskEvent::NewsTold(_) => of_member(event),
        TaskEvent::MessageStored(_)
        | TaskEvent::NewsAdded(_)
        | TaskEvent::MessageOffered(_)
        | TaskEvent::MessageAccepted(_)
        | TaskEvent::MessageAcknowledged(_)
        | TaskEvent::MessageReturned(_)
        | TaskEvent::MessageExpired(_)
        | TaskEvent::MessageCancelled(_)
        | TaskEvent::MessageDead(_)
        | TaskEvent::MessageRequeued(_) => of_message(event),
        TaskEvent::UndeliveredTold(e) => {
            let lost: Vec<String> = e.messages.iter().map(u32::to_string).collect();
            Told::new(format!("notified of undelivered messages: {}", lost.join(", ")))
        }
        TaskEvent::CriterionProposed(e) => {
            let needs = match &e.needs {
                Needs::Verified { check } => format!("needs `{check}`"),
                Needs::Pictures(pictures) => format!("needs `{}`", pictures.command()),
                Needs::Asserted => "needs an assertion".to_owned(),
            };
            Told::new(format!("criterion {} proposed ({}), {needs}", e.no, e.source.word()))
                .text(&e.text)
                .said()
        }
        TaskEvent::CriterionJudged(e) => judged(e.no, &e.judgement).by(&e.by),
        TaskEvent::CommandsApproved(e) => {
            Told::new(format!("agreed to run `{}`", e.commands.join("`, `")))
        }
        TaskEvent::CheckWanted(e) => {
            let purpose = match &e.check.purpose {
                Purpose::Criterion(no) => format!("criterion {no}"),
                Purpose::Evidence { iteration, name } => {
                    format!("\"{name}\" of iteration {iteration}")
                }
                Purpose::Audit(no) => format!("audit {no}"),
            };
            Told::new(format!(
                "check {} requested for {purpose}: `{}`",
                e.check.no, e.check.command
            ))
        }
        TaskEvent::CheckJoined(e) => {
            let what = format!("check {} also requested", e.no);
            Told { by: Some(e.by.clone()), ..Told::new(what) }
        }
        TaskEvent::CheckDone(e) => {
            let (end, tree) = (&e.receipt.end, short(&e.receipt.tree.0));
            let words = end.words();
            let told = Told::new(format!("check {} ended: {words}, on tree {tree}", e.no));
            if end == &CheckEnd::Exit(0) { told } else { told.text(&e.receipt.tail) }
        }
        TaskEvent::LoopBegun(_)
        | TaskEvent::EvidenceShown(_)
        | TaskEvent::ContinuationRefused(_)
        | TaskEvent::LoopAdvanced(_)
        | TaskEvent::CleanedUp(_)
        | TaskEvent::LoopEnded(_) => of_loop(event),
        TaskEvent::Configured(_)
        | TaskEvent::MoveRecorded(_)
        | TaskEvent::MoveUsed(_)
        | TaskEvent::ActionRefused(_)
        | TaskEvent::EpilogueDone(_)
        | TaskEvent::NextProposed(_)
        | TaskEvent::NextChosen(_)
        | TaskEvent::WorkAttacked(_)
        | TaskEvent::FinishAsked(_)
        | TaskEvent::PolicySaw(_)
        | TaskEvent::PolicyActed(_)
        | TaskEvent::MemberTold(_)
        | TaskEvent::FinishTold(_)
        | TaskEvent::FinishAllowed(_)
        | TaskEvent::FinishRefused(_) => of_manager(event),
    }
}

fn because(phase: &provost_core::task::Phase) -> &str {
    crate::words::because(phase).unwrap_or_default()
}

fn short(tree: &str) -> &str {
    tree.get(..12).unwrap_or(tree)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "of_task() is the exhaustive match")]
fn of_member(event: &TaskEvent) -> Told {
    match event {
        TaskEvent::MemberBound(e) => {
            let session = e.session.map(|session| format!(", session {}", session.short()));
            let session = session.unwrap_or_default();
            Told::new(format!("{} bound as {}{session}", e.name, e.role.word()))
        }
        TaskEvent::MemberLeft(e) => {
            let to = e.to.as_ref().map(|to| format!(", its messages go to {to}"));
            Told::new(format!("{} left{}", e.name, to.unwrap_or_default())).text(&e.because)
        }
        TaskEvent::MemberRotated(e) => {
            Told::new(format!("{} replaced {}", e.to, e.from)).text(&e.handover).said()
        }
        TaskEvent::MemberLabelled(e) => Told::new(format!("{} labelled", e.name)),
        TaskEvent::ContractAcknowledged(e) => Told {
            by: Some(e.name.clone()),
            ..Told::new(format!("{} acknowledged revision {}", e.name, e.revision))
        },
        TaskEvent::NewsTold(e) => Told::new(format!("news of {} sent", e.member)),
        _ => unreachable!("of_task() sends only members here"),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "of_task() is the exhaustive match")]
fn of_message(event: &TaskEvent) -> Told {
    let (no, told) = match event {
        TaskEvent::MessageStored(e) => {
            let iteration = e.iteration.map(|no| format!(" of iteration {no}")).unwrap_or_default();
            let (kind, to, trust) = (e.kind.word(), e.to.name(), e.trust.word());
            let what = format!("{kind}{iteration} to {to}, which {trust}");
            let told = Told::new(what).text(&e.text).by(&e.from).said();
            let channel = Some(e.channel.word());
            (e.no, Told { channel, correlation: e.correlation.clone(), ..told })
        }
        TaskEvent::NewsAdded(e) => {
            (e.no, Told::new("later news added").text(&e.text).by(&Actor::Provost))
        }
        TaskEvent::MessageOffered(e) => {
            let way = match &e.lease.way {
                Way::Push { session, .. } => format!("sent to session {}", session.short()),
                Way::Pull => "taken".to_owned(),
            };
            let told = Told::new(format!("{way} (offer {})", e.lease.no));
            (e.no, Told { by: Some(e.lease.consumer.clone()), ..told })
        }
        TaskEvent::MessageAccepted(e) => {
            let consumer = e.lease.consumer.clone();
            let told = Told::new(format!("accepted by {consumer} ({})", e.lease.way.word()));
            (e.no, Told { by: Some(consumer), ..told })
        }
        TaskEvent::MessageAcknowledged(e) => {
            let told = Told::new(format!("acknowledged by {}", e.by));
            let told = Told { by: Some(e.by.clone()), ..told };
            (e.no, told.text(e.note.as_deref().unwrap_or_default()))
        }
        TaskEvent::MessageReturned(e) => (e.no, Told::new("queued again").text(&e.reason)),
        TaskEvent::MessageExpired(e) => (e.no, Told::new("expired")),
        TaskEvent::MessageCancelled(e) => (e.no, Told::new("cancelled").text(&e.because)),
        TaskEvent::MessageDead(e) => {
            (e.no, Told::new("dead").text(&e.reason).refused(code_of(&e.reason)))
        }
        TaskEvent::MessageRequeued(e) => {
            let to = e.to.as_ref().map(|to| format!(", for {to}")).unwrap_or_default();
            (e.no, Told::new(format!("requeued{to}")).text(&e.because))
        }
        _ => unreachable!("of_task() sends only messages here"),
    };
    Told { message: Some(no), ..told }
}

/// Code of a message that could not be delivered for a reason other than the gate.
const UNDELIVERABLE: &str = "undeliverable";

/// Returns the gate's code from a reason. Only the gate's reasons start with a code.
fn code_of(reason: &str) -> &str {
    let named = reason.split_once(": ").map(|(name, _)| name);
    named.filter(|name| Blocked::CODES.contains(name)).unwrap_or(UNDELIVERABLE)
}

fn judged(no: u32, judgement: &Judgement) -> Told {
    let what = format!("criterion {no}: {}", judgement.word());
    match judgement {
        Judgement::Accept => Told::new(what),
        Judgement::Satisfy { evidence: Evidence::Verified(receipt) } => {
            Told::new(format!("{what}, verified by `{}`", receipt.command))
        }
        Judgement::Satisfy { evidence: Evidence::Asserted { text, by } } => {
            Told::new(format!("{what}, asserted by {by}")).text(text)
        }
        Judgement::Defer { because }
        | Judgement::Reject { because }
        | Judgement::Reopen { because } => Told::new(what).text(because),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "of_task() is the exhaustive match")]
fn of_loop(event: &TaskEvent) -> Told {
    match event {
        TaskEvent::LoopBegun(e) => {
            let (name, max) = (&e.template.name, e.template.max);
            Told::new(format!("loop \"{name}\" started, at most {max} iterations"))
        }
        TaskEvent::EvidenceShown(e) => {
            let what = format!("\"{}\" shown in iteration {}", e.name, e.iteration);
            let told = match &e.shown {
                Shown::Evidence(Evidence::Asserted { text, .. }) => Told::new(what).text(text),
                Shown::Attack(attack) => Told::new(what)
                    .text(format!("{}: {}: {}", attack.failure_mode, attack.check, attack.result)),
                Shown::Evidence(Evidence::Verified(receipt)) => {
                    Told::new(format!("{what}, verified by `{}`", receipt.command))
                }
                Shown::Artifact(_) => Told::new(format!("{what}, an artifact")),
                Shown::Pictures(compared) => Told::new(format!("{what}: {}", compared.words())),
            };
            told.by(&e.by)
        }
        TaskEvent::ContinuationRefused(e) => {
            Told::new(format!("iteration {} does not begin: {}", e.iteration, e.why))
                .by(&e.by)
                .refused(e.why.code())
        }
        TaskEvent::LoopAdvanced(e) => Told {
            message: Some(e.message),
            by: Some(e.consumer.clone()),
            ..Told::new(format!("iteration {} began", e.to))
        },
        TaskEvent::CleanedUp(e) => {
            let done = if e.skipped.is_some() { ", skipped" } else { "" };
            let what = format!("conversation of {}: {}{done}", e.name, e.clean_up.word());
            let told = Told { message: Some(e.message), ..Told::new(what) };
            told.text(e.skipped.as_deref().unwrap_or_default())
        }
        TaskEvent::LoopEnded(e) => match &e.end {
            LoopEnd::Finished => Told::new("loop finished"),
            LoopEnd::Stopped { because } => Told::new("loop stopped").text(because),
            LoopEnd::Plateau { iterations } => {
                Told::new(format!("loop stopped: {iterations} iterations changed nothing"))
            }
            LoopEnd::Budget { used } => Told::new(format!("loop stopped: {used} tokens used")),
        },
        _ => unreachable!("of_task() sends only loops here"),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "of_task() is the exhaustive match")]
fn of_manager(event: &TaskEvent) -> Told {
    match event {
        TaskEvent::Configured(e) => Told::new(format!("contract, revision {}", e.config.revision)),
        TaskEvent::MoveRecorded(e) => Told {
            by: Some(e.by.clone()),
            ..Told::new(format!("move: {}", e.kind.word())).text(&e.because)
        },
        TaskEvent::MoveUsed(e) => Told::new(format!("move used for {}", e.action.word())),
        TaskEvent::ActionRefused(e) => {
            Told::new(format!("refused: {}", e.why)).by(&e.by).refused(&e.code)
        }
        TaskEvent::EpilogueDone(e) => {
            Told::new(format!("epilogue: {} done", e.step.word())).text(&e.evidence).by(&e.by)
        }
        // The proposal itself is in the message to the chooser, once both are written.
        TaskEvent::NextProposed(e) => Told {
            by: Some(e.by.clone()),
            ..Told::new(format!("round {}: {} proposed the next step", e.round, e.by))
        },
        TaskEvent::NextChosen(e) => {
            Told::new(format!("round {}: {}", e.round, e.choice.word())).text(&e.because).by(&e.by)
        }
        TaskEvent::WorkAttacked(e) => {
            let attack = &e.attack;
            let text = format!("{}: {}: {}", attack.failure_mode, attack.check, attack.result);
            Told::new("challenged the work").text(text).by(&e.by)
        }
        TaskEvent::FinishAsked(e) => {
            Told::new(format!("finish requested, audit {}", e.no)).text(&e.because).by(&e.by)
        }
        TaskEvent::PolicySaw(e) => {
            let rests = if e.rest.is_some() { "is idle" } else { "is working" };
            Told::new(format!("the policy sees that {} {rests}", e.worker)).by(&Actor::Policy)
        }
        TaskEvent::PolicyActed(e) => {
            let told = Told::new(format!("the policy: {}", e.act.words())).by(&Actor::Policy);
            match &e.refused {
                None => told,
                Some(why) => told.text(why).refused("policy_refused"),
            }
        }
        TaskEvent::MemberTold(e) => {
            Told::new(format!("{} asked to {}", e.name, e.what.word())).by(&e.by).key(&e.key)
        }
        TaskEvent::FinishTold(e) => {
            Told::new(format!("{} notified that the team is finished", e.name)).text(&e.text)
        }
        TaskEvent::FinishAllowed(e) => {
            let lines: Vec<String> = e.blockers.iter().map(|blocker| blocker.line()).collect();
            let codes: Vec<&str> = e.blockers.iter().map(|blocker| blocker.code()).collect();
            Told::new(format!("finish allowed despite: {}", codes.join(", ")))
                .text(lines.join("\n"))
                .by(&e.by)
        }
        TaskEvent::FinishRefused(e) => {
            let codes: Vec<&str> = e.blockers.iter().map(|blocker| blocker.code()).collect();
            let first = codes.first().copied().unwrap_or("refused").to_owned();
            Told::new(format!("finish refused: {}", codes.join(", "))).refused(first)
        }
        _ => unreachable!("of_task() sends only events of managers here"),
    }
}

/// Describes an event of a session. `None` for events that only show that it is running.
#[expect(clippy::wildcard_enum_match_arm, reason = "the rest only show that it is running")]
pub(super) fn of_session(event: &SessionEvent) -> Option<Told> {
    Some(match event {
        SessionEvent::SessionOpened(e) => Told::new(format!("session opened: {}", e.spec.name)),
        SessionEvent::AttemptOpened(e) => Told::new(format!("attempt {} opened", e.no))
            .text(e.instruction.as_deref().unwrap_or_default())
            .said(),
        SessionEvent::LaunchStarted(e) => Told::new(format!("launch {} started", e.launch.no)),
        SessionEvent::LaunchAdopted(e) => Told::new(format!("launch {} adopted", e.launch.no)),
        SessionEvent::LaunchFailed(e) => {
            Told::new(format!("launch {} could not start", e.launch.no)).text(&e.reason)
        }
        SessionEvent::TurnStarted(_) => Told::new("turn started"),
        SessionEvent::TurnEnded(e) => match &e.end {
            TurnEnd::Ok => {
                Told::new("turn ended").text(e.says.as_deref().unwrap_or_default()).said()
            }
            TurnEnd::Interrupted => Told::new("turn interrupted"),
            TurnEnd::Error(why) => Told::new("turn ended with an error").text(why),
            TurnEnd::Limited { detail, .. } => Told::new("turn ended by a limit").text(detail),
        },
        SessionEvent::ClaimMade(e) => {
            let what = format!("{} claims {}", e.source.word(), e.kind.word());
            Told::new(what).text(e.text.as_deref().unwrap_or_default()).said()
        }
        SessionEvent::RequestOpened(e) => {
            Told::new(format!("asks, request {}", e.request.no)).text(&e.asked.title).said()
        }
        SessionEvent::RequestSettled(e) => {
            Told::new(format!("request {} {}", e.request.no, fate(&e.fate)))
        }
        SessionEvent::RequestContradicted(e) => {
            Told::new(format!("request {} ended differently than answered", e.request.no))
        }
        SessionEvent::MessageQueued(e) => Told::new("message queued").text(&e.text).key(&e.key),
        SessionEvent::MessageDelivered(e) => Told::new("message delivered").key(&e.key),
        SessionEvent::MessageTyped(e) => Told::new("message typed").key(&e.key),
        SessionEvent::MessageUnproved(e) => {
            Told::new("message delivery unconfirmed").text(&e.reason).key(&e.key)
        }
        SessionEvent::MessageRefused(e) => {
            Told::new("message refused by the agent's program").text(&e.reason).key(&e.key)
        }
        SessionEvent::StreamUnreachable(e) => {
            Told::new(format!("could not connect to launch {}", e.launch.no)).text(&e.reason)
        }
        SessionEvent::MessageLost(e) => Told::new("message lost").text(&e.reason).key(&e.key),
        SessionEvent::ReworkSent(e) => Told::new("rework requested").text(&e.text).key(&e.key),
        SessionEvent::CheckFinished(e) => {
            Told::new(format!("check `{}`: {}", e.receipt.command, e.receipt.end.words()))
        }
        SessionEvent::ProcessEnded(e) => Told::new(match e.end {
            session::End::Exit(code) => format!("process ended, exit code {code}"),
            session::End::Signal(signal) => format!("process ended, signal {signal}"),
        }),
        SessionEvent::ProcessUnobserved(_) => Told::new("process ended, exit status unknown"),
        SessionEvent::StreamSilent(_) => Told::new("silent past the window"),
        SessionEvent::ContextCompacted(_) => Told::new("conversation compacted"),
        SessionEvent::StopAsked(_) => Told::new("stop requested"),
        SessionEvent::SessionDismissed(e) => Told::new("dismissed").text(&e.because),
        SessionEvent::AttemptCancelled(e) => Told::new("attempt cancelled").text(&e.because),
        SessionEvent::AttemptSuperseded(_) => Told::new("attempt superseded"),
        SessionEvent::AttemptStopped(e) => Told::new("attempt stopped").text(&e.detail),
        SessionEvent::AttemptResolved(e) => {
            Told::new(format!("resolved as {}", e.state.word())).text(&e.because)
        }
        SessionEvent::AttemptSealed(e) => Told::new(format!("attempt {} sealed", e.attempt)),
        SessionEvent::AgentReplaced(e) => Told::new(format!("{} replaced {}", e.to, e.from)),
        _ => return None,
    })
}

fn fate(fate: &Fate) -> &'static str {
    match fate {
        Fate::Open => "is open",
        Fate::Answered => "answered",
        Fate::Withdrawn => "withdrawn",
        Fate::AnsweredElsewhere => "answered at the agent's own screen",
        Fate::Void => "void",
    }
}
