//! Descriptions of events. Text written by a user or agent is kept separate, so that it can be redacted.

use provost_core::{
    request::RequestStatus,
    session::{self, Event as SessionEvent, TurnEnd},
    team::{
        CheckPurpose, ContinuationBlocked, CriterionEvidence, CriterionJudgement, DeliveryMode,
        Event as TaskEvent, EvidenceRequirement, LoopEnd, ShownEvidence, TeamActor,
    },
    verdict::CheckEnd,
};

/// A description of an event.
#[derive(Debug, Default)]
pub(super) struct EventDescription {
    /// What happened, without any text written by a user or agent.
    pub(super) summary: String,
    /// The text written by a user or agent.
    pub(super) text: Option<String>,
    /// The actor, if the event contains it.
    pub(super) by: Option<String>,
    /// The channel, if the event contains it.
    pub(super) channel: Option<&'static str>,
    pub(super) refused: Option<String>,
    pub(super) message: Option<u32>,
    pub(super) correlation: Option<String>,
    /// The session's key for the message that the event concerns.
    pub(super) key: Option<String>,
    /// Whether the event is a message from a user or agent.
    pub(super) is_message: bool,
}

impl EventDescription {
    fn new(what: impl Into<String>) -> EventDescription {
        EventDescription { summary: what.into(), ..EventDescription::default() }
    }

    fn text(self, text: impl Into<String>) -> EventDescription {
        EventDescription { text: Some(text.into()).filter(|text| !text.is_empty()), ..self }
    }

    fn by(self, actor: &TeamActor) -> EventDescription {
        EventDescription { by: Some(actor.name().to_owned()), ..self }
    }

    fn refused(self, code: impl Into<String>) -> EventDescription {
        EventDescription { refused: Some(code.into()), ..self }
    }

    fn message(self) -> EventDescription {
        EventDescription { is_message: true, ..self }
    }

    fn key(self, key: &str) -> EventDescription {
        EventDescription { key: Some(key.to_owned()), ..self }
    }
}

/// Describes a team event, taking the actor of the event into account. If a user dead-letters a message, for example,
/// the event is not a refusal.
pub(super) fn describe_with_actor(event: &TaskEvent, actor: &str) -> EventDescription {
    let description = describe_team_event(event);
    let aside =
        description.refused.as_deref() == Some(UNDELIVERABLE) && actor != TeamActor::Provost.name();
    if aside && matches!(event, TaskEvent::MessageDead(_)) {
        EventDescription { summary: "dead-lettered".to_owned(), refused: None, ..description }
    } else {
        description
    }
}

/// Describes a team event in one text, which includes texts of users and agents.
pub fn describe_team(event: &TaskEvent) -> String {
    let description = describe_team_event(event);
    let message = description.message.map(|no| format!("message {no}: ")).unwrap_or_default();
    let text = description.text.map(|text| format!(": {text}")).unwrap_or_default();
    let subject = if matches!(event, TaskEvent::PhaseChanged(_)) { "the team is " } else { "" };
    format!("{subject}{message}{}{text}", description.summary)
}

