//! Lands the work of a run, or reports what prevents it.
//!
//! Each step can be repeated after a crash at any point, and detects what has already been done.

use std::path::Path;

use provost_core::{
    ids::CommitId,
    run::{GuardedLanding, LandMode, LandStep, Run, RunCommand},
    verdict::Snapshot,
};
use provost_git::{
    BranchName, CommitMessage, CommitPair, FastForward, Git, Oid, Project, RefName, branch_tip,
    changed_among, commit_merge, create_branch, diff_among, fast_forward,
    files_with_conflict_markers, has_commit, have_common_ancestor, includes, landing, merge,
};

use provost_sys::error_chain;

use super::{effect_gate::Permit, merge_queue::parse_tree_oid};
use crate::guarded_files;

/// Lands on a branch of this repository.
pub(crate) fn land(git: &Git, run: &Run, step: usize, permit: &Permit) -> RunCommand {
    let landed = LandingSite::of(git, run).and_then(|site| match run.spec.land {
        LandMode::Branch => site.land_on_branch(),
        LandMode::Pr => Err("the run lands as a pull request, not as a branch".to_owned()),
        LandMode::Merge => site.land_by_merge(step, permit),
    });
    landed.unwrap_or_else(|reason| RunCommand::LandingFailed { attempt: run.attempt().no, reason })
}

/// Determines whether the work has landed on a branch of this repository.
pub(crate) fn check_landed(git: &Git, run: &Run, attempt: u32) -> RunCommand {
    let over = RunCommand::LandingAborted { attempt, pull: None };
    let found = LandingSite::of(git, run).and_then(|site| site.find_landed());
    // If this cannot be determined, the work counts as not landed.
    found.ok().flatten().unwrap_or(over)
}

/// The repository and commit to land.
struct LandingSite<'a> {
    git: &'a Git,
    run: &'a Run,
    project: Project,
    head: &'a Snapshot,
}

impl<'a> LandingSite<'a> {
    fn of(git: &'a Git, run: &'a Run) -> Result<Self, String> {
        let head = run.head.as_ref().ok_or("there is nothing to land")?;
        let project =
            Project::find(git, Path::new(&run.spec.project)).map_err(|why| error_chain(&why))?;
        Ok(LandingSite { git, run, project, head })
    }

    fn land_on_branch(&self) -> Result<RunCommand, String> {
        let branch = BranchName::new(&self.run.spec.branch).map_err(|why| error_chain(&why))?;
        let commit = parse_oid(&self.head.commit)?;
        match create_branch(self.git, &self.project, &branch, &commit) {
            // The branch already exists and contains the merged commits, because tasks were merged into the branch.
            Err(landing::Error::BranchExists { .. }) if self.run.graph.is_some() => {
                fast_forward_branch(self.git, &self.project, &self.run.spec.branch, &commit)?;
            }
            made => made.map_err(describe_error)?,
        }
        Ok(landed_command(&self.run.spec.branch, &commit, false))
    }

    /// Fast-forwards the target if it has not moved. Otherwise, merges the work with the target's
    /// new commits.
    fn land_by_merge(&self, step: usize, permit: &Permit) -> Result<RunCommand, String> {
        let (name, commit) = (self.target()?, self.commit_to_land()?);
        if let Some(merge) = self.unresolved_conflict()? {
            return Ok(RunCommand::TargetMoved { step, merge: Box::new(merge) });
        }
        let target = RefName::from_branch(name);
        if let Some(held) = self.approval_needed(&target, &commit)? {
            return Ok(RunCommand::HoldLanding { step, held: Box::new(held) });
        }
        match self.fast_forward_shared(&target, &commit, permit)? {
            FastForward::Done => Ok(landed_command(name, &commit, true)),
            FastForward::Diverged(onto) => self.merge_with(&commit, &onto, step),
        }
    }

    /// Fast-forwards a branch that users share.
    fn fast_forward_shared(
        &self,
        target: &RefName,
        commit: &Oid,
        _permit: &Permit,
    ) -> Result<FastForward, String> {
        fast_forward(self.git, &self.project, target, commit).map_err(describe_error)
    }

    /// Returns the changes to trust-relevant and protected files, which the operator must approve
    /// before the commit lands. Returns None if the target already contains the commit or has
    /// moved, because the target is not fast-forwarded in these cases.
    fn approval_needed(
        &self,
        target: &RefName,
        commit: &Oid,
    ) -> Result<Option<GuardedLanding>, String> {
        if self.run.may_land(&CommitId(commit.to_string())) {
            return Ok(None);
        }
        let Some(tip) = branch_tip(self.git, &self.project, target).map_err(describe_error)? else {
            return Ok(None);
        };
        let has =
            |newer, older| includes(self.git, &self.project, newer, older).map_err(describe_error);
        if has(&tip, commit)? || !has(commit, &tip)? {
            return Ok(None);
        }
        let patterns = guarded_files::patterns(&self.run.spec);
        let files = changed_among(self.git, &self.project, &tip, commit, &patterns);
        let files = files.map_err(|why| error_chain(&why))?;
        if files.is_empty() {
            return Ok(None);
        }
        let versions = CommitPair { base: &tip, work: commit };
        let diff =
            diff_among(self.git, &self.project, versions, &patterns).map_err(describe_error)?;
        Ok(Some(GuardedLanding {
            onto: CommitId(tip.to_string()),
            landing: Snapshot {
                commit: CommitId(commit.to_string()),
                tree: self.head.tree.clone(),
            },
            files: files.iter().map(ToString::to_string).collect(),
            diff: diff.text,
            truncated: diff.truncated,
            approved: false,
        }))
    }

