//! Determines which kind of agent a process is, from `AI_AGENT` or from its program and arguments.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use super::inspect::{ObservedProcess, ProcessProperty, RecognizeTranscript, inspect};
use super::signature::AgentSignature;
use provost_sys::process::ProcessInstance;

/// Programs that run scripts. The first argument is the script.
const INTERPRETERS: [&str; 4] = ["node", "nodejs", "bun", "deno"];
/// The number of interpreter options that may precede the script.
const MAX_OPTIONS: usize = 8;

/// The evidence for the kind of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The variable `AI_AGENT` in the environment of the process.
    Environment,
    Executable,
    Arguments,
}

/// The kind of an agent, and the evidence for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentIdentification {
    pub kind: String,
    pub basis: Basis,
    /// Whether the process runs the agent's own program. Any other process may be a script that
    /// started the agent, or may merely have inherited `AI_AGENT`.
    pub own_program: bool,
}

/// The maximum number of ancestors. The limit is needed because a chain that changes while it is
/// read could contain a cycle.
const MAX_ANCESTORS: usize = 64;

/// Programs other than process 1 that adopt orphaned processes.
const REAPERS: [&str; 2] = ["systemd", "init"];

/// Programs that run typed input as commands.
const SHELLS: [&str; 9] = ["sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "tcsh", "busybox"];

/// Whether exactly this process is still running and is the agent itself, so that text may be typed
/// into its terminal. It must run the agent's own program, or have a transcript open for writing and
/// not be a shell. `AI_AGENT` does not count, because every shell that an agent starts inherits it.
pub fn is_running(
    identity: &ProcessInstance,
    signature: &AgentSignature,
    recognize: RecognizeTranscript<'_>,
) -> io::Result<bool> {
    let Some(process) = inspect(identity.pid, recognize)? else { return Ok(false) };
    Ok(process.identity == *identity && process.runs(signature))
}

impl ObservedProcess {
    fn runs(&self, signature: &AgentSignature) -> bool {
        let own = self.executable.seen().is_some_and(|path| signature.is_program(path.as_os_str()));
        let name = self.executable.seen().and_then(|path| path.file_name()?.to_str());
        // A program that cannot be identified could be a shell.
        let is_shell =
            name.is_none_or(|name| SHELLS.contains(&name.trim_end_matches(" (deleted)")));
        let writes = self.transcripts.seen().is_some_and(|open| !open.is_empty());
        own || (writes && !is_shell)
    }
}

/// All processes together. A single process does not show whether it is an agent, because every
/// child of an agent inherits `AI_AGENT`.
#[derive(Debug)]
pub struct ProcessTree<'a> {
    processes: BTreeMap<u32, &'a ObservedProcess>,
    signatures: &'a [AgentSignature],
}

impl<'a> ProcessTree<'a> {
    /// Creates the tree of these processes. The agents among them are recognized by the signatures.
    pub fn new(all: &'a [ObservedProcess], signatures: &'a [AgentSignature]) -> Self {
        let processes = all.iter().map(|process| (process.identity.pid, process)).collect();
        ProcessTree { processes, signatures }
    }

