//! The configuration of a session. The command line resolves it once and the ledger stores it, so
//! later changes to the configuration never affect an existing session.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    hook::HookEvent,
    interface::AgentInterface,
    launch::ProcessIdentity,
    reactions::{Reaction, ReactionAction},
    state::Budget,
};
use crate::{
    ids::{CommitId, RunId},
    limits::Bounds,
    plan::TaskId,
    policy::Policy,
    result::ResultForm,
    run::RunStage,
    team::MemberRole,
    verdict::{CheckOrigin, EmptyDiff, Snapshot},
};

/// The sandbox of an agent, if its program supports one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sandbox {
    ReadOnly,
    #[default]
    WorkspaceWrite,
    FullAccess,
}

/// The policy for when an agent must request approval, if its program supports approvals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Approvals {
    /// The agent asks before every command that is not known to be harmless.
    Untrusted,
    /// The agent asks when it needs more than its sandbox allows.
    #[default]
    OnRequest,
    Never,
}

/// The settings of an agent other than its instruction. They are stored, so that a resumed
/// conversation keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentSettings {
    pub model: Option<String>,
    pub effort: Option<String>,
    pub sandbox: Sandbox,
    pub network: bool,
    pub approvals: Approvals,
    /// Whether the agent may ask users questions.
    pub questions: bool,
    /// The form in which the agent must return its result.
    pub result: ResultForm,
    /// Whether the user confirmed that the agent's program may trust the directory.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub accept_trust: bool,
    /// The agent's role, if it works in a team. A team member has the team tools and stays idle
    /// between messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<TeamMembership>,
    /// Whether the agent may start sub-agents. None means that the agent's own configuration decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multi_agent: Option<MultiAgent>,
}

/// An agent's role in a team. The team itself knows which sessions belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamMembership {
    pub role: MemberRole,
}

/// Whether an agent may start sub-agents, and where that was configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MultiAgent {
    pub on: bool,
    pub source: String,
}

/// The standard input of a command without a protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandStdin {
    /// No input: the command reads end of file immediately.
    #[default]
    Closed,
    /// The messages sent to the session.
    Open,
}

/// An agent's program, environment and settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSpec {
    pub name: String,
    #[serde(flatten)]
    pub interface: AgentInterface,
    pub argv: Vec<String>,
    /// Variables with their values. They must be harmless, because they are stored in the ledger.
    pub env: BTreeMap<String, String>,
    /// Names of variables whose values are taken from the daemon's environment at each launch.
    pub pass_env: Vec<String>,
    /// Names of variables that only the agent receives. Checks, hooks and setup commands do not
    /// receive them, because an agent may have written the code that these commands run.
    #[serde(default)]
    pub own_env: Vec<String>,
    #[serde(default)]
    pub input: CommandStdin,
    #[serde(default)]
    pub settings: AgentSettings,
    /// The program's version, if known.
    #[serde(default)]
    pub version: Option<String>,
    /// The parts of the user's own agent configuration that are passed on to the agent.
    #[serde(default)]
    pub profile: AgentProfile,
}

/// The locations of the user's settings, login and skills for an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentProfile {
    /// The user's home directory.
    pub user_home: String,
    /// The agent's own directory in the home directory, if it is used.
    pub agent_home: Option<String>,
    /// Further skill directories, in order of precedence.
    pub skills: Vec<String>,
    /// The account whose usage limits apply. Sessions with the same account share its limits. None
    /// means that the session has its own limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The digest of the agent files in the repository that the user trusts. None means that the
    /// agent must not trust any of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted_files: Option<String>,
}

impl AgentSpec {
    /// Whether text can reach the agent at all.
    pub fn accepts_input(&self) -> bool {
        self.interface.takes_instructions() || self.input == CommandStdin::Open
    }
}

/// The place where the agent works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkLocation {
    /// A directory outside of git, or in a repository where the work is not checked.
    Plain,
    /// The user's own checkout. Snapshots are taken separately and do not change the checkout.
    InPlace { top: String },
    /// A worktree of the session, on a branch of the session.
    Worktree {
        top: String,
        path: String,
        branch: String,
        copy: Vec<String>,
        /// The commit from which the work starts. Defaults to the commit that is checked out in the
        /// repository.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base: Option<CommitId>,
    },
    /// A checkout of the session without a branch, because the agent makes no changes.
    Detached { top: String, path: String, base: CommitId },
}

/// The run and stage for which a session works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStageRef {
    pub run: RunId,
    pub stage: RunStage,
}

impl WorkLocation {
    /// Returns the root directory of the repository, if there is one.
    pub fn top(&self) -> Option<&str> {
        match self {
            WorkLocation::Worktree { top, .. }
            | WorkLocation::Detached { top, .. }
            | WorkLocation::InPlace { top } => Some(top),
            WorkLocation::Plain => None,
        }
    }

