//! What a session was opened with. Resolved once by the command line and kept in the ledger, so that a
//! later change of configuration never changes a session that exists.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{hook::HookEvent, launch::Identity, react::Reaction, state::Budget};
use crate::{
    ids::{CommitId, RunId},
    limits::Bounds,
    plan::TaskId,
    policy::Policy,
    result::ResultForm,
    run::Stage,
    task::Role,
    verdict::{CheckOrigin, EmptyDiff, Snapshot},
};

/// How Provost talks with the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// A plain command: output is output, and its exit is all it says by itself.
    Command,
    /// JSON lines on standard input and output.
    Jsonl,
    /// Codex's app-server.
    Codex,
    /// `codex exec`: one instruction, on the command line.
    CodexExec,
    /// Any program that wants a terminal: its exit is all it says by itself.
    Terminal,
    /// Codex's own screen in a terminal, seen by what it records and shows.
    CodexTerminal,
}

impl Driver {
    pub const ALL: [Driver; 6] = [
        Driver::Command,
        Driver::Jsonl,
        Driver::Codex,
        Driver::CodexExec,
        Driver::Terminal,
        Driver::CodexTerminal,
    ];

    /// Says whether the agent has turns, takes instructions and can be asked for a result.
    pub fn has_protocol(self) -> bool {
        match self {
            Driver::Command | Driver::CodexExec | Driver::Terminal => false,
            Driver::Jsonl | Driver::Codex | Driver::CodexTerminal => true,
        }
    }

    /// Whether turns of the agent can be told from what it says. All else is one long turn.
    pub fn has_turns(self) -> bool {
        match self {
            Driver::Command | Driver::Terminal => false,
            Driver::Jsonl | Driver::Codex | Driver::CodexExec | Driver::CodexTerminal => true,
        }
    }

    /// Says whether the agent has a terminal, which belongs to whoever sits down at it: it is not asked for a
    /// result, and what is said to it is typed.
    pub fn has_terminal(self) -> bool {
        match self {
            Driver::Command | Driver::Jsonl | Driver::Codex | Driver::CodexExec => false,
            Driver::Terminal | Driver::CodexTerminal => true,
        }
    }

    /// Says whether nothing can be said to the agent before it named its conversation.
    pub fn shakes_hands(self) -> bool {
        match self {
            Driver::Command
            | Driver::Jsonl
            | Driver::CodexExec
            | Driver::Terminal
            | Driver::CodexTerminal => false,
            Driver::Codex => true,
        }
    }

    /// Says whether a new process can go on with the conversation of one that died.
    pub fn resumes(self) -> bool {
        self.shakes_hands()
    }

    /// Says whether the agent can be asked to make its conversation shorter.
    pub fn compacts(self) -> bool {
        match self {
            Driver::Command | Driver::CodexExec | Driver::Terminal => false,
            Driver::Jsonl | Driver::Codex | Driver::CodexTerminal => true,
        }
    }

    /// Says whether every message that reaches the agent at rest begins a turn, which it tells of, or is refused.
    pub fn begins_turns(self) -> bool {
        match self {
            Driver::Codex => true,
            Driver::Command
            | Driver::Jsonl
            | Driver::CodexExec
            | Driver::Terminal
            | Driver::CodexTerminal => false,
        }
    }

    /// Says whether a new process of the agent can begin a conversation of its own.
    pub fn begins_threads(self) -> bool {
        self.has_protocol() && !self.has_terminal()
    }

    /// Says whether exit 0 counts only together with a turn that the agent's own stream ended well.
    pub fn shows_its_end(self) -> bool {
        match self {
            Driver::Command
            | Driver::Jsonl
            | Driver::Codex
            | Driver::Terminal
            | Driver::CodexTerminal => false,
            Driver::CodexExec => true,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Driver::Command => "command",
            Driver::Jsonl => "jsonl",
            Driver::Codex => "codex",
            Driver::CodexExec => "codex_exec",
            Driver::Terminal => "terminal",
            Driver::CodexTerminal => "codex_terminal",
        }
    }
}

