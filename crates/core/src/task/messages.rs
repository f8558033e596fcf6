//! All messages that a team keeps, with an index of the fields that each step scans. There may be
//! thousands of messages, and most steps concern few of them.

use std::{collections::BTreeMap, ops::Deref, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    forgotten::mark,
    member::Actor,
    message::{Address, Message, StandingKind},
};

/// The unsettled messages and the newest settled ones. Each is shared, because every change copies
/// the team.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Arc<Message>>", into = "Vec<Arc<Message>>")]
pub struct Messages {
    all: Vec<Arc<Message>>,
    /// One entry per message, at the same position. Updated only together with it.
    brief: Vec<Brief>,
}

/// The scanned fields of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Brief {
    /// Hash of its key.
    key: u64,
    /// When time alone changes it; `u64::MAX` for never.
    due_ms: u64,
    stands: StandingKind,
    for_operator: bool,
    untold: bool,
}

impl Brief {
    fn of(message: &Message) -> Brief {
        Brief {
            key: mark(&message.key),
            due_ms: message.deadline().unwrap_or(u64::MAX),
            stands: message.standing.kind(),
            for_operator: message.to == Address::Operator,
            untold: message.is_untold(),
        }
    }
}

impl From<Vec<Arc<Message>>> for Messages {
    fn from(all: Vec<Arc<Message>>) -> Self {
        let brief = all.iter().map(|message| Brief::of(message)).collect();
        Messages { all, brief }
    }
}

impl From<Messages> for Vec<Arc<Message>> {
    fn from(messages: Messages) -> Self {
        messages.all
    }
}

impl Deref for Messages {
    type Target = [Arc<Message>];

    fn deref(&self) -> &[Arc<Message>] {
        &self.all
    }
}

impl<'a> IntoIterator for &'a Messages {
    type Item = &'a Arc<Message>;
    type IntoIter = std::slice::Iter<'a, Arc<Message>>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.iter()
    }
}

impl Messages {
    pub(super) fn push(&mut self, message: Message) {
        self.brief.push(Brief::of(&message));
        self.all.push(Arc::new(message));
    }

    /// Changes the message with this number, if it is here.
    pub(super) fn change(&mut self, no: u32, change: impl FnOnce(&mut Message)) {
        if let Some(at) = self.all.iter().rposition(|message| message.no == no) {
            self.change_at(at, change);
        }
    }

    /// Changes all messages that match.
    pub(super) fn change_where(
        &mut self,
        which: impl Fn(&Message) -> bool,
        change: impl Fn(&mut Message),
    ) {
        for at in 0..self.all.len() {
            if which(&self.all[at]) {
                self.change_at(at, &change);
            }
        }
    }

    fn change_at(&mut self, at: usize, change: impl FnOnce(&mut Message)) {
        let message = Arc::make_mut(&mut self.all[at]);
        change(message);
        self.brief[at] = Brief::of(message);
    }

    /// Removes the oldest settled message if there are more than `most`. Messages that still have
    /// to be reported stay.
    pub(super) fn take_oldest_over(&mut self, most: usize) -> Option<Arc<Message>> {
        let goes = |brief: &Brief| brief.stands.is_over() && !brief.untold;
        let over = self.brief.iter().filter(|brief| goes(brief)).count();
        if over <= most {
            return None;
        }
        let oldest = self.brief.iter().position(goes)?;
        self.brief.remove(oldest);
        Some(self.all.remove(oldest))
    }

    /// Returns the message that an actor stored under a key.
    pub(super) fn sent(&self, by: &Actor, key: &str) -> Option<&Message> {
        let sought = mark(key);
        let alike = self.having(move |brief| brief.key == sought);
        let mut alike = alike.filter(|message| message.key == key);
        alike.find(|message| message.from == *by)
    }

    /// Returns the messages that are offered or accepted.
    pub(super) fn leased(&self) -> impl Iterator<Item = &Message> {
        self.having(|brief| brief.stands.is_leased())
    }

    /// Returns the expired and dead-lettered messages that are not reported yet.
    pub(super) fn untold(&self) -> impl Iterator<Item = &Message> {
        self.having(|brief| brief.untold)
    }

    /// Returns the messages whose deadline has passed.
    pub(super) fn due(&self, now_ms: u64) -> impl Iterator<Item = &Message> {
        self.having(move |brief| brief.due_ms <= now_ms)
    }

    /// Counts the messages by status.
    pub fn counts(&self) -> BTreeMap<StandingKind, usize> {
        let mut counts: Vec<(StandingKind, usize)> = Vec::new();
        for stands in self.brief.iter().map(|brief| brief.stands) {
            // There are few kinds, and many messages of each.
            match counts.iter_mut().find(|(known, _)| *known == stands) {
                Some((_, count)) => *count += 1,
                None => counts.push((stands, 1)),
            }
        }
        counts.into_iter().collect()
    }

    /// Returns the number of unsettled messages for the operator.
    pub fn for_operator(&self) -> usize {
        let own = self.brief.iter().filter(|brief| brief.for_operator && !brief.stands.is_over());
        own.count()
    }

    /// Returns the earliest deadline of any message.
    pub(super) fn deadline(&self) -> Option<u64> {
        let first = self.brief.iter().map(|brief| brief.due_ms).min();
        first.filter(|due| *due != u64::MAX)
    }

    fn having(&self, which: impl Fn(&Brief) -> bool) -> impl Iterator<Item = &Message> {
        let found = self.brief.iter().zip(&self.all).filter(move |(brief, _)| which(brief));
        found.map(|(_, message)| message.as_ref())
    }
}
