//! Requests of the server that nobody has settled yet.

use std::collections::VecDeque;

use provost_core::limits::MAX_OPEN_REQUESTS;

use super::wire::Id;

/// So many may wait at once. It is half of what a session keeps: questions beside the work, which
/// nobody tells to be over, must not crowd out those that the agent waits for.
pub(crate) const MAX_WAITING: usize = MAX_OPEN_REQUESTS / 2;

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) id: Id,
    pub(crate) native: String,
    pub(crate) turn: String,
    pub(crate) item: Option<String>,
    /// Whether its answer decides that the item is done.
    pub(crate) decides: bool,
    /// What was asked, to know it again when it is sent again.
    pub(crate) asked: u64,
}

/// So many items are remembered that approval was asked for and that are not over.
const MAX_APPROVALS: usize = 200;

#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    waiting: Vec<Pending>,
    /// What is known of the items that something was asked for, until they are over.
    about: VecDeque<About>,
}

/// An item that something was asked for.
#[derive(Clone, Debug)]
struct About {
    item: String,
    turn: String,
    /// The approval on which it depends whether it is done. None if it depends on several, or on none.
    decides: Option<String>,
}

impl Requests {
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_WAITING
    }

    /// Says whether the very same was asked before: a server repeats itself to who comes back.
    pub(crate) fn knows(&self, id: &Id, asked: u64) -> bool {
        self.waiting.iter().any(|pending| pending.id == *id && pending.asked == asked)
    }

    /// Takes note of a request, in the place of an earlier one with the same id.
    pub(crate) fn open(&mut self, pending: Pending) {
        self.waiting.retain(|known| known.id != pending.id);
        self.remember(&pending);
        self.waiting.push(pending);
    }

    fn remember(&mut self, pending: &Pending) {
        let Some(item) = pending.item.as_ref() else { return };
        if let Some(known) = self.about.iter_mut().find(|about| about.item == *item) {
            known.decides = None;
            return;
        }
        let decides = pending.decides.then(|| pending.native.clone());
        let about = About { item: item.clone(), turn: pending.turn.clone(), decides };
        self.about.push_back(about);
        if self.about.len() > MAX_APPROVALS {
            self.about.pop_front();
        }
    }

    /// Forgets an item that is over, and gives the name of the approval on which it depended.
    pub(crate) fn came_out(&mut self, item: &str) -> Option<String> {
        let at = self.about.iter().position(|about| about.item == item)?;
        self.about.remove(at)?.decides
    }

    /// Takes the request that the server calls over, and gives its name.
    pub(crate) fn resolved(&mut self, id: &Id) -> Option<String> {
        self.take(|pending| pending.id == *id)
    }

    /// Takes the request of an item that has completed, and gives its name.
    pub(crate) fn item_completed(&mut self, item: &str) -> Option<String> {
        self.take(|pending| pending.item.as_deref() == Some(item))
    }

    /// Takes all requests of a turn that is over, and gives their names.
    pub(crate) fn turn_over(&mut self, turn: &str) -> Vec<String> {
        self.about.retain(|about| about.turn != turn);
        let over = self.waiting.extract_if(.., |pending| pending.turn == turn);
        over.map(|pending| pending.native).collect()
    }

    fn take(&mut self, is_it: impl Fn(&Pending) -> bool) -> Option<String> {
        let at = self.waiting.iter().position(is_it)?;
        Some(self.waiting.remove(at).native)
    }
}
