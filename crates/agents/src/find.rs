//! Finds the Codex to start: the one that was named, or else the newest usable one in `PATH` and in
//! known locations.
//!
//! A usable one answers `--version` in time, with exit code 0, as a `codex-cli` not older than
//! [`FLOOR`]. Each candidate is queried with an environment of `PATH` and `HOME` and an empty
//! scratch `CODEX_HOME`, because even this query makes Codex write into its home. With a version
//! cache, a file that has answered before is not queried again.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::known::Known;
use crate::launcher::{self, Native};
use crate::places;
use crate::process::{End, Finished, OUTPUT_LIMIT, Run};
use crate::text::shown;
use crate::version::Version;

pub use crate::places::Origin;

/// The oldest supported version: the first that can be steered.
pub const FLOOR: Version = Version::new(0, 107, 0);

/// Timeout of a version query.
pub const VERSION_LIMIT: Duration = Duration::from_secs(5);

/// Maximum number of parallel version queries.
const ASKED_AT_ONCE: usize = 8;

/// The prefix of every Codex's version output.
const ANSWER: &str = "codex-cli ";

/// The parts of the environment that a search uses.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    pub path: &'a OsStr,
    pub home: &'a Path,
    /// The file that caches versions. Without one, every candidate is queried.
    pub memory: Option<&'a Path>,
}

/// A Codex that the user named, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explicit {
    pub path: PathBuf,
    pub source: Source,
}

/// Where the path to Codex was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Flag,
    Environment,
    Config,
}

/// A Codex that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Codex {
    /// The program to start: the native one, if it was found behind a launcher.
    pub program: PathBuf,
    pub version: Version,
    /// A directory to prepend to `PATH`, as its launcher would.
    pub extra_path: Option<PathBuf>,
}

/// The Codex to start, and all candidates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub codex: Codex,
    pub candidates: Vec<Candidate>,
}

/// A file that may be a Codex, and the result of examining it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub path: PathBuf,
    /// Other names of the same program.
    pub also: Vec<PathBuf>,
    pub origin: Origin,
    pub codex: Result<Codex, Fault>,
    pub standing: Standing,
}

/// Whether a candidate was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Chosen,
    /// Usable, but not newer than the chosen one.
    NotNewest,
    /// Unusable, for the reason in its fault.
    Unusable,
}

/// Why a file is not a usable Codex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    Missing,
    NotExecutable,
    TooOld { version: Version },
    DidNotAnswer { limit: Duration },
    NotCodex { said: String },
    Failed { how: String, said: String },
}

/// Why there is no Codex to start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "cannot use {} as Codex (set by {}): {fault}; {}",
        .explicit.path.display(),
        .explicit.source,
        advice(.fault, .explicit.source)
    )]
    Unusable { explicit: Explicit, fault: Fault },
    #[error(
        "no usable Codex (>= {FLOOR}) found: {}; install one with `npm install -g @openai/codex`, or \
         name one with --codex-path",
        looked_at(.candidates)
    )]
    NoneUsable { candidates: Vec<Candidate> },
    #[error("cannot create a scratch directory for `codex --version`")]
    Scratch(#[source] io::Error),
}

/// Returns the Codex that was named, if any, else the newest usable one. A named one that is
/// unusable is an error: no other replaces it.
pub fn find_codex(explicit: Option<&Explicit>, around: &Surroundings<'_>) -> Result<Found, Error> {
    match explicit {
        Some(explicit) => named(explicit, around),
        None => newest(survey(around)?),
    }
}

/// Examines every candidate of this machine, whether or not one is usable.
pub fn survey(around: &Surroundings<'_>) -> Result<Vec<Candidate>, Error> {
    let files = merged(places::candidates(around.path, around.home));
    let scratch = scratch()?;
    let asker = Asker { around, scratch: scratch.path() };
    let mut seen = Vec::new();
    for group in files.chunks(ASKED_AT_ONCE) {
        seen.extend(asker.ask_all(group));
    }
    Ok(choose(seen))
}

/// Sets the status of each candidate: the newest usable one is chosen, the first among equals.
pub fn choose(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    let usable = candidates.iter().enumerate().rev();
    let versions = usable.filter_map(|(at, seen)| Some((&seen.codex.as_ref().ok()?.version, at)));
    // `max_by` returns the last of equals, and the order is reversed.
    let chosen = versions.max_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, at)| at);
    for (at, candidate) in candidates.iter_mut().enumerate() {
        candidate.standing = match &candidate.codex {
            Err(_) => Standing::Unusable,
            Ok(_) if Some(at) == chosen => Standing::Chosen,
            Ok(_) => Standing::NotNewest,
        };
    }
    candidates
}

