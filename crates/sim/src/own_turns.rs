//! Turns that agents begin by themselves, and the messages that their program refuses meanwhile.
//!
//! Like the rest of a scenario, they depend on the seed and on names only.

use provost_core::{
    lifecycle::ClaimKind,
    session::{Signal, Testimony, TurnEnd},
};

use crate::{rng::Rng, script::Act, turn_watch::TURN_ACTIVE};

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
    let reason = TURN_ACTIVE.to_owned();
    let refused = ["result-", "rework-"].iter().any(|kind| key.starts_with(kind));
    refused.then(|| Signal::MessageRefused { key: key.to_owned(), reason, busy: true })
}
