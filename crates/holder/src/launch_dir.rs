//! The launch directory: created exclusively by the holder, and only read by other processes.
//!
//! Its files appear in a fixed order, each atomically: `holder.json` (the launch is taken),
//! `held.json` (the command is running), `exit.json` (its leader has exited), `gone.json` (its tree
//! has ended).

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock::wall_ms;
use crate::journal::JOURNAL_FILE;
use crate::record::{
    EXIT_FILE, ExitRecord, GONE_FILE, GoneRecord, HELD_FILE, HOLDER_FILE, HeldRecord, HolderRecord,
    RECORD_VERSION,
};
use provost_sys::process::{ProcessInstance, boot_id, descriptor_path};

/// The name of the holder's socket in its directory.
pub const SOCKET_FILE: &str = "io.sock";
/// The maximum size of a record. A larger one was not written by a holder.
const MAX_RECORD: u64 = 16 << 20;

/// The state of a launch directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchState {
    /// The directory does not exist, so nothing was started.
    Absent,
    /// A holder took the launch, but the command is not recorded as running yet. If `holder` is
    /// `None`, it is unknown which process took the launch, and only the age of the directory shows
    /// whether that process may still be at work.
    Starting {
        age_ms: u64,
        holder: Option<ProcessInstance>,
    },
    Alive {
        held: HeldRecord,
    },
    /// The command has exited. The record remains valid, even if the holder or the machine has
    /// failed since.
    Ended {
        held: Option<HeldRecord>,
        exit: ExitRecord,
        gone: Option<GoneRecord>,
    },
    /// The holder died before it recorded the command's end. The result of the command is unknown,
    /// and its processes may still be running.
    HolderDied {
        holder: ProcessInstance,
        held: Option<HeldRecord>,
    },
    /// The machine has been rebooted since the launch. All processes have ended, but their results
    /// are unknown.
    OtherBoot {
        holder: ProcessInstance,
        held: Option<HeldRecord>,
    },
}

/// The reason why a directory's state could not be read. An error never means that the launch has
/// ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not inspect {path}")]
    Io { path: PathBuf, source: io::Error },
    #[error("could not parse {path}")]
    Malformed { path: PathBuf, source: serde_json::Error },
    #[error("version {version} of {path} is not supported")]
    Version { path: PathBuf, version: u32 },
}

/// Reads the state of a launch directory and, if necessary, the process table.
pub fn inspect(path: &Path) -> Result<LaunchState, Error> {
    let Some(dir) = DirInspection::open(path)? else { return Ok(LaunchState::Absent) };
    if let Some(ended) = dir.ended()? {
        return Ok(ended);
    }
    let held = dir.record::<HeldRecord>(HELD_FILE)?;
    let holder = match &held {
        Some(held) => Some(held.holder.clone()),
        None => dir.record::<HolderRecord>(HOLDER_FILE)?.map(|taken| taken.holder),
    };
    let Some(holder) = holder else { return dir.starting(None) };
    match (dir.fate(&holder)?, held) {
        (HolderFate::Alive, Some(held)) => Ok(LaunchState::Alive { held }),
        (HolderFate::Alive, None) => dir.starting(Some(holder)),
        (fate, held) => dir.without_holder(fate, holder, held),
    }
}

/// The launch directory. It is kept open, so it does not matter how long its path is or whether the
/// path changes.
#[derive(Debug)]
pub(crate) struct LaunchDir {
    fd: OwnedFd,
}

impl LaunchDir {
    /// Creates the directory. `AlreadyExists` means that the launch was already taken.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).create(path)?;
        let opened = Self::open(path);
        if opened.is_err() {
            // The command was not started, so the launch can be retried.
            fs::remove_dir(path).ok();
        }
        opened
    }

    /// Syncs the parent directory, because the directory's name must survive a power loss before
    /// anything is started. This is cheap once the contents are synced, because the file system
    /// wrote both together.
    pub(crate) fn sync_name(path: &Path) -> io::Result<()> {
        path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
    }

    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { fd: rustix::fs::open(path, flags, Mode::empty())? })
    }

    /// Writes a record atomically and durably. Readers see all of it or nothing, and it survives a
    /// power loss.
    pub(crate) fn write_record(&self, name: &str, record: &impl Serialize) -> io::Result<()> {
        self.write_unsynced(name, record)?;
        self.sync_record(name)
    }

    /// Writes a record atomically. Until it is synced, a power loss can undo it.
    pub(crate) fn write_unsynced(&self, name: &str, record: &impl Serialize) -> io::Result<()> {
        let new = temp_name(name);
        let mut file = self.open_file(&new, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        Ok(rustix::fs::renameat(&self.fd, new.as_str(), &self.fd, name)?)
    }

    /// Reserves space for a record that must be written later, even if the disk becomes full in the
    /// meantime.
    pub(crate) fn reserve_record(
        &self,
        name: &'static str,
        bytes: u64,
    ) -> io::Result<ReservedRecord> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let file = self.open_file(&temp_name(name), flags)?;
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            // The file system cannot allocate in advance, so blocks are allocated by writing them.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                io::copy(&mut io::repeat(0).take(bytes), &mut &file)?;
                file.sync_data()?;
            }
            other => other?,
        }
        Ok(ReservedRecord { name, file, bytes })
    }

    /// Writes a record into its reserved space, atomically and durably.
    pub(crate) fn write_reserved(
        &self,
        reserved: &ReservedRecord,
        record: &impl Serialize,
    ) -> io::Result<()> {
        let ReservedRecord { name, file, bytes } = reserved;
        let text = serde_json::to_vec(record)?;
        if text.len() as u64 > *bytes {
            return Err(io::Error::other("the record is larger than its reserved space"));
        }
        file.write_all_at(&text, 0)?;
        file.set_len(text.len() as u64)?;
        rustix::fs::renameat(&self.fd, temp_name(name).as_str(), &self.fd, *name)?;
        self.sync_record(name)
    }

    pub(crate) fn sync_record(&self, name: &str) -> io::Result<()> {
        self.open_file(name, OFlags::RDONLY)?.sync_all()?;
        Ok(rustix::fs::fsync(&self.fd)?)
    }

    /// Reads a file, if it exists.
    fn read_file(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        // Open the file without blocking, because an agent may have replaced it with a FIFO.
        let file = match self.open_file(name, OFlags::RDONLY | OFlags::NONBLOCK) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(MAX_RECORD).read_to_end(&mut bytes)?;
        // A record that was emptied by a power loss does not count.
        Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }

    pub(crate) fn create_journal(&self) -> io::Result<File> {
        self.open_file(
            JOURNAL_FILE,
            OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL,
        )
    }

    /// Returns a path to the socket that is short enough for a socket address, even if the
    /// directory's own path is too long.
    pub(crate) fn socket_path(&self) -> PathBuf {
        descriptor_path(&self.fd).join(SOCKET_FILE)
    }

    pub(crate) fn remove_socket(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, SOCKET_FILE, AtFlags::empty())?)
    }

    /// Removes the directory of a launch that started nothing, so that the launch can be retried.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        let records = [EXIT_FILE, GONE_FILE, HELD_FILE, HOLDER_FILE];
        let new = records.map(temp_name);
        let files = [SOCKET_FILE, JOURNAL_FILE].into_iter().chain(records);
        for name in files.chain(new.iter().map(String::as_str)) {
            match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        fs::remove_dir(path)
    }

    fn open_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(rustix::fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }
}

