//! The types of configuration values.

pub(crate) mod bytes;
mod choice;
mod command;
pub(crate) mod duration;
mod evidence;
mod keyword;
mod names;
mod paths;
pub(crate) mod price;
mod prompt;
mod rules;
mod text;
pub(crate) mod tokens;
mod units;

pub use bytes::Bytes;
pub use choice::Switchable;
pub(crate) use command::HookSpec;
pub use command::{Argv, CommandSpec, Hook};
pub use evidence::EvidenceTexts;
pub use keyword::{
    Act, Adapter, Approvals, CleanUp, Color, CommentAuthors, Escalation, Land, On, PlanMode,
    ReviewMode, Sandbox,
};
pub use names::{NamePatterns, SAFE_VARIABLES, Variable, Variables};
pub(crate) use names::{is_safe, name_fault_of, variable_name_fault};
pub use paths::{BranchPrefix, DirectoryName, RelativePattern};
pub use price::Price;
pub use prompt::{PLACEHOLDERS, Prompt};
pub use rules::{ApprovalRule, RulesVersion};
pub use text::{FilePath, NameLabel, TextLine};
pub use tokens::TokenAmount;
