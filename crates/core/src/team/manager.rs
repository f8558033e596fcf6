//! The permissions of a manager: the configuration, and the moves that the manager must record before it acts.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::member::MemberRole;
use crate::time::Moment;

/// An action on a team. It is derived from the command, so that a caller cannot choose a weaker
/// permission check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TeamAction {
    /// Receiving, accepting and acknowledging one's own messages.
    Receive,
    Message,
    Interrupt,
    Compact,
    Propose,
    Judge,
    /// Submitting evidence, or requesting a check.
    Show,
    Continue,
    AskUser,
    RecordMove,
    /// Cancelling, requeueing or dead-lettering other members' messages.
    ManageMessages,
    /// Binding, retiring or rotating members.
    Bind,
    Configure,
    /// Beginning or stopping a loop.
    Loop,
    /// Choosing between the proposals of others.
    Choose,
    /// Pausing, cancelling, failing or finishing the team.
    End,
}

impl TeamAction {
    pub const ALL: [TeamAction; 16] = [
        TeamAction::Receive,
        TeamAction::Message,
        TeamAction::Interrupt,
        TeamAction::Compact,
        TeamAction::Propose,
        TeamAction::Judge,
        TeamAction::Show,
        TeamAction::Continue,
        TeamAction::AskUser,
        TeamAction::RecordMove,
        TeamAction::ManageMessages,
        TeamAction::Bind,
        TeamAction::Configure,
        TeamAction::Loop,
        TeamAction::Choose,
        TeamAction::End,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            TeamAction::Receive => "receive",
            TeamAction::Message => "message",
            TeamAction::Interrupt => "interrupt",
            TeamAction::Compact => "compact",
            TeamAction::Propose => "propose",
            TeamAction::Judge => "judge",
            TeamAction::Show => "show",
            TeamAction::Continue => "continue",
            TeamAction::AskUser => "ask_user",
            TeamAction::RecordMove => "record_move",
            TeamAction::ManageMessages => "manage_messages",
            TeamAction::Bind => "bind",
            TeamAction::Configure => "configure",
            TeamAction::Loop => "loop",
            TeamAction::Choose => "choose",
            TeamAction::End => "end",
        }
    }

    /// Describes the action.
    pub fn describe(self) -> &'static str {
        match self {
            TeamAction::Receive => "take messages",
            TeamAction::Message => "send messages",
            TeamAction::Interrupt => "interrupt a member",
            TeamAction::Compact => "compact a member's conversation",
            TeamAction::Propose => "propose criteria",
            TeamAction::Judge => "judge criteria",
            TeamAction::Show => "show or check evidence",
            TeamAction::Continue => "ask for the next iteration",
            TeamAction::AskUser => "ask the user",
            TeamAction::RecordMove => "record moves",
            TeamAction::ManageMessages => "sort messages",
            TeamAction::Bind => "bind or retire members",
            TeamAction::Configure => "rename the team or change the manager's configuration",
            TeamAction::Loop => "begin or stop a loop",
            TeamAction::Choose => "choose the next step",
            TeamAction::End => "pause or end the team",
        }
    }

    /// Whether a role may ever perform this action, regardless of the configuration.
    pub fn is_open_to(self, role: MemberRole) -> bool {
        match self {
            TeamAction::Receive | TeamAction::Message | TeamAction::Propose | TeamAction::Show => {
                true
            }
            TeamAction::AskUser => role != MemberRole::Reviewer,
            TeamAction::Choose => role == MemberRole::Reviewer,
            TeamAction::Interrupt
            | TeamAction::Compact
            | TeamAction::Judge
            | TeamAction::Continue
            | TeamAction::RecordMove
            | TeamAction::ManageMessages
            | TeamAction::Loop
            | TeamAction::End => role == MemberRole::Manager,
            // A member that works under a contract cannot change the contract.
            TeamAction::Bind | TeamAction::Configure => false,
        }
    }

    /// Returns the kinds of moves that permit this action. If moves are required, a move of one of these kinds must be
    /// recorded first.
    pub fn required_moves(self) -> &'static [MoveKind] {
        match self {
            TeamAction::Message | TeamAction::Continue => &[MoveKind::Nudge],
            TeamAction::Interrupt | TeamAction::Compact => &[MoveKind::Interrupt],
            TeamAction::AskUser => &[MoveKind::Escalate],
            TeamAction::End | TeamAction::Loop => &[MoveKind::Stop],
            TeamAction::Receive
            | TeamAction::Propose
            | TeamAction::Judge
            | TeamAction::Show
            | TeamAction::RecordMove
            | TeamAction::ManageMessages
            | TeamAction::Bind
            | TeamAction::Choose
            | TeamAction::Configure => &[],
        }
    }
}

/// The strictness with which a manager is supervised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ManagerMode {
    Light,
    /// The manager must acknowledge the configuration before it can act.
    #[default]
    Guided,
    /// The manager must also record a matching move before each action.
    Strict,
}

impl ManagerMode {
    pub const ALL: [ManagerMode; 3] =
        [ManagerMode::Light, ManagerMode::Guided, ManagerMode::Strict];

    pub fn as_str(self) -> &'static str {
        match self {
            ManagerMode::Light => "light",
            ManagerMode::Guided => "guided",
            ManagerMode::Strict => "strict",
        }
    }
}

/// A step that is required after the work and before the team finishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EpilogueStep {
    Checks,
    DraftPullRequest,
    SeparateReview,
    Handover,
}

impl EpilogueStep {
    pub fn as_str(self) -> &'static str {
        match self {
            EpilogueStep::Checks => "checks",
            EpilogueStep::DraftPullRequest => "draft_pull_request",
            EpilogueStep::SeparateReview => "separate_review",
            EpilogueStep::Handover => "handover",
        }
    }
}

/// The configuration of a manager. Each change creates a new revision, which must be acknowledged again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ManagerConfig {
    pub revision: u32,
    pub mode: ManagerMode,
    pub objective: String,
    pub guidelines: Vec<String>,
    pub references: Vec<String>,
    /// Actions that the role would allow but that are denied to this manager.
    pub denied: BTreeSet<TeamAction>,
    pub tools: Vec<String>,
    pub epilogue: BTreeSet<EpilogueStep>,
    /// Whether the team requires adversarial evidence before it can finish.
    pub adversarial: bool,
    /// Questions, by id, that the manager asks the user before it begins.
    pub questions: BTreeMap<String, String>,
    pub on_completion: Option<String>,
}

/// The next action, as announced by a manager.
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
    pub const ALL: [MoveKind; 6] = [
        MoveKind::Wait,
        MoveKind::Nudge,
        MoveKind::Interrupt,
        MoveKind::Escalate,
        MoveKind::Stop,
        MoveKind::Inspect,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            MoveKind::Wait => "wait",
            MoveKind::Nudge => "nudge",
            MoveKind::Interrupt => "interrupt",
            MoveKind::Escalate => "escalate",
            MoveKind::Stop => "stop",
            MoveKind::Inspect => "inspect",
        }
    }

    /// Whether the move announces that no further work will follow.
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
pub struct ManagerMove {
    pub kind: MoveKind,
    pub because: String,
    pub by: String,
    pub at: Moment,
    /// Whether an action has used up the move. One move covers one action.
    pub used: bool,
    /// Whether the manager requested more work after it had decided to stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn: bool,
}
