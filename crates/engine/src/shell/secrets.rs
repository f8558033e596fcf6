//! Secret answers on their way to an agent. They are in memory only: a daemon that dies forgets them, and
//! the question is asked again.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use provost_core::{ids::SessionId, request::Reply};

/// The secrets that wait to be delivered. Cheap to clone.
#[derive(Clone, Default)]
pub struct Secrets {
    waiting: Arc<Mutex<BTreeMap<(SessionId, String), Reply>>>,
}

/// Shows nothing of what is kept.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    /// Keeps what a message says until it is delivered.
    pub(crate) fn keep(&self, session: SessionId, message: &str, reply: &Reply) {
        let key = (session, message.to_owned());
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(key, reply.clone());
    }

    pub(crate) fn get(&self, session: SessionId, message: &str) -> Option<Reply> {
        let key = (session, message.to_owned());
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    pub(crate) fn forget(&self, session: SessionId, message: &str) {
        let key = (session, message.to_owned());
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }
}
