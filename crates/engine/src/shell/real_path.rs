//! Resolves the paths in an approval request, because rules compare both a file's name and its real
//! location.

use std::{
    fs,
    path::{Path, PathBuf},
};

use provost_core::{request::ApprovalSubject, session::StreamSignal};

use super::supervised_command;

/// The maximum number of dangling symlinks to follow in a row.
const MAX_LINKS: usize = 40;

/// Adds the real locations of the paths to an approval request. Other signals stay unchanged.
pub(super) async fn with_real_paths(mut signal: StreamSignal, cwd: &Path) -> StreamSignal {
    if let StreamSignal::RequestOpened(asked) = &mut signal
        && let Some(subject) = asked.subject.as_deref_mut().filter(|s| !s.paths.is_empty())
    {
        let (paths, cwd) = (subject.paths.clone(), base_directory(subject, cwd));
        subject.real_paths = supervised_command::blocking(move || {
            paths.iter().map(|path| real_path_text(&cwd.join(path))).collect()
        })
        .await;
    }
    signal
}

fn base_directory(subject: &ApprovalSubject, cwd: &Path) -> PathBuf {
    subject.cwd.as_deref().map_or_else(|| cwd.to_owned(), |own| cwd.join(own))
}

/// Returns the real location as text. If it is unknown or not UTF-8, returns an empty text, which
/// no rule allows.
fn real_path_text(path: &Path) -> String {
    let place =
        resolve_links(path, MAX_LINKS).and_then(|place| place.into_os_string().into_string().ok());
    place.unwrap_or_default()
}

/// Resolves the symlinks in the part of a path that exists, and appends the rest unchanged.
fn resolve_links(path: &Path, links: usize) -> Option<PathBuf> {
    if let Ok(place) = fs::canonicalize(path) {
        return Some(place);
    }
    let parent = path.parent()?;
    match fs::read_link(path) {
        // A file that does not exist yet would be created where the symlink points.
        Ok(target) => resolve_links(&parent.join(target), links.checked_sub(1)?),
        Err(_) => Some(resolve_links(parent, links)?.join(path.file_name()?)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_to_missing_targets_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir(top.join("in")).unwrap();
        symlink("..", top.join("in/out")).unwrap();
        symlink(top.join("later"), top.join("in/dangling")).unwrap();
        symlink("round", top.join("in/round")).unwrap();
        let leads = |path: &str| real_path_text(&top.join(path));
        let place = |path: &str| top.join(path).to_str().unwrap().to_owned();
        assert_eq!(leads("in/new/file"), place("in/new/file"));
        assert_eq!(leads("in/out/x"), place("x"));
        assert_eq!(leads("in/dangling"), place("later"));
        assert_eq!(leads("in/dangling/below"), place("later/below"));
        assert_eq!(leads("in/round"), "", "it leads nowhere");
        assert_eq!(leads("none/../in"), "", "a parent of a missing directory is unknown");
    }
}
