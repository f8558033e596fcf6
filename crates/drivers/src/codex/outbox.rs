//! Lines that the protocol itself has to write, until the journal shows them as written.

use crate::Write;

/// Maximum number of pending lines. They only pile up while nothing can be written at all.
const MAX_OWED: usize = 10_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox(Vec<Write>);

impl Outbox {
    /// Enqueues a line, unless one is pending under the same key.
    pub(crate) fn owe(&mut self, key: String, line: Vec<u8>) {
        let known = self.0.iter().any(|write| write.key == key);
        if !known && self.0.len() < MAX_OWED {
            self.0.push(Write { key, line });
        }
    }

    /// Removes a written line. Returns true if it was pending.
    pub(crate) fn wrote(&mut self, key: &str) -> bool {
        let owed = self.0.len();
        self.0.retain(|write| write.key != key);
        self.0.len() < owed
    }

    pub(crate) fn all(&self) -> Vec<Write> {
        self.0.clone()
    }
}
