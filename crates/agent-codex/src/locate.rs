//! Finds the Codex to start: the one that the user specified, or the newest usable one in `PATH`
//! and in known locations.
//!
//! A Codex is usable if `--version` responds in time, with exit code 0, and reports a `codex-cli`
//! that is not older than [`FLOOR`]. The environment of this query contains only `PATH`, `HOME` and
//! an empty temporary `CODEX_HOME`, because even this query makes Codex write to its home. With a
//! version cache, a file that has responded before is not queried again.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::AgentVersion;
use crate::launcher::{self, NativeProgram};
use crate::search_paths;
use crate::text::displayable;
use crate::version_cache::CachedProgram;
use provost_sys::program::{FinishedProgram, OUTPUT_LIMIT, ProgramEnd, ProgramRun};

pub use crate::search_paths::CandidateOrigin;

/// The oldest supported version, which is the first one whose turns can be steered.
pub const FLOOR: AgentVersion = AgentVersion::new(0, 107, 0);

/// The timeout of a version query.
pub const VERSION_LIMIT: Duration = Duration::from_secs(5);

/// The maximum number of version queries that run in parallel.
const MAX_PARALLEL_QUERIES: usize = 8;

/// The prefix of the version output of every Codex.
const VERSION_PREFIX: &str = "codex-cli ";

/// The parts of the environment that a search uses.
#[derive(Debug, Clone, Copy)]
pub struct SearchEnvironment<'a> {
    pub path: &'a OsStr,
    pub home: &'a Path,
    /// The file in which versions are cached. Without one, every candidate is queried.
    pub version_cache: Option<&'a Path>,
}

/// A Codex program that the user specified, and the source of its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedCodex {
    pub path: PathBuf,
    pub source: PathSource,
}

/// The place where the path to Codex was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathSource {
    Flag,
    Environment,
    Config,
}

/// A Codex that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodexProgram {
    /// The program to start. This is the native program if one was found behind a launcher.
    pub program: PathBuf,
    pub version: AgentVersion,
    /// A directory to prepend to `PATH`, as the program's launcher would do.
    pub extra_path: Option<PathBuf>,
}

/// The Codex to start, and all candidates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodexSearch {
    pub codex: CodexProgram,
    pub candidates: Vec<CodexCandidate>,
}

/// A file that may be a Codex, and the result of examining it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodexCandidate {
    pub path: PathBuf,
    /// The other names of the candidate's program.
    pub aliases: Vec<PathBuf>,
    pub origin: CandidateOrigin,
    pub codex: Result<CodexProgram, CandidateFault>,
    pub status: CandidateStatus,
}

/// The status of a candidate: chosen, or the reason why another one was preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CandidateStatus {
    Chosen,
    /// The candidate is usable, but it is not the newest one, or not the first of several equal
    /// ones.
    NotNewest,
    /// The candidate is unusable. Its fault contains the reason.
    Unusable,
}

/// The reason why a file is not a usable Codex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CandidateFault {
    Missing,
    NotExecutable,
    TooOld { version: AgentVersion },
    DidNotAnswer { limit: Duration },
    NotCodex { output: String },
    Failed { how: String, output: String },
}

/// The reason why Codex cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "cannot use {} as Codex (set by {}): {fault}; {}",
        .explicit.path.display(),
        .explicit.source,
        advice(.fault, .explicit.source)
    )]
    Unusable { explicit: NamedCodex, fault: CandidateFault },
    #[error(
        "no usable Codex (>= {FLOOR}) found: {}; install one with `npm install -g @openai/codex`, or \
         specify one with --codex-path",
        describe_candidates(.candidates)
    )]
    NoneUsable { candidates: Vec<CodexCandidate> },
    #[error("cannot create a scratch directory for `codex --version`")]
    Scratch(#[source] io::Error),
}

