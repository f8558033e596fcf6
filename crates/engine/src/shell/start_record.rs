//! Start records: which effects Provost itself has started, and their directories.
//!
//! A check, hook, setup, push or call of `gh` runs in a directory whose name contains a random
//! part. Before the holder starts, the name is durably recorded here and authenticated with the
//! home's key, so that after a crash, the next daemon finds the same directory and nothing runs
//! twice. A record that Provost did not write is ignored and moved aside.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use provost_holder::{HeldRecord, HoldSpec};
use provost_sys::agent_file;
use serde::{Deserialize, Serialize};

use super::{clock::wall_ms, home::Home};

/// A start record longer than this was not written by Provost.
const MAX_RECORD: u64 = 64 << 10;

/// Separates an effect's name from the random part in the name of its directory.
pub(crate) const RANDOM_SEPARATOR: char = '~';

/// Maximum number of cut-off starts to remember in a record.
const MAX_CUT_OFF: usize = 16;

const VERSION: u32 = 1;

/// The context from which the authentication key is derived.
const MAC_CONTEXT: &str = "provost 2026-11 start record of an effect";

/// An effect that Provost started, or is about to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StartRecord {
    version: u32,
    /// The effect's owner and key, or the launch's id.
    pub(super) name: String,
    /// The random part of the directory's name. None for a launch.
    random: Option<String>,
    argv: String,
    /// Digests of the directories in which the command may have been started. If a crash interrupts a start, the start
    /// is repeated in another checkout.
    cwds: Vec<String>,
    /// When the command was about to be started.
    pub(super) started_wall_ms: u64,
    /// Earlier starts of the same effect that were cut off, since the last successful start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) cut_off: Vec<CutOffStart>,
}

/// When a command that was cut off was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CutOffStart {
    pub(super) started_wall_ms: u64,
    /// A time by which the command had certainly ended.
    pub(super) ended_wall_ms: u64,
}

#[derive(Serialize, Deserialize)]
struct AuthenticatedRecord {
    record: StartRecord,
    mac: String,
}

/// The contents of a start record's file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LoadedRecord {
    Missing,
    Valid(StartRecord),
    /// The file was not written by Provost.
    Forged,
}

/// The start records of a home.
#[derive(Clone, Debug)]
pub(crate) struct StartRecords {
    home: Home,
    key: [u8; 32],
}

impl StartRecord {
    /// Creates the record for an effect, whose directory has a random name.
    pub(crate) fn for_effect(name: String, spec: &HoldSpec) -> io::Result<StartRecord> {
        Ok(StartRecord { random: Some(random_hex()?), ..StartRecord::for_launch(name, spec) })
    }

    /// Creates the record for a launch, whose directory is named after its id.
    pub(crate) fn for_launch(name: String, spec: &HoldSpec) -> StartRecord {
        let cwds = vec![path_digest(&spec.cwd)];
        StartRecord {
            version: VERSION,
            name,
            random: None,
            argv: argv_digest(&spec.argv),
            cwds,
            started_wall_ms: wall_ms(),
            cut_off: Vec::new(),
        }
    }

    /// Returns the name of the directory in which the command runs.
    pub(crate) fn directory(&self) -> String {
        match &self.random {
            Some(random) => format!("{}{RANDOM_SEPARATOR}{random}", self.name),
            None => self.name.clone(),
        }
    }

    /// Adds a start that was cut off. If there are too many, the oldest ones are forgotten.
    pub(crate) fn add_cut_off(&mut self, start: CutOffStart) {
        self.cut_off.push(start);
        let surplus = self.cut_off.len().saturating_sub(MAX_CUT_OFF);
        self.cut_off.drain(..surplus);
    }

    /// Whether the record is for this command.
    pub(crate) fn has_argv(&self, argv: &[String]) -> bool {
        self.argv == argv_digest(argv)
    }

    /// Adds a directory in which the command may be started. Returns whether it is new.
    pub(crate) fn add_cwd(&mut self, cwd: &Path) -> bool {
        let cwd = path_digest(cwd);
        let is_new = !self.cwds.contains(&cwd);
        if is_new {
            self.cwds.push(cwd);
        }
        is_new
    }

    /// Whether a holder that was started for this effect could have written this record.
    pub(crate) fn matches(&self, held: &HeldRecord) -> bool {
        held.key == self.directory()
            && self.has_argv(&held.argv)
            && self.cwds.contains(&path_digest(&held.cwd))
    }
}

