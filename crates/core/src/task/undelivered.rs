//! Messages that expire or are dead-lettered: their senders and the managers are told, with the reason. Level-triggered,
//! so no way in which a message is lost can leave that out.

use std::collections::BTreeMap;

use super::{
    advance::Step,
    event::*,
    member::{Actor, Role},
    message::{Address, Kind, Message, Standing},
    state::Task,
};
use crate::text::{in_quotes, named, visible};

/// How many messages are named in one report; the rest are counted.
const MAX_NAMED: usize = 20;

/// How much of a message's text is quoted in a report, in characters.
const MAX_QUOTED: usize = 200;

/// The key prefix of reports of lost messages.
const KEY: &str = "undelivered-";

impl Task {
    /// Tells of all messages that were lost since it was told last, in one message to each who has to know.
    pub(super) fn tell_undelivered(&self) -> Option<Step> {
        if bug!(UndeliveredNotTold) {
            return None;
        }
        let mut reports: BTreeMap<Address, Vec<&Message>> = BTreeMap::new();
        let mut messages = Vec::new();
        for message in self.messages.untold() {
            messages.push(message.no);
            for to in self.told_of(message) {
                reports.entry(to).or_default().push(message);
            }
        }
        if messages.is_empty() {
            return None;
        }
        let numbered = reports.into_iter().zip(self.messages_stored + 1..);
        let (mut events, mut told): (Vec<Event>, Vec<u32>) = (Vec::new(), Vec::new());
        for ((to, lost), no) in numbered {
            let key = format!("{KEY}{no}");
            events.push(MessageStored::by_rule(no, key, to, report(&lost)).into());
            told.push(no);
        }
        events.push(UndeliveredTold { messages, told }.into());
        Some(Step::Events(events))
    }

    /// Returns who is told of a lost message: its sender and the managers, but nobody who knows it already.
    fn told_of(&self, message: &Message) -> Vec<Address> {
        let sender = match &message.from {
            Actor::Operator | Actor::Policy => Some(Address::Operator),
            Actor::Member(name) => self.member(name).map(|_| Address::Member(name.clone())),
            Actor::Provost => None,
        };
        // A report that is lost itself is told to the operator, and then no more.
        let of_report = message.from == Actor::Provost && message.key.starts_with(KEY);
        let managers = match of_report {
            true => vec![Address::Operator],
            false => self.managers_or_operator(),
        };
        let burier = message.buried_by.as_ref().map(Actor::name);
        let mut told: Vec<Address> = sender.into_iter().chain(managers).collect();
        told.sort();
        told.dedup();
        told.retain(|to| *to != message.to && Some(to.name()) != burier);
        told
    }

    /// Returns those whom the work is managed by. Without a manager that is the operator.
    pub(super) fn managers_or_operator(&self) -> Vec<Address> {
        let managers = self.bound(Role::Manager);
        let managers: Vec<Address> =
            managers.map(|manager| Address::Member(manager.name.clone())).collect();
        match managers.is_empty() {
            true => vec![Address::Operator],
            false => managers,
        }
    }

    /// Returns instructions that nobody handled and nobody laid aside on purpose.
    pub fn dead_letters(&self) -> impl Iterator<Item = &Message> {
        let lost = |message: &&Message| {
            matches!(message.standing, Standing::Dead { .. } | Standing::Expired)
        };
        let messages = self.messages.iter().map(AsRef::as_ref).filter(lost);
        messages.filter(|message| {
            message.kind == Kind::Instruction
                && message.from != Actor::Provost
                && message.buried_by.is_none()
        })
    }
}

/// Says in words which messages were lost, and why.
fn report(lost: &[&Message]) -> String {
    let mut lines: Vec<String> = lost.iter().take(MAX_NAMED).map(|message| line(message)).collect();
    if let more @ 1.. = lost.len().saturating_sub(MAX_NAMED) {
        lines.push(format!("and {more} more"));
    }
    let requeue = match lost {
        [only] => format!("provost inbox requeue {} --to MEMBER --because TEXT", only.no),
        _ => "provost inbox requeue NO --to MEMBER --because TEXT".to_owned(),
    };
    lines.push(format!("`{requeue}` has it delivered after all, to another member if need be."));
    lines.join("\n")
}

fn line(message: &Message) -> String {
    let reason = match &message.standing {
        Standing::Dead { reason } => visible(reason).replace('\n', " "),
        Standing::Expired => "it expired".to_owned(),
        Standing::Stored
        | Standing::Offered(_)
        | Standing::Accepted(_)
        | Standing::Acknowledged { .. }
        | Standing::Cancelled { .. } => message.standing.word().to_owned(),
    };
    let (no, to) = (message.no, named(message.to.name()));
    if let Some(iteration) = message.iteration {
        return format!("message {no}, for iteration {iteration}, was not delivered: {reason}");
    }
    let (kind, from) = (message.kind.word(), named(message.from.name()));
    let text: String = visible(&message.text).chars().take(MAX_QUOTED).collect();
    format!(
        "message {no} to {to} was not handled: {reason}\n  {kind} from {from}: {}",
        in_quotes(text.lines().next().unwrap_or_default())
    )
}
