//! The server's requests that are still open.

use std::collections::VecDeque;

use provost_core::limits::MAX_OPEN_REQUESTS;

use super::wire::RpcId;

/// The maximum number of open requests. It is half of the session's limit, because Codex never
/// reports that a non-blocking question is over, and such questions must not displace the requests
/// for which the agent is waiting.
pub(crate) const MAX_WAITING: usize = MAX_OPEN_REQUESTS / 2;

/// One open request.
#[derive(Clone, Debug)]
pub(crate) struct PendingServerRequest {
    pub(crate) id: RpcId,
    pub(crate) native: String,
    pub(crate) turn: String,
    pub(crate) item: Option<String>,
    /// Whether the answer decides if the item is carried out.
    pub(crate) decides: bool,
    /// A hash of the request, used to recognize a repetition.
    pub(crate) asked: u64,
}

/// The maximum number of unfinished items to remember with their approvals.
const MAX_APPROVALS: usize = 200;

#[derive(Clone, Debug, Default)]
pub(crate) struct OpenServerRequests {
    waiting: Vec<PendingServerRequest>,
    /// The unfinished items to which requests refer.
    about: VecDeque<ItemApproval>,
}

/// An item to which a request refers.
#[derive(Clone, Debug)]
struct ItemApproval {
    item: String,
    turn: String,
    /// The approval that decides whether the item is carried out. `None` if there are several such
    /// approvals, or none.
    decides: Option<String>,
}

impl OpenServerRequests {
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_WAITING
    }

    /// Whether the same request is already open. A server repeats its requests when a client
    /// reconnects.
    pub(crate) fn is_repeat(&self, id: &RpcId, asked: u64) -> bool {
        self.waiting.iter().any(|pending| pending.id == *id && pending.asked == asked)
    }

    /// Records a request, replacing an earlier one with the same id.
    pub(crate) fn open(&mut self, pending: PendingServerRequest) {
        self.waiting.retain(|known| known.id != pending.id);
        self.remember(&pending);
        self.waiting.push(pending);
    }

    fn remember(&mut self, pending: &PendingServerRequest) {
        let Some(item) = pending.item.as_ref() else { return };
        if let Some(known) = self.about.iter_mut().find(|about| about.item == *item) {
            known.decides = None;
            return;
        }
        let decides = pending.decides.then(|| pending.native.clone());
        let about = ItemApproval { item: item.clone(), turn: pending.turn.clone(), decides };
        self.about.push_back(about);
        if self.about.len() > MAX_APPROVALS {
            self.about.pop_front();
        }
    }

    /// Removes a finished item, and returns the token of its approval.
    pub(crate) fn take_item_approval(&mut self, item: &str) -> Option<String> {
        let at = self.about.iter().position(|about| about.item == item)?;
        self.about.remove(at)?.decides
    }

    /// Removes the request that the server reports as resolved, and returns its token.
    pub(crate) fn take_resolved(&mut self, id: &RpcId) -> Option<String> {
        self.take(|pending| pending.id == *id)
    }

    /// Removes the request of a completed item, and returns its token.
    pub(crate) fn take_of_item(&mut self, item: &str) -> Option<String> {
        self.take(|pending| pending.item.as_deref() == Some(item))
    }

    /// Removes all requests of a turn that has ended, and returns their tokens.
    pub(crate) fn take_of_turn(&mut self, turn: &str) -> Vec<String> {
        self.about.retain(|about| about.turn != turn);
        let over = self.waiting.extract_if(.., |pending| pending.turn == turn);
        over.map(|pending| pending.native).collect()
    }

    fn take(&mut self, is_it: impl Fn(&PendingServerRequest) -> bool) -> Option<String> {
        let at = self.waiting.iter().position(is_it)?;
        Some(self.waiting.remove(at).native)
    }
}
