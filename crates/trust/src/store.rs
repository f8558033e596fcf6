//! The trust store: one file per project, in the user's configuration directory.
//!
//! A user can agree to several contents of a project, for example on two branches. The newest
//! [`MAX_CONTENTS`] of them are kept.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    OwnershipError, TrustContent, TrustDigest, main_top,
    owned::{self, check},
};

/// The maximum number of contents kept for one project.
pub const MAX_CONTENTS: usize = 16;

/// The maximum size of an entry in bytes.
const MAX_ENTRY: u64 = 64 << 20;

/// The name of the store's directory inside the user's configuration directory.
const DIRECTORY: &str = "trust";

/// The record of all content that the user has agreed to trust.
#[derive(Clone, Debug)]
pub struct TrustStore {
    dir: PathBuf,
}

/// A project or workflow file, and the contents to which the user has agreed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustEntry {
    pub path: PathBuf,
    /// The contents, newest first.
    pub contents: Vec<AgreedContent>,
}

/// Content to which the user has agreed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgreedContent {
    pub digest: TrustDigest,
    pub content: TrustContent,
}

/// The reason why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the trust store is not safe to use: {0}")]
    Unowned(OwnershipError),
    #[error("cannot {action} the trust store's {}: {source}", .path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
    #[error("{} is not UTF-8, so it cannot be trusted", .0.display())]
    NotText(PathBuf),
}

impl TrustStore {
    /// Opens the store in the user's configuration directory for Provost, such as
    /// `~/.config/provost`. The directory need not exist.
    pub fn open(config_dir: &Path) -> Self {
        TrustStore { dir: config_dir.join(DIRECTORY) }
    }

    /// Whether the user has agreed to this content of a project, for work in a directory relative
    /// to its top. Consent for a repository's main checkout also applies to its linked worktrees.
    /// Empty content needs no trust.
    pub fn is_trusted(
        &self,
        top: &Path,
        directory: &Path,
        content: &TrustContent,
    ) -> Result<bool, Error> {
        Ok(content.is_empty() || self.any(top, |agreed| agreed.down_to(directory) == *content)?)
    }

    /// Whether the user has agreed to all of the given files as part of one content of the project.
    /// The files can come from a commit, which does not contain files that exist only in the
    /// checkout.
    pub fn includes(&self, top: &Path, files: &TrustContent) -> Result<bool, Error> {
        Ok(files.is_empty() || self.any(top, |agreed| agreed.includes(files))?)
    }

    fn any(&self, top: &Path, fits: impl Fn(&TrustContent) -> bool) -> Result<bool, Error> {
        let agreed = |path: &Path| -> Result<bool, Error> {
            let found = self.find(path)?;
            Ok(found.is_some_and(|found| found.contents.iter().any(|one| fits(&one.content))))
        };
        if agreed(top)? {
            return Ok(true);
        }
        main_top(top).map_or(Ok(false), |main| agreed(&main))
    }

    /// Returns the content to which the user last agreed, for a project or for the main checkout of
    /// its repository.
    pub fn last_agreed(&self, top: &Path) -> Result<Option<TrustContent>, Error> {
        let newest = |found: Option<TrustEntry>| {
            found.and_then(|found| found.contents.into_iter().next()).map(|one| one.content)
        };
        if let Some(content) = newest(self.find(top)?) {
            return Ok(Some(content));
        }
        let main = main_top(top).map(|main| self.find(&main)).transpose()?;
        Ok(newest(main.flatten()))
    }

    /// Records that the user agreed to trust a project's content. Only the operator may do this.
    pub fn trust(&self, top: &Path, content: &TrustContent) -> Result<(), Error> {
        let digest = content.digest();
        let mut trusted = self
            .find(top)?
            .unwrap_or_else(|| TrustEntry { path: top.to_owned(), contents: Vec::new() });
        trusted.contents.retain(|one| one.digest != digest);
        trusted.contents.insert(0, AgreedContent { digest, content: content.clone() });
        trusted.contents.truncate(MAX_CONTENTS);
        self.write(&trusted)
    }

