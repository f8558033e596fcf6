//! The simulated world outside the engine: holders, agents, trees, checks and hooks. The world keeps its state when an
//! engine crashes.

mod holder;

use std::collections::{BTreeMap, BTreeSet};

use provost_core::{
    ids::{CommitId, LaunchId, SessionId, TreeId},
    session::{AgentInterface, Assignment, ProcessIdentity, SessionSpec, StopStep, WorkLocation},
    verdict::Snapshot,
};

pub(crate) use self::holder::{HolderLife, SimHolder, SimJournalEntry};
use crate::{
    goal::{self, SessionPart},
    graph, own_turns,
    repo::{SimRepo, hash_words},
    rng::Rng,
    run::Faults,
    script::{self, AgentAction},
};

/// Maximum number of output lines of an agent in one launch, so that every scenario ends.
const MAX_LINES: usize = 200;

/// The time for which a disk stays full.
const FULL_MS: u64 = 2_000;

/// Maximum number of actions that grandchildren take after their parent has exited.
const MAX_AFTERLIFE: usize = 3;

/// The reason why a live holder cannot report on its launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unobservable {
    /// The holder was stopped: it neither reads nor answers.
    Stopped,
    /// The launch's directory was removed.
    Vanished,
}

/// A command that ran once under its idempotency key.
#[derive(Clone, Debug)]
pub(crate) struct CommandRecord {
    pub(crate) command: String,
    pub(crate) done_ms: u64,
    pub(crate) uncertain: bool,
}

/// A session's worktree.
#[derive(Clone, Debug)]
pub(crate) struct SimWorktree {
    pub(crate) interface: AgentInterface,
    /// Whether the agent is external.
    adopted: bool,
    /// The role of the session in a run, if the session belongs to a run.
    part: Option<SessionPart>,
    /// The name under which random numbers are drawn in a scenario without stable session numbers.
    draw_name: u64,
    /// The task that the session works on.
    task: Option<String>,
    pub(crate) base: String,
    tree: String,
    edits: u64,
    /// The steps of the world at which the last snapshot was taken and the last check ended.
    pub(crate) snapshotted: Option<(u64, String)>,
    pub(crate) checked: Option<(u64, String)>,
}

/// Everything outside of Provost.
#[derive(Clone, Debug)]
pub(crate) struct SimWorld {
    seed: u64,
    faults: Faults,
    pub(crate) now_ms: u64,
    pub(crate) boot: u32,
    pub(crate) holders: BTreeMap<LaunchId, SimHolder>,
    /// Launches that were cancelled before they started, and that must never start.
    pub(crate) cancelled_launches: BTreeSet<LaunchId>,
    pub(crate) commands: BTreeMap<(SessionId, String), CommandRecord>,
    pub(crate) worktrees: BTreeMap<SessionId, SimWorktree>,
    pub(crate) repo: SimRepo,
    /// The time before which nothing new can be started, because the disk has too little space.
    pub(crate) short_until: u64,
    /// Whether every agent starts, follows its instructions in one turn, and reports success.
    pub(crate) obedient: bool,
    steps: u64,
}

impl SimWorld {
    pub(crate) fn new(seed: u64, faults: Faults) -> SimWorld {
        SimWorld {
            seed,
            faults,
            now_ms: 1_000,
            boot: 1,
            holders: BTreeMap::new(),
            cancelled_launches: BTreeSet::new(),
            commands: BTreeMap::new(),
            worktrees: BTreeMap::new(),
            repo: SimRepo::new(seed),
            short_until: 0,
            obedient: false,
            steps: 0,
        }
    }

    pub(crate) fn add_worktree(&mut self, session: SessionId, spec: &SessionSpec) {
        let base = match &spec.work {
            WorkLocation::Worktree { base: Some(base), .. }
            | WorkLocation::Detached { base, .. } => base.0.trim_start_matches("commit-of-"),
            WorkLocation::Plain
            | WorkLocation::InPlace { .. }
            | WorkLocation::Worktree { base: None, .. } => "good-0",
        };
        let place = SimWorktree {
            interface: spec.agent.interface.clone(),
            adopted: spec.adopted.is_some(),
            part: SessionPart::from_spec(spec),
            draw_name: draw_name(spec),
            task: spec.task.as_ref().map(ToString::to_string),
            base: base.to_owned(),
            tree: base.to_owned(),
            edits: 0,
            snapshotted: None,
            checked: None,
        };
        self.worktrees.insert(session, place);
    }

