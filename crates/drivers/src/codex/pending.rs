//! Requests of the server that nobody has settled yet.

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
    /// What was asked, to know it again when it is sent again.
    pub(crate) asked: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Requests(Vec<Pending>);

impl Requests {
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= MAX_WAITING
    }

    /// Says whether the very same was asked before: a server repeats itself to who comes back.
    pub(crate) fn knows(&self, id: &Id, asked: u64) -> bool {
        self.0.iter().any(|pending| pending.id == *id && pending.asked == asked)
    }

    /// Takes note of a request, in the place of an earlier one with the same id.
    pub(crate) fn open(&mut self, pending: Pending) {
        self.0.retain(|known| known.id != pending.id);
        self.0.push(pending);
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
        let over = self.0.extract_if(.., |pending| pending.turn == turn);
        over.map(|pending| pending.native).collect()
    }

    fn take(&mut self, is_it: impl Fn(&Pending) -> bool) -> Option<String> {
        let at = self.0.iter().position(is_it)?;
        Some(self.0.remove(at).native)
    }
}