/// Describes a team event.
pub(super) fn describe_team_event(event: &TaskEvent) -> EventDescription {
    match event {
        TaskEvent::TeamOpened(e) => {
            EventDescription::new(format!("opened \"{}\"", e.spec.name)).text(&e.spec.goal)
        }
        TaskEvent::TeamRenamed(e) => EventDescription::new(format!("renamed \"{}\"", e.name)),
        TaskEvent::PhaseChanged(e) => {
            EventDescription::new(e.phase.as_str()).text(phase_reason(&e.phase))
        }
        TaskEvent::MemberBound(_)
        | TaskEvent::MemberLeft(_)
        | TaskEvent::MemberRotated(_)
        | TaskEvent::MemberLabelled(_)
        | TaskEvent::ContractAcknowledged(_)
        | TaskEvent::NewsReported(_) => describe_member_event(event),
        TaskEvent::MessageStored(_)
        | TaskEvent::NewsAdded(_)
        | TaskEvent::MessageOffered(_)
        | TaskEvent::MessageAccepted(_)
        | TaskEvent::MessageAcknowledged(_)
        | TaskEvent::MessageReturned(_)
        | TaskEvent::MessageExpired(_)
        | TaskEvent::MessageCancelled(_)
        | TaskEvent::MessageDead(_)
        | TaskEvent::MessageRequeued(_) => describe_message_event(event),
        TaskEvent::UndeliveredReported(e) => {
            let lost: Vec<String> = e.messages.iter().map(u32::to_string).collect();
            EventDescription::new(format!("notified of undelivered messages: {}", lost.join(", ")))
        }
        TaskEvent::CriterionProposed(e) => {
            let needs = match &e.needs {
                EvidenceRequirement::Verified { check } => format!("needs `{check}`"),
                EvidenceRequirement::Pictures(pictures) => {
                    format!("needs `{}`", pictures.command())
                }
                EvidenceRequirement::Asserted => "needs an assertion".to_owned(),
            };
            EventDescription::new(format!(
                "criterion {} proposed ({}), {needs}",
                e.no,
                e.source.as_str()
            ))
            .text(&e.text)
            .message()
        }
        TaskEvent::CriterionJudged(e) => describe_judgement(e.no, &e.judgement).by(&e.by),
        TaskEvent::CommandsApproved(e) => {
            EventDescription::new(format!("agreed to run `{}`", e.commands.join("`, `")))
        }
        TaskEvent::CheckRequested(e) => {
            let purpose = match &e.check.purpose {
                CheckPurpose::Criterion(no) => format!("criterion {no}"),
                CheckPurpose::Evidence { iteration, name } => {
                    format!("\"{name}\" of iteration {iteration}")
                }
                CheckPurpose::Audit(no) => format!("audit {no}"),
            };
            EventDescription::new(format!(
                "check {} requested for {purpose}: `{}`",
                e.check.no, e.check.command
            ))
        }
        TaskEvent::CheckJoined(e) => {
            let what = format!("check {} also requested", e.no);
            EventDescription { by: Some(e.by.clone()), ..EventDescription::new(what) }
        }
        TaskEvent::CheckDone(e) => {
            let (end, tree) = (&e.receipt.end, short_tree(&e.receipt.tree.0));
            let words = end.summary();
            let description =
                EventDescription::new(format!("check {} on tree {tree}: {words}", e.no));
            if end == &CheckEnd::Exit(0) { description } else { description.text(&e.receipt.tail) }
        }
        TaskEvent::LoopBegun(_)
        | TaskEvent::EvidenceShown(_)
        | TaskEvent::ContinuationRefused(_)
        | TaskEvent::LoopAdvanced(_)
        | TaskEvent::ConversationCleanedUp(_)
        | TaskEvent::LoopEnded(_) => describe_loop_event(event),
        TaskEvent::Configured(_)
        | TaskEvent::MoveRecorded(_)
        | TaskEvent::MoveUsed(_)
        | TaskEvent::ActionRefused(_)
        | TaskEvent::EpilogueDone(_)
        | TaskEvent::NextProposed(_)
        | TaskEvent::NextChosen(_)
        | TaskEvent::WorkChallenged(_)
        | TaskEvent::FinishRequested(_)
        | TaskEvent::PolicyObserved(_)
        | TaskEvent::PolicyActed(_)
        | TaskEvent::MemberOrdered(_)
        | TaskEvent::FinishReported(_)
        | TaskEvent::FinishAllowed(_)
        | TaskEvent::FinishRefused(_) => describe_manager_event(event),
    }
}

fn phase_reason(phase: &provost_core::team::TeamPhase) -> &str {
    crate::search_terms::phase_reason(phase).unwrap_or_default()
}

fn short_tree(tree: &str) -> &str {
    tree.get(..12).unwrap_or(tree)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "of_task() is the exhaustive match")]
