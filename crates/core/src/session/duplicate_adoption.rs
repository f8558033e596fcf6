//! Detects that an agent already belongs to a session. If two sessions watched the same agent, both
//! would count its turns and type into its terminal.

use super::{
    launch::{Launch, LaunchPhase, ProcessIdentity},
    spec::ExternalAgent,
    state::Session,
};

impl Session {
    /// Whether the agent to be adopted already belongs to this session. It is recognized by its
    /// process or its current conversation.
    pub fn has_agent(&self, adopted: &ExternalAgent) -> bool {
        let lives = self.launches.last().is_none_or(Launch::may_be_running);
        let same_process =
            adopted.process.is_some() && adopted.process.as_ref() == self.agent_process();
        let same_thread =
            adopted.thread.is_some() && adopted.thread.as_ref() == self.current_thread();
        let over = self.attempt().is_sealed() || self.attempt().is_decided();
        lives && !over && (same_process || same_thread)
    }

    /// Returns the agent's process, if it is known.
    fn agent_process(&self) -> Option<&ProcessIdentity> {
        match self.launches.last().map(|launch| &launch.phase) {
            Some(LaunchPhase::Running { child, .. }) => child.as_ref(),
            Some(LaunchPhase::Pending) | None => self.spec.adopted.as_ref()?.process.as_ref(),
            Some(
                LaunchPhase::Ended { .. }
                | LaunchPhase::Unobserved { .. }
                | LaunchPhase::Failed { .. },
            ) => None,
        }
    }

    fn current_thread(&self) -> Option<&String> {
        let named = || self.spec.adopted.as_ref().and_then(|adopted| adopted.thread.as_ref());
        self.conversation.thread.as_ref().or_else(named)
    }
}
