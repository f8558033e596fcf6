//! The types of configuration values.

pub(crate) mod bytes;
mod choice;
mod command;
pub(crate) mod duration;
mod names;
mod paths;
pub(crate) mod price;
mod prompt;
mod proofs;
mod rules;
mod texts;
pub(crate) mod tokens;
mod units;
mod words;

pub use bytes::Bytes;
pub use choice::Choice;
pub(crate) use command::HookSpec;
pub use command::{Argv, Command, Hook};
pub use names::{NamePatterns, SAFE_VARIABLES, Variable, Variables};
pub(crate) use names::{is_safe, name_fault_of, variable_name_fault};
pub use paths::{BranchPrefix, RelativePattern};
pub use price::Price;
pub use prompt::{PLACEHOLDERS, Prompt};
pub use proofs::Proofs;
pub use rules::{ApprovalRule, RulesVersion};
pub use texts::{FilePath, Label, Line};
pub use tokens::Tokens;
pub use words::{
    Act, Approvals, CleanUp, Color, CommentAuthors, Driver, Escalation, Land, On, PlanMode,
    ReviewMode, Sandbox,
};
