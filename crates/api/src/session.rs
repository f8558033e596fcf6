//! The representation of a session, which is a row in `ls` and the body of `status`.

use provost_core::{
    lifecycle::{Cause, ClaimKind, Flag, State},
    request::RequestKind,
    session::AgentMode,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ActivityName, AnswerForm, CheckResultName, CommunicationRow, Extensible, Hint, HookResultName,
    LaunchPhaseName, ProcessName, RequestRef, SetupResultName, VerificationName,
};

/// The state of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionRow {
    pub id: String,
    pub name: String,
    pub role: Option<String>,
    /// The run for which the session is working, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    pub project: Option<String>,
    pub cwd: String,
    pub agent: String,
    /// The adapter that knows this kind of agent.
    pub adapter: String,
    /// The mode in which the agent's program runs: headless, once (one instruction per process) or
    /// terminal.
    pub mode: Extensible<AgentMode>,
    /// Whether the agent has a conversation. Otherwise, it is a plain command.
    #[serde(default)]
    pub has_conversation: bool,
    /// Whether a new process can resume the conversation.
    #[serde(default)]
    pub can_resume: bool,
    /// Whether users can see the agent's own screen while it runs.
    #[serde(default)]
    pub can_attach: bool,
    pub argv: Vec<String>,
    /// The version of the agent's program, if known.
    #[serde(default)]
    pub version: Option<String>,
    /// The state of the current attempt; see docs/lifecycle.md.
    pub state: Extensible<State>,
    pub terminal: bool,
    /// Whether the outcome is sealed. Only `resolve` can change a sealed outcome.
    pub sealed: bool,
    pub cause: Option<Extensible<Cause>>,
    pub flags: Vec<Extensible<Flag>>,
    /// The rule that determined the state.
    pub rule: String,
    /// The last claim: none, working, needs_input, completed, failed.
    pub claim: Extensible<ClaimKind>,
    pub claimed_at: Option<i64>,
    /// The source of the claim: agent, drop_box (written in the agent's name, unverified),
    /// operator, policy or turn_error.
    pub claim_source: Option<String>,
    pub claim_text: Option<String>,
    /// The process as seen by the kernel: alive, exit0, exitN or unknown; stopped if Provost ended
    /// it with a signal; not_started if it has not run yet.
    pub process: Extensible<ProcessName>,
    /// The way the process ended, if its end was observed.
    pub exit: Option<ExitRow>,
    /// The activity of the output stream: active, idle, stale or exited; none if no process has
    /// run.
    pub activity: Extensible<ActivityName>,
    /// The verdict of the checks on the current tree: none, passed or failed.
    pub verification: Extensible<VerificationName>,
    pub checks: Vec<CheckRow>,
    /// The tree to which the verdict applies.
    pub tree: Option<String>,
    pub commit: Option<String>,
    pub requests: Vec<RequestRow>,
    /// The way the agent receives messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub communication: Option<CommunicationRow>,
    /// The agent's own id for the conversation.
    pub thread: Option<String>,
    pub late_claims: Vec<ClaimRow>,
    pub progress: Option<ProgressRow>,
    pub usage: UsageRow,
    /// The usage of the model's context; omitted if the agent does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextRow>,
    /// Number of turns that the agent has started.
    #[serde(default)]
    pub turns: u32,
    /// The limits that apply to the session.
    #[serde(default)]
    pub budget: BudgetRow,
    /// Set while the session is waiting for a limit of the agent's account to reset.
    #[serde(default)]
    pub limited: Option<LimitWaitRow>,
    /// The agent's report about retrying requests to its model; omitted if it is not retrying.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrying: Option<String>,
    /// The resource for which pending work is waiting; omitted if no work is waiting. The work is
    /// retried automatically.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<ShortageRow>,
    /// The command that shows an external agent's terminal; omitted if its pane is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    pub attempt: u32,
    pub instruction: Option<String>,
    /// The command that prepares the worktree; omitted if the session has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<SetupRow>,
    pub launches: Vec<LaunchRow>,
    pub messages: Vec<MessageRow>,
    pub facts: Vec<FactRow>,
    /// The most recent hooks: first finished ones, then pending and running ones.
    #[serde(default)]
    pub hooks: Vec<HookRow>,
    /// Warnings that were raised when the session was opened, or by its agent.
    #[serde(default)]
    pub warnings: Vec<String>,
    pub resolution: Option<ResolutionRow>,
    /// The reason why the operator or Provost ended the attempt, in words.
    pub reason: Option<String>,
    pub worktree: Option<WorktreeRow>,
    /// Milliseconds since the epoch.
    pub opened_at: i64,
    /// The time at which the session entered the current state.
    pub since: i64,
    /// The time at which the agent was last active: its start, its last output or its last message.
    /// Only included when a single live session is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_activity_at: Option<i64>,
    pub sealed_at: Option<i64>,
}

