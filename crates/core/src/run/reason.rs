//! Explains why a run is in its current state, and which session is responsible.

use super::{
    consent::PendingRunApproval,
    landing::LandingState,
    outcome::{RunAttemptOutcome, RunEnding, RunFailureCause},
    stage::RunStage,
    state::{Run, RunSession, RunStop},
};
use crate::{ids::SessionId, session::Session};

/// Why a run is in its current state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReason {
    pub text: String,
    /// The session that the run is waiting for, or that caused its state.
    pub session: Option<SessionId>,
}

impl RunReason {
    fn new(text: impl Into<String>) -> RunReason {
        RunReason { text: text.into(), session: None }
    }

    fn with_session(text: impl Into<String>, session: Option<&RunSession>) -> RunReason {
        RunReason { text: text.into(), session: session.map(|one| one.id) }
    }
}

impl Run {
    /// Explains the run's state: what it is waiting for, or why it ended.
    pub fn reason<'s>(&self, look: impl Fn(SessionId) -> Option<&'s Session>) -> RunReason {
        let attempt = self.attempt();
        match (&attempt.sealed, &attempt.stopped) {
            (Some(outcome), stopped) => self.why_ended(outcome, stopped.as_ref()),
            (None, Some(stopped)) => {
                let text = format!("{}; its sessions are being stopped", describe_stop(stopped));
                RunReason::with_session(text, self.live().next())
            }
            (None, None) => self.why_running(look),
        }
    }

    fn why_ended(&self, outcome: &RunAttemptOutcome, stopped: Option<&RunStop>) -> RunReason {
        match outcome.ending {
            RunEnding::Succeeded => RunReason::new("every check passed on its final tree"),
            RunEnding::Completed => RunReason::new("its work is done, but no check proves it"),
            RunEnding::Cancelled => {
                RunReason::new(stopped.map_or_else(|| "it was cancelled".to_owned(), describe_stop))
            }
            RunEnding::Failed => {
                let cause = outcome.cause.map_or("work", RunFailureCause::as_str);
                let text = match outcome.detail.as_str() {
                    "" => format!("its {cause} failed"),
                    detail => format!("its {cause} failed: {detail}"),
                };
                RunReason::with_session(text, self.failed_session(outcome.cause))
            }
        }
    }

    /// Returns the newest session that ended badly, if a session caused the failure at all.
    fn failed_session(&self, cause: Option<RunFailureCause>) -> Option<&RunSession> {
        match cause? {
            RunFailureCause::Landing | RunFailureCause::Budget | RunFailureCause::Queue => {
                return None;
            }
            RunFailureCause::Triage
            | RunFailureCause::Plan
            | RunFailureCause::Tasks
            | RunFailureCause::Work
            | RunFailureCause::Review => {}
        }
        let bad = |one: &&RunSession| one.end.as_ref().is_some_and(|end| !end.is_good());
        let attempt = self.attempt().no;
        let mut of_attempt = self.sessions.iter().rev().filter(|one| one.attempt == attempt);
        of_attempt.find(bad)
    }

    fn why_running<'s>(&self, look: impl Fn(SessionId) -> Option<&'s Session>) -> RunReason {
        match self.approval() {
            Some(PendingRunApproval::Plan(_)) => {
                return RunReason::new("it waits for you to approve the plan");
            }
            Some(PendingRunApproval::Landing(_)) => {
                return RunReason::new("it waits for you to approve the landing");
            }
            None => {}
        }
        let asks = |session: &Session| session.open_requests().any(|request| request.blocks());
        let live = || self.live().filter_map(|one| Some((one, look(one.id)?)));
        if let Some((one, _)) = live().find(|(_, session)| asks(session)) {
            return RunReason::with_session("it waits for your answer", Some(one));
        }
        if let Some((one, _)) = live().find(|(_, session)| session.awaits_user()) {
            return RunReason::with_session(
                "a turn of its agent was interrupted, and it waits for you",
                Some(one),
            );
        }
        if let Some(one) = self.live().last() {
            let text = format!("it waits for its session of the stage {}", stage_label(one.stage));
            return RunReason::with_session(text, Some(one));
        }
        let is_verifying = self.pending_verification().is_some();
        RunReason::new(match (self.stage, &self.landing) {
            (RunStage::Land, _) if is_verifying => "its merge with the target is being checked",
            (RunStage::Land, LandingState::Requested(_)) => "it waits for its pull request",
            (RunStage::Land, _) => "its work is being landed",
            (RunStage::Tasks, _) => "its finished tasks are being merged and checked",
            (
                RunStage::Intake
                | RunStage::Triage
                | RunStage::Plan
                | RunStage::PlanReview
                | RunStage::Work
                | RunStage::TaskReview
                | RunStage::FinalReview,
                _,
            ) => "its next session is being started",
        })
    }
}

fn stage_label(stage: RunStage) -> String {
    stage.as_str().replace('_', " ")
}

fn describe_stop(stopped: &RunStop) -> String {
    match stopped {
        RunStop::Cancelled { because } if because.is_empty() => "it was cancelled".to_owned(),
        RunStop::Cancelled { because } => format!("it was cancelled: {because}"),
        RunStop::Failed { cause, detail } => format!("its {} failed: {detail}", cause.as_str()),
    }
}
