//! The git operations of the merge queue: merging finished tasks, fast-forwarding the run's branch,
//! and moving the worktree of a conversation to the base of its next task.
//!
//! Each step can be repeated after a crash at any point, and detects what has already been done.
//! Merges use the time at which the run was opened, so repeating a merge produces the same commit.

use std::path::Path;

use provost_core::{
    ids::{CommitId, SessionId, TreeId},
    plan::TaskId,
    run::{BatchLink, MergeConflict, Run, RunCommand, TaskGraph, TaskState},
    verdict::Snapshot,
};
use provost_git::{
    BranchName, CommitMessage, FastForward, Git, Oid, Project, RefName, command, commit_merge,
    create_branch, fast_forward, files_with_conflict_markers, have_common_ancestor, includes,
    landing, merge as merge_commits, move_branch, parent_of, tree_of,
};

use provost_sys::error_chain as chain_of;

use super::landing::{describe_error, fast_forward_branch, parse_oid};

/// Merges the waiting tasks onto the run's newest work, up to the batch size. A task that cannot be
/// merged on top of the others is left for the next batch. Only a conflict with the newest work
/// itself counts as a conflict.
pub(crate) fn merge_batch(git: &Git, run: &Run, batch: u32) -> RunCommand {
    let merged =
        QueueSite::of(git, run).map_err(MergeError::Queue).and_then(|site| site.merge_waiting());
    match merged {
        Ok(MergedBatch { onto, links, conflicts }) => {
            RunCommand::BatchMerged { batch, onto, links, conflicts }
        }
        Err(MergeError::Task(task, reason)) => RunCommand::TaskUnmergeable { batch, task, reason },
        Err(MergeError::Queue(reason)) => RunCommand::QueueFailed { batch, reason },
    }
}

/// Fast-forwards the run's branch to include the first `len` links of the batch.
pub(crate) fn integrate_batch(git: &Git, run: &Run, batch: u32, len: usize) -> RunCommand {
    match QueueSite::of(git, run).and_then(|site| site.integrate(len)) {
        Ok(()) => RunCommand::Integrated { batch, len },
        Err(reason) => RunCommand::QueueFailed { batch, reason },
    }
}

/// Moves the worktree of a conversation to the base of its task.
pub(crate) fn move_worktree(git: &Git, run: &Run, no: u32) -> RunCommand {
    match QueueSite::of(git, run).and_then(|site| site.move_worktree(no)) {
        Ok(()) => RunCommand::WorktreeMoved { no },
        Err(reason) => RunCommand::WorktreeMoveFailed { no, reason },
    }
}

/// The result of merging.
struct MergedBatch {
    onto: Snapshot,
    links: Vec<BatchLink>,
    conflicts: Vec<MergeConflict>,
}

/// Why nothing was merged.
enum MergeError {
    /// Git rejects the work of one task. All other tasks continue without it.
    Task(TaskId, String),
    /// The problem is with the repository or the machine.
    Queue(String),
}

impl From<String> for MergeError {
    fn from(reason: String) -> Self {
        MergeError::Queue(reason)
    }
}

/// Attributes a failure that occurred while merging a task's work, either to the task or to the queue.
fn attribute_failure(id: &TaskId) -> impl Fn(landing::Error) -> MergeError + '_ {
    |why| match why {
        landing::Error::Git(command::Error::Failed { .. }) => {
            MergeError::Task(id.clone(), describe_error(why))
        }
        landing::Error::Git(_)
        | landing::Error::BranchExists { .. }
        | landing::Error::NoBranch(_)
        | landing::Error::Refused { .. }
        | landing::Error::Busy { .. }
        | landing::Error::Filtered { .. }
        | landing::Error::NotUtf8(_)
        | landing::Error::Message(_)
        | landing::Error::Project(_) => MergeError::Queue(describe_error(why)),
    }
}

/// The merges so far: the base of the first merge, the merged commits, and the newest merge.
struct MergeChain {
    onto: Oid,
    works: Vec<Oid>,
    tip: Option<Oid>,
}

/// The repository in which the tasks of one run are merged.
struct QueueSite<'a> {
    git: &'a Git,
    run: &'a Run,
    graph: &'a TaskGraph,
    project: Project,
}

impl<'a> QueueSite<'a> {
    fn of(git: &'a Git, run: &'a Run) -> Result<Self, String> {
        let graph = run.graph.as_ref().ok_or("the run has no tasks")?;
        let project =
            Project::find(git, Path::new(&run.spec.project)).map_err(|why| chain_of(&why))?;
        Ok(QueueSite { git, run, graph, project })
    }

