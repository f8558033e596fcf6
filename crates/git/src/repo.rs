//! A repository at a known location, used through a git directory of Provost's own.
//!
//! Provost passes both the git directory and the top directory to git, so that git does not
//! discover them. Otherwise, git could discover a repository in a parent directory after an agent
//! has deleted or rewritten the `.git` file of its worktree.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use provost_sys::{agent_file, clock::now};

use crate::command::{Error, Git, GitCall, GitExit, GitOutput};
use crate::filters;
use crate::guard::GitSetting;
use crate::isolated_repo::StandIn;
use crate::names::{BranchName, Oid, RefName};
use crate::settings::RepoSettings;
use crate::settings_cache::{self, ConfigFiles};
use crate::worktree::MAX_POINTER;

/// The interval between two checks of a lock.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// The lock files that a reset or a move of the checkout needs.
const LOCKS: [&str; 3] = ["index.lock", "HEAD.lock", "ORIG_HEAD.lock"];

/// The number of times that an interrupted reset may be repeated.
const MAX_RESETS: usize = 3;

/// A repository, with the functions that run git in it.
#[derive(Debug, Clone)]
pub(crate) struct Repo<'a> {
    git: &'a Git,
    git_dir: PathBuf,
    common_dir: PathBuf,
    top: PathBuf,
    stand_in: Arc<StandIn>,
    configured: RepoSettings,
    /// The settings of filter drivers that the operator trusts.
    filters: Vec<GitSetting>,
    /// Additional settings for every call.
    settings: Vec<GitSetting>,
    index: Option<PathBuf>,
}

/// The location of a repository.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RepoLocation<'p> {
    pub(crate) git_dir: &'p Path,
    /// The git directory that all worktrees share.
    pub(crate) common_dir: &'p Path,
    pub(crate) top: &'p Path,
}

impl<'a> Repo<'a> {
    /// Opens the repository. Reads its settings as data, and creates the stand-in for its shared
    /// git directory.
    pub(crate) fn open(git: &'a Git, place: RepoLocation<'_>) -> Result<Self, Error> {
        let configured = settings_of(git, place)?;
        let stand_in = git.stand_ins().get(git.scratch(), place.common_dir, &configured.format)?;
        let filters = if configured.filters.is_empty() {
            Vec::new()
        } else {
            configured.filters.trusted(&git.trusted_filters())
        };
        Ok(Self {
            git,
            git_dir: place.git_dir.to_owned(),
            common_dir: place.common_dir.to_owned(),
            top: place.top.to_owned(),
            stand_in,
            settings: configured.adopted.clone(),
            configured,
            filters,
            index: None,
        })
    }

    /// Opens the repository whose top is exactly this directory, if there is one.
    pub(crate) fn open_at(git: &'a Git, top: &Path) -> Result<Option<Self>, Error> {
        if !top.is_dir() {
            return Ok(None);
        }
        let ask = |what| {
            let answer = git
                .call(top)
                .args(["rev-parse", "--path-format=absolute", what])
                .run_unchecked()?;
            Ok::<_, Error>((answer.exit == GitExit::Code(0)).then(|| PathBuf::from(answer.line())))
        };
        let (found, git_dir) = (ask("--show-toplevel")?, ask("--absolute-git-dir")?);
        match (found, git_dir, ask("--git-common-dir")?) {
            (Some(found), Some(git_dir), Some(common_dir)) if found == top => {
                let place = RepoLocation { git_dir: &git_dir, common_dir: &common_dir, top };
                Ok(Some(Self::open(git, place)?))
            }
            _ => Ok(None),
        }
    }

    /// Returns the same repository with another index file.
    pub(crate) fn with_index(&self, index: &Path) -> Self {
        Self { index: Some(index.to_owned()), ..self.clone() }
    }

    /// Adds a setting for every call.
    pub(crate) fn with_setting(mut self, key: &str, value: &str) -> Self {
        self.settings.push((key.into(), value.into()));
        self
    }

