//! Removes secrets from the home of an evicted session.
//!
//! Codex writes answers to secret questions in clear text into its rollouts, and may write secrets
//! into its databases, logs and rules. So everything is removed: carried files can be carried
//! again. Links are removed, never followed, so the user's own credentials are not touched.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use super::{Error, MARK, carry, check_mark};

/// Items known to contain secrets, by name prefix.
const SECRETS: [(&str, &str); 12] = [
    ("auth.", "credentials"),
    (".env", "credentials"),
    (".credentials", "credentials"),
    ("config.toml", "settings, which may contain keys of providers and servers"),
    ("sessions", "rollouts, which contain secret answers in clear text"),
    ("archived_sessions", "rollouts, which contain secret answers in clear text"),
    ("thread_history", "the conversation"),
    ("history.jsonl", "prompts"),
    ("session_index", "names made from prompts"),
    ("log", "logs"),
    ("rules", "allowed commands"),
    ("shell_snapshots", "environments of shells"),
];

/// The reason for removing any other item.
const UNKNOWN: &str = "not known to be free of secrets";

/// An item that was removed with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    pub name: OsString,
    pub because: &'static str,
}

/// Empties a session's home and returns the removed items; a missing home is not an error. No agent
/// may be running in it.
pub fn clean(dir: &Path) -> Result<Vec<Removed>, Error> {
    let mut names = match carry::names(dir) {
        Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(Vec::new());
        }
        other => other?,
    };
    if names.is_empty() {
        return Ok(Vec::new());
    }
    check_mark(dir, &names)?;
    names.remove(OsStr::new(MARK));
    for name in &names {
        carry::remove(&dir.join(name))?;
    }
    // The mark is removed last, so that an interrupted call can be repeated.
    carry::remove(&dir.join(MARK))?;
    Ok(names.into_iter().map(told).collect())
}

fn told(name: OsString) -> Removed {
    let begins = |start: &str| name.as_encoded_bytes().starts_with(start.as_bytes());
    let known = SECRETS.iter().find(|(start, _)| begins(start));
    Removed { because: known.map_or(UNKNOWN, |(_, because)| because), name }
}
