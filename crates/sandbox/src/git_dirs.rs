//! The parts of a repository that a command needs for `git commit` in a worktree.
//!
//! A commit in a linked worktree writes objects, and the worktree's own index, HEAD and logs. With
//! a detached HEAD, it writes no ref that other worktrees share. Therefore `refs`, `packed-refs`,
//! `config`, `hooks` and everything else in the shared directory can be read only. Provost advances
//! the branch later, outside of the sandbox.

use std::path::{Path, PathBuf};

/// The git directories of a checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitDirs {
    /// The worktree's own directory, such as `.git/worktrees/NAME`.
    pub own: PathBuf,
    /// The directory that all worktrees of the repository share.
    pub shared: PathBuf,
}

impl GitDirs {
    /// Whether the checkout shares its repository with others. Otherwise its git directory contains
    /// the configuration and the hooks, so nothing in it may be written.
    pub(crate) fn is_linked(&self) -> bool {
        self.own != self.shared
    }

    /// Returns the directories that `git commit` writes to.
    pub(crate) fn writable(&self) -> Vec<PathBuf> {
        if self.is_linked() {
            vec![self.own.clone(), self.shared.join("objects")]
        } else {
            Vec::new()
        }
    }

    /// Returns the files and directories in writable directories that determine which repository
    /// and which settings git uses, and the objects of earlier packs.
    pub(crate) fn frozen(&self, worktree: &Path) -> Vec<PathBuf> {
        if !self.is_linked() {
            return Vec::new();
        }
        let own = ["commondir", "gitdir", "config.worktree", "locked"];
        let objects = ["info", "pack"];
        let own = own.iter().map(|name| self.own.join(name));
        let shared = objects.iter().map(|name| self.shared.join("objects").join(name));
        std::iter::once(worktree.join(".git")).chain(own).chain(shared).collect()
    }
}
