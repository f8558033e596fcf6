//! Why a run is in its state, and the session responsible for it.

use super::{
    held::Approval,
    landing::Landing,
    outcome::{Cause, Ending, Outcome},
    stage::Stage,
    state::{Run, RunSession, Stopped},
};
use crate::{ids::SessionId, session::Session};

/// Why a run is in its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReason {
    pub text: String,
    /// The session that it waits for, or that decided it.
    pub session: Option<SessionId>,
}

impl RunReason {
    fn new(text: impl Into<String>) -> RunReason {
        RunReason { text: text.into(), session: None }
    }

    fn of(text: impl Into<String>, session: Option<&RunSession>) -> RunReason {
        RunReason { text: text.into(), session: session.map(|one| one.id) }
    }
}

impl Run {
    /// Returns why the run is in its state: its next dependency, or the reason of its end.
    pub fn reason<'s>(&self, look: impl Fn(SessionId) -> Option<&'s Session>) -> RunReason {
        let leg = self.leg();
        match (&leg.sealed, &leg.stopped) {
            (Some(outcome), stopped) => self.why_ended(outcome, stopped.as_ref()),
            (None, Some(stopped)) => {
                let text = format!("{}; its sessions are being stopped", told(stopped));
                RunReason::of(text, self.live().next())
            }
            (None, None) => self.why_running(look),
        }
    }

    fn why_ended(&self, outcome: &Outcome, stopped: Option<&Stopped>) -> RunReason {
        match outcome.ending {
            Ending::Succeeded => RunReason::new("every check passed on its final tree"),
            Ending::Completed => RunReason::new("its work is done, but no check proves it"),
            Ending::Cancelled => {
                RunReason::new(stopped.map_or_else(|| "it was cancelled".to_owned(), told))
            }
            Ending::Failed => {
                let cause = outcome.cause.map_or("work", Cause::word);
                let text = match outcome.detail.as_str() {
                    "" => format!("its {cause} failed"),
                    detail => format!("its {cause} failed: {detail}"),
                };
                RunReason::of(text, self.to_blame(outcome.cause))
            }
        }
    }

    /// Returns the newest session that ended badly, if a session caused the failure.
    fn to_blame(&self, cause: Option<Cause>) -> Option<&RunSession> {
        match cause? {
            Cause::Landing | Cause::Budget | Cause::Queue => return None,
            Cause::Triage | Cause::Plan | Cause::Tasks | Cause::Work | Cause::Review => {}
        }
        let bad = |one: &&RunSession| one.end.as_ref().is_some_and(|end| !end.is_good());
        let leg = self.leg().no;
        let mut of_leg = self.sessions.iter().rev().filter(|one| one.leg == leg);
        of_leg.find(bad)
    }

    fn why_running<'s>(&self, look: impl Fn(SessionId) -> Option<&'s Session>) -> RunReason {
        match self.approval() {
            Some(Approval::Plan(_)) => {
                return RunReason::new("it waits for you to approve the plan");
            }
            Some(Approval::Landing(_)) => {
                return RunReason::new("it waits for you to approve the landing");
            }
            None => {}
        }
        let asks = |session: &Session| session.open_requests().any(|request| request.blocks());
        let live = || self.live().filter_map(|one| Some((one, look(one.id)?)));
        if let Some((one, _)) = live().find(|(_, session)| asks(session)) {
            return RunReason::of("it waits for your answer", Some(one));
        }
        if let Some((one, _)) = live().find(|(_, session)| session.awaits_user()) {
            return RunReason::of(
                "a turn of its agent was interrupted, and it waits for you",
                Some(one),
            );
        }
        if let Some(one) = self.live().last() {
            let text = format!("it waits for its session of the stage {}", spoken(one.stage));
            return RunReason::of(text, Some(one));
        }
        RunReason::new(match (self.stage, &self.landing) {
            (Stage::Land, Landing::Requested(_)) => "it waits for its pull request",
            (Stage::Land, _) => "its work is being landed",
            (Stage::Tasks, _) => "its finished tasks are being merged and checked",
            (
                Stage::Intake
                | Stage::Triage
                | Stage::Plan
                | Stage::PlanReview
                | Stage::Work
                | Stage::TaskReview
                | Stage::FinalReview,
                _,
            ) => "its next session is being started",
        })
    }
}

fn spoken(stage: Stage) -> String {
    stage.word().replace('_', " ")
}

fn told(stopped: &Stopped) -> String {
    match stopped {
        Stopped::Cancelled { because } if because.is_empty() => "it was cancelled".to_owned(),
        Stopped::Cancelled { because } => format!("it was cancelled: {because}"),
        Stopped::Failed { cause, detail } => format!("its {} failed: {detail}", cause.word()),
    }
}
