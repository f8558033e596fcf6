//! Onboarding: a member whose session existed before it was bound receives its contract in a
//! message.

use super::{
    advance::Step,
    command_line::{Caller, Commands},
    event::*,
    member::{Actor, Member},
    message::{Address, Kind, Message, Priority, Trust},
    prompts::{Via, contract},
    state::Task,
};

/// The key prefix of an onboarding message, before the member's name.
const KEY: &str = "handoff-";

/// Returns the member that an onboarding message is for.
pub(super) fn handed_to(stored: &MessageStored) -> Option<&str> {
    told_to(&stored.from, stored.kind, &stored.key)
}

/// Whether a message is an onboarding message.
pub(super) fn hands_over(message: &Message) -> bool {
    told_to(&message.from, message.kind, &message.key).is_some()
}

fn told_to<'k>(from: &Actor, kind: Kind, key: &'k str) -> Option<&'k str> {
    let of_provost = *from == Actor::Provost && kind == Kind::Instruction;
    if of_provost { key.strip_prefix(KEY) } else { None }
}

/// The key prefix of a handover to a successor, before the names.
const HANDOVER: &str = "handover-";

/// Returns the key of a handover to a successor.
pub(super) fn handover_key(from: &str, to: &str) -> String {
    format!("{HANDOVER}{from}-{to}")
}

/// Whether a message is delivered before all others, including those inherited from the
/// predecessor: it explains what they are about.
pub(super) fn tells_first(message: &Message) -> bool {
    // Only the operator can rotate a member.
    let of_operator = message.from == Actor::Operator && message.kind == Kind::Note;
    hands_over(message) || (of_operator && message.key.starts_with(HANDOVER))
}

impl Task {
    /// Sends onboarding messages to members that were bound in the middle of their conversation,
    /// each once.
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
