//! The arguments of bubblewrap (`bwrap`) that enforce a plan.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::plan::{
    FileKind, NetworkAccess, PathAccess, PathRule, SandboxLevel, SandboxMode, SandboxPlan,
};

/// The file that replaces hidden files.
const EMPTY_FILE: &str = "/dev/null";

/// The files with which root could change the kernel even without capabilities.
const KERNEL_SETTINGS: &[&str] =
    &["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"];

/// Returns the arguments that precede the command. Bubblewrap applies mounts in order, so a rule
/// follows the rules for its parents.
pub fn arguments(plan: &SandboxPlan) -> Vec<OsString> {
    let mut all = BwrapArguments(Vec::new());
    all.add(&["--die-with-parent", "--unshare-pid"]);
    if plan.mode == SandboxMode::Off {
        all.add(&["--dev-bind", "/", "/", "--proc", "/proc"]);
    } else {
        all.add_restricted(plan);
    }
    all.add(&["--chdir"]);
    all.0.push(plan.directory.clone().into());
    all.add(&["--"]);
    all.0
}

struct BwrapArguments(Vec<OsString>);

impl BwrapArguments {
    fn add(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn add_mount(&mut self, option: &str, source: &Path, at: &Path) {
        self.0.extend([OsString::from(option), source.into(), at.into()]);
    }

    fn add_restricted(&mut self, plan: &SandboxPlan) {
        // Bubblewrap lets root keep its capabilities, with which a command could undo the mounts.
        self.add(&["--cap-drop", "ALL"]);
        self.add(&["--unshare-user-try", "--unshare-ipc", "--unshare-cgroup-try"]);
        if plan.network == NetworkAccess::Off {
            self.add(&["--unshare-net"]);
        }
        self.add(&["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
        for settings in KERNEL_SETTINGS {
            self.add(&["--ro-bind-try", settings, settings]);
        }
        for rule in &plan.rules {
            self.add_rule(rule);
        }
        for path in &plan.frozen {
            self.add_mount("--ro-bind", path, path);
        }
        // A hidden directory stays writable until the mount points in it exist.
        for path in hidden_directories(plan) {
            self.add(&["--remount-ro"]);
            self.0.push(path.into());
        }
        for name in &plan.removed_variables {
            self.add(&["--unsetenv", name]);
        }
        self.add(&["--setenv", "TMPDIR"]);
        self.0.push(plan.temporary_at(SandboxLevel::Full).into());
    }

    fn add_rule(&mut self, rule: &PathRule) {
        let source: &Path = rule.source.as_deref().unwrap_or(&rule.path);
        match (rule.access, rule.kind) {
            (PathAccess::Hidden, FileKind::Directory) => {
                self.add(&["--perms", "0555", "--tmpfs"]);
                self.0.push(rule.path.clone().into());
            }
            (PathAccess::Hidden, FileKind::File) => {
                self.add_mount("--ro-bind", Path::new(EMPTY_FILE), &rule.path);
            }
            (PathAccess::Readable, _) => self.add_mount("--ro-bind", source, &rule.path),
            (PathAccess::Writable, _) => self.add_mount("--bind", source, &rule.path),
        }
    }
}

fn hidden_directories(plan: &SandboxPlan) -> impl Iterator<Item = &PathBuf> {
    let is_hidden_directory =
        |rule: &&PathRule| rule.access == PathAccess::Hidden && rule.kind == FileKind::Directory;
    plan.rules.iter().filter(is_hidden_directory).map(|rule| &rule.path)
}
