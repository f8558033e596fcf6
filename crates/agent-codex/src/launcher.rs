//! Finds the native Codex behind the launcher that npm installs.
//!
//! The launcher is a node script, and starting Codex through it takes ten times as long as starting
//! the native program directly. There is a separate package with the native program for each
//! platform, which npm installs beside the launcher's package or inside it. In old versions, the
//! program is in a directory of the launcher's package.

use std::path::{Path, PathBuf};

/// The paths at which the native program may be, below the directory of its target. Versions since
/// 0.140 use the first path, and older versions use the second.
const PROGRAMS: [&str; 2] = ["bin/codex", "codex/codex"];

/// A directory with programs (such as ripgrep) that old launchers add to `PATH`. Newer versions
/// find these programs without it.
const OLD_PATH_FOLDER: &str = "path";

/// A native program, and the directory that its launcher would add to `PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NativeProgram {
    pub(crate) program: PathBuf,
    pub(crate) extra_path: Option<PathBuf>,
}

/// Finds the native program behind a launcher. The launcher's path must have all symbolic links
/// resolved.
pub(crate) fn native_behind(launcher: &Path) -> Option<NativeProgram> {
    let package = package_of(launcher)?;
    let (target, platform) = platform()?;
    vendors(package, platform).iter().find_map(|vendor| native_in(&vendor.join(target)))
}

/// Returns the launcher's package, if the file looks like a launcher (`PACKAGE/bin/codex.js`).
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

fn native_in(folder: &Path) -> Option<NativeProgram> {
    let program = PROGRAMS.iter().map(|place| folder.join(place)).find(|file| file.is_file())?;
    let extra = folder.join(OLD_PATH_FOLDER);
    Some(NativeProgram { program, extra_path: extra.is_dir().then_some(extra) })
}

/// Returns the target and the platform package for this machine.
fn platform() -> Option<(&'static str, &'static str)> {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => Some(("x86_64-unknown-linux-musl", "codex-linux-x64")),
        ("linux", "aarch64") => Some(("aarch64-unknown-linux-musl", "codex-linux-arm64")),
        ("macos", "x86_64") => Some(("x86_64-apple-darwin", "codex-darwin-x64")),
        ("macos", "aarch64") => Some(("aarch64-apple-darwin", "codex-darwin-arm64")),
        _ => None,
    }
}
