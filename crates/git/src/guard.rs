//! What every git call of Provost has switched off.
//!
//! A repository's configuration is written by whoever made the repository,
//! and much of it names programs. The settings below are given through
//! `GIT_CONFIG_COUNT`, which outranks every file and reaches git's own
//! children, and unlike `-c` has room for names with `=` in them.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

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

/// How many filter drivers a configuration may name.
pub(crate) const MAX_FILTERS: usize = 500;

/// One setting, outranking the repository's.
pub(crate) type Setting = (OsString, OsString);

/// Returns the settings that switch off every filter driver among the names
/// of settings in effect (NUL-separated, as `git config --list -z --name-only`
/// prints them), or `None` if there are more than [`MAX_FILTERS`].
pub(crate) fn filters_off(names: &[u8]) -> Option<Vec<Setting>> {
    let drivers: BTreeSet<&[u8]> = names.split(|b| *b == 0).filter_map(driver).collect();
    if drivers.len() > MAX_FILTERS {
        return None;
    }
    Some(drivers.into_iter().flat_map(driver_off).collect())
}

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

/// Returns the driver's name in `filter.<driver>.<variable>`.
fn driver(name: &[u8]) -> Option<&[u8]> {
    let rest = name.strip_prefix(b"filter.")?;
    let dot = rest.iter().rposition(|b| *b == b'.')?;
    Some(&rest[..dot])
}

fn driver_off(driver: &[u8]) -> [Setting; 4] {
    let setting = |variable: &str, value: &str| {
        let name = [b"filter.", driver, b".", variable.as_bytes()].concat();
        (OsString::from_vec(name), OsStr::from_bytes(value.as_bytes()).to_owned())
    };
    // An empty command means that content passes through unchanged.
    [
        setting("clean", ""),
        setting("smudge", ""),
        setting("process", ""),
        setting("required", "false"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_is_switched_off_whatever_its_name() {
        let off = filters_off(
            b"user.name\0filter.a=b.c.clean\0filter.lfs.process\0filter.lfs.smudge\0filter.x\0",
        );
        let names: Vec<_> =
            off.unwrap().into_iter().map(|(key, _)| key.into_string().unwrap()).collect();
        assert_eq!(names[0], "filter.a=b.c.clean");
        assert_eq!(names[7], "filter.lfs.required");
        assert_eq!(names.len(), 8);
    }

    #[test]
    fn too_many_drivers_are_refused() {
        let names: String = (0..=MAX_FILTERS).map(|n| format!("filter.f{n}.clean\0")).collect();
        assert!(filters_off(names.as_bytes()).is_none());
    }
}
