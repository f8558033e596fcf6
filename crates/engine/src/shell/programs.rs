//! Determines which file a command's program resolves to for the agent that wants to run it, and
//! whether that agent could have written the file.
//!
//! The agent is considered able to write a file if the file, a directory on the way to it, or an
//! earlier directory on the PATH is below a directory that agents write to
//! ([`AgentPaths::writable`]), belongs to another user, or can be written by other users. Other
//! files of the operator are not examined, because an agent that can write them has no sandbox and
//! needs no approval to run anything.

use std::{
    collections::VecDeque,
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Component, Path, PathBuf},
};

use provost_core::{
    policy,
    request::{ApprovalSubject, CommandLookup, ProgramLookup},
    session::{Session, StreamSignal, WorkLocation},
};

use super::{engine_world::EngineWorld, supervised_command};

/// The maximum number of symlinks on the way to a program.
const MAX_LINKS: usize = 40;

/// Directories for temporary files that every agent can write to.
const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Adds to a command request the facts that rules need. Other signals stay unchanged.
pub(super) async fn with_lookup(mut signal: StreamSignal, place: &AgentPaths) -> StreamSignal {
    if let StreamSignal::RequestOpened(asked) = &mut signal
        && let Some(subject) = asked.subject.as_deref_mut()
    {
        let (place, about) = (place.clone(), subject.clone());
        subject.lookup = supervised_command::blocking(move || place.look_up(&about)).await;
    }
    signal
}

/// Where an agent works and where it looks for programs.
#[derive(Clone, Debug)]
pub(crate) struct AgentPaths {
    /// The session's working directory.
    pub(crate) cwd: PathBuf,
    /// The PATH that the agent was started with.
    pub(crate) path: Option<String>,
    /// Directories that the agent can write to, in addition to those for temporary files.
    pub(crate) writable: Vec<PathBuf>,
}

impl AgentPaths {
    pub(crate) fn from_session(session: &Session, world: &EngineWorld, cwd: PathBuf) -> AgentPaths {
        let environment = world.environment.for_agent(&session.spec.agent);
        let variable = |name: &str| {
            let mut found = environment.iter().filter(|(known, _)| known == name);
            found.next().map(|(_, value)| value.clone())
        };
        // An agent's work also lands in the project's own checkout.
        let project = match &session.spec.work {
            WorkLocation::Plain => None,
            WorkLocation::InPlace { top }
            | WorkLocation::Worktree { top, .. }
            | WorkLocation::Detached { top, .. } => Some(top),
        };
        let writable = project
            .map(PathBuf::from)
            .into_iter()
            .chain([cwd.clone(), world.home.root().to_owned()]);
        let writable = writable.chain(variable("TMPDIR").map(PathBuf::from)).collect();
        AgentPaths { cwd, path: variable("PATH"), writable }
    }

    /// Looks up the facts that rules need about a subject's command. `None` for a subject without a command.
    pub(crate) fn look_up(&self, subject: &ApprovalSubject) -> Option<CommandLookup> {
        let command = subject.command.as_deref()?;
        let asked =
            subject.cwd.as_deref().and_then(|cwd| fs::canonicalize(self.cwd.join(cwd)).ok());
        let own = fs::canonicalize(&self.cwd).ok();
        let search = ProgramSearch::new(self, TEMPORARY.into_iter().map(PathBuf::from));
        let programs = policy::programs(command).into_iter().map(|word| {
            let (file, refused) = match search.find(&word) {
                Ok(file) => (Some(file), None),
                Err(why) => (None, Some(why)),
            };
            ProgramLookup { word, file, refused }
        });
        let in_worktree = asked.is_some() && asked == own;
        Some(CommandLookup { in_worktree, programs: programs.collect() })
    }
}

/// Searches for programs that the agent cannot write.
struct ProgramSearch<'a> {
    place: &'a AgentPaths,
    /// Directories that the agent can write to, with symlinks resolved.
    writable: Vec<PathBuf>,
}

