//! The pane of an external agent: whether input can be typed there, and what was typed.
//!
//! A key press in an external pane cannot be made idempotent, so the intent to type is recorded first.
//! Typing that a daemon did not see to its end is not repeated by the next daemon, because the text may
//! already be in the pane.

use serde::{Deserialize, Serialize};

use super::{
    command::SessionRejection,
    event::{Event, MessageDelivered, MessageTyped, PaneSeen},
    launch::Launch,
    state::{AgentMessage, AgentMessageKind, DeliveryStatus, Session},
    typing::UNCONFIRMED,
    watch::{InputBlocked, TypingState},
};
use crate::ids::LaunchId;

/// The observed state of a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaneState {
    /// The agent runs in it, and keys reach the agent.
    Open,
    /// A user scrolls back in it: keys would not reach the agent.
    ScrolledBack,
    /// Another program is in the foreground, usually a shell.
    OtherProgram,
    /// A user has begun to write at the agent's prompt.
    UnsentText,
    /// It is missing, or cannot be observed.
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

type CommandResult = Result<Vec<Event>, SessionRejection>;

impl Session {
    pub(super) fn decide_pane(&self, id: LaunchId, sight: PaneState) -> CommandResult {
        let launch = self.launch(id).ok_or(SessionRejection::UnknownLaunch(id))?;
        let new = launch.adopted && launch.may_be_running() && launch.watch.pane != Some(sight);
        if new {
            Ok(vec![PaneSeen { launch: id, state: sight }.into()])
        } else {
            Err(SessionRejection::NothingNew)
        }
    }

    /// Records that a message is about to be typed into a pane, or was typed. A second attempt is
    /// rejected.
    pub(super) fn decide_typing(&self, id: LaunchId, key: &str, to: TypingState) -> CommandResult {
        let launch = self.launch(id).ok_or(SessionRejection::UnknownLaunch(id))?;
        let queued = |m: &&AgentMessage| m.key == key && m.status == DeliveryStatus::Queued;
        let refused = |why: &'static str| Err(SessionRejection::NothingTyped(why));
        let Some(message) = self.messages.iter().find(queued) else {
            return refused("it is no longer queued");
        };
        let may = launch.adopted && launch.may_be_running() && !self.attempt().is_sealed();
        match (message.typed.map(|typed| typed.state), to) {
            // An untyped message is in no pane, whatever the agent's status.
            (Some(TypingState::Typing), TypingState::Untyped) => {
                Ok(vec![typed_event(message, id, to)])
            }
            _ if !may => refused("its agent is not followed"),
            (None, TypingState::Typing) => match self.input_blocked(launch, message) {
                Some(why) => refused(why.describe()),
                None if message.unconfirmed_reason.is_some() => refused(UNCONFIRMED),
                None => Ok(vec![typed_event(message, id, to)]),
            },
            // An interrupt key is not text that a transcript could confirm: its turn ends, or does not.
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
            _ => refused("it was already typed"),
        }
    }

    /// Returns the reason nothing may be typed into an external agent's pane, if any.
    pub(super) fn pane_block(&self, launch: &Launch) -> Option<InputBlocked> {
        match launch.watch.pane {
            _ if !launch.adopted => None,
            None => Some(InputBlocked::PaneUnobserved),
            Some(PaneState::Open) => None,
            Some(sight) => Some(InputBlocked::Pane(sight)),
        }
    }
}

fn typed_event(message: &AgentMessage, launch: LaunchId, way: TypingState) -> Event {
    MessageTyped { key: message.key.clone(), launch, state: way }.into()
}

/// Returns the reason a message that may have been typed is waiting.
pub(super) fn unconfirmed_reason(way: TypingState) -> Option<String> {
    (way == TypingState::Unconfirmed).then(|| UNCONFIRMED.to_owned())
}
