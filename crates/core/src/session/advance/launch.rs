//! Launches, resumes and the deadlines of a connection.

use crate::{
    lifecycle::{Activity, ClaimKind, State, StopCause},
    request::RequestKind,
    session::{
        effect::DeadlineKind,
        event::{AttemptStopped, Event, LaunchRequested, MessageLost, StreamSettled},
        launch::{Launch, LaunchPhase, LaunchReason, ProcessExit, StopStep, StoppedBy, TurnState},
        state::{AgentMessage, DeliveryStatus, Session, SetupState, WorkState},
    },
    time::Moment,
};

impl Session {
    pub(in crate::session) fn fail_launch(&self) -> Option<Event> {
        let reason = match (
            &self.worktree.state,
            &self.worktree.setup,
            self.current_launch().map(|l| &l.phase),
        ) {
            (WorkState::Failed { reason }, _, _) => reason.as_str(),
            (_, SetupState::Failed { reason }, _) => reason,
            // A launch that the user stopped before it ran did not fail to start.
            (_, _, Some(LaunchPhase::Failed { .. })) if self.ended_on_request() => return None,
            (_, _, Some(LaunchPhase::Failed { reason })) => reason,
            (_, _, Some(_)) if self.launch_refusal().is_some() => {
                self.launch_refusal().unwrap_or_default()
            }
            (WorkState::Removed, _, None) => "its worktree was removed",
            (_, _, None) if self.has_unkillable_process() => {
                "its previous process could not be killed"
            }
            _ => return None,
        };
        let stopped = AttemptStopped { cause: StopCause::Launch, detail: reason.to_owned() };
        (!self.attempt().is_decided()).then(|| stopped.into())
    }

    /// Stops an attempt whose process can be neither reached nor killed, because it would otherwise
    /// never end.
    pub(in crate::session) fn fail_unkillable_process(&self) -> Option<Event> {
        let stop = self.current_launch()?.stop?;
        let stuck = matches!(self.attempt().shown, State::Idle | State::Rework);
        let detail = "its process could not be killed".to_owned();
        (stop.step == StopStep::GivenUp && stuck)
            .then(|| AttemptStopped { cause: StopCause::Launch, detail }.into())
    }

    pub(in crate::session) fn request_launch(&self) -> Option<Event> {
        let ready = matches!(self.worktree.state, WorkState::Ready { .. })
            && matches!(self.worktree.setup, SetupState::NotNeeded | SetupState::Done);
        let served =
            self.current_launch().is_some() || self.launches.iter().any(Launch::may_be_running);
        if !ready || served || self.attempt().is_decided() {
            return None;
        }
        let why =
            if self.launches.is_empty() { LaunchReason::First } else { LaunchReason::Instruction };
        Some(LaunchRequested { launch: self.next_launch(), why }.into())
    }

    fn launch_refusal(&self) -> Option<&str> {
        if self.is_relaunching() {
            return None;
        }
        self.current_launch()?.stream.refused.as_deref()
    }

    /// Resumes an agent that crashed while working. The new process starts once the old process
    /// tree is gone.
    pub(in crate::session) fn resume_after_crash(&self) -> Option<Event> {
        // If a launch is no longer followed, its processes are gone.
        self.crashed_launch().filter(|launch| !launch.is_followed())?;
        // Open approvals are void, because only the dead process could have used them. A question
        // can still be answered, and the answer resumes the work.
        let void = self.void_approvals().next().or_else(|| self.drop_undelivered_approval());
        let resume =
            || LaunchRequested { launch: self.next_launch(), why: LaunchReason::Crash }.into();
        Some(void.unwrap_or_else(resume))
    }

    /// Drops the undelivered answer to an approval request, because only the process that made the
    /// request could use it.
    fn drop_undelivered_approval(&self) -> Option<Event> {
        let approves = |message: &&AgentMessage| {
            let request = self.requests.iter().find(|r| Some(r.id) == message.request);
            message.status == DeliveryStatus::Queued
                && request.is_some_and(|r| r.asked.kind == RequestKind::Approval)
        };
        let key = self.input.messages.iter().find(approves)?.key.clone();
        Some(MessageLost { key, reason: "the process that asked has ended".to_owned() }.into())
    }

