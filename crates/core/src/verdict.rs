//! Verdicts: the result of Provost's own checks on one tree.
//!
//! A [`VerifiedTree`] can be built only from evidence. For the tree in question, every required
//! check must have run to completion and have a receipt. The tree must also differ from the
//! attempt's base, unless empty diffs are accepted.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{CommitId, TreeId};
use crate::rules::rules;

/// A committed state of the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub commit: CommitId,
    pub tree: TreeId,
}

/// Limitations of a snapshot that are shown to the user. They do not affect the verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Caveats {
    /// The ref that points to the commit, if the session's branch does not.
    pub kept_at: Option<String>,
    /// Files in the worktree that are neither committed nor ignored. Contains at most
    /// [`MAX_LEFT_OUT`](crate::limits::MAX_LEFT_OUT) of them.
    pub left_out: Vec<String>,
    /// Files changed by the work that the checks depend on or that grant permissions. Contains at
    /// most [`MAX_LEFT_OUT`](crate::limits::MAX_LEFT_OUT) of them.
    pub protected: Vec<String>,
}

impl Caveats {
    pub fn is_empty(&self) -> bool {
        *self == Caveats::default()
    }
}

/// The result of a check's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckEnd {
    Exit(i32),
    Signal(i32),
    TimeLimit,
    OutputLimit,
    /// The check could not be started, or its holder was lost, so the tree is neither proved nor refuted.
    Unfinished(String),
}

impl fmt::Display for CheckEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckEnd::Exit(code) => write!(f, "exited with {code}"),
            CheckEnd::Signal(signal) => write!(f, "was ended by signal {signal}"),
            CheckEnd::TimeLimit => f.write_str("did not end within its time limit"),
            CheckEnd::OutputLimit => f.write_str("exceeded its output limit"),
            CheckEnd::Unfinished(reason) => write!(f, "could not be run: {reason}"),
        }
    }
}

/// The evidence from one check: its command, its result, and the tree on which it ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    pub command: String,
    pub tree: TreeId,
    pub end: CheckEnd,
    pub duration_ms: u64,
    /// BLAKE3 hash of the check's output.
    pub output_digest: String,
    /// The path of the stored output, relative to Provost's home.
    pub output: String,
    /// The end of a failed check's output, for the agent or user who has to fix it.
    #[serde(default)]
    pub tail: String,
    /// Whether the checkout contained build artifacts from earlier checks.
    pub warm: bool,
    /// A digest of the environment variables that the check ran with, for comparison with other
    /// receipts in this home. None if an earlier daemon started the check.
    #[serde(default)]
    pub environment: Option<String>,
    /// The tree that was checked instead, if the work changed protected files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlay: Option<ProtectedOverlay>,
}

/// The origin of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOrigin {
    /// The command line, or a plan that the operator supplied.
    Operator,
    Configuration,
    /// An agent's plan. Its checks can refute the work, but they can never prove it on their own.
    Agent,
}

impl CheckOrigin {
    pub fn as_str(self) -> &'static str {
        match self {
            CheckOrigin::Operator => "operator",
            CheckOrigin::Configuration => "configuration",
            CheckOrigin::Agent => "agent",
        }
    }
}

/// The tree on which a check ran: the work's tree, but with protected and trust-relevant files from
/// the base. The verdict applies to this tree. The tree that lands differs only in these files,
/// which the operator approves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectedOverlay {
    pub base: CommitId,
    pub tree: TreeId,
    /// The files taken from the base. Contains at most
    /// [`MAX_LEFT_OUT`](crate::limits::MAX_LEFT_OUT) of them.
    pub files: Vec<String>,
}

/// Whether an attempt may pass without any changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmptyDiff {
    Refused,
    Accepted,
}

/// The evidence for a verdict.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    pub snapshot: &'a Snapshot,
    pub base: Option<&'a TreeId>,
    pub empty_diff: EmptyDiff,
    pub required: &'a [String],
    pub receipts: &'a [Receipt],
}

/// Proof that every required check passed on this tree. It can only be obtained from a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedTree {
    tree: TreeId,
}

impl VerifiedTree {
    pub fn tree(&self) -> &TreeId {
        &self.tree
    }
}

/// The reason why a tree did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckRefutation {
    /// The work changed nothing, which is not allowed here.
    EmptyDiff,
    /// A check failed.
    Check { command: String, end: CheckEnd },
    /// A check did not run to completion.
    Unfinished { command: String, end: CheckEnd },
    /// The work could not be committed, so no check could run.
    NoSnapshot { reason: String },
}

impl CheckEnd {
    /// Describes how a check ended.
    pub fn summary(&self) -> String {
        match self {
            CheckEnd::Exit(code) => format!("exit {code}"),
            CheckEnd::Signal(signal) => format!("signal {signal}"),
            CheckEnd::TimeLimit => "time limit".to_owned(),
            CheckEnd::OutputLimit => "output limit".to_owned(),
            CheckEnd::Unfinished(reason) => reason.clone(),
        }
    }
}

impl CheckRefutation {
    /// Describes why the work was refuted.
    pub fn describe(&self) -> String {
        match self {
            CheckRefutation::EmptyDiff => {
                "nothing was changed (--allow-empty-diff allows that)".to_owned()
            }
            CheckRefutation::NoSnapshot { reason } => {
                format!("the work could not be committed: {reason}")
            }
            CheckRefutation::Unfinished { command, end: CheckEnd::Unfinished(reason) } => {
                format!("the check `{command}` could not be run: {reason}")
            }
            CheckRefutation::Check { command, end }
            | CheckRefutation::Unfinished { command, end } => {
                format!("the check `{command}` ended with {}", end.summary())
            }
        }
    }
}

/// The result of the checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A required check has no receipt for this tree yet.
    Open,
    Passed(VerifiedTree),
    Refuted(CheckRefutation),
}

impl Verdict {
    /// Judges a tree by its evidence.
    pub fn from_evidence(evidence: Evidence<'_>) -> Verdict {
        if evidence.empty_diff == EmptyDiff::Refused
            && evidence.base == Some(&evidence.snapshot.tree)
        {
            return Verdict::Refuted(CheckRefutation::EmptyDiff);
        }
        let mut open = evidence.required.is_empty();
        for command in evidence.required {
            match receipt_for(command, evidence).map(|receipt| &receipt.end) {
                None => open = true,
                Some(CheckEnd::Exit(0)) => {}
                Some(end) => return Verdict::Refuted(refutation(command, end)),
            }
        }
        if open {
            return Verdict::Open;
        }
        Verdict::Passed(VerifiedTree { tree: evidence.snapshot.tree.clone() })
    }
}

fn receipt_for<'a>(command: &str, evidence: Evidence<'a>) -> Option<&'a Receipt> {
    evidence
        .receipts
        .iter()
        .find(|receipt| receipt.command == command && is_about_tree(receipt, evidence))
}

fn is_about_tree(receipt: &Receipt, evidence: Evidence<'_>) -> bool {
    rules().is_about_tree(&receipt.tree, Some(&evidence.snapshot.tree))
}

fn refutation(command: &str, end: &CheckEnd) -> CheckRefutation {
    let (command, end) = (command.to_owned(), end.clone());
    match end {
        CheckEnd::Exit(_) | CheckEnd::Signal(_) => CheckRefutation::Check { command, end },
        CheckEnd::TimeLimit | CheckEnd::OutputLimit | CheckEnd::Unfinished(_) => {
            CheckRefutation::Unfinished { command, end }
        }
    }
}