    /// Assigns the session another task in the same worktree.
    pub(crate) fn assign(&mut self, session: SessionId, assignment: &Assignment) {
        let place = self.worktree(session);
        place.task = Some(assignment.task.to_string());
        place.draw_name = hash_words(&["work", assignment.task.as_str()]);
    }

    /// Moves a worktree to a tree, if that tree contains the current one.
    pub(crate) fn move_worktree(
        &mut self,
        session: SessionId,
        to: Option<&Snapshot>,
    ) -> Result<(), String> {
        let Some(to) = to else { return Ok(()) };
        let current = self.worktree(session).tree.clone();
        if !self.repo.includes(&to.tree.0, &current) {
            return Err("it is based on unknown work".to_owned());
        }
        let place = self.worktree(session);
        (place.tree, place.base) = (to.tree.0.clone(), to.tree.0.clone());
        Ok(())
    }

    /// Returns the name under which random numbers are drawn for a session. The numbers of concurrent sessions depend
    /// on timing, so a deterministic scenario uses the purpose of a session instead of its number.
    pub(crate) fn draw_name(&self, session: SessionId) -> u64 {
        if self.is_deterministic_plan() {
            self.worktrees.get(&session).map_or(0, |place| place.draw_name)
        } else {
            session_no(session)
        }
    }

    /// Whether the scenario must avoid everything whose outcome depends on timing.
    pub(crate) fn is_deterministic_plan(&self) -> bool {
        self.faults.calm && graph::has_plan(self.seed)
    }

    fn draw_names(&self, launch: LaunchId) -> (u64, u32) {
        let of_run = self.worktrees.get(&launch.session).is_some_and(|place| place.part.is_some());
        let certain = self.is_deterministic_plan() && of_run;
        (self.draw_name(launch.session), if certain { 0 } else { launch.no })
    }

    /// Starts a launch under its id, unless it was started before.
    pub(crate) fn start(&mut self, launch: LaunchId) -> Result<ProcessIdentity, String> {
        if self.cancelled_launches.contains(&launch) {
            return Err("it was stopped before it started".to_owned());
        }
        let (no, launch_no) = self.draw_names(launch);
        let temper = script::agent_script(self.seed, no, launch_no, &self.faults);
        let SimWorktree { interface, part, adopted, .. } = &self.worktrees[&launch.session];
        let (part, adopted) = (*part, *adopted);
        if !temper.starts && !adopted && !self.obedient {
            return Err("no such program".to_owned());
        }
        if !self.holders.contains_key(&launch) {
            let (seed, faults) = (self.seed, &self.faults);
            let acts = match part {
                None => script::opening(seed, no, launch_no, interface, faults),
                Some(_) => goal::opening(seed, no, launch_no, interface, faults),
            };
            let mut holder = SimHolder::new(launch, temper, acts, self.now_ms);
            (holder.part, holder.on_screen) = (part, interface.has_terminal());
            holder.obedient = self.obedient;
            self.holders.insert(launch, holder);
        }
        Ok(ProcessIdentity {
            pid: launch.no as i32,
            start_time: 1,
            boot_id: format!("b{}", self.boot),
        })
    }

    /// Whether the agent of a launch is external.
    pub(crate) fn is_adopted(&self, launch: LaunchId) -> bool {
        self.worktrees.get(&launch.session).is_some_and(|place| place.adopted)
    }

    /// Writes to an agent's input, once per key. Returns `false` if the agent is not listening.
    pub(crate) fn write(&mut self, launch: LaunchId, key: &str, text: &str) -> bool {
        let (seed, faults, draws) = (self.seed, self.faults, self.draw_names(launch));
        let now = self.now_ms;
        // In a deterministic scenario with a plan, only messages whose keys have one of these
        // prefixes arrive in a fixed order.
        let certain = ["faults", "land", "answer"].iter().any(|word| key.starts_with(word));
        let heard = if self.is_deterministic_plan() && !certain { "" } else { key };
        let Some(holder) = self.holders.get_mut(&launch) else { return false };
        if !holder.is_listening() {
            return false;
        }
        if holder.inputs.insert(key.to_owned()) {
            holder.journal.push(SimJournalEntry::In(key.to_owned()));
            let busy = holder.own_turn
                || matches!(holder.acts.front(), Some(AgentAction::BeginOwnTurn(_)));
            if let Some(refusal) = own_turns::refusal(key)
                && busy
            {
                holder.print(refusal, now);
            } else if !holder.script.ignores_input {
                holder.receive(seed, draws, heard, text, &faults);
            }
        }
        true
    }

