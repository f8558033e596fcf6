//! Ids. The shell generates the ids of runs, and of sessions outside a run. All other ids are
//! derived from these, so a replayed decision always yields the same ids, and an effect's key is
//! known before the effect runs.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The number of digits in the short form of an id, which users read and type.
pub const SHORT_LEN: usize = 8;

/// The minimum number of characters in a part of an id that a user types.
pub const MIN_PART_LEN: usize = 4;

/// Whether a name looks like a full or short id. Such names are rejected, so that an id is never ambiguous.
pub fn looks_like_id(name: &str) -> bool {
    let is_short = name.len() == SHORT_LEN && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_short || Uuid::try_parse(name).is_ok()
}

/// The id of a session: one conversation with one agent in one worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub Uuid);

impl SessionId {
    /// Returns the last eight digits, which are random, as a short form for users to read and type.
    pub fn short(&self) -> String {
        let text = self.0.simple().to_string();
        text[text.len() - SHORT_LEN..].to_owned()
    }

    /// Returns a jitter below `spread` that varies between sessions but is always the same for one session.
    pub fn jitter_ms(&self, spread: u64) -> u64 {
        let random = u64::from_be_bytes(self.0.into_bytes()[8..].try_into().unwrap_or_default());
        random % spread.max(1)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns a jitter below `spread` that is always the same for the same text.
pub(crate) fn text_jitter_ms(text: &str, spread: u64) -> u64 {
    hash_text(text) % spread.max(1)
}

/// Returns the FNV-1a hash of a text. Hashes are stored, so they must be the same in every version,
/// which the hashers of the standard library do not promise.
pub(crate) fn hash_text(text: &str) -> u64 {
    let mix = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// The factor that spreads consecutive numbers over all 32-bit numbers: 2^32 divided by the golden
/// ratio. Because it is odd, different numbers stay different.
const SPREAD: u32 = 0x9E37_79B1;

/// The id of a run: the work on one goal, from start to outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub Uuid);

impl RunId {
    /// Returns the id of the run's session with this number. The digits before the short form count
    /// up, so that the ids sort by number. Both the start and the end of the short form differ from
    /// those of the run and its other sessions.
    pub fn session(&self, no: u32) -> SessionId {
        let counted = self.0.as_u128().wrapping_add(u128::from(no) << u32::BITS);
        let (above, below) = (counted >> u32::BITS, counted & u128::from(u32::MAX));
        let mixed = (below + u128::from(no.wrapping_mul(SPREAD))) & u128::from(u32::MAX);
        SessionId(Uuid::from_u128((above << u32::BITS) | mixed))
    }

    /// Whether an id is that of the run or of one of its sessions.
    pub fn includes(&self, SessionId(id): SessionId) -> bool {
        let above = |id: Uuid| id.as_u128() >> u32::BITS;
        let no = above(id).wrapping_sub(above(self.0));
        u32::try_from(no).is_ok_and(|no| self.session(no).0 == id)
    }

    /// Returns the last eight digits as a short form for users to read and type.
    pub fn short(&self) -> String {
        SessionId(self.0).short()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RunId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        text.parse().map(|SessionId(id)| RunId(id))
    }
}

/// The id of a team: agents and people who work on one goal under a manager. Unrelated to the tasks
/// of a run's plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TeamId(pub Uuid);

impl TeamId {
    /// Returns the last eight digits as a short form for users to read and type.
    pub fn short(&self) -> String {
        SessionId(self.0).short()
    }
}

impl fmt::Display for TeamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for TeamId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        text.parse().map(|SessionId(id)| TeamId(id))
    }
}

/// An invalid id, and a description of the expected form.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("\"{0}\" is not a valid id: expected {1}")]
pub struct ParseIdError(String, &'static str);

impl FromStr for SessionId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        Uuid::parse_str(text).map(SessionId).map_err(|_| ParseIdError(text.to_owned(), "a UUID"))
    }
}

/// Defines an id that consists of a session's id, a letter and a number.
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident, $letter:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name {
            pub session: SessionId,
            pub no: u32,
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{}.", $letter, "{}"), self.session, self.no)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = ParseIdError;

            fn try_from(text: String) -> Result<Self, ParseIdError> {
                text.parse()
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                let bad = || ParseIdError(text.to_owned(), $what);
                let (session, no) = text.split_once(concat!(".", $letter)).ok_or_else(bad)?;
                let no = no.parse().map_err(|_| bad())?;
                Ok(Self { session: session.parse().map_err(|_| bad())?, no })
            }
        }
    };
}

numbered!(
    /// The id of a launch: one agent process under one holder.
    LaunchId, "l", "a launch id (SESSION.lN)"
);
numbered!(
    /// The id of a request: an approval, question or dialog that an agent wants a user to settle.
    RequestId, "q", "a request id (SESSION.qN)"
);

/// The hash of a git tree. A verdict always applies to one tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TreeId(pub String);

/// The hash of a git commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommitId(pub String);
