//! The representation of a session: a row of `ls`, the body of `status`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::CommunicationRow;

/// The state of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionRow {
    pub id: String,
    pub name: String,
    pub role: Option<String>,
    /// The run for which it works; omitted if none exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    pub project: Option<String>,
    pub cwd: String,
    pub agent: String,
    pub driver: String,
    pub argv: Vec<String>,
    /// The version of the agent's program, if known.
    #[serde(default)]
    pub version: Option<String>,
    /// The state of the current attempt, see docs/lifecycle.md.
    pub state: String,
    pub terminal: bool,
    /// Only `resolve` can still change the outcome.
    pub sealed: bool,
    pub cause: Option<String>,
    pub flags: Vec<String>,
    /// The rule that determined the state.
    pub rule: String,
    /// The last claim: none, working, needs_input, completed, failed.
    pub claim: String,
    pub claimed_at: Option<i64>,
    /// The source of the claim: agent, drop_box (written in the agent's name, unverified),
    /// operator, policy, turn_error.
    pub claim_source: Option<String>,
    pub claim_text: Option<String>,
    /// The process as seen by the kernel: alive, exit0, exitN, unknown; stopped if a signal of
    /// Provost ended it; not_started if it has not run.
    pub process: String,
    /// How the process ended, if that was observed.
    pub exit: Option<ExitRow>,
    /// The activity of the output stream: active, idle, stale, exited; none if no process has run.
    pub activity: String,
    /// The verdict of the checks on the current tree: none, passed, failed.
    pub verification: String,
    pub checks: Vec<CheckRow>,
    /// The tree of the verdict.
    pub tree: Option<String>,
    pub commit: Option<String>,
    pub requests: Vec<RequestRow>,
    /// How the agent receives messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub communication: Option<CommunicationRow>,
    /// The agent's own name for the conversation.
    pub thread: Option<String>,
    pub late_claims: Vec<ClaimRow>,
    pub progress: Option<ProgressRow>,
    pub usage: UsageRow,
    /// How full the model's context is; omitted if the agent does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextRow>,
    /// Number of turns that the agent started.
    #[serde(default)]
    pub turns: u32,
    /// The limits of the session.
    #[serde(default)]
    pub budget: BudgetRow,
    /// The wait for a limit of the agent's account, if there is one.
    #[serde(default)]
    pub limited: Option<LimitWaitRow>,
    /// The agent's report about retries of its model; omitted while it does not retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrying: Option<String>,
    /// The resource that pending work waits for; omitted if nothing waits. It is retried
    /// automatically.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<ShortageRow>,
    /// The command that shows the terminal of an external agent; omitted if its pane is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    pub attempt: u32,
    pub instruction: Option<String>,
    /// The command that prepares the worktree; omitted if none exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<SetupRow>,
    pub launches: Vec<LaunchRow>,
    pub messages: Vec<MessageRow>,
    pub facts: Vec<FactRow>,
    /// The newest hooks: ended ones, then pending or running ones.
    #[serde(default)]
    pub hooks: Vec<HookRow>,
    /// Warnings from opening the session or from its agent.
    #[serde(default)]
    pub warnings: Vec<String>,
    pub resolution: Option<ResolutionRow>,
    /// Why the operator or Provost ended it, as text.
    pub reason: Option<String>,
    pub worktree: Option<WorktreeRow>,
    /// Milliseconds since the epoch.
    pub opened_at: i64,
    /// Since when it is in this state.
    pub since: i64,
    /// Time of the agent's last activity: output, a message, its start. Only in the row of one live
    /// session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_activity_at: Option<i64>,
    pub sealed_at: Option<i64>,
}

/// A resource that the machine is short of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShortageRow {
    /// `threads`, `descriptors`, `memory`, `disk_space`, `inodes`, `writable_disk`, `directory` or
    /// `git` (a git command of an earlier daemon has not ended).
    pub resource: String,
    pub detail: String,
    /// The work that waits for it; omitted in a list of all shortages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// Since when, in milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// Number of attempts that met the shortage.
    #[serde(default)]
    pub tries: u32,
    /// Number of sessions, runs and teams that wait for it, in a list of all shortages.
    #[serde(default)]
    pub waiting: u32,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExitRow {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// `itself` or `provost`.
    pub by: String,
}

/// The receipt of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckRow {
    pub command: String,
    /// Who defined it: `operator`, `configuration` or `agent`. A check defined only by an agent
    /// proves nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// `passed`, `failed`, `unfinished`, `pending` (pending), or `not_run` if it will not run any
    /// more.
    pub result: String,
    pub detail: Option<String>,
    pub tree: Option<String>,
    pub duration_ms: Option<u64>,
    pub output_digest: Option<String>,
    /// The path of its output, relative to Provost's home.
    pub output: Option<String>,
    pub warm: Option<bool>,
    /// A digest of its environment variables, comparable within one home.
    pub environment: Option<String>,
    /// Protected and trust-relevant files that the work changed: the check ran with the base's
    /// version of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub base_files: Vec<String>,
    /// The tree with those files, on which the check ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_tree: Option<String>,
}

