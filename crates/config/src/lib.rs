//! Configuration: one table of keys, five layers, and the source of every value.
//!
//! Precedence is flag > environment > project > user > default. The crate is pure: texts, variables
//! and flags come in through [`Inputs`]; only [`load`] reads files. Only the table in `table.rs`
//! defines the keys: parsing, [`Resolved`], [`schema`] and [`reference_markdown`] follow it.
//!
//! Options have three values: on, off, or unset. Any value that a layer sets, off included, hides
//! the layers below it. A list or a command replaces the one below it; agents and their
//! environments are merged by name.

mod document;
mod environment;
mod key;
mod load;
mod node;
mod pattern;
mod preset;
mod problem;
mod reference;
mod resolve;
mod schema;
mod shape;
mod source;
mod suggest;
mod table;
pub mod trust;
mod types;
mod value;
mod workflow;

pub use environment::{RESERVED_VARIABLES, VariableWarning};
pub use key::{ConfigKey, keys};
pub use load::{ConfigFile, ConfigPaths, Error as LoadError, MAX_FILE_BYTES, load};
pub use pattern::BUILT_IN;
pub use problem::{Error, MAX_PROBLEMS, Problem, ProblemKind};
pub use reference::reference_markdown;
pub use resolve::{ConfigEntry, FlagSetting, FlagValue, Inputs, Resolved, ShadowedValue, resolve};
pub use schema::schema;
pub use source::{SourceSpan, ValueSource};
pub use table::{
    Agent, ApprovalRules, Budget, Codex, Environment, Event, GitPrograms, HookDefaults,
    LoopTemplate, ManagerPolicy, Monitor, Prices, Prompts, Reaction, Review, Run, Session, Skills,
    Terminal, Ui, Verifier, Verify, Workflow, Worktree,
};
pub use types::{
    Act, ApprovalRule, Approvals, Argv, BranchPrefix, Bytes, CleanUp, Color, CommandSpec,
    CommentAuthors, Driver, Escalation, EvidenceTexts, FilePath, Hook, Land, NameLabel,
    NamePatterns, On, PLACEHOLDERS, PlanMode, Price, Prompt, RelativePattern, ReviewMode,
    RulesVersion, SAFE_VARIABLES, Sandbox, Switchable, TextLine, TokenAmount, Variable, Variables,
};
