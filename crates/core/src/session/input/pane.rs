//! The pane of an external agent: whether input can be typed there, and what has been typed.
//!
//! Key presses in an external pane cannot be made idempotent, so the intent to type is recorded
//! first. If a daemon exits before it has finished typing, the next daemon does not repeat it,
//! because the text may already be in the pane.

use serde::{Deserialize, Serialize};

use crate::{
    ids::LaunchId,
    session::{
        command::SessionRejection,
        decide::CommandResult,
        event::{Event, MessageDelivered, MessageTyped, PaneSeen},
        input::{
            typed::{InputBlocked, TypingState},
            typing::UNCONFIRMED,
        },
        launch::Launch,
        state::{AgentMessage, AgentMessageKind, DeliveryStatus, Session},
    },
};

/// The observed state of a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaneState {
    /// The agent is running in the pane and receives the keys typed there.
    Open,
    /// A user is scrolling back in the pane, so typed keys would not reach the agent.
    ScrolledBack,
    /// Another program is in the foreground, usually a shell.
    OtherProgram,
    /// A user has started to write at the agent's prompt.
    UnsentText,
    /// The pane is missing or cannot be observed.
    Gone,
}

impl PaneState {
    pub fn describe(self) -> &'static str {
        match self {
            PaneState::Open => "the agent is in the foreground of its pane",
            PaneState::ScrolledBack => "a user is scrolling back in its pane",
            PaneState::OtherProgram => "another program is in the foreground of its pane",
            PaneState::UnsentText => "a user has begun to write at its prompt",
            PaneState::Gone => "its pane cannot be observed",
        }
    }
}

impl Session {
    pub(in crate::session) fn decide_pane(&self, id: LaunchId, sight: PaneState) -> CommandResult {
        let launch = self.launch(id).ok_or(SessionRejection::UnknownLaunch(id))?;
        let new = launch.adopted && launch.may_be_running() && launch.watch.pane != Some(sight);
        if new {
            Ok(vec![PaneSeen { launch: id, state: sight }.into()])
        } else {
            Err(SessionRejection::NothingNew)
        }
    }

    /// Records that a message is about to be typed into a pane, or has been typed. A second attempt
    /// to type it is rejected.
    pub(in crate::session) fn decide_typing(
        &self,
        id: LaunchId,
        key: &str,
        to: TypingState,
    ) -> CommandResult {
        let launch = self.launch(id).ok_or(SessionRejection::UnknownLaunch(id))?;
        let queued = |m: &&AgentMessage| m.key == key && m.status == DeliveryStatus::Queued;
        let refused = |why: &'static str| Err(SessionRejection::NothingTyped(why));
        let Some(message) = self.input.messages.iter().find(queued) else {
            return refused("the message is no longer queued");
        };
        let may = launch.adopted && launch.may_be_running() && !self.attempt().is_sealed();
        match (message.typed.map(|typed| typed.state), to) {
            // If nothing was typed, the pane does not contain the message, regardless of the
            // agent's status.
            (Some(TypingState::Typing), TypingState::Untyped) => {
                Ok(vec![typed_event(message, id, to)])
            }
            _ if !may => refused("Provost is not connected to the agent"),
            (None, TypingState::Typing) => match self.input_blocked(launch, message) {
                Some(why) => refused(why.describe()),
                None if message.unconfirmed_reason.is_some() => refused(UNCONFIRMED),
                None => Ok(vec![typed_event(message, id, to)]),
            },
            // A transcript never confirms an interrupt key: the turn either ends or it does not.
            (Some(TypingState::Typing), TypingState::Typed)
                if message.kind == AgentMessageKind::Interrupt =>
            {
                let delivered = MessageDelivered { key: message.key.clone(), launch: id };
                Ok(vec![typed_event(message, id, to), delivered.into()])
            }
            (Some(TypingState::Typing), TypingState::Typed)
            | (Some(TypingState::RetryEnter), TypingState::Pressing)
            | (Some(TypingState::Pressing), TypingState::Pressed)
            | (
                Some(
                    TypingState::Typing
                    | TypingState::Typed
                    | TypingState::RetryEnter
                    | TypingState::Pressing,
                ),
                TypingState::Unconfirmed,
            ) => Ok(vec![typed_event(message, id, to)]),
            _ => refused("the message was already typed"),
        }
    }

    /// Returns the reason why nothing can be typed into an external agent's pane, if there is one.
    pub(in crate::session) fn pane_block(&self, launch: &Launch) -> Option<InputBlocked> {
        match launch.watch.pane {
            _ if !launch.adopted => None,
            None => Some(InputBlocked::PaneUnobserved),
            Some(PaneState::Open) => None,
            Some(sight) => Some(InputBlocked::Pane(sight)),
        }
    }
}

fn typed_event(message: &AgentMessage, launch: LaunchId, state: TypingState) -> Event {
    MessageTyped { key: message.key.clone(), launch, state }.into()
}

/// Returns why a message that may have been typed is still waiting.
pub(in crate::session) fn unconfirmed_reason(state: TypingState) -> Option<String> {
    (state == TypingState::Unconfirmed).then(|| UNCONFIRMED.to_owned())
}
