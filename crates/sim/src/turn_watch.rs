//! Laws about an agent's turns. Every turn is part of the agent's work, even a turn that the agent began on its own. A
//! rejected message is not the agent's failure.

use std::collections::BTreeSet;

use provost_core::{
    ids::LaunchId,
    lifecycle::StopCause,
    limits::MAX_REFUSALS,
    session::{
        AttemptEvent, Event, InputEvent, LaunchPhase, ProcessEvent, Session, StopReason, TurnEnd,
        TurnEvent,
    },
};

/// The reason that Codex gives when it rejects a message during a turn that it began on its own.
pub(crate) const TURN_ACTIVE: &str = "ActiveTurnOutputSchemaMismatch";

/// The turns of a session, recorded to judge the events during them.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnWatch {
    /// The launches with an open turn.
    open: BTreeSet<LaunchId>,
    /// The launches that pursue a goal.
    goals: BTreeSet<LaunchId>,
    /// The launches whose next turn is due because of their goal.
    due: BTreeSet<LaunchId>,
    /// The number of messages of the current attempt that were refused.
    refusals: u32,
    /// The reason why a message was refused, if the refusal is the newest event.
    refused: Option<String>,
}

impl TurnWatch {
    /// Judges one event.
    pub(crate) fn event(
        &mut self,
        before: &Session,
        event: &Event,
        after: &Session,
    ) -> Result<(), String> {
        self.own_turns_are_work(before, event)?;
        self.refusals_fail_nothing(before, event, after)?;
        self.note(before, event);
        Ok(())
    }

    /// Every turn is part of the agent's work, even a turn that the agent began on its own. During a turn, and while
    /// the next turn of a goal is due, the attempt is not sealed, and the agent is neither asked for its result nor
    /// stopped because it has no result.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the law is about these events only")]
    fn own_turns_are_work(&self, before: &Session, event: &Event) -> Result<(), String> {
        let attempt = before.attempt();
        let action = match event {
            Event::Attempt(AttemptEvent::AttemptSealed(_))
                if attempt.superseded || attempt.is_decided() =>
            {
                return Ok(());
            }
            Event::Attempt(AttemptEvent::AttemptSealed(_)) => "sealed",
            Event::Attempt(AttemptEvent::ResultRequested(_)) => "asked for its result",
            Event::Process(ProcessEvent::StopRequested(e)) if e.why == StopReason::Unclaimed => {
                "ended"
            }
            _ => return Ok(()),
        };
        let Some(launch) = before.current_launch() else { return Ok(()) };
        let (stream, running) =
            (&launch.stream, matches!(launch.phase, LaunchPhase::Running { .. }));
        let speaks = stream.closed.is_none() && !stream.silent;
        let works = running && speaks && launch.stop.is_none();
        if works && self.open.contains(&launch.id) {
            return Err(format!("{} is {action} in the middle of a turn", launch.id));
        }
        if works && self.due.contains(&launch.id) {
            return Err(format!("{} is {action}, and pursues a goal", launch.id));
        }
        Ok(())
    }

    /// A message that the agent's program rejects because of a turn is not the agent's failure. It does not end the
    /// attempt until messages have been rejected too often.
    fn refusals_fail_nothing(
        &self,
        before: &Session,
        event: &Event,
        after: &Session,
    ) -> Result<(), String> {
        let (was, is) = (before.attempt(), after.attempt());
        match (event, &self.refused) {
            (Event::Input(InputEvent::MessageRefused(_)), _) if was.claim != is.claim => {
                Err("a refused message was treated as a claim of the agent".to_owned())
            }
            (Event::Attempt(AttemptEvent::AttemptStopped(e)), Some(reason))
                if e.cause == StopCause::Launch
                    && reason == TURN_ACTIVE
                    && self.refusals < MAX_REFUSALS =>
            {
                Err("the attempt failed because a turn blocked a message".to_owned())
            }
            _ => Ok(()),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "no other event is about turns")]
    fn note(&mut self, before: &Session, event: &Event) {
        self.refused = None;
        match event {
            Event::Attempt(AttemptEvent::AttemptOpened(_)) => self.refusals = 0,
            // Ignore signals from before the start of the process, because they do not concern its turns.
            Event::Process(ProcessEvent::LaunchStarted(e)) => self.forget_launch(e.launch),
            Event::Process(ProcessEvent::LaunchAdopted(e)) => self.forget_launch(e.launch),
            Event::Turn(TurnEvent::TurnStarted(e)) => {
                self.open.insert(e.launch);
                self.due.remove(&e.launch);
            }
            Event::Turn(TurnEvent::TurnEnded(e)) => {
                self.open.remove(&e.launch);
                self.due.remove(&e.launch);
                let next = e.end == TurnEnd::Ok && self.goals.contains(&e.launch);
                self.expect(before, e.launch, next);
            }
            Event::Turn(TurnEvent::GoalChanged(e)) if e.active => {
                self.goals.insert(e.launch);
                let idle = !self.open.contains(&e.launch);
                self.expect(before, e.launch, idle);
            }
            Event::Turn(TurnEvent::GoalChanged(e)) => self.forget_goal(e.launch),
            Event::Turn(TurnEvent::TurnMissing(e)) => self.forget_goal(e.launch),
            // The message begins the next turn.
            Event::Input(InputEvent::MessageDelivered(_)) => self.due.clear(),
            Event::Input(InputEvent::MessageRefused(e)) => {
                self.refusals += 1;
                self.refused = Some(e.reason.clone());
            }
            _ => {}
        }
    }

    fn expect(&mut self, before: &Session, launch: LaunchId, next: bool) {
        if next && !before.attempt().is_sealed() && before.spec.agent.interface.takes_instructions()
        {
            self.due.insert(launch);
        }
    }

    fn forget_launch(&mut self, launch: LaunchId) {
        self.open.remove(&launch);
        self.forget_goal(launch);
    }

    fn forget_goal(&mut self, launch: LaunchId) {
        self.goals.remove(&launch);
        self.due.remove(&launch);
    }
}