    pub(crate) fn git(&self) -> &'a Git {
        self.git
    }

    pub(crate) fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    pub(crate) fn top(&self) -> &Path {
        &self.top
    }

    /// Returns the settings that were read from the configuration.
    pub(crate) fn configured(&self) -> &RepoSettings {
        &self.configured
    }

    /// Prepares a read-only call, which takes no locks and does not refresh the index.
    pub(crate) fn read<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> GitCall<'a> {
        self.write(args).variable("GIT_OPTIONAL_LOCKS", "0")
    }

    /// Prepares a call that reads the checkout's files or compares them with the index.
    pub(crate) fn read_files<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> GitCall<'a> {
        self.read(args).filters(&self.filters)
    }

    /// Prepares a call that writes the checkout's files or adds them to the index.
    pub(crate) fn write_files<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> GitCall<'a> {
        self.write(args).filters(&self.filters)
    }

    /// Runs a call that writes the files of the checkout and may take a long time. If git has a
    /// runner for long calls, the call runs outside this process.
    pub(crate) fn change_files<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> Result<GitOutput, Error> {
        let Some(calls) = self.git.long_calls() else {
            return self.write_files(args).run_unchecked();
        };
        let format = &self.configured.format;
        let stand_in = StandIn::for_long_call(self.git.scratch(), &self.common_dir, format)?;
        let answer = self.write_with(&stand_in, args).filters(&self.filters).run_long(calls);
        if !matches!(answer, Err(Error::Abandoned { .. })) {
            // A directory that cannot be removed now will be removed by the next sweep.
            fs::remove_dir_all(&stand_in).ok();
        }
        answer
    }

    /// Runs a call that needs the checkout's index, and waits while another program holds the lock.
    /// Never removes another program's lock, but removes a lock left by one of Provost's own calls.
    pub(crate) fn when_unlocked(
        &self,
        call: impl Fn(&Self) -> Result<GitOutput, Error>,
    ) -> Result<GitOutput, Error> {
        let limit = self.git.lock_limit();
        let until = now() + limit;
        loop {
            let answer = call(self)?;
            if answer.exit == GitExit::Code(0)
                || !answer.stderr_contains("index.lock': File exists")
            {
                return Ok(answer);
            }
            let path = self.git_dir.join("index.lock");
            if !self.is_unlocked_by(&path, until)? {
                return Err(Error::Locked { path, limit });
            }
        }
    }

    /// Resets the files of Provost's own worktree to its HEAD. No other process may be using the
    /// worktree.
    pub(crate) fn reset_hard(&self) -> Result<(), Error> {
        if !self.git.cut_off_calls().is_empty() {
            self.remove_locks()?;
        }
        let mut tries = 0;
        loop {
            tries += 1;
            match self.change_files(["reset", "--hard", "--quiet"]) {
                Err(Error::Interrupted { .. }) if tries < MAX_RESETS => self.remove_locks()?,
                Err(error) => return Err(error),
                Ok(answer) if answer.exit == GitExit::Code(0) => return Ok(()),
                Ok(answer) => return Err(answer.failure()),
            }
        }
    }

    /// Removes the locks that a git process left in Provost's own worktree when it was killed. No
    /// other process may be using the worktree.
    pub(crate) fn remove_locks(&self) -> Result<(), Error> {
        LOCKS.iter().try_for_each(|name| remove(&self.git_dir.join(name)))?;
        self.branch_lock().map_or(Ok(()), |lock| remove(&lock))
    }

    /// Returns the lock of the checked-out branch, if it is one of Provost's branches. A reset
    /// takes this lock too. An agent can write HEAD, so a name that leads outside the branches is
    /// ignored.
    fn branch_lock(&self) -> Option<PathBuf> {
        let head = agent_file::read_text(&self.git_dir.join("HEAD"), MAX_POINTER).ok()?;
        let branch = BranchName::new(head.trim_end().strip_prefix("ref: refs/heads/")?).ok()?;
        Some(self.common_dir.join(format!("{}.lock", branch.full())))
    }

    /// Removes locks left by an interrupted call in a checkout where other programs may be working.
    pub(crate) fn remove_left_locks(&self) -> Result<(), Error> {
        LOCKS.iter().try_for_each(|name| self.remove_left_lock(&self.git_dir.join(name)))
    }

    /// Removes a lock that was created and last changed while an interrupted call ran, unless a git
    /// process is working here now.
    fn remove_left_lock(&self, lock: &Path) -> Result<(), Error> {
        if self.git.can_have_left(lock)? && !self.is_used_by_git() {
            remove(lock)?;
        }
        Ok(())
    }

    /// Whether a git process is working in the checkout. A process that cannot be inspected is
    /// assumed to be git.
    fn is_used_by_git(&self) -> bool {
        let Ok(processes) = fs::read_dir("/proc") else { return true };
        processes.flatten().any(|process| {
            let process = process.path();
            let is_git = fs::read_to_string(process.join("comm"))
                .is_ok_and(|name| name.trim_end() == "git" || name.starts_with("git-"));
            is_git
                && match fs::read_link(process.join("cwd")) {
                    Ok(cwd) => cwd.starts_with(&self.top),
                    Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
                }
        })
    }

    /// Waits until a lock is gone, or removes it if an interrupted call left it. Returns false if
    /// the lock still exists after `until`.
    fn is_unlocked_by(&self, lock: &Path, until: Instant) -> Result<bool, Error> {
        while lock.symlink_metadata().is_ok() {
            if now() >= until {
                return Ok(false);
            }
            self.remove_left_lock(lock)?;
            #[expect(
                clippy::disallowed_methods,
                reason = "polls, because git sends no event for \
                a released lock"
            )]
            thread::sleep(LOCK_POLL);
        }
        Ok(now() < until)
    }

    /// Prepares a call that changes the repository. The only repository configuration that git
    /// reads is the file in Provost's own directory.
    pub(crate) fn write<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> GitCall<'a> {
        self.write_with(self.stand_in.path(), args)
    }

    /// Prepares a call with this stand-in for the directory that the worktrees share.
    fn write_with<A: AsRef<OsStr>>(
        &self,
        stand_in: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> GitCall<'a> {
        let call = self.git.call(&self.top).settings(&self.settings).args(args);
        let call = call
            .without_user_settings()
            .variable("GIT_DIR", &self.git_dir)
            .variable("GIT_COMMON_DIR", stand_in)
            .variable("GIT_OBJECT_DIRECTORY", self.objects())
            .variable("GIT_WORK_TREE", &self.top);
        match &self.index {
            Some(index) => call.variable("GIT_INDEX_FILE", index),
            None => call,
        }
    }

    /// Prepares a call that reads the repository's actual configuration. Only `git config` and `git
    /// remote` may use it, because they do not start programs when they only read.
    pub(crate) fn configuration<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> GitCall<'a> {
        let place =
            RepoLocation { git_dir: &self.git_dir, common_dir: &self.common_dir, top: &self.top };
        configuration(self.git, place, args)
    }

    /// Refuses files (NUL-separated) if any of them needs a filter that the operator does not
    /// trust. Attributes come from the tree, or from the checkout if no tree is given.
    pub(crate) fn refuse_filtered(&self, files: Vec<u8>, tree: Option<&Oid>) -> Result<(), Error> {
        filters::refuse(self, files, tree)
    }

    /// Returns the directory of the repository's objects.
    pub(crate) fn objects(&self) -> PathBuf {
        self.common_dir.join("objects")
    }

    /// Resolves an expression to an object. Returns `None` if the object does not exist.
    pub(crate) fn resolve(&self, expression: impl AsRef<OsStr>) -> Result<Option<Oid>, Error> {
        let verify = ["rev-parse", "--verify", "--quiet", "--end-of-options"].map(OsStr::new);
        let answer = self.read(verify.into_iter().chain([expression.as_ref()])).run_unchecked()?;
        match answer.exit {
            GitExit::Code(0) => answer_oid(&answer).map(Some),
            GitExit::Code(1) => Ok(None),
            GitExit::Code(_) | GitExit::Signal(_) => Err(answer.failure()),
        }
    }

    /// Returns the commit that a ref points to, if the ref exists.
    pub(crate) fn ref_commit(&self, name: &str) -> Result<Option<Oid>, Error> {
        self.resolve(format!("{name}^{{commit}}"))
    }

    /// Returns the full ref of the checked-out branch, unless HEAD is detached.
    pub(crate) fn head_ref(&self) -> Result<Option<RefName>, Error> {
        let answer = self.read(["symbolic-ref", "--quiet", "HEAD"]).run_unchecked()?;
        match answer.exit {
            GitExit::Code(0) => Ok(Some(RefName::new(answer.line()))),
            GitExit::Code(1) => Ok(None),
            GitExit::Code(_) | GitExit::Signal(_) => Err(answer.failure()),
        }
    }
}