/// Returns the Codex that the user specified, or the newest usable one. If the specified program is
/// unusable, that is an error, and no other program is used instead.
pub fn find_codex(
    explicit: Option<&NamedCodex>,
    search: &SearchEnvironment<'_>,
) -> Result<CodexSearch, Error> {
    match explicit {
        Some(explicit) => find_named(explicit, search),
        None => take_chosen(survey(search)?),
    }
}

/// Examines every candidate on this machine, even if none is usable.
pub fn survey(search: &SearchEnvironment<'_>) -> Result<Vec<CodexCandidate>, Error> {
    let files = merge_names(search_paths::candidates(search.path, search.home));
    let scratch = scratch()?;
    let asker = VersionQuery { search, scratch: scratch.path() };
    let mut seen = Vec::new();
    for group in files.chunks(MAX_PARALLEL_QUERIES) {
        seen.extend(asker.examine_all(group));
    }
    Ok(rank_candidates(seen))
}

/// Sets the status of each candidate. The newest usable candidate is chosen. If several candidates
/// have the same version, the first one is chosen.
pub fn rank_candidates(mut candidates: Vec<CodexCandidate>) -> Vec<CodexCandidate> {
    let usable = candidates.iter().enumerate().rev();
    let versions = usable.filter_map(|(at, seen)| Some((&seen.codex.as_ref().ok()?.version, at)));
    // `max_by` returns the last of several equal items, so the order is reversed.
    let chosen = versions.max_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, at)| at);
    for (at, candidate) in candidates.iter_mut().enumerate() {
        candidate.status = match &candidate.codex {
            Err(_) => CandidateStatus::Unusable,
            Ok(_) if Some(at) == chosen => CandidateStatus::Chosen,
            Ok(_) => CandidateStatus::NotNewest,
        };
    }
    candidates
}

fn find_named(explicit: &NamedCodex, search: &SearchEnvironment<'_>) -> Result<CodexSearch, Error> {
    let scratch = scratch()?;
    let asker = VersionQuery { search, scratch: scratch.path() };
    let path = std::path::absolute(&explicit.path).unwrap_or_else(|_| explicit.path.clone());
    let candidate = asker.examine_file(&CandidateFile::new(path, CandidateOrigin::Named));
    take_chosen(rank_candidates(vec![candidate])).map_err(|error| match error {
        Error::NoneUsable { candidates } => named_error(explicit, candidates),
        other @ (Error::Unusable { .. } | Error::Scratch(_)) => other,
    })
}

fn named_error(explicit: &NamedCodex, candidates: Vec<CodexCandidate>) -> Error {
    let fault = candidates.into_iter().find_map(|candidate| candidate.codex.err());
    let fault = fault.unwrap_or(CandidateFault::Missing);
    Error::Unusable { explicit: explicit.clone(), fault }
}

fn take_chosen(candidates: Vec<CodexCandidate>) -> Result<CodexSearch, Error> {
    let chosen = candidates.iter().find(|candidate| candidate.status == CandidateStatus::Chosen);
    match chosen.and_then(|chosen| chosen.codex.as_ref().ok()).cloned() {
        Some(codex) => Ok(CodexSearch { codex, candidates }),
        None => Err(Error::NoneUsable { candidates }),
    }
}

fn scratch() -> Result<tempfile::TempDir, Error> {
    tempfile::Builder::new().prefix("provost-codex-").tempdir().map_err(Error::Scratch)
}

/// A file to query, with its symbolic links resolved.
#[derive(Debug, Clone)]
struct CandidateFile {
    path: PathBuf,
    also: Vec<PathBuf>,
    origin: CandidateOrigin,
    real: Option<PathBuf>,
    native: Option<NativeProgram>,
}

impl CandidateFile {
    fn new(path: PathBuf, origin: CandidateOrigin) -> Self {
        let real = fs::canonicalize(&path).ok();
        let native = real.as_deref().and_then(launcher::native_behind);
        Self { path, also: Vec::new(), origin, real, native }
    }

