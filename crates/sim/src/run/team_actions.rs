//! Teams: the actions of users and members, the consumers of messages, and pending effects.

mod user_actions;

use provost_core::{
    ids::{SessionId, TeamId},
    session::enter_retry_key,
    team::{Team, TeamActor, TeamCommand, TeamEffect},
    verdict::{CheckEnd, Receipt},
    wait::{Wait, WaitStatus},
};

use super::Sim;
use crate::{
    engine::{
        CrashPoint, EngineInput, ObservationSource, SimTeamReply, SimTeamRequest, TeamEffectKey,
    },
    screen::USER_TEXT,
    session_laws::BrokenLaw,
    team::{Consumer, HeldMessage, TeamWaiter},
};

impl Sim {
    pub(super) fn ask_task(&mut self, task: TeamId, by: TeamActor, command: TeamCommand) -> String {
        self.request_count += 1;
        let key = format!("ask-{}", self.request_count);
        let ask = SimTeamRequest { key: key.clone(), task, by, command };
        self.requests.push_back(EngineInput::TeamRequest(Box::new(ask)));
        key
    }

    /// Rechecks the teams, which may have missed due effects while no engine ran.
    pub(super) fn recheck_teams(&mut self) -> Result<(), BrokenLaw> {
        let open: Vec<TeamId> = self.engine.board.teams.iter().map(|task| task.id).collect();
        for id in open {
            let look = EngineInput::TeamObservation(id, TeamCommand::Tick);
            self.engine.commit_inputs(self.now(), &[look], CrashPoint::Nowhere)?;
        }
        Ok(())
    }

    /// Returns the text of a team's message to a session. Messages from users always have the same text.
    pub(super) fn text_of(&self, session: SessionId, key: &str) -> String {
        let session =
            if key.starts_with("team-") { self.engine.board.session(session) } else { None };
        let mut sent = session.into_iter().flat_map(|session| &session.input.messages);
        let named =
            sent.find(|message| message.write_key() == key || enter_retry_key(&message.key) == key);
        named.map_or_else(|| USER_TEXT.to_owned(), |message| message.text.clone())
    }

    // Consumers of messages.

    /// Returns the consumers that can act, because they hold a message or a message is waiting for them.
    pub(super) fn ready_consumers(&self) -> Vec<usize> {
        let now = self.world.now_ms;
        let free = |taker: &Consumer| taker.pending_key.is_none() && taker.wake_ms <= now;
        let takers = self.consumers.iter().enumerate().filter(|(_, taker)| free(taker));
        let busy = takers.filter(|(_, taker)| match taker.held {
            HeldMessage::Nothing => taker.pulls_eagerly && self.has_waiting_message(taker),
            HeldMessage::Offered(..) | HeldMessage::Accepted(..) => true,
        });
        busy.map(|(at, _)| at).collect()
    }

    fn has_waiting_message(&self, taker: &Consumer) -> bool {
        let Some(task) = self.engine.team(taker.task) else { return false };
        let now = self.now();
        let mut waiting = task.messages.iter().filter(|message| message.is_available(now));
        !task.is_paused() && waiting.any(|message| message.to.name() == taker.consumer)
    }

    /// Returns the time at which a sleeping consumer wakes up or a waiter starts to wait.
    pub(super) fn next_consumer_ms(&self) -> Option<u64> {
        let now = self.world.now_ms;
        let takers = self.consumers.iter().map(|taker| taker.wake_ms);
        let waiters = self.waiters.iter().map(|waiter| waiter.begin_ms);
        takers.chain(waiters).filter(|wake| *wake > now).min()
    }