    pub(crate) fn stop(&mut self, launch: LaunchId, step: StopStep) {
        let now = self.now_ms;
        let Some(holder) = self.holders.get_mut(&launch) else { return };
        if holder.exit.is_some() || holder.life != HolderLife::Reachable {
            return;
        }
        if holder.unobservable.is_some() {
            // A holder that does not answer is killed directly in the last step.
            if step == StopStep::Kill {
                self.kill_launch(launch);
            }
            return;
        }
        match step {
            StopStep::Interrupt if holder.script.obeys_interrupt => holder.interrupt(now),
            StopStep::Terminate if holder.script.obeys_term => holder.kill_with(15),
            StopStep::Kill if holder.script.can_be_killed => holder.kill_with(9),
            StopStep::Interrupt | StopStep::Terminate | StopStep::Kill | StopStep::GivenUp => {}
        }
    }

    /// Runs a command under its key. Later calls with the same key return the record of the first.
    pub(crate) fn run(
        &mut self,
        session: SessionId,
        key: &str,
        what: &str,
        takes_ms: u64,
    ) -> Result<&CommandRecord, String> {
        let done_ms = self.now_ms + takes_ms;
        let ran = self.commands.entry((session, key.to_owned())).or_insert_with(|| CommandRecord {
            command: what.to_owned(),
            done_ms,
            uncertain: false,
        });
        if ran.command == what {
            Ok(ran)
        } else {
            Err(format!("the key {key} was used for `{}` and for `{what}`", ran.command))
        }
    }

    pub(crate) fn take_snapshot(&mut self, session: SessionId) -> Snapshot {
        self.steps += 1;
        let steps = self.steps;
        let place = self.worktrees.get_mut(&session).expect("every session has a worktree");
        place.snapshotted = Some((steps, place.tree.clone()));
        snapshot(&place.tree)
    }

    /// Returns the tree of a session's worktree, or of the checkout, without counting as a snapshot.
    pub(crate) fn tree_of(&self, session: Option<SessionId>) -> String {
        let place = session.and_then(|session| self.worktrees.get(&session));
        place.map_or_else(|| "good-0".to_owned(), |place| place.tree.clone())
    }

    pub(crate) fn check_ended(&mut self, session: SessionId, tree: &str) {
        self.steps += 1;
        let steps = self.steps;
        let place = self.worktrees.get_mut(&session).expect("every session has a worktree");
        place.checked = Some((steps, tree.to_owned()));
    }

    /// Returns the agents that can act now.
    pub(crate) fn ready(&self) -> Vec<LaunchId> {
        let ready = self.holders.values().filter(|holder| holder.can_act(self.now_ms));
        ready.map(|holder| holder.launch).collect()
    }

    pub(crate) fn is_ready(&self, launch: LaunchId) -> bool {
        self.holders.get(&launch).is_some_and(|holder| holder.can_act(self.now_ms))
    }

    /// Returns the time at which a sleeping agent wakes up next.
    pub(crate) fn next_wake(&self) -> Option<u64> {
        let asleep = self.holders.values().filter(|holder| holder.can_act(u64::MAX));
        asleep.map(|holder| holder.wake_ms).filter(|wake| *wake > self.now_ms).min()
    }

    /// Lets an agent carry out its next action.
    pub(crate) fn act(&mut self, launch: LaunchId) {
        let now = self.now_ms;
        let Some(holder) = self.holders.get_mut(&launch) else { return };
        let Some(act) = holder.acts.pop_front() else {
            holder.leave();
            return;
        };
        match act {
            AgentAction::Line(signal) => holder.print(signal, now),
            AgentAction::Edit { good } => self.edit(launch.session, good),
            AgentAction::Revert => {
                let place = self.worktree(launch.session);
                place.tree = place.base.clone();
            }
            AgentAction::Report(testimony) => holder.report = Some(testimony),
            AgentAction::Sleep(ms) => holder.wake_ms = now + ms,
            AgentAction::BeginOwnTurn(turn) => holder.begin_own_turn(turn, now),
            AgentAction::Show(shown) => holder.show(shown, now),
            AgentAction::Suspend(suspended) => holder.suspended = suspended,
            AgentAction::AwaitAnswer => holder.acts.push_front(AgentAction::AwaitAnswer),
            AgentAction::CloseStream => holder.close(),
            // In half of the floods, the disk is full before the output limit is reached.
            AgentAction::Flood if holder.journal.len() % 2 == 0 => holder.at_limit = true,
            AgentAction::Flood => {
                (holder.full_until, holder.wake_ms) = (Some(now + FULL_MS), now + FULL_MS);
            }
            AgentAction::Exit(end) => holder.exit_by_itself(end),
        }
    }

