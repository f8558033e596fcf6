//! Git for Provost: a typed, blocking wrapper over the git command line.
//!
//! It addresses two dangers. A **hostile repository** must not run its own programs through
//! Provost: git that works on files or refs reads no configuration of the repository (see `apart`).
//! Every call has a clean environment and all transports disabled, and git may start nothing but
//! git where the kernel can enforce it (see `confine`). And **no work may be lost**: a user's files
//! and refs are never written to, an agent's work is committed or kept by a ref before anything
//! else happens, and removal is refused while it would lose something, with no way to force it.
//!
//! Known limits: files that need a filter (Git LFS, git-crypt) are refused unless the operator
//! trusts that filter. Nothing is fetched, so a partial clone must contain the objects that a
//! checkout needs. For the same reason a submodule that the project has not initialised is empty in
//! Provost's checkouts. Uncommitted files of an agent inside a submodule are in no snapshot, which
//! lists them ([`Snapshot::left_out`]).

pub mod command;
pub mod inspect;
pub mod keep;
pub mod landing;
pub mod long;
pub mod names;
pub mod outward;
pub mod overlay;
pub mod pool;
pub mod project;
pub mod removal;
pub mod snapshot;
pub mod submodules;
pub mod worktree;

mod apart;
mod confine;
mod dropped;
mod escape;
mod filters;
mod guard;
mod index;
mod interrupted;
mod known;
mod nested;
mod ongoing;
mod process;
mod registry;
mod repo;
mod settings;

pub use command::Git;
pub use escape::printable;
pub use filters::refuse_filtered;
pub use inspect::{
    FileAt, FileChange, Head, changed_among, diff_stat, files_at, head, parent_of, tree_of,
    uncommitted,
};
pub use landing::{
    Forward, Merged, branch_at, branch_tip, carry, forward, has_commit, includes, merge, related,
    unite, unmended,
};
pub use names::{BranchName, KeepRef, Oid, RefName, RepoPath};
pub use ongoing::Ongoing;
pub use outward::{Remote, outward, remote_of};
pub use overlay::{Diff, Overlay, Versions, diff_among, overlay};
pub use pool::{Checkout, Pool, checkout_detached};
pub use project::Project;
pub use removal::{BranchFate, Removal, Risk, removal_risk, remove_worktree};
pub use snapshot::{Message, Place, Snapshot, snapshot_loose, snapshot_worktree};
pub use submodules::absent_submodules;
pub use worktree::{Replaced, Worktree, unique_branch, worktree_add, worktree_find};
