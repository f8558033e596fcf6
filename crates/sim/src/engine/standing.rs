//! Teams on the engine's side: commands, observations, loading and checks, as in the daemon.

use provost_core::{
    ids::{SessionId, StandingId},
    session::EffectKey,
    task::{Actor, Around, Awaited, Caller, Command, Event, Rejected, Task},
    time::Moment,
};
use provost_engine::{
    board::Turn,
    stream::{self, Subject},
};
use provost_ledger::{ReadLedger, Recorded};
use serde::{Deserialize, Serialize};

use super::Engine;
use crate::{laws::Broken, standing::Pair, task_laws::TaskWatch};

/// A request about a team, with the caller's idempotency key.
#[derive(Clone, Debug)]
pub(crate) struct AskedTask {
    pub(crate) key: String,
    pub(crate) task: StandingId,
    pub(crate) by: Actor,
    pub(crate) command: Command,
}

/// The reply to a request. A successful reply is remembered under the key, and repeated for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    Refused,
    Done,
    Offered {
        no: u32,
        lease: u32,
    },
    /// The result follows later, under this number.
    Begun(Awaited),
}

#[derive(Debug)]
pub(super) struct TaskShadow {
    task: Task,
    watch: TaskWatch,
    version: u64,
}

impl Engine {
    pub(crate) fn standing(&self) -> impl Iterator<Item = &Task> {
        self.task_shadows.values().map(|shadow| &shadow.task)
    }

    pub(crate) fn task(&self, id: StandingId) -> Option<&Task> {
        self.task_shadows.get(&id).map(|shadow| &shadow.task)
    }

    /// Counts the handled instructions of members, including those that the team has forgotten.
    pub(crate) fn given(&self, id: StandingId) -> u64 {
        self.task_shadows.get(&id).map_or(0, |shadow| shadow.watch.given())
    }

    /// Opens a team with all its members, whose sessions were opened before in the same turn.
    pub(super) fn open_pair(turn: &mut Turn<'_>, pair: &Pair) -> Result<(), Broken> {
        let members = pair.members.iter().map(|(name, role, session)| Command::Bind {
            name: name.clone(),
            role: *role,
            session: *session,
            labels: Default::default(),
        });
        let commands: Vec<Command> = members.collect();
        turn.open_task(pair.id, pair.spec.clone(), &commands, "operator")
            .map_err(|why| format!("cannot open a team: {why}"))?;
        turn.follow_task(pair.id);
        Ok(())
    }

    /// Decides a request about a team, and checks the result before it is committed.
    pub(super) fn ask_task(
        &self,
        turn: &mut Turn<'_>,
        ask: &AskedTask,
    ) -> Result<(String, Reply), Broken> {
        let known = self.ledger.idempotent(&ask.key).ok().flatten();
        if let Some(reply) = known {
            let reply = serde_json::from_str(&reply).map_err(|why| why.to_string())?;
            return Ok((ask.key.clone(), reply));
        }
        let before = turn.task(ask.task).cloned();
        let reply = match turn.command_task(ask.task, &ask.by, &ask.command, ask.by.name()) {
            None => Reply::Refused,
            // Who asks for a check that runs already waits for that one.
            Some(Err(Rejected::Nothing)) if running(before.as_ref(), &ask.command).is_some() => {
                running(before.as_ref(), &ask.command).map_or(Reply::Refused, Reply::Begun)
            }
            Some(Err(_)) => {
                let after = turn.task(ask.task);
                a_refusal_leaves_no_trace(before.as_ref(), after)?;
                Reply::Refused
            }
            Some(Ok((_, events))) => {
                who_takes_has_the_lease(&ask.command, &events)?;
                what_is_blocked_is_not_sent(&ask.command, &events)?;
                let reply = events.iter().find_map(replied).unwrap_or(Reply::Done);
                let text = serde_json::to_string(&reply).map_err(|why| why.to_string())?;
                turn.remember(ask.key.clone(), text);
                reply
            }
        };
        Ok((ask.key.clone(), reply))
    }

    /// Loads everything that must be in memory when something happens to a team, as the daemon does.
    pub(super) fn bring_back_task(&mut self, id: StandingId, loaded: &mut Vec<Subject>) {
        self.bring_back(Subject::Task(id), loaded);
        for session in self.board.task(id).map(sessions).unwrap_or_default() {
            self.bring_back(Subject::Session(session), loaded);
        }
    }

    /// Does the same for a session: its teams may wake their other members.
    pub(super) fn bring_back_tasks_of(&mut self, id: SessionId, loaded: &mut Vec<Subject>) {
        for task in self.board.tasks_of(id) {
            self.bring_back_task(task, loaded);
        }
    }

    pub(super) fn judge_task_record(
        &mut self,
        id: StandingId,
        record: &Recorded,
        now: Moment,
    ) -> Result<(), Broken> {
        let event =
            Event::decode(&record.kind, record.v, &record.data).map_err(|e| e.to_string())?;
        self.note(|| format!("{:>8} task {event:?}", now.mono_ms));
        self.coverage.visit_task(&event);
        self.task_events.push((record.seq, id));
        let at = stream::to_core(record.at);
        if let Event::TaskOpened(opened) = &event {
            let task = Task::open(id, at, opened);
            let watch = TaskWatch::default();
            self.task_shadows.insert(id, TaskShadow { task, watch, version: record.version });
            return Ok(());
        }
        let shadows = &self.shadows;
        let look = |id: SessionId| shadows.get(&id).map(|shadow| &shadow.session);
        let shadow = self.task_shadows.get_mut(&id).ok_or("an event of no task")?;
        if record.version != shadow.version + 1 {
            return Err(format!("event {} follows event {}", record.version, shadow.version));
        }
        shadow.watch.before(&shadow.task, at, &record.actor, &event, look)?;
        shadow.task.evolve(at, &event);
        shadow.version = record.version;
        shadow.watch.after(&event, &shadow.task)
    }