/// What an agent may do to the machine, where it can be told so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sandbox {
    ReadOnly,
    #[default]
    WorkspaceWrite,
    FullAccess,
}

/// When an agent has to ask, where it can be told so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Approvals {
    /// Before everything that is not known to be harmless.
    Untrusted,
    /// When it wants more than its sandbox allows.
    #[default]
    OnRequest,
    Never,
}

/// What an agent is told about its work besides the instruction. Kept, so that a resumed conversation
/// has the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    pub model: Option<String>,
    pub effort: Option<String>,
    pub sandbox: Sandbox,
    pub network: bool,
    pub approvals: Approvals,
    /// Whether the agent may ask people questions.
    pub questions: bool,
    /// In which form the agent tells its result.
    pub result: ResultForm,
    /// Whether the user said that the agent's program may trust the directory.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub accept_trust: bool,
    /// What the agent is there for, if it works for a task that stands alone: it has the tools for that, and rests
    /// between its messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<Membership>,
    /// Whether the agent may have agents of its own; none leaves it to the agent and its configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multi_agent: Option<MultiAgent>,
}

/// What an agent is there for in a task that stands alone. Which task that is, the task knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    pub role: Role,
}

/// Whether an agent may have agents of its own, and who said so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MultiAgent {
    pub on: bool,
    pub source: String,
}

/// What a command without a protocol finds on its standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// Nothing: it is at its end from the start.
    #[default]
    Closed,
    /// What is sent to the session.
    Open,
}

/// The agent's program and what it is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    pub name: String,
    pub driver: Driver,
    pub argv: Vec<String>,
    /// Variables by value: harmless ones only, for they are written into the ledger.
    pub env: BTreeMap<String, String>,
    /// Variables by name: their values are taken from the daemon's environment at each launch.
    pub pass_env: Vec<String>,
    /// The like for the agent alone: checks, hooks and setup, whose code an agent may have written, get
    /// none of its keys.
    #[serde(default)]
    pub own_env: Vec<String>,
    #[serde(default)]
    pub input: Input,
    #[serde(default)]
    pub settings: Settings,
    /// The program's version, where it was found out.
    #[serde(default)]
    pub version: Option<String>,
    /// What of the user's own set-up the agent is given.
    #[serde(default)]
    pub carried: Carried,
}

/// Where the user keeps what an agent is given: settings, login, skills.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Carried {
    /// The user's home directory.
    pub user_home: String,
    /// The agent's own directory in it, if it is to be used.
    pub agent_home: Option<String>,
    /// Directories with further skills, in the order of their precedence.
    pub skills: Vec<String>,
    /// Whose limits the agent works under: sessions with the same text share them. None means its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The digest of the repository's own files for the agent that the user trusts. None: the agent is to trust
    /// none of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted_files: Option<String>,
}

impl Agent {
    /// Says whether text can reach the agent at all.
    pub fn listens(&self) -> bool {
        self.driver.has_protocol() || self.input == Input::Open
    }
}

/// Where the agent works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// In a directory that is no git repository, or in one whose work is not checked.
    Plain,
    /// In the user's own checkout: snapshots are taken beside it and touch nothing of theirs.
    InPlace { top: String },
    /// In a worktree of its own, on a branch of its own.
    Worktree {
        top: String,
        path: String,
        branch: String,
        copy: Vec<String>,
        /// The commit that the work begins from; what is checked out in the repository if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base: Option<CommitId>,
    },
    /// In a checkout of its own, on no branch: for an agent that changes nothing.
    Detached { top: String, path: String, base: CommitId },
}

/// Which run a session works for, and in which of its stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfRun {
    pub run: RunId,
    pub stage: Stage,
}

impl Work {
    /// Gives the top of the repository that is worked on, if there is one.
    pub fn top(&self) -> Option<&str> {
        match self {
            Work::Worktree { top, .. } | Work::Detached { top, .. } | Work::InPlace { top } => {
                Some(top)
            }
            Work::Plain => None,
        }
    }