fn describe_member_event(event: &TaskEvent) -> EventDescription {
    match event {
        TaskEvent::MemberBound(e) => {
            let session = e.session.map(|session| format!(", session {}", session.short()));
            let session = session.unwrap_or_default();
            EventDescription::new(format!("{} bound as {}{session}", e.name, e.role.as_str()))
        }
        TaskEvent::MemberLeft(e) => {
            let to = e.to.as_ref().map(|to| format!(", its messages go to {to}"));
            EventDescription::new(format!("{} left{}", e.name, to.unwrap_or_default()))
                .text(&e.because)
        }
        TaskEvent::MemberRotated(e) => {
            EventDescription::new(format!("{} replaced {}", e.to, e.from))
                .text(&e.handover)
                .message()
        }
        TaskEvent::MemberLabelled(e) => EventDescription::new(format!("{} labelled", e.name)),
        TaskEvent::ContractAcknowledged(e) => EventDescription {
            by: Some(e.name.clone()),
            ..EventDescription::new(format!("{} acknowledged revision {}", e.name, e.revision))
        },
        TaskEvent::NewsReported(e) => {
            EventDescription::new(format!("events of member {} reported", e.member))
        }
        _ => unreachable!("of_task() sends only members here"),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "of_task() is the exhaustive match")]
fn describe_message_event(event: &TaskEvent) -> EventDescription {
    let (no, description) = match event {
        TaskEvent::MessageStored(e) => {
            let iteration = e.iteration.map(|no| format!(" of iteration {no}")).unwrap_or_default();
            let (kind, to, trust) = (e.kind.as_str(), e.to.name(), e.trust.as_str());
            let what = format!("{kind}{iteration} to {to} ({trust})");
            let description = EventDescription::new(what).text(&e.text).by(&e.from).message();
            let channel = Some(e.channel.as_str());
            (e.no, EventDescription { channel, correlation: e.correlation.clone(), ..description })
        }
        TaskEvent::NewsAdded(e) => (
            e.no,
            EventDescription::new("later events of the member added")
                .text(&e.text)
                .by(&TeamActor::Provost),
        ),
        TaskEvent::MessageOffered(e) => {
            let mode = match &e.lease.delivery {
                DeliveryMode::Push { session, .. } => {
                    format!("sent to session {}", session.short())
                }
                DeliveryMode::Pull => "taken".to_owned(),
            };
            let description = EventDescription::new(format!("{mode} (offer {})", e.lease.no));
            (e.no, EventDescription { by: Some(e.lease.consumer.clone()), ..description })
        }
        TaskEvent::MessageAccepted(e) => {
            let consumer = e.lease.consumer.clone();
            let description = EventDescription::new(format!(
                "accepted by {consumer} ({})",
                e.lease.delivery.as_str()
            ));
            (e.no, EventDescription { by: Some(consumer), ..description })
        }
        TaskEvent::MessageAcknowledged(e) => {
            let description = EventDescription::new(format!("acknowledged by {}", e.by));
            let description = EventDescription { by: Some(e.by.clone()), ..description };
            (e.no, description.text(e.note.as_deref().unwrap_or_default()))
        }
        TaskEvent::MessageReturned(e) => {
            (e.no, EventDescription::new("queued again").text(&e.reason))
        }
        TaskEvent::MessageExpired(e) => (e.no, EventDescription::new("expired")),
        TaskEvent::MessageCancelled(e) => {
            (e.no, EventDescription::new("cancelled").text(&e.because))
        }
        TaskEvent::MessageDead(e) => {
            (e.no, EventDescription::new("dead").text(&e.reason).refused(refusal_code(&e.reason)))
        }
        TaskEvent::MessageRequeued(e) => {
            let to = e.to.as_ref().map(|to| format!(", for {to}")).unwrap_or_default();
            (e.no, EventDescription::new(format!("requeued{to}")).text(&e.because))
        }
        _ => unreachable!("of_task() sends only messages here"),
    };
    EventDescription { message: Some(no), ..description }
}

/// The code for a message that could not be delivered although the gate did not refuse the message.
const UNDELIVERABLE: &str = "undeliverable";

/// Extracts the code of the gate from a reason. Only a reason from the gate starts with such a code.
fn refusal_code(reason: &str) -> &str {
    let named = reason.split_once(": ").map(|(name, _)| name);
    named.filter(|name| ContinuationBlocked::CODES.contains(name)).unwrap_or(UNDELIVERABLE)
}

