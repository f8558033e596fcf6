//! Hooks: commands that the project wants to run on certain events. Each hook runs once per event.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{event::HookFinished, state::Session};
use crate::{
    lifecycle::{Cause, State},
    limits::MAX_HOOKS_KEPT,
    rules::rules,
    time::Moment,
};

/// An event for which a hook can be configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum HookEvent {
    Opened,
    Started,
    LateClaim,
    /// A reaction was carried out.
    Reaction,
    /// The session entered a live state, or a terminal state was sealed.
    State(State),
}

impl HookEvent {
    /// Returns every event for which a hook can be configured.
    pub fn all() -> Vec<HookEvent> {
        let states = State::ALL.iter().copied().filter_map(HookEvent::for_state);
        [HookEvent::Opened, HookEvent::Started, HookEvent::LateClaim, HookEvent::Reaction]
            .into_iter()
            .chain(states)
            .collect()
    }

    /// Returns the hook event for a state. Transient states have none.
    pub fn for_state(state: State) -> Option<HookEvent> {
        match state {
            State::Working | State::Idle | State::Finishing | State::Verifying => None,
            State::NeedsInput
            | State::Rework
            | State::Stalled
            | State::Lost
            | State::Succeeded
            | State::Completed
            | State::Accepted
            | State::Failed
            | State::ExitedWithoutClaim
            | State::Stopped
            | State::Disputed
            | State::Cancelled
            | State::Superseded => Some(HookEvent::State(state)),
        }
    }

    /// Describes the event in a sentence about the session, without a capital letter and a period.
    pub fn meaning(self) -> &'static str {
        match self {
            HookEvent::Opened => "it was opened",
            HookEvent::Started => "its process was started",
            HookEvent::LateClaim => "it made a claim after its outcome was sealed",
            HookEvent::Reaction => "a reaction was carried out",
            HookEvent::State(state) => state.meaning(),
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            HookEvent::Opened => "opened",
            HookEvent::Started => "started",
            HookEvent::LateClaim => "late_claim",
            HookEvent::Reaction => "reaction",
            HookEvent::State(state) => state.as_str(),
        }
    }
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session.{}", self.as_str())
    }
}

impl From<HookEvent> for String {
    fn from(event: HookEvent) -> String {
        event.to_string()
    }
}

impl FromStr for HookEvent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        HookEvent::all()
            .into_iter()
            .find(|event| event.to_string() == text)
            .ok_or_else(|| format!("\"{text}\" is not a hook"))
    }
}

impl TryFrom<String> for HookEvent {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Identifies one execution of a hook. A hook runs only once per key, even across crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HookKey {
    pub event: HookEvent,
    pub no: u32,
}

/// A pending hook, with the session's state at the time when the hook became due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingHook {
    pub key: HookKey,
    pub attempt: u32,
    pub state: State,
    pub cause: Option<Cause>,
    /// The reaction that triggered the hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reaction: Option<String>,
    pub at: Moment,
}

/// The result of a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookEnd {
    Exit(i32),
    Signal(i32),
    TimeLimit,
    OutputLimit,
    /// The hook never ran, for example because its program or directory is missing.
    NotStarted(String),
    /// The hook may have run, but its holder died. It is not retried.
    Uncertain(String),
}

/// A finished hook, kept for display.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishedHook {
    pub key: HookKey,
    pub end: HookEnd,
}

/// The hooks of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookLog {
    #[serde(rename = "hooks")]
    pub pending: Vec<PendingHook>,
    #[serde(rename = "hooks_fired")]
    pub fired: BTreeMap<HookEvent, u32>,
    /// The hooks that finished most recently, at most [`MAX_HOOKS_KEPT`].
    #[serde(rename = "hooks_ended")]
    pub ended: Vec<FinishedHook>,
}

/// Tracks the hooks that are pending.
impl Session {
    pub(super) fn queue_state_hook(&mut self, state: State, at: Moment) {
        if let Some(event) = HookEvent::for_state(state) {
            self.queue_hook(event, at);
        }
    }

    pub(super) fn queue_hook(&mut self, event: HookEvent, at: Moment) {
        self.queue_reaction_hook(event, None, at);
    }

    pub(super) fn queue_reaction_hook(
        &mut self,
        event: HookEvent,
        reaction: Option<String>,
        at: Moment,
    ) {
        if !self.spec.hooks.contains_key(&event) {
            return;
        }
        let no = self.hook_log.fired.entry(event).or_default();
        *no = rules().next_session_hook(*no);
        let key = HookKey { event, no: *no };
        let judgement = self.judgement();
        self.hook_log.pending.push(PendingHook {
            key,
            attempt: self.attempt().no,
            state: judgement.state,
            cause: judgement.cause,
            reaction,
            at,
        });
    }

    pub(super) fn finish_hook(&mut self, e: &HookFinished) {
        self.hook_log.pending.retain(|hook| hook.key != e.key);
        self.hook_log.ended.push(FinishedHook { key: e.key, end: e.end.clone() });
        let surplus = self.hook_log.ended.len().saturating_sub(MAX_HOOKS_KEPT);
        self.hook_log.ended.drain(..surplus);
    }
}