    fn merge_waiting(&self) -> Result<MergedBatch, MergeError> {
        let onto = self.run.base().clone();
        let mut chain = MergeChain { onto: parse_oid(&onto.commit)?, works: Vec::new(), tip: None };
        let (mut links, mut conflicts) = (Vec::new(), Vec::new());
        let size = usize::try_from(self.run.spec.planning.batch.max(1)).unwrap_or(1);
        for id in &self.graph.queue.waiting {
            if links.len() == size {
                break;
            }
            let task = self.graph.task(id);
            let task = task.ok_or_else(|| "a waiting task is not in the plan".to_owned())?;
            if let Some(conflict) = self.unresolved_conflict(id, task)? {
                conflicts.push(conflict);
                continue;
            }
            let work = self.commit_to_merge(id, task)?;
            match self.add_link(id, &mut chain, &work)? {
                Ok(merge) => links.push(BatchLink { task: id.clone(), merge }),
                Err((merge, files)) if links.is_empty() => {
                    let (task, work) = (id.clone(), CommitId(work.to_string()));
                    let onto = onto.commit.clone();
                    conflicts.push(MergeConflict { task, work, onto, merge, files });
                }
                Err(_) => {}
            }
        }
        Ok(MergedBatch { onto, links, conflicts })
    }

    /// Merges one task on top of the others. To keep only verified trees on the branch's
    /// first-parent line, each link has the newest work as its first parent, and everything that it
    /// merges as further parents.
    fn add_link(
        &self,
        id: &TaskId,
        chain: &mut MergeChain,
        work: &Oid,
    ) -> Result<Result<Snapshot, (Snapshot, Vec<String>)>, MergeError> {
        let tip = chain.tip.clone().unwrap_or_else(|| chain.onto.clone());
        let message = self.message(&format!("Merge task {id} of {}", self.run.spec.name), id);
        let parent = parent_of(self.git, &self.project, work).map_err(|why| chain_of(&why))?;
        let includes_tip =
            includes(self.git, &self.project, work, &tip).map_err(attribute_failure(id))?;
        let tree = if includes_tip {
            // No other work was merged, so the merge has the same tree and the existing verdict
            // applies to it.
            tree_of(self.git, &self.project, work.as_str())
                .map_err(|why| chain_of(&why))?
                .ok_or_else(|| format!("the commit {work} has no tree"))?
        } else {
            let merge = |ours: &Oid, theirs: &Oid| {
                merge_commits(self.git, &self.project, ours, theirs, &message, self.merge_time())
            };
            let merged = merge(&tip, work).map_err(attribute_failure(id))?;
            if !merged.conflicts.is_empty() {
                // A conflict is resolved on the task's own branch, so the head of that branch is the first parent here.
                let merged = merge(work, &tip).map_err(attribute_failure(id))?;
                let files = merged.conflicts.iter().map(ToString::to_string).collect();
                return Ok(Err((snapshot(&merged.commit, &merged.tree), files)));
            }
            merged.tree
        };
        chain.works.push(work.clone());
        let alone = chain.works.len() == 1 && parent.as_ref() == Some(&chain.onto);
        let commit = if alone {
            work.clone()
        } else {
            let parents: Vec<&Oid> = std::iter::once(&chain.onto).chain(&chain.works).collect();
            commit_merge(self.git, &self.project, &tree, &parents, &message, self.merge_time())
                .map_err(attribute_failure(id))?
        };
        chain.tip = Some(commit.clone());
        Ok(Ok(snapshot(&commit, &tree)))
    }

    /// Returns the commit of a task to merge. If conflicts were resolved, the commit with the
    /// conflict markers is left out of the history. Work that an agent put on a root commit of its
    /// own is moved onto the task's base.
    fn commit_to_merge(&self, id: &TaskId, task: &TaskState) -> Result<Oid, MergeError> {
        let head = task.head.as_ref().ok_or_else(|| format!("task {id} left no work"))?;
        let (work, tree) = (parse_oid(&head.commit)?, parse_tree_oid(&head.tree)?);
        let unite = |parents: &[&Oid], text: &str| {
            let message = self.message(text, id);
            commit_merge(self.git, &self.project, &tree, parents, &message, self.merge_time())
                .map_err(attribute_failure(id))
        };
        if let Some((work, onto)) = &task.resolved_merge {
            let parents = [&parse_oid(work)?, &parse_oid(onto)?];
            return unite(&parents, &format!("Merge the work of others into task {id}"));
        }
        let base = parse_oid(&task.base.as_ref().unwrap_or(&self.run.spec.target.base).commit)?;
        if have_common_ancestor(self.git, &self.project, &work, &base)
            .map_err(attribute_failure(id))?
        {
            Ok(work)
        } else {
            unite(&[&base], &format!("Do task {id}"))
        }
    }

