//! Which agent a process is: by what it says of itself, then by its program and arguments.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::look::{Process, Seen};

/// Programs that run others, whose first argument is the program.
const INTERPRETERS: [&str; 4] = ["node", "nodejs", "bun", "deno"];
/// The most arguments of an interpreter before its script.
const MOST_OPTIONS: usize = 8;

/// An agent that is known by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum AgentKind {
    Codex,
    Claude,
    Gemini,
    OpenCode,
    Copilot,
    /// Another that names itself in `AI_AGENT`.
    Other(String),
}

/// What the kind was told by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// `AI_AGENT` of its environment.
    Environment,
    Executable,
    Arguments,
}

/// A kind, and where it is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub kind: AgentKind,
    pub basis: Basis,
}

/// The kind of agent that a process is, or nothing if it shows no sign of one. An agent's children inherit its
/// `AI_AGENT`, so that alone makes no process an agent; see [`Process::is_agent_itself`].
pub fn agent_kind(process: &Process) -> Option<Told> {
    let by_environment = || {
        let name = process.ai_agent.seen()?.as_deref()?;
        Some(Told { kind: named(name)?, basis: Basis::Environment })
    };
    by_environment().or_else(|| by_program(process))
}

impl Process {
    /// Whether the process is the agent, and not a command that an agent runs.
    pub fn is_agent_itself(&self) -> bool {
        by_program(self).is_some()
    }
}

fn by_program(process: &Process) -> Option<Told> {
    let executable = process.executable.seen().and_then(|path| program(path.as_os_str()));
    let by_executable = executable.map(|kind| Told { kind, basis: Basis::Executable });
    let by_arguments = || {
        let script = script(process.arguments.seen()?)?;
        Some(Told { kind: program(script)?, basis: Basis::Arguments })
    };
    by_executable.or_else(by_arguments)
}

/// The program of a command line: its first word, or the script that an interpreter runs.
fn script(arguments: &[OsString]) -> Option<&OsStr> {
    let first = arguments.first()?;
    let name = Path::new(first).file_name()?.to_str()?;
    if !INTERPRETERS.contains(&name) {
        return Some(first);
    }
    let is_option = |argument: &&OsString| argument.as_encoded_bytes().starts_with(b"-");
    let mut rest = arguments[1..].iter().take(MOST_OPTIONS).skip_while(is_option);
    rest.next().map(OsString::as_os_str)
}

/// The agent whose program this is. Wrappers of npm are told by the package that they are in.
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

/// The agent that a value of `AI_AGENT` names; a version or path after its name does not matter.
fn named(value: &OsStr) -> Option<AgentKind> {
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

impl<T> Seen<T> {
    /// The value, if it could be seen.
    pub fn seen(&self) -> Option<&T> {
        match self {
            Self::Yes(value) => Some(value),
            Self::Hidden(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::look::tests::process;
    use super::*;

    fn told(
        environment: Option<&str>,
        executable: &str,
        arguments: &[&str],
    ) -> Option<(AgentKind, Basis)> {
        let process = Process {
            ai_agent: Seen::Yes(environment.map(OsString::from)),
            executable: Seen::Yes(executable.into()),
            arguments: Seen::Yes(arguments.iter().map(OsString::from).collect()),
            ..process()
        };
        agent_kind(&process).map(|told| (told.kind, told.basis))
    }

    #[test]
    fn the_environment_is_believed_before_the_program() {
        let codex = Some((AgentKind::Codex, Basis::Environment));
        assert_eq!(told(Some("codex/0.166.0"), "/usr/bin/claude", &["claude"]), codex);
        assert_eq!(told(Some(" Codex "), "/bin/sh", &["sh"]), codex);
        let other = Some((AgentKind::Other("aider".into()), Basis::Environment));
        assert_eq!(told(Some("aider"), "/bin/sh", &[]), other);
        assert_eq!(
            told(Some(""), "/usr/bin/claude", &[]),
            Some((AgentKind::Claude, Basis::Executable))
        );
    }

    #[test]
    fn programs_and_their_wrappers_are_known() {
        assert_eq!(told(None, "/opt/bin/codex", &[]), Some((AgentKind::Codex, Basis::Executable)));
        let wrapper =
            ["node", "--no-warnings", "/x/node_modules/@openai/codex/bin/codex.js", "resume"];
        assert_eq!(
            told(None, "/usr/bin/node", &wrapper),
            Some((AgentKind::Codex, Basis::Arguments))
        );
        let wrapper = ["/usr/bin/node", "/x/node_modules/@anthropic-ai/claude-code/cli.js"];
        assert_eq!(
            told(None, "/usr/bin/node", &wrapper),
            Some((AgentKind::Claude, Basis::Arguments))
        );
    }

    #[test]
    fn words_among_the_arguments_make_no_agent() {
        assert_eq!(told(None, "/usr/bin/vim", &["vim", "codex"]), None);
        assert_eq!(told(None, "/usr/bin/node", &["node", "server.js", "codex"]), None);
        assert_eq!(told(None, "/usr/bin/grep", &["grep", "codex", "claude"]), None);
    }

    #[test]
    fn a_command_of_an_agent_is_not_the_agent() {
        let child = Process { ai_agent: Seen::Yes(Some("codex".into())), ..process() };
        assert!(agent_kind(&child).is_some());
        assert!(!child.is_agent_itself());
    }
}
