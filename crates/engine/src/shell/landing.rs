//! Lands the work of a run, or reports the obstacle.
//!
//! Each step can be repeated after a crash at any point, and finds what was already done.

use std::path::Path;

use provost_core::{
    ids::CommitId,
    run::{Command, HeldLanding, LandMode, LandStep, Run},
    verdict::Snapshot,
};
use provost_git::{
    BranchName, Forward, Git, Message, Oid, Project, RefName, Versions, branch_at, branch_tip,
    changed_among, diff_among, forward, has_commit, includes, landing, merge, related, unite,
    unmended,
};

use super::{held::chain, queue::tree_oid};

/// Lands on a branch of this repository.
pub(crate) fn land(git: &Git, run: &Run, step: usize) -> Command {
    let landed = Site::of(git, run).and_then(|site| match run.spec.land {
        LandMode::Branch => site.on_its_branch(),
        LandMode::Pr => Err("the run lands as a pull request, not as a branch".to_owned()),
        LandMode::Merge => site.merged(step),
    });
    landed.unwrap_or_else(|reason| Command::LandFailed { leg: run.leg().no, reason })
}

/// Reports whether the work has landed on a branch of this repository.
pub(crate) fn look(git: &Git, run: &Run, leg: u32) -> Command {
    let over = Command::LandOver { leg, pull: None };
    let found = Site::of(git, run).and_then(|site| site.landed());
    // A landing that cannot be read counts as not landed.
    found.ok().flatten().unwrap_or(over)
}

/// The repository and commit of a landing.
struct Site<'a> {
    git: &'a Git,
    run: &'a Run,
    project: Project,
    head: &'a Snapshot,
}

impl<'a> Site<'a> {
    fn of(git: &'a Git, run: &'a Run) -> Result<Self, String> {
        let head = run.head.as_ref().ok_or("there is nothing to land")?;
        let project =
            Project::find(git, Path::new(&run.spec.project)).map_err(|why| chain(&why))?;
        Ok(Site { git, run, project, head })
    }

    fn on_its_branch(&self) -> Result<Command, String> {
        let branch = BranchName::new(&self.run.spec.branch).map_err(|why| chain(&why))?;
        let commit = oid(&self.head.commit)?;
        match branch_at(self.git, &self.project, &branch, &commit) {
            // The branch of merged tasks exists, and has the merged commits.
            Err(landing::Error::Taken { .. }) if self.run.graph.is_some() => {
                go_forward(self.git, &self.project, &self.run.spec.branch, &commit)?;
            }
            made => made.map_err(told)?,
        }
        Ok(landed(&self.run.spec.branch, &commit, false))
    }

    /// Fast-forwards the target if it has not moved; else merges the work with its new commits.
    fn merged(&self, step: usize) -> Result<Command, String> {
        let (name, commit) = (self.target()?, self.to_land()?);
        if let Some(merge) = self.left_in_conflict()? {
            return Ok(Command::TargetMoved { step, merge: Box::new(merge) });
        }
        let target = RefName::of_branch(name);
        if let Some(held) = self.held(&target, &commit)? {
            return Ok(Command::HoldLanding { step, held: Box::new(held) });
        }
        match forward(self.git, &self.project, &target, &commit).map_err(told)? {
            Forward::Done => Ok(landed(name, &commit, true)),
            Forward::Elsewhere(onto) => self.merge_with(&commit, &onto, step),
        }
    }

