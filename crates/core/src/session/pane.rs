//! The pane of an external agent: whether input can be typed there, and what was typed.
//!
//! A key press in an external pane cannot be made idempotent, so the intent to type is recorded first.
//! Typing that a daemon did not see to its end is not repeated by the next daemon, because the text may
//! already be in the pane.

use serde::{Deserialize, Serialize};

use super::{
    command::Rejected,
    event::{Event, MessageDelivered, MessageTyped, PaneSeen},
    launch::Launch,
    state::{Message, MessageFate, MessageKind, Session},
    typing::DOUBTED,
    watch::{HeldBack, Way},
};
use crate::ids::LaunchId;

/// The observed state of a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaneSight {
    /// The agent runs in it, and keys reach the agent.
    Open,
    /// A user scrolls back in it: keys would not reach the agent.
    Browsed,
    /// Another program is in the foreground, usually a shell.
    Taken,
    /// A user has begun to write at the agent's prompt.
    Drafted,
    /// It is missing, or cannot be observed.
    Gone,
}

impl PaneSight {
    pub fn word(self) -> &'static str {
        match self {
            PaneSight::Open => "the agent is in the foreground of its pane",
            PaneSight::Browsed => "a user is scrolling back in its pane",
            PaneSight::Taken => "another program is in the foreground of its pane",
            PaneSight::Drafted => "a user has begun to write at its prompt",
            PaneSight::Gone => "its pane cannot be observed",
        }
    }
}

type Decision = Result<Vec<Event>, Rejected>;

impl Session {
    pub(super) fn pane_seen(&self, id: LaunchId, sight: PaneSight) -> Decision {
        let launch = self.launch(id).ok_or(Rejected::UnknownLaunch(id))?;
        let new = launch.adopted && launch.may_live() && launch.watch.pane != Some(sight);
        if new { Ok(vec![PaneSeen { launch: id, sight }.into()]) } else { Err(Rejected::Nothing) }
    }

    /// Records that a message is about to be typed into a pane, or was typed. A second attempt is
    /// rejected.
    pub(super) fn keyed(&self, id: LaunchId, key: &str, to: Way) -> Decision {
        let launch = self.launch(id).ok_or(Rejected::UnknownLaunch(id))?;
        let queued = |m: &&Message| m.key == key && m.fate == MessageFate::Queued;
        let refused = |why: &'static str| Err(Rejected::NothingTyped(why));
        let Some(message) = self.messages.iter().find(queued) else {
            return refused("it is no longer queued");
        };
        let may = launch.adopted && launch.may_live() && !self.attempt().is_sealed();
        match (message.typed.map(|typed| typed.way), to) {
            // An untyped message is in no pane, whatever the agent's status.
            (Some(Way::Typing), Way::Untyped) => Ok(vec![typed(message, id, to)]),
            _ if !may => refused("its agent is not followed"),
            (None, Way::Typing) => match self.held_back(launch, message) {
                Some(why) => refused(why.word()),
                None if message.unproved.is_some() => refused(DOUBTED),
                None => Ok(vec![typed(message, id, to)]),
            },
            // An interrupt key is not text that a transcript could confirm: its turn ends, or does not.
            (Some(Way::Typing), Way::Keys) if message.kind == MessageKind::Interrupt => {
                let delivered = MessageDelivered { key: message.key.clone(), launch: id };
                Ok(vec![typed(message, id, to), delivered.into()])
            }
            (Some(Way::Typing), Way::Keys)
            | (Some(Way::Again), Way::Pressing)
            | (Some(Way::Pressing), Way::Pressed)
            | (Some(Way::Typing | Way::Keys | Way::Again | Way::Pressing), Way::Doubted) => {
                Ok(vec![typed(message, id, to)])
            }
            _ => refused("it was already typed"),
        }
    }

    /// Returns the reason nothing may be typed into an external agent's pane, if any.
    pub(super) fn pane_holds_back(&self, launch: &Launch) -> Option<HeldBack> {
        match launch.watch.pane {
            _ if !launch.adopted => None,
            None => Some(HeldBack::PaneUnseen),
            Some(PaneSight::Open) => None,
            Some(sight) => Some(HeldBack::Pane(sight)),
        }
    }
}

fn typed(message: &Message, launch: LaunchId, way: Way) -> Event {
    MessageTyped { key: message.key.clone(), launch, way }.into()
}

/// Returns the reason a message that may have been typed is waiting.
pub(super) fn why_it_waits(way: Way) -> Option<String> {
    (way == Way::Doubted).then(|| DOUBTED.to_owned())
}
