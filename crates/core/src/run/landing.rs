//! Landing: the steps that bring proved work to its target.
//!
//! If the target moved, the work is merged with it, and the merge must be proved before it lands. Feedback on a pull
//! request (failed checks, reviews, comments) goes to the session that did the work. Merges and feedback are landing
//! steps, which are numbered from 1. A step that needs an agent gets a session in the `Land` stage, whose cycle is the
//! step's number. A merge without conflicts needs only a verification.

use serde::{Deserialize, Serialize};

use super::{
    stage::RunStage,
    state::{Run, RunSession},
};
use crate::{ids::CommitId, verdict::Snapshot};

/// How many times the work is merged with a target that keeps moving before the run gives up.
pub const MAX_MERGES: usize = 5;

/// How many times feedback on a pull request is returned to the agent.
pub const MAX_ROUNDS: usize = 5;

/// Maximum number of review comments to send to the agent at once. The rest follow after the next query.
pub const MAX_COMMENTS: usize = 50;

/// Maximum number of characters of a review comment to keep.
const MAX_COMMENT_CHARS: usize = 8 << 10;

/// The state of the landing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LandingState {
    #[default]
    Open,
    /// A pull request is open for the work.
    Requested(PullRequest),
    Done(LandedWork),
}

/// The branch and commit where the work landed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandedWork {
    pub branch: String,
    pub commit: CommitId,
    /// Whether the work was merged into a branch that others use as well.
    pub merged: bool,
    pub pull_request: Option<PullRequest>,
}

/// A pull request and its last known state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequest {
    pub number: u64,
    pub url: String,
    /// The commit that was pushed.
    pub commit: CommitId,
    pub seen: Option<PullRequestState>,
}

/// The state of a pull request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequestState {
    pub status: PullRequestStatus,
    pub checks: PullRequestChecks,
    /// The number of comments and reviews that were ignored because their authors have no write access.
    #[serde(default, skip_serializing_if = "is_none")]
    pub left_out: u32,
}

fn is_none(count: &u32) -> bool {
    *count == 0
}

/// Whose comments on a pull request are sent to the agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommentAuthors {
    /// Users who may push to the repository.
    #[default]
    Write,
    Everyone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullRequestStatus {
    Open,
    Merged,
    Closed,
}

/// The combined result of the external checks on a pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullRequestChecks {
    /// The pull request has no checks.
    None,
    Pending,
    Passed,
    Failed,
}

impl PullRequestChecks {
    pub fn as_str(self) -> &'static str {
        match self {
            PullRequestChecks::None => "none",
            PullRequestChecks::Pending => "pending",
            PullRequestChecks::Passed => "passed",
            PullRequestChecks::Failed => "failed",
        }
    }
}

/// Feedback on a pull request: a failed check, a review or a comment. The text is untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewComment {
    /// The id of the comment, which stays the same across queries.
    pub id: String,
    pub by: String,
    pub text: String,
}

impl ReviewComment {
    pub fn new(id: String, by: &str, text: &str) -> ReviewComment {
        let short = |text: &str| text.chars().take(MAX_COMMENT_CHARS).collect();
        ReviewComment { id, by: short(by), text: short(text) }
    }
}

/// One step on the way from proved work to its landing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LandStep {
    /// The target moved, so the work was merged with it.
    Merge {
        onto: CommitId,
        work: CommitId,
        merge: Snapshot,
        /// Files with conflict markers that an agent must resolve.
        conflicts: Vec<String>,
    },
    /// Review comments are sent to the session that did the work.
    Answer { comments: Vec<ReviewComment> },
}

