//! A cache of program versions, because querying a version takes longer than all other steps of a
//! start.
//!
//! An entry is valid for exactly one file, identified by inode, size and change times. Only native
//! programs named like Codex are cached, because the version of a script or a version manager's
//! shim also depends on other files.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use provost_sys::agent_file;

use crate::AgentVersion;

/// The name prefix of programs whose version is cached.
const NAME: &str = "codex";

/// The magic numbers of native programs: ELF, and Mach-O for one or several architectures.
const NATIVE: [[u8; 4]; 3] = [*b"\x7fELF", [0xcf, 0xfa, 0xed, 0xfe], [0xca, 0xfe, 0xba, 0xbe]];

/// The maximum number of entries. If there are more, the cache is cleared.
const MAX_ENTRIES: usize = 32;

/// The maximum size of the cache file in bytes, which is far more than it needs.
const MAX_BYTES: u64 = 1 << 20;

/// The stamp and the version of each program, by its real path.
type VersionCache = BTreeMap<String, (String, String)>;

/// One program, and the file in which its version is cached.
#[derive(Debug)]
pub(crate) struct CachedProgram<'a> {
    memory: &'a Path,
    program: String,
    stamp: String,
}

impl<'a> CachedProgram<'a> {
    /// Examines a program. Returns `None` if its version may change without a change to the file.
    pub(crate) fn inspect(memory: &'a Path, program: &Path) -> Option<Self> {
        let program = fs::canonicalize(program).ok()?;
        let is_named = program.file_name()?.to_str()?.starts_with(NAME);
        let stamp = (is_named && is_native(&program).ok()?).then(|| stamp(&program).ok())??;
        Some(Self { memory, program: program.to_str()?.to_owned(), stamp })
    }

    /// Returns the cached version, if it belongs to exactly this file.
    pub(crate) fn version(&self) -> Option<AgentVersion> {
        let (stamp, version) = read(self.memory).remove(&self.program)?;
        (stamp == self.stamp).then(|| version.parse().ok())?
    }

    /// Stores the version, unless the file was replaced in the meantime.
    pub(crate) fn store(&self, version: &AgentVersion) -> io::Result<()> {
        if stamp(Path::new(&self.program))? != self.stamp {
            return Ok(());
        }
        let mut memory = read(self.memory);
        if memory.len() >= MAX_ENTRIES {
            memory.clear();
        }
        memory.insert(self.program.clone(), (self.stamp.clone(), version.to_string()));
        write(self.memory, &memory)
    }
}

/// Reads the cache. An unreadable cache counts as empty.
fn read(path: &Path) -> VersionCache {
    let bytes = agent_file::read(path, MAX_BYTES).ok();
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

fn write(path: &Path, memory: &VersionCache) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = tempfile::Builder::new().prefix(".known-").tempfile_in(directory)?;
    file.write_all(&serde_json::to_vec(memory)?)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn is_native(program: &Path) -> io::Result<bool> {
    let mut start = [0; 4];
    agent_file::open_linked(program)?.read_exact(&mut start)?;
    Ok(NATIVE.contains(&start))
}

/// Returns a stamp that changes whenever the file is changed or replaced.
fn stamp(program: &Path) -> io::Result<String> {
    let seen = fs::metadata(program)?;
    let (changed, status) = ((seen.mtime(), seen.mtime_nsec()), (seen.ctime(), seen.ctime_nsec()));
    Ok(format!("{}:{}:{}:{changed:?}:{status:?}", seen.dev(), seen.ino(), seen.size()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const TOLD: AgentVersion = AgentVersion::new(0, 166, 0);

    struct CacheTestEnv(tempfile::TempDir);

    impl CacheTestEnv {
        fn new() -> CacheTestEnv {
            CacheTestEnv(tempfile::tempdir().unwrap())
        }

        fn file(&self, name: &str, content: &[u8]) -> std::path::PathBuf {
            let path = self.0.path().join(name);
            fs::write(&path, content).unwrap();
            path
        }

        fn known(&self, program: &Path) -> Option<AgentVersion> {
            CachedProgram::inspect(&self.0.path().join("memory"), program)?.version()
        }

        fn keep(&self, program: &Path) {
            CachedProgram::inspect(&self.0.path().join("memory"), program)
                .unwrap()
                .store(&TOLD)
                .unwrap();
        }
    }

    #[test]
    fn cached_version_expires_on_change() {
        let env = CacheTestEnv::new();
        let (one, two) = (env.file("codex", b"\x7fELF one"), env.file("codex-2", b"\x7fELF two"));
        assert_eq!(env.known(&one), None);
        env.keep(&one);
        assert_eq!((env.known(&one), env.known(&two)), (Some(TOLD), None));
        let link = env.0.path().join("link");
        symlink(&one, &link).unwrap();
        assert_eq!(env.known(&link), Some(TOLD), "a link is another name of the same file");
        fs::rename(&two, &one).unwrap();
        assert_eq!(env.known(&one), None, "another file has taken its place");
        env.keep(&one);
        fs::write(&one, b"\x7fELF longer").unwrap();
        assert_eq!(env.known(&one), None);
    }

    #[test]
    fn replaced_program_is_not_cached() {
        let env = CacheTestEnv::new();
        let (one, two) = (env.file("codex", b"\x7fELF one"), env.file("codex-2", b"\x7fELF two"));
        let memory = env.0.path().join("memory");
        let asked = CachedProgram::inspect(&memory, &one).unwrap();
        fs::rename(&two, &one).unwrap();
        asked.store(&TOLD).unwrap();
        assert_eq!(env.known(&one), None);
    }

    #[test]
    fn scripts_and_shims_are_not_cached() {
        let env = CacheTestEnv::new();
        let (script, shim) = (env.file("codex", b"#!/bin/sh"), env.file("shims", b"\x7fELF"));
        let link = env.0.path().join("codex-link");
        symlink(&shim, &link).unwrap();
        for other in [&script, &shim, &link, &env.0.path().join("none")] {
            assert!(
                CachedProgram::inspect(&env.0.path().join("memory"), other).is_none(),
                "{other:?}"
            );
        }
    }

    #[test]
    fn invalid_cache_is_rewritten_and_bounded() {
        let env = CacheTestEnv::new();
        env.file("memory", b"{ what");
        for n in 0..=MAX_ENTRIES {
            env.keep(&env.file(&format!("codex-{n}"), b"\x7fELF"));
        }
        let memory = read(&env.0.path().join("memory"));
        assert_eq!(memory.len(), 1, "the last one: {memory:?}");
    }
}
