//! What a manager may do: its configuration, and the moves that it records before it acts.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::member::Role;
use crate::time::Moment;

/// What is done to a task, derived from the command: who asks cannot choose what is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Takes what is for itself, and says that it has.
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
    /// Cancels, requeues or lays aside messages of others.
    Sort,
    /// Binds, retires or rotates members.
    Bind,
    Configure,
    /// Begins or stops a loop.
    Loop,
    /// Chooses between what others propose.
    Choose,
    /// Pauses, cancels, fails or finishes the task.
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

    /// Says what is done, for people.
    pub fn words(self) -> &'static str {
        match self {
            Action::Receive => "take messages",
            Action::Message => "send messages",
            Action::Interrupt => "interrupt a member",
            Action::Compact => "have a member's conversation compacted",
            Action::Propose => "propose criteria",
            Action::Judge => "judge criteria",
            Action::Show => "show evidence or have it checked",
            Action::Continue => "ask for the next iteration",
            Action::AskUser => "ask the user",
            Action::RecordMove => "record moves",
            Action::Sort => "sort messages",
            Action::Bind => "bind or retire members",
            Action::Configure => "change the task's name or the manager's configuration",
            Action::Loop => "begin or stop a loop",
            Action::Choose => "choose what comes next",
            Action::End => "pause or end the task",
        }
    }

    /// Says whether a role may do this at all, whatever a configuration grants.
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
            // Who works under a contract does not write it.
            Action::Bind | Action::Configure => false,
        }
    }

    /// Gives the moves of which one has to be recorded before this is done, where moves are demanded.
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

/// How much a manager is held to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Light,
    /// It has acknowledged the configuration before it acts.
    #[default]
    Guided,
    /// It also records a move before each thing that it does, and the two match.
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

/// What has to be done after the work, before the task is finished.
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

/// What a manager works by. Each change is another revision, which is acknowledged anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    pub revision: u32,
    pub mode: Mode,
    pub objective: String,
    pub guidelines: Vec<String>,
    pub references: Vec<String>,
    /// What the manager may not do, of what its role could.
    pub denied: BTreeSet<Action>,
    pub tools: Vec<String>,
    pub epilogue: BTreeSet<Epilogue>,
    /// Whether a task needs adversarial proof before it is finished.
    pub adversarial: bool,
    /// Questions that the manager is to ask the user before it begins, by their ids.
    pub questions: BTreeMap<String, String>,
    pub on_completion: Option<String>,
}

/// What a manager says that it will do.
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

    /// Says whether nothing is to come after it.
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

/// A move as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    pub kind: MoveKind,
    pub because: String,
    pub by: String,
    pub at: Moment,
    /// Whether something was done under it: one move is for one deed.
    pub used: bool,
    /// Whether its manager had more done after it had decided to stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn: bool,
}
