//! Notifies senders and managers of messages that expired or were dead-lettered, with the reason.
//! Level-triggered, so that no kind of loss goes unreported.

use std::collections::BTreeMap;

use super::{
    advance::Step,
    event::*,
    member::{Actor, Role},
    message::{Address, Kind, Message, Standing},
    state::Task,
};
use crate::text::{in_quotes, named, visible};

/// Number of messages listed in one report. The rest are counted.
const MAX_NAMED: usize = 20;

/// Number of characters of a message's text that a report quotes.
const MAX_QUOTED: usize = 200;

/// The key prefix of reports of lost messages.
const KEY: &str = "undelivered-";

impl Task {
    /// Reports all messages lost since the last report, in one message per recipient.
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

    /// Returns the recipients of the report: the sender and the managers, except those who know
    /// already.
    fn told_of(&self, message: &Message) -> Vec<Address> {
        let sender = match &message.from {
            Actor::Operator | Actor::Policy => Some(Address::Operator),
            Actor::Member(name) => self.member(name).map(|_| Address::Member(name.clone())),
            Actor::Provost => None,
        };
        // A lost report is reported to the operator only, and not again after that.
        let of_report = message.from == Actor::Provost && message.key.starts_with(KEY);
        let managers =
            if of_report { vec![Address::Operator] } else { self.managers_or_operator() };
        let burier = message.buried_by.as_ref().map(Actor::name);
        let mut told: Vec<Address> = sender.into_iter().chain(managers).collect();
        told.sort();
        told.dedup();
        told.retain(|to| *to != message.to && Some(to.name()) != burier);
        told
    }

    /// Returns the managers, or the operator if there are none.
    pub(super) fn managers_or_operator(&self) -> Vec<Address> {
        let managers = self.bound(Role::Manager);
        let managers: Vec<Address> =
            managers.map(|manager| Address::Member(manager.name.clone())).collect();
        if managers.is_empty() { vec![Address::Operator] } else { managers }
    }

    /// Returns the dead-lettered instructions, except those dead-lettered explicitly.
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

/// Lists the lost messages, with the reasons.
fn report(lost: &[&Message]) -> String {
    let mut lines: Vec<String> = lost.iter().take(MAX_NAMED).map(|message| line(message)).collect();
    if let more @ 1.. = lost.len().saturating_sub(MAX_NAMED) {
        lines.push(format!("and {more} more"));
    }
    let requeue = match lost {
        [only] => format!("provost inbox requeue {} --to MEMBER --because TEXT", only.no),
        _ => "provost inbox requeue NO --to MEMBER --because TEXT".to_owned(),
    };
    lines.push(format!("To deliver it anyway, run `{requeue}`; --to can name another member."));
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