    /// Returns the launch that crashed while working, if it may be resumed. The number of resumes
    /// is limited.
    pub(in crate::session) fn crashed_launch(&self) -> Option<&Launch> {
        let launch = self.current_launch()?;
        let crashed = match &launch.phase {
            LaunchPhase::Ended { end, by, .. } => {
                *by == StoppedBy::Itself && *end != ProcessExit::Exit(0)
            }
            LaunchPhase::Unobserved { .. } => true,
            LaunchPhase::Pending | LaunchPhase::Running { .. } | LaunchPhase::Failed { .. } => {
                false
            }
        };
        // An idle team member has nothing to resume. It wakes up when it receives its next message.
        let waits =
            self.input.messages.iter().any(|message| message.status == DeliveryStatus::Queued);
        // An interrupted agent has nothing to resume, because the user decides how it continues.
        let idles = self.is_member() || self.attempt().awaits_user;
        let rests = idles && launch.stream.turn == TurnState::Over && !waits;
        let claimed = matches!(self.claim(), ClaimKind::Completed | ClaimKind::Failed);
        let at_work = !claimed && !rests;
        let resumable =
            self.spec.agent.interface.resumes_after_crash() && self.conversation.thread.is_some();
        let bounded = self.attempt().resumes < self.spec.bounds.resumes;
        let undecided = launch.stop.is_none() && !self.attempt().is_decided();
        (crashed && at_work && resumable && bounded && undecided).then_some(launch)
    }

    pub(in crate::session) fn handshake_deadline(&self) -> Option<(u64, DeadlineKind)> {
        let launch = self.handshaking_launch()?;
        // Time without a running daemon does not count, because no one could have responded to the agent.
        let since = launch.followed.unwrap_or(launch.requested_at);
        Some((since.deadline(self.spec.bounds.handshake_ms), DeadlineKind::Handshake))
    }

    /// Returns the running launch if it has not reported its conversation yet.
    pub(in crate::session) fn handshaking_launch(&self) -> Option<&Launch> {
        if !self.spec.agent.interface.has_handshake() {
            return None;
        }
        let launch = self.current_launch()?;
        let waiting = matches!(launch.phase, LaunchPhase::Running { .. })
            && !launch.stream.ready
            && launch.stop.is_none()
            && !self.attempt().is_decided();
        waiting.then_some(launch)
    }

    pub(in crate::session) fn fail_handshake(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.handshake_deadline()?;
        let detail = "the agent did not report its conversation in time".to_owned();
        (now.mono_ms >= at).then(|| AttemptStopped { cause: StopCause::Launch, detail }.into())
    }

    /// Whether a process remains that cannot be killed. No other process is started next to it.
    fn has_unkillable_process(&self) -> bool {
        self.launches.iter().any(Launch::is_stop_abandoned)
    }

    pub(in crate::session) fn settle_stream(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.stream_settle_deadline()?;
        let launch = self.current_launch()?.id;
        (now.mono_ms >= at).then(|| StreamSettled { launch }.into())
    }

    pub(in crate::session) fn stream_settle_deadline(&self) -> Option<(u64, DeadlineKind)> {
        let launch = self.current_launch().filter(|launch| launch.may_be_running())?;
        let at = launch.stream.closed?.deadline(self.spec.bounds.stream_settle_ms);
        (!launch.stream.settled).then_some((at, DeadlineKind::StreamSettle))
    }

    pub(in crate::session) fn silence_deadline(&self) -> Option<(u64, DeadlineKind)> {
        let launch = self.current_launch()?;
        let listening = launch.activity() == Activity::Active
            && matches!(launch.phase, LaunchPhase::Running { .. })
            && self.spending.limited.is_none()
            && !launch.watch.suspended
            && !self.is_blocked();
        let at = launch.stream.last_heard.deadline(self.spec.bounds.stale_ms);
        listening.then_some((at, DeadlineKind::Silence(launch.id)))
    }
}
