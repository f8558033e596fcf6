//! Events that only programs and maintainers need. They are hidden in the event list by default.

use provost_api::EventRow;
use provost_core::{
    run,
    session::{
        BudgetEvent, ConversationEvent, EffectEvent, Event, InputEvent, ProcessEvent, ReportEvent,
        StreamEvent, ToolEvent,
    },
    team,
};

/// Whether an event is bookkeeping. An event that this program cannot decode does not count as
/// bookkeeping, so that it is shown.
pub(super) fn is_bookkeeping(event: &EventRow) -> bool {
    let (kind, data) = (event.kind.as_str(), event.data.to_string());
    // A row does not contain the version of its format, so the newest one is assumed. An older event in a different
    // format cannot be decoded, so it is shown.
    let newest_format = |kinds: &[(&'static str, u16)]| {
        kinds.iter().find(|(known, _)| *known == kind).map(|(_, format)| *format)
    };
    if let Some(format) = newest_format(Event::KINDS) {
        let decoded = Event::decode(kind, format, &data);
        return decoded.is_ok_and(|event| is_session_bookkeeping(&event));
    }
    if let Some(format) = newest_format(run::Event::KINDS) {
        let decoded = run::Event::decode(kind, format, &data);
        return decoded.is_ok_and(|event| is_run_bookkeeping(&event));
    }
    if let Some(format) = newest_format(team::Event::KINDS) {
        let decoded = team::Event::decode(kind, format, &data);
        return decoded.is_ok_and(|event| is_team_bookkeeping(&event));
    }
    false
}

fn is_session_bookkeeping(event: &Event) -> bool {
    matches!(
        event,
        Event::Process(ProcessEvent::LaunchRequested(_) | ProcessEvent::LaunchFollowed(_))
            | Event::Stream(
                StreamEvent::StreamReady(_)
                    | StreamEvent::StreamHeard(_)
                    | StreamEvent::StreamClosed(_)
                    | StreamEvent::StreamSettled(_)
            )
            | Event::Conversation(ConversationEvent::ConversationDeleted(_))
            | Event::Report(ReportEvent::ProgressReported(_))
            | Event::Budget(BudgetEvent::UsageReported(_))
            | Event::Conversation(ConversationEvent::ContextReported(_))
            | Event::Process(ProcessEvent::ProcessSeen(_) | ProcessEvent::ProcessTreeReaped(_))
            | Event::Input(
                InputEvent::SignalRecorded(_)
                    | InputEvent::SignalInferred(_)
                    | InputEvent::PaneSeen(_)
                    | InputEvent::MessageTyped(_)
            )
            | Event::Process(ProcessEvent::StopEscalated(_))
            | Event::Budget(BudgetEvent::LimitSlot(_))
            | Event::Effect(EffectEvent::EffectRetried(_))
            | Event::Tool(ToolEvent::ToolAnswered(_))
            | Event::Report(ReportEvent::TeamCommandCounted(_))
    )
}

fn is_run_bookkeeping(event: &run::Event) -> bool {
    matches!(
        event,
        run::Event::Queue(run::QueueEvent::BatchVerified(_) | run::QueueEvent::Integrated(_))
            | run::Event::Task(
                run::TaskEvent::WorktreeMoveRequested(_) | run::TaskEvent::WorktreeMoved(_)
            )
            | run::Event::Landing(run::LandingEvent::PullRequestObserved(_))
            | run::Event::Run(run::RunChange::RunReportWritten(_))
    )
}

fn is_team_bookkeeping(event: &team::Event) -> bool {
    matches!(
        event,
        team::Event::Message(
            team::MessageEvent::MessageOffered(_) | team::MessageEvent::UndeliveredReported(_)
        ) | team::Event::Member(team::MemberEvent::NewsReported(_))
            | team::Event::Check(team::CheckEvent::CheckJoined(_))
            | team::Event::Manager(
                team::ManagerEvent::MoveUsed(_) | team::ManagerEvent::PolicyObserved(_)
            )
            | team::Event::Finish(team::FinishEvent::FinishReported(_))
    )
}