impl StartRecords {
    pub(crate) fn new(home: &Home, key: &[u8; 32]) -> StartRecords {
        StartRecords { home: home.clone(), key: blake3::derive_key(MAC_CONTEXT, key) }
    }

    pub(crate) fn load(&self, name: &str) -> io::Result<LoadedRecord> {
        let bytes = match agent_file::read(&self.home.start(name), MAX_RECORD) {
            Ok(bytes) => bytes,
            Err(agent_file::Error::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                return Ok(LoadedRecord::Missing);
            }
            Err(agent_file::Error::Io { source, .. }) => return Err(source),
            Err(_) => return Ok(LoadedRecord::Forged),
        };
        let Ok(AuthenticatedRecord { record, mac }) = serde_json::from_slice(&bytes) else {
            return Ok(LoadedRecord::Forged);
        };
        let right = self.mac(&record)?;
        let same = blake3::Hash::from_hex(&mac).is_ok_and(|mac| mac == right);
        let valid = same && record.version == VERSION && record.name == name;
        Ok(if valid { LoadedRecord::Valid(record) } else { LoadedRecord::Forged })
    }

    /// Returns the names of recorded effects whose key has this suffix.
    pub(crate) fn names(&self, key_end: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.home.starts())? {
            let name = entry?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(".json"));
            names.extend(name.filter(|name| name.ends_with(key_end)).map(str::to_owned));
        }
        Ok(names)
    }

    /// Writes a start record such that it survives a power loss. Nothing may be started before this.
    pub(crate) fn store(&self, record: &StartRecord) -> io::Result<()> {
        let mac = self.mac(record)?.to_hex().to_string();
        let bytes = serde_json::to_vec(&AuthenticatedRecord { record: record.clone(), mac })?;
        let path = self.home.start(&record.name);
        let new = path.with_extension("new");
        // A crash may have left this file behind. If it is a symlink, only the link is removed.
        fs::remove_file(&new).ok();
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(self.home.starts())?.sync_all()
    }

    /// Removes the record of an effect that may be started again.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.home.start(name)) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Moves aside every directory with the name of an effect that Provost has not started. Returns
    /// the new locations, relative to the home.
    pub(crate) fn move_directories_aside(&self, name: &str) -> io::Result<Vec<PathBuf>> {
        let with_random = format!("{name}{RANDOM_SEPARATOR}");
        let mut moved = Vec::new();
        for entry in fs::read_dir(self.home.checks())? {
            let found = entry?.file_name();
            let bytes = found.as_bytes();
            if bytes == name.as_bytes() || bytes.starts_with(with_random.as_bytes()) {
                match self.move_aside(&self.home.checks().join(&found)) {
                    Ok(kept) => moved.push(kept),
                    // A holder that was ended while it was starting removes its own directory.
                    Err(why) if why.kind() == io::ErrorKind::NotFound => {}
                    Err(why) => return Err(why),
                }
            }
        }
        Ok(moved)
    }

    /// Moves aside the file of a start record that Provost did not write.
    pub(crate) fn move_record_aside(&self, name: &str) -> io::Result<PathBuf> {
        self.move_aside(&self.home.start(name))
    }

    /// Moves a path into the directory for forged records. If it is a symlink, only the link is moved.
    pub(crate) fn move_aside(&self, path: &Path) -> io::Result<PathBuf> {
        let forged = self.home.forged();
        DirBuilder::new().recursive(true).mode(0o700).create(&forged)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let kept = format!("{name}-{}", &random_hex()?[..8]);
        fs::rename(path, forged.join(&kept))?;
        let parent = forged.strip_prefix(self.home.root()).unwrap_or(&forged);
        Ok(parent.join(kept))
    }

    fn mac(&self, record: &StartRecord) -> io::Result<blake3::Hash> {
        Ok(blake3::keyed_hash(&self.key, &serde_json::to_vec(record)?))
    }
}

/// Finds the directory for an effect's name in a row. This is only for display, and no decision
/// depends on it.
pub fn output_directory(home: &Path, output: &str) -> PathBuf {
    let plain = home.join(output);
    let name = plain.file_name().map(|name| name.to_string_lossy().into_owned());
    let started = name.and_then(|name| {
        let path = Home::new(home).start(&name);
        let bytes = agent_file::read(&path, MAX_RECORD).ok()?;
        let AuthenticatedRecord { record, .. } = serde_json::from_slice(&bytes).ok()?;
        let directory = record.directory();
        (!directory.contains('/')).then_some(directory)
    });
    started.map_or(plain.clone(), |directory| plain.with_file_name(directory))
}