impl<'a> ProgramSearch<'a> {
    /// Creates a search. Directories that do not exist are skipped.
    fn new(
        place: &'a AgentPaths,
        temporary: impl IntoIterator<Item = PathBuf>,
    ) -> ProgramSearch<'a> {
        let all = place.writable.iter().cloned().chain(temporary);
        let real = all.filter_map(|root| fs::canonicalize(root).ok());
        // Otherwise, a session that works in "/" would refuse every program.
        let writable = real.filter(|root| root != Path::new("/")).collect();
        ProgramSearch { place, writable }
    }

    /// Finds the file of a program. The error explains why no rule may allow the program.
    fn find(&self, word: &str) -> Result<String, String> {
        let found = if word.contains('/') {
            self.resolve(&self.place.cwd.join(word))?
        } else {
            self.search(word)?
        };
        if !is_program(&found) {
            return Err(format!("{} is not a program", found.display()));
        }
        found.into_os_string().into_string().map_err(|_| "its path is not UTF-8".to_owned())
    }

    /// Searches the PATH. If the agent can write to a directory that comes before the directory of the program, the
    /// search fails, because the agent could put a program with the same name there at any time.
    fn search(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.place.path.as_deref().ok_or("the agent has no PATH")?;
        for directory in std::env::split_paths(path) {
            // An empty entry means the working directory.
            let directory = self.place.cwd.join(directory);
            if !directory.is_dir() {
                self.refuse_missing(&directory)?;
                continue;
            }
            let real = self.resolve(&directory)?;
            let file = real.join(name);
            if is_program(&file) {
                return self.resolve(&file);
            }
        }
        Err(format!("there is no program {name:?} in the agent's PATH"))
    }

    /// Rejects a missing directory on the PATH that the agent could create.
    fn refuse_missing(&self, directory: &Path) -> Result<(), String> {
        let existing = directory.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
        self.resolve(existing).map(drop)
    }

    /// Follows a path symlink by symlink, and checks every directory and file on the way.
    fn resolve(&self, path: &Path) -> Result<PathBuf, String> {
        let mut rest: VecDeque<PathBuf> = path_parts(path);
        let (mut real, mut links) = (PathBuf::from("/"), 0);
        while let Some(part) = rest.pop_front() {
            if part == Path::new("..") {
                real.pop();
                continue;
            }
            let next = real.join(&part);
            self.check(&next)?;
            match fs::read_link(&next) {
                Ok(target) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(format!("{} leads through too many links", path.display()));
                    }
                    if target.is_absolute() {
                        real = PathBuf::from("/");
                    }
                    for part in path_parts(&target).into_iter().rev() {
                        rest.push_front(part);
                    }
                }
                Err(_) => real = next,
            }
        }
        Ok(real)
    }

    /// Rejects a path that the agent can write.
    fn check(&self, path: &Path) -> Result<(), String> {
        if self.writable.iter().any(|root| path.starts_with(root)) {
            return Err(format!("the agent can write to {}", path.display()));
        }
        let found = fs::symlink_metadata(path)
            .map_err(|why| format!("cannot read {}: {why}", path.display()))?;
        let own = rustix::process::geteuid().as_raw();
        if found.uid() != 0 && found.uid() != own {
            return Err(format!("{} belongs to another user", path.display()));
        }
        let mode = found.permissions().mode();
        let is_link = found.file_type().is_symlink();
        // In a sticky directory, other users cannot replace files.
        let sticky = found.is_dir() && mode & 0o1000 != 0;
        // On many systems, each user has a group with the same number and no other members.
        let private_group = found.gid() == 0 || found.gid() == own;
        let shared = mode & 0o002 != 0 || (mode & 0o020 != 0 && !private_group);
        if shared && !is_link && !sticky {
            return Err(format!("other users can write to {}", path.display()));
        }
        Ok(())
    }
}

