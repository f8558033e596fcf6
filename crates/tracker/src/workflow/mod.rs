//! A repository's `WORKFLOW.md`: settings in the front matter, followed by a template for instructions.

mod config;
mod fields;
mod front_matter;
mod template;
mod unsupported;

use std::{collections::BTreeMap, path::Path};

pub use config::{
    AgentLimits, CodexOverrides, ProvostOverrides, TrackerConfig, WorkflowConfig, WorkflowHooks,
};
pub(crate) use fields::{Fields, resolved};
pub use front_matter::{MarkdownParts, split};
pub use template::IssueTemplate;

/// The environment variables to which a workflow may refer.
pub type EnvironmentMap = BTreeMap<String, String>;

/// A valid workflow.
#[derive(Debug)]
pub struct WorkflowFile {
    pub config: WorkflowConfig,
    pub template: IssueTemplate,
    /// Warnings about unknown keys, so that no key is silently ignored.
    pub warnings: Vec<String>,
}

/// The reason why a workflow or its instruction cannot be used. Each variant corresponds to an
/// error class in the specification.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("cannot read the workflow {path}: {why}")]
    Missing { path: String, why: String },
    #[error("the front matter is not valid YAML: {0}")]
    Parse(String),
    #[error("the front matter is {0}; expected keys with values")]
    NotAMap(&'static str),
    #[error("{key} {why}")]
    Config { key: String, why: String },
    #[error("cannot parse the template: {0}")]
    TemplateParse(String),
    #[error("cannot render the template: {0}")]
    TemplateRender(String),
    /// The operator has not trusted the workflow's commands.
    #[error("{0}")]
    Untrusted(String),
}

impl Error {
    pub(crate) fn config(key: &str, why: impl Into<String>) -> Self {
        Error::Config { key: key.to_owned(), why: why.into() }
    }

    /// Returns the name of the error class, for use by programs.
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

/// Parses a workflow from a file's text. Relative paths are resolved against `dir`, the directory of the file.
pub fn read(text: &str, dir: &Path, environment: &EnvironmentMap) -> Result<WorkflowFile, Error> {
    let parts = split(text)?;
    let (config, warnings) = config::read(parts.front, dir, environment)?;
    Ok(WorkflowFile { config, template: IssueTemplate::new(&parts.body), warnings })
}