    /// Makes a consumer take its next step, exit, return its message, or sleep.
    pub(super) fn step_consumer(&mut self, at: usize) {
        let Consumer { task, consumer, never_fails: steady, held: holds, .. } =
            self.consumers[at].clone();
        // In a scenario with many consumers, the consumer may have sent a request in the meantime.
        if self.consumers[at].pending_key.is_some() {
            return;
        }
        let chance = if steady { 0 } else { self.rng.below(100) };
        let command = match (holds, chance) {
            (HeldMessage::Nothing, _) => TeamCommand::Next { consumer: consumer.clone() },
            (HeldMessage::Offered(no, lease), 0..64) => TeamCommand::Accept { no, lease, polls: 0 },
            (HeldMessage::Accepted(no, lease), 0..64) => {
                TeamCommand::Acknowledge { no, lease, note: None }
            }
            (HeldMessage::Offered(no, lease) | HeldMessage::Accepted(no, lease), 64..71) => {
                // Regardless of the result, the consumer no longer holds the message.
                self.consumers[at].held = HeldMessage::Nothing;
                TeamCommand::Release { no, lease, reason: "not now".to_owned() }
            }
            (HeldMessage::Offered(..) | HeldMessage::Accepted(..), 71..78) => {
                self.consumers[at].held = HeldMessage::Nothing;
                return;
            }
            (HeldMessage::Offered(..) | HeldMessage::Accepted(..), _) => {
                let sleeps = self.sleep_ms(task, holds);
                self.consumers[at].wake_ms = self.world.now_ms + sleeps;
                return;
            }
        };
        let by = match consumer.as_str() {
            "operator" => TeamActor::Operator,
            _ => TeamActor::Member(consumer),
        };
        self.consumers[at].pending_key = Some(self.ask_task(task, by, command));
    }

    /// Returns how long a consumer sleeps: a while, or exactly as long as its lease.
    fn sleep_ms(&mut self, task: TeamId, holds: HeldMessage) -> u64 {
        let bounds = self.engine.team(task).map(|task| &task.spec.bounds);
        let own = bounds.map_or(0, |bounds| match holds {
            HeldMessage::Nothing | HeldMessage::Offered(..) => bounds.offer_ms,
            HeldMessage::Accepted(..) => bounds.lease_ms,
        });
        self.rng.pick(&[30, 150, own, own + 1, own + 5])
    }

    /// Delivers replies to callers. At most one consumer handles each message.
    pub(super) fn deliver_replies(&mut self) -> Result<(), BrokenLaw> {
        for (key, reply) in std::mem::take(&mut self.engine.replies) {
            if let (SimTeamReply::Begun(awaited), Some(task)) =
                (reply, self.awaited_requests.remove(&key))
            {
                let waiter = TeamWaiter { task, awaited, begin_ms: 0, wait: None, answered: false };
                // Some callers repeat the request under the same key much later, and get the same reply.
                let begin_ms = self.world.now_ms + self.rng.below(40_000);
                let later = self.rng.percent(50).then(|| TeamWaiter { begin_ms, ..waiter.clone() });
                self.waiters.extend([waiter].into_iter().chain(later));
                continue;
            }
            let Some(taker) =
                self.consumers.iter_mut().find(|one| one.pending_key.as_ref() == Some(&key))
            else {
                continue;
            };
            taker.pending_key = None;
            let task = taker.task;
            taker.held = match (taker.held, reply) {
                (HeldMessage::Nothing, SimTeamReply::Offered { no, lease }) => {
                    HeldMessage::Offered(no, lease)
                }
                (HeldMessage::Offered(no, lease), SimTeamReply::Done) => {
                    HeldMessage::Accepted(no, lease)
                }
                (HeldMessage::Accepted(no, _), SimTeamReply::Done) => {
                    if !self.handled.insert((task, no)) {
                        return Err(format!("message {no} was handled twice"));
                    }
                    HeldMessage::Nothing
                }
                (_, _) => HeldMessage::Nothing,
            };
        }
        Ok(())
    }

    // Waiters.

    /// Returns the waiters that can act: to start, to judge the state, or to receive an event.
    pub(super) fn ready_waiters(&self) -> Vec<usize> {
        let busy = |waiter: &TeamWaiter| match &waiter.wait {
            _ if waiter.answered => false,
            None => waiter.begin_ms <= self.world.now_ms,
            Some(wait) => {
                wait.is_due() || self.engine.team_event_after(waiter.task, wait.since()).is_some()
            }
        };
        let waiters = self.waiters.iter().enumerate().filter(|(_, waiter)| busy(waiter));
        waiters.map(|(at, _)| at).collect()
    }

    /// Makes a waiter take its next step, as the command line does while it waits.
    pub(super) fn step_waiter(&mut self, at: usize) {
        let waiter = &mut self.waiters[at];
        let Some(wait) = &mut waiter.wait else {
            waiter.wait = Some(Wait::begin(self.engine.events));
            return;
        };
        if wait.is_due() {
            let task = self.engine.team(waiter.task);
            let status = task.map(|task| task.wait_status(waiter.awaited));
            waiter.answered = !matches!(status, Some(WaitStatus::Pending));
            wait.mark_evaluated();
        } else if let Some(seq) = self.engine.team_event_after(waiter.task, wait.since()) {
            wait.record_event(seq);
        }
    }

