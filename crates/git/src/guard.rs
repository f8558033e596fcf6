//! Settings and variables that disable dangerous features in every git call.
//!
//! Calls that work on a repository read none of its configuration files (see [`crate::isolated_repo`]). A
//! few calls must: to find the repository, and to list its settings as data. The settings below are
//! passed to all of them through `GIT_CONFIG_COUNT`. It overrides every file, reaches git's own
//! children, and unlike `-c` supports names that contain `=`.

use std::ffi::{OsStr, OsString};

/// Settings for every call, each overriding the repository's own.
pub(crate) const SETTINGS: &[(&str, &str)] = &[
    // Programs that a configuration may name.
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
    // Printed to standard error whenever a graft file is named, even an empty one.
    ("advice.graftFileDeprecated", "false"),
    // Settings that could hide a change, or prevent recording one.
    ("core.trustctime", "true"),
    ("core.checkStat", "default"),
    ("core.untrackedCache", "false"),
    ("core.splitIndex", "false"),
    ("core.safecrlf", "false"),
    ("add.ignoreErrors", "false"),
    ("i18n.commitEncoding", "UTF-8"),
];

/// Variables for every call; apart from the caller's own, nothing else is inherited.
pub(crate) const VARIABLES: &[(&str, &str)] = &[
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // No progress, in seconds: a git whose caller is gone would be killed by its next progress
    // output.
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

/// One setting, overriding the repository's.
pub(crate) type GitSetting = (OsString, OsString);

/// Returns the environment variables that carry the settings.
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
