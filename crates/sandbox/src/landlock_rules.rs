//! The Landlock rules that enforce a plan, as far as Landlock can.
//!
//! A Landlock rule grants access to a directory and everything below it, and nothing can be
//! excluded. If a directory contains a path with less access, the rules therefore grant access to
//! each other entry of the directory. An entry that is created later is not accessible.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::fs::{Mode, OFlags};

use crate::plan::{NetworkAccess, PathAccess, SandboxMode, SandboxPlan};

/// The oldest Landlock version that can enforce a plan: it restricts truncation and TCP.
pub const REQUIRED_ABI: u32 = 4;

/// Device files that a command may write to.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

/// Access to a path and everything below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandlockRule {
    pub path: PathBuf,
    pub writable: bool,
}

/// Returns the rules for a plan. `list` returns the entries of a directory that are not symbolic
/// links, because the access to the target of a link depends on the target's own path.
pub fn rules(
    plan: &SandboxPlan,
    list: &dyn Fn(&Path) -> io::Result<Vec<PathBuf>>,
) -> io::Result<Vec<LandlockRule>> {
    let mut granting = Granting { plan, list, rules: Vec::new() };
    granting.visit(Path::new("/"))?;
    granting.add_devices();
    Ok(granting.rules)
}

/// The effective access at this level, where a directory cannot be replaced by another one.
fn access_to(plan: &SandboxPlan, path: &Path) -> PathAccess {
    match plan.rule_for(path) {
        Some(rule) if rule.source.is_some() => PathAccess::Hidden,
        Some(rule) => rule.access,
        None => PathAccess::Readable,
    }
}

/// Returns the entry of a directory that contains a path, or is that path.
fn entry_towards(directory: &Path, path: &Path) -> Option<PathBuf> {
    let name = path.strip_prefix(directory).ok()?.components().next()?;
    Some(directory.join(name))
}

struct Granting<'a> {
    plan: &'a SandboxPlan,
    list: &'a dyn Fn(&Path) -> io::Result<Vec<PathBuf>>,
    rules: Vec<LandlockRule>,
}

impl Granting<'_> {
    fn visit(&mut self, path: &Path) -> io::Result<()> {
        let access = access_to(self.plan, path);
        let below: Vec<PathBuf> =
            self.plan.rules_below(path).map(|rule| rule.path.clone()).collect();
        let is_excluded = |path: &PathBuf| access_to(self.plan, path) < access;
        if access > PathAccess::Hidden && !below.iter().any(is_excluded) {
            self.grant(path, access);
        } else if access > PathAccess::Hidden {
            let mut entries: BTreeSet<PathBuf> = (self.list)(path)?.into_iter().collect();
            // A directory that cannot be listed may still lead to a path that has a rule.
            entries.extend(below.iter().filter_map(|rule| entry_towards(path, rule)));
            for entry in entries {
                self.visit(&entry)?;
            }
            return Ok(());
        }
        // The remaining rules below grant more access than the path itself.
        for rule in below {
            if access_to(self.plan, &rule) > access {
                self.visit(&rule)?;
            }
        }
        Ok(())
    }

    fn grant(&mut self, path: &Path, access: PathAccess) {
        let writable = access == PathAccess::Writable;
        self.rules.push(LandlockRule { path: path.to_owned(), writable });
    }

    fn add_devices(&mut self) {
        for device in DEVICES.iter().map(Path::new) {
            if access_to(self.plan, device) == PathAccess::Readable {
                self.grant(device, PathAccess::Writable);
            }
        }
    }
}

/// Lists a directory for [`rules`]. A directory that cannot be read grants nothing.
pub fn list_directory(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Vec::new()),
        // A file has no entries, and a directory may have just been removed.
        Err(error) if is_no_directory(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn is_no_directory(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The reason why a thread could not be restricted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not list the directories for the sandbox")]
    List(#[from] io::Error),
    #[error("could not apply the Landlock rules")]
    Landlock(#[from] RulesetError),
}

/// Restricts this thread, and everything that it starts, to a plan.
pub fn restrict_thread(plan: &SandboxPlan) -> Result<(), Error> {
    if plan.mode == SandboxMode::Off {
        return Ok(());
    }
    let rules = rules(plan, &list_directory)?;
    let hard = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let mut ruleset = hard.handle_access(AccessFs::from_all(ABI::V3))?;
    if plan.network == NetworkAccess::Off {
        ruleset = ruleset.handle_access(AccessNet::from_all(ABI::V4))?;
    }
    let ruleset = ruleset
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::IoctlDev)?
        .scope(Scope::from_all(ABI::V6))?;
    let mut created = ruleset.create()?;
    created = created.add_rule(PathBeneath::new(open("/")?, AccessFs::ReadDir))?;
    for rule in rules {
        let Ok(file) = open(&rule.path) else { continue };
        let rights =
            if rule.writable { AccessFs::from_all(ABI::V5) } else { AccessFs::from_read(ABI::V5) };
        created = created.add_rule(PathBeneath::new(file, rights))?;
    }
    created.restrict_self()?;
    Ok(())
}

/// Restricts this thread to processes and abstract sockets of its own sandbox, if the kernel can.
pub(crate) fn restrict_scope() -> Result<(), RulesetError> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    ruleset.scope(Scope::from_all(ABI::V6))?.create()?.restrict_self()?;
    Ok(())
}

/// Opens a path as the subject of a rule. A link that has just replaced a file grants nothing,
/// because the link itself is opened.
fn open(path: impl AsRef<Path>) -> io::Result<std::os::fd::OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path.as_ref(), flags, Mode::empty())?)
}
