//! Relaunches within an attempt: if the agent was never reached, and if it exited at a usage limit.

use super::{
    event::{Event, LaunchOwed, StopAsked},
    launch::{EndedBy, Launch, LaunchPhase, LaunchWhy, StopStep, StopWhy},
    spec::Driver,
    state::{Message, MessageFate, MessageKind, Session},
};
use crate::{ids::LaunchId, limits::MAX_RELAUNCHES};

// The agent was never reached.
impl Session {
    /// Whether a launch that failed before the agent responded is about to be repeated.
    pub(super) fn is_relaunching(&self) -> bool {
        self.unanswered().is_some()
    }

    /// Repeats a launch that failed before the agent responded, once its process tree is gone.
    pub(super) fn relaunch(&self) -> Option<Event> {
        let launch = self.unanswered()?;
        if launch.may_be_ended() {
            let (launch, why) = (launch.id, StopWhy::Unreachable);
            return Some(StopAsked { launch, why, step: StopStep::Terminate }.into());
        }
        let gone = !launch.may_live() && !launch.is_followed();
        gone.then(|| LaunchOwed { launch: self.next_launch(), why: LaunchWhy::Retry }.into())
    }

    /// Returns the launch that failed before the agent responded, if it may be repeated. An agent that
    /// responded, even with a rejection, would do the same again. One that crashed with a conversation
    /// is resumed instead.
    fn unanswered(&self) -> Option<&Launch> {
        if !self.spec.agent.driver.shakes_hands() {
            return None;
        }
        let launch = self.current_launch()?;
        let died = match launch.phase {
            LaunchPhase::Ended { by, .. } => by == EndedBy::Itself,
            LaunchPhase::Unobserved { .. } => true,
            LaunchPhase::Owed | LaunchPhase::Running { .. } | LaunchPhase::Failed { .. } => false,
        };
        let died = died && launch.stream.refused.is_none() && self.thread.is_none();
        let failed = !launch.stream.ready && (died || launch.stream.unreachable);
        let ours = launch
            .stop
            .is_none_or(|stop| stop.why == StopWhy::Unreachable && stop.step != StopStep::GivenUp);
        let attempt = self.attempt();
        let may = attempt.relaunches < MAX_RELAUNCHES && !attempt.is_decided();
        (failed && ours && may && !launch.adopted).then_some(launch)
    }
}

// One-shot work exited at a usage limit.
impl Session {
    /// Whether one-shot work exited at a usage limit: a new process resumes its conversation when the limit has passed.
    pub fn is_paused(&self) -> bool {
        let exited = |launch: &Launch| {
            let by_itself = matches!(launch.phase, LaunchPhase::Ended { by: EndedBy::Itself, .. });
            by_itself && launch.stop.is_none()
        };
        let attempt = self.attempt();
        self.spec.agent.driver == Driver::CodexExec
            && self.current_launch().is_some_and(exited)
            && (self.limited.is_some() || self.resumption().is_some())
            && self.thread.is_some()
            && !attempt.is_sealed()
            && self.may_use_more()
            && !self.is_handing_over()
    }

    pub(super) fn resume_after_limit(&self) -> Option<Event> {
        let gone = !self.current_launch()?.is_followed();
        let due = self.is_paused() && self.limited.is_none() && gone;
        due.then(|| LaunchOwed { launch: self.next_launch(), why: LaunchWhy::Limit }.into())
    }

    /// Returns the input of a one-shot process.
    pub fn one_shot_text(&self) -> &str {
        let resumption = self.resumption().map(|message| message.text.as_str());
        resumption.or(self.attempt().instruction.as_deref()).unwrap_or_default()
    }

    /// Marks the input of a one-shot process as delivered, because it has it from the start.
    pub(super) fn begin_with_resumption(&mut self, launch: LaunchId) {
        if let Some(key) = self.resumption().map(|message| message.key.clone()) {
            self.settle_message(&key, MessageFate::Delivered { launch });
        }
    }

    /// Returns the message that the next one-shot process gets instead of the instruction.
    fn resumption(&self) -> Option<&Message> {
        if self.spec.agent.driver != Driver::CodexExec {
            return None;
        }
        self.messages.iter().find(|m| {
            m.kind == MessageKind::Continue
                && m.fate == MessageFate::Queued
                && m.attempt == self.attempt().no
        })
    }
}
