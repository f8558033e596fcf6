//! Events that only programs and maintainers need. The event list hides them by default.

use provost_api::EventRow;
use provost_core::{run, session::Event, team};

/// Whether an event is bookkeeping. Events that this program does not know are not.
pub(super) fn is_bookkeeping(event: &EventRow) -> bool {
    let (kind, data) = (event.kind.as_str(), event.data.to_string());
    let version = |kinds: &[(&'static str, u16)]| {
        kinds.iter().find(|(known, _)| *known == kind).map(|(_, version)| *version)
    };
    if let Some(version) = version(Event::KINDS) {
        return Event::decode(kind, version, &data).is_ok_and(|event| of_session(&event));
    }
    if let Some(version) = version(run::Event::KINDS) {
        return run::Event::decode(kind, version, &data).is_ok_and(|event| of_run(&event));
    }
    if let Some(version) = version(team::Event::KINDS) {
        return team::Event::decode(kind, version, &data).is_ok_and(|event| of_team(&event));
    }
    false
}

fn of_session(event: &Event) -> bool {
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
            | Event::LimitSlot(_)
            | Event::EffectRetried(_)
            | Event::ToolAnswered(_)
    )
}

fn of_run(event: &run::Event) -> bool {
    matches!(
        event,
        run::Event::WorktreeMoveRequested(_)
            | run::Event::WorktreeMoved(_)
            | run::Event::PullRequestObserved(_)
            | run::Event::RunReportWritten(_)
    )
}

fn of_team(event: &team::Event) -> bool {
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
