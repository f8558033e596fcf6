//! The merge queue's work in git: merging finished tasks, fast-forwarding the run's branch, and
//! moving the worktree of a conversation to the base of its next task.
//!
//! Each step can be repeated after a crash at any point, and finds what was already done. Merges
//! carry the time at which the run was opened, so that the same merge is the same commit.

use std::path::Path;

use provost_core::{
    ids::{CommitId, SessionId, TreeId},
    plan::TaskId,
    run::{Command, Conflict, Graph, Link, Run, Task},
    verdict::Snapshot,
};
use provost_git::{
    BranchName, Forward, Git, Message, Oid, Project, RefName, branch_at, carry, command, forward,
    includes, landing, merge as merge_commits, parent_of, related, tree_of, unite, unmended,
};

use super::{
    held::chain as chain_of,
    landing::{go_forward, oid, told},
};

/// Merges the waiting tasks onto the run's newest work, up to the batch size. A task that cannot be
/// merged behind others is left for the next batch. Only a conflict with the newest work itself
/// counts as one.
pub(crate) fn merge(git: &Git, run: &Run, batch: u32) -> Command {
    let merged = Site::of(git, run).map_err(Stuck::Queue).and_then(|site| site.merge());
    match merged {
        Ok(Merged { onto, links, conflicts }) => {
            Command::BatchMerged { batch, onto, links, conflicts }
        }
        Err(Stuck::Task(task, reason)) => Command::TaskUnfit { batch, task, reason },
        Err(Stuck::Queue(reason)) => Command::QueueFailed { batch, reason },
    }
}

/// Fast-forwards the run's branch over the first `len` links of the batch.
pub(crate) fn integrate(git: &Git, run: &Run, batch: u32, len: usize) -> Command {
    match Site::of(git, run).and_then(|site| site.integrate(len)) {
        Ok(()) => Command::Integrated { batch, len },
        Err(reason) => Command::QueueFailed { batch, reason },
    }
}

/// Moves the worktree of a conversation to the base of its task.
pub(crate) fn bring(git: &Git, run: &Run, no: u32) -> Command {
    match Site::of(git, run).and_then(|site| site.bring(no)) {
        Ok(()) => Command::ErrandDone { no },
        Err(reason) => Command::ErrandFailed { no, reason },
    }
}

/// The result of merging.
struct Merged {
    onto: Snapshot,
    links: Vec<Link>,
    conflicts: Vec<Conflict>,
}

/// Why nothing was merged.
enum Stuck {
    /// Git refuses the work of one task. All others continue without it.
    Task(TaskId, String),
    /// The repository or the machine is the obstacle.
    Queue(String),
}

impl From<String> for Stuck {
    fn from(reason: String) -> Self {
        Stuck::Queue(reason)
    }
}

/// Attributes a failure that was met with the work of a task to the task or to the queue.
fn met_with(id: &TaskId) -> impl Fn(landing::Error) -> Stuck + '_ {
    |why| match why {
        landing::Error::Git(command::Error::Failed { .. }) => Stuck::Task(id.clone(), told(why)),
        landing::Error::Git(_)
        | landing::Error::Taken { .. }
        | landing::Error::NoBranch(_)
        | landing::Error::Refused { .. }
        | landing::Error::Busy { .. }
        | landing::Error::Filtered { .. }
        | landing::Error::NoText(_)
        | landing::Error::Message(_)
        | landing::Error::Project(_) => Stuck::Queue(told(why)),
    }
}

/// The merges so far: the base, the merged works, and the newest commit.
struct Chain {
    onto: Oid,
    works: Vec<Oid>,
    tip: Option<Oid>,
}

/// The repository in which the tasks of one run are merged.
struct Site<'a> {
    git: &'a Git,
    run: &'a Run,
    graph: &'a Graph,
    project: Project,
}

impl<'a> Site<'a> {
    fn of(git: &'a Git, run: &'a Run) -> Result<Self, String> {
        let graph = run.graph.as_ref().ok_or("the run has no tasks")?;
        let project =
            Project::find(git, Path::new(&run.spec.project)).map_err(|why| chain_of(&why))?;
        Ok(Site { git, run, graph, project })
    }

