//! Provost's home directory: its location, its layout, and whether it can be trusted.

use std::{
    fs::{self, DirBuilder, Metadata},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use provost_api::{ApiError, ErrorCode};
use rustix::{fs::Access, io::Errno, process::geteuid};

use crate::{environment::Environment, error::usage};

/// The mode bits that allow other users to change a directory.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The length of a home's id, in hexadecimal digits.
const ID_DIGITS: usize = 32;

/// The maximum size of the key file, in bytes. A key has 32 bytes.
pub(crate) const MAX_KEY: u64 = 1 << 10;

/// The directory that contains a user's ledger, journals, sockets and worktrees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProvostHome {
    pub(crate) path: PathBuf,
}

impl ProvostHome {
    /// Finds the home: `$PROVOST_HOME`, or else `provost` in the XDG state directory.
    pub(crate) fn find(environment: &Environment) -> Result<Self, ApiError> {
        if let Some(given) = environment.get("PROVOST_HOME") {
            let path = PathBuf::from(given);
            let path =
                if path.is_absolute() { path } else { environment.current_dir()?.join(path) };
            return Ok(ProvostHome { path });
        }
        let state = environment.path("XDG_STATE_HOME");
        let state = state.or_else(|| Some(environment.path("HOME")?.join(".local/state")));
        let state = state.ok_or_else(|| {
            usage("cannot find a home: neither PROVOST_HOME, XDG_STATE_HOME nor HOME is set")
                .next("export PROVOST_HOME=DIRECTORY")
        })?;
        Ok(ProvostHome { path: state.join("provost") })
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path.join("daemon.sock")
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.path.join("ledger")
    }

    /// The directory that contains a directory for each launch. The holder of a launch creates the directory of the
    /// launch.
    pub(crate) fn launches(&self) -> PathBuf {
        self.path.join("launches")
    }

    pub(crate) fn launch(&self, id: &str) -> PathBuf {
        self.launches().join(id)
    }

    /// The home's id, which identifies the origin of an export. The id is derived from a key that the daemon creates,
    /// so a home has no id until a daemon has run in it. A home that is moved keeps its id.
    pub(crate) fn id(&self) -> Option<String> {
        let key = provost_sys::agent_file::read(&self.path.join("key"), MAX_KEY).ok()?;
        let derived = blake3::derive_key("provost home id 1", &key);
        Some(blake3::Hash::from(derived).to_hex()[..ID_DIGITS].to_owned())
    }

    pub(crate) fn worktrees(&self) -> PathBuf {
        self.path.join("worktrees")
    }

    pub(crate) fn log_dir(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Reads the home's metadata, or returns `None` if the home does not exist yet.
    pub(crate) fn metadata(&self) -> Result<Option<Metadata>, ApiError> {
        match fs::metadata(&self.path) {
            Ok(found) => Ok(Some(found)),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(self.io_error("read", &why)),
        }
    }

    /// Checks that no other user can have written to the home.
    pub(crate) fn check_trust(&self) -> Result<(), ApiError> {
        self.metadata()?.map_or(Ok(()), |found| self.check_metadata(&found))
    }

    /// Creates the home if it is missing, and checks that it is writable.
    pub(crate) fn prepare(&self) -> Result<(), ApiError> {
        match self.metadata()? {
            Some(found) => self.check_metadata(&found)?,
            None => self.create()?,
        }
        match rustix::fs::access(&self.path, Access::WRITE_OK | Access::EXEC_OK) {
            Ok(()) => Ok(()),
            Err(Errno::ROFS) => Err(self.read_only_error("its file system is mounted read-only")),
            Err(Errno::ACCESS) => Err(self.read_only_error("you are not permitted to write to it")),
            Err(why) => Err(self.io_error("write to", &why.into())),
        }
    }

    /// Whether the home exists but is not writable.
    pub(crate) fn is_read_only(&self) -> bool {
        let writable = rustix::fs::access(&self.path, Access::WRITE_OK | Access::EXEC_OK);
        matches!(writable, Err(Errno::ROFS | Errno::ACCESS))
    }

    fn read_only_error(&self, why: &str) -> ApiError {
        let message = format!(
            "the home {} is read-only ({why}), so no daemon can be started in it; make it writable, or read the ledger with `provost ledger export`",
            display_path(&self.path)
        );
        ApiError::new(ErrorCode::Storage, message)
            .next("provost ledger export")
            .next("provost doctor")
    }

    fn check_metadata(&self, found: &Metadata) -> Result<(), ApiError> {
        if !found.is_dir() {
            return Err(self.refusal("is not a directory", "export PROVOST_HOME=DIRECTORY"));
        }
        if found.uid() != geteuid().as_raw() {
            let what = format!("belongs to another user (uid {})", found.uid());
            return Err(self.refusal(&what, "export PROVOST_HOME=DIRECTORY"));
        }
        if found.mode() & WRITABLE_BY_OTHERS != 0 {
            let what = format!("can be changed by others (mode {:03o})", found.mode() & 0o777);
            return Err(self.refusal(&what, &format!("chmod 700 {}", display_path(&self.path))));
        }
        Ok(())
    }

    fn create(&self) -> Result<(), ApiError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
        made.map_err(|why| self.io_error("make", &why))
    }

    fn refusal(&self, what: &str, next: &str) -> ApiError {
        let message = format!("the home {} {what}", display_path(&self.path));
        ApiError::new(ErrorCode::Refused, message).next(next)
    }

    fn io_error(&self, action: &str, why: &io::Error) -> ApiError {
        let message = format!("cannot {action} the home {}: {why}", display_path(&self.path));
        ApiError::new(ErrorCode::Storage, message).next("provost doctor")
    }
}

fn display_path(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn found(variables: &[(&str, &str)]) -> String {
        ProvostHome::find(&Environment::from_pairs(variables)).unwrap().path.display().to_string()
    }

    #[test]
    fn home_is_the_given_one_or_the_default() {
        assert_eq!(found(&[("PROVOST_HOME", "/p"), ("HOME", "/h")]), "/p");
        assert_eq!(found(&[("XDG_STATE_HOME", "/s"), ("HOME", "/h")]), "/s/provost");
        assert_eq!(found(&[("XDG_STATE_HOME", "s"), ("HOME", "/h")]), "/h/.local/state/provost");
        assert_eq!(found(&[("PROVOST_HOME", ""), ("HOME", "/h")]), "/h/.local/state/provost");
        assert!(ProvostHome::find(&Environment::from_pairs(&[])).is_err());
    }

    #[test]
    fn home_writable_by_others_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let home = ProvostHome { path: dir.path().to_owned() };
        home.prepare().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o770)).unwrap();
        assert_eq!(home.check_trust().unwrap_err().code, ErrorCode::Refused);
        assert_eq!(home.prepare().unwrap_err().code.exit_code(), 4);
    }

    #[test]
    fn new_home_is_private_to_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let home = ProvostHome { path: dir.path().join("a/b") };
        assert!(home.metadata().unwrap().is_none());
        home.prepare().unwrap();
        assert_eq!(home.metadata().unwrap().unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn file_instead_of_home_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let home = ProvostHome { path: file.path().to_owned() };
        assert_eq!(home.prepare().unwrap_err().code, ErrorCode::Refused);
    }
}
