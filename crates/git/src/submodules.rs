//! Fills submodules in Provost's checkouts from repositories on this machine.
//!
//! Nothing is fetched. A submodule is created from an existing repository of the submodule in the
//! project or in the worktree under check. The new repository borrows the objects of that source,
//! and its location is the one that `git submodule` would use, in the git directory of the
//! checkout. Nothing is written to the source, and only the origin is copied from its
//! configuration.
//!
//! A submodule that is not on this machine stays an empty directory, as in the project, and
//! [`absent_submodules`] lists it. If a submodule lacks the required commit, that is an error,
//! because checking a different tree would prove nothing.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use crate::command::{self, Git, GitExit};
use crate::filters;
use crate::inspect::parse_tree_line;
use crate::names::{Oid, RepoPath};
use crate::project::Project;
use crate::repo::{Repo, RepoLocation};

/// The mode of a submodule in a tree.
const SUBMODULE_MODE: &str = "160000";

/// The maximum nesting depth of submodules.
pub(crate) const MAX_DEPTH: usize = 8;

/// The ref that keeps the commit at which a submodule was created, and marks that commit as
/// available elsewhere.
const BASE_REF: &str = "refs/remotes/provost/base";

/// The reason why the submodules of a checkout cannot be filled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot fill the submodule {path}: its commit {commit} is not on this machine")]
    NoCommit { path: RepoPath, commit: Oid },
    #[error("cannot fill the submodule {path}: {why}")]
    Unusable { path: RepoPath, why: &'static str },
    #[error(transparent)]
    Git(#[from] command::Error),
}

/// A checkout that may contain the required submodules.
#[derive(Debug, Clone)]
pub(crate) struct SubmoduleSource {
    top: PathBuf,
    git_dir: PathBuf,
}

/// Returns the submodules of the project's commit that are not on this machine. They are empty in
/// all of Provost's checkouts.
pub fn absent_submodules(git: &Git, project: &Project) -> Result<Vec<RepoPath>, Error> {
    let repo = project.repo(git)?;
    let sources = SubmoduleSource::of_project(project);
    let mut absent = Vec::new();
    for link in links(&repo)? {
        if find(git, &link, &sources)?.is_none() {
            absent.push(link.path);
        }
    }
    Ok(absent)
}

/// Fills the submodules of a checkout that is not yet in use.
pub(crate) fn fill(repo: &Repo<'_>, sources: &[SubmoduleSource]) -> Result<(), Error> {
    fill_to(repo, sources, MAX_DEPTH)
}

impl Error {
    /// Returns a hint for the user, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoCommit { .. } => Some(
                "fetch the commit with `git submodule update --init --recursive` in the project",
            ),
            Self::Unusable { .. } | Self::Git(_) => None,
        }
    }
}

impl SubmoduleSource {
    pub(crate) fn new(top: &Path, git_dir: &Path) -> Self {
        Self { top: top.to_owned(), git_dir: git_dir.to_owned() }
    }

    /// Returns the project's checkout and, for a linked worktree, the git directory that all
    /// worktrees share.
    pub(crate) fn of_project(project: &Project) -> Vec<Self> {
        let own = Self::new(&project.top, &project.git_dir);
        let shared = Self::new(&project.top, &project.common_dir);
        if project.is_linked() { vec![own, shared] } else { vec![own] }
    }

    /// Returns the repositories in which the submodule may be found.
    fn candidates<'a>(&self, git: &'a Git, link: &SubmoduleLink) -> Result<Vec<Repo<'a>>, Error> {
        let mut found = Vec::new();
        found.extend(Repo::open_at(git, &self.top.join(link.path.as_path()))?);
        let kept = self.git_dir.join("modules").join(&link.name);
        if kept.join("HEAD").is_file() {
            found.push(Repo::open(
                git,
                RepoLocation { git_dir: &kept, common_dir: &kept, top: &kept },
            )?);
        }
        Ok(found)
    }
}

/// A submodule that a commit requires.
#[derive(Debug)]
struct SubmoduleLink {
    path: RepoPath,
    commit: Oid,
    name: PathBuf,
}

