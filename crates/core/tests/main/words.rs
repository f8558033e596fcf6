//! Names and keys are the same in code, in storage and in output.

use provost_core::{
    ids::{LaunchId, SessionId},
    session::{ClaimSource, Driver, Due, Effect, HookEvent, HookKey, Standing, StopStep, Work},
};
use serde::Serialize;

const LAUNCH: LaunchId = LaunchId { session: SessionId(uuid::Uuid::nil()), no: 2 };

fn stored(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).expect("it can be stored");
    value.as_str().expect("it is stored as a word").to_owned()
}

#[test]
fn what_is_shown_is_what_is_stored() {
    use ClaimSource::{Agent, Operator, Policy, TurnError};
    for source in [Agent, Operator, Policy, TurnError] {
        assert_eq!(source.word(), stored(source));
    }
    for standing in [Standing::Applied, Standing::Recorded, Standing::RecordedLate] {
        assert_eq!(standing.word(), stored(standing));
    }
    for driver in [Driver::Command, Driver::Jsonl] {
        assert_eq!(driver.word(), stored(driver));
    }
}

#[test]
fn a_deadline_has_a_word() {
    let all = [Due::TimeLimit, Due::StreamSettle, Due::Escalation, Due::Seal, Due::Silence(LAUNCH)];
    let words = all.map(Due::word);
    assert_eq!(words, ["time_limit", "stream_settle", "escalation", "seal", "silence"]);
}

#[test]
fn hooks_are_named_for_what_happened() {
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
        "ended_unclaimed",
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
fn keys_of_effects_stay_what_they_are() {
    let key = HookKey { event: HookEvent::LateClaim, no: 3 };
    let effects = [
        (Effect::PrepareWork { attempt: 1 }, "work"),
        (Effect::PrepareWork { attempt: 2 }, "work-2"),
        (Effect::RunSetup { attempt: 1 }, "setup"),
        (Effect::RunSetup { attempt: 2 }, "setup-2"),
        (Effect::StartLaunch(LAUNCH), "l2"),
        (Effect::Follow(LAUNCH), "follow-l2"),
        (Effect::StopLaunch(LAUNCH, StopStep::Terminate), "stop-l2-terminate"),
        (Effect::Deliver { launch: LAUNCH, message: "send-1".to_owned() }, "deliver-l2-send-1"),
        (Effect::TakeSnapshot { attempt: 1, no: 4 }, "snapshot-1-4"),
        (Effect::RunCheck { attempt: 1, no: 4, index: 5 }, "c1-4-5"),
        (Effect::RunHook(key), "h3-session.late_claim"),
    ];
    for (effect, key) in effects {
        assert_eq!(effect.key(), key);
    }
}

#[test]
fn every_place_of_work_in_a_repository_names_its_top_and_one_with_a_branch_that() {
    let top = || "/repo".to_owned();
    let base = provost_core::ids::CommitId("c".to_owned());
    let worktree = Work::Worktree {
        top: top(),
        path: "/tree".to_owned(),
        branch: "provost/x".to_owned(),
        copy: Vec::new(),
        base: None,
    };
    let detached = Work::Detached { top: top(), path: "/tree".to_owned(), base };
    let places = [worktree, detached, Work::InPlace { top: top() }, Work::Plain];
    let told = places.each_ref().map(|work| (work.top(), work.branch()));
    let repo = Some("/repo");
    assert_eq!(told, [(repo, Some("provost/x")), (repo, None), (repo, None), (None, None)]);
}
