//! Removes secrets from the home of an evicted session.
//!
//! Codex writes answers to secret questions to its rollouts in clear text, and may write secrets to
//! its databases, logs and rules. Therefore all files are removed. Files from the user's home can
//! be carried over again. Symbolic links are removed but never followed, so the user's own
//! credentials are not affected.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use super::{Error, MARK, check_mark, files};

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
    ("session_index", "names derived from prompts"),
    ("log", "logs"),
    ("rules", "allowed commands"),
    ("shell_snapshots", "environments of shells"),
];

/// The reason given for removing any other item.
const UNKNOWN: &str = "not known to be free of secrets";

/// An item that was removed with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedItem {
    pub name: OsString,
    pub because: &'static str,
}

/// Empties a session's home and returns the removed items. It is not an error if the home does not
/// exist. No agent may be using the home.
pub fn clean(dir: &Path) -> Result<Vec<RemovedItem>, Error> {
    let mut names = match files::names(dir) {
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
        files::remove(&dir.join(name))?;
    }
    // The mark is removed last, so that an interrupted call can be repeated.
    files::remove(&dir.join(MARK))?;
    Ok(names.into_iter().map(describe_removed).collect())
}

fn describe_removed(name: OsString) -> RemovedItem {
    let begins = |start: &str| name.as_encoded_bytes().starts_with(start.as_bytes());
    let known = SECRETS.iter().find(|(start, _)| begins(start));
    RemovedItem { because: known.map_or(UNKNOWN, |(_, because)| because), name }
}