    fn merge(&self) -> Result<Merged, Stuck> {
        let onto = self.run.base().clone();
        let mut chain = Chain { onto: oid(&onto.commit)?, works: Vec::new(), tip: None };
        let (mut links, mut conflicts) = (Vec::new(), Vec::new());
        let size = usize::try_from(self.run.spec.planning.batch.max(1)).unwrap_or(1);
        for id in &self.graph.queue.waiting {
            if links.len() == size {
                break;
            }
            let task = self.graph.task(id);
            let task = task.ok_or_else(|| "a waiting task is not in the plan".to_owned())?;
            if let Some(conflict) = self.left_in_conflict(id, task)? {
                conflicts.push(conflict);
                continue;
            }
            let work = self.work_of(id, task)?;
            match self.link(id, &mut chain, &work)? {
                Ok(merge) => links.push(Link { task: id.clone(), merge }),
                Err((merge, files)) if links.is_empty() => {
                    let (task, work) = (id.clone(), CommitId(work.to_string()));
                    let onto = onto.commit.clone();
                    conflicts.push(Conflict { task, work, onto, merge, files });
                }
                Err(_) => {}
            }
        }
        Ok(Merged { onto, links, conflicts })
    }

    /// Merges one task behind the others. Only verified trees are on the branch's first-parent
    /// line: each link has the newest work as its first parent, and everything that it merges as
    /// the others.
    fn link(
        &self,
        id: &TaskId,
        chain: &mut Chain,
        work: &Oid,
    ) -> Result<Result<Snapshot, (Snapshot, Vec<String>)>, Stuck> {
        let tip = chain.tip.clone().unwrap_or_else(|| chain.onto.clone());
        let message = self.message(&format!("Merge task {id} of {}", self.run.spec.name), id);
        let parent = parent_of(self.git, &self.project, work).map_err(|why| chain_of(&why))?;
        let includes_tip = includes(self.git, &self.project, work, &tip).map_err(met_with(id))?;
        let tree = if includes_tip {
            // Nothing was done besides it: the merge has its tree, and its verdict holds.
            tree_of(self.git, &self.project, work.as_str())
                .map_err(|why| chain_of(&why))?
                .ok_or_else(|| format!("the commit {work} has no tree"))?
        } else {
            let merge = |ours: &Oid, theirs: &Oid| {
                merge_commits(self.git, &self.project, ours, theirs, &message, self.at())
            };
            let merged = merge(&tip, work).map_err(met_with(id))?;
            if !merged.conflicts.is_empty() {
                // A conflict is fixed on the task's own branch, which is the first parent then.
                let mended = merge(work, &tip).map_err(met_with(id))?;
                let files = merged.conflicts.iter().map(ToString::to_string).collect();
                return Ok(Err((snapshot(&mended.commit, &mended.tree), files)));
            }
            merged.tree
        };
        chain.works.push(work.clone());
        let alone = chain.works.len() == 1 && parent.as_ref() == Some(&chain.onto);
        let commit = if alone {
            work.clone()
        } else {
            let parents: Vec<&Oid> = std::iter::once(&chain.onto).chain(&chain.works).collect();
            unite(self.git, &self.project, &tree, &parents, &message, self.at())
                .map_err(met_with(id))?
        };
        chain.tip = Some(commit.clone());
        Ok(Ok(snapshot(&commit, &tree)))
    }

    /// Returns the commit of a task to merge. If conflicts were fixed, the commit with their
    /// markers is left out. Work that an agent put on a root commit of its own is moved to the
    /// task's base.
    fn work_of(&self, id: &TaskId, task: &Task) -> Result<Oid, Stuck> {
        let head = task.head.as_ref().ok_or_else(|| format!("task {id} left no work"))?;
        let (work, tree) = (oid(&head.commit)?, tree_oid(&head.tree)?);
        let unite = |parents: &[&Oid], text: &str| {
            let message = self.message(text, id);
            unite(self.git, &self.project, &tree, parents, &message, self.at())
                .map_err(met_with(id))
        };
        if let Some((work, onto)) = &task.mended {
            let parents = [&oid(work)?, &oid(onto)?];
            return unite(&parents, &format!("Merge the work of others into task {id}"));
        }
        let base = oid(&task.base.as_ref().unwrap_or(&self.run.spec.target.base).commit)?;
        if related(self.git, &self.project, &work, &base).map_err(met_with(id))? {
            Ok(work)
        } else {
            unite(&[&base], &format!("Do task {id}"))
        }
    }

