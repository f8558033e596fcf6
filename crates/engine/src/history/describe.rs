//! Descriptions of events. Text written by a user or agent is kept separate, so that it can be redacted.

use provost_core::{
    request::RequestStatus,
    session::{self, Event as SessionEvent, TurnEnd},
    team::{
        CheckEvent, CheckPurpose, ContinuationBlocked, CriterionEvent, CriterionEvidence,
        CriterionJudgement, DeliveryMode, Event as TeamEvent, EvidenceRequirement, FinishEvent,
        LoopEnd, LoopEvent, ManagerEvent, MemberEvent, MessageEvent, ShownEvidence, TeamActor,
        TeamChange,
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
pub(super) fn describe_with_actor(event: &TeamEvent, actor: &str) -> EventDescription {
    let description = describe_team_event(event);
    let aside =
        description.refused.as_deref() == Some(UNDELIVERABLE) && actor != TeamActor::Provost.name();
    if aside && matches!(event, TeamEvent::Message(MessageEvent::MessageDead(_))) {
        EventDescription { summary: "dead-lettered".to_owned(), refused: None, ..description }
    } else {
        description
    }
}

/// Describes a team event in one text, which includes texts of users and agents.
pub fn describe_team(event: &TeamEvent) -> String {
    let description = describe_team_event(event);
    let message = description.message.map(|no| format!("message {no}: ")).unwrap_or_default();
    let text = description.text.map(|text| format!(": {text}")).unwrap_or_default();
    let subject = if matches!(event, TeamEvent::Team(TeamChange::PhaseChanged(_))) {
        "the team is "
    } else {
        ""
    };
    format!("{subject}{message}{}{text}", description.summary)
}

/// Describes a team event.
pub(super) fn describe_team_event(event: &TeamEvent) -> EventDescription {
    match event {
        TeamEvent::Team(event) => describe_team_change(event),
        TeamEvent::Member(event) => describe_member_event(event),
        TeamEvent::Message(event) => describe_message_event(event),
        TeamEvent::Criterion(event) => describe_criterion_event(event),
        TeamEvent::Check(event) => describe_check_event(event),
        TeamEvent::Loop(event) => describe_loop_event(event),
        TeamEvent::Manager(event) => describe_manager_event(event),
        TeamEvent::Finish(event) => describe_finish_event(event),
    }
}

fn describe_team_change(event: &TeamChange) -> EventDescription {
    match event {
        TeamChange::TeamOpened(e) => {
            EventDescription::new(format!("opened \"{}\"", e.spec.name)).text(&e.spec.goal)
        }
        TeamChange::TeamRenamed(e) => EventDescription::new(format!("renamed \"{}\"", e.name)),
        TeamChange::PhaseChanged(e) => {
            EventDescription::new(e.phase.as_str()).text(phase_reason(&e.phase))
        }
        TeamChange::CommandsApproved(e) => {
            EventDescription::new(format!("agreed to run `{}`", e.commands.join("`, `")))
        }
        TeamChange::Configured(e) => {
            EventDescription::new(format!("contract, revision {}", e.config.revision))
        }
    }
}

fn describe_criterion_event(event: &CriterionEvent) -> EventDescription {
    match event {
        CriterionEvent::CriterionProposed(e) => {
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
        CriterionEvent::CriterionJudged(e) => describe_judgement(e.no, &e.judgement).by(&e.by),
    }
}

fn describe_check_event(event: &CheckEvent) -> EventDescription {
    match event {
        CheckEvent::CheckRequested(e) => {
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
        CheckEvent::CheckJoined(e) => {
            let what = format!("check {} also requested", e.no);
            EventDescription { by: Some(e.by.clone()), ..EventDescription::new(what) }
        }
        CheckEvent::CheckDone(e) => {
            let (end, tree) = (&e.receipt.end, short_tree(&e.receipt.tree.0));
            let words = end.summary();
            let description =
                EventDescription::new(format!("check {} on tree {tree}: {words}", e.no));
            if end == &CheckEnd::Exit(0) { description } else { description.text(&e.receipt.tail) }
        }
    }
}

fn phase_reason(phase: &provost_core::team::TeamPhase) -> &str {
    crate::search_terms::phase_reason(phase).unwrap_or_default()
}

fn short_tree(tree: &str) -> &str {
    tree.get(..12).unwrap_or(tree)
}

fn describe_member_event(event: &MemberEvent) -> EventDescription {
    match event {
        MemberEvent::MemberBound(e) => {
            let session = e.session.map(|session| format!(", session {}", session.short()));
            let session = session.unwrap_or_default();
            EventDescription::new(format!("{} bound as {}{session}", e.name, e.role.as_str()))
        }
        MemberEvent::MemberLeft(e) => {
            let to = e.to.as_ref().map(|to| format!(", its messages go to {to}"));
            EventDescription::new(format!("{} left{}", e.name, to.unwrap_or_default()))
                .text(&e.because)
        }
        MemberEvent::MemberRotated(e) => {
            EventDescription::new(format!("{} replaced {}", e.to, e.from))
                .text(&e.handover)
                .message()
        }
        MemberEvent::MemberLabelled(e) => EventDescription::new(format!("{} labelled", e.name)),
        MemberEvent::ContractAcknowledged(e) => EventDescription {
            by: Some(e.name.clone()),
            ..EventDescription::new(format!("{} acknowledged revision {}", e.name, e.revision))
        },
        MemberEvent::NewsReported(e) => {
            EventDescription::new(format!("events of member {} reported", e.member))
        }
        MemberEvent::MemberOrdered(e) => {
            EventDescription::new(format!("{} asked to {}", e.name, e.what.describe()))
                .by(&e.by)
                .key(&e.key)
        }
    }
}

fn describe_message_event(event: &MessageEvent) -> EventDescription {
    let (no, description) = match event {
        MessageEvent::MessageStored(e) => {
            let iteration = e.iteration.map(|no| format!(" of iteration {no}")).unwrap_or_default();
            let (kind, to, trust) = (e.kind.as_str(), e.to.name(), e.trust.as_str());
            let what = format!("{kind}{iteration} to {to} ({trust})");
            let description = EventDescription::new(what).text(&e.text).by(&e.from).message();
            let channel = Some(e.channel.as_str());
            (e.no, EventDescription { channel, correlation: e.correlation.clone(), ..description })
        }
        MessageEvent::MessageOffered(e) => {
            let mode = match &e.lease.delivery {
                DeliveryMode::Push { session, .. } => {
                    format!("sent to session {}", session.short())
                }
                DeliveryMode::Pull => "taken".to_owned(),
            };
            let description = EventDescription::new(format!("{mode} (offer {})", e.lease.no));
            (e.no, EventDescription { by: Some(e.lease.consumer.clone()), ..description })
        }
        MessageEvent::MessageAccepted(e) => {
            let consumer = e.lease.consumer.clone();
            let description = EventDescription::new(format!(
                "accepted by {consumer} ({})",
                e.lease.delivery.as_str()
            ));
            (e.no, EventDescription { by: Some(consumer), ..description })
        }
        MessageEvent::MessageAcknowledged(e) => {
            let description = EventDescription::new(format!("acknowledged by {}", e.by));
            let description = EventDescription { by: Some(e.by.clone()), ..description };
            (e.no, description.text(e.note.as_deref().unwrap_or_default()))
        }
        MessageEvent::MessageReturned(e) => {
            (e.no, EventDescription::new("queued again").text(&e.reason))
        }
        MessageEvent::MessageExpired(e) => (e.no, EventDescription::new("expired")),
        MessageEvent::MessageCancelled(e) => {
            (e.no, EventDescription::new("cancelled").text(&e.because))
        }
        MessageEvent::MessageDead(e) => {
            (e.no, EventDescription::new("dead").text(&e.reason).refused(refusal_code(&e.reason)))
        }
        MessageEvent::MessageRequeued(e) => {
            let to = e.to.as_ref().map(|to| format!(", for {to}")).unwrap_or_default();
            (e.no, EventDescription::new(format!("requeued{to}")).text(&e.because))
        }
        MessageEvent::UndeliveredReported(e) => {
            let lost: Vec<String> = e.messages.iter().map(u32::to_string).collect();
            let what = format!("notified of undelivered messages: {}", lost.join(", "));
            return EventDescription::new(what);
        }
        MessageEvent::NewsAdded(e) => (
            e.no,
            EventDescription::new("later events of the member added")
                .text(&e.text)
                .by(&TeamActor::Provost),
        ),
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

fn describe_loop_event(event: &LoopEvent) -> EventDescription {
    match event {
        LoopEvent::LoopBegun(e) => {
            let (name, max) = (&e.template.name, e.template.max);
            EventDescription::new(format!("loop \"{name}\" started, at most {max} iterations"))
        }
        LoopEvent::EvidenceShown(e) => {
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
        LoopEvent::ContinuationRefused(e) => {
            EventDescription::new(format!("iteration {} does not begin: {}", e.iteration, e.why))
                .by(&e.by)
                .refused(e.why.code())
        }
        LoopEvent::LoopAdvanced(e) => EventDescription {
            message: Some(e.message),
            by: Some(e.consumer.clone()),
            ..EventDescription::new(format!("iteration {} began", e.to))
        },
        LoopEvent::ConversationCleanedUp(e) => {
            let done = if e.skipped.is_some() { ", skipped" } else { "" };
            let what = format!("conversation of {}: {}{done}", e.name, e.clean_up.as_str());
            let description =
                EventDescription { message: Some(e.message), ..EventDescription::new(what) };
            description.text(e.skipped.as_deref().unwrap_or_default())
        }
        LoopEvent::LoopEnded(e) => match &e.end {
            LoopEnd::Finished => EventDescription::new("loop finished"),
            LoopEnd::Stopped { because } => EventDescription::new("loop stopped").text(because),
            LoopEnd::Plateau { iterations } => EventDescription::new(format!(
                "loop stopped: {iterations} iterations changed nothing"
            )),
            LoopEnd::Budget { used } => {
                EventDescription::new(format!("loop stopped: {used} tokens used"))
            }
        },
    }
}

fn describe_manager_event(event: &ManagerEvent) -> EventDescription {
    match event {
        ManagerEvent::MoveRecorded(e) => EventDescription {
            by: Some(e.by.clone()),
            ..EventDescription::new(format!("move: {}", e.kind.as_str())).text(&e.because)
        },
        ManagerEvent::MoveUsed(e) => {
            EventDescription::new(format!("move used for {}", e.action.as_str()))
        }
        ManagerEvent::ActionRefused(e) => {
            EventDescription::new(format!("refused: {}", e.why)).by(&e.by).refused(&e.code)
        }
        ManagerEvent::EpilogueDone(e) => {
            EventDescription::new(format!("epilogue: {} done", e.step.as_str()))
                .text(&e.evidence)
                .by(&e.by)
        }
        ManagerEvent::PolicyObserved(e) => {
            let rests = if e.idle.is_some() { "is idle" } else { "is working" };
            EventDescription::new(format!("the policy sees that {} {rests}", e.worker))
                .by(&TeamActor::Policy)
        }
        ManagerEvent::PolicyActed(e) => {
            let description = EventDescription::new(format!("the policy: {}", e.action.describe()))
                .by(&TeamActor::Policy);
            match &e.refused {
                None => description,
                Some(why) => description.text(why).refused("policy_refused"),
            }
        }
        // The proposals themselves are in the message to the reviewers, once both are written.
        ManagerEvent::NextProposed(e) => EventDescription {
            by: Some(e.by.clone()),
            ..EventDescription::new(format!("round {}: {} proposed the next step", e.round, e.by))
        },
        ManagerEvent::NextChosen(e) => {
            EventDescription::new(format!("round {}: {}", e.round, e.choice.as_str()))
                .text(&e.because)
                .by(&e.by)
        }
    }
}

fn describe_finish_event(event: &FinishEvent) -> EventDescription {
    match event {
        FinishEvent::WorkChallenged(e) => {
            let challenge = &e.challenge;
            let text =
                format!("{}: {}: {}", challenge.failure_mode, challenge.check, challenge.result);
            EventDescription::new("challenged the work").text(text).by(&e.by)
        }
        FinishEvent::FinishRequested(e) => {
            EventDescription::new(format!("finish requested, audit {}", e.no))
                .text(&e.because)
                .by(&e.by)
        }
        FinishEvent::FinishAllowed(e) => {
            let lines: Vec<String> = e.blockers.iter().map(|blocker| blocker.describe()).collect();
            let codes: Vec<&str> = e.blockers.iter().map(|blocker| blocker.code()).collect();
            EventDescription::new(format!("finish allowed despite: {}", codes.join(", ")))
                .text(lines.join("\n"))
                .by(&e.by)
        }
        FinishEvent::FinishRefused(e) => {
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
        FinishEvent::FinishReported(e) => {
            EventDescription::new(format!("{} notified that the team is finished", e.name))
                .text(&e.text)
        }
    }
}

/// Describes a session event. Returns `None` for events that only show that the session is running.
#[expect(clippy::wildcard_enum_match_arm, reason = "the rest only show that it is running")]
pub(super) fn describe_session_event(event: &SessionEvent) -> Option<EventDescription> {
    Some(match event {
        SessionEvent::Session(session::SessionChange::SessionOpened(e)) => {
            EventDescription::new(format!("session opened: {}", e.spec.name))
        }
        SessionEvent::Attempt(session::AttemptEvent::AttemptOpened(e)) => {
            EventDescription::new(format!("attempt {} opened", e.no))
                .text(e.instruction.as_deref().unwrap_or_default())
                .message()
        }
        SessionEvent::Process(session::ProcessEvent::LaunchStarted(e)) => {
            EventDescription::new(format!("launch {} started", e.launch.no))
        }
        SessionEvent::Process(session::ProcessEvent::LaunchAdopted(e)) => {
            EventDescription::new(format!("launch {} adopted", e.launch.no))
        }
        SessionEvent::Process(session::ProcessEvent::LaunchFailed(e)) => {
            EventDescription::new(format!("launch {} could not start", e.launch.no)).text(&e.reason)
        }
        SessionEvent::Turn(session::TurnEvent::TurnStarted(_)) => {
            EventDescription::new("turn started")
        }
        SessionEvent::Turn(session::TurnEvent::TurnEnded(e)) => match &e.end {
            TurnEnd::Ok => EventDescription::new("turn ended")
                .text(e.says.as_deref().unwrap_or_default())
                .message(),
            TurnEnd::Interrupted => EventDescription::new("turn interrupted"),
            TurnEnd::Error(why) => EventDescription::new("turn ended with an error").text(why),
            TurnEnd::Limited { detail, .. } => {
                EventDescription::new("turn ended by a limit").text(detail)
            }
        },
        SessionEvent::Report(session::ReportEvent::ClaimMade(e)) => {
            let what = format!("{} claims {}", e.source.as_str(), e.kind.as_str());
            EventDescription::new(what).text(e.text.as_deref().unwrap_or_default()).message()
        }
        SessionEvent::Request(session::RequestEvent::RequestOpened(e)) => {
            EventDescription::new(format!("asks, request {}", e.request.no))
                .text(&e.asked.title)
                .message()
        }
        SessionEvent::Request(session::RequestEvent::RequestSettled(e)) => {
            EventDescription::new(format!("request {} {}", e.request.no, fate_text(&e.status)))
        }
        SessionEvent::Request(session::RequestEvent::RequestContradicted(e)) => {
            EventDescription::new(format!(
                "request {} ended differently than answered",
                e.request.no
            ))
        }
        SessionEvent::Input(session::InputEvent::MessageQueued(e)) => {
            EventDescription::new("message queued").text(&e.text).key(&e.key)
        }
        SessionEvent::Input(session::InputEvent::MessageDelivered(e)) => {
            EventDescription::new("message delivered").key(&e.key)
        }
        SessionEvent::Input(session::InputEvent::MessageTyped(e)) => {
            EventDescription::new("message typed").key(&e.key)
        }
        SessionEvent::Input(session::InputEvent::MessageUnconfirmed(e)) => {
            EventDescription::new("message delivery unconfirmed").text(&e.reason).key(&e.key)
        }
        SessionEvent::Input(session::InputEvent::MessageRefused(e)) => {
            EventDescription::new("message refused by the agent's program")
                .text(&e.reason)
                .key(&e.key)
        }
        SessionEvent::Stream(session::StreamEvent::StreamUnreachable(e)) => {
            EventDescription::new(format!("could not connect to launch {}", e.launch.no))
                .text(&e.reason)
        }
        SessionEvent::Input(session::InputEvent::MessageLost(e)) => {
            EventDescription::new("message lost").text(&e.reason).key(&e.key)
        }
        SessionEvent::Attempt(session::AttemptEvent::ReworkSent(e)) => {
            EventDescription::new("rework requested").text(&e.text).key(&e.key)
        }
        SessionEvent::Evidence(session::EvidenceEvent::CheckFinished(e)) => EventDescription::new(
            format!("check `{}`: {}", e.receipt.command, e.receipt.end.summary()),
        ),
        SessionEvent::Process(session::ProcessEvent::ProcessEnded(e)) => {
            EventDescription::new(match e.end {
                session::ProcessExit::Exit(code) => format!("process ended, exit code {code}"),
                session::ProcessExit::Signal(signal) => format!("process ended, signal {signal}"),
            })
        }
        SessionEvent::Process(session::ProcessEvent::ProcessUnobserved(_)) => {
            EventDescription::new("process ended, exit status unknown")
        }
        SessionEvent::Stream(session::StreamEvent::StreamSilent(_)) => {
            EventDescription::new("silent for longer than the silence window")
        }
        SessionEvent::Conversation(session::ConversationEvent::ContextCompacted(_)) => {
            EventDescription::new("conversation compacted")
        }
        SessionEvent::Process(session::ProcessEvent::StopRequested(_)) => {
            EventDescription::new("stop requested")
        }
        SessionEvent::Session(session::SessionChange::SessionDismissed(e)) => {
            EventDescription::new("dismissed").text(&e.because)
        }
        SessionEvent::Attempt(session::AttemptEvent::AttemptCancelled(e)) => {
            EventDescription::new("attempt cancelled").text(&e.because)
        }
        SessionEvent::Attempt(session::AttemptEvent::AttemptSuperseded(_)) => {
            EventDescription::new("attempt superseded")
        }
        SessionEvent::Attempt(session::AttemptEvent::AttemptStopped(e)) => {
            EventDescription::new("attempt stopped").text(&e.detail)
        }
        SessionEvent::Attempt(session::AttemptEvent::AttemptResolved(e)) => {
            EventDescription::new(format!("resolved as {}", e.state.as_str())).text(&e.because)
        }
        SessionEvent::Attempt(session::AttemptEvent::AttemptSealed(e)) => {
            EventDescription::new(format!("attempt {} sealed", e.attempt))
        }
        SessionEvent::Session(session::SessionChange::AgentReplaced(e)) => {
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