    /// Returns the path that identifies the program under all its names.
    fn identity(&self) -> PathBuf {
        let native = self.native.as_ref().map(|native| &native.program);
        let program = native.or(self.real.as_ref()).unwrap_or(&self.path);
        fs::canonicalize(program).unwrap_or_else(|_| program.clone())
    }
}

/// Merges several names of the same program into one file, under the first name.
fn merge_names(found: Vec<(PathBuf, CandidateOrigin)>) -> Vec<CandidateFile> {
    let mut files: Vec<CandidateFile> = Vec::new();
    let mut known: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for (path, origin) in found {
        let file = CandidateFile::new(path, origin);
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

/// Queries programs for their versions.
#[derive(Clone, Copy)]
struct VersionQuery<'a> {
    search: &'a SearchEnvironment<'a>,
    scratch: &'a Path,
}

impl VersionQuery<'_> {
    fn examine_all(self, files: &[CandidateFile]) -> Vec<CodexCandidate> {
        thread::scope(|scope| {
            let asked: Vec<_> =
                files.iter().map(|file| scope.spawn(move || self.examine_file(file))).collect();
            let answer = |asked: thread::ScopedJoinHandle<'_, CodexCandidate>| {
                asked.join().expect("asking a candidate does not panic")
            };
            asked.into_iter().map(answer).collect()
        })
    }

    fn examine_file(self, file: &CandidateFile) -> CodexCandidate {
        CodexCandidate {
            path: file.path.clone(),
            aliases: file.also.clone(),
            origin: file.origin,
            codex: self.examine(file),
            status: CandidateStatus::Unusable,
        }
    }

    /// Tries the native program first, and its launcher if the native program does not work.
    fn examine(self, file: &CandidateFile) -> Result<CodexProgram, CandidateFault> {
        let native = file.native.as_ref().map(|native| self.native(native));
        match native {
            Some(Ok(codex)) => Ok(codex),
            Some(Err(_)) | None => {
                let version = self.cached_version(&file.path)?;
                Ok(CodexProgram { program: file.path.clone(), version, extra_path: None })
            }
        }
    }

    fn native(self, native: &NativeProgram) -> Result<CodexProgram, CandidateFault> {
        let version = self.cached_version(&native.program)?;
        let extra_path = native.extra_path.clone();
        Ok(CodexProgram { program: native.program.clone(), version, extra_path })
    }

    fn cached_version(self, program: &Path) -> Result<AgentVersion, CandidateFault> {
        check_executable(program)?;
        let known =
            self.search.version_cache.and_then(|memory| CachedProgram::inspect(memory, program));
        let before = known.as_ref().and_then(CachedProgram::version);
        if let Some(version) = before.filter(|version| *version >= FLOOR) {
            return Ok(version);
        }
        let version = self.query_version(program)?;
        if let Some(known) = known {
            // If the cache cannot be written, the next search just repeats the query.
            known.store(&version).ok();
        }
        Ok(version)
    }

    fn query_version(self, program: &Path) -> Result<AgentVersion, CandidateFault> {
        let run = ProgramRun {
            program: program.to_owned(),
            args: vec!["--version".into()],
            directory: self.scratch.to_owned(),
            environment: environment(self.search, program, self.scratch),
            limit: VERSION_LIMIT,
            output_limit: OUTPUT_LIMIT,
        };
        let finished = run.finish();
        let failed =
            |error: io::Error| CandidateFault::Failed { how: error.to_string(), output: "".into() };
        read_version(&finished.map_err(failed)?)
    }
}

/// Returns the environment of a query. The program's own directory comes first in `PATH`, because a
/// launcher needs the node with which it was installed.
pub(crate) fn environment(
    search: &SearchEnvironment<'_>,
    program: &Path,
    codex_home: &Path,
) -> Vec<(OsString, OsString)> {
    let own = program.parent().map(Path::to_owned);
    let dirs = own.into_iter().chain(std::env::split_paths(search.path));
    let path = std::env::join_paths(dirs).unwrap_or_else(|_| search.path.to_owned());
    vec![
        ("PATH".into(), path),
        ("HOME".into(), search.home.into()),
        ("CODEX_HOME".into(), codex_home.into()),
    ]
}

