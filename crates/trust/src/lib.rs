//! Decides which files in a repository take effect. The operator must have agreed to the exact
//! content of a file.
//!
//! Some files in a repository ([`FILES`]) make Provost or an agent run programs, or extend their
//! permissions. These files take effect only if the operator has agreed to their content with
//! `provost trust`. The user's [`TrustStore`] records the agreed content and its digests.
//!
//! - [`TrustContent`] is the content of a project or workflow file that needs trust. It is pure:
//!   [`TrustContent::from_files`] accepts names and bytes, from a checkout or from a git tree.
//! - [`snapshot`] reads this content from a checkout. Files that belong to other users, files to
//!   which others can write, and links never take effect.
//! - [`TrustStore`] stores whether content is trusted.
//! - [`find_top`] finds the project that contains a directory, without running git.

mod agent;
mod approval;
mod content;
mod digest;
mod owned;
mod project;
mod read;
mod store;

pub use agent::{agent_digest, has_agent_files};
pub use approval::{TRUST_RELEVANT, approval_patterns};
pub use content::{
    AGENT_PATHS, ContentChange, ContentEntry, ContentPart, FILES, TrustContent, agent_directory,
    is_relevant,
};
pub use digest::{DigestError, TrustDigest};
pub use owned::OwnershipError;
pub use project::{UnsafeProject, check_owner, find_top, main_top};
pub use read::{
    Error as ReadError, MAX_BYTES, MAX_FILE, MAX_FILES, ProjectSnapshot, read_workflow, snapshot,
};
pub use store::{AgreedContent, Error as StoreError, MAX_CONTENTS, TrustEntry, TrustStore};