fn argv_digest(argv: &[String]) -> String {
    let mut hasher = blake3::Hasher::new();
    for word in argv {
        hasher.update(&(word.len() as u64).to_le_bytes()).update(word.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

fn path_digest(path: &Path) -> String {
    blake3::hash(path.as_os_str().as_bytes()).to_hex().to_string()
}

/// Returns 128 random bits in hexadecimal.
pub(super) fn random_hex() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path());
        for directory in home.directories() {
            fs::create_dir_all(directory).unwrap();
        }
        (dir, home)
    }

    fn spec(argv: &[&str], cwd: &str) -> HoldSpec {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        HoldSpec::new(String::new(), argv, cwd)
    }

    #[test]
    fn record_counts_only_with_the_homes_key() {
        let (_dir, home) = home();
        let (own, other) = (StartRecords::new(&home, &[1; 32]), StartRecords::new(&home, &[2; 32]));
        assert_eq!(own.load("s.c1").unwrap(), LoadedRecord::Missing);
        let record = StartRecord::for_effect("s.c1".to_owned(), &spec(&["true"], "/a")).unwrap();
        own.store(&record).unwrap();
        assert_eq!(own.load("s.c1").unwrap(), LoadedRecord::Valid(record.clone()));
        assert_eq!(other.load("s.c1").unwrap(), LoadedRecord::Forged);
        // A valid record under a different name also counts as forged.
        fs::copy(home.start("s.c1"), home.start("s.c2")).unwrap();
        assert_eq!(own.load("s.c2").unwrap(), LoadedRecord::Forged);
        fs::remove_file(home.start("s.c2")).unwrap();
        std::os::unix::fs::symlink(home.start("s.c1"), home.start("s.c2")).unwrap();
        assert_eq!(own.load("s.c2").unwrap(), LoadedRecord::Forged);
        assert_ne!(record.directory(), "s.c1");
        assert_eq!(
            output_directory(home.root(), "checks/s.c1"),
            home.checks().join(record.directory())
        );
        own.remove("s.c1").unwrap();
        assert_eq!(own.load("s.c1").unwrap(), LoadedRecord::Missing);
    }

    #[test]
    fn only_foreign_effect_directories_are_moved() {
        let (_dir, home) = home();
        let records = StartRecords::new(&home, &[1; 32]);
        for name in ["s.c1", "s.c1~abc", "s.c10", "s.c1-r1", "s.c1.view"] {
            fs::create_dir(home.checks().join(name)).unwrap();
        }
        let moved = records.move_directories_aside("s.c1").unwrap();
        assert_eq!(moved.len(), 2, "{moved:?}");
        assert!(moved.iter().all(|path| home.root().join(path).is_dir()), "{moved:?}");
        let mut left: Vec<_> =
            fs::read_dir(home.checks()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["s.c1-r1", "s.c1.view", "s.c10"]);
    }

    #[test]
    fn held_record_must_match_key_argv_and_cwd() {
        let mut record =
            StartRecord::for_effect("s.c1".to_owned(), &spec(&["sh", "-c", "x"], "/a")).unwrap();
        let identity =
            provost_holder::ProcessInstance { pid: 1, start_time: 1, boot_id: String::new() };
        let held = |key: &str, argv: &[&str], cwd: &str| HeldRecord {
            version: 1,
            key: key.to_owned(),
            holder: identity.clone(),
            child: identity.clone(),
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            cwd: cwd.into(),
            started_wall_ms: 0,
            started_mono_ms: 0,
        };
        let key = record.directory();
        assert!(record.matches(&held(&key, &["sh", "-c", "x"], "/a")));
        assert!(!record.matches(&held("s.c1", &["sh", "-c", "x"], "/a")));
        assert!(!record.matches(&held(&key, &["sh", "-cx"], "/a")));
        assert!(!record.matches(&held(&key, &["sh", "-c", "x"], "/b")));
        assert!(record.add_cwd(Path::new("/b")) && !record.add_cwd(Path::new("/b")));
        assert!(record.matches(&held(&key, &["sh", "-c", "x"], "/b")));
    }
}