fn named(explicit: &Explicit, around: &Surroundings<'_>) -> Result<Found, Error> {
    let scratch = scratch()?;
    let asker = Asker { around, scratch: scratch.path() };
    let path = std::path::absolute(&explicit.path).unwrap_or_else(|_| explicit.path.clone());
    let candidate = asker.ask(&File::new(path, Origin::Named));
    newest(choose(vec![candidate])).map_err(|error| match error {
        Error::NoneUsable { candidates } => refused(explicit, candidates),
        other @ (Error::Unusable { .. } | Error::Scratch(_)) => other,
    })
}

fn refused(explicit: &Explicit, candidates: Vec<Candidate>) -> Error {
    let fault = candidates.into_iter().find_map(|candidate| candidate.codex.err());
    let fault = fault.unwrap_or(Fault::Missing);
    Error::Unusable { explicit: explicit.clone(), fault }
}

fn newest(candidates: Vec<Candidate>) -> Result<Found, Error> {
    let chosen = candidates.iter().find(|candidate| candidate.standing == Standing::Chosen);
    match chosen.and_then(|chosen| chosen.codex.as_ref().ok()).cloned() {
        Some(codex) => Ok(Found { codex, candidates }),
        None => Err(Error::NoneUsable { candidates }),
    }
}

fn scratch() -> Result<tempfile::TempDir, Error> {
    tempfile::Builder::new().prefix("provost-codex-").tempdir().map_err(Error::Scratch)
}

/// A file to query, with its links resolved.
#[derive(Debug, Clone)]
struct File {
    path: PathBuf,
    also: Vec<PathBuf>,
    origin: Origin,
    real: Option<PathBuf>,
    native: Option<Native>,
}

impl File {
    fn new(path: PathBuf, origin: Origin) -> Self {
        let real = fs::canonicalize(&path).ok();
        let native = real.as_deref().and_then(launcher::native_behind);
        Self { path, also: Vec::new(), origin, real, native }
    }

    /// Returns the path that identifies the program, whatever its names.
    fn identity(&self) -> PathBuf {
        let native = self.native.as_ref().map(|native| &native.program);
        let program = native.or(self.real.as_ref()).unwrap_or(&self.path);
        fs::canonicalize(program).unwrap_or_else(|_| program.clone())
    }
}

/// Merges several names of one program into one file, under its first name.
fn merged(found: Vec<(PathBuf, Origin)>) -> Vec<File> {
    let mut files: Vec<File> = Vec::new();
    let mut known: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for (path, origin) in found {
        let file = File::new(path, origin);
        match known.get(&file.identity()) {
            Some(at) if files[*at].path == file.path || files[*at].also.contains(&file.path) => {}
            Some(at) => files[*at].also.push(file.path),
            None => {
                known.insert(file.identity(), files.len());
                files.push(file);
            }
        }
    }
    files
}

/// Queries files for their versions.
#[derive(Clone, Copy)]
struct Asker<'a> {
    around: &'a Surroundings<'a>,
    scratch: &'a Path,
}

