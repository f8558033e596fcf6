//! Classifies the screen of Codex: the last resort, where no better source exists.
//!
//! Rules match the bottom of the screen, where Codex draws its dialogs and its composer. Output of
//! the agent is above that and never matches. A screen can ask for the user's attention; it never
//! ends a turn.

mod approval;
mod debounce;
mod layout;
mod rules;
mod styled;

pub use approval::ScreenApproval;
pub use debounce::FrameDebouncer;
pub use rules::{RULES, ScreenRule, VersionRange, classify, classify_styled};
pub use styled::{StyledLine, draft_text, is_draft_of, parse_styles, strip_styles};

/// The class of a screen, with the text to show to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenReading {
    pub kind: ScreenKind,
    /// The lines of a dialog, as shown on the screen.
    pub lines: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScreenKind {
    /// May Codex work in this directory?
    Trust,
    /// May unreviewed hooks run?
    HookTrust,
    Login,
    Update,
    ModelMigration,
    Approval,
    Question,
    /// A plan is ready: implement it?
    Plan,
    /// Something waits for a choice, and no rule matches.
    UnknownDialog,
    /// A turn is active, and the model cannot be reached.
    Retrying,
    Working,
    /// The composer is shown without a sign of an active turn. That also happens while a turn
    /// starts or waits, so this alone does not mean that the agent is idle.
    Composer,
    /// The same, with unsent text in the composer.
    Draft,
    /// None of these: Codex is starting, another program has the terminal, or no program has it.
    Nothing,
}

impl ScreenKind {
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
            Self::Retrying | Self::Working | Self::Composer | Self::Draft | Self::Nothing => false,
        }
    }
}
