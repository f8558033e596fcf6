//! A session as it is shown: one row of `ls`, the body of `status`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::CommunicationRow;

/// What is true about a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionRow {
    pub id: String,
    pub name: String,
    pub role: Option<String>,
    /// The run that it works for; left out where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    pub project: Option<String>,
    pub cwd: String,
    pub agent: String,
    pub driver: String,
    pub argv: Vec<String>,
    /// The version of the agent's program, where it was found out.
    #[serde(default)]
    pub version: Option<String>,
    /// The state of the current attempt, by docs/lifecycle.md.
    pub state: String,
    pub terminal: bool,
    /// Nothing but `resolve` changes the outcome any more.
    pub sealed: bool,
    pub cause: Option<String>,
    pub flags: Vec<String>,
    /// The rule that decided.
    pub rule: String,
    /// What the agent said last: none, working, needs_input, completed, failed.
    pub claim: String,
    pub claimed_at: Option<i64>,
    /// Who said so: agent, drop_box (as the agent's; nobody saw who wrote it down), operator, policy, turn_error.
    pub claim_source: Option<String>,
    pub claim_text: Option<String>,
    /// What the kernel saw: alive, exit0, exitN, unknown; stopped if a signal of Provost ended it; not_started if it has
    /// not run.
    pub process: String,
    /// How the process ended, if that was seen.
    pub exit: Option<ExitRow>,
    /// What the stream shows: active, idle, stale, exited; none if no process has run.
    pub activity: String,
    /// What the checks found for the current tree: none, passed, failed.
    pub verification: String,
    pub checks: Vec<CheckRow>,
    /// The tree that the verdict is about.
    pub tree: Option<String>,
    pub commit: Option<String>,
    pub requests: Vec<RequestRow>,
    /// How the agent gets what is sent to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub communication: Option<CommunicationRow>,
    /// The agent's own name for the conversation.
    pub thread: Option<String>,
    pub late_claims: Vec<ClaimRow>,
    pub progress: Option<ProgressRow>,
    pub usage: UsageRow,
    /// How full the context of the agent's model is; left out where the agent does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextRow>,
    /// How many turns the agent began.
    #[serde(default)]
    pub turns: u32,
    /// How much the session may use in all.
    #[serde(default)]
    pub budget: BudgetRow,
    /// The wait for a limit of the agent's account, if there is one.
    #[serde(default)]
    pub limited: Option<LimitedRow>,
    /// What the agent says of its tries to reach its model; left out while it does not try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrying: Option<String>,
    /// The resource that something owed waits for; left out where nothing waits. It is tried again by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<ShortageRow>,
    /// The command that shows where an agent runs that somebody else started; left out where its pane is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    pub attempt: u32,
    pub instruction: Option<String>,
    /// The command that prepares the worktree; left out where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<SetupRow>,
    pub launches: Vec<LaunchRow>,
    pub messages: Vec<MessageRow>,
    pub facts: Vec<FactRow>,
    /// The newest hooks: those that have ended, then those that are owed or running.
    #[serde(default)]
    pub hooks: Vec<HookRow>,
    /// What was worth a warning, when the session was opened or of its agent.
    #[serde(default)]
    pub warnings: Vec<String>,
    pub resolution: Option<ResolutionRow>,
    /// Why the operator or Provost ended it, in words.
    pub reason: Option<String>,
    pub worktree: Option<WorktreeRow>,
    /// Milliseconds since the epoch.
    pub opened_at: i64,
    /// Since when the state is what it is.
    pub since: i64,
    /// When something was heard of the agent last: output, a message, its start. Only in the row of one live session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_at: Option<i64>,
    pub sealed_at: Option<i64>,
}

/// A resource that the machine is short of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShortageRow {
    /// `threads`, `descriptors`, `memory`, `disk_space`, `inodes`, `writable_disk`, `directory` or
    /// `git` (a git command of an earlier daemon has not ended).
    pub resource: String,
    pub detail: String,
    /// What waits for it; left out in a list of all shortages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// Since when, in milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// How many tries met the shortage.
    #[serde(default)]
    pub tries: u32,
    /// How many sessions, runs and tasks wait for it, in a list of all shortages.
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
    /// Who named it: `operator`, `configuration` or `agent`. A check of an agent alone proves nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// `passed`, `failed`, `unfinished`, `owed`, or `not_run` where it no longer will be.
    pub result: String,
    pub detail: Option<String>,
    pub tree: Option<String>,
    pub duration_ms: Option<u64>,
    pub output_digest: Option<String>,
    /// Where the output is kept, relative to Provost's home.
    pub output: Option<String>,
    pub warm: Option<bool>,
    /// A digest of the variables that it ran with, comparable within one home.
    pub environment: Option<String>,
    /// Protected and trust-relevant files that the work changed: the check ran with the base's version of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub base_files: Vec<String>,
    /// The tree with those files, which the check ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_tree: Option<String>,
}

