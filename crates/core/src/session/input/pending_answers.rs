//! Waiting for an answer. The wait ends when the answer reaches the terminal that shows the
//! request, and does not count as silence.

use crate::{
    ids::LaunchId,
    request::{Request, RequestKind},
    session::{
        input::signals::SignalKind,
        launch::TurnState,
        state::{AgentMessage, AgentMessageKind, DeliveryStatus, Session},
    },
    time::Moment,
};

impl Session {
    /// Whether a request can be settled only at the agent's own screen. In a terminal, only
    /// approval requests are understood well enough to answer them with a key press.
    pub fn is_screen_only(&self, request: &Request) -> bool {
        self.spec.agent.interface.has_terminal() && request.asked.kind != RequestKind::Approval
    }

    /// Returns the answer that has not been typed yet while the terminal still shows the request.
    /// Until it is typed, the agent keeps waiting for a user at its screen.
    pub fn untyped_answer(&self) -> Option<&AgentMessage> {
        if !self.spec.agent.interface.has_terminal() {
            return None;
        }
        let launch = self.running_launch()?;
        let asked = |message: &AgentMessage| {
            let request = self.requests.iter().find(|r| Some(r.id) == message.request);
            request.is_some_and(|request| request.launch == launch.id)
        };
        let waits = |m: &&AgentMessage| {
            m.kind == AgentMessageKind::Answer
                && m.status == DeliveryStatus::Queued
                && m.typed.is_none()
        };
        let asks = launch.watch.shown_signal() == Some(SignalKind::Asks);
        self.input.messages.iter().filter(waits).find(|m| asks && asked(m))
    }

    /// Restarts the silence window, because time spent waiting for an answer does not count as the
    /// agent's silence.
    pub(in crate::session) fn restart_silence_window(&mut self, was_blocked: bool, at: Moment) {
        let over = was_blocked && !self.is_blocked();
        if let Some(launch) = self.launches.last_mut().filter(|l| over && l.may_be_running()) {
            launch.stream.last_heard = at;
            launch.stream.silent = false;
        }
    }

    /// Marks a running program without turns as waiting for input, like an agent whose turn is
    /// over. The program becomes active again when it reports anything else or receives a message.
    pub(in crate::session) fn set_awaits_input(&mut self, launch: Option<LaunchId>, waits: bool) {
        if self.spec.agent.interface.has_turns() {
            return;
        }
        let Some(launch) = launch else { return };
        self.update_launch(launch, |launch| {
            // The turns of an adopted agent are unknown.
            if launch.may_be_running() && !launch.adopted {
                let open = TurnState::Open { turn: None };
                launch.stream.turn = if waits { TurnState::Over } else { open };
            }
        });
    }
}