    /// Returns a conflict that was supposed to be resolved but left conflict markers in some files.
    fn unresolved_conflict(
        &self,
        id: &TaskId,
        task: &TaskState,
    ) -> Result<Option<MergeConflict>, MergeError> {
        let Some(((work, onto), head)) = task.resolved_merge.clone().zip(task.head.clone()) else {
            return Ok(None);
        };
        let (ours, theirs, tree) =
            (parse_oid(&work)?, parse_oid(&onto)?, parse_tree_oid(&head.tree)?);
        let files = files_with_conflict_markers(self.git, &self.project, &ours, &theirs, &tree);
        let files = files.map_err(attribute_failure(id))?;
        let files: Vec<String> = files.iter().map(ToString::to_string).collect();
        let conflict = MergeConflict { task: id.clone(), work, onto, merge: head, files };
        Ok((!conflict.files.is_empty()).then_some(conflict))
    }

    fn integrate(&self, len: usize) -> Result<(), String> {
        let batch = self.graph.queue.batch.as_ref().ok_or("there is no batch in progress")?;
        let link = len.checked_sub(1).and_then(|at| batch.links.get(at));
        let to = parse_oid(&link.ok_or("the batch has fewer links")?.merge.commit)?;
        if self.run.head.is_none() && self.create_branch(&to)? {
            return Ok(());
        }
        fast_forward_branch(self.git, &self.project, &self.run.spec.branch, &to)
    }

    /// Creates the run's branch. Returns false if the branch already exists and contains some of the run's own work,
    /// because an earlier daemon created the branch without recording that. A branch that contains nothing beyond the
    /// run's base does not belong to the run.
    fn create_branch(&self, to: &Oid) -> Result<bool, String> {
        let branch = BranchName::new(&self.run.spec.branch).map_err(|why| chain_of(&why))?;
        match create_branch(self.git, &self.project, &branch, to) {
            Ok(()) => Ok(true),
            Err(landing::Error::BranchExists { branch, found }) => {
                let base = parse_oid(&self.run.spec.target.base.commit)?;
                if includes(self.git, &self.project, &base, &found).map_err(describe_error)? {
                    Err(describe_error(landing::Error::BranchExists { branch, found }))
                } else {
                    Ok(false)
                }
            }
            Err(why) => Err(describe_error(why)),
        }
    }

    fn move_worktree(&self, no: u32) -> Result<(), String> {
        let worktree_move = self.run.worktree_move(no).ok_or("no worktree move is pending")?;
        let (path, branch) =
            self.run.worktree(worktree_move.session).ok_or("the run has no such worktree")?;
        if !Path::new(&path).is_dir() {
            return Err(format!("its worktree {path} is gone"));
        }
        let Some(to) = &worktree_move.to else { return Ok(()) };
        let name = RefName::from_branch(&branch);
        match fast_forward(self.git, &self.project, &name, &parse_oid(&to.commit)?)
            .map_err(describe_error)?
        {
            FastForward::Done => Ok(()),
            // Resolved conflicts are merged without the commit that contained the conflict markers.
            FastForward::Diverged(found)
                if self.is_recorded_work(worktree_move.session, &found) =>
            {
                move_branch(self.git, &self.project, &name, &found, &parse_oid(&to.commit)?)
                    .map_err(describe_error)
            }
            FastForward::Diverged(_) => {
                Err(format!("its worktree has work that {} does not contain", to.commit.0))
            }
        }
    }

    /// Whether a commit is a session's newest work on a task. The tree of this work has been or
    /// will be merged.
    fn is_recorded_work(&self, session: SessionId, commit: &Oid) -> bool {
        let mut own = self.graph.tasks().filter(|(_, task)| task.worker == Some(session));
        own.any(|(_, task)| task.head.as_ref().is_some_and(|head| head.commit.0 == commit.as_str()))
    }

    fn message(&self, text: &str, task: &TaskId) -> CommitMessage {
        let trailers =
            [("Provost-Run", self.run.id.to_string()), ("Provost-Task", task.to_string())];
        let trailers = trailers.map(|(name, value)| (name.to_owned(), value)).into();
        CommitMessage { text: text.to_owned(), trailers }
    }

    /// Returns the timestamp for all merges of a run, so that repeating a merge produces the same commit.
    fn merge_time(&self) -> i64 {
        self.run.opened.wall_ms / 1_000
    }
}

pub(super) fn parse_tree_oid(tree: &TreeId) -> Result<Oid, String> {
    Oid::new(&tree.0).map_err(|why| chain_of(&why))
}

fn snapshot(commit: &Oid, tree: &Oid) -> Snapshot {
    Snapshot { commit: CommitId(commit.to_string()), tree: TreeId(tree.to_string()) }
}