fn describe_judgement(no: u32, judgement: &CriterionJudgement) -> EventDescription {
    let what = format!("criterion {no}: {}", judgement.as_str());
    match judgement {
        CriterionJudgement::Accept => EventDescription::new(what),
        CriterionJudgement::Satisfy { evidence: CriterionEvidence::Verified(receipt) } => {
            EventDescription::new(format!("{what}, verified by `{}`", receipt.command))
        }
        CriterionJudgement::Satisfy { evidence: CriterionEvidence::Asserted { text, by } } => {
            EventDescription::new(format!("{what}, asserted by {by}")).text(text)
        }
        CriterionJudgement::Defer { because }
        | CriterionJudgement::Reject { because }
        | CriterionJudgement::Reopen { because } => EventDescription::new(what).text(because),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "of_task() is the exhaustive match")]
fn describe_loop_event(event: &TaskEvent) -> EventDescription {
    match event {
        TaskEvent::LoopBegun(e) => {
            let (name, max) = (&e.template.name, e.template.max);
            EventDescription::new(format!("loop \"{name}\" started, at most {max} iterations"))
        }
        TaskEvent::EvidenceShown(e) => {
            let what = format!("\"{}\" shown in iteration {}", e.name, e.iteration);
            let description = match &e.shown {
                ShownEvidence::Evidence(CriterionEvidence::Asserted { text, .. }) => {
                    EventDescription::new(what).text(text)
                }
                ShownEvidence::Challenge(challenge) => EventDescription::new(what).text(format!(
                    "{}: {}: {}",
                    challenge.failure_mode, challenge.check, challenge.result
                )),
                ShownEvidence::Evidence(CriterionEvidence::Verified(receipt)) => {
                    EventDescription::new(format!("{what}, verified by `{}`", receipt.command))
                }
                ShownEvidence::Artifact(_) => EventDescription::new(format!("{what}, an artifact")),
                ShownEvidence::Pictures(compared) => {
                    EventDescription::new(format!("{what}: {}", compared.describe()))
                }
            };
            description.by(&e.by)
        }
        TaskEvent::ContinuationRefused(e) => {
            EventDescription::new(format!("iteration {} does not begin: {}", e.iteration, e.why))
                .by(&e.by)
                .refused(e.why.code())
        }
        TaskEvent::LoopAdvanced(e) => EventDescription {
            message: Some(e.message),
            by: Some(e.consumer.clone()),
            ..EventDescription::new(format!("iteration {} began", e.to))
        },
        TaskEvent::ConversationCleanedUp(e) => {
            let done = if e.skipped.is_some() { ", skipped" } else { "" };
            let what = format!("conversation of {}: {}{done}", e.name, e.clean_up.as_str());
            let description =
                EventDescription { message: Some(e.message), ..EventDescription::new(what) };
            description.text(e.skipped.as_deref().unwrap_or_default())
        }
        TaskEvent::LoopEnded(e) => match &e.end {
            LoopEnd::Finished => EventDescription::new("loop finished"),
            LoopEnd::Stopped { because } => EventDescription::new("loop stopped").text(because),
            LoopEnd::Plateau { iterations } => EventDescription::new(format!(
                "loop stopped: {iterations} iterations changed nothing"
            )),
            LoopEnd::Budget { used } => {
                EventDescription::new(format!("loop stopped: {used} tokens used"))
            }
        },
        _ => unreachable!("of_task() sends only loops here"),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "of_task() is the exhaustive match")]
