//! Removes secrets from the home of a session that is put away.
//!
//! Codex writes answers to secret questions in clear into its rollouts, and
//! what it writes into its databases, logs and rules is its own affair. So
//! everything goes: whatever was carried in can be carried in again. Links
//! are removed, never followed: the user's own credentials are not touched.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use super::{Error, MARK, carry, check_mark};

/// What is known to hold secrets, by the beginnings of names.
const SECRETS: [(&str, &str); 12] = [
    ("auth.", "credentials"),
    (".env", "credentials"),
    (".credentials", "credentials"),
    ("config.toml", "settings, which may hold keys of providers and servers"),
    ("sessions", "rollouts, which hold secret answers in clear"),
    ("archived_sessions", "rollouts, which hold secret answers in clear"),
    ("thread_history", "the conversation"),
    ("history.jsonl", "prompts"),
    ("session_index", "names made from prompts"),
    ("log", "logs"),
    ("rules", "commands that were allowed"),
    ("shell_snapshots", "environments of shells"),
];

/// Why anything else goes.
const UNKNOWN: &str = "not known to be free of secrets";

/// Something that was removed with all that was in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    pub name: OsString,
    pub because: &'static str,
}

/// Empties a session's home and tells what was in it; without a home there
/// is nothing to do. No agent may be running in it.
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
    // The mark goes last, so that a call that was cut short can be repeated.
    carry::remove(&dir.join(MARK))?;
    Ok(names.into_iter().map(told).collect())
}

fn told(name: OsString) -> Removed {
    let begins = |start: &str| name.as_encoded_bytes().starts_with(start.as_bytes());
    let known = SECRETS.iter().find(|(start, _)| begins(start));
    Removed { because: known.map_or(UNKNOWN, |(_, because)| because), name }
}
