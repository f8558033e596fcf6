//! Events that only programs and maintainers need. They are hidden in the event list by default.

use provost_api::EventRow;
use provost_core::{run, session::Event, team};

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
        Event::LaunchRequested(_)
            | Event::LaunchFollowed(_)
            | Event::StreamReady(_)
            | Event::StreamHeard(_)
            | Event::StreamClosed(_)
            | Event::StreamSettled(_)
            | Event::ConversationDeleted(_)
            | Event::ProgressReported(_)
            | Event::UsageReported(_)
            | Event::ContextReported(_)
            | Event::ProcessSeen(_)
            | Event::ProcessTreeReaped(_)
            | Event::SignalRecorded(_)
            | Event::SignalInferred(_)
            | Event::PaneSeen(_)
            | Event::MessageTyped(_)
            | Event::StopEscalated(_)
            | Event::LimitSlot(_)
            | Event::EffectRetried(_)
            | Event::ToolAnswered(_)
            | Event::TeamCommandCounted(_)
    )
}

fn is_run_bookkeeping(event: &run::Event) -> bool {
    matches!(
        event,
        run::Event::BatchVerified(_)
            | run::Event::Integrated(_)
            | run::Event::WorktreeMoveRequested(_)
            | run::Event::WorktreeMoved(_)
            | run::Event::PullRequestObserved(_)
            | run::Event::RunReportWritten(_)
    )
}

fn is_team_bookkeeping(event: &team::Event) -> bool {
    matches!(
        event,
        team::Event::MessageOffered(_)
            | team::Event::UndeliveredReported(_)
            | team::Event::NewsReported(_)
            | team::Event::CheckJoined(_)
            | team::Event::MoveUsed(_)
            | team::Event::PolicyObserved(_)
            | team::Event::FinishReported(_)
    )
}