fn describe_manager_event(event: &TaskEvent) -> EventDescription {
    match event {
        TaskEvent::Configured(e) => {
            EventDescription::new(format!("contract, revision {}", e.config.revision))
        }
        TaskEvent::MoveRecorded(e) => EventDescription {
            by: Some(e.by.clone()),
            ..EventDescription::new(format!("move: {}", e.kind.as_str())).text(&e.because)
        },
        TaskEvent::MoveUsed(e) => {
            EventDescription::new(format!("move used for {}", e.action.as_str()))
        }
        TaskEvent::ActionRefused(e) => {
            EventDescription::new(format!("refused: {}", e.why)).by(&e.by).refused(&e.code)
        }
        TaskEvent::EpilogueDone(e) => {
            EventDescription::new(format!("epilogue: {} done", e.step.as_str()))
                .text(&e.evidence)
                .by(&e.by)
        }
        // The proposals themselves are in the message to the reviewers, once both are written.
        TaskEvent::NextProposed(e) => EventDescription {
            by: Some(e.by.clone()),
            ..EventDescription::new(format!("round {}: {} proposed the next step", e.round, e.by))
        },
        TaskEvent::NextChosen(e) => {
            EventDescription::new(format!("round {}: {}", e.round, e.choice.as_str()))
                .text(&e.because)
                .by(&e.by)
        }
        TaskEvent::WorkChallenged(e) => {
            let challenge = &e.challenge;
            let text =
                format!("{}: {}: {}", challenge.failure_mode, challenge.check, challenge.result);
            EventDescription::new("challenged the work").text(text).by(&e.by)
        }
        TaskEvent::FinishRequested(e) => {
            EventDescription::new(format!("finish requested, audit {}", e.no))
                .text(&e.because)
                .by(&e.by)
        }
        TaskEvent::PolicyObserved(e) => {
            let rests = if e.idle.is_some() { "is idle" } else { "is working" };
            EventDescription::new(format!("the policy sees that {} {rests}", e.worker))
                .by(&TeamActor::Policy)
        }
        TaskEvent::PolicyActed(e) => {
            let description = EventDescription::new(format!("the policy: {}", e.action.describe()))
                .by(&TeamActor::Policy);
            match &e.refused {
                None => description,
                Some(why) => description.text(why).refused("policy_refused"),
            }
        }
        TaskEvent::MemberOrdered(e) => {
            EventDescription::new(format!("{} asked to {}", e.name, e.what.describe()))
                .by(&e.by)
                .key(&e.key)
        }
        TaskEvent::FinishReported(e) => {
            EventDescription::new(format!("{} notified that the team is finished", e.name))
                .text(&e.text)
        }
        TaskEvent::FinishAllowed(e) => {
            let lines: Vec<String> = e.blockers.iter().map(|blocker| blocker.describe()).collect();
            let codes: Vec<&str> = e.blockers.iter().map(|blocker| blocker.code()).collect();
            EventDescription::new(format!("finish allowed despite: {}", codes.join(", ")))
                .text(lines.join("\n"))
                .by(&e.by)
        }
        TaskEvent::FinishRefused(e) => {
            let codes: Vec<&str> = e.blockers.iter().map(|blocker| blocker.code()).collect();
            let first = codes.first().copied().unwrap_or("refused").to_owned();
            // A single code is shown as the code of the refusal.
            let summary = if codes.len() > 1 {
                format!("finish refused: {}", codes.join(", "))
            } else {
                "finish refused".to_owned()
            };
            EventDescription::new(summary).refused(first)
        }
        _ => unreachable!("of_task() sends only events of managers here"),
    }
}

