//! The locations in which to search for Codex: the directories in `PATH`, and those that package
//! managers use.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use provost_sys::agent_file;

/// The name of the program.
const PROGRAM: &str = "codex";

/// The maximum number of candidates. An ordinary machine has fewer.
pub(crate) const MAX_CANDIDATES: usize = 64;

/// The maximum number of bytes to read from `~/.npmrc`.
const NPMRC_LIMIT: u64 = 64 * 1024;

/// Known locations below the user's home. `*` matches every directory there.
const HOME_PATHS: [&str; 19] = [
    ".local/bin",
    ".npm-global/bin",
    ".npm-packages/bin",
    "node_modules/.bin",
    ".volta/bin",
    ".bun/bin",
    ".cargo/bin",
    ".local/share/pnpm",
    "Library/pnpm",
    ".yarn/bin",
    ".config/yarn/global/node_modules/.bin",
    ".nvm/versions/node/*/bin",
    ".local/share/fnm/node-versions/*/installation/bin",
    ".local/share/mise/installs/node/*/bin",
    ".asdf/installs/nodejs/*/bin",
    ".nodenv/versions/*/bin",
    ".nix-profile/bin",
    ".codex/packages/standalone/current/bin",
    ".codex/packages/standalone/current",
];

/// Known system-wide locations.
const SYSTEM_PATHS: [&str; 5] =
    ["/usr/local/bin", "/opt/homebrew/bin", "/usr/bin", "/snap/bin", "/run/current-system/sw/bin"];

/// The place where a candidate was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CandidateOrigin {
    /// The user specified this program, so the search was skipped.
    Named,
    /// The candidate is in a directory in `PATH`.
    Path,
    /// The candidate is in npm's global prefix, as set in `~/.npmrc`.
    NpmPrefix,
    /// The candidate is in a location that package managers use.
    KnownPlace,
}

/// Returns every file named `codex` in `PATH` and in known locations. Among equal versions, earlier
/// files are preferred. Relative entries of `PATH` are skipped, because they depend on the current
/// directory.
pub(crate) fn candidates(path: &OsStr, home: &Path) -> Vec<(PathBuf, CandidateOrigin)> {
    let of_path = std::env::split_paths(path).map(|dir| (dir, CandidateOrigin::Path));
    let npm = npm_prefix(home).map(|prefix| (prefix.join("bin"), CandidateOrigin::NpmPrefix));
    let below = HOME_PATHS.iter().flat_map(|place| expand(home, place));
    let machine = SYSTEM_PATHS.iter().map(PathBuf::from);
    let known = below.chain(machine).map(|dir| (dir, CandidateOrigin::KnownPlace));
    let all = of_path.chain(npm).chain(known).filter(|(dir, _)| dir.is_absolute());
    let files = all.map(|(dir, origin)| (dir.join(PROGRAM), origin));
    files.filter(|(file, _)| exists(file)).take(MAX_CANDIDATES).collect()
}

/// Whether the file exists. A dangling symbolic link counts, and is later reported as not
/// executable.
fn exists(file: &Path) -> bool {
    file.symlink_metadata().is_ok_and(|seen| !seen.is_dir())
}

fn expand(home: &Path, place: &str) -> Vec<PathBuf> {
    let Some((before, after)) = place.split_once("/*/") else { return vec![home.join(place)] };
    let entries = fs::read_dir(home.join(before)).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path().join(after)).collect();
    found.sort();
    found
}

fn npm_prefix(home: &Path) -> Option<PathBuf> {
    let file = home.join(".npmrc");
    let bytes = agent_file::read_linked(&file, NPMRC_LIMIT).ok()?;
    prefix_of(&String::from_utf8(bytes).ok()?, home)
}

/// Returns the `prefix` setting of an npmrc file, with the home directory expanded.
fn prefix_of(npmrc: &str, home: &Path) -> Option<PathBuf> {
    let mut settings = npmrc.lines().filter_map(|line| line.split_once('='));
    let prefix = settings.rfind(|(key, _)| key.trim() == "prefix")?.1;
    let prefix = prefix.trim().trim_matches(['"', '\'']);
    let below = ["~/", "${HOME}/", "$HOME/"].iter().find_map(|start| prefix.strip_prefix(start));
    Some(below.map_or_else(|| PathBuf::from(prefix), |rest| home.join(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_of_npm_is_read() {
        let home = Path::new("/u");
        let prefix = |text| prefix_of(text, home);
        assert_eq!(prefix("a=b\nprefix = ~/npm\n"), Some(PathBuf::from("/u/npm")));
        assert_eq!(prefix("prefix=\"${HOME}/x\""), Some(PathBuf::from("/u/x")));
        assert_eq!(prefix("prefix=/opt/npm"), Some(PathBuf::from("/opt/npm")));
        assert_eq!(prefix("registry=x"), None);
    }
}
