//! Names and keys are the same in code, in storage and in output.

use provost_core::{
    ids::{LaunchId, SessionId},
    session::{
        AdapterId, AgentMode, ClaimSource, DeadlineKind, HookEvent, HookKey, ReportStatus,
        SessionEffect, StopStep, WorkLocation,
    },
};
use serde::Serialize;

use crate::kit::{TestSession, spec};

const LAUNCH: LaunchId = LaunchId { session: SessionId(uuid::Uuid::nil()), no: 2 };

fn stored(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).expect("it can be stored");
    value.as_str().expect("it is stored as a word").to_owned()
}

#[test]
fn shown_names_match_stored_names() {
    use ClaimSource::{Agent, Operator, Policy, TurnError};
    for source in [Agent, Operator, Policy, TurnError] {
        assert_eq!(source.as_str(), stored(source));
    }
    for status in [ReportStatus::Applied, ReportStatus::Recorded, ReportStatus::RecordedLate] {
        assert_eq!(status.as_str(), stored(status));
    }
    for mode in AgentMode::ALL {
        assert_eq!(mode.as_str(), stored(mode));
    }
    for adapter in [AdapterId::COMMAND, AdapterId::JSON_LINES] {
        assert_eq!(adapter.as_str(), stored(adapter.clone()));
    }
}

#[test]
fn deadline_names() {
    let all = [
        DeadlineKind::TimeLimit,
        DeadlineKind::StreamSettle,
        DeadlineKind::Escalation,
        DeadlineKind::Seal,
        DeadlineKind::Silence(LAUNCH),
    ];
    let words = all.map(DeadlineKind::as_str);
    assert_eq!(words, ["time_limit", "stream_settle", "escalation", "seal", "silence"]);
}

#[test]
fn hook_names_round_trip() {
    let names: Vec<String> = HookEvent::all().iter().map(HookEvent::to_string).collect();
    let known = [
        "opened",
        "started",
        "late_claim",
        "reaction",
        "needs_input",
        "rework",
        "stalled",
        "lost",
        "succeeded",
        "completed",
        "accepted",
        "failed",
        "exited_without_claim",
        "stopped",
        "disputed",
        "cancelled",
        "superseded",
    ];
    assert_eq!(names, known.map(|name| format!("session.{name}")));
    for event in HookEvent::all() {
        assert_eq!(event.to_string().parse(), Ok(event));
        assert_eq!(stored(event), event.to_string());
        assert_eq!(serde_json::from_value(event.to_string().into()).ok(), Some(event));
    }
    assert!("session.working".parse::<HookEvent>().is_err(), "it comes and goes by itself");
}

/// An external command runs in a directory with this name; another name would run it twice.
#[test]
fn effect_keys_are_stable() {
    let key = HookKey { event: HookEvent::LateClaim, no: 3 };
    let effects = [
        (SessionEffect::PrepareWork { attempt: 1 }, "work"),
        (SessionEffect::PrepareWork { attempt: 2 }, "work-2"),
        (SessionEffect::RunSetup { attempt: 1 }, "setup"),
        (SessionEffect::RunSetup { attempt: 2 }, "setup-2"),
        (SessionEffect::StartLaunch(LAUNCH), "l2"),
        (SessionEffect::Follow(LAUNCH), "follow-l2"),
        (SessionEffect::StopLaunch(LAUNCH, StopStep::Terminate), "stop-l2-terminate"),
        (
            SessionEffect::Deliver { launch: LAUNCH, message: "send-1".to_owned() },
            "deliver-l2-send-1",
        ),
        (SessionEffect::TakeSnapshot { attempt: 1, no: 4 }, "snapshot-1-4"),
        (SessionEffect::RunCheck { attempt: 1, no: 4, index: 5 }, "c1-4-5"),
        (SessionEffect::RunHook(key), "h3-session.late_claim"),
    ];
    for (effect, key) in effects {
        assert_eq!(effect.key(), key);
    }
}

#[test]
fn work_location_has_top_and_branch() {
    let top = || "/repo".to_owned();
    let base = provost_core::ids::CommitId("c".to_owned());
    let worktree = WorkLocation::Worktree {
        top: top(),
        path: "/tree".to_owned(),
        branch: "provost/x".to_owned(),
        copy: Vec::new(),
        base: None,
    };
    let detached = WorkLocation::Detached { top: top(), path: "/tree".to_owned(), base };
    let places = [worktree, detached, WorkLocation::InPlace { top: top() }, WorkLocation::Plain];
    let locations = places.each_ref().map(|work| (work.top(), work.branch()));
    let repo = Some("/repo");
    assert_eq!(locations, [(repo, Some("provost/x")), (repo, None), (repo, None), (None, None)]);
}

#[test]
fn session_is_stored_flat() {
    let session = TestSession::new(spec()).session;
    let stored = serde_json::to_value(&session).expect("it can be stored");
    let keys: Vec<&str> =
        stored.as_object().expect("it is an object").keys().map(String::as_str).collect();
    let mut known = [
        "attempts",
        "budget",
        "conversation_deleted",
        "facts",
        "hooks",
        "hooks_ended",
        "hooks_fired",
        "id",
        "launches",
        "limited",
        "messages",
        "opened",
        "output_limit",
        "progress",
        "requests",
        "setup",
        "setup_for",
        "spec",
        "thread",
        "turns",
        "usage",
        "warnings",
        "work",
        "work_for",
    ];
    known.sort_unstable();
    assert_eq!(keys, known);
}
