//! Sandboxes for commands: which files, network and processes a command can reach.
//!
//! A [`SandboxRequest`] names the directories that a command needs. [`SandboxRequest::resolve`]
//! turns it into a [`SandboxPlan`], which is plain data. A plan is enforced at one of two levels:
//! by bubblewrap ([`bubblewrap::arguments`]) or by Landlock ([`landlock_rules::rules`]).
//! [`probe`] determines which level this machine supports.
//!
//! A command enters its sandbox through a helper program, because no code may run between `fork`
//! and `exec` of the command: see [`enter`].

pub mod bubblewrap;
pub mod enter;
pub mod landlock_rules;
pub mod private_paths;
pub mod probe;
pub mod status;

mod git_dirs;
mod plan;
mod request;

pub use git_dirs::GitDirs;
pub use plan::{
    FileKind, NetworkAccess, PathAccess, PathRule, ProcessLimits, SandboxLevel, SandboxMode,
    SandboxPlan,
};
pub use request::{Error, SandboxRequest};
