//! Landing: what proved work meets on its way to where it was asked for.
//!
//! A target that moved is merged with the work, and the merge is proved before it lands. What a pull
//! request is told (failed checks, reviews, comments) goes to the session that did the work. Both are steps,
//! numbered from one; a step that needs an agent or checks has a session of the stage with its number.

use serde::{Deserialize, Serialize};

use super::{
    stage::Stage,
    state::{Run, RunSession},
};
use crate::{ids::CommitId, verdict::Snapshot};

/// How often a target that keeps moving is merged before the run gives up.
pub const MAX_MERGES: usize = 5;

/// How often what a pull request was told goes back to the agent.
pub const MAX_ROUNDS: usize = 5;

/// So many things that a pull request was told go to the agent at once; the others go with the next look.
pub const MAX_REMARKS: usize = 50;

/// So many characters of one of them are kept.
const MAX_REMARK: usize = 8 << 10;

/// How the landing stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Landing {
    #[default]
    Open,
    /// A pull request asks for it.
    Requested(PullRequest),
    Done(Landed),
}

/// Where the work went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landed {
    pub branch: String,
    pub commit: CommitId,
    /// Whether the branch is one that others share, and now has the work.
    pub merged: bool,
    pub pull_request: Option<PullRequest>,
}

/// A pull request that was made, with what was seen of it last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequest {
    pub number: u64,
    pub url: String,
    /// The commit that was pushed.
    pub commit: CommitId,
    pub seen: Option<PullState>,
}

/// What a pull request looks like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullState {
    pub standing: PullStanding,
    pub checks: PullChecks,
    /// How many comments and reviews were left out, for their authors have no write access.
    #[serde(default, skip_serializing_if = "is_none")]
    pub left_out: u32,
}

fn is_none(count: &u32) -> bool {
    *count == 0
}

/// Whose comments on a pull request go back to the agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommentAuthors {
    /// Of people who may push to the repository.
    #[default]
    Write,
    Everyone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullStanding {
    Open,
    Merged,
    Closed,
}

/// What became of the checks that others run on a pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullChecks {
    /// There are none.
    None,
    Pending,
    Passed,
    Failed,
}

impl PullChecks {
    pub fn word(self) -> &'static str {
        match self {
            PullChecks::None => "none",
            PullChecks::Pending => "pending",
            PullChecks::Passed => "passed",
            PullChecks::Failed => "failed",
        }
    }
}

/// Something that a pull request was told: a failed check, a review, a comment. The words are others'.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// The same for the same thing, however often it is read.
    pub id: String,
    pub by: String,
    pub text: String,
}

impl Remark {
    pub fn new(id: String, by: &str, text: &str) -> Remark {
        let short = |text: &str| text.chars().take(MAX_REMARK).collect();
        Remark { id, by: short(by), text: short(text) }
    }
}

/// One step between proved work and its landing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LandStep {
    /// The target had moved: the work was merged with it.
    Merge {
        onto: CommitId,
        work: CommitId,
        merge: Snapshot,
        /// Files with both sides in them, for an agent to mend.
        conflicts: Vec<String>,
    },
    /// What the pull request was told goes to whoever did the work.
    Answer { remarks: Vec<Remark> },
}

/// What stands between a run in its last stage and its end.
pub(super) enum Ahead<'a> {
    /// A step needs a session.
    Session(u32, &'a LandStep),
    /// The newest work has to be landed, or pushed.
    Land,
    /// The operator has to approve what would land.
    Approval,
    /// The pull request has to be looked at until something about it changes.
    Watch,
}

impl Run {
    /// Gives what has to happen next for the work to be landed, nobody working. None if it has landed.
    pub(super) fn ahead(&self) -> Option<Ahead<'_>> {
        // A step is taken only once the one before it is settled. Who settled that may be at work on this one
        // in the same conversation, so that the newest alone says what is open.
        let newest = self.steps.len() as u32;
        if let Some(step) = self.step(newest)
            && self.needs_session(step)
            && !self.is_settled(newest)
        {
            return Some(Ahead::Session(newest, step));
        }
        match &self.landing {
            Landing::Done(_) => None,
            Landing::Open if self.held.as_ref().is_some_and(|held| !held.approved) => {
                Some(Ahead::Approval)
            }
            Landing::Open => Some(Ahead::Land),
            Landing::Requested(pull) => {
                let pushed = self.head.as_ref().is_some_and(|head| head.commit == pull.commit);
                Some(if pushed { Ahead::Watch } else { Ahead::Land })
            }
        }
    }

    /// Gives the step of a number.
    pub(super) fn step(&self, no: u32) -> Option<&LandStep> {
        usize::try_from(no).ok().and_then(|no| self.steps.get(no.checked_sub(1)?))
    }

    /// A merge without conflicts that nobody checks needs nobody.
    fn needs_session(&self, step: &LandStep) -> bool {
        match step {
            LandStep::Merge { conflicts, .. } => {
                !conflicts.is_empty() || !self.all_checks().is_empty()
            }
            LandStep::Answer { .. } => true,
        }
    }

    fn is_settled(&self, no: u32) -> bool {
        let of_step = |one: &&RunSession| one.stage == Stage::Land && one.cycle == no;
        let ends = self.sessions.iter().filter(of_step).filter_map(|one| one.end.as_ref());
        ends.into_iter().any(|end| {
            end.is_good()
                && end.head.as_ref().is_some_and(|head| self.left_in_conflict(no, head).is_none())
        })
    }

    /// Gives the files of a step that were in conflict, if all of the tree is as it was: nobody mended them.
    pub(super) fn left_in_conflict(&self, no: u32, head: &Snapshot) -> Option<&[String]> {
        match self.step(no)? {
            LandStep::Merge { merge, conflicts, .. } => {
                (!conflicts.is_empty() && merge.tree == head.tree).then_some(conflicts)
            }
            LandStep::Answer { .. } => None,
        }
    }

    /// Gives the session that did the work, if there is one: what is said about the work goes there.
    pub fn owner(&self) -> Option<&RunSession> {
        let worked = |one: &&RunSession| one.stage == Stage::Work || one.opened_in == Stage::Work;
        self.sessions.iter().rev().find(worked)
    }

    /// Says whether the newest work of the run is what this session left.
    pub(super) fn has_newest(&self, session: &RunSession) -> bool {
        let left = session.end.as_ref().and_then(|end| end.head.as_ref());
        left.is_some() && left == self.head.as_ref()
    }

    /// Gives what was told by the pull request and never taken up before.
    pub fn new_remarks<'a>(&self, remarks: &'a [Remark]) -> Vec<&'a Remark> {
        remarks.iter().filter(|remark| !self.remarks_seen.contains(&remark.id)).collect()
    }

    /// Gives the steps of the current leg: whoever resumes a run wants it tried again.
    fn steps_of_leg(&self) -> impl Iterator<Item = &LandStep> {
        self.steps.iter().skip(self.leg().steps)
    }

    pub(super) fn rounds(&self) -> usize {
        self.steps_of_leg().filter(|step| matches!(step, LandStep::Answer { .. })).count()
    }

    pub(super) fn merges(&self) -> usize {
        self.steps_of_leg().filter(|step| matches!(step, LandStep::Merge { .. })).count()
    }
}