    fn merge_with(&self, work: &Oid, onto: &Oid, step: usize) -> Result<RunCommand, String> {
        let (message, at) = (self.message(), self.merge_time());
        let merged =
            merge(self.git, &self.project, work, onto, &message, at).map_err(describe_error)?;
        let merge = Snapshot {
            commit: CommitId(merged.commit.to_string()),
            tree: provost_core::ids::TreeId(merged.tree.to_string()),
        };
        let merge = LandStep::Merge {
            onto: CommitId(onto.to_string()),
            work: CommitId(work.to_string()),
            merge,
            conflicts: merged.conflicts.iter().map(ToString::to_string).collect(),
        };
        Ok(RunCommand::TargetMoved { step, merge: Box::new(merge) })
    }

    /// Returns the commit to land. If conflicts were resolved, the commit with the conflict markers
    /// is left out of the history. Work that an agent put on a root commit of its own is moved onto
    /// the run's base.
    fn commit_to_land(&self) -> Result<Oid, String> {
        if let Some((work, onto)) = self.fixed_conflict()? {
            return self.commit_merge(&[&work, &onto], self.message());
        }
        let (commit, base) =
            (parse_oid(&self.head.commit)?, parse_oid(&self.run.spec.target.base.commit)?);
        if have_common_ancestor(self.git, &self.project, &commit, &base).map_err(describe_error)? {
            Ok(commit)
        } else {
            let text = format!("Do the work of {}", self.run.spec.name);
            self.commit_merge(&[&base], CommitMessage { text, ..self.message() })
        }
    }

    /// Returns the two commits whose merge had conflicts, if the newest work was supposed to resolve them.
    fn fixed_conflict(&self) -> Result<Option<(Oid, Oid)>, String> {
        match self.run.steps.last() {
            Some(LandStep::Merge { onto, work, conflicts, .. }) if !conflicts.is_empty() => {
                Ok(Some((parse_oid(work)?, parse_oid(onto)?)))
            }
            Some(LandStep::Merge { .. } | LandStep::Answer { .. }) | None => Ok(None),
        }
    }

    /// Returns the merge step again, with the newest work, if some files in the newest work still contain conflict
    /// markers.
    fn unresolved_conflict(&self) -> Result<Option<LandStep>, String> {
        let Some((work, onto)) = self.fixed_conflict()? else { return Ok(None) };
        let tree = parse_tree_oid(&self.head.tree)?;
        let files = files_with_conflict_markers(self.git, &self.project, &work, &onto, &tree)
            .map_err(describe_error)?;
        let conflicts: Vec<String> = files.iter().map(ToString::to_string).collect();
        let [work, onto] = [work, onto].map(|commit| CommitId(commit.to_string()));
        let merge = self.head.clone();
        let unresolved = !conflicts.is_empty();
        Ok(unresolved.then_some(LandStep::Merge { onto, work, merge, conflicts }))
    }

    fn commit_merge(&self, parents: &[&Oid], message: CommitMessage) -> Result<Oid, String> {
        let tree = parse_tree_oid(&self.head.tree)?;
        commit_merge(self.git, &self.project, &tree, parents, &message, self.merge_time())
            .map_err(describe_error)
    }

    fn find_landed(&self) -> Result<Option<RunCommand>, String> {
        let (name, commit, merged) = match self.run.spec.land {
            LandMode::Pr => return Ok(None),
            LandMode::Branch => {
                (self.run.spec.branch.as_str(), parse_oid(&self.head.commit)?, false)
            }
            LandMode::Merge => (self.target()?, self.commit_to_land()?, true),
        };
        let target = RefName::from_branch(name);
        let has = has_commit(self.git, &self.project, &target, &commit).map_err(describe_error)?;
        Ok(has.then(|| landed_command(name, &commit, merged)))
    }

    fn target(&self) -> Result<&str, String> {
        self.run.spec.target.branch.as_deref().ok_or_else(|| {
            "no branch was checked out when the run began, so there is none to merge into"
                .to_owned()
        })
    }

    fn message(&self) -> CommitMessage {
        let name = self.run.spec.target.branch.as_deref().unwrap_or_default();
        CommitMessage {
            text: format!("Merge {name} into the work of {}", self.run.spec.name),
            trailers: vec![("Provost-Run".to_owned(), self.run.id.to_string())],
        }
    }

    /// Returns the timestamp for all merges of a run, so that repeating a merge produces the same commit.
    fn merge_time(&self) -> i64 {
        self.run.opened.wall_ms / 1_000
    }
}

fn landed_command(branch: &str, commit: &Oid, merged: bool) -> RunCommand {
    let (branch, commit) = (branch.to_owned(), CommitId(commit.to_string()));
    RunCommand::Landed { branch, commit, merged }
}

/// Fast-forwards a branch of the run, which only Provost moves.
pub(super) fn fast_forward_branch(
    git: &Git,
    project: &Project,
    branch: &str,
    to: &Oid,
) -> Result<(), String> {
    match fast_forward(git, project, &RefName::from_branch(branch), to).map_err(describe_error)? {
        FastForward::Done => Ok(()),
        FastForward::Diverged(found) => {
            Err(format!("the branch {branch} is at {found}, which {to} does not contain"))
        }
    }
}

pub(super) fn parse_oid(commit: &CommitId) -> Result<Oid, String> {
    Oid::new(&commit.0).map_err(|why| error_chain(&why))
}

pub(super) fn describe_error(why: landing::Error) -> String {
    match why.hint() {
        Some(hint) => format!("{}; {hint}", error_chain(&why)),
        None => error_chain(&why),
    }
}