fn fill_to(repo: &Repo<'_>, sources: &[SubmoduleSource], depth: usize) -> Result<(), Error> {
    for link in links(repo)? {
        let Some(source) = find(repo.git(), &link, sources)? else { continue };
        let unusable = |why| Error::Unusable { path: link.path.clone(), why };
        if depth == 0 {
            return Err(unusable("the submodule is nested too deeply"));
        }
        let made = make(repo, &link, &source)?;
        let below = |outer: &SubmoduleSource| outer.top.join(link.path.as_path());
        let mut inner = vec![SubmoduleSource::new(source.top(), source.git_dir())];
        inner.extend(
            sources.iter().map(|outer| SubmoduleSource::new(&below(outer), source.git_dir())),
        );
        fill_to(&made, &inner, depth - 1)?;
    }
    Ok(())
}

/// Finds a repository of the submodule that contains the required commit. Returns `None` if
/// the submodule has no repository at all.
fn find<'a>(
    git: &'a Git,
    link: &SubmoduleLink,
    sources: &[SubmoduleSource],
) -> Result<Option<Repo<'a>>, Error> {
    let mut seen = false;
    for source in sources {
        for repo in source.candidates(git, link)? {
            let wanted = repo.resolve(format!("{}^{{commit}}", link.commit))?;
            if wanted.as_ref() == Some(&link.commit) {
                return Ok(Some(repo));
            }
            seen = true;
        }
    }
    if seen {
        return Err(Error::NoCommit { path: link.path.clone(), commit: link.commit.clone() });
    }
    Ok(None)
}

/// Creates the submodule's repository and checks out its commit. Parts that already exist were
/// created by an earlier attempt that a crash interrupted.
fn make<'a>(repo: &Repo<'a>, link: &SubmoduleLink, source: &Repo<'_>) -> Result<Repo<'a>, Error> {
    let top = repo.top().join(link.path.as_path());
    let git_dir = repo.git_dir().join("modules").join(&link.name);
    let unusable = |why| Error::Unusable { path: link.path.clone(), why };
    if top.canonicalize().map_err(command::Error::file(&top))? != top {
        return Err(unusable("a link leads out of the checkout"));
    }
    clear(&top).and_then(|()| clear(&git_dir)).map_err(command::Error::file(&top))?;
    let format = if link.commit.as_str().len() > 40 { "sha256" } else { "sha1" };
    let options = ["init", "--quiet", "--template=", "--object-format"].map(OsStr::new);
    let place = [OsStr::new(format), OsStr::new("--separate-git-dir"), git_dir.as_os_str()];
    let args = options.into_iter().chain(place).chain([top.as_os_str()]);
    repo.git().call(&top).args(args).without_user_settings().run()?;
    borrow(&git_dir, &source.objects()).map_err(command::Error::file(&git_dir))?;
    let place = RepoLocation { git_dir: &git_dir, common_dir: &git_dir, top: &top };
    let made = Repo::open(repo.git(), place)?;
    set(&made, "core.worktree", top.as_os_str())?;
    name_origin(&made, source)?;
    made.write(["update-ref", "--stdin"]).input(remote_refs(link, source)?).run()?;
    made.write(["update-ref", "--no-deref", "HEAD", link.commit.as_str()]).run()?;
    filters::refuse_tree(&made, &link.commit)?;
    made.reset_hard()?;
    Ok(made)
}

/// Writes a setting to the configuration of a newly created repository.
fn set(made: &Repo<'_>, key: &str, value: &OsStr) -> Result<(), command::Error> {
    let file = made.git_dir().join("config");
    let args =
        [OsStr::new("config"), OsStr::new("--file"), file.as_os_str(), OsStr::new(key), value];
    made.write(args).run().map(drop)
}

/// Replaces any entry at the path with an empty directory.
fn clear(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    fs::create_dir_all(directory)
}

/// Makes a repository borrow the objects of another one.
fn borrow(git_dir: &Path, objects: &Path) -> io::Result<()> {
    let bytes = objects.as_os_str().as_bytes();
    if bytes.contains(&b'\n') || bytes.starts_with(b"\"") {
        return Err(io::Error::other(
            "git cannot use objects from a directory whose name contains a line break or starts with a quote",
        ));
    }
    let info = git_dir.join("objects/info");
    fs::create_dir_all(&info)?;
    fs::write(info.join("alternates"), [bytes, b"\n"].concat())
}