/// A resource that is in short supply on the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShortageRow {
    /// `threads`, `descriptors`, `memory`, `disk_space`, `inodes`, `writable_disk`, `directory` or
    /// `git` (a git command of an earlier daemon is still running).
    pub resource: String,
    pub detail: String,
    /// The work that is waiting for the resource; omitted in a list of all shortages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// The time at which the shortage started, in milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// Number of attempts that failed because of the shortage.
    #[serde(default)]
    pub tries: u32,
    /// Number of sessions, runs and teams waiting for the resource, in a list of all shortages.
    #[serde(default)]
    pub waiting: u32,
}

/// The way a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExitRow {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// The party that ended the process: `itself` or `provost`.
    pub by: String,
}

/// The receipt of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckRow {
    pub command: String,
    /// The party that defined the check: `operator`, `configuration` or `agent`. A check that only
    /// an agent defined proves nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The result: `passed`, `failed`, `unfinished`, `pending`, or `not_run` if the check will
    /// never run.
    pub result: Extensible<CheckResultName>,
    pub detail: Option<String>,
    pub tree: Option<String>,
    pub duration_ms: Option<u64>,
    pub output_digest: Option<String>,
    /// The path of the file with the output, relative to Provost's home.
    pub output: Option<String>,
    pub warm: Option<bool>,
    /// A digest of the environment variables. It can be compared within the same home.
    pub environment: Option<String>,
    /// Protected and trust-relevant files that the work changed. The check ran with the base's
    /// version of these files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub base_files: Vec<String>,
    /// The tree on which the check ran. It contains the base's version of the files in
    /// `base_files`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_tree: Option<String>,
}

/// A request that the user must settle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestRow {
    pub id: String,
    pub revision: u32,
    pub kind: Extensible<RequestKind>,
    pub blocking: bool,
    pub title: String,
    pub questions: Vec<QuestionRow>,
    /// The subject of an approval request.
    #[serde(default)]
    pub subject: Option<SubjectRow>,
    pub asked_at: i64,
    /// Commands that settle the request: one to answer or approve it and, if possible, one to deny
    /// it. If the request can be settled only on a screen, the command that opens that screen.
    #[serde(default)]
    pub commands: Vec<String>,
}

impl SessionRow {
    /// Whether the work is done, and nothing speaks against it.
    pub fn is_good(&self) -> bool {
        matches!(self.state.known(), Some(State::Succeeded | State::Completed | State::Accepted))
    }

    pub fn has_flag(&self, flag: Flag) -> bool {
        self.flags.iter().any(|one| *one == flag)
    }

    /// Whether the agent is a command that is neither in a conversation nor on a terminal.
    pub fn is_plain_command(&self) -> bool {
        !self.has_conversation && self.mode == AgentMode::Headless
    }
}

impl RequestRow {
    /// Returns the command that answers or approves the request, or that opens the screen where
    /// this is possible.
    pub fn answer_command(&self) -> String {
        if let Some(command) = self.commands.first() {
            return command.clone();
        }
        let request = self.reference();
        if self.kind == RequestKind::Approval {
            return Hint::Approve(request).to_string();
        }
        let secret = self.questions.iter().any(|question| question.secret);
        let form = match (secret, self.questions.len()) {
            (_, 2..) => AnswerForm::File,
            (true, _) => AnswerForm::Secret,
            (false, _) => AnswerForm::Text,
        };
        Hint::Answer { request, form }.to_string()
    }

    /// Whether the request can be denied. A question, or a dialog on a screen, can only be
    /// answered.
    pub fn can_be_denied(&self) -> bool {
        matches!(self.kind.known(), Some(RequestKind::Approval | RequestKind::Dialog))
            && self.commands.len() != 1
    }

    /// Returns the command that denies an approval request or declines a dialog.
    pub fn deny_command(&self) -> String {
        Hint::Deny(self.reference()).to_string()
    }

    /// Returns a template for an answers file, with a placeholder for each answer.
    pub fn answers_form(&self) -> String {
        let gap = |question: &QuestionRow| {
            (question.id.clone(), serde_json::json!({"answers": ["\u{2026}"]}))
        };
        let each: serde_json::Map<_, _> = self.questions.iter().map(gap).collect();
        serde_json::json!({"answers": each}).to_string()
    }

