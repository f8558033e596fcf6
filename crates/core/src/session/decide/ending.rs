//! Requests to stop, dismiss, cancel or resolve the work.

use crate::{
    ids::LaunchId,
    lifecycle::State,
    request::{RequestKind, RequestStatus},
    rules::rules,
    session::{
        command::{ManualOutcome, SessionRejection},
        decide::{CommandResult, if_new},
        event::{
            AttemptCancelled, AttemptResolved, Event, ProcessTreeReaped, RequestSettled,
            SessionDismissed, StopRequested, StreamClosed,
        },
        launch::{Launch, StopReason, StopStep},
        state::Session,
    },
};

/// Closes a launch whose holder reported the end of the process and then exited. Nothing more will
/// be reported about the stream or the process tree.
pub(super) fn close_after_holder_exit(launch: &Launch) -> CommandResult {
    let (id, cursor) = (launch.id, launch.cursor);
    let closed = launch.stream.closed.is_none().then(|| StreamClosed { launch: id, cursor }.into());
    let gone = launch
        .gone
        .is_none()
        .then(|| ProcessTreeReaped { launch: id, leftovers: 0, verified: false }.into());
    if rules().closes_with_holder(launch.is_followed()) {
        Ok(closed.into_iter().chain(gone).collect())
    } else {
        Err(SessionRejection::NothingNew)
    }
}

impl Session {
    /// Whether the operator stopped the process and it has not been resumed since.
    pub fn was_stopped(&self) -> bool {
        self.stop_reason() == Some(StopReason::Operator)
    }

    /// Returns why Provost stopped the process, if it did.
    pub fn stop_reason(&self) -> Option<StopReason> {
        Some(self.current_launch()?.stop?.why)
    }

    pub(in crate::session) fn stop(&self) -> CommandResult {
        let launch = self
            .launches
            .last()
            .filter(|l| l.may_be_running())
            .ok_or(SessionRejection::NotRunning)?;
        match launch.stop {
            _ if launch.adopted => Err(SessionRejection::StopExternally),
            Some(_) => Err(SessionRejection::NothingNew),
            None => {
                let stop = self.stop_launch(launch.id, StopReason::Operator).into();
                Ok(std::iter::once(stop).chain(self.void_approvals()).collect())
            }
        }
    }

    /// Ends a session that was opened for a team, because the team has finished. Sessions that the
    /// user spawned or adopted are kept.
    pub(in crate::session) fn dismiss(&self, because: &str, at_once: bool) -> CommandResult {
        if !self.is_member() || self.spec.adopted.is_some() {
            return Err(SessionRejection::StopExternally);
        }
        let dismissed = SessionDismissed { because: because.to_owned(), at_once };
        if self.launches.last().is_some_and(Launch::may_be_running) {
            return if_new(self.dismissed.is_none(), dismissed);
        }
        // A process that has not started yet will not be started at all.
        if self.attempt().shown.is_terminal() || self.attempt().is_sealed() {
            return Err(SessionRejection::NothingNew);
        }
        let cancelled = self.cancel(because)?;
        Ok(std::iter::once(dismissed.into()).chain(cancelled).collect())
    }

    /// Voids open approval requests, because only the process that is ending could have used the answers.
    pub(in crate::session) fn void_approvals(&self) -> impl Iterator<Item = Event> {
        let approvals = self.open_requests().filter(|r| r.asked.kind == RequestKind::Approval);
        approvals.map(|r| {
            RequestSettled { request: r.id, status: RequestStatus::Void, cursor: None }.into()
        })
    }

    /// Voids the requests of an external agent whose process ended. They existed only on its
    /// screen, and Provost does not resume external agents.
    pub(in crate::session) fn void_screen_requests(
        &self,
        launch: &Launch,
    ) -> impl Iterator<Item = Event> {
        let (id, adopted) = (launch.id, launch.adopted);
        let asked = self.open_requests().filter(move |r| adopted && r.launch == id);
        asked.map(|r| {
            RequestSettled { request: r.id, status: RequestStatus::Void, cursor: None }.into()
        })
    }

    pub(in crate::session) fn stop_launch(
        &self,
        launch: LaunchId,
        why: StopReason,
    ) -> StopRequested {
        let polite = self.spec.agent.interface.takes_instructions();
        let step = if polite { StopStep::Interrupt } else { StopStep::Terminate };
        StopRequested { launch, why, step }
    }

    pub(in crate::session) fn cancel(&self, because: &str) -> CommandResult {
        let attempt = self.attempt();
        if attempt.is_sealed() {
            let state = self.judgement().state;
            // The attempt is already cancelled.
            let (name, ended) = (self.spec.name.clone(), state.as_str());
            let refused = SessionRejection::NothingToCancel { name, state: ended };
            return if state == State::Cancelled { Ok(Vec::new()) } else { Err(refused) };
        }
        if_new(attempt.cancelled.is_none(), AttemptCancelled { because: because.to_owned() })
    }

    pub(in crate::session) fn resolve(&self, to: ManualOutcome, because: &str) -> Vec<Event> {
        let (state, cause) = match to {
            ManualOutcome::Accepted => (State::Accepted, None),
            ManualOutcome::Failed => (State::Failed, None),
            ManualOutcome::Cancelled => (State::Cancelled, None),
        };
        vec![AttemptResolved { state, cause, because: because.to_owned() }.into()]
    }
}
