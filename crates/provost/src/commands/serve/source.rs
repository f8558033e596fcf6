//! The current workflow, and the tracker that it configures.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use provost_api::{ApiError, ErrorCode};
use provost_sys::agent_file;
use provost_tracker::{
    trackers::{Tracker, TrackerSettings},
    workflow::{self, Error, WorkflowFile},
};

use super::{event_log::WorkflowSummary, waker::WatchedPath};
use crate::{
    commands::spawn::worktree,
    context::Context,
    environment::Environment,
    error::usage,
    settings::{self, ProjectFile},
    trust::{self, TrustPrompt},
};

/// The maximum size of a workflow file, in bytes.
const MAX_WORKFLOW_BYTES: u64 = 256 << 10;

/// A workflow file and its last valid version.
pub(super) struct WorkflowSource {
    pub(super) path: PathBuf,
    environment: Environment,
    /// Environment variables for the git that `gh` runs. They are determined before any agent of the workflow starts.
    git_env: Vec<(String, String)>,
    text: Result<String, Error>,
    /// The project's configuration, as used for new runs.
    pub(super) project: ProjectFile,
    /// Whether the project's files have changed and the operator has not trusted the new version.
    project_untrusted: bool,
    pub(super) workflow: WorkflowFile,
    pub(super) tracker: Box<dyn Tracker>,
    /// The reason why the current version of the file is invalid, if it is invalid.
    invalid: Option<Error>,
}

/// The change of the workflow file since it was last read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WorkflowChange {
    None,
    Reloaded,
    /// The file is invalid. The last valid version stays in use, but no new runs are started.
    Invalid(Error),
}

/// The change of the project's configuration since it was last read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProjectChange {
    None,
    Trusted,
    /// The operator has not trusted the change, so `serve` keeps using the version with which it
    /// started.
    Untrusted(String),
}

impl WorkflowSource {
    /// Reads the workflow for the first time. If the workflow cannot be read, the command fails.
    pub(super) fn open(path: &Path, context: &Context) -> Result<WorkflowSource, ApiError> {
        let text = read(path).map_err(|why| refused(path, &why))?;
        let path = path.canonicalize().map_err(|why| refused(path, &missing(path, &why)))?;
        let environment = context.environment.clone();
        let workflow = workflow::read(&text, directory(&path), environment.variables());
        let workflow = workflow.map_err(|why| refused(&path, &why))?;
        trust::require(context, directory(&path), TrustPrompt::AtTerminal)?;
        trust::require_workflow(context, &path, &text, TrustPrompt::AtTerminal)?;
        let project = settings::trusted_project(&environment, directory(&path))?;
        let project = project.ok_or_else(|| {
            let message = format!("{} changed while it was read", directory(&path).display());
            ApiError::new(ErrorCode::Refused, message).next("provost serve")
        })?;
        let outward = git_env(context, directory(&path));
        let tracker = tracker(&workflow, &environment, &outward);
        Ok(WorkflowSource {
            path,
            environment,
            git_env: outward,
            text: Ok(text),
            project,
            project_untrusted: false,
            workflow,
            tracker,
            invalid: None,
        })
    }

    /// Reads the project's configuration again. Until the operator trusts a new version, new runs
    /// use the version with which `serve` started, because an agent may have written the change.
    pub(super) fn refresh_project(&mut self, context: &Context) -> ProjectChange {
        let before = std::mem::replace(&mut self.project_untrusted, false);
        match settings::trusted_project(&self.environment, self.dir()) {
            Ok(Some(now)) if now == self.project => ProjectChange::None,
            Ok(Some(now)) => {
                self.project = now;
                ProjectChange::Trusted
            }
            Ok(None) | Err(_) => {
                self.project_untrusted = true;
                if before {
                    ProjectChange::None
                } else {
                    ProjectChange::Untrusted(self.untrusted_message(context))
                }
            }
        }
    }

    fn untrusted_message(&self, context: &Context) -> String {
        let why = trust::require(context, self.dir(), TrustPrompt::Never).err();
        let (why, next) = why.map_or_else(Default::default, |why| (why.message, why.next));
        let next = next.first().map_or_else(|| "provost trust".to_owned(), ToString::to_string);
        format!(
            "{why}; new runs use the version from the start of serve; trust the change with: \
             {next}"
        )
    }

