//! How the processes of each kind of agent are recognized.

use std::{ffi::OsStr, path::Path};

/// How the processes of one kind of agent are recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentSignature {
    /// The name of the agent, as users see it.
    pub name: &'static str,
    /// The values of `AI_AGENT` that denote the agent, in lower case.
    pub marks: &'static [&'static str],
    /// The names of its own program, without extension.
    pub programs: &'static [&'static str],
    /// The npm packages that contain its program, each with its scope. A trailing star matches any
    /// suffix.
    pub packages: &'static [(&'static str, &'static str)],
}

/// Agents that Provost recognizes without an adapter. It sees only their processes.
pub const WELL_KNOWN_AGENTS: &[AgentSignature] = &[
    AgentSignature {
        name: "claude",
        marks: &["claude", "claude-code", "claude_code"],
        programs: &["claude"],
        packages: &[("@anthropic-ai", "claude-code")],
    },
    AgentSignature {
        name: "gemini",
        marks: &["gemini", "gemini-cli"],
        programs: &["gemini"],
        packages: &[("@google", "gemini-cli")],
    },
    AgentSignature {
        name: "opencode",
        marks: &["opencode"],
        programs: &["opencode"],
        packages: &[],
    },
    AgentSignature {
        name: "copilot",
        marks: &["copilot", "copilot-cli"],
        programs: &["copilot"],
        packages: &[("@github", "copilot")],
    },
];

impl AgentSignature {
    /// Whether a path is the agent's program, or a wrapper from one of its packages.
    pub(super) fn is_program(&self, path: &OsStr) -> bool {
        let path = Path::new(path);
        let name = path.file_stem().and_then(OsStr::to_str);
        let name = name.map(|name| name.trim_end_matches(" (deleted)"));
        name.is_some_and(|name| self.programs.contains(&name)) || self.is_in_package(path)
    }

    fn is_in_package(&self, path: &Path) -> bool {
        let parts: Vec<&str> = path.iter().filter_map(OsStr::to_str).collect();
        parts.windows(3).any(|part| match part {
            ["node_modules", scope, package] => {
                self.packages.iter().any(|own| own.0 == *scope && matches_package(own.1, package))
            }
            _ => false,
        })
    }
}

fn matches_package(pattern: &str, package: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == package, |start| package.starts_with(start))
}