/// Removes a file, if it exists.
fn remove(file: &Path) -> Result<(), Error> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file(file)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Reads all settings, from the cache if possible and otherwise with git.
fn settings_of(git: &Git, place: RepoLocation<'_>) -> Result<RepoSettings, Error> {
    let files = ConfigFiles::inspect(place.git_dir, git.home());
    let known = files.as_ref().and_then(|files| git.settings_cache().get(place.git_dir, files));
    if let Some(settings) = known {
        return Ok(settings);
    }
    let listed = configuration(git, place, ["config", "--list", "-z", "--show-scope"]).run()?;
    let settings = RepoSettings::parse(&listed.stdout)?;
    if let Some(files) = files
        && settings_cache::has_no_includes(&listed.stdout)
    {
        git.settings_cache().keep(place.git_dir, files, &settings);
    }
    Ok(settings)
}

fn configuration<'a, A: AsRef<OsStr>>(
    git: &'a Git,
    place: RepoLocation<'_>,
    args: impl IntoIterator<Item = A>,
) -> GitCall<'a> {
    git.call(place.top)
        .args(args)
        .variable("GIT_DIR", place.git_dir)
        .variable("GIT_COMMON_DIR", place.common_dir)
        .variable("GIT_WORK_TREE", place.top)
        .variable("GIT_OPTIONAL_LOCKS", "0")
}