    /// Reads the workflow file again.
    pub(super) fn refresh(&mut self, context: &Context) -> WorkflowChange {
        let text = read(&self.path);
        let was_untrusted = matches!(self.invalid, Some(Error::Untrusted(_)));
        if text == self.text && !was_untrusted {
            return WorkflowChange::None;
        }
        let same = text == self.text;
        self.text = text.clone();
        let read = text.and_then(|text| {
            let workflow =
                workflow::read(&text, directory(&self.path), self.environment.variables())?;
            trust::require_workflow(context, &self.path, &text, TrustPrompt::Never)
                .map_err(untrusted)?;
            Ok(workflow)
        });
        if let (true, Err(why)) = (same, &read)
            && self.invalid.as_ref() == Some(why)
        {
            return WorkflowChange::None;
        }
        match read {
            Ok(workflow) => {
                self.tracker = tracker(&workflow, &self.environment, &self.git_env);
                self.workflow = workflow;
                self.invalid = None;
                WorkflowChange::Reloaded
            }
            Err(why) => {
                self.invalid = Some(why.clone());
                WorkflowChange::Invalid(why)
            }
        }
    }

    pub(super) fn is_broken(&self) -> bool {
        self.invalid.is_some()
    }

    pub(super) fn interval(&self) -> Duration {
        self.workflow.config.interval
    }

    /// Returns the workflow's name, which is stored as the origin of its runs.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    pub(super) fn dir(&self) -> &Path {
        directory(&self.path)
    }

    /// Returns the paths to watch. A change to one of them triggers the next pass early.
    pub(super) fn watched_paths(&self) -> Vec<WatchedPath> {
        let file = self.path.file_name().map(ToOwned::to_owned);
        let own = WatchedPath { dir: self.dir().to_owned(), file };
        let issues = match &self.workflow.config.tracker.settings {
            TrackerSettings::File(settings) => {
                Some(WatchedPath { dir: settings.path.clone(), file: None })
            }
            TrackerSettings::GitHub(_) => None,
        };
        [own].into_iter().chain(issues).collect()
    }

    pub(super) fn summary(&self) -> WorkflowSummary {
        let config = &self.workflow.config;
        let tracker = match &config.tracker.settings {
            TrackerSettings::File(settings) => format!("issues in {}", settings.path.display()),
            TrackerSettings::GitHub(settings) => match &settings.repo {
                Some(repo) => format!("issues of {repo} on GitHub"),
                None => "issues of this repository on GitHub".to_owned(),
            },
        };
        let (at_once, interval) = (config.agent.concurrent, config.interval);
        WorkflowSummary { workflow: self.name(), tracker, at_once, interval }
    }
}

fn tracker(
    workflow: &WorkflowFile,
    environment: &Environment,
    outward: &[(String, String)],
) -> Box<dyn Tracker> {
    let tracker = &workflow.config.tracker;
    let mut variables = environment.variables().clone();
    variables.extend(outward.iter().cloned());
    tracker.settings.open(&tracker.terminal, &variables)
}

/// Returns environment variables that let the git below `gh` see the current remotes but no other
/// setting of the repository. Otherwise an agent could change the configuration and make `gh` read
/// the issues of another repository. Returns nothing outside a repository.
fn git_env(context: &Context, dir: &Path) -> Vec<(String, String)> {
    let variables = || {
        let (git, project) = worktree::project_at(context, dir).ok()?;
        let base = project.commit(&git).ok()?;
        let remote = provost_git::remote_of(&git, &project, None).ok()?;
        let settings = remote.map(|remote| remote.settings).unwrap_or_default();
        let own = context.home().ok()?.path.join("serve").join(worktree::directory(&project));
        provost_git::push_environment(&git, &project, &own, &base, &settings).ok()
    };
    variables().unwrap_or_default()
}

fn directory(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

fn read(path: &Path) -> Result<String, Error> {
    let bytes = agent_file::read_linked(path, MAX_WORKFLOW_BYTES).map_err(|why| match why {
        agent_file::Error::NotRegular(_) | agent_file::Error::Outside(_) => {
            missing(path, &"the file is not a regular file")
        }
        agent_file::Error::TooLong { limit, .. } => {
            missing(path, &format!("the file has more than {limit} bytes"))
        }
        agent_file::Error::Io { source, .. } => missing(path, &source),
    })?;
    String::from_utf8(bytes).map_err(|_| missing(path, &"the file is not UTF-8"))
}

/// Converts an error about missing trust. The message includes the command that trusts the change.
fn untrusted(why: ApiError) -> Error {
    let next = why.next.first().map_or_else(String::new, |next| format!(": `{next}`"));
    Error::Untrusted(format!("{}{next}", why.message))
}

fn missing(path: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::Missing { path: path.display().to_string(), why: why.to_string() }
}

fn refused(path: &Path, why: &Error) -> ApiError {
    let message = format!("cannot serve {} ({}): {why}", path.display(), why.class());
    match why {
        Error::Missing { .. } => {
            ApiError::new(ErrorCode::NotFound, message).next("provost serve --workflow FILE")
        }
        Error::Untrusted(_) => ApiError::new(ErrorCode::Refused, message).next("provost trust"),
        Error::Parse(_)
        | Error::NotAMap(_)
        | Error::Config { .. }
        | Error::TemplateParse(_)
        | Error::TemplateRender(_) => usage(message).next("provost serve --help"),
    }
}
