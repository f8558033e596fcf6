//! The digest of content that needs trust.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize, de::Error as _};

/// The BLAKE3 digest of all content that needs trust.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrustDigest([u8; 32]);

/// The error for a text that is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a digest: expected 64 hexadecimal digits, as `provost trust --print` shows them"
)]
pub struct DigestError(String);

impl TrustDigest {
    pub(crate) fn from_parts(parts: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("provost trust content 1");
        for part in parts {
            // The length prefix makes the boundaries between parts unambiguous.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(&part);
        }
        TrustDigest(hasher.finalize().into())
    }

    /// Combines the digests of two contents into one.
    #[must_use]
    pub fn with(&self, other: &TrustDigest) -> Self {
        TrustDigest::from_parts([self.0.to_vec(), other.0.to_vec()])
    }
}

impl fmt::Display for TrustDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from(self.0).to_hex())
    }
}

impl fmt::Debug for TrustDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for TrustDigest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let hash = blake3::Hash::from_hex(text).map_err(|_| DigestError(text.to_owned()))?;
        Ok(TrustDigest(hash.into()))
    }
}

impl Serialize for TrustDigest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TrustDigest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