    /// Gives the branch that holds the work, also when its place is gone.
    pub fn branch(&self) -> Option<&str> {
        match self {
            Work::Worktree { branch, .. } => Some(branch),
            Work::Plain | Work::InPlace { .. } | Work::Detached { .. } => None,
        }
    }
}

/// What exit 0 of a process that claimed nothing means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit0 {
    SaysNothing,
    IsDone,
}

/// What becomes of a living process once its attempt is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Afterwards {
    Close,
    Park,
}

/// A command run because of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookSpec {
    pub argv: Vec<String>,
    pub time_limit_ms: u64,
    pub output_limit: u64,
}

/// All that a session was opened with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    pub name: String,
    pub role: Option<String>,
    /// The top of the git repository that the session is about, if any.
    pub project: Option<String>,
    pub cwd: String,
    pub agent: Agent,
    pub instruction: Option<String>,
    pub work: Work,
    pub setup: Option<String>,
    pub checks: Vec<String>,
    /// Paths that a pooled verification checkout keeps between checks.
    pub keep: Vec<String>,
    /// Files that the checks rest on: a change of them is reported with the verdict, and the checks use the base's
    /// version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protected: Vec<String>,
    #[serde(default, skip_serializing_if = "CheckTerms::is_default")]
    pub check_terms: CheckTerms,
    pub empty_diff: EmptyDiff,
    pub exit0: Exit0,
    pub afterwards: Afterwards,
    pub bounds: Bounds,
    #[serde(default)]
    pub budget: Budget,
    #[serde(default)]
    pub policy: Policy,
    pub hooks: BTreeMap<HookEvent, HookSpec>,
    /// What is done by itself on which occasion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reactions: Vec<Reaction>,
    /// What was worth a warning when the session was opened, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The run that opened the session, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<OfRun>,
    /// The task of the run's plan that it was opened for, if it was for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// What is watched, if somebody else started the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<Box<Adopted>>,
}

/// What checks may prove, and whose version of protected files they use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckTerms {
    /// Checks that an agent wrote. They can refute the work and never prove it alone.
    pub agent_checks: Vec<String>,
    /// Checks that come from the configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub configured: Vec<String>,
    /// The commit whose protected files the checks use; none for where the session's own work begins.
    pub base: Option<CommitId>,
}

impl CheckTerms {
    pub fn is_default(&self) -> bool {
        *self == CheckTerms::default()
    }
}

/// An agent that somebody else started, by all that is known of where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Adopted {
    pub process: Option<Identity>,
    /// The file in which it writes down its conversation.
    pub rollout: Option<String>,
    /// The pane that shows it.
    pub pane: Option<Pane>,
    pub thread: Option<String>,
}

/// A pane of a tmux server. Its id is unique in the server's life, unlike any name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pane {
    pub socket: String,
    pub id: String,
    /// The process of the server: another one on the same socket has other panes with the same ids.
    #[serde(default)]
    pub server: Option<u32>,
}

/// Another task of the same run for a conversation that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    pub task: TaskId,
    /// The checks that its work has to pass.
    pub checks: Vec<String>,
    /// Those of them that an agent wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent_checks: Vec<String>,
    /// Where its work begins; none if it goes on where it stands.
    pub base: Option<Snapshot>,
}

impl Spec {
    /// A command with checks and no protocol has no other way to say that it is done.
    pub fn exit0_is_done(&self) -> bool {
        let judged_by_checks = !self.agent.driver.has_protocol() && !self.checks.is_empty();
        self.exit0 == Exit0::IsDone || judged_by_checks
    }

    /// Returns who named a check.
    pub fn check_origin(&self, command: &str) -> CheckOrigin {
        let among = |checks: &[String]| checks.iter().any(|check| check == command);
        match (among(&self.check_terms.agent_checks), among(&self.check_terms.configured)) {
            (true, _) => CheckOrigin::Agent,
            (false, true) => CheckOrigin::Configuration,
            (false, false) => CheckOrigin::Operator,
        }
    }

    /// Whether one of the checks was named by the operator: only that can prove the work.
    pub fn can_be_proved(&self) -> bool {
        self.checks.iter().any(|check| !self.check_terms.agent_checks.contains(check))
    }
}