    /// Whether an awaited result may still happen, according to the events of the team.
    pub(crate) fn is_pending(&self, id: StandingId, awaited: Awaited) -> bool {
        let shadow = self.task_shadows.get(&id);
        shadow.is_some_and(|shadow| shadow.watch.is_pending(awaited))
    }

    /// Returns the first event of a team after this one.
    pub(crate) fn task_event_after(&self, id: StandingId, seq: u64) -> Option<u64> {
        let mut events = self.task_events.iter();
        events.find(|(at, task)| *at > seq && *task == id).map(|(at, _)| *at)
    }

    /// Checks the settled teams that changed, or whose members did.
    pub(super) fn tasks_rest(&self, changed: &[Subject], now: Moment) -> Result<(), Broken> {
        let touched = |task: &Task| {
            let ids = sessions(task);
            changed.iter().any(|subject| match subject {
                Subject::Session(id) => ids.contains(id),
                Subject::Task(id) => *id == task.id,
                Subject::Run(_) => false,
            })
        };
        for shadow in self.task_shadows.values().filter(|shadow| touched(&shadow.task)) {
            self.task_rests(shadow, now)?;
        }
        Ok(())
    }

    /// Checks all teams, when the simulation is quiet.
    pub(crate) fn all_tasks_rest(&self, now: Moment) -> Result<(), Broken> {
        self.task_shadows.values().try_for_each(|shadow| self.task_rests(shadow, now))
    }

    fn task_rests(&self, shadow: &TaskShadow, now: Moment) -> Result<(), Broken> {
        let TaskShadow { task, watch, .. } = shadow;
        let look = |id: SessionId| self.shadow(id);
        let caller = Caller::default();
        if let Some(step) = task.advance(&Around { now, look: &look, caller: &caller }) {
            return Err(format!("a task is at rest, yet more follows: {step:?}"));
        }
        watch.rest(task, now, look)
    }

    /// The teams on the board are the stored ones.
    pub(super) fn tasks_are_the_same(&self) -> Result<(), Broken> {
        for shadow in self.task_shadows.values() {
            if self.board.task(shadow.task.id).is_some_and(|held| *held != shadow.task) {
                return Err("the board holds another task than was stored".to_owned());
            }
        }
        Ok(())
    }
}

/// Returns the sessions of the bound members.
pub(crate) fn sessions(task: &Task) -> Vec<SessionId> {
    let bound = task.members.iter().filter(|member| member.is_bound());
    bound.filter_map(|member| member.session).collect()
}

/// Returns the running check for a check request.
fn running(task: Option<&Task>, command: &Command) -> Option<Awaited> {
    let Command::Check { what } = command else { return None };
    task?.pending_check(what).map(|owed| Awaited::Check(owed.no))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is answered with a number")]
fn replied(event: &Event) -> Option<Reply> {
    match event {
        Event::CheckWanted(e) => Some(Reply::Begun(Awaited::Check(e.check.no))),
        Event::CheckJoined(e) => Some(Reply::Begun(Awaited::Check(e.no))),
        Event::FinishAsked(e) => Some(Reply::Begun(Awaited::Audit(e.no))),
        Event::MessageOffered(e) => Some(Reply::Offered { no: e.no, lease: e.lease.no }),
        _ => None,
    }
}

/// A refusal is recorded and changes nothing else; above all it stores no message.
fn a_refusal_leaves_no_trace(before: Option<&Task>, after: Option<&Task>) -> Result<(), Broken> {
    let (Some(before), Some(after)) = (before, after) else { return Ok(()) };
    let mut kept = before.clone();
    kept.refused.clone_from(&after.refused);
    if kept == *after { Ok(()) } else { Err("a refused command changed the team".to_owned()) }
}

/// A caller that accepts a message holds it under exactly the lease it named.
#[expect(clippy::wildcard_enum_match_arm, reason = "nothing else accepts anything")]
fn who_takes_has_the_lease(command: &Command, events: &[Event]) -> Result<(), Broken> {
    let Command::Accept { no, lease, .. } = command else { return Ok(()) };
    let accepted = events.iter().find_map(|event| match event {
        Event::MessageAccepted(e) if e.no == *no => Some(e.lease.no),
        _ => None,
    });
    if accepted.is_none_or(|held| held == *lease) {
        Ok(())
    } else {
        Err(format!("message {no} was accepted under the expired lease {lease}"))
    }
}

/// An iteration that does not start leaves no message in any inbox.
fn what_is_blocked_is_not_sent(command: &Command, events: &[Event]) -> Result<(), Broken> {
    let asked = matches!(command, Command::Continue { .. });
    let refused = events.iter().any(|event| matches!(event, Event::ContinuationRefused(_)));
    let sent = events.iter().any(|event| matches!(event, Event::MessageStored(_)));
    if asked && refused && sent {
        Err("a message of a refused continuation was stored".to_owned())
    } else {
        Ok(())
    }
}

/// A pending effect of a team, by the team and its key.
pub(crate) type TaskKey = (StandingId, EffectKey);
