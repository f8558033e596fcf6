//! Provost's own skills. They are stubs that refer to `provost guide`, so that their text never becomes outdated.
//!
//! A stub ends with a digest of its own text, which shows that Provost wrote the stub and that the stub is unchanged.
//! Other files are never overwritten or removed.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use provost_sys::agent_file;

use crate::commands::guide::Topic;

/// The file that makes a directory a skill.
const FILE: &str = "SKILL.md";

/// The maximum size of a file that may be one of Provost's skills, in bytes.
const MAX_SKILL: u64 = 64 << 10;

/// The beginning of the last line of a stub.
const MARK_PREFIX: &str = "<!-- provost skill ";

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
        description: "Review work with Provost: try to disprove it, and record each attempt as \
            failure mode, check and result. Use when asked to review, challenge or double-check \
            the work of another agent before it counts as done.",
        topic: Topic::Review,
    },
];

/// The action to perform on a stub in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StubAction {
    Write,
    /// A stub from an earlier version exists.
    Replace,
    Remove,
    /// The installed stub is up to date.
    Nothing,
    /// The existing file was not written by Provost, or a user has changed it.
    Refuse(&'static str),
}

impl Stub {
    /// Returns the whole text of the file.
    pub(super) fn text(&self) -> String {
        let body = format!(
            "---\nname: {}\ndescription: {:?}\n---\n\nRun `provost guide {}` and follow what it prints. It is the guide of the \
             installed version; this file has no other content.\n",
            self.name,
            self.description,
            self.topic.as_str()
        );
        let digest = digest(&body);
        format!("{body}{MARK_PREFIX}{digest}; remove it with: provost skills remove -->\n")
    }

    pub(super) fn directory(&self, root: &Path) -> PathBuf {
        root.join(self.name)
    }

    /// Returns the action that installs the stub.
    pub(super) fn plan_install(&self, root: &Path) -> io::Result<StubAction> {
        Ok(match inspect(&self.directory(root))? {
            ExistingSkill::Nothing => StubAction::Write,
            ExistingSkill::Ours(text) if text == self.text() => StubAction::Nothing,
            ExistingSkill::Ours(_) => StubAction::Replace,
            ExistingSkill::Other(why) => StubAction::Refuse(why),
        })
    }

    /// Returns the action that removes the stub.
    pub(super) fn plan_remove(&self, root: &Path) -> io::Result<StubAction> {
        Ok(match inspect(&self.directory(root))? {
            ExistingSkill::Nothing => StubAction::Nothing,
            ExistingSkill::Ours(_) => StubAction::Remove,
            ExistingSkill::Other(why) => StubAction::Refuse(why),
        })
    }

    /// Performs the action.
    pub(super) fn perform(&self, action: StubAction, root: &Path) -> io::Result<()> {
        let directory = self.directory(root);
        match action {
            StubAction::Write | StubAction::Replace => write(&directory, &self.text()),
            StubAction::Remove => {
                fs::remove_file(directory.join(FILE))?;
                match fs::remove_dir(&directory) {
                    // The directory is kept, because it still contains the user's files.
                    Err(why) if why.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
                    done => done,
                }
            }
            StubAction::Nothing | StubAction::Refuse(_) => Ok(()),
        }
    }
}

/// The current contents of a stub's directory.
enum ExistingSkill {
    Nothing,
    Ours(String),
    Other(&'static str),
}

fn inspect(directory: &Path) -> io::Result<ExistingSkill> {
    match file_type(directory)? {
        None => return Ok(ExistingSkill::Nothing),
        Some(kind) if kind.is_dir() => {}
        Some(_) => return Ok(ExistingSkill::Other("the path exists and is not a directory")),
    }
    let file = directory.join(FILE);
    match file_type(&file)? {
        None => match fs::read_dir(directory)?.next() {
            None => Ok(ExistingSkill::Nothing),
            Some(_) => Ok(ExistingSkill::Other("the directory contains other files")),
        },
        Some(kind) if kind.is_file() => {
            let text = String::from_utf8(agent_file::read(&file, MAX_SKILL)?).unwrap_or_default();
            if is_ours(&text) {
                Ok(ExistingSkill::Ours(text))
            } else {
                Ok(ExistingSkill::Other("the existing skill is not Provost's, or was changed"))
            }
        }
        Some(_) => Ok(ExistingSkill::Other("the skill's file is not a regular file")),
    }
}

/// Returns the type of a file without following links, or None if it does not exist.
fn file_type(path: &Path) -> io::Result<Option<fs::FileType>> {
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
        // Remove the temporary file if it could not be renamed.
        drop(fs::remove_file(&beside));
    }
    written
}

fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
}

fn is_ours(text: &str) -> bool {
    let Some(at) = text.rfind(MARK_PREFIX) else { return false };
    let (body, line) = text.split_at(at);
    let marked = line[MARK_PREFIX.len()..].split(';').next().unwrap_or_default();
    marked == digest(body) && line.trim_end().lines().count() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_stub_is_not_recognized() {
        for stub in STUBS {
            let text = stub.text();
            assert!(is_ours(&text), "{text}");
            assert!(text.starts_with(&format!("---\nname: {}\ndescription: ", stub.name)));
            assert!(text.contains(&format!("`provost guide {}`", stub.topic.as_str())));
            assert!(!is_ours(&text.replace("follow", "ignore")));
            assert!(!is_ours(&format!("{text}And more.\n")));
        }
        assert!(!is_ours(""));
        assert!(!is_ours("---\nname: provost-managing\n---\n"));
    }

    #[test]
    fn foreign_skill_is_kept() {
        let place = tempfile::tempdir().unwrap();
        let stub = STUBS[0];
        let root = place.path();
        assert_eq!(stub.plan_install(root).unwrap(), StubAction::Write);
        stub.perform(StubAction::Write, root).unwrap();
        assert_eq!(stub.plan_install(root).unwrap(), StubAction::Nothing);
        let file = stub.directory(root).join(FILE);
        fs::write(&file, "mine").unwrap();
        assert!(matches!(stub.plan_install(root).unwrap(), StubAction::Refuse(_)));
        assert!(matches!(stub.plan_remove(root).unwrap(), StubAction::Refuse(_)));
        fs::write(&file, stub.text()).unwrap();
        fs::write(stub.directory(root).join("notes"), "mine").unwrap();
        stub.perform(stub.plan_remove(root).unwrap(), root).unwrap();
        assert!(!file.exists() && stub.directory(root).join("notes").exists());
        assert!(matches!(stub.plan_install(root).unwrap(), StubAction::Refuse(_)));
    }

    #[test]
    fn links_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let (stub, root) = (STUBS[0], place.path());
        let elsewhere = root.join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, stub.directory(root)).unwrap();
        assert!(matches!(stub.plan_install(root).unwrap(), StubAction::Refuse(_)));
        assert!(matches!(stub.plan_remove(root).unwrap(), StubAction::Refuse(_)));
    }
}