/// Something that the agent waits for a person to settle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestRow {
    pub id: String,
    pub revision: u32,
    pub kind: String,
    pub blocking: bool,
    pub title: String,
    pub questions: Vec<QuestionRow>,
    /// What an approval is about.
    #[serde(default)]
    pub subject: Option<SubjectRow>,
    pub asked_at: i64,
    /// Commands that settle it: to answer or approve it, and to deny it where that can be; or the one that leads to the
    /// screen where alone it can be settled.
    #[serde(default)]
    pub commands: Vec<String>,
}

impl RequestRow {
    /// Gives the command that answers or approves it, or leads to where that can be done.
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

    /// Says whether it can be refused as well: a question can only be answered, and so can what stands on a screen.
    pub fn can_be_denied(&self) -> bool {
        matches!(self.kind.as_str(), "approval" | "dialog") && self.commands.len() != 1
    }

    /// Gives the command that refuses an approval or declines a dialog.
    pub fn deny_command(&self) -> String {
        self.settle("deny")
    }

    /// Gives what a file of answers looks like, with a gap for each answer.
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

/// What an approval is about, as far as the agent told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubjectRow {
    pub command: Option<String>,
    pub cwd: Option<String>,
    pub reason: Option<String>,
    pub paths: Vec<String>,
    pub diff: Option<String>,
    pub network: Option<String>,
    /// What of the terminal lets guess this; left out where the agent itself told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guessed_by: Option<String>,
}

/// How much a session may use in all; null means no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetRow {
    pub tokens: Option<u64>,
    pub turns: Option<u32>,
}

/// A wait for a limit of the agent's account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitedRow {
    pub until: i64,
    pub detail: String,
}

/// One thing asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionRow {
    pub id: String,
    pub header: String,
    pub question: String,
    pub options: Vec<String>,
    /// What each option means, in the same order, where the agent told.
    #[serde(default)]
    pub descriptions: Vec<String>,
    /// Whether nothing but the options is taken.
    #[serde(default)]
    pub only_options: bool,
    pub secret: bool,
}

/// What was said of the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimRow {
    pub claim: String,
    pub source: String,
    pub text: Option<String>,
    pub at: i64,
}

/// How far the work is, and who says so.
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

/// How full the context of the agent's model is, in tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextRow {
    pub used: u64,
    pub window: u64,
}

/// The command that prepares a session's worktree before anything is started in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetupRow {
    pub command: String,
    /// `owed` until it has ended, then `ok` or `failed`; `not_run` where it no longer will be.
    pub result: String,
    /// Why it failed.
    pub detail: Option<String>,
    /// Where its output is kept, relative to Provost's home.
    pub output: String,
}

/// One process under one holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchRow {
    pub id: String,
    /// owed, running, ended, unobserved or failed.
    pub phase: String,
    pub pid: Option<i32>,
    pub attempt: u32,
    /// How far a stop has gone: interrupt, terminate, kill, given_up.
    pub stop: Option<String>,
    pub leftovers: Option<u32>,
}

impl LaunchRow {
    /// Says whether its process may be running.
    pub fn lives(&self) -> bool {
        matches!(self.phase.as_str(), "owed" | "running")
    }
}

/// Something said to the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageRow {
    pub key: String,
    pub kind: String,
    /// queued, delivered or undeliverable.
    pub fate: String,
    pub reason: Option<String>,
}

/// A branch, a pull request or an artifact that was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FactRow {
    pub fact: String,
    pub value: String,
    pub at: i64,
}

/// A command that was run because of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HookRow {
    /// What it is named for: session.completed, say.
    pub event: String,
    /// Counts the occasions of the event in this session.
    pub occasion: u32,
    pub command: String,
    /// owed, ok, failed, or uncertain where nobody saw how it ended.
    pub result: String,
    pub detail: Option<String>,
    /// Where its output is kept, relative to Provost's home.
    pub output: Option<String>,
}

/// What the operator decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResolutionRow {
    pub state: String,
    pub because: String,
    pub at: i64,
}

/// Where the agent works, if Provost made the place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeRow {
    pub path: String,
    pub branch: String,
    pub removed: bool,
}

/// One fact behind a state: what it says, who said it and when.
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
    /// The rule that decided, in words.
    pub rule: String,
    /// What time alone will change, and in how many milliseconds.
    pub next_deadline: Option<String>,
}
