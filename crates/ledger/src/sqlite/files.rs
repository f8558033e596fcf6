//! The files of a ledger: their paths, their lock, and the checks before SQLite opens them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::db::corrupt;
use super::high_water;
use super::open::Error;

/// The files in a ledger's directory.
#[derive(Clone, Debug)]
pub(crate) struct LedgerPaths {
    pub(crate) dir: PathBuf,
    pub(crate) db: PathBuf,
    pub(crate) wal: PathBuf,
    pub(crate) lock: PathBuf,
    pub(crate) marker: PathBuf,
    /// The file with the high-water mark, which is written after each commit.
    pub(crate) head: PathBuf,
    pub(crate) archive: PathBuf,
}

/// The lock that makes a process the only writer.
#[derive(Debug)]
pub struct WriterLock(File);

impl Drop for WriterLock {
    fn drop(&mut self) {
        // Closing the file is not enough, because a forked child that has not called exec yet still
        // has it open.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

/// The kind of contents of a ledger's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirContents {
    Nothing,
    /// A database, and the highest `seq` according to the marker, if there is one.
    Ledger {
        known: Option<u64>,
    },
}

impl LedgerPaths {
    pub(crate) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_path_buf(),
            db: dir.join("ledger.db"),
            wal: dir.join("ledger.db-wal"),
            lock: dir.join("ledger.lock"),
            marker: dir.join("ledger.created"),
            head: dir.join("ledger.head"),
            archive: dir.join("archive"),
        }
    }
}

/// Creates a directory that only its owner can access, if it does not exist.
pub(crate) fn make_dir(dir: &Path) -> Result<(), crate::Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| crate::Error::io("create the directory", dir, e))
}

/// Takes the lock that makes this process the only writer. The lock is held until the value is dropped.
pub(crate) fn lock(paths: &LedgerPaths) -> Result<WriterLock, Error> {
    let path = &paths.lock;
    let mut file = private()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(|e| crate::Error::io("open the lock", path, e))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            return Err(Error::Locked { path: path.clone(), pid: written_pid(&mut file) });
        }
        Err(e) => return Err(crate::Error::io("lock", path, e.into()).into()),
    }
    // The pid only helps users to find the lock's owner, so a full disk must not keep the ledger
    // from opening.
    drop(write_pid(&mut file));
    Ok(WriterLock(file))
}

/// Inspects the files without changing anything, and rejects them if they cannot be a complete ledger.
pub(crate) fn inspect(paths: &LedgerPaths) -> Result<DirContents, Error> {
    let marker = read_marker(paths)?;
    if length(&paths.db)? > 0 {
        check_header(paths)?;
        return Ok(DirContents::Ledger { known: marker });
    }
    let marked = high_water::read(&paths.head)?.is_some();
    if marker.is_some() || marked || length(&paths.wal)? > 0 {
        let path = paths.db.clone();
        return Err(Error::Vanished { path });
    }
    Ok(DirContents::Nothing)
}

/// Creates the empty file that SQLite will fill. Only its owner can read it, and its companion
/// files inherit the mode.
pub(crate) fn create_db(paths: &LedgerPaths) -> Result<(), crate::Error> {
    private()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&paths.db)
        .map(drop)
        .map_err(|e| crate::Error::io("create", &paths.db, e))
}

/// Records that a ledger exists here, and the highest known `seq`.
pub(crate) fn write_marker(paths: &LedgerPaths, last_seq: u64) -> Result<(), crate::Error> {
    let text = format!("{MARKER_HEAD}{last_seq}\n");
    replace(&paths.marker, text.as_bytes())
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), crate::Error> {
    File::open(dir)
        .and_then(|d| d.sync_all())
        .map_err(|e| crate::Error::io("sync the directory", dir, e))
}

/// Options for files that only their owner can read.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

const MARKER_HEAD: &str = "provost-ledger last_seq ";
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const HEADER_BYTES: usize = 100;

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn written_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Returns the `seq` in the marker, or 0 if the marker exists but cannot be parsed.
fn read_marker(paths: &LedgerPaths) -> Result<Option<u64>, crate::Error> {
    match fs::read(&paths.marker) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let seq = text.strip_prefix(MARKER_HEAD).map(str::trim_end);
            Ok(Some(seq.and_then(|s| s.parse().ok()).unwrap_or(0)))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(crate::Error::io("read", &paths.marker, e)),
    }
}

fn replace(path: &Path, bytes: &[u8]) -> Result<(), crate::Error> {
    let fresh = path.with_extension("new");
    let write = || {
        let mut file = private().write(true).create(true).truncate(true).open(&fresh)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    };
    write().map_err(|e| crate::Error::io("write", path, e))
}

/// Returns the size of a file, or 0 if it does not exist.
fn length(path: &Path) -> Result<u64, crate::Error> {
    match fs::metadata(path) {
        Ok(meta) => Ok(meta.len()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(e) => Err(crate::Error::io("look at", path, e)),
    }
}

fn check_header(paths: &LedgerPaths) -> Result<(), crate::Error> {
    let db = &paths.db;
    let mut header = [0; HEADER_BYTES];
    let mut file = File::open(db).map_err(|e| crate::Error::io("open", db, e))?;
    match file.read_exact(&mut header) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(corrupt(db, "the file is too short for a database"));
        }
        Err(e) => return Err(crate::Error::io("read", db, e)),
    }
    if !header.starts_with(MAGIC) {
        return Err(corrupt(db, "the header is not an SQLite header"));
    }
    // If there is a log next to it, the database may be shorter than its header says.
    if length(db)? < expected_bytes(&header) && length(&paths.wal)? == 0 {
        return Err(corrupt(db, "the file is cut off"));
    }
    Ok(())
}

/// Returns the size according to the header, which contains the page size at offset 16 (1 means
/// 65536) and the number of pages at offset 28.
fn expected_bytes(header: &[u8; HEADER_BYTES]) -> u64 {
    let page = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65536,
        size => u64::from(size),
    };
    let pages = u32::from_be_bytes([header[28], header[29], header[30], header[31]]);
    page * u64::from(pages)
}
