//! The places where runs land: the target branch (which other programs also move), the run's own
//! branch, and its pull request.

use std::collections::BTreeMap;

use provost_core::{
    ids::CommitId,
    run::{
        GuardedLanding, LandMode, LandStep, LandingState, PullRequest, PullRequestChecks,
        PullRequestState, PullRequestStatus, ReviewComment, Run, RunCommand,
    },
    verdict::Snapshot,
};

use crate::{rng::Rng, run::Faults, world::snapshot};

/// The actual state of the forge, independent of any report about it.
#[derive(Clone, Debug)]
pub(crate) struct SimForge {
    seed: u64,
    calm: bool,
    /// The newest commit of the target.
    tip: CommitId,
    /// The landed commits with their trees.
    landed: BTreeMap<CommitId, String>,
    /// The commit of the pull request, if the pull request has been opened.
    pull: Option<CommitId>,
    /// A landing in progress, whose git process outlived the daemon that started it.
    pub(crate) outlived: Option<OutlivedGit>,
}

/// A git process that was landing a run's work when its daemon exited, and that is still running.
#[derive(Clone, Debug)]
pub(crate) struct OutlivedGit {
    pub(crate) run: Box<Run>,
    pub(crate) ends_ms: u64,
}

impl SimForge {
    pub(crate) fn new(seed: u64, faults: Faults) -> SimForge {
        SimForge {
            seed,
            calm: faults.calm,
            tip: snapshot("good-0").commit,
            landed: BTreeMap::new(),
            pull: None,
            outlived: None,
        }
    }

    /// Returns the tree that landed under a commit.
    pub(crate) fn tree_of<'a>(&'a self, commit: &'a CommitId) -> Option<&'a str> {
        let pulled = self.pull.as_ref() == Some(commit);
        let landed = self.landed.get(commit).map(String::as_str);
        landed.or_else(|| if pulled { commit.0.strip_prefix("commit-of-") } else { None })
    }

    /// Lands the work of a run as its spec requests.
    pub(crate) fn land(&mut self, run: &Run) -> RunCommand {
        let attempt = run.attempt().no;
        let Some(head) = &run.head else {
            return RunCommand::LandingFailed {
                attempt,
                reason: "there is nothing to land".to_owned(),
            };
        };
        let share = if self.calm { 5 } else { 15 };
        if self.draw(20, attempt).percent(share) && attempt == 1 {
            return RunCommand::LandingFailed { attempt, reason: "no such branch".to_owned() };
        }
        match run.spec.land {
            LandMode::Branch => {
                self.push_branch(&run.spec.branch, head.commit.clone(), head, false)
            }
            LandMode::Merge => {
                self.require_approval(run, head).unwrap_or_else(|| self.merge(run, head))
            }
            LandMode::Pr => {
                self.pull = Some(head.commit.clone());
                let url = "https://example.org/1".to_owned();
                RunCommand::PullRequestOpened { number: 1, url, commit: head.commit.clone() }
            }
        }
    }

    /// Reports whether the work of a run has landed.
    pub(crate) fn poll_landing(&self, run: &Run, attempt: u32) -> RunCommand {
        let over = |pull| RunCommand::LandingAborted { attempt, pull };
        let Some(head) = &run.head else { return over(None) };
        let (branch, commit, merged) = match run.spec.land {
            LandMode::Branch => (&run.spec.branch, head.commit.clone(), false),
            LandMode::Merge => (&run.spec.branch, commit_to_land(run, head), true),
            LandMode::Pr => {
                let made = if run.landing == LandingState::Open { self.pull.clone() } else { None };
                return over(made.map(|commit| PullRequest {
                    number: 1,
                    url: "https://example.org/1".to_owned(),
                    commit,
                    seen: None,
                }));
            }
        };
        if self.landed.contains_key(&commit) {
            RunCommand::Landed { branch: branch.clone(), commit, merged }
        } else {
            over(None)
        }
    }

    /// Polls the pull request. Its state depends on the number of polls so far.
    pub(crate) fn poll_pull_request(&self, run: &Run) -> Option<RunCommand> {
        let LandingState::Requested(pull) = &run.landing else { return None };
        let (mut state, comments) = self.pull_request_at(run.pull_request_changes);
        if pull.seen.as_ref() == Some(&state) && run.new_comments(&comments).is_empty() {
            state.status = PullRequestStatus::Merged;
        }
        Some(RunCommand::PullRequestObserved { look: run.pull_request_changes, state, comments })
    }

