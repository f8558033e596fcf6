//! Messages that are over and forgotten: their keys are still known, so that what is sent once more stays one message.

use serde::{Deserialize, Serialize};

use super::{
    member::Actor,
    message::{Address, Message},
    state::Task,
};

/// How many keys of forgotten messages a task remembers, the newest.
pub const MAX_KEYS_KEPT: usize = 2_000;

/// What is left of a message that nobody asks for any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgotten {
    pub no: u32,
    pub key: String,
    pub from: Actor,
    pub to: Address,
    /// Tells its text from others.
    pub text: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
}

impl Forgotten {
    /// Gives what is kept of a message. What Provost tells by its own rules has keys that never come twice.
    pub(super) fn of(message: &Message) -> Option<Forgotten> {
        (message.from != Actor::Provost).then(|| Forgotten {
            no: message.no,
            key: message.key.clone(),
            from: message.from.clone(),
            to: message.to.clone(),
            text: mark(&message.text),
            iteration: message.iteration,
        })
    }
}

/// Whether something was sent before under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Never,
    /// It is the same message.
    Already,
    /// The key is that of another message.
    Otherwise,
}

impl Task {
    /// Says whether somebody sent this before: the same text to the same member, for the same iteration if for any. A key
    /// is its sender's own, also after its message is forgotten.
    pub(super) fn sent_before(
        &self,
        by: &Actor,
        (key, to, text, iteration): (&str, &str, &str, Option<u32>),
    ) -> Sent {
        let known = self.sent(by, key);
        let known = known.map(|sent| (sent.to.name(), sent.text == text, sent.iteration));
        let forgotten = || {
            let sent = self.forgotten(by, key)?;
            Some((sent.to.name(), sent.text == mark(text), sent.iteration))
        };
        match known.or_else(forgotten) {
            None => Sent::Never,
            Some(_) if bug!(KeyStoredTwice) => Sent::Never,
            Some(before) if before == (to, true, iteration) => Sent::Already,
            Some(_) => Sent::Otherwise,
        }
    }

    fn forgotten(&self, by: &Actor, key: &str) -> Option<&Forgotten> {
        let mut forgotten = self.forgotten.iter().rev();
        forgotten.find(|sent| sent.key == key && sent.from == *by).map(AsRef::as_ref)
    }
}

/// Gives a number that tells a text from others (FNV-1a): it is kept, so that it is the same in every version.
pub(super) fn mark(text: &str) -> u64 {
    let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}
