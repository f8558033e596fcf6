//! A member whose session was there before is told its part in a message: it began with something else.

use super::{
    advance::Step,
    command_line::{Caller, Commands},
    event::*,
    member::{Actor, Member},
    message::{Address, Kind, Message, Priority, Trust},
    prompts::{Via, contract},
    state::Task,
};

/// What stands before the member's name in the key of such a message.
const KEY: &str = "handoff-";

/// Gives the member that a message tells its part.
pub(super) fn handed_to(stored: &MessageStored) -> Option<&str> {
    told_to(&stored.from, stored.kind, &stored.key)
}

/// Says whether a message tells a member its part.
pub(super) fn hands_over(message: &Message) -> bool {
    told_to(&message.from, message.kind, &message.key).is_some()
}

fn told_to<'k>(from: &Actor, kind: Kind, key: &'k str) -> Option<&'k str> {
    let of_provost = *from == Actor::Provost && kind == Kind::Instruction;
    key.strip_prefix(KEY).filter(|_| of_provost)
}

/// What stands before the names in the key of what a member has to know that takes another's place.
const HANDOVER: &str = "handover-";

/// Gives the key of what a member has to know that takes another's place.
pub(super) fn handover_key(from: &str, to: &str) -> String {
    format!("{HANDOVER}{from}-{to}")
}

/// Says whether a message is to be read before all others, also before those that waited for who was there before: it
/// says what they are about.
pub(super) fn tells_first(message: &Message) -> bool {
    // Only the operator lets somebody take another's place.
    let of_operator = message.from == Actor::Operator && message.kind == Kind::Note;
    hands_over(message) || (of_operator && message.key.starts_with(HANDOVER))
}

impl Task {
    /// Tells members their part that were bound in the middle of their conversation, each once.
    pub(super) fn hand_over(&self, caller: &Caller) -> Option<Step> {
        let untold = self.members.iter().filter(|member| member.is_to_be_told());
        let handed = untold.zip(self.messages_stored + 1..);
        let told: Vec<Event> = handed.map(|(member, no)| self.handed(member, no, caller)).collect();
        (!told.is_empty()).then_some(Step::Events(told))
    }

    fn handed(&self, member: &Member, no: u32, caller: &Caller) -> Event {
        let commands = Commands { caller, task: self, by: Some(&member.name) };
        let key = format!("{KEY}{}", member.name);
        let to = Address::Member(member.name.clone());
        let text = contract(&commands, member, Via::of(member));
        MessageStored {
            trust: Trust::Instructs,
            kind: Kind::Instruction,
            priority: Priority::High,
            ..MessageStored::by_rule(no, key, to, text)
        }
        .into()
    }
}
