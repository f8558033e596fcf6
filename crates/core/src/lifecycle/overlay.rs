//! The overlay: decisions by users and by Provost that take precedence over the table.

use serde::{Deserialize, Serialize};

use super::state::{Cause, Flag, Judgement, Rule, State};

/// The reason why Provost itself ended an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    Timeout,
    Budget,
    Launch,
}

impl StopCause {
    fn cause(self) -> Cause {
        match self {
            StopCause::Timeout => Cause::Timeout,
            StopCause::Budget => Cause::Budget,
            StopCause::Launch => Cause::Launch,
        }
    }
}

/// A decision or condition that overrides the table, strongest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateOverlay {
    Resolved(State, Option<Cause>),
    Cancelled,
    Superseded,
    Stopped(StopCause),
    BlockingRequest,
    /// The agent exited at a usage limit and is resumed once the limit has passed.
    Limited,
    /// A check that determines the outcome is pending or running. The outcome is not final until
    /// the check ends.
    Verifying,
    /// The tree kept changing during verification.
    MovingTree,
    /// The user stopped the process, or the team finished. Work that was already claimed still counts.
    Ended,
    None,
}

/// Applies the overlay to the judgement from the table.
pub fn apply_overlay(overlay: &StateOverlay, found: Judgement) -> Judgement {
    match overlay {
        StateOverlay::Resolved(state, cause) => {
            Judgement { cause: *cause, ..Judgement::new(*state, Rule::Resolved) }
        }
        StateOverlay::Cancelled => Judgement::new(State::Cancelled, Rule::Cancelled),
        StateOverlay::Superseded => Judgement::new(State::Superseded, Rule::Superseded),
        StateOverlay::Stopped(why) => {
            Judgement::new(State::Failed, Rule::Stopped).because(why.cause())
        }
        StateOverlay::BlockingRequest => Judgement::new(State::NeedsInput, Rule::Request)
            .with(found.flags.into_iter().filter(|flag| *flag == Flag::LivenessUnknown)),
        StateOverlay::Limited => Judgement::new(State::Working, Rule::Limited),
        StateOverlay::Verifying => Judgement {
            state: State::Verifying,
            cause: None,
            flags: found.flags,
            rule: Rule::Verifying,
        },
        StateOverlay::MovingTree if found.is_terminal() => {
            Judgement::new(State::Disputed, Rule::MovingTree).with([Flag::MovingTree])
        }
        StateOverlay::Ended if is_unclaimed_end(&found) => {
            Judgement { state: State::Stopped, cause: None, flags: found.flags, rule: Rule::Ended }
        }
        StateOverlay::MovingTree | StateOverlay::Ended | StateOverlay::None => found,
    }
}

/// Whether the process exited cleanly without claiming an outcome.
fn is_unclaimed_end(found: &Judgement) -> bool {
    matches!(found.rule, Rule::X12 | Rule::X13 | Rule::X14)
}