    /// Returns the branch that contains the work, even if its worktree no longer exists.
    pub fn branch(&self) -> Option<&str> {
        match self {
            WorkLocation::Worktree { branch, .. } => Some(branch),
            WorkLocation::Plain | WorkLocation::InPlace { .. } | WorkLocation::Detached { .. } => {
                None
            }
        }
    }
}

/// The meaning of exit code 0 if the agent made no claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitZeroPolicy {
    NotAClaim,
    Completes,
}

/// The treatment of a process that is still running when its attempt is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFinish {
    Close,
    Park,
}

/// A command that runs on an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookSpec {
    pub argv: Vec<String>,
    pub time_limit_ms: u64,
    pub output_limit: u64,
}

/// The complete configuration of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSpec {
    pub name: String,
    pub role: Option<String>,
    /// The root directory of the session's git repository, if any.
    pub project: Option<String>,
    pub cwd: String,
    pub agent: AgentSpec,
    pub instruction: Option<String>,
    pub work: WorkLocation,
    pub setup: Option<String>,
    pub checks: Vec<String>,
    /// Paths that a pooled verification checkout keeps between checks.
    pub keep: Vec<String>,
    /// Files on which the checks depend. Changes to these files are reported with the verdict, and
    /// the checks use the base's version of the files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protected: Vec<String>,
    #[serde(default, skip_serializing_if = "CheckTerms::is_default")]
    pub check_terms: CheckTerms,
    pub empty_diff: EmptyDiff,
    pub exit_zero: ExitZeroPolicy,
    pub on_finish: OnFinish,
    pub bounds: Bounds,
    #[serde(default)]
    pub budget: Budget,
    #[serde(default)]
    pub policy: Policy,
    pub hooks: BTreeMap<HookEvent, HookSpec>,
    /// The automatic reactions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reactions: Vec<Reaction>,
    /// Warnings that occurred when the session was opened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The run that opened the session, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunStageRef>,
    /// The task in the run's plan for which the session was opened, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The external agent that is watched, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<Box<ExternalAgent>>,
}

/// The checks that can prove the work, and the version of protected files that the checks use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckTerms {
    /// Checks that an agent wrote. They can refute the work, but on their own they never prove it.
    pub agent_checks: Vec<String>,
    /// Checks that come from the configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub configured: Vec<String>,
    /// The commit from which the checks take protected files. None means the session's own base.
    pub base: Option<CommitId>,
}

impl CheckTerms {
    pub fn is_default(&self) -> bool {
        *self == CheckTerms::default()
    }
}

/// An external agent, and everything that is known about where it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExternalAgent {
    pub process: Option<ProcessIdentity>,
    /// The path of the agent's transcript.
    pub rollout: Option<String>,
    /// The pane in which the agent is shown.
    pub pane: Option<TmuxPane>,
    pub thread: Option<String>,
}

/// A tmux pane. Unlike its name, its id is unique for the lifetime of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TmuxPane {
    pub socket: String,
    pub id: String,
    /// The pid of the server. A different server on the same socket would reuse the ids.
    #[serde(default)]
    pub server: Option<u32>,
}

/// Another task of the same run, assigned to a finished conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    pub task: TaskId,
    /// The checks that the work must pass.
    pub checks: Vec<String>,
    /// The checks among `checks` that an agent wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent_checks: Vec<String>,
    /// The commit from which the work starts. None to continue from the current state.
    pub base: Option<Snapshot>,
}

impl SessionSpec {
    /// Returns the interfaces of the agent and of all agents that may take over its work.
    pub fn interfaces(&self) -> impl Iterator<Item = &AgentInterface> {
        let successors = self.reactions.iter().filter_map(|reaction| match &reaction.act {
            ReactionAction::HandOver { agent, .. } => Some(&agent.interface),
            ReactionAction::Notify
            | ReactionAction::Nudge { .. }
            | ReactionAction::Interrupt { .. }
            | ReactionAction::Compact
            | ReactionAction::ResumeLater => None,
        });
        std::iter::once(&self.agent.interface).chain(successors)
    }

    /// Whether exit code 0 means that the work is done. For a command that has checks but no
    /// protocol, this is the only way to report success.
    pub fn exit_zero_is_done(&self) -> bool {
        let judged_by_checks =
            !self.agent.interface.takes_instructions() && !self.checks.is_empty();
        self.exit_zero == ExitZeroPolicy::Completes || judged_by_checks
    }

    /// Returns the origin of a check.
    pub fn check_origin(&self, command: &str) -> CheckOrigin {
        let among = |checks: &[String]| checks.iter().any(|check| check == command);
        match (among(&self.check_terms.agent_checks), among(&self.check_terms.configured)) {
            (true, _) => CheckOrigin::Agent,
            (false, true) => CheckOrigin::Configuration,
            (false, false) => CheckOrigin::Operator,
        }
    }

    /// Whether at least one check was not written by an agent. Only such a check can prove the work.
    pub fn has_trusted_check(&self) -> bool {
        self.checks.iter().any(|check| !self.check_terms.agent_checks.contains(check))
    }
}
