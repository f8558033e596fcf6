//! A repository of Provost's own that has another's objects and nothing else of it.
//!
//! What a repository says of itself (configuration, hooks, attributes beside its files) is written by whoever
//! works in it, and much of it names programs. Each kind of program can be switched off by name, as [`guard`]
//! does where a repository has to be read, and a name can be forgotten. Here nothing of it is read at all.
//!
//! [`guard`]: crate::guard

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::command::{Call, Error, Git};
use crate::names::Oid;
use crate::repo::Repo;

/// A repository for one use, which goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Apart<'a> {
    git: &'a Git,
    dir: TempDir,
    objects: PathBuf,
}

impl<'a> Apart<'a> {
    /// Makes one that reads and writes the objects of another, whose hashes are like this one.
    pub(crate) fn from(repo: &Repo<'a>, like: &Oid) -> Result<Self, Error> {
        let git = repo.git();
        let dir = TempDir::new_in(git.scratch()).map_err(Error::file(git.scratch()))?;
        lay_out(dir.path(), like)?;
        Ok(Self { git, dir, objects: repo.objects()? })
    }

    /// Prepares a call. The user's own settings are left out as well: the same call has to give the same answer.
    pub(crate) fn call<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Call<'a> {
        let call = self.git.call(self.dir.path()).args(args);
        call.variable("GIT_DIR", self.dir.path())
            .variable("GIT_OBJECT_DIRECTORY", &self.objects)
            .variable("GIT_CONFIG_GLOBAL", "/dev/null")
            .variable("GIT_CONFIG_NOSYSTEM", "1")
            .variable("GIT_ATTR_NOSYSTEM", "1")
    }
}

/// Makes a directory what git takes for a repository: without refs, and with the form of its hashes as its only
/// setting. Doing it again changes nothing.
pub(crate) fn lay_out(dir: &Path, like: &Oid) -> Result<(), Error> {
    let settings = match like.as_str().len() {
        64 => "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n",
        _ => "[core]\n\trepositoryformatversion = 0\n",
    };
    let refs = dir.join("refs");
    fs::create_dir_all(&refs).map_err(Error::file(&refs))?;
    for (name, content) in [("HEAD", "ref: refs/heads/none\n"), ("config", settings)] {
        let file = dir.join(name);
        fs::write(&file, content).map_err(Error::file(&file))?;
    }
    Ok(())
}
