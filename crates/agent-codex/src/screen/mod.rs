//! Classifies what Codex shows on its screen. The screen is used only if no better source is
//! available.
//!
//! Rules match the bottom of the screen, where Codex draws its dialogs and its composer. The
//! agent's output is above that and never matches. A screen signal can request the user's
//! attention, but it never ends a turn.

mod approval;
mod hint;
mod layout;
mod rules;
mod styled;

pub use approval::ScreenApproval;
pub use hint::CodexScreen;
pub use rules::{RULES, ScreenRule, VersionRange, classify};
pub use styled::{draft_text, is_draft_of};

/// The interpretation of a screen, with the text to present to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodexReading {
    pub kind: CodexScreenKind,
    /// The lines of a dialog, as shown on the screen.
    pub lines: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodexScreenKind {
    /// Codex asks whether it may work in this directory.
    Trust,
    /// Codex asks whether unreviewed hooks may run.
    HookTrust,
    Login,
    Update,
    ModelMigration,
    Approval,
    Question,
    /// Codex asks whether to implement its plan.
    Plan,
    /// A dialog is waiting for a choice, but no rule matches it.
    UnknownDialog,
    /// A turn is active, but the model cannot be reached.
    Retrying,
    Working,
    /// The composer is visible, with no sign of an active turn. This also happens while a turn is
    /// starting or waiting, so it does not prove that the agent is idle.
    Composer,
    /// Anything else: Codex is starting, another program is using the terminal, or no program is.
    Nothing,
}

impl CodexScreenKind {
    /// Whether keys would answer a dialog.
    pub fn is_dialog(self) -> bool {
        match self {
            Self::Trust
            | Self::HookTrust
            | Self::Login
            | Self::Update
            | Self::ModelMigration
            | Self::Approval
            | Self::Question
            | Self::Plan
            | Self::UnknownDialog => true,
            Self::Retrying | Self::Working | Self::Composer | Self::Nothing => false,
        }
    }
}
