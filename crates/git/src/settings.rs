//! The settings of a repository and its user, read as data.
//!
//! A git call that works on files never reads a configuration file of the repository or the user.
//! Instead, Provost runs `git config --list` once, which starts no other program. From a short
//! allowlist, it selects the settings that affect the form of files and refs, and passes them to
//! each call. None of these settings specifies a program.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::guard::GitSetting;
use crate::isolated_repo::RepoFormat;

/// The maximum number of filter drivers in a configuration.
pub(crate) const MAX_FILTERS: usize = 500;

/// The settings to adopt, in lower case as git prints them.
pub(crate) const ADOPTED: &[&str] = &[
    "core.attributesfile",
    "core.autocrlf",
    "core.bigfilethreshold",
    "core.checkroundtripencoding",
    "core.compression",
    "core.eol",
    "core.excludesfile",
    "core.filemode",
    "core.fsync",
    "core.fsyncmethod",
    "core.ignorecase",
    "core.logallrefupdates",
    "core.loosecompression",
    "core.precomposeunicode",
    "core.sharedrepository",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.symlinks",
    "index.sparse",
];

/// Remote settings to adopt. They mark a partial clone, in which objects may be missing.
const ADOPTED_OF_REMOTES: &[&str] = &[".promisor", ".partialclonefilter"];

/// Settings in a worktree's own configuration file that a new worktree inherits.
const SPARSE: &[&str] = &["core.sparsecheckout", "core.sparsecheckoutcone", "index.sparse"];

/// The settings of a filter driver.
const DRIVER: &[&str] = &["clean", "smudge", "process", "required"];

/// The settings adopted from the configuration of a repository and its user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RepoSettings {
    pub(crate) format: RepoFormat,
    /// The adopted settings in the order of their files, so that the last value of a setting takes
    /// effect.
    pub(crate) adopted: Vec<GitSetting>,
    /// The sparse-checkout settings from the worktree's own file.
    pub(crate) sparse: Vec<GitSetting>,
    pub(crate) filters: FilterDrivers,
}

/// The configured filter drivers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FilterDrivers {
    /// The drivers from the user's own or the system's configuration, with their settings.
    user_drivers: BTreeMap<OsString, Vec<GitSetting>>,
    /// The names of all filter drivers that have a command.
    all: BTreeSet<OsString>,
}

/// The reason why settings cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("cannot use a configuration with more than {MAX_FILTERS} filter drivers")]
    TooManyFilters,
    #[error("cannot use a repository with extensions.{key} = {value:?}: not supported")]
    UnknownFormat { key: &'static str, value: String },
    #[error("cannot parse the list of settings: no key after {scope:?}")]
    NoKey { scope: String },
}

/// The origin of a setting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SettingScope {
    /// The user's own configuration, or the system's.
    User,
    Repository,
    Worktree,
    /// A setting that was passed on the command line of the call.
    Call,
}

impl RepoSettings {
    /// Parses the output of `git config --list -z --show-scope`.
    pub(crate) fn parse(listed: &[u8]) -> Result<Self, Error> {
        let mut settings = Self::default();
        let mut items = listed.split(|byte| *byte == 0);
        while let Some(scope) = items.next().filter(|scope| !scope.is_empty()) {
            let no_key = || Error::NoKey { scope: String::from_utf8_lossy(scope).into_owned() };
            let item = items.next().ok_or_else(no_key)?;
            let (key, value) = split(item);
            settings.add(SettingScope::named(scope), key, value)?;
        }
        if settings.filters.all.len() > MAX_FILTERS {
            return Err(Error::TooManyFilters);
        }
        Ok(settings)
    }

    fn add(&mut self, scope: SettingScope, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if scope == SettingScope::Call {
            return Ok(());
        }
        let setting = || (OsString::from_vec(key.to_vec()), OsString::from_vec(value.to_vec()));
        if is_adopted(key) {
            self.adopted.push(setting());
        }
        if scope == SettingScope::Worktree && SPARSE.iter().any(|name| name.as_bytes() == key) {
            self.sparse.push(setting());
        }
        match key {
            b"extensions.objectformat" => {
                self.format.objects = supported_value("objectFormat", value, &["sha1", "sha256"])?;
            }
            b"extensions.refstorage" => {
                self.format.refs = supported_value("refStorage", value, &["files", "reftable"])?;
            }
            _ => self.filters.add(scope, key, setting),
        }
        Ok(())
    }
}

impl SettingScope {
    fn named(name: &[u8]) -> Self {
        match name {
            b"system" | b"global" => Self::User,
            b"worktree" => Self::Worktree,
            b"command" => Self::Call,
            _ => Self::Repository,
        }
    }
}

impl FilterDrivers {
    fn add(&mut self, scope: SettingScope, key: &[u8], setting: impl FnOnce() -> GitSetting) {
        let Some((driver, variable)) = driver(key) else { return };
        if !DRIVER.iter().any(|known| known.as_bytes() == variable) {
            return;
        }
        let setting = setting();
        if variable != b"required" && !setting.1.is_empty() {
            self.all.insert(OsStr::from_bytes(driver).to_owned());
        }
        if scope == SettingScope::User {
            self.user_drivers
                .entry(OsStr::from_bytes(driver).to_owned())
                .or_default()
                .push(setting);
        }
    }

