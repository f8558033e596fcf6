//! Restricts git to starting only its own programs.
//!
//! A Landlock rule on execution applies to the thread that starts git and to everything that git
//! starts. It is the second line of defence: git does not read the repository's configuration (see
//! [`crate::isolated_repo`]), so it normally has no other program to start.
//!
//! Limits: a kernel without Landlock enforces nothing, and git is not restricted if it is a script.
//! The dynamic loader must be allowed, and it can run files that are not allowed themselves.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use landlock::{
    AccessFs, PathBeneath, PathFd, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError,
};
use provost_sys::program::ThreadConfinement;

/// The maximum number of ELF program headers to read.
const MAX_HEADERS: u16 = 64;

/// The type of the program header that contains the path of the dynamic loader.
const PT_INTERP: u32 = 3;

/// The maximum length of the dynamic loader's path.
const MAX_LOADER: u64 = 4096;

/// The files and directories below which a process may execute programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AllowedPrograms(Vec<PathBuf>);

impl AllowedPrograms {
    /// Returns the programs that git needs: its binary, its subcommands and its loader. Returns
    /// `None` if git is a script, because it is not known which programs a script starts.
    pub(crate) fn for_git(program: &Path, exec_path: &Path) -> Option<Self> {
        if !exec_path.is_absolute() {
            return None;
        }
        let loader = loader_of(program).ok()?;
        let all = [Some(program.to_owned()), Some(exec_path.to_owned()), loader];
        Some(Self(all.into_iter().flatten().collect()))
    }

    pub(crate) fn new(paths: Vec<PathBuf>) -> Self {
        Self(paths)
    }

    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.0
    }

    /// Restricts this thread, and everything that it starts, to the allowed programs. The paths are
    /// opened again on each call, because an upgrade of git replaces the files.
    pub(crate) fn confine_thread(&self) -> io::Result<()> {
        self.restrict().map(drop).map_err(io::Error::other)
    }

    /// Returns the restriction for the thread that starts a command.
    pub(crate) fn confine(self) -> ThreadConfinement {
        Box::new(move || self.confine_thread())
    }

    fn restrict(&self) -> Result<RestrictionStatus, RulesetError> {
        let mut rules = Ruleset::default().handle_access(AccessFs::Execute)?.create()?;
        for path in &self.0 {
            // A missing file cannot be executed, so it needs no rule.
            let Ok(file) = PathFd::new(path) else { continue };
            rules = rules.add_rule(PathBeneath::new(file, AccessFs::Execute))?;
        }
        rules.restrict_self()
    }
}

/// Whether a file is an ELF binary rather than a script.
pub(crate) fn is_binary(program: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(program).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && magic == *b"\x7fELF"
}

/// Reads the path of the dynamic loader from a 64-bit little-endian ELF file. A statically linked
/// program has none.
fn loader_of(program: &Path) -> io::Result<Option<PathBuf>> {
    let mut file = File::open(fs::canonicalize(program)?)?;
    let mut head = [0; 64];
    file.read_exact(&mut head)?;
    let unknown = || io::Error::other("the program is not a 64-bit little-endian ELF file");
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return Err(unknown());
    }
    let table = number(&head, 0x20, 8).ok_or_else(unknown)?;
    let size = number(&head, 0x36, 2).ok_or_else(unknown)?;
    let count = number(&head, 0x38, 2).ok_or_else(unknown)?.min(MAX_HEADERS.into());
    for index in 0..count {
        let mut header = [0; 56];
        file.seek(SeekFrom::Start(table + index * size))?;
        file.read_exact(&mut header)?;
        if number(&header, 0, 4) != Some(PT_INTERP.into()) {
            continue;
        }
        let start = number(&header, 8, 8).ok_or_else(unknown)?;
        let length = number(&header, 32, 8).ok_or_else(unknown)?.min(MAX_LOADER);
        let mut name = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        file.by_ref().take(length).read_to_end(&mut name)?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        return Ok(Some(PathBuf::from(OsStr::from_bytes(name))));
    }
    Ok(None)
}

/// Reads a little-endian number.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + length)?;
    Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use landlock::RulesetStatus;

    use super::*;

    #[test]
    fn loader_of_this_test_exists() {
        let loader = loader_of(&std::env::current_exe().unwrap()).unwrap();
        assert!(loader.is_none_or(|loader| loader.is_file()));
    }

    #[test]
    fn script_is_not_a_binary() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("git");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        assert!(!is_binary(&script) && !is_binary(directory.path()));
        assert!(loader_of(&script).is_err());
    }

    #[test]
    fn confined_thread_starts_only_allowed_programs() {
        let sh = fs::canonicalize("/bin/sh").unwrap();
        let loader = loader_of(&sh).unwrap();
        let programs = AllowedPrograms([Some(sh), loader].into_iter().flatten().collect());
        let confined = std::thread::spawn(move || {
            let enforced = programs.restrict().unwrap().ruleset != RulesetStatus::NotEnforced;
            let run =
                |line: &str| Command::new("/bin/sh").args(["-c", line]).status().unwrap().success();
            (enforced, run(":"), run("/bin/ls /"))
        });
        let (enforced, itself, another) = confined.join().unwrap();
        assert!(itself, "sh is allowed");
        assert!(Command::new("/bin/ls").arg("/").output().is_ok(), "other threads are unaffected");
        assert!(!(enforced && another), "ls is not allowed");
    }
}
