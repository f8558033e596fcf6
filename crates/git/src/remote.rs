//! Remotes, and the environment of a program that contacts a remote for the user.
//!
//! A push uses the user's credentials: a token, a key or a helper. It must therefore not run a
//! program that someone else chose, but an agent can change the configuration and hooks of its
//! repository. So a push sees the user's global settings, and from this repository only the
//! settings that were recorded before any agent started.

use std::ffi::OsStr;
use std::path::Path;

use crate::command::{Git, GitExit};
use crate::guard;
use crate::isolated_repo;
use crate::landing::Error;
use crate::names::Oid;
use crate::project::Project;

/// A remote and its settings as they were recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedRemote {
    pub name: String,
    /// The push URL.
    pub url: String,
    /// The settings of all remotes, for programs such as `gh`.
    pub settings: Vec<(String, String)>,
}

/// Matches the remote settings to record: URLs, and the remote that `gh` was configured to use.
const RECORDED_SETTINGS: &str = r"^remote\..*\.(url|gh-resolved)$";

/// Overrides for settings that a push does not need and that could point to files an agent wrote.
const SETTINGS: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("submodule.recurse", "false"),
    ("push.recurseSubmodules", "no"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
];

/// Returns the remote that a branch tracks, otherwise the default remote, otherwise the only one.
pub fn remote_of(
    git: &Git,
    project: &Project,
    branch: Option<&str>,
) -> Result<Option<RecordedRemote>, Error> {
    let repo = project.shared(git)?;
    let listed = repo.configuration(["remote"]).run()?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names: Vec<&str> = listed.lines().collect();
    let followed = match branch {
        Some(branch) => {
            let answer = repo
                .configuration(["config", "--get", &format!("branch.{branch}.remote")])
                .run_unchecked()?;
            Some(answer.line().to_string_lossy().into_owned())
        }
        None => None,
    };
    let known = |name: &str| names.contains(&name).then(|| name.to_owned());
    let only = || (names.len() == 1).then(|| names[0].to_owned());
    let name = followed.and_then(|name| known(&name)).or_else(|| known("origin")).or_else(only);
    let Some(name) = name else { return Ok(None) };
    let url = repo.configuration(["remote", "get-url", "--push", "--", &name]).run()?;
    let url = url.line().to_str().ok_or_else(|| url.unexpected())?.to_owned();
    let kept =
        repo.configuration(["config", "-z", "--get-regexp", RECORDED_SETTINGS]).run_unchecked()?;
    let settings = match kept.exit {
        GitExit::Code(0) => kept.items().filter_map(setting).collect(),
        GitExit::Code(1) => Vec::new(),
        GitExit::Code(_) | GitExit::Signal(_) => return Err(kept.failure().into()),
    };
    Ok(Some(RecordedRemote { name, url, settings }))
}

/// Parses a setting as printed by `git config -z`. Settings that are not UTF-8 are ignored.
fn setting(item: &[u8]) -> Option<(String, String)> {
    let (key, value) = std::str::from_utf8(item).ok()?.split_once('\n')?;
    Some((key.to_owned(), value.to_owned()))
}

/// Returns the environment variables for a program that contacts a remote on the user's behalf, in
/// the project's checkout. With them, git uses the directory `place` for everything that the
/// repository's worktrees share, except the objects. Therefore git reads none of the repository's
/// settings, hooks or attributes.
pub fn push_environment(
    git: &Git,
    project: &Project,
    place: &Path,
    like: &Oid,
    settings: &[(String, String)],
) -> Result<Vec<(String, String)>, Error> {
    isolated_repo::init_repo(place, like)?;
    let objects = project.shared(git)?.objects();
    let fixed = SETTINGS.iter().map(|(key, value)| (OsStr::new(key), OsStr::new(value)));
    let kept = settings.iter().map(|(key, value)| (OsStr::new(key), OsStr::new(value)));
    let places = [
        ("GIT_DIR", project.git_dir.as_os_str()),
        ("GIT_COMMON_DIR", place.as_os_str()),
        ("GIT_OBJECT_DIRECTORY", objects.as_os_str()),
        ("GIT_TERMINAL_PROMPT", OsStr::new("0")),
        ("GIT_OPTIONAL_LOCKS", OsStr::new("0")),
        // Replacement objects are disabled, because with such an object, a verified hash could show
        // a different tree.
        ("GIT_NO_REPLACE_OBJECTS", OsStr::new("1")),
    ];
    let places = places.map(|(name, value)| (name.into(), value.to_owned()));
    let all = places.into_iter().chain(guard::as_variables(kept.chain(fixed)));
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    all.map(text).collect::<Option<_>>().ok_or_else(|| Error::NotUtf8(place.to_owned()))
}