/// A request that the user has to settle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestRow {
    pub id: String,
    pub revision: u32,
    pub kind: String,
    pub blocking: bool,
    pub title: String,
    pub questions: Vec<QuestionRow>,
    /// The subject of an approval.
    #[serde(default)]
    pub subject: Option<SubjectRow>,
    pub asked_at: i64,
    /// Commands that settle it: to answer or approve it, and to deny it if possible; or the command
    /// that leads to the only screen where it can be settled.
    #[serde(default)]
    pub commands: Vec<String>,
}

impl RequestRow {
    /// Returns the command that answers or approves it, or that leads to where that is possible.
    pub fn answer_command(&self) -> String {
        if let Some(told) = self.commands.first() {
            return told.clone();
        }
        if self.kind == "approval" {
            return self.settle("approve");
        }
        let secret = self.questions.iter().any(|question| question.secret);
        let way = match (secret, self.questions.len()) {
            (_, 2..) => "--answers FILE",
            (true, _) => "--secret",
            (false, _) => "TEXT",
        };
        format!("{} {way}", self.settle("answer"))
    }

    /// Whether it can be denied: a question can only be answered, and so can a dialog on a screen.
    pub fn can_be_denied(&self) -> bool {
        matches!(self.kind.as_str(), "approval" | "dialog") && self.commands.len() != 1
    }

    /// Returns the command that denies an approval or declines a dialog.
    pub fn deny_command(&self) -> String {
        self.settle("deny")
    }

    /// Returns the form of a file of answers, with a placeholder for each answer.
    pub fn answers_form(&self) -> String {
        let gap = |question: &QuestionRow| {
            (question.id.clone(), serde_json::json!({"answers": ["\u{2026}"]}))
        };
        let each: serde_json::Map<_, _> = self.questions.iter().map(gap).collect();
        serde_json::json!({"answers": each}).to_string()
    }

    fn settle(&self, verb: &str) -> String {
        let (session, no) = self.id.split_once('.').unwrap_or((&self.id, ""));
        let short = session.get(session.len().saturating_sub(8)..).unwrap_or(session);
        format!("provost {verb} {short}.{no} --revision {}", self.revision)
    }
}

/// The subject of an approval, as far as the agent reported it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubjectRow {
    pub command: Option<String>,
    pub cwd: Option<String>,
    pub reason: Option<String>,
    pub paths: Vec<String>,
    pub diff: Option<String>,
    pub network: Option<String>,
    /// The terminal signal from which this was inferred; omitted if the agent itself reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inferred_from: Option<String>,
}

/// The limits of a session; null means no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetRow {
    pub tokens: Option<u64>,
    pub turns: Option<u32>,
}

/// A wait for a limit of the agent's account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitWaitRow {
    pub until: i64,
    pub detail: String,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionRow {
    pub id: String,
    pub header: String,
    pub question: String,
    pub options: Vec<String>,
    /// The meaning of each option, in the same order, if the agent reported it.
    #[serde(default)]
    pub descriptions: Vec<String>,
    /// Whether only the options are accepted.
    #[serde(default)]
    pub only_options: bool,
    pub secret: bool,
}

/// A claim about the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimRow {
    pub claim: String,
    pub source: String,
    pub text: Option<String>,
    pub at: i64,
}

/// The progress of the work, and its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgressRow {
    pub done: u64,
    pub total: u64,
    pub source: String,
}

/// Tokens that the agent reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsageRow {
    pub input: u64,
    pub output: u64,
}

/// How full the model's context is, in tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextRow {
    pub used: u64,
    pub window: u64,
}

/// The command that prepares a session's worktree before anything is started in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetupRow {
    pub command: String,
    /// `pending` (pending) until it has ended, then `ok` or `failed`; `not_run` if it will not run any
    /// more.
    pub result: String,
    /// Why it failed.
    pub detail: Option<String>,
    /// The path of its output, relative to Provost's home.
    pub output: String,
}

/// One process under one holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchRow {
    pub id: String,
    /// pending, running, ended, unobserved or failed.
    pub phase: String,
    pub pid: Option<i32>,
    pub attempt: u32,
    /// The last step of a stop: interrupt, terminate, kill, given_up.
    pub stop: Option<String>,
    pub leftovers: Option<u32>,
}

impl LaunchRow {
    /// Whether its process may be running.
    pub fn may_be_running(&self) -> bool {
        matches!(self.phase.as_str(), "pending" | "running")
    }
}

/// A message to the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageRow {
    pub key: String,
    pub kind: String,
    /// queued, delivered or undeliverable.
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

/// A command that ran on an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HookRow {
    /// The event, for example session.completed.
    pub event: String,
    /// Counts the occurrences of the event in this session.
    pub occasion: u32,
    pub command: String,
    /// pending, ok, failed, or uncertain if its end was not observed.
    pub result: String,
    pub detail: Option<String>,
    /// The path of its output, relative to Provost's home.
    pub output: Option<String>,
}

/// The operator's decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResolutionRow {
    pub state: String,
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

/// One fact behind a state: its value, source and time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhyFact {
    pub fact: String,
    pub value: String,
    pub source: String,
    pub at: Option<i64>,
    pub detail: Option<String>,
}

/// The answer to `status --why`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhyReply {
    pub ok: bool,
    pub session: SessionRow,
    pub facts: Vec<WhyFact>,
    /// The rule that determined the state, as text.
    pub rule: String,
    /// The next change by time alone, and in how many milliseconds.
    pub next_deadline: Option<String>,
}
