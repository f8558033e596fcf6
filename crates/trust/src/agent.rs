//! Decides whether the user's consent also allows an agent to trust a worktree.

use std::path::Path;

use crate::{
    TrustContent, TrustDigest,
    content::CODEX,
    read::{Error, codex_files, directories},
};

/// Returns the digest of the files that Codex would read if it trusted a worktree, or `None` if
/// there are no such files.
pub fn agent_digest(top: &Path, cwd: &Path) -> Result<Option<TrustDigest>, Error> {
    let mut files = Vec::new();
    for directory in directories(top, cwd) {
        files.extend(codex_files(&directory)?);
    }
    let content = TrustContent::from_files(files);
    Ok((!content.is_empty()).then(|| content.digest()))
}

/// Whether there are Codex files in any directory from the top down to the working directory.
pub fn has_agent_files(top: &Path, cwd: &Path) -> bool {
    let exists = |path: &Path| path.join(CODEX).symlink_metadata().is_ok();
    directories(top, cwd).iter().any(|directory| exists(&directory.path))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn nested_files_change_the_digest() {
        let dir = tempfile::tempdir().unwrap();
        let (top, cwd) = (dir.path(), dir.path().join("a/b"));
        fs::create_dir_all(&cwd).unwrap();
        assert_eq!(agent_digest(top, &cwd).unwrap(), None);
        assert!(!has_agent_files(top, &cwd));
        fs::create_dir(top.join(CODEX)).unwrap();
        fs::write(top.join(".codex/config.toml"), "").unwrap();
        let alone = agent_digest(top, &cwd).unwrap();
        assert!(alone.is_some());
        fs::create_dir(top.join("a/.codex")).unwrap();
        fs::write(top.join("a/.codex/config.toml"), "").unwrap();
        assert_ne!(agent_digest(top, &cwd).unwrap(), alone);
        assert_eq!(agent_digest(top, top).unwrap(), alone);
    }
}