/// The next need of a run in its last stage.
pub(super) enum LandingNeed<'a> {
    /// A session for this step.
    Session(u32, &'a LandStep),
    /// The verification of this step, a merge without conflicts.
    Verification(u32, &'a LandStep),
    /// Landing or pushing the newest work.
    Land,
    /// The operator's approval of the landing.
    Approval,
    /// Polling the pull request until it changes.
    Watch,
}

impl Run {
    /// Returns what the landing needs next while no session is working. None if the work has landed.
    pub(super) fn landing_need(&self) -> Option<LandingNeed<'_>> {
        // A step begins only after the previous one is settled. The session that settled the
        // previous step may already be working on the next one in the same conversation, so only
        // the newest step can be open.
        let newest = self.steps.len() as u32;
        let open = if self.is_settled(newest) { None } else { self.step(newest) };
        if let Some(need) = open.and_then(|step| self.step_need(newest, step)) {
            return Some(need);
        }
        match &self.landing {
            LandingState::Done(_) => None,
            LandingState::Open if self.held.as_ref().is_some_and(|held| !held.approved) => {
                Some(LandingNeed::Approval)
            }
            LandingState::Open => Some(LandingNeed::Land),
            LandingState::Requested(pull) => {
                let pushed = self.head.as_ref().is_some_and(|head| head.commit == pull.commit);
                Some(if pushed { LandingNeed::Watch } else { LandingNeed::Land })
            }
        }
    }

    /// Returns the step with this number.
    pub(super) fn step(&self, no: u32) -> Option<&LandStep> {
        usize::try_from(no).ok().and_then(|no| self.steps.get(no.checked_sub(1)?))
    }

    /// Returns what an open step needs. A merge without conflicts needs only checks, if there are
    /// any.
    fn step_need<'a>(&self, no: u32, step: &'a LandStep) -> Option<LandingNeed<'a>> {
        match step {
            LandStep::Merge { conflicts, .. } if conflicts.is_empty() => {
                (!self.all_checks().is_empty()).then_some(LandingNeed::Verification(no, step))
            }
            LandStep::Merge { .. } | LandStep::Answer { .. } => {
                Some(LandingNeed::Session(no, step))
            }
        }
    }

    fn is_settled(&self, no: u32) -> bool {
        if self.is_landing_verified(no) {
            return true;
        }
        let of_step = |one: &&RunSession| one.stage == RunStage::Land && one.cycle == no;
        let ends = self.sessions.iter().filter(of_step).filter_map(|one| one.end.as_ref());
        ends.into_iter().any(|end| {
            end.is_good()
                && end.head.as_ref().is_some_and(|head| self.unresolved_files(no, head).is_none())
        })
    }

    /// Returns the conflicted files of a step if the tree has not changed, because then no conflict
    /// was resolved.
    pub(super) fn unresolved_files(&self, no: u32, head: &Snapshot) -> Option<&[String]> {
        match self.step(no)? {
            LandStep::Merge { merge, conflicts, .. } => {
                (!conflicts.is_empty() && merge.tree == head.tree).then_some(conflicts)
            }
            LandStep::Answer { .. } => None,
        }
    }

    /// Returns the session that did the work, if any, which also receives feedback about the work.
    pub fn owner(&self) -> Option<&RunSession> {
        let worked =
            |one: &&RunSession| one.stage == RunStage::Work || one.opened_in == RunStage::Work;
        self.sessions.iter().rev().find(worked)
    }

    /// Whether this session produced the newest work of the run.
    pub(super) fn has_newest_work(&self, session: &RunSession) -> bool {
        let left = session.end.as_ref().and_then(|end| end.head.as_ref());
        left.is_some() && left == self.head.as_ref()
    }

    /// Returns the review comments that have not been handled yet.
    pub fn new_comments<'a>(&self, comments: &'a [ReviewComment]) -> Vec<&'a ReviewComment> {
        comments.iter().filter(|comment| !self.comments_seen.contains(&comment.id)).collect()
    }

    /// Returns the steps of the current run attempt. The limits apply to each attempt separately.
    fn steps_of_attempt(&self) -> impl Iterator<Item = &LandStep> {
        self.steps.iter().skip(self.attempt().steps)
    }

    pub(super) fn comment_rounds(&self) -> usize {
        self.steps_of_attempt().filter(|step| matches!(step, LandStep::Answer { .. })).count()
    }

    pub(super) fn target_merges(&self) -> usize {
        self.steps_of_attempt().filter(|step| matches!(step, LandStep::Merge { .. })).count()
    }
}