    /// Returns the request as commands name it.
    fn reference(&self) -> RequestRef {
        let (session, no) = self.id.split_once('.').unwrap_or((&self.id, ""));
        let short = session.get(session.len().saturating_sub(8)..).unwrap_or(session);
        RequestRef { session: short.to_owned(), no: no.to_owned(), revision: self.revision }
    }
}

/// The subject of an approval request, as far as the agent reported it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubjectRow {
    pub command: Option<String>,
    pub cwd: Option<String>,
    pub reason: Option<String>,
    pub paths: Vec<String>,
    pub diff: Option<String>,
    pub network: Option<String>,
    /// The terminal signal from which the subject was inferred; omitted if the agent itself
    /// reported the subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inferred_from: Option<String>,
}

/// The limits that apply to a session; null means no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetRow {
    pub tokens: Option<u64>,
    pub turns: Option<u32>,
}

/// The period in which a session waits for a limit of the agent's account to reset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitWaitRow {
    pub until: i64,
    pub detail: String,
}

/// A single question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionRow {
    pub id: String,
    pub header: String,
    pub question: String,
    pub options: Vec<String>,
    /// The meaning of each option, in the same order, if the agent reported it.
    #[serde(default)]
    pub descriptions: Vec<String>,
    /// Whether only the listed options are accepted as an answer.
    #[serde(default)]
    pub only_options: bool,
    pub secret: bool,
}

/// A claim about the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimRow {
    pub claim: Extensible<ClaimKind>,
    pub source: String,
    pub text: Option<String>,
    pub at: i64,
}

/// The progress of the work, and the source that reported it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgressRow {
    pub done: u64,
    pub total: u64,
    pub source: String,
}

/// The number of tokens used, as reported by the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsageRow {
    pub input: u64,
    pub output: u64,
}

/// The usage and the size of the model's context, in tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextRow {
    pub used: u64,
    pub window: u64,
}

/// The command that prepares a session's worktree before any other program is started in the
/// worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetupRow {
    pub command: String,
    /// `pending` until the setup has finished, then `ok` or `failed`; `not_run` if it will never
    /// run.
    pub result: Extensible<SetupResultName>,
    /// The reason why the setup failed.
    pub detail: Option<String>,
    /// The path of the file with the output, relative to Provost's home.
    pub output: String,
}

/// One process under one holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchRow {
    pub id: String,
    /// The phase: pending, running, ended, unobserved or failed.
    pub phase: Extensible<LaunchPhaseName>,
    pub pid: Option<i32>,
    pub attempt: u32,
    /// The last step taken to stop the process: interrupt, terminate, kill or given_up.
    pub stop: Option<String>,
    pub leftovers: Option<u32>,
}

impl LaunchRow {
    /// Whether the process may be running.
    pub fn may_be_running(&self) -> bool {
        matches!(self.phase.known(), Some(LaunchPhaseName::Pending | LaunchPhaseName::Running))
    }
}

/// A message to the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageRow {
    pub key: String,
    pub kind: String,
    /// The status of the message: queued, delivered or undeliverable.
    pub status: String,
    pub reason: Option<String>,
}

/// A reported branch, pull request or artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FactRow {
    pub fact: String,
    pub value: String,
    pub at: i64,
}

/// A command that ran because of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HookRow {
    /// The event, for example session.completed.
    pub event: String,
    /// The number of times that the event has occurred in this session, including this time.
    pub occasion: u32,
    pub command: String,
    /// The result: pending, ok, failed, or uncertain if the command's exit was not observed.
    pub result: Extensible<HookResultName>,
    pub detail: Option<String>,
    /// The path of the file with the output, relative to Provost's home.
    pub output: Option<String>,
}

/// The outcome that the operator chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResolutionRow {
    pub state: Extensible<State>,
    pub because: String,
    pub at: i64,
}

/// The agent's worktree, if Provost created it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeRow {
    pub path: String,
    pub branch: String,
    pub removed: bool,
}

/// One of the facts on which a state is based, with its value, source and time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhyFact {
    pub fact: String,
    pub value: String,
    pub source: String,
    pub at: Option<i64>,
    pub detail: Option<String>,
}

/// The reply to `status --why`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhyReply {
    pub ok: bool,
    pub session: SessionRow,
    pub facts: Vec<WhyFact>,
    /// The rule that determined the state, in words.
    pub rule: String,
    /// The next change that happens merely because time passes, and the number of milliseconds
    /// until then.
    pub next_deadline: Option<String>,
}
