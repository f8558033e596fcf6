//! All messages that a team keeps, with an index of the fields that each step scans. There may be
//! thousands of messages, but most steps concern only a few of them.

use std::{collections::BTreeMap, ops::Deref, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::ids::hash_text;

use super::{
    member::TeamActor,
    message::{MessageStatusKind, Recipient, TeamMessage},
};

/// The unsettled messages and the newest settled ones. Each message is behind an `Arc`, because
/// every change clones the team.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Arc<TeamMessage>>", into = "Vec<Arc<TeamMessage>>")]
pub struct TeamMessages {
    all: Vec<Arc<TeamMessage>>,
    /// The index entries, one for each message at the same position. Each entry is updated together
    /// with its message.
    brief: Vec<MessageIndexEntry>,
}

/// The fields of a message that are scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MessageIndexEntry {
    /// Hash of the message's key.
    key: u64,
    /// The deadline of the message. `u64::MAX` if the message has no deadline.
    due_ms: u64,
    status: MessageStatusKind,
    for_operator: bool,
    unreported: bool,
}

impl MessageIndexEntry {
    fn from_message(message: &TeamMessage) -> MessageIndexEntry {
        MessageIndexEntry {
            key: hash_text(&message.key),
            due_ms: message.deadline().unwrap_or(u64::MAX),
            status: message.status.kind(),
            for_operator: message.to == Recipient::Operator,
            unreported: message.needs_report(),
        }
    }
}

impl From<Vec<Arc<TeamMessage>>> for TeamMessages {
    fn from(all: Vec<Arc<TeamMessage>>) -> Self {
        let brief = all.iter().map(|message| MessageIndexEntry::from_message(message)).collect();
        TeamMessages { all, brief }
    }
}

impl From<TeamMessages> for Vec<Arc<TeamMessage>> {
    fn from(messages: TeamMessages) -> Self {
        messages.all
    }
}

impl Deref for TeamMessages {
    type Target = [Arc<TeamMessage>];

    fn deref(&self) -> &[Arc<TeamMessage>] {
        &self.all
    }
}

impl<'a> IntoIterator for &'a TeamMessages {
    type Item = &'a Arc<TeamMessage>;
    type IntoIter = std::slice::Iter<'a, Arc<TeamMessage>>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.iter()
    }
}

impl TeamMessages {
    pub(super) fn push(&mut self, message: TeamMessage) {
        self.brief.push(MessageIndexEntry::from_message(&message));
        self.all.push(Arc::new(message));
    }

    /// Changes the message with this number, if the team still keeps it.
    pub(super) fn change(&mut self, no: u32, change: impl FnOnce(&mut TeamMessage)) {
        if let Some(at) = self.all.iter().rposition(|message| message.no == no) {
            self.change_at(at, change);
        }
    }

    /// Changes all messages for which `which` returns true.
    pub(super) fn change_where(
        &mut self,
        which: impl Fn(&TeamMessage) -> bool,
        change: impl Fn(&mut TeamMessage),
    ) {
        for at in 0..self.all.len() {
            if which(&self.all[at]) {
                self.change_at(at, &change);
            }
        }
    }

    fn change_at(&mut self, at: usize, change: impl FnOnce(&mut TeamMessage)) {
        let message = Arc::make_mut(&mut self.all[at]);
        change(message);
        self.brief[at] = MessageIndexEntry::from_message(message);
    }

    /// Removes the oldest settled message if there are more than `most` of them. Messages that
    /// still have to be reported are kept.
    pub(super) fn evict_oldest_settled(&mut self, most: usize) -> Option<Arc<TeamMessage>> {
        let goes = |brief: &MessageIndexEntry| brief.status.is_over() && !brief.unreported;
        let over = self.brief.iter().filter(|brief| goes(brief)).count();
        if over <= most {
            return None;
        }
        let oldest = self.brief.iter().position(goes)?;
        self.brief.remove(oldest);
        Some(self.all.remove(oldest))
    }

    /// Returns the message that an actor stored under a key.
    pub(super) fn by_key(&self, by: &TeamActor, key: &str) -> Option<&TeamMessage> {
        let sought = hash_text(key);
        let alike = self.filter_index(move |brief| brief.key == sought);
        let mut alike = alike.filter(|message| message.key == key);
        alike.find(|message| message.from == *by)
    }

    /// Returns the messages that are offered or accepted.
    pub(super) fn leased(&self) -> impl Iterator<Item = &TeamMessage> {
        self.filter_index(|brief| brief.status.is_leased())
    }

    /// Returns the expired and dead-lettered messages that have not been reported yet.
    pub(super) fn unreported(&self) -> impl Iterator<Item = &TeamMessage> {
        self.filter_index(|brief| brief.unreported)
    }

    /// Returns the messages whose deadline has passed.
    pub(super) fn due(&self, now_ms: u64) -> impl Iterator<Item = &TeamMessage> {
        self.filter_index(move |brief| brief.due_ms <= now_ms)
    }

    /// Counts the messages by status.
    pub fn counts(&self) -> BTreeMap<MessageStatusKind, usize> {
        let mut counts: Vec<(MessageStatusKind, usize)> = Vec::new();
        for status in self.brief.iter().map(|brief| brief.status) {
            // A linear search is fast enough, because there are only a few kinds.
            match counts.iter_mut().find(|(known, _)| *known == status) {
                Some((_, count)) => *count += 1,
                None => counts.push((status, 1)),
            }
        }
        counts.into_iter().collect()
    }

    /// Returns the number of unsettled messages to the operator.
    pub fn for_operator(&self) -> usize {
        let own = self.brief.iter().filter(|brief| brief.for_operator && !brief.status.is_over());
        own.count()
    }

    /// Returns the earliest deadline of any message.
    pub(super) fn deadline(&self) -> Option<u64> {
        let first = self.brief.iter().map(|brief| brief.due_ms).min();
        first.filter(|due| *due != u64::MAX)
    }

    fn filter_index(
        &self,
        which: impl Fn(&MessageIndexEntry) -> bool,
    ) -> impl Iterator<Item = &TeamMessage> {
        let found = self.brief.iter().zip(&self.all).filter(move |(brief, _)| which(brief));
        found.map(|(_, message)| message.as_ref())
    }
}
