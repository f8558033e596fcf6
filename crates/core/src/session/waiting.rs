//! Waiting for a person: until the answer really reaches the terminal that asks, and none of it is silence.

use super::{
    launch::TurnState,
    state::{Message, MessageFate, MessageKind, Session},
    watch::Said,
};
use crate::{
    ids::LaunchId,
    request::{Request, RequestKind},
    time::Moment,
};

impl Session {
    /// Says whether a request can be settled at the agent's own screen alone: of what is asked in a terminal only an
    /// approval is known well enough to press a key for it.
    pub fn is_settled_there(&self, request: &Request) -> bool {
        self.spec.agent.driver.has_terminal() && request.asked.kind != RequestKind::Approval
    }

    /// Gives the answer that was given and is not typed yet, while the terminal still asks: until then the agent waits
    /// for a person as before, for whoever is at its screen.
    pub fn waiting_answer(&self) -> Option<&Message> {
        let launch = self.running().filter(|_| self.spec.agent.driver.has_terminal())?;
        let asked = |message: &Message| {
            let request = self.requests.iter().find(|r| Some(r.id) == message.request);
            request.is_some_and(|request| request.launch == launch.id)
        };
        let waits = |m: &&Message| {
            m.kind == MessageKind::Answer && m.fate == MessageFate::Queued && m.typed.is_none()
        };
        let asks = launch.watch.shows() == Some(Said::Asks);
        self.messages.iter().filter(waits).find(|m| asks && asked(m))
    }

    /// The time in which the agent waited for somebody is no silence of its own.
    pub(super) fn end_the_wait(&mut self, was_blocked: bool, at: Moment) {
        let over = was_blocked && !self.is_blocked();
        if let Some(launch) = self.launches.last_mut().filter(|l| over && l.may_live()) {
            launch.stream.heard = at;
            launch.stream.silent = false;
        }
    }

    /// A living program without turns waits for input from the moment that it says so, as an agent does whose turn is
    /// over. It goes on when it reports anything else, or is sent something.
    pub(super) fn set_waits_for_input(&mut self, launch: Option<LaunchId>, waits: bool) {
        let has_turns = self.spec.agent.driver.has_turns();
        let Some(launch) = launch.filter(|_| !has_turns) else { return };
        self.on_launch(launch, |launch| {
            // Of one that somebody else started no turn is known.
            if launch.may_live() && !launch.adopted {
                let open = TurnState::Open { turn: None };
                launch.stream.turn = if waits { TurnState::Over } else { open };
            }
        });
    }
}