/// Describes a session event. Returns `None` for events that only show that the session is running.
#[expect(clippy::wildcard_enum_match_arm, reason = "the rest only show that it is running")]
pub(super) fn describe_session_event(event: &SessionEvent) -> Option<EventDescription> {
    Some(match event {
        SessionEvent::SessionOpened(e) => {
            EventDescription::new(format!("session opened: {}", e.spec.name))
        }
        SessionEvent::AttemptOpened(e) => EventDescription::new(format!("attempt {} opened", e.no))
            .text(e.instruction.as_deref().unwrap_or_default())
            .message(),
        SessionEvent::LaunchStarted(e) => {
            EventDescription::new(format!("launch {} started", e.launch.no))
        }
        SessionEvent::LaunchAdopted(e) => {
            EventDescription::new(format!("launch {} adopted", e.launch.no))
        }
        SessionEvent::LaunchFailed(e) => {
            EventDescription::new(format!("launch {} could not start", e.launch.no)).text(&e.reason)
        }
        SessionEvent::TurnStarted(_) => EventDescription::new("turn started"),
        SessionEvent::TurnEnded(e) => match &e.end {
            TurnEnd::Ok => EventDescription::new("turn ended")
                .text(e.says.as_deref().unwrap_or_default())
                .message(),
            TurnEnd::Interrupted => EventDescription::new("turn interrupted"),
            TurnEnd::Error(why) => EventDescription::new("turn ended with an error").text(why),
            TurnEnd::Limited { detail, .. } => {
                EventDescription::new("turn ended by a limit").text(detail)
            }
        },
        SessionEvent::ClaimMade(e) => {
            let what = format!("{} claims {}", e.source.as_str(), e.kind.as_str());
            EventDescription::new(what).text(e.text.as_deref().unwrap_or_default()).message()
        }
        SessionEvent::RequestOpened(e) => {
            EventDescription::new(format!("asks, request {}", e.request.no))
                .text(&e.asked.title)
                .message()
        }
        SessionEvent::RequestSettled(e) => {
            EventDescription::new(format!("request {} {}", e.request.no, fate_text(&e.status)))
        }
        SessionEvent::RequestContradicted(e) => EventDescription::new(format!(
            "request {} ended differently than answered",
            e.request.no
        )),
        SessionEvent::MessageQueued(e) => {
            EventDescription::new("message queued").text(&e.text).key(&e.key)
        }
        SessionEvent::MessageDelivered(e) => EventDescription::new("message delivered").key(&e.key),
        SessionEvent::MessageTyped(e) => EventDescription::new("message typed").key(&e.key),
        SessionEvent::MessageUnconfirmed(e) => {
            EventDescription::new("message delivery unconfirmed").text(&e.reason).key(&e.key)
        }
        SessionEvent::MessageRefused(e) => {
            EventDescription::new("message refused by the agent's program")
                .text(&e.reason)
                .key(&e.key)
        }
        SessionEvent::StreamUnreachable(e) => {
            EventDescription::new(format!("could not connect to launch {}", e.launch.no))
                .text(&e.reason)
        }
        SessionEvent::MessageLost(e) => {
            EventDescription::new("message lost").text(&e.reason).key(&e.key)
        }
        SessionEvent::ReworkSent(e) => {
            EventDescription::new("rework requested").text(&e.text).key(&e.key)
        }
        SessionEvent::CheckFinished(e) => EventDescription::new(format!(
            "check `{}`: {}",
            e.receipt.command,
            e.receipt.end.summary()
        )),
        SessionEvent::ProcessEnded(e) => EventDescription::new(match e.end {
            session::ProcessExit::Exit(code) => format!("process ended, exit code {code}"),
            session::ProcessExit::Signal(signal) => format!("process ended, signal {signal}"),
        }),
        SessionEvent::ProcessUnobserved(_) => {
            EventDescription::new("process ended, exit status unknown")
        }
        SessionEvent::StreamSilent(_) => {
            EventDescription::new("silent for longer than the silence window")
        }
        SessionEvent::ContextCompacted(_) => EventDescription::new("conversation compacted"),
        SessionEvent::StopRequested(_) => EventDescription::new("stop requested"),
        SessionEvent::SessionDismissed(e) => EventDescription::new("dismissed").text(&e.because),
        SessionEvent::AttemptCancelled(e) => {
            EventDescription::new("attempt cancelled").text(&e.because)
        }
        SessionEvent::AttemptSuperseded(_) => EventDescription::new("attempt superseded"),
        SessionEvent::AttemptStopped(e) => EventDescription::new("attempt stopped").text(&e.detail),
        SessionEvent::AttemptResolved(e) => {
            EventDescription::new(format!("resolved as {}", e.state.as_str())).text(&e.because)
        }
        SessionEvent::AttemptSealed(e) => {
            EventDescription::new(format!("attempt {} sealed", e.attempt))
        }
        SessionEvent::AgentReplaced(e) => {
            EventDescription::new(format!("{} replaced {}", e.to, e.from))
        }
        _ => return None,
    })
}

fn fate_text(fate: &RequestStatus) -> &'static str {
    match fate {
        RequestStatus::Open => "is open",
        RequestStatus::Answered => "answered",
        RequestStatus::Withdrawn => "withdrawn",
        RequestStatus::AnsweredElsewhere => "answered at the agent's own screen",
        RequestStatus::Void => "void",
    }
}
