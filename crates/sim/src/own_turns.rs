//! Turns that agents begin on their own, and the messages that their programs reject because of these turns.
//!
//! Like everything in a scenario, these turns depend only on the seed and on names.

use provost_core::{
    lifecycle::ClaimKind,
    session::{ReportBody, StreamSignal, TurnEnd},
};

use crate::{rng::Rng, script::AgentAction, turn_watch::TURN_ACTIVE};

/// Makes the agent begin a few turns on its own after the turn that it was asked for. The turns
/// pursue a goal, or process input that a user queued.
pub(crate) fn continued(acts: &mut Vec<AgentAction>, rng: &mut Rng) {
    let leaves = |act: &AgentAction| matches!(act, AgentAction::Exit(_) | AgentAction::CloseStream);
    let ends_well = |act: &AgentAction| {
        matches!(act, AgentAction::Line(StreamSignal::TurnEnded { end: TurnEnd::Ok, .. }))
    };
    if acts.iter().any(leaves) {
        return;
    }
    let Some(end) = acts.iter().position(ends_well) else { return };
    let goal = rng.percent(60);
    acts.truncate(end);
    acts.extend(goal.then_some(goal_line(true)));
    acts.push(turn_ended(None));
    for no in 0..=rng.below(3) {
        let turn = format!("own-{no}");
        acts.push(AgentAction::Sleep(rng.pick(&[0, 5, 700])));
        acts.push(AgentAction::BeginOwnTurn(turn.clone()));
        acts.push(AgentAction::Edit { good: true });
        acts.push(AgentAction::Sleep(rng.pick(&[0, 40, 2_500])));
        if rng.percent(30) {
            let claim = ReportBody::Claim { kind: ClaimKind::Completed, text: None };
            acts.push(AgentAction::Line(StreamSignal::Reported(claim)));
        }
        // Some goals are reached before the last turn, and some goals are never reached.
        acts.extend(rng.percent(30).then_some(goal_line(false)));
        acts.push(turn_ended(Some(turn)));
    }
    acts.extend(rng.percent(50).then_some(goal_line(false)));
}

fn goal_line(active: bool) -> AgentAction {
    AgentAction::Line(StreamSignal::Goal { active })
}

fn turn_ended(turn: Option<String>) -> AgentAction {
    AgentAction::Line(StreamSignal::TurnEnded { turn, end: TurnEnd::Ok, usage: None, says: None })
}

/// Returns the rejection of a message that arrives during a turn that the agent began on its own,
/// or just before such a turn. The agent's program rejects requests for a structured result, and
/// steers all other messages into the turn.
pub(crate) fn refusal(key: &str) -> Option<StreamSignal> {
    let reason = TURN_ACTIVE.to_owned();
    let refused = ["result-", "rework-"].iter().any(|kind| key.starts_with(kind));
    refused.then(|| StreamSignal::MessageRefused { key: key.to_owned(), reason, busy: true })
}
