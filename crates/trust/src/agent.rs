//! Whether an agent's own trust in a worktree follows from the user's consent.

use std::path::Path;

use crate::{
    TrustContent, TrustDigest,
    content::CODEX,
    read::{Error, codex_files},
};

/// Returns the digest of the files that Codex would read in a worktree if it trusted it. `None` if
/// there are no such files, or if a directory between the top and the working directory has its
/// own, which were not shown to the user.
pub fn agent_digest(top: &Path, cwd: &Path) -> Result<Option<TrustDigest>, Error> {
    if has_nested(top, cwd) {
        return Ok(None);
    }
    let content = TrustContent::from_files(codex_files(top)?);
    Ok((!content.is_empty()).then(|| content.digest()))
}

/// Whether Codex would find its own files between a top and a working directory.
pub fn has_agent_files(top: &Path, cwd: &Path) -> bool {
    top.join(CODEX).symlink_metadata().is_ok() || has_nested(top, cwd)
}

fn has_nested(top: &Path, cwd: &Path) -> bool {
    let below = cwd.ancestors().take_while(|dir| *dir != top && dir.starts_with(top));
    below.into_iter().any(|dir| dir.join(CODEX).symlink_metadata().is_ok())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn nested_files_void_the_digest() {
        let dir = tempfile::tempdir().unwrap();
        let (top, cwd) = (dir.path(), dir.path().join("a/b"));
        fs::create_dir_all(&cwd).unwrap();
        assert_eq!(agent_digest(top, &cwd).unwrap(), None);
        assert!(!has_agent_files(top, &cwd));
        fs::create_dir(top.join(CODEX)).unwrap();
        fs::write(top.join(".codex/config.toml"), "").unwrap();
        assert!(agent_digest(top, &cwd).unwrap().is_some());
        fs::create_dir(top.join("a/.codex")).unwrap();
        assert_eq!(agent_digest(top, &cwd).unwrap(), None);
        assert!(agent_digest(top, top).unwrap().is_some());
    }
}
