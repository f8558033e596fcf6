//! A repository's `WORKFLOW.md`: front matter that says how to work, and the template of what is to be done.

mod config;
mod fields;
mod front;
mod refusals;
mod template;

use std::{collections::BTreeMap, path::Path};

pub use config::{Agent, Codex, Config, Hooks, Own, TrackerConfig};
pub(crate) use fields::{Fields, resolved};
pub use front::{Parts, split};
pub use template::Template;

/// The environment, as far as a workflow may refer to it.
pub type Environment = BTreeMap<String, String>;

/// A workflow that can be worked by.
#[derive(Debug)]
pub struct Workflow {
    pub config: Config,
    pub template: Template,
    /// What was found and is not known, so that nothing is ignored without a word.
    pub warnings: Vec<String>,
}

/// Why there is no workflow, or no text for an agent. Each has the name of its class in the specification.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("cannot read the workflow {path}: {why}")]
    Missing { path: String, why: String },
    #[error("the front matter is no YAML: {0}")]
    Parse(String),
    #[error("the front matter is {0}; expected keys with values")]
    NotAMap(&'static str),
    #[error("{key} {why}")]
    Config { key: String, why: String },
    #[error("the template cannot be read: {0}")]
    TemplateParse(String),
    #[error("the template cannot be filled in: {0}")]
    TemplateRender(String),
    /// The operator has not agreed to what it runs.
    #[error("{0}")]
    Untrusted(String),
}

impl Error {
    pub(crate) fn config(key: &str, why: impl Into<String>) -> Self {
        Error::Config { key: key.to_owned(), why: why.into() }
    }

    /// Gives the name of the class, for programs.
    pub fn class(&self) -> &'static str {
        match self {
            Error::Missing { .. } => "missing_workflow_file",
            Error::Parse(_) => "workflow_parse_error",
            Error::NotAMap(_) => "workflow_front_matter_not_a_map",
            Error::Config { .. } => "invalid_workflow_config",
            Error::TemplateParse(_) => "template_parse_error",
            Error::TemplateRender(_) => "template_render_error",
            Error::Untrusted(_) => "workflow_not_trusted",
        }
    }
}

/// Makes a workflow of a file's text. `dir` is where the file lies; relative paths begin there.
pub fn read(text: &str, dir: &Path, environment: &Environment) -> Result<Workflow, Error> {
    let parts = split(text)?;
    let (config, warnings) = config::read(parts.front, dir, environment)?;
    Ok(Workflow { config, template: Template::new(&parts.body), warnings })
}
