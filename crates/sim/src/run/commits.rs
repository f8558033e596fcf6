//! Commits pending inputs, and reacts to what was committed.

use provost_core::{
    ids::SessionId,
    lifecycle::State,
    session::{AttemptEvent, Event, Reporter, SessionChange, SessionCommand, StreamEvent},
};

use super::Sim;
use crate::{
    engine::{CommitResult, EngineInput, ObservationSource},
    session_laws::BrokenLaw,
};

impl Sim {
    /// Commits a few of the owner's pending inputs. They may come from any source, but the inputs
    /// of one source stay in order.
    pub(super) fn commit_pending(&mut self) -> Result<(), BrokenLaw> {
        let (mut inputs, mut taken) = (Vec::new(), Vec::new());
        for _ in 0..=self.rng.below(self.batch) {
            let any = self.engine.observations.len() + usize::from(!self.requests.is_empty());
            if any == 0 {
                break;
            }
            let at = self.rng.index(any);
            match self.engine.observations.keys().nth(at).cloned() {
                None => {
                    let asked = self.requests.pop_front();
                    inputs.extend(asked.clone());
                    taken.push((None, asked));
                }
                Some(source) => {
                    let observed = self.take_observation(&source);
                    if self.faults.repeats && self.rng.percent(4) {
                        inputs.push(observed.clone());
                    }
                    inputs.push(observed.clone());
                    taken.push((Some(source), Some(observed)));
                }
            }
        }
        if self.faults.repeats && self.rng.percent(3) && !self.receipts.is_empty() {
            let (session, receipt) = self.rng.pick(&self.receipts);
            inputs.push(EngineInput::Observation(session, receipt));
        }
        if self.faults.repeats && !self.past_observations.is_empty() && self.rng.percent(15) {
            inputs.push(self.rng.pick(&self.past_observations));
        }
        inputs.extend(self.late_look());
        if self.faults.unobservable && self.rng.percent(20) {
            inputs.push(EngineInput::Deadline);
        }
        self.commit(inputs, taken)
    }

    fn take_observation(&mut self, source: &ObservationSource) -> EngineInput {
        let queue = self.engine.observations.get_mut(source).expect("the source was just listed");
        let input = queue.pop_front().expect("an empty queue is removed");
        if queue.is_empty() {
            self.engine.observations.remove(source);
        }
        input
    }

    pub(super) fn commit(
        &mut self,
        inputs: Vec<EngineInput>,
        taken: Vec<(Option<ObservationSource>, Option<EngineInput>)>,
    ) -> Result<(), BrokenLaw> {
        if self.faults.append_failures && self.rng.permille(8) {
            self.engine.ledger.fail_next(1);
        }
        let point = self.crash_point();
        self.commits += 1;
        let went = self.engine.commit_inputs(self.now(), &inputs, point)?;
        self.engine.ledger.fail_next(0);
        match went {
            CommitResult::Committed => self.release_reporters(&inputs),
            CommitResult::AppendFailed => self.requeue(taken, true),
            CommitResult::Crashed => {
                self.requeue(taken, false);
                self.crash()?;
            }
        }
        self.apply_committed()
    }

    fn release_reporters(&mut self, inputs: &[EngineInput]) {
        for input in inputs {
            if let EngineInput::Request { command: SessionCommand::Report { from, .. }, .. } = input
                && let Reporter::Launch(launch) = from
                && let Some(holder) = self.world.holders.get_mut(launch)
            {
                holder.reporting = false;
            }
        }
    }

    /// Requeues inputs that could not be written. Callers retry their requests, and the owner retries its observations.
    fn requeue(
        &mut self,
        taken: Vec<(Option<ObservationSource>, Option<EngineInput>)>,
        alive: bool,
    ) {
        for (source, input) in taken.into_iter().rev() {
            match (source, input) {
                (None, Some(asked)) => self.requests.push_front(asked),
                (Some(source), Some(observed)) if alive => {
                    self.engine.observations.entry(source).or_default().push_front(observed);
                }
                (_, _) => {}
            }
        }
    }

    /// Applies the newly committed events to the world.
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other event matters to the world")]
    pub(super) fn apply_committed(&mut self) -> Result<(), BrokenLaw> {
        for (id, event) in std::mem::take(&mut self.engine.fresh_events) {
            match event {
                Event::Session(SessionChange::SessionOpened(opened)) => {
                    self.world.add_worktree(id, &opened.spec)
                }
                Event::Attempt(AttemptEvent::TaskAssigned(assigned)) => {
                    self.world.assign(id, &assigned.assignment)
                }
                Event::Stream(StreamEvent::LimitRaised(_)) => {
                    let ours = self.world.holders.values_mut().filter(|h| h.launch.session == id);
                    ours.for_each(|holder| holder.at_limit = false);
                }
                Event::Attempt(AttemptEvent::AttemptSealed(e))
                    if e.sealed.judgement.state == State::Succeeded =>
                {
                    self.success_is_true(id)?;
                }
                _ => {}
            }
        }
        for (id, event) in std::mem::take(&mut self.engine.fresh_run_events) {
            self.check_run_event(id, &event)?;
        }
        self.deliver_replies()
    }

    /// Checks that the tree in the simulated world was good, and that it was snapshotted after the
    /// last check.
    fn success_is_true(&self, id: SessionId) -> Result<(), BrokenLaw> {
        let place = &self.world.worktrees[&id];
        let (Some((looked, seen)), Some((checked, tree))) = (&place.snapshotted, &place.checked)
        else {
            return Err("succeeded without a snapshot or a check".to_owned());
        };
        if !tree.starts_with("good") {
            return Err(format!("succeeded on {tree}, which no check passes"));
        }
        if looked > checked && seen == tree {
            Ok(())
        } else {
            Err("succeeded without a snapshot after the checks".to_owned())
        }
    }
}
