//! Git for Provost: a typed, blocking wrapper over the git command line.
//!
//! It has two goals. First, a **hostile repository** must not be able to run its own programs
//! through Provost. A git call that works on files or refs does not read the repository's
//! configuration (see `isolated_repo`). Every call has a clean environment and all transports
//! disabled. Where the kernel supports it, git can start only its own programs (see `confine`).
//! Second, **no work may be lost**: a user's files and refs are never written to, an agent's work
//! is committed or kept by a ref before anything else happens, and a removal that would lose work
//! is refused, with no option to force it.
//!
//! Known limits: files that need a filter (Git LFS, git-crypt) are refused unless the operator
//! trusts that filter. Nothing is fetched, so a partial clone must contain the objects that a
//! checkout needs. For the same reason, a submodule that the project has not initialized is empty
//! in Provost's checkouts. A snapshot does not contain uncommitted files of an agent inside a
//! submodule, but lists them ([`CheckoutSnapshot::left_out`]).

pub mod command;
pub mod inspect;
pub mod keep_refs;
pub mod landing;
pub mod long_call;
pub mod names;
pub mod overlay;
pub mod pool;
pub mod project;
pub mod remote;
pub mod removal;
pub mod snapshot;
pub mod submodules;
pub mod worktree;

mod confine;
mod escape;
mod filters;
mod guard;
mod index;
mod interrupted;
mod isolated_repo;
mod nested_repos;
mod operation;
mod registry;
mod repo;
mod settings;
mod settings_cache;
mod special_files;
mod unreachable;

pub use command::Git;
pub use escape::printable;
pub use filters::refuse_filtered;
pub use inspect::{
    CommittedFile, FileChange, GitHead, TreeDepth, TreeEntry, TreeEntryKind, changed_among,
    diff_stat, entries_at, files_at, parent_of, read_entries, read_head, tree_of, uncommitted,
};
pub use landing::{
    FastForward, MergeCommit, branch_tip, commit_merge, create_branch, fast_forward,
    files_with_conflict_markers, has_commit, have_common_ancestor, includes, merge, move_branch,
};
pub use names::{BranchName, KeepRef, Oid, RefName, RepoPath};
pub use operation::OngoingOperation;
pub use overlay::{BoundedDiff, CommitPair, OverlayCommit, diff_among, overlay};
pub use pool::{Checkout, Pool, checkout_detached};
pub use project::Project;
pub use remote::{RecordedRemote, push_environment, remote_of};
pub use removal::{BranchFate, RemovalImpact, RemovalRisk, removal_risk, remove_worktree};
pub use snapshot::{
    CheckoutSnapshot, CommitMessage, SnapshotLocation, snapshot_user_checkout, snapshot_worktree,
};
pub use submodules::absent_submodules;
pub use worktree::{Worktree, WorktreeReplacement, unique_branch, worktree_add, worktree_find};