/// Splits a path into its components, without the root and `.`.
fn path_parts(path: &Path) -> VecDeque<PathBuf> {
    let named = |part: Component<'_>| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(named).collect()
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A directory that represents a machine. The real temporary directories do not count,
    /// because tests run there.
    struct TestMachine {
        dir: tempfile::TempDir,
    }

    impl TestMachine {
        fn new() -> TestMachine {
            let machine = TestMachine { dir: tempfile::tempdir().unwrap() };
            for directory in ["bin", "work/bin", "tmp"] {
                fs::create_dir_all(machine.at(directory)).unwrap();
            }
            machine.program("bin/git");
            machine
        }

        fn at(&self, path: &str) -> PathBuf {
            self.dir.path().canonicalize().unwrap().join(path)
        }

        fn program(&self, path: &str) {
            fs::write(self.at(path), "#!/bin/sh\n").unwrap();
            fs::set_permissions(self.at(path), fs::Permissions::from_mode(0o755)).unwrap();
        }

        fn place(&self, path: &[&str]) -> AgentPaths {
            let path = std::env::join_paths(path.iter().map(|part| self.at(part))).unwrap();
            AgentPaths {
                cwd: self.at("work"),
                path: Some(path.into_string().unwrap()),
                writable: vec![self.at("work"), self.at("tmp")],
            }
        }

        fn find(&self, path: &[&str], word: &str) -> Result<String, String> {
            ProgramSearch::new(&self.place(path), []).find(word)
        }
    }

    #[test]
    fn bare_name_resolves_to_protected_file() {
        let machine = TestMachine::new();
        let git = machine.at("bin/git").display().to_string();
        assert_eq!(machine.find(&["bin"], "git"), Ok(git.clone()));
        assert_eq!(machine.find(&["bin"], &git), Ok(git.clone()), "by its path");
        symlink("git", machine.at("bin/g")).unwrap();
        assert_eq!(machine.find(&["bin"], "g"), Ok(git), "by a link");
        assert!(machine.find(&["bin"], "none").is_err());
    }

    #[test]
    fn writable_path_directory_ends_the_search() {
        let machine = TestMachine::new();
        for path in [&["work/bin", "bin"], &["tmp/later", "bin"], &["work", "bin"]] {
            let refused = machine.find(path, "git").unwrap_err();
            assert!(refused.contains("can write to"), "{path:?}: {refused}");
        }
        assert!(
            machine.find(&["bin", "work/bin"], "git").is_ok(),
            "later directories are not searched"
        );
    }

    #[test]
    fn program_via_writable_path_is_refused() {
        let machine = TestMachine::new();
        machine.program("work/git");
        symlink(machine.at("work/git"), machine.at("bin/mine")).unwrap();
        symlink(machine.at("bin/git"), machine.at("tmp/hop")).unwrap();
        symlink(machine.at("tmp/hop"), machine.at("bin/hops")).unwrap();
        for word in ["mine", "hops", "./git", "../work/git"] {
            assert!(machine.find(&["bin"], word).is_err(), "{word}");
        }
    }

    #[test]
    fn program_that_others_can_write_is_refused() {
        let machine = TestMachine::new();
        fs::set_permissions(machine.at("bin/git"), fs::Permissions::from_mode(0o757)).unwrap();
        assert!(machine.find(&["bin"], "git").unwrap_err().contains("other users"));
        fs::set_permissions(machine.at("bin/git"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(machine.at("bin"), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(machine.find(&["bin"], "git").unwrap_err().contains("other users"));
    }

    #[test]
    fn directory_is_compared_by_real_path() {
        let machine = TestMachine::new();
        symlink(machine.at("work"), machine.at("link")).unwrap();
        let place = machine.place(&["bin"]);
        let subject = |cwd: Option<String>| ApprovalSubject {
            command: Some("git status".to_owned()),
            cwd,
            ..ApprovalSubject::default()
        };
        let in_worktree = |path: &str| {
            let cwd = machine.at(path).display().to_string();
            place.look_up(&subject(Some(cwd))).unwrap().in_worktree
        };
        assert!(in_worktree("work") && in_worktree("link"));
        assert!(!in_worktree("work/bin") && !in_worktree("tmp") && !in_worktree("none"));
        assert!(!place.look_up(&subject(None)).unwrap().in_worktree, "the agent did not say where");
        assert_eq!(place.look_up(&ApprovalSubject::default()), None);
    }
}