    /// Returns a conflict that was to be fixed and of which some files still have conflict markers.
    fn left_in_conflict(&self, id: &TaskId, task: &Task) -> Result<Option<Conflict>, Stuck> {
        let Some(((work, onto), head)) = task.mended.clone().zip(task.head.clone()) else {
            return Ok(None);
        };
        let (ours, theirs, tree) = (oid(&work)?, oid(&onto)?, tree_oid(&head.tree)?);
        let files = unmended(self.git, &self.project, &ours, &theirs, &tree);
        let files = files.map_err(met_with(id))?;
        let files: Vec<String> = files.iter().map(ToString::to_string).collect();
        let conflict = Conflict { task: id.clone(), work, onto, merge: head, files };
        Ok((!conflict.files.is_empty()).then_some(conflict))
    }

    fn integrate(&self, len: usize) -> Result<(), String> {
        let batch = self.graph.queue.batch.as_ref().ok_or("there is no batch in progress")?;
        let link = len.checked_sub(1).and_then(|at| batch.links.get(at));
        let to = oid(&link.ok_or("the batch is shorter")?.merge.commit)?;
        if self.run.head.is_none() && self.begin_branch(&to)? {
            return Ok(());
        }
        go_forward(self.git, &self.project, &self.run.spec.branch, &to)
    }

    /// Creates the run's branch. Returns false if it exists and has some of the run's own work,
    /// which an earlier daemon put there without recording it. A branch with nothing beyond the
    /// run's base is not the run's.
    fn begin_branch(&self, to: &Oid) -> Result<bool, String> {
        let branch = BranchName::new(&self.run.spec.branch).map_err(|why| chain_of(&why))?;
        match branch_at(self.git, &self.project, &branch, to) {
            Ok(()) => Ok(true),
            Err(landing::Error::Taken { branch, found }) => {
                let base = oid(&self.run.spec.target.base.commit)?;
                if includes(self.git, &self.project, &base, &found).map_err(told)? {
                    Err(told(landing::Error::Taken { branch, found }))
                } else {
                    Ok(false)
                }
            }
            Err(why) => Err(told(why)),
        }
    }

    fn bring(&self, no: u32) -> Result<(), String> {
        let errand = self.run.errand(no).ok_or("no worktree move is pending")?;
        let (path, branch) =
            self.run.worktree(errand.session).ok_or("the run has no such worktree")?;
        if !Path::new(&path).is_dir() {
            return Err(format!("its worktree {path} is gone"));
        }
        let Some(to) = &errand.to else { return Ok(()) };
        let name = RefName::of_branch(&branch);
        match forward(self.git, &self.project, &name, &oid(&to.commit)?).map_err(told)? {
            Forward::Done => Ok(()),
            // Fixed conflicts are merged without the commit that had their markers.
            Forward::Elsewhere(found) if self.is_recorded(errand.session, &found) => {
                carry(self.git, &self.project, &name, &found, &oid(&to.commit)?).map_err(told)
            }
            Forward::Elsewhere(_) => {
                Err(format!("its worktree has work that {} does not contain", to.commit.0))
            }
        }
    }

    /// Whether a commit is the newest work of a session for a task, whose tree is merged or will
    /// be.
    fn is_recorded(&self, session: SessionId, commit: &Oid) -> bool {
        let mut own = self.graph.tasks().filter(|(_, task)| task.worker == Some(session));
        own.any(|(_, task)| task.head.as_ref().is_some_and(|head| head.commit.0 == commit.as_str()))
    }

    fn message(&self, text: &str, task: &TaskId) -> Message {
        let trailers =
            [("Provost-Run", self.run.id.to_string()), ("Provost-Task", task.to_string())];
        let trailers = trailers.map(|(name, value)| (name.to_owned(), value)).into();
        Message { text: text.to_owned(), trailers }
    }

    /// The time of every merge of a run: the same call has to produce the same commit.
    fn at(&self) -> i64 {
        self.run.opened.wall_ms / 1_000
    }
}

pub(super) fn tree_oid(tree: &TreeId) -> Result<Oid, String> {
    Oid::new(&tree.0).map_err(|why| chain_of(&why))
}

fn snapshot(commit: &Oid, tree: &Oid) -> Snapshot {
    Snapshot { commit: CommitId(commit.to_string()), tree: TreeId(tree.to_string()) }
}