/// Sets the submodule's origin to that of its source, so that its commits can be pushed. Copies
/// nothing else from the source's configuration.
fn name_origin(made: &Repo<'_>, source: &Repo<'_>) -> Result<(), Error> {
    let known = source.configuration(["config", "--get", "remote.origin.url"]).run_unchecked()?;
    // Git rejects a URL that looks like an option.
    if known.exit != GitExit::Code(0) || known.stdout.starts_with(b"-") {
        return Ok(());
    }
    set(made, "remote.origin.url", known.line())?;
    let all = OsStr::new("+refs/heads/*:refs/remotes/origin/*");
    Ok(set(made, "remote.origin.fetch", all)?)
}

/// Returns the commands that create the submodule's remote refs. These refs are copied from the
/// source, so that published commits can be distinguished from new work.
fn remote_refs(link: &SubmoduleLink, source: &Repo<'_>) -> Result<Vec<u8>, Error> {
    let format = "--format=create %(refname) %(objectname)";
    let mut refs = source.read(["for-each-ref", format, "refs/remotes/"]).run()?.stdout;
    let base = format!("update {BASE_REF} {}\n", link.commit);
    // If the source is itself one of Provost's checkouts, it already has that ref.
    let own = format!("create {BASE_REF} ");
    refs =
        lines(&refs).filter(|line| !line.starts_with(own.as_bytes())).collect::<Vec<_>>().concat();
    refs.extend_from_slice(base.as_bytes());
    Ok(refs)
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
}

/// Returns the submodules that a checkout's commit contains and that `.gitmodules` names.
fn links(repo: &Repo<'_>) -> Result<Vec<SubmoduleLink>, Error> {
    if repo.resolve("HEAD:.gitmodules")?.is_none() {
        return Ok(Vec::new());
    }
    let names = names(repo)?;
    let tree = repo.read(["ls-tree", "-r", "-z", "HEAD"]).run()?;
    let mut links = Vec::new();
    for item in tree.items() {
        let entry = parse_tree_line(item).ok_or_else(|| tree.unexpected())?;
        if entry.mode != SUBMODULE_MODE {
            continue;
        }
        let commit = Oid::new(entry.object).map_err(|_| tree.unexpected())?;
        let named = names.iter().find(|(_, named)| named == entry.path);
        links.extend(named.map(|(name, _)| SubmoduleLink {
            path: RepoPath::new(entry.path),
            commit,
            name: name.clone(),
        }));
    }
    Ok(links)
}

/// Returns the names of the submodules with their paths. Like git, skips names that could lead out
/// of the `modules` directory.
fn names(repo: &Repo<'_>) -> Result<Vec<(PathBuf, Vec<u8>)>, Error> {
    let args =
        ["config", "--blob", "HEAD:.gitmodules", "-z", "--get-regexp", r"^submodule\..*\.path$"];
    let answer = repo.read(args).run_unchecked()?;
    match answer.exit {
        GitExit::Code(0) => Ok(answer.items().filter_map(parse_name).collect()),
        GitExit::Code(1) => Ok(Vec::new()),
        GitExit::Code(_) | GitExit::Signal(_) => Err(answer.failure().into()),
    }
}

/// Parses `submodule.NAME.path`, a line feed, and the path.
fn parse_name(item: &[u8]) -> Option<(PathBuf, Vec<u8>)> {
    let end = item.iter().position(|byte| *byte == b'\n')?;
    let name = item[..end].strip_prefix(b"submodule.")?.strip_suffix(b".path")?;
    let name = PathBuf::from(OsString::from_vec(name.to_vec()));
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let inside = !name.as_os_str().is_empty() && name.components().all(plain);
    inside.then(|| (name, item[end + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_stays_in_the_modules_directory() {
        let name = |text: &str| parse_name(format!("submodule.{text}.path\nlib").as_bytes());
        assert_eq!(name("libs/a.b"), Some(("libs/a.b".into(), b"lib".to_vec())));
        for bad in ["..", "../x", "a/../../x", "/etc", ""] {
            assert!(name(bad).is_none(), "{bad:?}");
        }
    }
}
