//! Turns that agents begin by themselves, and the messages that their program refuses meanwhile: what agents do, and the
//! laws of it.
//!
//! As everything that is made up, it depends on the seed and on names only.

use std::collections::BTreeSet;

use provost_core::{
    ids::LaunchId,
    lifecycle::ClaimKind,
    limits::MAX_REFUSALS,
    session::{Event, LaunchPhase, Session, Signal, StopWhy, Testimony, TurnEnd},
};

use crate::{laws::Broken, rng::Rng, script::Act};

/// What Codex says of a message that its own turn is in the way of.
const TURN_IN_THE_WAY: &str = "ActiveTurnOutputSchemaMismatch";

/// Lets the agent begin a few more turns by itself after the one that it was asked for: for a goal, or for input that a
/// user queued.
pub(crate) fn continued(acts: &mut Vec<Act>, rng: &mut Rng) {
    let leaves = |act: &Act| matches!(act, Act::Exit(_) | Act::CloseStream);
    let ends_well =
        |act: &Act| matches!(act, Act::Line(Signal::TurnEnded { end: TurnEnd::Ok, .. }));
    let Some(end) = acts.iter().position(ends_well).filter(|_| !acts.iter().any(leaves)) else {
        return;
    };
    let goal = rng.percent(60);
    acts.truncate(end);
    acts.extend(goal.then_some(goal_line(true)));
    acts.push(turn_ended(None));
    for no in 0..=rng.below(3) {
        let turn = format!("own-{no}");
        acts.push(Act::Sleep(rng.pick(&[0, 5, 700])));
        acts.push(Act::BeginOwnTurn(turn.clone()));
        acts.push(Act::Edit { good: true });
        acts.push(Act::Sleep(rng.pick(&[0, 40, 2_500])));
        if rng.percent(30) {
            let claim = Testimony::Claim { kind: ClaimKind::Completed, text: None };
            acts.push(Act::Line(Signal::Said(claim)));
        }
        // Some goals are reached before the last turn, and some never.
        acts.extend(rng.percent(30).then_some(goal_line(false)));
        acts.push(turn_ended(Some(turn)));
    }
    acts.extend(rng.percent(50).then_some(goal_line(false)));
}

fn goal_line(active: bool) -> Act {
    Act::Line(Signal::Goal { active })
}

fn turn_ended(turn: Option<String>) -> Act {
    Act::Line(Signal::TurnEnded { turn, end: TurnEnd::Ok, usage: None, says: None })
}

/// What the agent's program says of a message that comes in such a turn, or just before it. It steers others into the
/// turn, but not a question that has a form for its answer.
pub(crate) fn refusal(key: &str) -> Option<Signal> {
    let reason = TURN_IN_THE_WAY.to_owned();
    let refused = ["result-", "rework-"].iter().any(|kind| key.starts_with(kind));
    refused.then(|| Signal::MessageRefused { key: key.to_owned(), reason, busy: true })
}

/// What must be remembered of a session's turns to judge what is done meanwhile.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnWatch {
    /// The launches with a turn that was begun and not ended.
    open: BTreeSet<LaunchId>,
    /// The launches that pursue a goal.
    goals: BTreeSet<LaunchId>,
    /// The launches whose next turn is due because of their goal.
    due: BTreeSet<LaunchId>,
    /// How many messages of the current attempt were refused.
    refusals: u32,
    /// Why a message was refused, if that is the newest event.
    refused: Option<String>,
}

impl TurnWatch {
    /// Judges one event.
    pub(crate) fn event(
        &mut self,
        before: &Session,
        event: &Event,
        after: &Session,
    ) -> Result<(), Broken> {
        self.own_turns_are_work(before, event)?;
        self.refusals_fail_nothing(before, event, after)?;
        self.note(before, event);
        Ok(())
    }

    /// A turn is the agent's work, whoever began it: meanwhile it is neither sealed, nor asked for a result, nor ended
    /// for having none. The same while the next turn of a goal is due.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the law is about these events only")]
    fn own_turns_are_work(&self, before: &Session, event: &Event) -> Result<(), Broken> {
        let attempt = before.attempt();
        let action = match event {
            Event::AttemptSealed(_) if attempt.superseded || attempt.is_decided() => return Ok(()),
            Event::AttemptSealed(_) => "sealed",
            Event::ResultAsked(_) => "asked for its result",
            Event::StopAsked(e) if e.why == StopWhy::Unclaimed => "ended",
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

    /// A message that the agent's program refuses because of a turn is not the agent's failure, and ends nothing until it
    /// was refused again and again.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the law is about these events only")]
    fn refusals_fail_nothing(
        &self,
        before: &Session,
        event: &Event,
        after: &Session,
    ) -> Result<(), Broken> {
        let (was, is) = (before.attempt(), after.attempt());
        match (event, &self.refused) {
            (Event::MessageRefused(_), _) if was.claim != is.claim => {
                Err("a message was refused, and that is taken for a claim of the agent".to_owned())
            }
            (Event::AttemptStopped(_), Some(reason))
                if reason == TURN_IN_THE_WAY && self.refusals < MAX_REFUSALS =>
            {
                Err("a message was refused because of a turn, and the attempt failed".to_owned())
            }
            _ => Ok(()),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "no other event is about turns")]
    fn note(&mut self, before: &Session, event: &Event) {
        self.refused = None;
        match event {
            Event::AttemptOpened(_) => self.refusals = 0,
            Event::TurnStarted(e) => {
                self.open.insert(e.launch);
                self.due.remove(&e.launch);
            }
            Event::TurnEnded(e) => {
                self.open.remove(&e.launch);
                let next = e.end == TurnEnd::Ok && self.goals.contains(&e.launch);
                self.expect(before, e.launch, next);
            }
            Event::GoalChanged(e) if e.active => {
                self.goals.insert(e.launch);
                let idle = !self.open.contains(&e.launch);
                self.expect(before, e.launch, idle);
            }
            Event::GoalChanged(e) => self.forget_goal(e.launch),
            Event::TurnMissing(e) => self.forget_goal(e.launch),
            // It begins the next turn.
            Event::MessageDelivered(_) => self.due.clear(),
            Event::MessageRefused(e) => {
                self.refusals += 1;
                self.refused = Some(e.reason.clone());
            }
            _ => {}
        }
    }

    fn expect(&mut self, before: &Session, launch: LaunchId, next: bool) {
        if next && !before.attempt().is_sealed() && before.spec.agent.driver.has_protocol() {
            self.due.insert(launch);
        }
    }

    fn forget_goal(&mut self, launch: LaunchId) {
        self.goals.remove(&launch);
        self.due.remove(&launch);
    }
}
