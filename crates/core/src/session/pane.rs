//! The pane of an agent that somebody else started: whether it is a place to type into, and what was typed there.
//!
//! Nothing keeps a key from being pressed twice in somebody else's pane, so what is about to be typed is recorded
//! before. What a daemon did not see to its end is not typed again by the next one: nobody knows whether it stands
//! there.

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

/// What is seen of a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaneSight {
    /// The agent has it, and keys reach the agent.
    Open,
    /// Somebody looks back in it: keys would not reach the agent.
    Browsed,
    /// Another program is in front of it, a shell as a rule.
    Taken,
    /// Somebody has begun to write at the agent's prompt.
    Drafted,
    /// It is not there, or cannot be looked at.
    Gone,
}

impl PaneSight {
    pub fn word(self) -> &'static str {
        match self {
            PaneSight::Open => "the agent has its pane",
            PaneSight::Browsed => "somebody looks back in its pane",
            PaneSight::Taken => "another program than the agent has its pane",
            PaneSight::Drafted => "somebody has begun to write at its prompt",
            PaneSight::Gone => "its pane is not to be seen",
        }
    }
}

type Decision = Result<Vec<Event>, Rejected>;

impl Session {
    pub(super) fn pane_seen(&self, id: LaunchId, sight: PaneSight) -> Decision {
        let launch = self.launch(id).ok_or(Rejected::UnknownLaunch(id))?;
        let new = launch.adopted && launch.may_live() && launch.watch.pane != Some(sight);
        match new {
            true => Ok(vec![PaneSeen { launch: id, sight }.into()]),
            false => Err(Rejected::Nothing),
        }
    }

    /// Takes that a message is about to be typed into a pane, or was. It is refused to whoever comes second.
    pub(super) fn keyed(&self, id: LaunchId, key: &str, to: Way) -> Decision {
        let launch = self.launch(id).ok_or(Rejected::UnknownLaunch(id))?;
        let queued = |m: &&Message| m.key == key && m.fate == MessageFate::Queued;
        let refused = |why: &'static str| Err(Rejected::NothingTyped(why));
        let Some(message) = self.messages.iter().find(queued) else {
            return refused("nobody waits for it");
        };
        let may = launch.adopted && launch.may_live() && !self.attempt().is_sealed();
        match (message.typed.map(|typed| typed.way), to) {
            // What was not typed is known to be nowhere, whatever became of the agent.
            (Some(Way::Typing), Way::Untyped) => Ok(vec![typed(message, id, to)]),
            _ if !may => refused("it is not followed"),
            (None, Way::Typing) => match self.held_back(launch, message) {
                Some(why) => refused(why.word()),
                None if message.unproved.is_some() => refused(DOUBTED),
                None => Ok(vec![typed(message, id, to)]),
            },
            // A key that interrupts is no text that the agent could be seen to take: its turn ends, or does not.
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
            _ => refused("it was typed before"),
        }
    }

    /// Gives why nothing is typed into a launch's pane, if it has one and is somebody else's.
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

/// Says why a message waits that may have been typed.
pub(super) fn why_it_waits(way: Way) -> Option<String> {
    (way == Way::Doubted).then(|| DOUBTED.to_owned())
}
