//! Messages that are over and forgotten: their keys are still known, so that what is sent once more stays one message.

use serde::{Deserialize, Serialize};

use super::{
    command::Post,
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
    /// Says whether somebody sent this before. A key is its sender's own, also after its message is forgotten.
    pub(super) fn sent_before(&self, by: &Actor, post: &Post) -> Sent {
        let known = self.sent(by, &post.key).map(|sent| (&sent.to, sent.text == post.text));
        let forgotten = || {
            let sent = self.forgotten(by, &post.key)?;
            Some((&sent.to, sent.text == mark(&post.text)))
        };
        match known.or_else(forgotten) {
            None => Sent::Never,
            Some(_) if bug!(KeyStoredTwice) => Sent::Never,
            Some((to, true)) if *to == post.to => Sent::Already,
            Some(_) => Sent::Otherwise,
        }
    }

    pub(super) fn forgotten(&self, by: &Actor, key: &str) -> Option<&Forgotten> {
        let mut forgotten = self.forgotten.iter().rev();
        forgotten.find(|sent| sent.key == key && sent.from == *by).map(AsRef::as_ref)
    }
}

/// Gives a number that tells a text from others (FNV-1a): it is kept, so that it is the same in every version.
fn mark(text: &str) -> u64 {
    let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}