    /// Whether any driver is configured.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the settings of the trusted drivers, from the user's own configuration.
    pub(crate) fn trusted(&self, trusted: &BTreeSet<OsString>) -> Vec<GitSetting> {
        let own = self.user_drivers.iter().filter(|(name, _)| trusted.contains(*name));
        own.flat_map(|(_, settings)| settings.iter().cloned()).collect()
    }

    /// Whether files need this driver and Provost does not run it.
    pub(crate) fn refuses(&self, driver: &[u8], trusted: &BTreeSet<OsString>) -> bool {
        let driver = OsStr::from_bytes(driver);
        let runs = trusted.contains(driver) && self.user_drivers.contains_key(driver);
        self.all.contains(driver) && !runs
    }
}

/// Splits a setting into key and value. A key without a value means true.
fn split(item: &[u8]) -> (&[u8], &[u8]) {
    match item.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&item[..end], &item[end + 1..]),
        None => (item, b"true"),
    }
}

fn is_adopted(key: &[u8]) -> bool {
    let of_remote = |end: &&str| key.starts_with(b"remote.") && key.ends_with(end.as_bytes());
    ADOPTED.iter().any(|name| name.as_bytes() == key) || ADOPTED_OF_REMOTES.iter().any(of_remote)
}

/// Returns the value if it is supported, or `None` for the first supported value, which is the
/// default.
fn supported_value(
    key: &'static str,
    value: &[u8],
    supported: &[&'static str; 2],
) -> Result<Option<&'static str>, Error> {
    let found = supported.iter().position(|name| name.as_bytes().eq_ignore_ascii_case(value));
    match found {
        Some(0) => Ok(None),
        Some(index) => Ok(Some(supported[index])),
        None => {
            let value = String::from_utf8_lossy(value).into_owned();
            Err(Error::UnknownFormat { key, value })
        }
    }
}

/// Splits `filter.<driver>.<variable>`.
fn driver(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = key.strip_prefix(b"filter.")?;
    let dot = rest.iter().rposition(|byte| *byte == b'.')?;
    Some((&rest[..dot], &rest[dot + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(items: &[(&str, &str)]) -> Result<RepoSettings, Error> {
        let text: String = items.iter().map(|(scope, item)| format!("{scope}\0{item}\0")).collect();
        RepoSettings::parse(text.as_bytes())
    }

    fn names(names: &[&str]) -> BTreeSet<OsString> {
        names.iter().map(OsString::from).collect()
    }

    #[test]
    fn only_listed_settings_are_adopted_in_order() {
        let settings = parse(&[
            ("global", "core.autocrlf\ninput"),
            ("local", "core.fsmonitor\n/evil"),
            ("local", "core.hookspath\n/evil"),
            ("local", "hook.x.command\n/evil"),
            ("local", "core.autocrlf"),
            ("local", "remote.origin.promisor\ntrue"),
            ("local", "remote.origin.url\nssh://x"),
            ("command", "core.eol\nlf"),
        ]);
        let taken = settings.unwrap().adopted;
        let taken: Vec<_> = taken.iter().map(|(key, value)| format!("{key:?}={value:?}")).collect();
        assert_eq!(
            taken,
            [
                r#""core.autocrlf"="input""#,
                r#""core.autocrlf"="true""#,
                r#""remote.origin.promisor"="true""#
            ]
        );
    }

    #[test]
    fn filter_runs_if_trusted_and_from_the_user() {
        let filters = parse(&[
            ("global", "filter.lfs.clean\ngit-lfs clean"),
            ("global", "filter.lfs.required\ntrue"),
            ("local", "filter.lfs.clean\n/evil"),
            ("local", "filter.a=b.c.process\n/evil"),
            ("local", "filter.off.clean\n"),
        ])
        .unwrap()
        .filters;
        let trusted = names(&["lfs", "a=b.c"]);
        let passed = filters.trusted(&trusted);
        assert_eq!(passed[0], ("filter.lfs.clean".into(), "git-lfs clean".into()));
        assert_eq!(passed.len(), 2);
        assert!(!filters.refuses(b"lfs", &trusted));
        assert!(filters.refuses(b"lfs", &names(&[])));
        assert!(filters.refuses(b"a=b.c", &trusted), "its command is not the user's");
        assert!(!filters.refuses(b"off", &names(&[])), "it has no command");
        assert!(!filters.refuses(b"unknown", &names(&[])));
    }

    #[test]
    fn unknown_format_or_too_many_filters_is_refused() {
        let sha256 = parse(&[("local", "extensions.objectformat\nsha256")]).unwrap();
        assert_eq!(sha256.format.objects, Some("sha256"));
        let odd = parse(&[("local", "extensions.refstorage\nodd")]);
        assert!(matches!(odd, Err(Error::UnknownFormat { .. })));
        let many: String =
            (0..=MAX_FILTERS).map(|n| format!("local\0filter.f{n}.clean\nx\0")).collect();
        assert_eq!(RepoSettings::parse(many.as_bytes()), Err(Error::TooManyFilters));
    }
}