    /// Returns the changes that the operator has to approve before this commit lands: those of
    /// trust-relevant or protected files. A target that has the commit, or that has moved, is not
    /// fast-forwarded.
    fn held(&self, target: &RefName, commit: &Oid) -> Result<Option<HeldLanding>, String> {
        if self.run.may_land(&CommitId(commit.to_string())) {
            return Ok(None);
        }
        let Some(tip) = branch_tip(self.git, &self.project, target).map_err(told)? else {
            return Ok(None);
        };
        let has = |newer, older| includes(self.git, &self.project, newer, older).map_err(told);
        if has(&tip, commit)? || !has(commit, &tip)? {
            return Ok(None);
        }
        let patterns = self.run.spec.held_patterns();
        let files = changed_among(self.git, &self.project, &tip, commit, &patterns);
        let files = files.map_err(|why| chain(&why))?;
        if files.is_empty() {
            return Ok(None);
        }
        let versions = Versions { base: &tip, work: commit };
        let diff = diff_among(self.git, &self.project, versions, &patterns).map_err(told)?;
        Ok(Some(HeldLanding {
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

    fn merge_with(&self, work: &Oid, onto: &Oid, step: usize) -> Result<Command, String> {
        let (message, at) = (self.message(), self.at());
        let merged = merge(self.git, &self.project, work, onto, &message, at).map_err(told)?;
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
        Ok(Command::TargetMoved { step, merge: Box::new(merge) })
    }

    /// Returns the commit to land. If conflicts were fixed, the commit with their markers is left
    /// out. Work that an agent put on a root commit of its own is moved to the run's base.
    fn to_land(&self) -> Result<Oid, String> {
        if let Some((work, onto)) = self.mended()? {
            return self.unite(&[&work, &onto], self.message());
        }
        let (commit, base) = (oid(&self.head.commit)?, oid(&self.run.spec.target.base.commit)?);
        if related(self.git, &self.project, &commit, &base).map_err(told)? {
            Ok(commit)
        } else {
            let text = format!("Do the work of {}", self.run.spec.name);
            self.unite(&[&base], Message { text, ..self.message() })
        }
    }

    /// Returns the two commits that were merged with conflicts, if the newest work is to have fixed
    /// them.
    fn mended(&self) -> Result<Option<(Oid, Oid)>, String> {
        match self.run.steps.last() {
            Some(LandStep::Merge { onto, work, conflicts, .. }) if !conflicts.is_empty() => {
                Ok(Some((oid(work)?, oid(onto)?)))
            }
            Some(LandStep::Merge { .. } | LandStep::Answer { .. }) | None => Ok(None),
        }
    }

    /// Returns the merge again, with the newest work, if files of it still have conflict markers.
    fn left_in_conflict(&self) -> Result<Option<LandStep>, String> {
        let Some((work, onto)) = self.mended()? else { return Ok(None) };
        let tree = tree_oid(&self.head.tree)?;
        let files = unmended(self.git, &self.project, &work, &onto, &tree).map_err(told)?;
        let conflicts: Vec<String> = files.iter().map(ToString::to_string).collect();
        let [work, onto] = [work, onto].map(|commit| CommitId(commit.to_string()));
        let merge = self.head.clone();
        let stands = !conflicts.is_empty();
        Ok(stands.then_some(LandStep::Merge { onto, work, merge, conflicts }))
    }

    fn unite(&self, parents: &[&Oid], message: Message) -> Result<Oid, String> {
        let tree = tree_oid(&self.head.tree)?;
        unite(self.git, &self.project, &tree, parents, &message, self.at()).map_err(told)
    }

    fn landed(&self) -> Result<Option<Command>, String> {
        let (name, commit, merged) = match self.run.spec.land {
            LandMode::Pr => return Ok(None),
            LandMode::Branch => (self.run.spec.branch.as_str(), oid(&self.head.commit)?, false),
            LandMode::Merge => (self.target()?, self.to_land()?, true),
        };
        let target = RefName::of_branch(name);
        let has = has_commit(self.git, &self.project, &target, &commit).map_err(told)?;
        Ok(has.then(|| landed(name, &commit, merged)))
    }

    fn target(&self) -> Result<&str, String> {
        self.run.spec.target.branch.as_deref().ok_or_else(|| {
            "no branch was checked out when the run began, so there is none to merge into"
                .to_owned()
        })
    }

    fn message(&self) -> Message {
        let name = self.run.spec.target.branch.as_deref().unwrap_or_default();
        Message {
            text: format!("Merge {name} into the work of {}", self.run.spec.name),
            trailers: vec![("Provost-Run".to_owned(), self.run.id.to_string())],
        }
    }

    /// The time of every merge of a run: the same call has to produce the same commit.
    fn at(&self) -> i64 {
        self.run.opened.wall_ms / 1_000
    }
}

fn landed(branch: &str, commit: &Oid, merged: bool) -> Command {
    let (branch, commit) = (branch.to_owned(), CommitId(commit.to_string()));
    Command::Landed { branch, commit, merged }
}

/// Fast-forwards a branch of the run, which only Provost moves.
pub(super) fn go_forward(
    git: &Git,
    project: &Project,
    branch: &str,
    to: &Oid,
) -> Result<(), String> {
    match forward(git, project, &RefName::of_branch(branch), to).map_err(told)? {
        Forward::Done => Ok(()),
        Forward::Elsewhere(found) => {
            Err(format!("the branch {branch} is at {found}, which {to} does not contain"))
        }
    }
}

pub(super) fn oid(commit: &CommitId) -> Result<Oid, String> {
    Oid::new(&commit.0).map_err(|why| chain(&why))
}

pub(super) fn told(why: landing::Error) -> String {
    match why.hint() {
        Some(hint) => format!("{}; {hint}", chain(&why)),
        None => chain(&why),
    }
}
