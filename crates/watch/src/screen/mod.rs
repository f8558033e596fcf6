//! What the screen of Codex shows: the last resort, where nothing better speaks.
//!
//! Rules look at the bottom of the screen, where Codex draws its dialogs and its composer; what an agent says
//! stands above that and is never read as either. A screen raises a person's attention; it ends nothing.

mod approval;
mod bottom;
mod painted;
mod rules;
mod steady;

pub use approval::Approval;
pub use painted::{Painted, is_written, painted, plain, written};
pub use rules::{RULES, Rule, Versions, read, read_painted};
pub use steady::Steady;

/// What a screen shows, with the words that a person should see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    pub shown: Shown,
    /// The lines of a dialog, as they are on the screen.
    pub lines: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// May Codex work in this directory?
    Trust,
    /// May hooks run that nobody has looked at?
    HookTrust,
    Login,
    Update,
    ModelMigration,
    Approval,
    Question,
    /// A plan is ready: implement it?
    Plan,
    /// Something waits for a choice, and no rule knows what.
    UnknownDialog,
    /// A turn is under way, and the model cannot be reached.
    Retrying,
    Working,
    /// The place to type is there and nothing says that a turn is under way. It also is while one begins or
    /// waits, so this alone does not mean that the agent is idle.
    Composer,
    /// The same, and something is written there that was not sent.
    Draft,
    /// None of these: Codex starts, another program has the terminal, or there is none.
    Nothing,
}

impl Shown {
    /// Whether keys would answer something.
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