/// A record that is not written yet, but whose space on the disk is allocated.
#[derive(Debug)]
pub(crate) struct ReservedRecord {
    name: &'static str,
    file: File,
    bytes: u64,
}

fn temp_name(name: &str) -> String {
    format!(".{name}.new")
}

/// One inspection: the open directory, and its path for error messages.
struct DirInspection<'a> {
    path: &'a Path,
    dir: LaunchDir,
}

enum HolderFate {
    Alive,
    Died,
    OtherBoot,
}

impl<'a> DirInspection<'a> {
    fn open(path: &'a Path) -> Result<Option<Self>, Error> {
        match LaunchDir::open(path) {
            Ok(dir) => Ok(Some(Self { path, dir })),
            Err(error) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => Ok(None),
            Err(source) => Err(Error::Io { path: path.to_owned(), source }),
        }
    }

    fn ended(&self) -> Result<Option<LaunchState>, Error> {
        let Some(exit) = self.record::<ExitRecord>(EXIT_FILE)? else { return Ok(None) };
        let held = self.record(HELD_FILE)?;
        let gone = self.record(GONE_FILE)?;
        Ok(Some(LaunchState::Ended { held, exit, gone }))
    }

    /// Checks again whether the launch has ended, because the holder may have written a record and
    /// exited between the two reads.
    fn without_holder(
        &self,
        fate: HolderFate,
        holder: ProcessInstance,
        held: Option<HeldRecord>,
    ) -> Result<LaunchState, Error> {
        if let Some(ended) = self.ended()? {
            return Ok(ended);
        }
        let held = if held.is_some() { held } else { self.record(HELD_FILE)? };
        match fate {
            HolderFate::OtherBoot => Ok(LaunchState::OtherBoot { holder, held }),
            HolderFate::Alive | HolderFate::Died => Ok(LaunchState::HolderDied { holder, held }),
        }
    }

    fn starting(&self, holder: Option<ProcessInstance>) -> Result<LaunchState, Error> {
        let stat =
            rustix::fs::fstat(&self.dir.fd).map_err(|error| self.failed("", error.into()))?;
        let made_ms = u64::try_from(stat.st_mtime).unwrap_or(0).saturating_mul(1000);
        Ok(LaunchState::Starting { age_ms: wall_ms().saturating_sub(made_ms), holder })
    }

    fn fate(&self, holder: &ProcessInstance) -> Result<HolderFate, Error> {
        let failed = |source| Error::Io { path: "/proc".into(), source };
        if holder.boot_id != boot_id().map_err(failed)? {
            return Ok(HolderFate::OtherBoot);
        }
        Ok(if holder.is_alive().map_err(failed)? { HolderFate::Alive } else { HolderFate::Died })
    }

    fn record<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let Some(bytes) = self.dir.read_file(name).map_err(|error| self.failed(name, error))?
        else {
            return Ok(None);
        };
        let malformed = |source| Error::Malformed { path: self.path.join(name), source };
        let RecordVersion { version } = serde_json::from_slice(&bytes).map_err(malformed)?;
        if version != RECORD_VERSION {
            return Err(Error::Version { path: self.path.join(name), version });
        }
        serde_json::from_slice(&bytes).map(Some).map_err(malformed)
    }

    fn failed(&self, name: &str, source: io::Error) -> Error {
        Error::Io { path: self.path.join(name), source }
    }
}

#[derive(serde::Deserialize)]
struct RecordVersion {
    version: u32,
}
