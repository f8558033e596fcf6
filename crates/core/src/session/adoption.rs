//! One agent belongs to one session: two that watch it would each count its turns and type to it.

use super::{
    launch::{Identity, Launch, LaunchPhase},
    spec::Adopted,
    state::Session,
};

impl Session {
    /// Says whether it has the agent that is to be adopted, by its process or by the conversation that it is in now.
    pub fn has_agent(&self, adopted: &Adopted) -> bool {
        let lives = self.launches.last().is_none_or(Launch::may_live);
        let same_process = adopted.process.is_some() && adopted.process.as_ref() == self.child();
        let same_thread =
            adopted.thread.is_some() && adopted.thread.as_ref() == self.conversation();
        let over = self.attempt().is_sealed() || self.attempt().is_decided();
        lives && !over && (same_process || same_thread)
    }

    /// Gives the process of the agent as far as it is known.
    fn child(&self) -> Option<&Identity> {
        match self.launches.last().map(|launch| &launch.phase) {
            Some(LaunchPhase::Running { child, .. }) => child.as_ref(),
            Some(LaunchPhase::Owed) | None => self.spec.adopted.as_ref()?.process.as_ref(),
            Some(
                LaunchPhase::Ended { .. }
                | LaunchPhase::Unobserved { .. }
                | LaunchPhase::Failed { .. },
            ) => None,
        }
    }

    fn conversation(&self) -> Option<&String> {
        let named = || self.spec.adopted.as_ref().and_then(|adopted| adopted.thread.as_ref());
        self.thread.as_ref().or_else(named)
    }
}
