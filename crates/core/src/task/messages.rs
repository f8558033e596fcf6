//! All messages that a task still has. What each step looks for in all of them is kept side by side: there may be thousands,
//! and most steps are nothing to most of them.

use std::{collections::BTreeMap, ops::Deref, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    forgotten::mark,
    member::Actor,
    message::{Address, Message, StandingKind},
};

/// Those that are not over, and the newest of the others. Each is shared: a task is copied with each change of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Arc<Message>>", into = "Vec<Arc<Message>>")]
pub struct Messages {
    all: Vec<Arc<Message>>,
    /// Of each in its place; changed with it and in no other way.
    brief: Vec<Brief>,
}

/// What is looked for in all messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Brief {
    /// Tells its key from most others.
    key: u64,
    /// When time changes something about it; the end of time for never.
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

    /// Changes the one with this number, if it is here.
    pub(super) fn change(&mut self, no: u32, change: impl FnOnce(&mut Message)) {
        if let Some(at) = self.all.iter().rposition(|message| message.no == no) {
            self.change_at(at, change);
        }
    }

    /// Changes all of which this is said.
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

    /// Takes out the oldest that is over, if more than so many are. What is still to be told stays.
    pub(super) fn take_oldest_over(&mut self, most: usize) -> Option<Arc<Message>> {
        let goes = |brief: &Brief| brief.stands.is_over() && !brief.untold;
        let over = self.brief.iter().filter(|brief| goes(brief)).count();
        let oldest = self.brief.iter().position(goes);
        let oldest = oldest.filter(|_| over > most)?;
        self.brief.remove(oldest);
        Some(self.all.remove(oldest))
    }

    /// Gives the one that somebody stored under a key.
    pub(super) fn sent(&self, by: &Actor, key: &str) -> Option<&Message> {
        let sought = mark(key);
        let alike = self.having(move |brief| brief.key == sought);
        let mut alike = alike.filter(|message| message.key == key);
        alike.find(|message| message.from == *by)
    }

    /// Gives those that somebody has, or is offered.
    pub(super) fn leased(&self) -> impl Iterator<Item = &Message> {
        self.having(|brief| brief.stands.is_leased())
    }

    /// Returns those that expired or were dead-lettered, and nobody was told yet.
    pub(super) fn untold(&self) -> impl Iterator<Item = &Message> {
        self.having(|brief| brief.untold)
    }

    /// Gives those whose time has come.
    pub(super) fn due(&self, now_ms: u64) -> impl Iterator<Item = &Message> {
        self.having(move |brief| brief.due_ms <= now_ms)
    }

    /// Sums up how many stand how.
    pub fn counts(&self) -> BTreeMap<StandingKind, usize> {
        let mut counts: Vec<(StandingKind, usize)> = Vec::new();
        for stands in self.brief.iter().map(|brief| brief.stands) {
            // There are few kinds, and many messages of one.
            match counts.iter_mut().find(|(known, _)| *known == stands) {
                Some((_, count)) => *count += 1,
                None => counts.push((stands, 1)),
            }
        }
        counts.into_iter().collect()
    }

    /// Says how many the operator has not handled yet.
    pub fn for_operator(&self) -> usize {
        let own = self.brief.iter().filter(|brief| brief.for_operator && !brief.stands.is_over());
        own.count()
    }

    /// Gives when time changes something about any.
    pub(super) fn deadline(&self) -> Option<u64> {
        let first = self.brief.iter().map(|brief| brief.due_ms).min();
        first.filter(|due| *due != u64::MAX)
    }

    fn having(&self, which: impl Fn(&Brief) -> bool) -> impl Iterator<Item = &Message> {
        let found = self.brief.iter().zip(&self.all).filter(move |(brief, _)| which(brief));
        found.map(|(_, message)| message.as_ref())
    }
}