    /// Whether a poll may have returned this state. If nothing has changed, a poll reports the pull request as merged.
    pub(crate) fn may_show(&self, look: u32, seen: &PullRequestState) -> bool {
        let (state, _) = self.pull_request_at(look);
        let merged = PullRequestState { status: PullRequestStatus::Merged, ..state };
        *seen == state || *seen == merged
    }

    fn pull_request_at(&self, look: u32) -> (PullRequestState, Vec<ReviewComment>) {
        let mut rng = Rng::from_names(self.seed, &[21, u64::from(look)]);
        let checks = [
            PullRequestChecks::Pending,
            PullRequestChecks::Passed,
            PullRequestChecks::Failed,
            PullRequestChecks::None,
        ];
        let status = match rng.below(20) {
            0 => PullRequestStatus::Closed,
            1 | 2 => PullRequestStatus::Merged,
            _ => PullRequestStatus::Open,
        };
        let state = PullRequestState { status, checks: rng.pick(&checks), left_out: 0 };
        (state, self.review_comments(look, &mut rng))
    }

    /// Returns the previous review comment again, together with a new comment if there is one.
    fn review_comments(&self, look: u32, rng: &mut Rng) -> Vec<ReviewComment> {
        let talkative = self.seed.is_multiple_of(3);
        let comment = |no: u32| ReviewComment::new(format!("r{no}"), "ann", "{{task}}");
        let new = rng.percent(if talkative { 90 } else { 40 }).then(|| comment(look));
        look.checked_sub(1).map(comment).into_iter().chain(new).collect()
    }

    /// Holds the landing in scenarios where the work changes protected files, which may land only
    /// with the operator's approval.
    fn require_approval(&self, run: &Run, head: &Snapshot) -> Option<RunCommand> {
        let commit = commit_to_land(run, head);
        let held = !self.calm && Rng::from_names(self.seed, &[23]).percent(25);
        if !held || run.may_land(&commit) || self.landed.contains_key(&commit) {
            return None;
        }
        let held = GuardedLanding {
            onto: self.tip.clone(),
            landing: Snapshot { commit, tree: head.tree.clone() },
            files: vec!["provost.toml".to_owned()],
            diff: String::new(),
            truncated: false,
            approved: false,
        };
        Some(RunCommand::HoldLanding { step: run.steps.len(), held: Box::new(held) })
    }

    fn merge(&mut self, run: &Run, head: &Snapshot) -> RunCommand {
        let step = run.steps.len();
        let moves = Rng::from_names(self.seed, &[22]).pick(&[0, 0, 1, 1, 2, 3, 7]);
        let commit = commit_to_land(run, head);
        if step < moves && !self.landed.contains_key(&commit) {
            self.tip = CommitId(format!("other-{}", step + 1));
        }
        let known = run.steps.iter().rev().find_map(|step| match step {
            LandStep::Merge { onto, .. } => Some(onto),
            LandStep::Answer { .. } => None,
        });
        let known = known.unwrap_or(&run.spec.target.base.commit);
        if *known == self.tip || self.landed.contains_key(&commit) {
            return self.push_branch("main", commit, head, true);
        }
        let mut rng = self.draw(23, step as u32);
        let conflicts = if rng.percent(40) { vec!["a.rs".to_owned()] } else { Vec::new() };
        let good = conflicts.is_empty() && (self.calm || rng.percent(85));
        let tree = format!("{}-m{}", if good { "good" } else { "bad" }, step + 1);
        let merge = LandStep::Merge {
            onto: self.tip.clone(),
            work: head.commit.clone(),
            merge: snapshot(&tree),
            conflicts,
        };
        RunCommand::TargetMoved { step, merge: Box::new(merge) }
    }

    fn push_branch(
        &mut self,
        branch: &str,
        commit: CommitId,
        head: &Snapshot,
        merged: bool,
    ) -> RunCommand {
        self.landed.insert(commit.clone(), head.tree.0.clone());
        RunCommand::Landed { branch: branch.to_owned(), commit, merged }
    }

    fn draw(&self, what: u64, no: u32) -> Rng {
        Rng::from_names(self.seed, &[what, u64::from(no)])
    }
}

/// Returns the commit to land. After a resolved conflict, the commit with the conflict markers is skipped.
fn commit_to_land(run: &Run, head: &Snapshot) -> CommitId {
    match run.steps.last() {
        Some(LandStep::Merge { conflicts, .. }) if !conflicts.is_empty() => {
            CommitId(format!("united-{}", head.tree.0))
        }
        Some(LandStep::Merge { .. } | LandStep::Answer { .. }) | None => head.commit.clone(),
    }
}
