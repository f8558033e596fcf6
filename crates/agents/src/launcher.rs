//! The native Codex behind the launcher that npm installs.
//!
//! The launcher is a script for node; going through it costs ten times the
//! start of the native program. The native one lies in a package of its own
//! for each platform, which npm puts beside the launcher's package, into it,
//! or (in old versions) leaves out in favour of a folder of the launcher's.

use std::path::{Path, PathBuf};

/// Where the native program is below the folder of its target: first as it
/// was from 0.140 on, then as it was before.
const PROGRAMS: [&str; 2] = ["bin/codex", "codex/codex"];

/// A folder with programs (ripgrep) that the old launchers put into `PATH`;
/// newer versions find theirs by themselves.
const OLD_PATH_FOLDER: &str = "path";

/// A native program and what its launcher would have added to `PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Native {
    pub(crate) program: PathBuf,
    pub(crate) extra_path: Option<PathBuf>,
}

/// Finds the native program behind a launcher, given with all links resolved.
pub(crate) fn native_behind(launcher: &Path) -> Option<Native> {
    let package = package_of(launcher)?;
    let (target, platform) = platform()?;
    vendors(package, platform).iter().find_map(|vendor| native_in(&vendor.join(target)))
}

/// The launcher's package, if the file looks like a launcher: `PACKAGE/bin/codex.js`.
fn package_of(launcher: &Path) -> Option<&Path> {
    let bin = launcher.parent().filter(|bin| bin.ends_with("bin"))?;
    let package = bin.parent()?;
    (launcher.extension()? == "js" && package.join("package.json").is_file()).then_some(package)
}

fn vendors(package: &Path, platform: &str) -> [PathBuf; 3] {
    let scope = package.parent().unwrap_or(package);
    [
        package.join("node_modules/@openai").join(platform).join("vendor"),
        scope.join(platform).join("vendor"),
        package.join("vendor"),
    ]
}

fn native_in(folder: &Path) -> Option<Native> {
    let program = PROGRAMS.iter().map(|place| folder.join(place)).find(|file| file.is_file())?;
    let extra = folder.join(OLD_PATH_FOLDER);
    Some(Native { program, extra_path: extra.is_dir().then_some(extra) })
}

/// The target and the platform's package for this machine.
fn platform() -> Option<(&'static str, &'static str)> {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => Some(("x86_64-unknown-linux-musl", "codex-linux-x64")),
        ("linux", "aarch64") => Some(("aarch64-unknown-linux-musl", "codex-linux-arm64")),
        ("macos", "x86_64") => Some(("x86_64-apple-darwin", "codex-darwin-x64")),
        ("macos", "aarch64") => Some(("aarch64-apple-darwin", "codex-darwin-arm64")),
        _ => None,
    }
}