    pub fn get(&self, pid: u32) -> Option<&'a ObservedProcess> {
        self.processes.get(&pid).copied()
    }

    /// Returns all agents, but not the commands that they run.
    pub fn agents(&self) -> Vec<(&'a ObservedProcess, AgentIdentification)> {
        let agent = |process: &'a ObservedProcess| Some((process, self.agent(process)?));
        self.processes.values().filter_map(|process| agent(process)).collect()
    }

    /// Returns the kind of a process that is itself an agent. If several processes are identified
    /// only by `AI_AGENT`, the topmost one is the agent. For an orphan, this cannot be determined.
    pub fn agent(&self, process: &ObservedProcess) -> Option<AgentIdentification> {
        let by_environment =
            || if self.is_orphan(process) { None } else { self.kind_from_environment(process) };
        self.identify_by_launcher(process)
            .or_else(by_environment)
            .or_else(|| self.identify_by_program(process))
    }

    /// Returns the kind given by `AI_AGENT`, unless the process may have inherited the variable
    /// from an agent of the same kind above it.
    pub fn kind_from_environment(&self, process: &ObservedProcess) -> Option<AgentIdentification> {
        let kind = self.kind_in_environment(process)?;
        let own_program =
            self.identify_by_program(process).is_some_and(|identified| identified.own_program);
        let is_it = |above: &'a ObservedProcess| {
            let program = self.identify_by_program(above).map(|identified| identified.kind);
            self.kind_in_environment(above).as_ref() == Some(&kind)
                || program.as_ref() == Some(&kind)
        };
        let inherited = self.ancestors(process).any(is_it);
        (!inherited).then_some(AgentIdentification { kind, basis: Basis::Environment, own_program })
    }

    /// Returns the nearest agent among the ancestors of a process.
    pub fn agent_above(&self, process: &ObservedProcess) -> Option<&'a ObservedProcess> {
        self.ancestors(process).find(|above| self.agent(above).is_some())
    }

    /// Identifies a program that runs below its own launcher script as the same agent.
    fn identify_by_launcher(&self, process: &ObservedProcess) -> Option<AgentIdentification> {
        let own = self.identify_by_program(process)?;
        let mut top = None;
        for above in self.ancestors(process) {
            match self.identify_by_program(above) {
                Some(identified) if identified.kind == own.kind && !identified.own_program => {
                    top = Some(above)
                }
                Some(_) | None => break,
            }
        }
        self.kind_in_environment(process)?;
        let identified = self.kind_from_environment(top?)?;
        Some(AgentIdentification { own_program: own.own_program, ..identified })
    }

    fn is_orphan(&self, process: &ObservedProcess) -> bool {
        let reaps = |parent: &ObservedProcess| {
            let name = parent.executable.seen().and_then(|path| path.file_name()?.to_str());
            name.is_some_and(|name| REAPERS.contains(&name))
        };
        let known = self.identify_by_program(process).is_some();
        !known && (process.parent == 1 || self.get(process.parent).is_some_and(reaps))
    }

    fn ancestors(&self, process: &ObservedProcess) -> impl Iterator<Item = &'a ObservedProcess> {
        let above = |one: &&'a ObservedProcess| self.get(one.parent);
        std::iter::successors(self.get(process.parent), above).take(MAX_ANCESTORS)
    }

    fn kind_in_environment(&self, process: &ObservedProcess) -> Option<String> {
        self.parse_ai_agent(process.ai_agent.seen()?.as_deref()?)
    }

    fn identify_by_program(&self, process: &ObservedProcess) -> Option<AgentIdentification> {
        let executable = process.executable.seen();
        let by_executable = executable.and_then(|path| self.program(path.as_os_str()));
        let by_executable = by_executable.map(|kind| AgentIdentification {
            kind,
            basis: Basis::Executable,
            own_program: true,
        });
        let by_arguments = || {
            let script = script(process.arguments.seen()?)?;
            Some(AgentIdentification {
                kind: self.program(script)?,
                basis: Basis::Arguments,
                own_program: false,
            })
        };
        by_executable.or_else(by_arguments)
    }

    /// Returns the kind of agent for a program.
    fn program(&self, path: &OsStr) -> Option<String> {
        let known = self.signatures.iter().find(|signature| signature.is_program(path));
        known.map(|signature| signature.name.to_owned())
    }

    /// Returns the agent in a value of `AI_AGENT`. A version or path after the name is ignored.
    fn parse_ai_agent(&self, value: &OsStr) -> Option<String> {
        let value = value.to_str()?.trim().to_ascii_lowercase();
        let name = value.split(['/', '@', ' ', ':']).next().filter(|name| !name.is_empty())?;
        let known = self.signatures.iter().find(|signature| signature.marks.contains(&name));
        Some(known.map_or_else(
            || name.chars().filter(|char| !char.is_control()).take(64).collect(),
            |signature| signature.name.to_owned(),
        ))
    }
}

/// Returns the program in a command line: the first argument, or the script that an interpreter
/// runs.
fn script(arguments: &[OsString]) -> Option<&OsStr> {
    let first = arguments.first()?;
    // npm's process title contains the command it runs, as in `npm exec @scope/package`.
    if first.as_encoded_bytes().starts_with(b"npm ") {
        return None;
    }
    let name = Path::new(first).file_name()?.to_str()?;
    if !INTERPRETERS.contains(&name) {
        return Some(first);
    }
    let is_option = |argument: &&OsString| argument.as_encoded_bytes().starts_with(b"-");
    let mut rest = arguments[1..].iter().take(MAX_OPTIONS).skip_while(is_option);
    rest.next().map(OsString::as_os_str)
}

