//! Lines that the protocol itself needs to write. They are kept until the journal shows that they
//! were written.

use provost_agent::ProtocolWrite;

/// The maximum number of pending lines. They accumulate only while nothing can be written.
const MAX_PENDING_WRITES: usize = 10_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox(Vec<ProtocolWrite>);

impl Outbox {
    /// Adds a line to the queue, unless a line with the same key is pending.
    pub(crate) fn enqueue(&mut self, key: String, line: Vec<u8>) {
        let known = self.0.iter().any(|write| write.key == key);
        if !known && self.0.len() < MAX_PENDING_WRITES {
            self.0.push(ProtocolWrite { key, line });
        }
    }

    /// Removes a line that was written. Returns true if it was pending.
    pub(crate) fn remove_written(&mut self, key: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|write| write.key != key);
        self.0.len() < before
    }

    pub(crate) fn all(&self) -> Vec<ProtocolWrite> {
        self.0.clone()
    }
}
