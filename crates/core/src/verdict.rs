//! Verdicts: what Provost's own checks found, for one tree.
//!
//! A [`Passed`] can be made only from evidence: receipts of every required check, all for the tree that
//! is judged, all run to their end, on a tree that differs from where the attempt began.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{CommitId, TreeId};

/// A committed state of the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub commit: CommitId,
    pub tree: TreeId,
}

/// What a snapshot does not show, or not where one would look for it. It is no part of the verdict, and is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Caveats {
    /// The ref to find the commit at, if the session's branch does not show it.
    pub kept_at: Option<String>,
    /// What lies in the place of work and is not in the commit, though nothing ignores it. The first
    /// [`MAX_LEFT_OUT`](crate::limits::MAX_LEFT_OUT) of them.
    pub left_out: Vec<String>,
    /// Files that the checks rest on, or that widen rights, and the work changed. The first
    /// [`MAX_LEFT_OUT`](crate::limits::MAX_LEFT_OUT) of them.
    pub protected: Vec<String>,
}

impl Caveats {
    pub fn is_empty(&self) -> bool {
        *self == Caveats::default()
    }
}

/// How a check's process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckEnd {
    Exit(i32),
    Signal(i32),
    TimeLimit,
    OutputLimit,
    /// It could not be started, or its holder was lost: nothing is known about the tree.
    Unfinished(String),
}

impl fmt::Display for CheckEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckEnd::Exit(code) => write!(f, "exited with {code}"),
            CheckEnd::Signal(signal) => write!(f, "was ended by signal {signal}"),
            CheckEnd::TimeLimit => f.write_str("did not end within its time limit"),
            CheckEnd::OutputLimit => f.write_str("printed more than its output limit"),
            CheckEnd::Unfinished(reason) => write!(f, "could not be run: {reason}"),
        }
    }
}

/// The evidence of one check: the command, how it ended and the tree it ran on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    pub command: String,
    pub tree: TreeId,
    pub end: CheckEnd,
    pub duration_ms: u64,
    /// BLAKE3 of what the check printed.
    pub output_digest: String,
    /// Where the output is kept, relative to Provost's home.
    pub output: String,
    /// The end of what it printed if it failed, for whoever has to mend it.
    #[serde(default)]
    pub tail: String,
    /// Whether the checkout kept build products of earlier checks.
    pub warm: bool,
    /// A digest of the names and values of the variables that it ran with, to compare with other receipts of
    /// this home; none if it had been started by an earlier daemon.
    #[serde(default)]
    pub environment: Option<String>,
    /// What was checked instead of the tree itself, if the work changed protected files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlay: Option<Overlay>,
}

/// Who named a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOrigin {
    /// On the command line, or in a plan that the operator gave.
    Operator,
    Configuration,
    /// In a plan. It can refute the work and never prove it alone.
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

/// The tree that a check ran on: the work's, with protected and trust-relevant files as the base has them. A verdict
/// on the work speaks of this tree. What lands differs from it in these files alone, and the operator approves them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlay {
    pub base: CommitId,
    pub tree: TreeId,
    /// The files that were taken from the base. The first [`MAX_LEFT_OUT`](crate::limits::MAX_LEFT_OUT) of them.
    pub files: Vec<String>,
}

/// Whether an attempt may pass without having changed anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmptyDiff {
    Refused,
    Accepted,
}

/// All that a verdict may rest on.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    pub snapshot: &'a Snapshot,
    pub base: Option<&'a TreeId>,
    pub empty_diff: EmptyDiff,
    pub required: &'a [String],
    pub receipts: &'a [Receipt],
}

/// A verdict that cannot be made by hand: every required check passed on this very tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    tree: TreeId,
}

impl Passed {
    pub fn tree(&self) -> &TreeId {
        &self.tree
    }
}

/// Why a tree did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refuted {
    /// Nothing was changed, and the task does not allow that.
    EmptyDiff,
    /// This check said no.
    Check { command: String, end: CheckEnd },
    /// This check did not come to an end of its own.
    Unfinished { command: String, end: CheckEnd },
    /// The work could not be committed, so nothing could be checked.
    NoSnapshot { reason: String },
}

impl CheckEnd {
    /// Says in words how a check ended.
    pub fn words(&self) -> String {
        match self {
            CheckEnd::Exit(code) => format!("exit {code}"),
            CheckEnd::Signal(signal) => format!("signal {signal}"),
            CheckEnd::TimeLimit => "time limit".to_owned(),
            CheckEnd::OutputLimit => "output limit".to_owned(),
            CheckEnd::Unfinished(reason) => reason.clone(),
        }
    }
}

impl Refuted {
    /// Says in words what refuted the work.
    pub fn words(&self) -> String {
        match self {
            Refuted::EmptyDiff => "nothing was changed (--no-change-ok allows that)".to_owned(),
            Refuted::NoSnapshot { reason } => format!("the work could not be committed: {reason}"),
            Refuted::Unfinished { command, end: CheckEnd::Unfinished(reason) } => {
                format!("the check `{command}` could not be run: {reason}")
            }
            Refuted::Check { command, end } | Refuted::Unfinished { command, end } => {
                format!("the check `{command}` ended with {}", end.words())
            }
        }
    }
}

/// What the checks found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Some required check has no receipt for this tree yet.
    Open,
    Passed(Passed),
    Refuted(Refuted),
}

impl Verdict {
    /// Judges a tree by its evidence.
    pub fn from_evidence(evidence: Evidence<'_>) -> Verdict {
        if evidence.empty_diff == EmptyDiff::Refused
            && evidence.base == Some(&evidence.snapshot.tree)
        {
            return Verdict::Refuted(Refuted::EmptyDiff);
        }
        let mut open = evidence.required.is_empty();
        for command in evidence.required {
            match receipt_for(command, evidence).map(|receipt| &receipt.end) {
                None => open = true,
                Some(CheckEnd::Exit(0)) => {}
                Some(end) => return Verdict::Refuted(refuted(command, end)),
            }
        }
        match open {
            true => Verdict::Open,
            false => Verdict::Passed(Passed { tree: evidence.snapshot.tree.clone() }),
        }
    }
}

fn receipt_for<'a>(command: &str, evidence: Evidence<'a>) -> Option<&'a Receipt> {
    evidence
        .receipts
        .iter()
        .find(|receipt| receipt.command == command && about_the_tree(receipt, evidence))
}

fn about_the_tree(receipt: &Receipt, evidence: Evidence<'_>) -> bool {
    receipt.tree == evidence.snapshot.tree || bug!(EvidenceOfAnotherTree)
}

fn refuted(command: &str, end: &CheckEnd) -> Refuted {
    let (command, end) = (command.to_owned(), end.clone());
    match end {
        CheckEnd::Exit(_) | CheckEnd::Signal(_) => Refuted::Check { command, end },
        CheckEnd::TimeLimit | CheckEnd::OutputLimit | CheckEnd::Unfinished(_) => {
            Refuted::Unfinished { command, end }
        }
    }
}
