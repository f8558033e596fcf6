//! Files and directories that only the user can change, according to the rules that git has applied
//! since CVE-2022-24765.

use std::{
    fmt, fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use provost_sys::agent_file;
use rustix::process::geteuid;

/// The mode bits that allow others to write.
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;

/// The reason why a file or directory is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnershipError {
    OtherUser { path: PathBuf, uid: u32 },
    Writable { path: PathBuf, mode: u32 },
    Link { path: PathBuf },
    NotAFile { path: PathBuf },
}

impl OwnershipError {
    /// Returns a command that fixes the problem, or one that shows the content so that the user can
    /// check the content first.
    pub fn fix(&self) -> String {
        let shown = |path: &Path| provost_text::shell_quote(&path.to_string_lossy());
        match self {
            OwnershipError::OtherUser { path, .. } => {
                let look = if path.is_dir() { "ls -la" } else { "less" };
                let (uid, path) = (geteuid().as_raw(), shown(path));
                format!(
                    "{look} {path}  # check the content first; then: chown {uid} {path}, or remove it"
                )
            }
            OwnershipError::Writable { path, .. } => format!("chmod go-w {}", shown(path)),
            OwnershipError::Link { path } | OwnershipError::NotAFile { path } => {
                format!("ls -l {}", shown(path))
            }
        }
    }
}

impl fmt::Display for OwnershipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OwnershipError::OtherUser { path, uid } => {
                write!(f, "{} belongs to another user (uid {uid})", path.display())
            }
            OwnershipError::Writable { path, mode } => {
                write!(f, "{} can be written by others (mode {:03o})", path.display(), mode & 0o777)
            }
            OwnershipError::Link { path } => write!(f, "{} is a symbolic link", path.display()),
            OwnershipError::NotAFile { path } => {
                write!(f, "{} is not a regular file", path.display())
            }
        }
    }
}

/// Checks the owner and mode of a file or directory without following links. Returns `None` if it does not exist.
pub(crate) fn check(path: &Path) -> io::Result<Option<Result<fs::Metadata, OwnershipError>>> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(check_metadata(path, &found).map(|()| found))),
        Err(why) if is_absent(&why) => Ok(None),
        Err(why) => Err(why),
    }
}

/// Reads a regular file that only the user can change. The checks apply to the opened file, so the
/// file cannot be swapped between the checks and the read. Does not block if the path turns out to
/// be a pipe. Returns `None` if the file does not exist.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Option<Result<Vec<u8>, OwnershipError>>> {
    let file = match agent_file::open(path) {
        Ok(file) => file,
        Err(agent_file::Error::Io { source, .. }) if is_absent(&source) => return Ok(None),
        Err(agent_file::Error::NotRegular(path)) => {
            let is_link = path.is_symlink();
            let why = if is_link {
                OwnershipError::Link { path }
            } else {
                OwnershipError::NotAFile { path }
            };
            return Ok(Some(Err(why)));
        }
        Err(agent_file::Error::Io { source, .. }) => return Err(source),
        Err(why) => return Err(why.into()),
    };
    if let Err(why) = check_metadata(path, &file.metadata()?) {
        return Ok(Some(Err(why)));
    }
    Ok(Some(Ok(agent_file::read_opened(file, path, limit)?)))
}

fn check_metadata(path: &Path, found: &fs::Metadata) -> Result<(), OwnershipError> {
    let path = || path.to_owned();
    if found.file_type().is_symlink() {
        return Err(OwnershipError::Link { path: path() });
    }
    let users = FileOwners::current();
    if !users.may_own(found.uid()) {
        return Err(OwnershipError::OtherUser { path: path(), uid: found.uid() });
    }
    let mode = found.mode();
    if mode & OTHERS_WRITE != 0 || (mode & GROUP_WRITES != 0 && !users.is_private(found.gid())) {
        return Err(OwnershipError::Writable { path: path(), mode });
    }
    Ok(())
}

fn is_absent(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The users who may own a file.
struct FileOwners {
    effective: u32,
    /// The user who called `sudo`. As in git, root may use the files of that user.
    caller: Option<u32>,
}

impl FileOwners {
    #[expect(
        clippy::disallowed_methods,
        reason = "git reads this variable the same way, for root only"
    )]
    fn current() -> Self {
        let effective = geteuid().as_raw();
        let caller = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
        FileOwners { effective, caller: if effective == 0 { caller } else { None } }
    }

    fn may_own(&self, uid: u32) -> bool {
        uid == self.effective || self.caller == Some(uid)
    }

    /// Whether no other user belongs to a group. Many systems give each user a private group and a umask
    /// of 002. Only local files are consulted, so a group that they don't list is not considered private.
    fn is_private(&self, gid: u32) -> bool {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        is_private(gid, self.effective, &read("/etc/passwd"), &read("/etc/group"))
    }
}

fn is_private(gid: u32, uid: u32, passwd: &str, group: &str) -> bool {
    let mut user = None;
    for line in passwd.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, own_uid, own_gid, ..] = fields[..] else { continue };
        if own_gid.parse() == Ok(gid) {
            if own_uid.parse() != Ok(uid) {
                return false;
            }
            user = Some(name);
        }
    }
    let Some(user) = user else { return false };
    let mut listed = false;
    for line in group.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let [_, _, id, members] = fields[..] else { continue };
        if id.parse() == Ok(gid) {
            listed = true;
            if members.split(',').any(|member| !member.is_empty() && member != user) {
                return false;
            }
        }
    }
    listed
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_group_is_private_if_it_has_no_other_member() {
        let passwd = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/u/ann:/bin/sh\nbob:x:1001:100::/:/bin/sh\n";
        let group = "root:x:0:\nann:x:1000:\nusers:x:100:ann\nteam:x:200:ann\n";
        assert!(is_private(1000, 1000, passwd, group));
        assert!(is_private(1000, 1000, passwd, "ann:x:1000:ann\n"));
        assert!(!is_private(1000, 1000, passwd, "ann:x:1000:bob\n"));
        assert!(!is_private(100, 1000, passwd, group), "another user's own group");
        assert!(!is_private(200, 1000, passwd, group), "a group that is no user's own");
        assert!(!is_private(1000, 1000, passwd, ""), "a group that is not listed");
    }

    #[test]
    fn only_the_users_own_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        assert!(read(&file, 10).unwrap().is_none());
        fs::write(&file, "text").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(read(&file, 10).unwrap().unwrap().unwrap(), b"text");
        assert!(read(&file, 3).is_err(), "too large");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o646)).unwrap();
        let unowned = read(&file, 10).unwrap().unwrap().unwrap_err();
        assert!(unowned.fix().starts_with("chmod go-w "), "{unowned}");
        let link = dir.path().join("b");
        symlink(&file, &link).unwrap();
        assert!(matches!(read(&link, 10).unwrap().unwrap(), Err(OwnershipError::Link { .. })));
        let pipe = dir.path().join("c");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600))
            .unwrap();
        assert!(matches!(read(&pipe, 10).unwrap().unwrap(), Err(OwnershipError::NotAFile { .. })));
    }
}
