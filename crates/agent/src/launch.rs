//! The additions of an adapter to the command of a launch.

use std::path::{Path, PathBuf};

use provost_core::{ids::LaunchId, session::Session};

/// The variable with the directory for an agent's reports, in case its sandbox blocks all connections.
pub const DROP_VARIABLE: &str = "PROVOST_DROP";

/// The subcommand that runs the MCP server for a launch's tools.
pub const TOOLS_COMMAND: &str = "agent-tools";

/// The subcommand that receives the events of an agent's hooks.
pub const HOOK_COMMAND: &str = "agent-hook";

/// A launch that is about to start.
#[derive(Debug)]
pub struct LaunchRequest<'a> {
    pub session: &'a Session,
    pub launch: LaunchId,
    /// The `provost` program, which the agent's tools and hooks call.
    pub program: &'a Path,
    /// The directory that belongs to this session's agent.
    pub dir: &'a Path,
    /// The directory for the agent's reports.
    pub drop_box: &'a Path,
    /// The path of a socket on which the agent can listen. The holder removes it once the agent has
    /// answered.
    pub listen_socket: PathBuf,
    pub files: RepositoryFiles,
}

/// The files of a repository that affect what an agent runs or may do, and whether the user trusts
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryFiles {
    pub worktree: PathBuf,
    /// The top directory of the repository.
    pub root: PathBuf,
    /// Whether the repository contains any files that affect the agent.
    pub exist: bool,
    /// Whether the content of the files is exactly the content that the user trusts.
    pub trusted: bool,
}

/// The arguments, variables and input to add to the command of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchPlan {
    pub arguments: Vec<String>,
    /// The variables to remove from the environment, before `variables` are set.
    pub removed_variables: Vec<&'static str>,
    pub variables: Vec<(String, PathBuf)>,
    pub input: LaunchInput,
}

/// The standard input of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LaunchInput {
    /// The standard input that the session's interface requires.
    #[default]
    Usual,
    /// A text, which is not recorded in the journal.
    Text(String),
    /// No standard input. The agent listens on the socket of the request, and its holder connects
    /// to that socket.
    Socket,
}
