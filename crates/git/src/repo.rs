//! A repository at a known place, with its filters switched off.
//!
//! Both the git directory and the top of the files are given to git, never
//! discovered: if an agent deletes or rewrites the `.git` file of its
//! worktree, a discovering git would go on in a repository further up.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::command::{Answer, Call, Error, Exit, Git};
use crate::guard::{self, Setting};
use crate::known::{self, Files};
use crate::names::{Oid, RefName};

/// The handle through which everything else in this crate talks to git.
#[derive(Debug, Clone)]
pub(crate) struct Repo<'a> {
    git: &'a Git,
    git_dir: PathBuf,
    top: PathBuf,
    settings: Vec<Setting>,
    index: Option<PathBuf>,
}

impl<'a> Repo<'a> {
    /// Opens the repository and finds which filters have to be switched off.
    pub(crate) fn open(git: &'a Git, git_dir: &Path, top: &Path) -> Result<Self, Error> {
        let (git_dir, top) = (git_dir.to_owned(), top.to_owned());
        let mut repo = Self { git, git_dir, top, settings: Vec::new(), index: None };
        let files = Files::of(&repo.git_dir, git.home());
        let known = files.as_ref().and_then(|files| git.known().get(&repo.git_dir, files));
        repo.settings = match known {
            Some(settings) => settings,
            None => repo.filters_off(files)?,
        };
        Ok(repo)
    }

    /// Asks git which filters the configuration names.
    fn filters_off(&self, files: Option<Files>) -> Result<Vec<Setting>, Error> {
        let names = self.read(["config", "--list", "-z", "--name-only"]).run()?;
        let settings = guard::filters_off(&names.stdout).ok_or(Error::TooManyFilters)?;
        if let Some(files) = files.filter(|_| known::stands_alone(&names.stdout)) {
            self.git.known().keep(&self.git_dir, files, &settings);
        }
        Ok(settings)
    }

    /// Opens the repository whose top is exactly this directory, if there is one.
    pub(crate) fn open_at(git: &'a Git, top: &Path) -> Result<Option<Self>, Error> {
        if !top.is_dir() {
            return Ok(None);
        }
        let ask = |what| {
            let answer = git.call(top).args(["rev-parse", "--path-format=absolute", what]).ask()?;
            Ok::<_, Error>((answer.exit == Exit::Code(0)).then(|| PathBuf::from(answer.line())))
        };
        let (found, git_dir) = (ask("--show-toplevel")?, ask("--absolute-git-dir")?);
        match (found, git_dir) {
            (Some(found), Some(git_dir)) if found == top => {
                Ok(Some(Self::open(git, &git_dir, top)?))
            }
            _ => Ok(None),
        }
    }

    /// Uses this file as the index.
    pub(crate) fn with_index(&self, index: &Path) -> Self {
        Self { index: Some(index.to_owned()), ..self.clone() }
    }

    /// Uses one more setting.
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

    /// Prepares a call that only reads: it takes no lock and refreshes nothing.
    pub(crate) fn read<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Call<'a> {
        self.write(args).variable("GIT_OPTIONAL_LOCKS", "0")
    }

    /// Prepares a call that changes something.
    pub(crate) fn write<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Call<'a> {
        let call = self.git.call(&self.top).settings(&self.settings).args(args);
        let call = call.variable("GIT_DIR", &self.git_dir).variable("GIT_WORK_TREE", &self.top);
        match &self.index {
            Some(index) => call.variable("GIT_INDEX_FILE", index),
            None => call,
        }
    }

    /// Returns the directory of its objects.
    pub(crate) fn objects(&self) -> Result<PathBuf, Error> {
        let args = ["rev-parse", "--path-format=absolute", "--git-path", "objects"];
        Ok(PathBuf::from(self.read(args).run()?.line()))
    }

    /// Returns the object that an expression names, if there is one.
    pub(crate) fn resolve(&self, expression: impl AsRef<OsStr>) -> Result<Option<Oid>, Error> {
        let verify = ["rev-parse", "--verify", "--quiet", "--end-of-options"].map(OsStr::new);
        let answer = self.read(verify.into_iter().chain([expression.as_ref()])).ask()?;
        match answer.exit {
            Exit::Code(0) => answer_oid(&answer).map(Some),
            Exit::Code(1) => Ok(None),
            Exit::Code(_) | Exit::Signal(_) => Err(answer.failure()),
        }
    }

    /// Returns the commit of a ref that exists.
    pub(crate) fn ref_commit(&self, name: &str) -> Result<Option<Oid>, Error> {
        self.resolve(format!("{name}^{{commit}}"))
    }

    /// Returns the ref that HEAD stands for, unless it is detached.
    pub(crate) fn head_ref(&self) -> Result<Option<RefName>, Error> {
        let answer = self.read(["symbolic-ref", "--quiet", "HEAD"]).ask()?;
        match answer.exit {
            Exit::Code(0) => Ok(Some(RefName::new(answer.line()))),
            Exit::Code(1) => Ok(None),
            Exit::Code(_) | Exit::Signal(_) => Err(answer.failure()),
        }
    }
}

/// Returns the hash that git printed.
pub(crate) fn answer_oid(answer: &Answer) -> Result<Oid, Error> {
    let text = answer.line().to_str().ok_or_else(|| answer.unexpected())?;
    Oid::new(text).map_err(|_| answer.unexpected())
}