fn check_executable(program: &Path) -> Result<(), CandidateFault> {
    match fs::metadata(program) {
        Err(_) => Err(CandidateFault::Missing),
        Ok(seen) if seen.is_file() && seen.permissions().mode() & 0o111 != 0 => Ok(()),
        Ok(_) => Err(CandidateFault::NotExecutable),
    }
}

/// Parses the output of `--version`.
fn read_version(finished: &FinishedProgram) -> Result<AgentVersion, CandidateFault> {
    let failed =
        |how: String| CandidateFault::Failed { how, output: displayable(&finished.stderr) };
    match finished.end {
        ProgramEnd::TimedOut => return Err(CandidateFault::DidNotAnswer { limit: VERSION_LIMIT }),
        ProgramEnd::Code(0) => {}
        ProgramEnd::Code(code) => return Err(failed(format!("exit code {code}"))),
        ProgramEnd::Signal(signal) => return Err(failed(format!("signal {signal}"))),
        ProgramEnd::TooMuchOutput => return Err(failed("too much output for a version".into())),
    }
    let text = String::from_utf8_lossy(&finished.stdout);
    let answer = text.lines().find_map(|line| line.trim().strip_prefix(VERSION_PREFIX));
    let version: Option<AgentVersion> = answer.and_then(|version| version.trim().parse().ok());
    match version {
        None => Err(CandidateFault::NotCodex { output: displayable(&finished.stdout) }),
        Some(version) if version < FLOOR => Err(CandidateFault::TooOld { version }),
        Some(version) => Ok(version),
    }
}

impl fmt::Display for PathSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "--codex-path",
            Self::Environment => "PROVOST_CODEX",
            Self::Config => "agents.codex.path",
        })
    }
}

impl fmt::Display for CandidateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is no such file"),
            Self::NotExecutable => f.write_str("it is not an executable file"),
            Self::TooOld { version } => {
                write!(f, "version {version} is older than {FLOOR}")
            }
            Self::DidNotAnswer { limit } => {
                write!(f, "`--version` did not finish within {} s", limit.as_secs())
            }
            Self::NotCodex { output } if output.is_empty() => {
                f.write_str("`--version` printed nothing, so the program is not Codex")
            }
            Self::NotCodex { output } => {
                write!(f, "`--version` printed `{output}`, so the program is not Codex")
            }
            Self::Failed { how, output } if output.is_empty() => {
                write!(f, "`--version` failed: {how}")
            }
            Self::Failed { how, output } => write!(f, "`--version` failed: {how}: {output}"),
        }
    }
}

fn advice(fault: &CandidateFault, source: PathSource) -> String {
    match fault {
        CandidateFault::TooOld { .. } => "update Codex with `npm install -g @openai/codex`".into(),
        CandidateFault::NotExecutable => "make the file executable, or name another program".into(),
        CandidateFault::Missing
        | CandidateFault::DidNotAnswer { .. }
        | CandidateFault::NotCodex { .. }
        | CandidateFault::Failed { .. } => {
            format!("correct {source}, or remove it to use the newest Codex found")
        }
    }
}

