//! Permissions of a manager: its configuration, and the moves that it records before it acts.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::member::Role;
use crate::time::Moment;

/// An action on a team. Derived from the command, so that the caller cannot choose what is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Receives, accepts and acknowledges its own messages.
    Receive,
    Message,
    Interrupt,
    Compact,
    Propose,
    Judge,
    /// Shows evidence, or has a check run.
    Show,
    Continue,
    AskUser,
    RecordMove,
    /// Cancels, requeues or dead-letters messages of other members.
    Sort,
    /// Binds, retires or rotates members.
    Bind,
    Configure,
    /// Begins or stops a loop.
    Loop,
    /// Chooses between the proposals of others.
    Choose,
    /// Pauses, cancels, fails or finishes the team.
    End,
}

impl Action {
    pub const ALL: [Action; 16] = [
        Action::Receive,
        Action::Message,
        Action::Interrupt,
        Action::Compact,
        Action::Propose,
        Action::Judge,
        Action::Show,
        Action::Continue,
        Action::AskUser,
        Action::RecordMove,
        Action::Sort,
        Action::Bind,
        Action::Configure,
        Action::Loop,
        Action::Choose,
        Action::End,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Action::Receive => "receive",
            Action::Message => "message",
            Action::Interrupt => "interrupt",
            Action::Compact => "compact",
            Action::Propose => "propose",
            Action::Judge => "judge",
            Action::Show => "show",
            Action::Continue => "continue",
            Action::AskUser => "ask_user",
            Action::RecordMove => "record_move",
            Action::Sort => "sort",
            Action::Bind => "bind",
            Action::Configure => "configure",
            Action::Loop => "loop",
            Action::Choose => "choose",
            Action::End => "end",
        }
    }

    /// Describes the action.
    pub fn words(self) -> &'static str {
        match self {
            Action::Receive => "take messages",
            Action::Message => "send messages",
            Action::Interrupt => "interrupt a member",
            Action::Compact => "compact a member's conversation",
            Action::Propose => "propose criteria",
            Action::Judge => "judge criteria",
            Action::Show => "show or check evidence",
            Action::Continue => "ask for the next iteration",
            Action::AskUser => "ask the user",
            Action::RecordMove => "record moves",
            Action::Sort => "sort messages",
            Action::Bind => "bind or retire members",
            Action::Configure => "rename the team or change the manager's configuration",
            Action::Loop => "begin or stop a loop",
            Action::Choose => "choose the next step",
            Action::End => "pause or end the team",
        }
    }

    /// Whether a role may perform this action at all, whatever the configuration grants.
    pub fn is_open_to(self, role: Role) -> bool {
        match self {
            Action::Receive | Action::Message | Action::Propose | Action::Show => true,
            Action::AskUser => role != Role::Reviewer,
            Action::Choose => role == Role::Reviewer,
            Action::Interrupt
            | Action::Compact
            | Action::Judge
            | Action::Continue
            | Action::RecordMove
            | Action::Sort
            | Action::Loop
            | Action::End => role == Role::Manager,
            // A member that works under a contract cannot change it.
            Action::Bind | Action::Configure => false,
        }
    }

    /// Returns the moves of which one must be recorded before this action, if moves are required.
    pub fn moves(self) -> &'static [MoveKind] {
        match self {
            Action::Message | Action::Continue => &[MoveKind::Nudge],
            Action::Interrupt | Action::Compact => &[MoveKind::Interrupt],
            Action::AskUser => &[MoveKind::Escalate],
            Action::End | Action::Loop => &[MoveKind::Stop],
            Action::Receive
            | Action::Propose
            | Action::Judge
            | Action::Show
            | Action::RecordMove
            | Action::Sort
            | Action::Bind
            | Action::Choose
            | Action::Configure => &[],
        }
    }
}

/// How strictly a manager is controlled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Light,
    /// It must acknowledge the configuration before it acts.
    #[default]
    Guided,
    /// It must also record a matching move before each action.
    Strict,
}

impl Mode {
    pub fn word(self) -> &'static str {
        match self {
            Mode::Light => "light",
            Mode::Guided => "guided",
            Mode::Strict => "strict",
        }
    }
}

/// A step required after the work, before the team finishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Epilogue {
    Checks,
    DraftPullRequest,
    SeparateReview,
    Handover,
}

impl Epilogue {
    pub fn word(self) -> &'static str {
        match self {
            Epilogue::Checks => "checks",
            Epilogue::DraftPullRequest => "draft_pull_request",
            Epilogue::SeparateReview => "separate_review",
            Epilogue::Handover => "handover",
        }
    }
}

/// The configuration of a manager. Each change is a new revision, which must be acknowledged again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    pub revision: u32,
    pub mode: Mode,
    pub objective: String,
    pub guidelines: Vec<String>,
    pub references: Vec<String>,
    /// Actions that the manager is denied, of those that its role allows.
    pub denied: BTreeSet<Action>,
    pub tools: Vec<String>,
    pub epilogue: BTreeSet<Epilogue>,
    /// Whether the team needs adversarial evidence before it finishes.
    pub adversarial: bool,
    /// Questions that the manager asks the user before it begins, by their ids.
    pub questions: BTreeMap<String, String>,
    pub on_completion: Option<String>,
}

/// The next action that a manager announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MoveKind {
    Wait,
    Nudge,
    Interrupt,
    Escalate,
    Stop,
    Inspect,
}

impl MoveKind {
    pub fn word(self) -> &'static str {
        match self {
            MoveKind::Wait => "wait",
            MoveKind::Nudge => "nudge",
            MoveKind::Interrupt => "interrupt",
            MoveKind::Escalate => "escalate",
            MoveKind::Stop => "stop",
            MoveKind::Inspect => "inspect",
        }
    }

    /// Whether the move announces that no further work follows.
    pub fn is_terminal(self) -> bool {
        match self {
            MoveKind::Stop => true,
            MoveKind::Wait
            | MoveKind::Nudge
            | MoveKind::Interrupt
            | MoveKind::Escalate
            | MoveKind::Inspect => false,
        }
    }
}

/// A recorded move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    pub kind: MoveKind,
    pub because: String,
    pub by: String,
    pub at: Moment,
    /// Whether an action used it: one move covers one action.
    pub used: bool,
    /// Whether the manager requested more work after it had decided to stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn: bool,
}