impl Asker<'_> {
    fn ask_all(self, files: &[File]) -> Vec<Candidate> {
        thread::scope(|scope| {
            let asked: Vec<_> =
                files.iter().map(|file| scope.spawn(move || self.ask(file))).collect();
            let answer = |asked: thread::ScopedJoinHandle<'_, Candidate>| {
                asked.join().expect("asking a candidate does not panic")
            };
            asked.into_iter().map(answer).collect()
        })
    }

    fn ask(self, file: &File) -> Candidate {
        Candidate {
            path: file.path.clone(),
            also: file.also.clone(),
            origin: file.origin,
            codex: self.examine(file),
            standing: Standing::Unusable,
        }
    }

    /// Tries the native program first; if it does not work, its launcher.
    fn examine(self, file: &File) -> Result<Codex, Fault> {
        let native = file.native.as_ref().map(|native| self.native(native));
        match native {
            Some(Ok(codex)) => Ok(codex),
            Some(Err(_)) | None => {
                let version = self.version(&file.path)?;
                Ok(Codex { program: file.path.clone(), version, extra_path: None })
            }
        }
    }

    fn native(self, native: &Native) -> Result<Codex, Fault> {
        let version = self.version(&native.program)?;
        let extra_path = native.extra_path.clone();
        Ok(Codex { program: native.program.clone(), version, extra_path })
    }

    fn version(self, program: &Path) -> Result<Version, Fault> {
        check_executable(program)?;
        let known = self.around.memory.and_then(|memory| Known::of(memory, program));
        let before = known.as_ref().and_then(Known::version);
        if let Some(version) = before.filter(|version| *version >= FLOOR) {
            return Ok(version);
        }
        let version = self.told(program)?;
        if let Some(known) = known {
            // A cache that cannot be written only costs another query.
            known.keep(&version).ok();
        }
        Ok(version)
    }

    fn told(self, program: &Path) -> Result<Version, Fault> {
        let run = Run {
            program: program.to_owned(),
            args: vec!["--version".into()],
            directory: self.scratch.to_owned(),
            environment: environment(self.around, program, self.scratch),
            limit: VERSION_LIMIT,
            output_limit: OUTPUT_LIMIT,
        };
        let finished = run.finish();
        let failed = |error: io::Error| Fault::Failed { how: error.to_string(), said: "".into() };
        read_version(&finished.map_err(failed)?)
    }
}

/// Returns the environment of a query. The program's own directory comes first in `PATH`, because a
/// launcher needs the node that it was installed with.
pub(crate) fn environment(
    around: &Surroundings<'_>,
    program: &Path,
    codex_home: &Path,
) -> Vec<(OsString, OsString)> {
    let own = program.parent().map(Path::to_owned);
    let dirs = own.into_iter().chain(std::env::split_paths(around.path));
    let path = std::env::join_paths(dirs).unwrap_or_else(|_| around.path.to_owned());
    vec![
        ("PATH".into(), path),
        ("HOME".into(), around.home.into()),
        ("CODEX_HOME".into(), codex_home.into()),
    ]
}

fn check_executable(program: &Path) -> Result<(), Fault> {
    match fs::metadata(program) {
        Err(_) => Err(Fault::Missing),
        Ok(seen) if seen.is_file() && seen.permissions().mode() & 0o111 != 0 => Ok(()),
        Ok(_) => Err(Fault::NotExecutable),
    }
}

/// Parses the output of `--version`.
fn read_version(finished: &Finished) -> Result<Version, Fault> {
    let failed = |how: String| Fault::Failed { how, said: shown(&finished.stderr) };
    match finished.end {
        End::TimedOut => return Err(Fault::DidNotAnswer { limit: VERSION_LIMIT }),
        End::Code(0) => {}
        End::Code(code) => return Err(failed(format!("exit code {code}"))),
        End::Signal(signal) => return Err(failed(format!("signal {signal}"))),
        End::TooMuchOutput => return Err(failed("more output than a version".into())),
    }
    let text = String::from_utf8_lossy(&finished.stdout);
    let answer = text.lines().find_map(|line| line.trim().strip_prefix(ANSWER));
    let version: Option<Version> = answer.and_then(|version| version.trim().parse().ok());
    match version {
        None => Err(Fault::NotCodex { said: shown(&finished.stdout) }),
        Some(version) if version < FLOOR => Err(Fault::TooOld { version }),
        Some(version) => Ok(version),
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "--codex-path",
            Self::Environment => "PROVOST_CODEX",
            Self::Config => "agents.codex.path",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is no such file"),
            Self::NotExecutable => f.write_str("it is not an executable file"),
            Self::TooOld { version } => {
                write!(f, "its version is {version}, older than {FLOOR}")
            }
            Self::DidNotAnswer { limit } => {
                write!(f, "`--version` did not finish within {} s", limit.as_secs())
            }
            Self::NotCodex { said } if said.is_empty() => {
                f.write_str("`--version` printed nothing, so it is not Codex")
            }
            Self::NotCodex { said } => {
                write!(f, "`--version` printed `{said}`, so it is not Codex")
            }
            Self::Failed { how, said } if said.is_empty() => {
                write!(f, "`--version` failed: {how}")
            }
            Self::Failed { how, said } => write!(f, "`--version` failed: {how}: {said}"),
        }
    }
}

fn advice(fault: &Fault, source: Source) -> String {
    match fault {
        Fault::TooOld { .. } => "update it with `npm install -g @openai/codex`".into(),
        Fault::NotExecutable => "make it executable, or name the program itself".into(),
        Fault::Missing
        | Fault::DidNotAnswer { .. }
        | Fault::NotCodex { .. }
        | Fault::Failed { .. } => {
            format!("correct {source}, or leave it out to use the newest Codex found")
        }
    }
}