    /// Every waiter is answered once its event has happened or is impossible, or once the team is over.
    pub(super) fn waits_were_answered(&self) -> Result<(), BrokenLaw> {
        let mut open = self.waiters.iter().filter(|waiter| !waiter.answered);
        match open.find(|waiter| !self.engine.is_pending(waiter.task, waiter.awaited)) {
            Some(waiter) => Err(format!("a caller waits forever for {:?}", waiter.awaited)),
            None => Ok(()),
        }
    }

    // Pending effects of teams.

    pub(super) fn can_team_effect_continue(&self, key: &TeamEffectKey) -> bool {
        let mut ran = self.world.commands.iter().filter(|((id, name), _)| {
            *id == SessionId(key.0.0) && name.starts_with(&format!("{}-", key.1))
        });
        ran.all(|(_, ran)| ran.done_ms <= self.world.now_ms)
    }

    /// Runs a check on a worker's current tree. The result of the check is observed later, or never.
    pub(super) fn execute_team_effect(&mut self, key: &TeamEffectKey) -> Result<(), BrokenLaw> {
        let Some(TeamEffect::RunCheck(check)) = self.engine.team_effects.get(key).cloned() else {
            return Ok(());
        };
        let worker = self.engine.team(key.0).and_then(|task| task.member(&check.worker)?.session);
        let tree = self.world.tree_of(worker);
        // The key includes the tree, so that a result on another tree is not reused.
        let at = (SessionId(key.0.0), format!("{}-{tree}", key.1));
        let Some(uncertain) = self.ran(&at, &format!("{} on {tree}", check.command))? else {
            return Ok(());
        };
        let end = match (uncertain, tree.starts_with("good")) {
            (true, _) => CheckEnd::Unfinished("power".to_owned()),
            (false, true) => CheckEnd::Exit(0),
            (false, false) => CheckEnd::Exit(1),
        };
        let receipt = Receipt {
            command: check.command,
            tree: provost_core::ids::TreeId(tree),
            end,
            duration_ms: 1,
            output_digest: String::new(),
            output: String::new(),
            tail: String::new(),
            warm: false,
            environment: None,
            overlay: None,
        };
        let done =
            TeamCommand::CheckDone { no: check.no, receipt: Box::new(receipt), compared: None };
        self.engine.team_effects.remove(key);
        let input = EngineInput::TeamObservation(key.0, done);
        self.past_observations.push(input.clone());
        self.engine
            .observations
            .entry(ObservationSource::Effect(key.0.into(), key.1.clone()))
            .or_default()
            .push_back(input);
        Ok(())
    }

    // Actions of users and members.

    // Conditions at the end.

    /// Checks that no message is waiting for a consumer that pulls whenever a message is available.
    pub(super) fn messages_were_taken(&self) -> Result<(), BrokenLaw> {
        self.engine.check_all_teams(self.now())?;
        self.waits_were_answered()?;
        for taker in self.consumers.iter().filter(|taker| taker.pulls_eagerly) {
            // Messages held when the team ended stay with their holders. A law of the team covers
            // all other messages.
            let continues = |task: &&Team| !task.is_paused() && !task.phase.is_over();
            let Some(task) = self.engine.team(taker.task).filter(continues) else { continue };
            let mut open = task.messages.iter().filter(|message| !message.status.is_over());
            if let Some(message) = open.find(|message| message.to.name() == taker.consumer) {
                return Err(format!(
                    "message {} stays {} forever",
                    message.no,
                    message.status.as_str()
                ));
            }
        }
        Ok(())
    }

    pub(super) fn cancel_tasks(&mut self) {
        let open = self.engine.teams().filter(|task| !task.phase.is_over());
        let because = "the story ends".to_owned();
        for id in Vec::from_iter(open.map(|task| task.id)) {
            self.ask_task(
                id,
                TeamActor::Operator,
                TeamCommand::Cancel { because: because.clone() },
            );
        }
    }

    pub(super) fn tasks_have_ended(&self) -> Result<(), BrokenLaw> {
        self.waits_were_answered()?;
        let mut open = self.engine.teams().filter(|task| !task.is_closed());
        // In a calm scenario no team is cancelled.
        match open.find(|_| !self.faults.calm) {
            Some(task) => Err(format!("a cancelled team is {}", task.phase.as_str())),
            None => Ok(()),
        }
    }
}
