//! What every git call of Provost has switched off.
//!
//! Calls that work on a repository read no configuration file of it (see [`crate::apart`]). A few calls have to: to
//! find the repository, and to list its settings as data. The settings below are given to all of them through
//! `GIT_CONFIG_COUNT`, which outranks every file and reaches git's own
//! children, and unlike `-c` has room for names with `=` in them.

use std::ffi::{OsStr, OsString};

/// Settings for every call, each outranking the repository's own.
pub(crate) const SETTINGS: &[(&str, &str)] = &[
    // Programs that configuration may name.
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.editor", ":"),
    ("sequence.editor", ":"),
    ("core.pager", "cat"),
    ("core.askPass", ""),
    ("credential.helper", ""),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("submodule.recurse", "false"),
    ("protocol.allow", "never"),
    ("protocol.ext.allow", "never"),
    ("protocol.file.allow", "never"),
    // Said to standard error whenever a file of grafts is named, even an empty one.
    ("advice.graftFileDeprecated", "false"),
    // Settings that could hide a change, or refuse to record one.
    ("core.trustctime", "true"),
    ("core.checkStat", "default"),
    ("core.untrackedCache", "false"),
    ("core.splitIndex", "false"),
    ("core.safecrlf", "false"),
    ("add.ignoreErrors", "false"),
    ("i18n.commitEncoding", "UTF-8"),
];

/// Variables for every call; nothing else is inherited but what the caller gave.
pub(crate) const VARIABLES: &[(&str, &str)] = &[
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // No progress, in seconds: what a git whose caller is gone writes to it, ends it.
    ("GIT_PROGRESS_DELAY", "1000000"),
    ("GIT_ASKPASS", ""),
    ("SSH_ASKPASS", ""),
    ("GIT_EDITOR", ":"),
    ("GIT_PAGER", "cat"),
    // No transport at all: an empty list of allowed protocols.
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_NO_LAZY_FETCH", "1"),
    // A replacement could show another tree under the hash that was verified.
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_GRAFT_FILE", "/dev/null"),
    ("GIT_AUTHOR_NAME", "Provost"),
    ("GIT_AUTHOR_EMAIL", "provost@localhost"),
    ("GIT_COMMITTER_NAME", "Provost"),
    ("GIT_COMMITTER_EMAIL", "provost@localhost"),
];

/// One setting, outranking the repository's.
pub(crate) type Setting = (OsString, OsString);

/// Returns the variables that carry the settings.
pub(crate) fn as_variables<'a>(
    settings: impl Iterator<Item = (&'a OsStr, &'a OsStr)>,
) -> Vec<(OsString, OsString)> {
    let mut variables = Vec::new();
    let mut count = 0;
    for (key, value) in settings {
        variables.push((format!("GIT_CONFIG_KEY_{count}").into(), key.to_owned()));
        variables.push((format!("GIT_CONFIG_VALUE_{count}").into(), value.to_owned()));
        count += 1;
    }
    variables.push(("GIT_CONFIG_COUNT".into(), count.to_string().into()));
    variables
}