fn looked_at(candidates: &[Candidate]) -> String {
    let told = candidates.iter().filter_map(|candidate| {
        let fault = candidate.codex.as_ref().err()?;
        Some(format!("{}: {fault}", candidate.path.display()))
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() {
        return "none found in PATH or in a known location".into();
    }
    told.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(path: &str, version: Option<&str>) -> Candidate {
        let codex = version.ok_or(Fault::Missing).map(|version| Codex {
            program: path.into(),
            version: version.parse().unwrap(),
            extra_path: None,
        });
        Candidate {
            path: path.into(),
            also: Vec::new(),
            origin: Origin::Path,
            codex,
            standing: Standing::Unusable,
        }
    }

    fn standings(seen: &[(&str, Option<&str>)]) -> Vec<Standing> {
        let seen = seen.iter().map(|(path, version)| candidate(path, *version)).collect();
        choose(seen).into_iter().map(|candidate| candidate.standing).collect()
    }

    #[test]
    fn the_newest_wins_and_of_equals_the_first() {
        use Standing::{Chosen, NotNewest, Unusable};
        assert_eq!(standings(&[]), []);
        assert_eq!(standings(&[("a", None)]), [Unusable]);
        let three = [("a", Some("0.140.0")), ("b", None), ("c", Some("0.166.0"))];
        assert_eq!(standings(&three), [NotNewest, Unusable, Chosen]);
        let equal =
            [("a", Some("0.166.0-alpha.1")), ("b", Some("0.166.0")), ("c", Some("0.166.0"))];
        assert_eq!(standings(&equal), [NotNewest, Chosen, NotNewest]);
    }

    #[test]
    fn who_has_answered_is_not_asked_again_until_it_changes() {
        let dir = tempfile::tempdir().unwrap();
        let (memory, path) = (dir.path().join("memory"), dir.path().join("codex"));
        // The system cannot run it, so a version can only come from the cache.
        fs::write(&path, b"\x7fELF").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        let version = |memory| {
            let around = Surroundings { path: OsStr::new("/bin"), home: dir.path(), memory };
            let explicit = Explicit { path: path.clone(), source: Source::Flag };
            find_codex(Some(&explicit), &around).map(|found| found.codex.version).ok()
        };
        assert_eq!(version(Some(&memory)), None);
        let known = || Known::of(&memory, &path).unwrap();
        known().keep(&FLOOR).unwrap();
        assert_eq!(version(Some(&memory)), Some(FLOOR));
        assert_eq!(version(None), None, "without a memory it is asked");
        known().keep(&Version::new(0, 106, 0)).unwrap();
        assert_eq!(version(Some(&memory)), None, "what is too old now is asked");
        known().keep(&FLOOR).unwrap();
        fs::write(&path, b"\x7fELF.").unwrap();
        assert_eq!(version(Some(&memory)), None, "what changed is asked");
    }

    #[test]
    fn only_an_answer_of_codex_is_a_version() {
        let answer = |end, stdout: &str| {
            read_version(&Finished { end, stdout: stdout.into(), stderr: b"oh".to_vec() })
        };
        assert_eq!(answer(End::Code(0), "codex-cli 0.166.0\n"), Ok(Version::new(0, 166, 0)));
        assert_eq!(answer(End::Code(0), "note\ncodex-cli 0.107.0\n"), Ok(FLOOR));
        let old = Version::new(0, 106, 9);
        assert_eq!(answer(End::Code(0), "codex-cli 0.106.9"), Err(Fault::TooOld { version: old }));
        let pre = "0.107.0-alpha.1".parse().unwrap();
        let answered = answer(End::Code(0), "codex-cli 0.107.0-alpha.1");
        assert_eq!(answered, Err(Fault::TooOld { version: pre }));
        let other = Fault::NotCodex { said: "v22.1.0".into() };
        assert_eq!(answer(End::Code(0), "v22.1.0\n"), Err(other));
        let failed = Fault::Failed { how: "exit code 3".into(), said: "oh".into() };
        assert_eq!(answer(End::Code(3), "codex-cli 0.166.0"), Err(failed));
        let silent = Fault::DidNotAnswer { limit: VERSION_LIMIT };
        assert_eq!(answer(End::TimedOut, "codex-cli 0.166.0"), Err(silent));
    }
}
