//! Settings and variables that disable dangerous features in every git call.
//!
//! Calls that work on a repository read none of its configuration files (see
//! [`crate::isolated_repo`]). A few calls have to read them, to find the repository or to list its
//! settings as data. All calls get the settings below through `GIT_CONFIG_COUNT`, which overrides
//! every file, reaches git's own children and, unlike `-c`, supports names that contain `=`.

use std::ffi::{OsStr, OsString};

/// Settings for every call. Each one overrides the repository's own setting.
pub(crate) const SETTINGS: &[(&str, &str)] = &[
    // Programs that a configuration file may specify.
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
    // Git prints this advice to standard error whenever a graft file is specified, even an empty
    // one.
    ("advice.graftFileDeprecated", "false"),
    // Settings that could hide a change or prevent it from being recorded.
    ("core.trustctime", "true"),
    ("core.checkStat", "default"),
    ("core.untrackedCache", "false"),
    ("core.splitIndex", "false"),
    ("core.safecrlf", "false"),
    ("add.ignoreErrors", "false"),
    ("i18n.commitEncoding", "UTF-8"),
];

/// Variables for every call. Git inherits only these variables and those that the caller sets.
pub(crate) const VARIABLES: &[(&str, &str)] = &[
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // The delay before progress output, in seconds. This value effectively disables it, because
    // progress output would kill a git process whose caller has exited.
    ("GIT_PROGRESS_DELAY", "1000000"),
    ("GIT_ASKPASS", ""),
    ("SSH_ASKPASS", ""),
    ("GIT_EDITOR", ":"),
    ("GIT_PAGER", "cat"),
    // The list of allowed protocols. An empty list disables all transports.
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_NO_LAZY_FETCH", "1"),
    // Replacement objects are disabled, because with such an object, a verified hash could show a
    // different tree.
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_GRAFT_FILE", "/dev/null"),
    ("GIT_AUTHOR_NAME", "Provost"),
    ("GIT_AUTHOR_EMAIL", "provost@localhost"),
    ("GIT_COMMITTER_NAME", "Provost"),
    ("GIT_COMMITTER_EMAIL", "provost@localhost"),
];

/// One setting, which overrides the repository's own.
pub(crate) type GitSetting = (OsString, OsString);

/// Encodes the settings as environment variables.
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
