//! Configuration: one table of keys, five layers, and a record of where every value comes from.
//!
//! Precedence is flag > environment > project > user > default. The crate is pure: the texts of the files, the
//! variables and the flags are passed in as [`Inputs`], and only [`load`] reads files. The table in `table.rs` is the
//! single definition of all keys, together with the sections that adapters declare for their agents. Everything else is
//! derived from this table: parsing, [`Resolved`], [`schema`] and [`reference_markdown`].
//!
//! An option is on, off or unset. Any value that a layer sets, including off, hides the values of
//! lower layers. A list or a command replaces the one in a lower layer, but agents and their
//! environments are merged by name.

mod agent_section;
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

pub use agent_section::{
    AgentSection, KeyTerms, SectionDefault, SectionField, SectionKey, agent_sections, has_section,
    register_agent_sections, section_field, trust_effect,
};
pub use document::CONFIG_VERSION;
pub use environment::{RESERVED_VARIABLES, VariableWarning};
pub use key::{ConfigKey, keys};
pub use load::{ConfigFile, ConfigPaths, Error as LoadError, MAX_FILE_BYTES, load};
pub use problem::{Error, MAX_PROBLEMS, Problem, ProblemKind};
pub use reference::reference_markdown;
pub use resolve::{ConfigEntry, FlagSetting, FlagValue, Inputs, Resolved, ShadowedValue, resolve};
pub use schema::schema;
pub use source::{SourceSpan, ValueSource};
pub use table::{
    Agent, ApprovalRules, Budget, Environment, Event, GitPrograms, HookDefaults, LoopTemplate,
    ManagerPolicy, Monitor, Prices, Prompts, Reaction, Review, Run, Session, Skills, Terminal, Ui,
    Verifier, Verify, Workflow, Worktree,
};
pub use types::{
    Act, Adapter, ApprovalRule, Approvals, Argv, BranchPrefix, Bytes, CleanUp, Color, CommandSpec,
    CommentAuthors, DirectoryName, Escalation, EvidenceTexts, FilePath, Hook, Land, NameLabel,
    NamePatterns, On, PLACEHOLDERS, PlanMode, Price, Prompt, RelativePattern, ReviewMode,
    RulesVersion, SAFE_VARIABLES, Sandbox, Switchable, TextLine, TokenAmount, Variable, Variables,
};
