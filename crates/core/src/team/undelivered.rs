//! Notifies senders and managers about messages that expired or were dead-lettered, with the reasons. The rule depends
//! only on the current state, so it reports every lost message, regardless of the cause.

use std::collections::BTreeMap;

use super::{
    advance::TeamStep,
    command_line::requeue_form,
    event::*,
    member::{MemberRole, TeamActor},
    message::{MessageStatus, Recipient, TeamMessage, TeamMessageKind},
    state::Team,
};
use crate::rules::rules;
use crate::text::{quote_name, quote_text, visible};

/// The number of messages to list in one report. The rest are only counted.
const MAX_NAMED: usize = 20;

/// The number of characters of a message's text to quote in a report.
const MAX_QUOTED: usize = 200;

/// The prefix of the keys of reports about lost messages.
const REPORT_KEY: &str = "undelivered-";

impl Team {
    /// Reports all messages that were lost since the last report, in one message per recipient.
    pub(super) fn report_undelivered(&self) -> Option<TeamStep> {
        let mut reports: BTreeMap<Recipient, Vec<&TeamMessage>> = BTreeMap::new();
        let mut messages = Vec::new();
        let lost = self.messages.unreported().filter(|message| rules().must_report_loss(message));
        for message in lost {
            messages.push(message.no);
            for to in self.report_recipients(message) {
                reports.entry(to).or_default().push(message);
            }
        }
        if messages.is_empty() {
            return None;
        }
        let numbered = reports.into_iter().zip(self.messages_stored + 1..);
        let (mut events, mut sent): (Vec<Event>, Vec<u32>) = (Vec::new(), Vec::new());
        for ((to, lost), no) in numbered {
            let key = format!("{REPORT_KEY}{no}");
            events.push(MessageStored::by_rule(no, key, to, format_report(&lost)).into());
            sent.push(no);
        }
        events.push(UndeliveredReported { messages, reports: sent }.into());
        Some(TeamStep::Events(events))
    }

    /// Returns the recipients of the report: the sender and the managers, except those who already
    /// know about the loss.
    fn report_recipients(&self, message: &TeamMessage) -> Vec<Recipient> {
        let sender = match &message.from {
            TeamActor::Operator | TeamActor::Policy => Some(Recipient::Operator),
            TeamActor::Member(name) => self.member(name).map(|_| Recipient::Member(name.clone())),
            TeamActor::Provost => None,
        };
        // If a report itself is lost, only the operator is notified, and only once.
        let of_report = message.from == TeamActor::Provost && message.key.starts_with(REPORT_KEY);
        let managers =
            if of_report { vec![Recipient::Operator] } else { self.managers_or_operator() };
        let burier = message.dead_lettered_by.as_ref().map(TeamActor::name);
        let mut recipients: Vec<Recipient> = sender.into_iter().chain(managers).collect();
        recipients.sort();
        recipients.dedup();
        recipients.retain(|to| *to != message.to && Some(to.name()) != burier);
        recipients
    }

    /// Returns the managers, or the operator in a team without managers.
    pub(super) fn managers_or_operator(&self) -> Vec<Recipient> {
        let managers = self.bound(MemberRole::Manager);
        let managers: Vec<Recipient> =
            managers.map(|manager| Recipient::Member(manager.name.clone())).collect();
        if managers.is_empty() { vec![Recipient::Operator] } else { managers }
    }

    /// Returns the instructions that expired or were dead-lettered, except those that were
    /// dead-lettered explicitly.
    pub fn dead_letters(&self) -> impl Iterator<Item = &TeamMessage> {
        let lost = |message: &&TeamMessage| {
            matches!(message.status, MessageStatus::Dead { .. } | MessageStatus::Expired)
        };
        let messages = self.messages.iter().map(AsRef::as_ref).filter(lost);
        messages.filter(|message| {
            message.kind == TeamMessageKind::Instruction
                && message.from != TeamActor::Provost
                && message.dead_lettered_by.is_none()
        })
    }
}

/// Lists the lost messages, each with the reason why it was lost.
fn format_report(lost: &[&TeamMessage]) -> String {
    let mut lines: Vec<String> =
        lost.iter().take(MAX_NAMED).map(|message| format_line(message)).collect();
    if let more @ 1.. = lost.len().saturating_sub(MAX_NAMED) {
        lines.push(format!("and {more} more"));
    }
    let number = match lost {
        [only] => only.no.to_string(),
        _ => "NUMBER".to_owned(),
    };
    let requeue = requeue_form(&number);
    lines.push(format!("To deliver it anyway, run `{requeue}`; --to can name another member."));
    lines.join("\n")
}

fn format_line(message: &TeamMessage) -> String {
    let reason = match &message.status {
        MessageStatus::Dead { reason } => visible(reason).replace('\n', " "),
        MessageStatus::Expired => "it expired".to_owned(),
        MessageStatus::Stored
        | MessageStatus::Offered(_)
        | MessageStatus::Accepted(_)
        | MessageStatus::Acknowledged { .. }
        | MessageStatus::Cancelled { .. } => message.status.as_str().to_owned(),
    };
    let (no, to) = (message.no, quote_name(message.to.name()));
    if let Some(iteration) = message.iteration {
        return format!("message {no}, for iteration {iteration}, was not delivered: {reason}");
    }
    let (kind, from) = (message.kind.as_str(), quote_name(message.from.name()));
    let text: String = visible(&message.text).chars().take(MAX_QUOTED).collect();
    format!(
        "message {no} to {to} was not handled: {reason}\n  {kind} from {from}: {}",
        quote_text(text.lines().next().unwrap_or_default())
    )
}
