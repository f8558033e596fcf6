//! Stream names: `kind/key`, such as `session/0190…`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The maximum length of a stream's name, in bytes.
pub const MAX_STREAM_ID_BYTES: usize = 200;

/// The validated name of a stream, in printable ASCII: a kind, a slash and a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StreamId(String);

/// The reason why a text is not a stream name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("a stream's name has at most {MAX_STREAM_ID_BYTES} bytes, but this one has {bytes}")]
    TooLong { bytes: usize },
    #[error("`{name}` is not the name of a stream: expected the form `kind/key`")]
    Form { name: String },
}

impl StreamId {
    /// Validates a name of the form `kind/key`.
    pub fn new(name: impl Into<String>) -> Result<Self, Error> {
        let name = name.into();
        if name.len() > MAX_STREAM_ID_BYTES {
            return Err(Error::TooLong { bytes: name.len() });
        }
        if is_well_formed(&name) {
            Ok(Self(name))
        } else {
            Err(Error::Form { name: name.escape_debug().to_string() })
        }
    }

    /// Creates the id from a stored name, which was validated before it was stored.
    pub(crate) fn stored(name: String) -> Self {
        Self(name)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the part before the slash.
    pub fn kind(&self) -> &str {
        self.0.split_once('/').map_or("", |(kind, _)| kind)
    }

    /// Returns the part after the slash.
    pub fn key(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, key)| key)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for StreamId {
    type Error = Error;
    fn try_from(name: String) -> Result<Self, Error> {
        Self::new(name)
    }
}

impl From<StreamId> for String {
    fn from(id: StreamId) -> Self {
        id.0
    }
}

fn is_well_formed(name: &str) -> bool {
    name.split_once('/').is_some_and(|(kind, key)| {
        !kind.is_empty()
            && kind.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
            && !key.is_empty()
            && key.bytes().all(|b| b.is_ascii_graphic())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_name_has_kind_and_key() {
        let id = StreamId::new("session/0190-ab").unwrap();
        assert_eq!((id.kind(), id.key()), ("session", "0190-ab"));
        assert_eq!(StreamId::new("host/a/b").unwrap().key(), "a/b");
    }

    #[test]
    fn malformed_names_are_refused() {
        for bad in ["", "session", "/x", "session/", "Session/x", "session/a b", "s/\u{1b}", "s/é"]
        {
            assert!(StreamId::new(bad).is_err(), "{bad:?} was accepted");
        }
        let long = format!("s/{}", "x".repeat(MAX_STREAM_ID_BYTES));
        assert_eq!(StreamId::new(long).unwrap_err(), Error::TooLong { bytes: 202 });
    }

    #[test]
    fn deserialising_checks_the_name() {
        assert!(serde_json::from_str::<StreamId>("\"nonsense\"").is_err());
        assert!(serde_json::from_str::<StreamId>("\"run/1\"").is_ok());
    }
}