    /// Removes a project's entry. Returns false if the project had no entry.
    pub fn revoke(&self, top: &Path) -> Result<bool, Error> {
        let path = self.entry(top)?;
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(Error::File { action: "remove", path, source }),
        }
    }

    /// Returns the entries of all projects, sorted by path.
    pub fn list(&self) -> Result<Vec<TrustEntry>, Error> {
        let failed = |source| Error::File { action: "list", path: self.dir.clone(), source };
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(why) => return Err(failed(why)),
        };
        let mut all = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|ending| ending == "json") {
                all.extend(self.read(&path)?);
            }
        }
        all.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(all)
    }

    fn find(&self, top: &Path) -> Result<Option<TrustEntry>, Error> {
        let found = self.read(&self.entry(top)?)?;
        Ok(found.filter(|found| found.path == top))
    }

    fn read(&self, path: &Path) -> Result<Option<TrustEntry>, Error> {
        match check(&self.dir) {
            Ok(Some(Ok(_)) | None) => {}
            Ok(Some(Err(why))) => return Err(Error::Unowned(why)),
            Err(source) => {
                return Err(Error::File { action: "read", path: self.dir.clone(), source });
            }
        }
        let failed = |source| Error::File { action: "read", path: path.to_owned(), source };
        match owned::read(path, MAX_ENTRY).map_err(failed)? {
            None => Ok(None),
            Some(Err(why)) => Err(Error::Unowned(why)),
            Some(Ok(bytes)) => {
                let read = serde_json::from_slice(&bytes);
                read.map(Some).map_err(|why| failed(io::Error::other(why)))
            }
        }
    }

    /// Writes an entry atomically, so that no reader sees an incomplete one.
    fn write(&self, trusted: &TrustEntry) -> Result<(), Error> {
        let path = self.entry(&trusted.path)?;
        let failed = |source| Error::File { action: "write", path: path.clone(), source };
        let bytes =
            serde_json::to_vec_pretty(trusted).map_err(|why| failed(io::Error::other(why)))?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).map_err(failed)?;
        let new = path.with_extension(format!("new-{}", std::process::id()));
        let write = || -> io::Result<()> {
            let mut options = fs::OpenOptions::new();
            let mut file =
                options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        write().map_err(failed)
    }

    fn entry(&self, top: &Path) -> Result<PathBuf, Error> {
        let text = top.to_str().ok_or_else(|| Error::NotText(top.to_owned()))?;
        let name = blake3::hash(text.as_bytes()).to_hex();
        Ok(self.dir.join(format!("{}.json", &name[..32])))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn content(text: &str) -> TrustContent {
        TrustContent::from_files([(".mcp.json", text.as_bytes().to_vec())])
    }

    fn trusts(store: &TrustStore, top: &Path, content: &TrustContent) -> Result<bool, Error> {
        store.is_trusted(top, Path::new(""), content)
    }

    #[test]
    fn files_of_other_directories_do_not_matter() {
        let dir = tempfile::tempdir().unwrap();
        let store = TrustStore::open(dir.path());
        let top = Path::new("/p");
        let files = |names: &[&str]| {
            TrustContent::from_files(names.iter().map(|name| (*name, b"{}".to_vec())))
        };
        let both = files(&[".mcp.json", "a/.mcp.json"]);
        store.trust(top, &both).unwrap();
        assert!(trusts(&store, top, &files(&[".mcp.json"])).unwrap());
        assert!(store.is_trusted(top, Path::new("a"), &both).unwrap());
        let removed = store.is_trusted(top, Path::new("a"), &files(&[".mcp.json"]));
        assert!(!removed.unwrap(), "a removed file is a change");
        assert!(store.includes(top, &files(&["a/.mcp.json"])).unwrap());
        assert!(!store.includes(top, &content("x")).unwrap());
    }

    #[test]
    fn only_agreed_contents_are_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let store = TrustStore::open(dir.path());
        let (one, two) = (Path::new("/p/one"), Path::new("/p/two"));
        let (a, b) = (content("a"), content("b"));
        assert!(!trusts(&store, one, &a).unwrap());
        store.trust(one, &a).unwrap();
        assert!(trusts(&store, one, &a).unwrap());
        assert!(!trusts(&store, one, &b).unwrap());
        assert!(!trusts(&store, two, &a).unwrap());
        assert!(trusts(&store, two, &TrustContent::default()).unwrap());
        store.trust(one, &b).unwrap();
        assert!(trusts(&store, one, &a).unwrap(), "an earlier content stays trusted");
        assert_eq!(store.last_agreed(one).unwrap(), Some(b));
        assert_eq!(store.list().unwrap().len(), 1);
        assert!(store.revoke(one).unwrap() && !store.revoke(one).unwrap());
        assert!(!trusts(&store, one, &a).unwrap());
    }

    #[test]
    fn number_of_contents_is_limited() {
        let dir = tempfile::tempdir().unwrap();
        let store = TrustStore::open(dir.path());
        let top = Path::new("/p");
        for number in 0..=MAX_CONTENTS {
            store.trust(top, &content(&number.to_string())).unwrap();
        }
        assert!(!trusts(&store, top, &content("0")).unwrap());
        assert!(trusts(&store, top, &content("1")).unwrap());
    }

    #[test]
    fn store_writable_by_others_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let store = TrustStore::open(dir.path());
        let top = Path::new("/p");
        store.trust(top, &content("a")).unwrap();
        let inner = dir.path().join(DIRECTORY);
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(trusts(&store, top, &content("a")).is_err());
    }
}
