//! Provost's own skills: stubs that refer to `provost guide`, so that their text never becomes outdated.
//!
//! A stub ends with a digest of itself, which identifies it as Provost's and unchanged. Other files are never
//! overwritten or removed.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use provost_sys::agent_file;

use crate::commands::guide::Topic;

/// The file that makes a directory a skill.
const FILE: &str = "SKILL.md";

/// The maximum size of a skill that may be Provost's own, in bytes.
const MAX_SKILL: u64 = 64 << 10;

/// The beginning of a stub's last line.
const MARK: &str = "<!-- provost skill ";

/// One of Provost's own skills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stub {
    pub(super) name: &'static str,
    description: &'static str,
    topic: Topic,
}

/// All of Provost's own skills.
pub(super) const STUBS: [Stub; 2] = [
    Stub {
        name: "provost-managing",
        description: "Manage coding agents with Provost: pair a worker with a manager on a task, send it one instruction at a time, verify what it claims, run evidence-gated loops and finish with an audit. Use when asked to supervise, delegate to or manage other agents or threads.",
        topic: Topic::Managing,
    },
    Stub {
        name: "provost-review",
        description: "Review work guardedly with Provost: try to disprove it, and record each attempt as failure mode, check and result. Use when asked to review, attack or double-check work of another agent before it is called done.",
        topic: Topic::Review,
    },
];

/// The action for one stub in one directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Write,
    /// A stub of an earlier version exists.
    Replace,
    Remove,
    /// It is up to date.
    Nothing,
    /// A file exists that is not Provost's, or was changed.
    Refuse(&'static str),
}

impl Stub {
    /// Returns the whole file.
    pub(super) fn text(&self) -> String {
        let body = format!(
            "---\nname: {}\ndescription: {:?}\n---\n\nRun `provost guide {}` and follow what it prints. It is the guide of the \
             installed version; this file has no other content.\n",
            self.name,
            self.description,
            self.topic.word()
        );
        let digest = digest(&body);
        format!("{body}{MARK}{digest}; remove it with: provost skills remove -->\n")
    }

    pub(super) fn directory(&self, root: &Path) -> PathBuf {
        root.join(self.name)
    }

    /// Returns the action that installing it requires.
    pub(super) fn planned_install(&self, root: &Path) -> io::Result<Deed> {
        Ok(match look(&self.directory(root))? {
            There::Nothing => Deed::Write,
            There::Ours(text) if text == self.text() => Deed::Nothing,
            There::Ours(_) => Deed::Replace,
            There::Other(why) => Deed::Refuse(why),
        })
    }

    /// Returns the action that removing it requires.
    pub(super) fn planned_remove(&self, root: &Path) -> io::Result<Deed> {
        Ok(match look(&self.directory(root))? {
            There::Nothing => Deed::Nothing,
            There::Ours(_) => Deed::Remove,
            There::Other(why) => Deed::Refuse(why),
        })
    }

    /// Performs the action.
    pub(super) fn carry_out(&self, deed: Deed, root: &Path) -> io::Result<()> {
        let directory = self.directory(root);
        match deed {
            Deed::Write | Deed::Replace => write(&directory, &self.text()),
            Deed::Remove => {
                fs::remove_file(directory.join(FILE))?;
                match fs::remove_dir(&directory) {
                    // Other files of the user in the directory stay.
                    Err(why) if why.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
                    done => done,
                }
            }
            Deed::Nothing | Deed::Refuse(_) => Ok(()),
        }
    }
}

/// The current content of a stub's directory.
enum There {
    Nothing,
    Ours(String),
    Other(&'static str),
}

fn look(directory: &Path) -> io::Result<There> {
    match kind(directory)? {
        None => return Ok(There::Nothing),
        Some(kind) if kind.is_dir() => {}
        Some(_) => return Ok(There::Other("the path exists and is not a directory")),
    }
    let file = directory.join(FILE);
    match kind(&file)? {
        None => match fs::read_dir(directory)?.next() {
            None => Ok(There::Nothing),
            Some(_) => Ok(There::Other("the directory contains other files")),
        },
        Some(kind) if kind.is_file() => {
            let text = String::from_utf8(agent_file::read(&file, MAX_SKILL)?).unwrap_or_default();
            if is_ours(&text) {
                Ok(There::Ours(text))
            } else {
                Ok(There::Other("the existing skill is not Provost's, or was changed"))
            }
        }
        Some(_) => Ok(There::Other("the skill's file is not a regular file")),
    }
}

/// Returns the type of a path without following links; None if it does not exist.
fn kind(path: &Path) -> io::Result<Option<fs::FileType>> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found.file_type())),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(why),
    }
}

/// Writes the file atomically.
fn write(directory: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let beside = directory.join(format!(".{FILE}.{}", std::process::id()));
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, directory.join(FILE)));
    if written.is_err() {
        // The temporary file is useless if it could not be renamed.
        drop(fs::remove_file(&beside));
    }
    written
}

fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
}

fn is_ours(text: &str) -> bool {
    let Some(at) = text.rfind(MARK) else { return false };
    let (body, line) = text.split_at(at);
    let told = line[MARK.len()..].split(';').next().unwrap_or_default();
    told == digest(body) && line.trim_end().lines().count() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stub_is_known_and_a_changed_one_is_not() {
        for stub in STUBS {
            let text = stub.text();
            assert!(is_ours(&text), "{text}");
            assert!(text.starts_with(&format!("---\nname: {}\ndescription: ", stub.name)));
            assert!(text.contains(&format!("`provost guide {}`", stub.topic.word())));
            assert!(!is_ours(&text.replace("follow", "ignore")));
            assert!(!is_ours(&format!("{text}And more.\n")));
        }
        assert!(!is_ours(""));
        assert!(!is_ours("---\nname: provost-managing\n---\n"));
    }

    #[test]
    fn what_is_not_provosts_stays() {
        let place = tempfile::tempdir().unwrap();
        let stub = STUBS[0];
        let root = place.path();
        assert_eq!(stub.planned_install(root).unwrap(), Deed::Write);
        stub.carry_out(Deed::Write, root).unwrap();
        assert_eq!(stub.planned_install(root).unwrap(), Deed::Nothing);
        let file = stub.directory(root).join(FILE);
        fs::write(&file, "mine").unwrap();
        assert!(matches!(stub.planned_install(root).unwrap(), Deed::Refuse(_)));
        assert!(matches!(stub.planned_remove(root).unwrap(), Deed::Refuse(_)));
        fs::write(&file, stub.text()).unwrap();
        fs::write(stub.directory(root).join("notes"), "mine").unwrap();
        stub.carry_out(stub.planned_remove(root).unwrap(), root).unwrap();
        assert!(!file.exists() && stub.directory(root).join("notes").exists());
        assert!(matches!(stub.planned_install(root).unwrap(), Deed::Refuse(_)));
    }

    #[test]
    fn links_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let (stub, root) = (STUBS[0], place.path());
        let elsewhere = root.join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, stub.directory(root)).unwrap();
        assert!(matches!(stub.planned_install(root).unwrap(), Deed::Refuse(_)));
        assert!(matches!(stub.planned_remove(root).unwrap(), Deed::Refuse(_)));
    }
}
