//! Relaunches within an attempt: after the agent could not be reached, and after it exited at a
//! usage limit.

use super::{
    event::{Event, LaunchRequested, StopRequested},
    launch::{Launch, LaunchPhase, LaunchReason, StopReason, StopStep, StoppedBy},
    state::{AgentMessage, AgentMessageKind, DeliveryStatus, Session},
};
use crate::{ids::LaunchId, limits::MAX_RELAUNCHES};

// Relaunching an agent that could not be reached.
impl Session {
    /// Whether a launch that failed before the agent responded is about to be repeated.
    pub(super) fn is_relaunching(&self) -> bool {
        self.unanswered_launch().is_some()
    }

    /// Repeats a launch that failed before the agent responded, once its process tree is gone.
    pub(super) fn relaunch(&self) -> Option<Event> {
        let launch = self.unanswered_launch()?;
        if launch.may_be_stopped() {
            let (launch, why) = (launch.id, StopReason::Unreachable);
            return Some(StopRequested { launch, why, step: StopStep::Terminate }.into());
        }
        let gone = !launch.may_be_running() && !launch.is_followed();
        gone.then(|| {
            LaunchRequested { launch: self.next_launch(), why: LaunchReason::Retry }.into()
        })
    }

    /// Returns the launch that failed before the agent responded, if it may be repeated. If the
    /// agent did respond, even with a rejection, it would do the same again. If it crashed during a
    /// conversation, that conversation is resumed instead.
    fn unanswered_launch(&self) -> Option<&Launch> {
        if !self.spec.agent.interface.has_handshake() {
            return None;
        }
        let launch = self.current_launch()?;
        let died = match launch.phase {
            LaunchPhase::Ended { by, .. } => by == StoppedBy::Itself,
            LaunchPhase::Unobserved { .. } => true,
            LaunchPhase::Pending | LaunchPhase::Running { .. } | LaunchPhase::Failed { .. } => {
                false
            }
        };
        let died = died && launch.stream.refused.is_none() && self.conversation.thread.is_none();
        let failed = !launch.stream.ready && (died || launch.stream.unreachable);
        let ours = launch.stop.is_none_or(|stop| {
            stop.why == StopReason::Unreachable && stop.step != StopStep::GivenUp
        });
        let attempt = self.attempt();
        let may = attempt.relaunches < MAX_RELAUNCHES && !attempt.is_decided();
        (failed && ours && may && !launch.adopted).then_some(launch)
    }
}

// Resuming one-shot work that exited at a usage limit.
impl Session {
    /// Whether one-shot work exited at a usage limit. A new process resumes its conversation once
    /// the limit has passed.
    pub fn is_paused_at_limit(&self) -> bool {
        let exited = |launch: &Launch| {
            let by_itself =
                matches!(launch.phase, LaunchPhase::Ended { by: StoppedBy::Itself, .. });
            by_itself && launch.stop.is_none()
        };
        let attempt = self.attempt();
        self.spec.agent.interface.is_one_shot()
            && self.current_launch().is_some_and(exited)
            && (self.spending.limited.is_some() || self.resume_message().is_some())
            && self.conversation.thread.is_some()
            && self.spec.agent.interface.can_resume()
            && !attempt.is_sealed()
            && self.may_continue_work()
            && !self.is_handing_over()
    }

    pub(super) fn resume_after_limit(&self) -> Option<Event> {
        let gone = !self.current_launch()?.is_followed();
        let due = self.is_paused_at_limit() && self.spending.limited.is_none() && gone;
        due.then(|| LaunchRequested { launch: self.next_launch(), why: LaunchReason::Limit }.into())
    }

    /// Returns the input of a one-shot process.
    pub fn one_shot_text(&self) -> &str {
        let resumption = self.resume_message().map(|message| message.text.as_str());
        resumption.or(self.attempt().instruction.as_deref()).unwrap_or_default()
    }

    /// Marks the input of a one-shot process as delivered, because the process receives it when it starts.
    pub(super) fn settle_resume_message(&mut self, launch: LaunchId) {
        if let Some(key) = self.resume_message().map(|message| message.key.clone()) {
            self.settle_message(&key, DeliveryStatus::Delivered { launch });
        }
    }

    /// Returns the message that the next one-shot process receives instead of the instruction.
    fn resume_message(&self) -> Option<&AgentMessage> {
        if !self.spec.agent.interface.is_one_shot() {
            return None;
        }
        self.input.messages.iter().find(|m| {
            m.kind == AgentMessageKind::Continue
                && m.status == DeliveryStatus::Queued
                && m.attempt == self.attempt().no
        })
    }
}
