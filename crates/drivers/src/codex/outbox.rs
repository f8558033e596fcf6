//! Lines that the protocol itself has to write, until the journal shows them as written.

use crate::ProtocolWrite;

/// Maximum number of pending lines. They only pile up while nothing can be written at all.
const MAX_PENDING_WRITES: usize = 10_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox(Vec<ProtocolWrite>);

impl Outbox {
    /// Enqueues a line, unless one is pending under the same key.
    pub(crate) fn enqueue(&mut self, key: String, line: Vec<u8>) {
        let known = self.0.iter().any(|write| write.key == key);
        if !known && self.0.len() < MAX_PENDING_WRITES {
            self.0.push(ProtocolWrite { key, line });
        }
    }

    /// Removes a written line. Returns true if it was pending.
    pub(crate) fn remove_written(&mut self, key: &str) -> bool {
        let owed = self.0.len();
        self.0.retain(|write| write.key != key);
        self.0.len() < owed
    }

    pub(crate) fn all(&self) -> Vec<ProtocolWrite> {
        self.0.clone()
    }
}
