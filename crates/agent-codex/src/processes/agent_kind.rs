//! Determines which kind of agent a process is, from `AI_AGENT` or from its program and arguments.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use super::inspect::{ObservedProcess, ProcessProperty, inspect};
use provost_sys::process::ProcessInstance;

/// Programs that run scripts. The first argument is the script.
const INTERPRETERS: [&str; 4] = ["node", "nodejs", "bun", "deno"];
/// The number of interpreter options that may precede the script.
const MAX_OPTIONS: usize = 8;

/// The kind of an agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum AgentKind {
    Codex,
    Claude,
    Gemini,
    OpenCode,
    Copilot,
    /// Any other agent that identifies itself through `AI_AGENT`.
    Other(String),
}

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
    pub kind: AgentKind,
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

/// Whether this process is Codex itself, so that text may be typed into its terminal. It must run
/// Codex's own program, or have a rollout open for writing and not be a shell. `AI_AGENT` does not
/// count, because every shell that an agent starts inherits it.
pub fn is_codex(identity: &ProcessInstance) -> io::Result<bool> {
    let Some(process) = inspect(identity.pid)? else { return Ok(false) };
    Ok(process.identity == *identity && process.runs_codex())
}

impl ObservedProcess {
    fn runs_codex(&self) -> bool {
        let own = identify_by_program(self).is_some_and(|identified| {
            identified.own_program && identified.kind == AgentKind::Codex
        });
        let name = self.executable.seen().and_then(|path| path.file_name()?.to_str());
        // A program that cannot be identified could be a shell.
        let is_shell =
            name.is_none_or(|name| SHELLS.contains(&name.trim_end_matches(" (deleted)")));
        let writes = self.rollouts.seen().is_some_and(|open| !open.is_empty());
        own || (writes && !is_shell)
    }
}

/// All processes together. A single process does not show whether it is an agent, because every
/// child of an agent inherits `AI_AGENT`.
#[derive(Debug)]
pub struct ProcessTree<'a>(BTreeMap<u32, &'a ObservedProcess>);

impl<'a> ProcessTree<'a> {
    pub fn new(all: &'a [ObservedProcess]) -> Self {
        ProcessTree(all.iter().map(|process| (process.identity.pid, process)).collect())
    }

    pub fn get(&self, pid: u32) -> Option<&'a ObservedProcess> {
        self.0.get(&pid).copied()
    }

    /// Returns all agents, but not the commands that they run.
    pub fn agents(&self) -> Vec<(&'a ObservedProcess, AgentIdentification)> {
        let agent = |process: &'a ObservedProcess| Some((process, self.agent(process)?));
        self.0.values().filter_map(|process| agent(process)).collect()
    }

    /// Returns the kind of a process that is itself an agent. If several processes are identified
    /// only by `AI_AGENT`, the topmost one is the agent. For an orphan, this cannot be determined.
    pub fn agent(&self, process: &ObservedProcess) -> Option<AgentIdentification> {
        let by_environment =
            || if self.is_orphan(process) { None } else { self.kind_from_environment(process) };
        self.identify_by_launcher(process)
            .or_else(by_environment)
            .or_else(|| identify_by_program(process))
    }

    /// Returns the kind given by `AI_AGENT`, unless the process may have inherited the variable
    /// from an agent of the same kind above it.
    pub fn kind_from_environment(&self, process: &ObservedProcess) -> Option<AgentIdentification> {
        let kind = kind_in_environment(process)?;
        let own_program =
            identify_by_program(process).is_some_and(|identified| identified.own_program);
        let is_it = |above: &'a ObservedProcess| {
            let program = identify_by_program(above).map(|identified| identified.kind);
            kind_in_environment(above).as_ref() == Some(&kind) || program.as_ref() == Some(&kind)
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
        let own = identify_by_program(process)?;
        let mut top = None;
        for above in self.ancestors(process) {
            match identify_by_program(above) {
                Some(identified) if identified.kind == own.kind && !identified.own_program => {
                    top = Some(above)
                }
                Some(_) | None => break,
            }
        }
        kind_in_environment(process)?;
        let identified = self.kind_from_environment(top?)?;
        Some(AgentIdentification { own_program: own.own_program, ..identified })
    }

    fn is_orphan(&self, process: &ObservedProcess) -> bool {
        let reaps = |parent: &ObservedProcess| {
            let name = parent.executable.seen().and_then(|path| path.file_name()?.to_str());
            name.is_some_and(|name| REAPERS.contains(&name))
        };
        let known = identify_by_program(process).is_some();
        !known && (process.parent == 1 || self.get(process.parent).is_some_and(reaps))
    }

    fn ancestors(&self, process: &ObservedProcess) -> impl Iterator<Item = &'a ObservedProcess> {
        let above = |one: &&'a ObservedProcess| self.get(one.parent);
        std::iter::successors(self.get(process.parent), above).take(MAX_ANCESTORS)
    }
}