/// Parses the hash that git printed.
pub(crate) fn answer_oid(answer: &GitOutput) -> Result<Oid, Error> {
    let text = answer.line().to_str().ok_or_else(|| answer.unexpected())?;
    Oid::new(text).map_err(|_| answer.unexpected())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    /// Returns git and a repository whose configuration and hooks specify programs.
    fn hostile(root: &Path) -> (Git, PathBuf) {
        #[expect(clippy::disallowed_methods, reason = "tests run the git of the machine")]
        let path = std::env::var_os("PATH").unwrap();
        let (top, home) = (root.join("project"), root.join("home"));
        fs::create_dir(&home).unwrap();
        fs::create_dir(root.join("scratch")).unwrap();
        let made = Command::new("git").args(["init", "-q"]).arg(&top).env("HOME", &home).status();
        assert!(made.unwrap().success());
        let config = "[hook \"x\"]\n\tevent = post-index-change\n\tcommand = /evil\n[core]\n\tfsmonitor = /evil\n\tautocrlf = input\n";
        fs::write(home.join(".gitconfig"), config).unwrap();
        let own = top.join(".git/config");
        fs::write(&own, fs::read_to_string(&own).unwrap() + config).unwrap();
        fs::create_dir_all(top.join(".git/hooks")).unwrap();
        let git = Git::find(&path, &home).unwrap().with_scratch(&root.join("scratch"));
        (git, top)
    }

    #[test]
    fn configuration_files_are_not_read() {
        let root = tempfile::tempdir().unwrap();
        let (git, top) = hostile(&root.path().canonicalize().unwrap());
        let repo = Repo::open_at(&git, &top).unwrap().unwrap();
        let list = ["config", "--list", "--show-origin", "-z"];
        for call in
            [repo.read(list), repo.write(list), repo.read_files(list), repo.write_files(list)]
        {
            let answer = call.run().unwrap();
            let items: Vec<&[u8]> = answer.items().collect();
            let own = format!("file:{}", repo.stand_in.path().join("config").display());
            for pair in items.chunks_exact(2) {
                let known = pair[0] == own.as_bytes() || pair[0] == b"command line:";
                assert!(known, "{}", String::from_utf8_lossy(pair[0]));
                assert!(!pair[1].windows(5).any(|part| part == b"/evil"), "{pair:?}");
            }
            let taken = items.iter().any(|item| *item == b"core.autocrlf\ninput");
            assert!(taken, "settings that matter are passed");
        }
    }

    #[test]
    fn repository_hooks_are_not_found() {
        let root = tempfile::tempdir().unwrap();
        let (git, top) = hostile(&root.path().canonicalize().unwrap());
        let repo = Repo::open_at(&git, &top).unwrap().unwrap();
        let hooks = repo.read(["rev-parse", "--git-path", "hooks"]).run().unwrap();
        assert_eq!(hooks.line(), OsStr::new("/dev/null"));
        assert!(!repo.stand_in.path().join("hooks").exists());
    }
}