fn describe_candidates(candidates: &[CodexCandidate]) -> String {
    let described = candidates.iter().filter_map(|candidate| {
        let fault = candidate.codex.as_ref().err()?;
        Some(format!("{}: {fault}", candidate.path.display()))
    });
    let described: Vec<String> = described.collect();
    if described.is_empty() {
        return "no candidates in PATH or in the known locations".into();
    }
    described.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(path: &str, version: Option<&str>) -> CodexCandidate {
        let codex = version.ok_or(CandidateFault::Missing).map(|version| CodexProgram {
            program: path.into(),
            version: version.parse().unwrap(),
            extra_path: None,
        });
        CodexCandidate {
            path: path.into(),
            aliases: Vec::new(),
            origin: CandidateOrigin::Path,
            codex,
            status: CandidateStatus::Unusable,
        }
    }

    fn standings(seen: &[(&str, Option<&str>)]) -> Vec<CandidateStatus> {
        let seen = seen.iter().map(|(path, version)| candidate(path, *version)).collect();
        rank_candidates(seen).into_iter().map(|candidate| candidate.status).collect()
    }

    #[test]
    fn newest_candidate_is_chosen() {
        use CandidateStatus::{Chosen, NotNewest, Unusable};
        assert_eq!(standings(&[]), []);
        assert_eq!(standings(&[("a", None)]), [Unusable]);
        let three = [("a", Some("0.140.0")), ("b", None), ("c", Some("0.166.0"))];
        assert_eq!(standings(&three), [NotNewest, Unusable, Chosen]);
        let equal =
            [("a", Some("0.166.0-alpha.1")), ("b", Some("0.166.0")), ("c", Some("0.166.0"))];
        assert_eq!(standings(&equal), [NotNewest, Chosen, NotNewest]);
    }

    #[test]
    fn cached_version_is_used_until_change() {
        let dir = tempfile::tempdir().unwrap();
        let (memory, path) = (dir.path().join("memory"), dir.path().join("codex"));
        // The system cannot run this file, so a version can only come from the cache.
        fs::write(&path, b"\x7fELF").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        let version = |memory| {
            let search = SearchEnvironment {
                path: OsStr::new("/bin"),
                home: dir.path(),
                version_cache: memory,
            };
            let explicit = NamedCodex { path: path.clone(), source: PathSource::Flag };
            find_codex(Some(&explicit), &search).map(|found| found.codex.version).ok()
        };
        assert_eq!(version(Some(&memory)), None);
        let known = || CachedProgram::inspect(&memory, &path).unwrap();
        known().store(&FLOOR).unwrap();
        assert_eq!(version(Some(&memory)), Some(FLOOR));
        assert_eq!(version(None), None, "without a cache, the program is queried");
        known().store(&AgentVersion::new(0, 106, 0)).unwrap();
        assert_eq!(version(Some(&memory)), None, "a version that is too old now is queried again");
        known().store(&FLOOR).unwrap();
        fs::write(&path, b"\x7fELF.").unwrap();
        assert_eq!(version(Some(&memory)), None, "a changed file is queried again");
    }

    #[test]
    fn only_codex_output_is_a_version() {
        let answer = |end, stdout: &str| {
            read_version(&FinishedProgram { end, stdout: stdout.into(), stderr: b"oh".to_vec() })
        };
        assert_eq!(
            answer(ProgramEnd::Code(0), "codex-cli 0.166.0\n"),
            Ok(AgentVersion::new(0, 166, 0))
        );
        assert_eq!(answer(ProgramEnd::Code(0), "note\ncodex-cli 0.107.0\n"), Ok(FLOOR));
        let old = AgentVersion::new(0, 106, 9);
        assert_eq!(
            answer(ProgramEnd::Code(0), "codex-cli 0.106.9"),
            Err(CandidateFault::TooOld { version: old })
        );
        let pre = "0.107.0-alpha.1".parse().unwrap();
        let answered = answer(ProgramEnd::Code(0), "codex-cli 0.107.0-alpha.1");
        assert_eq!(answered, Err(CandidateFault::TooOld { version: pre }));
        let other = CandidateFault::NotCodex { output: "v22.1.0".into() };
        assert_eq!(answer(ProgramEnd::Code(0), "v22.1.0\n"), Err(other));
        let failed = CandidateFault::Failed { how: "exit code 3".into(), output: "oh".into() };
        assert_eq!(answer(ProgramEnd::Code(3), "codex-cli 0.166.0"), Err(failed));
        let silent = CandidateFault::DidNotAnswer { limit: VERSION_LIMIT };
        assert_eq!(answer(ProgramEnd::TimedOut, "codex-cli 0.166.0"), Err(silent));
    }
}