fn kind_in_environment(process: &ObservedProcess) -> Option<AgentKind> {
    parse_ai_agent(process.ai_agent.seen()?.as_deref()?)
}

fn identify_by_program(process: &ObservedProcess) -> Option<AgentIdentification> {
    let executable = process.executable.seen().and_then(|path| program(path.as_os_str()));
    let by_executable = executable.map(|kind| AgentIdentification {
        kind,
        basis: Basis::Executable,
        own_program: true,
    });
    let by_arguments = || {
        let script = script(process.arguments.seen()?)?;
        Some(AgentIdentification {
            kind: program(script)?,
            basis: Basis::Arguments,
            own_program: false,
        })
    };
    by_executable.or_else(by_arguments)
}

/// Returns the program in a command line: the first argument, or the script that an interpreter
/// runs.
fn script(arguments: &[OsString]) -> Option<&OsStr> {
    let first = arguments.first()?;
    // npm's process title contains the command it runs, as in `npm exec @openai/codex`.
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

/// Returns the kind of agent for a program. Wrappers from npm are recognized by their package.
fn program(path: &OsStr) -> Option<AgentKind> {
    let path = Path::new(path);
    let name = path.file_stem()?.to_str()?.trim_end_matches(" (deleted)");
    let by_name = match name {
        "codex" | "codex-x86_64-unknown-linux-musl" | "codex-aarch64-unknown-linux-musl" => {
            Some(AgentKind::Codex)
        }
        "claude" => Some(AgentKind::Claude),
        "gemini" => Some(AgentKind::Gemini),
        "opencode" => Some(AgentKind::OpenCode),
        "copilot" => Some(AgentKind::Copilot),
        _ => None,
    };
    by_name.or_else(|| package(path))
}

fn package(path: &Path) -> Option<AgentKind> {
    let parts: Vec<&str> = path.iter().filter_map(OsStr::to_str).collect();
    parts.windows(3).find_map(|part| match part {
        ["node_modules", "@openai", name] if name.starts_with("codex") => Some(AgentKind::Codex),
        ["node_modules", "@anthropic-ai", "claude-code"] => Some(AgentKind::Claude),
        ["node_modules", "@google", "gemini-cli"] => Some(AgentKind::Gemini),
        ["node_modules", "@github", "copilot"] => Some(AgentKind::Copilot),
        _ => None,
    })
}

/// Returns the agent in a value of `AI_AGENT`. A version or path after the name is ignored.
fn parse_ai_agent(value: &OsStr) -> Option<AgentKind> {
    let value = value.to_str()?.trim().to_ascii_lowercase();
    let name = value.split(['/', '@', ' ', ':']).next().filter(|name| !name.is_empty())?;
    Some(match name {
        "codex" | "codex-cli" | "codex_cli" => AgentKind::Codex,
        "claude" | "claude-code" | "claude_code" => AgentKind::Claude,
        "gemini" | "gemini-cli" => AgentKind::Gemini,
        "opencode" => AgentKind::OpenCode,
        "copilot" | "copilot-cli" => AgentKind::Copilot,
        other => {
            AgentKind::Other(other.chars().filter(|char| !char.is_control()).take(64).collect())
        }
    })
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
    use crate::rollout::Rollout;

    fn identify(
        environment: Option<&str>,
        executable: &str,
        arguments: &[&str],
    ) -> Option<(AgentKind, Basis)> {
        let process = ObservedProcess {
            ai_agent: ProcessProperty::Visible(environment.map(OsString::from)),
            executable: ProcessProperty::Visible(executable.into()),
            arguments: ProcessProperty::Visible(arguments.iter().map(OsString::from).collect()),
            ..process()
        };
        let identified = ProcessTree::new(std::slice::from_ref(&process)).agent(&process);
        identified.map(|identified| (identified.kind, identified.basis))
    }

    #[test]
    fn environment_takes_precedence_over_program() {
        let codex = Some((AgentKind::Codex, Basis::Environment));
        assert_eq!(identify(Some("codex/0.166.0"), "/usr/bin/claude", &["claude"]), codex);
        assert_eq!(identify(Some(" Codex "), "/bin/sh", &["sh"]), codex);
        let other = Some((AgentKind::Other("aider".into()), Basis::Environment));
        assert_eq!(identify(Some("aider"), "/bin/sh", &[]), other);
        assert_eq!(
            identify(Some(""), "/usr/bin/claude", &[]),
            Some((AgentKind::Claude, Basis::Executable))
        );
    }

    #[test]
    fn only_codex_accepts_typing() {
        let runs = |executable: &str, open: &[&str]| {
            let rollouts =
                open.iter().filter_map(|path| Rollout::from_path(Path::new(path), false));
            let process = ObservedProcess {
                ai_agent: ProcessProperty::Visible(Some("codex".into())),
                executable: ProcessProperty::Visible(executable.into()),
                arguments: ProcessProperty::Visible(vec!["codex".into()]),
                rollouts: ProcessProperty::Visible(rollouts.collect()),
                ..process()
            };
            process.runs_codex()
        };
        let open = &["/x/rollout-2026-11-15T18-49-53-01a1e08b-614a-7c61-a49a-000000000007.jsonl"];
        assert!(runs("/opt/bin/codex", &[]) && runs("/opt/bin/codex (deleted)", &[]));
        assert!(runs("/usr/bin/node", open), "it writes a conversation");
        for shell in ["/usr/bin/bash", "/bin/sh", "/usr/bin/zsh"] {
            assert!(!runs(shell, &[]) && !runs(shell, open), "{shell}");
        }
        assert!(!runs("/usr/bin/python3", &[]), "AI_AGENT alone is not enough");
    }

    #[test]
    fn programs_and_their_wrappers_are_known() {
        assert_eq!(
            identify(None, "/opt/bin/codex", &[]),
            Some((AgentKind::Codex, Basis::Executable))
        );
        let wrapper =
            ["node", "--no-warnings", "/x/node_modules/@openai/codex/bin/codex.js", "resume"];
        assert_eq!(
            identify(None, "/usr/bin/node", &wrapper),
            Some((AgentKind::Codex, Basis::Arguments))
        );
        let wrapper = ["/usr/bin/node", "/x/node_modules/@anthropic-ai/claude-code/cli.js"];
        assert_eq!(
            identify(None, "/usr/bin/node", &wrapper),
            Some((AgentKind::Claude, Basis::Arguments))
        );
    }

    #[test]
    fn argument_text_does_not_identify_agent() {
        assert_eq!(identify(None, "/usr/bin/vim", &["vim", "codex"]), None);
        assert_eq!(identify(None, "/usr/bin/node", &["node", "server.js", "codex"]), None);
        assert_eq!(identify(None, "/usr/bin/grep", &["grep", "codex", "claude"]), None);
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

    fn agents(all: &[ObservedProcess]) -> Vec<(u32, AgentKind)> {
        let agents = ProcessTree::new(all).agents();
        agents
            .into_iter()
            .map(|(process, identified)| (process.identity.pid, identified.kind))
            .collect()
    }

    #[test]
    fn agent_child_is_not_an_agent() {
        let other = AgentKind::Other("aider".into());
        let all = [
            one(7, 5, "aider", &["/usr/bin/python3"]),
            one(8, 7, "aider", &["/bin/sh"]),
            one(9, 8, "aider", &["/usr/bin/make"]),
            one(10, 9, "aider", &["/usr/bin/codex"]),
        ];
        assert_eq!(agents(&all), [(7, other), (10, AgentKind::Codex)]);
        let above = ProcessTree::new(&all).agent_above(&all[2]).map(|process| process.identity.pid);
        assert_eq!(above, Some(7));
        // An agent may set the variable only for the processes that it runs.
        let all = [one(7, 5, "", &["/usr/bin/claude"]), one(8, 7, "claude", &["/bin/sh"])];
        assert_eq!(agents(&all), [(7, AgentKind::Claude)]);
        let all = [one(7, 5, "claude", &["/usr/bin/claude"]), one(8, 7, "aider", &["/bin/sh"])];
        assert_eq!(agents(&all).len(), 2, "it was named anew");
    }

    #[test]
    fn orphan_is_not_identified_by_environment() {
        let reaper = one(5, 1, "", &["/usr/lib/systemd/systemd"]);
        for parent in [1, 5] {
            let left = one(7, parent, "aider", &["/usr/bin/python3"]);
            assert_eq!(agents(&[reaper.clone(), left.clone()]), []);
            assert!(
                ProcessTree::new(std::slice::from_ref(&left))
                    .kind_from_environment(&left)
                    .is_some()
            );
            let known = one(7, parent, "aider", &["/usr/bin/codex"]);
            assert_eq!(agents(&[known]), [(7, AgentKind::Other("aider".into()))]);
        }
    }

    #[test]
    fn launcher_and_program_are_one_agent() {
        let script = ["/usr/bin/node", "/x/node_modules/@openai/codex/bin/codex.js"];
        for name in ["", "codex", "mine"] {
            let all = [one(7, 5, name, &script), one(8, 7, name, &["/x/codex"])];
            let (family, found) = (ProcessTree::new(&all), agents(&all));
            assert_eq!(found[0].1, found[1].1, "{found:?}");
            let own = all.each_ref().map(|one| family.agent(one).unwrap().own_program);
            assert_eq!(own, [false, true]);
        }
        let node = ProcessProperty::Visible("/usr/bin/node".into());
        let titled = one(6, 5, "", &["npm exec @openai/codex"]);
        assert_eq!(agents(&[ObservedProcess { executable: node, ..titled }]), []);
    }
}