    /// Kills the holder. The follower then kills the survivors and never learns the exit code.
    pub(crate) fn kill_holder(&mut self, launch: LaunchId) {
        if let Some(holder) = self.holders.get_mut(&launch).filter(|holder| !holder.gone) {
            holder.life = HolderLife::Died;
            holder.report = None;
        }
    }

    /// Stops the holder, or removes the directory of its launch.
    pub(crate) fn make_unobservable(&mut self, launch: LaunchId, cause: Unobservable) {
        let living = |holder: &&mut SimHolder| holder.life == HolderLife::Reachable && !holder.gone;
        // An external agent has no holder.
        if self.is_adopted(launch) {
            return;
        }
        if let Some(holder) = self.holders.get_mut(&launch).filter(living) {
            holder.unobservable = Some(cause);
        }
    }

    /// Kills a launch that cannot be reached, and returns whether it is gone.
    pub(crate) fn kill_launch(&mut self, launch: LaunchId) -> bool {
        let Some(holder) = self.holders.get_mut(&launch) else { return true };
        if holder.can_be_stopped() && holder.life == HolderLife::Reachable {
            holder.life = HolderLife::Died;
            holder.report = None;
        }
        holder.life != HolderLife::Reachable
    }

    /// Whether the follower must kill a launch, because its directory has vanished, or because its leader exited and
    /// its holder is stopped and cannot report the end of the process tree.
    pub(crate) fn must_be_killed(&self, launch: LaunchId) -> bool {
        self.holders.get(&launch).is_some_and(|holder| {
            let lapsed = match holder.unobservable {
                Some(Unobservable::Vanished) => true,
                Some(Unobservable::Stopped) => holder.exit.is_some(),
                None => false,
            };
            lapsed
                && holder.life == HolderLife::Reachable
                && !holder.gone
                && holder.can_be_stopped()
        })
    }

    /// Whether a launch can be neither reached nor killed.
    pub(crate) fn is_stuck(&self, launch: LaunchId) -> bool {
        self.holders.get(&launch).is_some_and(|holder| {
            holder.unobservable.is_some()
                && holder.life == HolderLife::Reachable
                && !holder.can_be_stopped()
        })
    }

    /// Simulates a power loss: every process ends, and a journal may lose its tail.
    pub(crate) fn reboot(&mut self, rng: &mut Rng) {
        self.boot += 1;
        for holder in self.holders.values_mut().filter(|holder| !holder.gone) {
            holder.life = HolderLife::OtherBoot;
            holder.report = None;
            let lost = rng.index(4).min(holder.journal.len());
            holder.journal.truncate(holder.journal.len() - lost);
        }
        for ran in self.commands.values_mut().filter(|ran| ran.done_ms > self.now_ms) {
            ran.uncertain = true;
            ran.done_ms = self.now_ms;
        }
    }

    fn edit(&mut self, session: SessionId, good: bool) {
        let place = self.worktree(session);
        place.edits += 1;
        let no = session_no(session);
        // Worktrees of one run start from each other's trees, so the number of edits alone would not distinguish
        // them.
        let whose = place.part.map_or(String::new(), |_| format!("-{no}"));
        let tree = format!("{}-{}{whose}", if good { "good" } else { "bad" }, place.edits);
        let from = std::mem::replace(&mut place.tree, tree.clone());
        let task = place.task.clone();
        self.repo.add_tree(&from, &tree, task.as_deref());
    }

    fn worktree(&mut self, session: SessionId) -> &mut SimWorktree {
        self.worktrees.get_mut(&session).expect("every session has a worktree")
    }
}

fn draw_name(spec: &SessionSpec) -> u64 {
    let stage = spec.run.map_or("", |of| of.stage.as_str());
    hash_words(&[stage, spec.task.as_ref().map_or("", |task| task.as_str())])
}

pub(crate) fn session_no(session: SessionId) -> u64 {
    session.0.as_u64_pair().1 & 0xff
}

pub(crate) fn snapshot(tree: &str) -> Snapshot {
    Snapshot { commit: CommitId(format!("commit-of-{tree}")), tree: TreeId(tree.to_owned()) }
}
