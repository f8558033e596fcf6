//! Onboarding: if a member's session existed before the member was bound, the session receives the member's contract in
//! a message.

use super::{
    advance::TeamStep,
    command_line::{ProvostInvocation, TeamCommandLines},
    event::*,
    member::{TeamActor, TeamMember},
    message::{MessageTrust, Priority, Recipient, TeamMessage, TeamMessageKind},
    prompts::{MemberMode, contract},
    state::Team,
};

/// The prefix of an onboarding message's key, which is followed by the member's name.
const ONBOARDING_KEY: &str = "handoff-";

/// Returns the member that a message onboards, if it is an onboarding message.
pub(super) fn onboarded_member(stored: &MessageStored) -> Option<&str> {
    onboarding_member(&stored.from, stored.kind, &stored.key)
}

/// Whether a message is an onboarding message.
pub(super) fn is_onboarding(message: &TeamMessage) -> bool {
    onboarding_member(&message.from, message.kind, &message.key).is_some()
}

fn onboarding_member<'k>(from: &TeamActor, kind: TeamMessageKind, key: &'k str) -> Option<&'k str> {
    let of_provost = *from == TeamActor::Provost && kind == TeamMessageKind::Instruction;
    if of_provost { key.strip_prefix(ONBOARDING_KEY) } else { None }
}

/// The prefix of the key of a handover to a successor, which is followed by both names.
const HANDOVER_KEY: &str = "handover-";

/// Returns the key of a handover to a successor.
pub(super) fn handover_key(from: &str, to: &str) -> String {
    format!("{HANDOVER_KEY}{from}-{to}")
}

/// Whether a message is delivered before all others. A handover is delivered first, because it explains the messages
/// that the successor inherits.
pub(super) fn is_delivered_first(message: &TeamMessage) -> bool {
    // Only the operator can rotate a member.
    let of_operator = message.from == TeamActor::Operator && message.kind == TeamMessageKind::Note;
    is_onboarding(message) || (of_operator && message.key.starts_with(HANDOVER_KEY))
}

impl Team {
    /// Sends one onboarding message to each member that was bound in the middle of its conversation.
    pub(super) fn onboard_members(&self, caller: &ProvostInvocation) -> Option<TeamStep> {
        let pending = self.members.iter().filter(|member| member.needs_onboarding());
        let handed = pending.zip(self.messages_stored + 1..);
        let events: Vec<Event> =
            handed.map(|(member, no)| self.onboarding_event(member, no, caller)).collect();
        (!events.is_empty()).then_some(TeamStep::Events(events))
    }

    fn onboarding_event(&self, member: &TeamMember, no: u32, caller: &ProvostInvocation) -> Event {
        let commands = TeamCommandLines { caller, task: self, member: Some(&member.name) };
        let key = format!("{ONBOARDING_KEY}{}", member.name);
        let to = Recipient::Member(member.name.clone());
        let text = contract(&commands, member, MemberMode::for_member(member));
        MessageStored {
            trust: MessageTrust::Trusted,
            kind: TeamMessageKind::Instruction,
            priority: Priority::High,
            ..MessageStored::by_rule(no, key, to, text)
        }
        .into()
    }
}