impl<T> ProcessProperty<T> {
    /// Returns the value, if it could be read.
    pub fn seen(&self) -> Option<&T> {
        match self {
            Self::Visible(value) => Some(value),
            Self::Hidden(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::inspect::tests::process;
    use super::*;
    use crate::{processes::OpenTranscript, transcript::TranscriptFile};
    use provost_core::session::AdapterId;

    /// An agent whose program npm installs.
    const TALKER: AgentSignature = AgentSignature {
        name: "talker",
        marks: &["talker", "talker-cli"],
        programs: &["talker"],
        packages: &[("@talk", "talker*")],
    };

    /// An agent that sets `AI_AGENT` only for the processes that it runs.
    const WRITER: AgentSignature = AgentSignature {
        name: "writer",
        marks: &["writer"],
        programs: &["writer"],
        packages: &[("@write", "writer-cli")],
    };

    const SIGNATURES: [AgentSignature; 2] = [TALKER, WRITER];

    fn identify(
        environment: Option<&str>,
        executable: &str,
        arguments: &[&str],
    ) -> Option<(String, Basis)> {
        let process = ObservedProcess {
            ai_agent: ProcessProperty::Visible(environment.map(OsString::from)),
            executable: ProcessProperty::Visible(executable.into()),
            arguments: ProcessProperty::Visible(arguments.iter().map(OsString::from).collect()),
            ..process()
        };
        let identified =
            ProcessTree::new(std::slice::from_ref(&process), &SIGNATURES).agent(&process);
        identified.map(|identified| (identified.kind, identified.basis))
    }

    #[test]
    fn environment_takes_precedence_over_program() {
        let talker = Some(("talker".to_owned(), Basis::Environment));
        assert_eq!(identify(Some("talker/0.166.0"), "/usr/bin/writer", &["writer"]), talker);
        assert_eq!(identify(Some(" Talker "), "/bin/sh", &["sh"]), talker);
        let other = Some(("aider".to_owned(), Basis::Environment));
        assert_eq!(identify(Some("aider"), "/bin/sh", &[]), other);
        assert_eq!(
            identify(Some(""), "/usr/bin/writer", &[]),
            Some(("writer".to_owned(), Basis::Executable))
        );
    }

    #[test]
    fn only_the_agent_itself_accepts_typing() {
        let runs = |executable: &str, open: &[&str]| {
            let open = open.iter().map(|path| OpenTranscript {
                adapter: AdapterId::COMMAND,
                file: TranscriptFile { thread: "1".to_owned(), path: path.into() },
            });
            let process = ObservedProcess {
                ai_agent: ProcessProperty::Visible(Some("talker".into())),
                executable: ProcessProperty::Visible(executable.into()),
                arguments: ProcessProperty::Visible(vec!["talker".into()]),
                transcripts: ProcessProperty::Visible(open.collect()),
                ..process()
            };
            process.runs(&TALKER)
        };
        let open = &["/x/1.talk"];
        assert!(runs("/opt/bin/talker", &[]) && runs("/opt/bin/talker (deleted)", &[]));
        assert!(runs("/usr/bin/node", open), "it writes a conversation");
        for shell in ["/usr/bin/bash", "/bin/sh", "/usr/bin/zsh"] {
            assert!(!runs(shell, &[]) && !runs(shell, open), "{shell}");
        }
        assert!(!runs("/usr/bin/python3", &[]), "AI_AGENT alone is not enough");
    }

    #[test]
    fn programs_and_their_wrappers_are_known() {
        assert_eq!(
            identify(None, "/opt/bin/talker", &[]),
            Some(("talker".to_owned(), Basis::Executable))
        );
        let wrapper =
            ["node", "--no-warnings", "/x/node_modules/@talk/talker/bin/talker.js", "resume"];
        assert_eq!(
            identify(None, "/usr/bin/node", &wrapper),
            Some(("talker".to_owned(), Basis::Arguments))
        );
        let wrapper = ["/usr/bin/node", "/x/node_modules/@write/writer-cli/cli.js"];
        assert_eq!(
            identify(None, "/usr/bin/node", &wrapper),
            Some(("writer".to_owned(), Basis::Arguments))
        );
    }

    #[test]
    fn argument_text_does_not_identify_agent() {
        assert_eq!(identify(None, "/usr/bin/vim", &["vim", "talker"]), None);
        assert_eq!(identify(None, "/usr/bin/node", &["node", "server.js", "talker"]), None);
        assert_eq!(identify(None, "/usr/bin/grep", &["grep", "talker", "writer"]), None);
    }

    /// Returns a process below another one, with this `AI_AGENT` value and command line.
    fn one(pid: u32, parent: u32, environment: &str, words: &[&str]) -> ObservedProcess {
        let name = Some(environment).filter(|name| !name.is_empty()).map(OsString::from);
        ObservedProcess {
            identity: ProcessInstance { pid, start_time: 1, boot_id: "b".into() },
            parent,
            ai_agent: ProcessProperty::Visible(name),
            executable: ProcessProperty::Visible(words[0].into()),
            arguments: ProcessProperty::Visible(words.iter().map(OsString::from).collect()),
            ..process()
        }
    }

    fn agents(all: &[ObservedProcess]) -> Vec<(u32, String)> {
        let agents = ProcessTree::new(all, &SIGNATURES).agents();
        agents
            .into_iter()
            .map(|(process, identified)| (process.identity.pid, identified.kind))
            .collect()
    }

    #[test]
    fn agent_child_is_not_an_agent() {
        let other = "aider".to_owned();
        let all = [
            one(7, 5, "aider", &["/usr/bin/python3"]),
            one(8, 7, "aider", &["/bin/sh"]),
            one(9, 8, "aider", &["/usr/bin/make"]),
            one(10, 9, "aider", &["/usr/bin/talker"]),
        ];
        assert_eq!(agents(&all), [(7, other), (10, "talker".to_owned())]);
        let above = ProcessTree::new(&all, &SIGNATURES)
            .agent_above(&all[2])
            .map(|process| process.identity.pid);
        assert_eq!(above, Some(7));
        // An agent may set the variable only for the processes that it runs.
        let all = [one(7, 5, "", &["/usr/bin/writer"]), one(8, 7, "writer", &["/bin/sh"])];
        assert_eq!(agents(&all), [(7, "writer".to_owned())]);
        let all = [one(7, 5, "writer", &["/usr/bin/writer"]), one(8, 7, "aider", &["/bin/sh"])];
        assert_eq!(agents(&all).len(), 2, "it was named anew");
    }

    #[test]
    fn orphan_is_not_identified_by_environment() {
        let reaper = one(5, 1, "", &["/usr/lib/systemd/systemd"]);
        for parent in [1, 5] {
            let left = one(7, parent, "aider", &["/usr/bin/python3"]);
            assert_eq!(agents(&[reaper.clone(), left.clone()]), []);
            assert!(
                ProcessTree::new(std::slice::from_ref(&left), &SIGNATURES)
                    .kind_from_environment(&left)
                    .is_some()
            );
            let known = one(7, parent, "aider", &["/usr/bin/talker"]);
            assert_eq!(agents(&[known]), [(7, "aider".to_owned())]);
        }
    }

    #[test]
    fn launcher_and_program_are_one_agent() {
        let script = ["/usr/bin/node", "/x/node_modules/@talk/talker/bin/talker.js"];
        for name in ["", "talker", "mine"] {
            let all = [one(7, 5, name, &script), one(8, 7, name, &["/x/talker"])];
            let (family, found) = (ProcessTree::new(&all, &SIGNATURES), agents(&all));
            assert_eq!(found[0].1, found[1].1, "{found:?}");
            let own = all.each_ref().map(|one| family.agent(one).unwrap().own_program);
            assert_eq!(own, [false, true]);
        }
        let node = ProcessProperty::Visible("/usr/bin/node".into());
        let titled = one(6, 5, "", &["npm exec @talk/talker"]);
        assert_eq!(agents(&[ObservedProcess { executable: node, ..titled }]), []);
    }
}
