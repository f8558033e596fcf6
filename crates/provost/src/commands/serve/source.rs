//! The current workflow, and the tracker that it names.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use provost_api::{ApiError, Code};
use provost_sys::agent_file;
use provost_tracker::{
    trackers::{Settings, Tracker},
    workflow::{self, Error, Workflow},
};

use super::{news::About, wake::Place};
use crate::{
    commands::spawn::place,
    context::Context,
    environment::Environment,
    error::usage,
    settings::{self, ProjectFile},
    trust::{self, Asking},
};

/// The maximum size of a workflow file, in bytes.
const MOST_BYTES: u64 = 256 << 10;

/// A workflow file with its last valid version.
pub(super) struct Source {
    pub(super) path: PathBuf,
    environment: Environment,
    /// Variables for git below `gh`, from before any agent of the workflow began.
    outward: Vec<(String, String)>,
    text: Result<String, Error>,
    /// The project's configuration that runs are opened with.
    pub(super) project: ProjectFile,
    /// Whether the project's files changed and the operator has not trusted the new version.
    project_held: bool,
    pub(super) workflow: Workflow,
    pub(super) tracker: Box<dyn Tracker>,
    /// Why the current version of the file is invalid.
    broken: Option<Error>,
}

/// The change of the file since the last read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    None,
    Taken,
    /// The last valid version stays in use, and no new runs start with it.
    Broken(Error),
}

/// The change of the project's configuration since the last read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProjectChange {
    None,
    Taken,
    /// The operator has not trusted it: the version from the start of serving stays in use.
    NotTaken(String),
}

impl Source {
    /// Reads the workflow for the first time; an error ends the command.
    pub(super) fn open(path: &Path, context: &Context) -> Result<Source, ApiError> {
        let text = read(path).map_err(|why| refused(path, &why))?;
        let path = path.canonicalize().map_err(|why| refused(path, &missing(path, &why)))?;
        let environment = context.environment.clone();
        let workflow = workflow::read(&text, directory(&path), environment.variables());
        let workflow = workflow.map_err(|why| refused(&path, &why))?;
        trust::require(context, directory(&path), Asking::AtTerminal)?;
        trust::require_workflow(context, &path, &text, Asking::AtTerminal)?;
        let project = settings::trusted_project(&environment, directory(&path))?;
        let project = project.ok_or_else(|| {
            let message = format!("{} changed while it was read", directory(&path).display());
            ApiError::new(Code::Refused, message).next("provost serve")
        })?;
        let outward = outward_variables(context, directory(&path));
        let tracker = tracker(&workflow, &environment, &outward);
        Ok(Source {
            path,
            environment,
            outward,
            text: Ok(text),
            project,
            project_held: false,
            workflow,
            tracker,
            broken: None,
        })
    }

    /// Rereads the project's configuration. Runs keep the version from the start of serving until the operator trusts
    /// another, because an agent may have written it.
    pub(super) fn refresh_project(&mut self, context: &Context) -> ProjectChange {
        let before = std::mem::replace(&mut self.project_held, false);
        match settings::trusted_project(&self.environment, self.dir()) {
            Ok(Some(now)) if now == self.project => ProjectChange::None,
            Ok(Some(now)) => {
                self.project = now;
                ProjectChange::Taken
            }
            Ok(None) | Err(_) => {
                self.project_held = true;
                if before {
                    ProjectChange::None
                } else {
                    ProjectChange::NotTaken(self.not_taken(context))
                }
            }
        }
    }

    fn not_taken(&self, context: &Context) -> String {
        let why = trust::require(context, self.dir(), Asking::Never).err();
        let (why, next) = why.map_or_else(Default::default, |why| (why.message, why.next));
        let next = next.first().cloned().unwrap_or_else(|| "provost trust".to_owned());
        format!(
            "{why}; new runs use the version from the start of serving; trust the change with: {next}"
        )
    }

    /// Rereads the file.
    pub(super) fn refresh(&mut self, context: &Context) -> Change {
        let text = read(&self.path);
        let untrusted = matches!(self.broken, Some(Error::Untrusted(_)));
        if text == self.text && !untrusted {
            return Change::None;
        }
        let same = text == self.text;
        self.text = text.clone();
        let read = text.and_then(|text| {
            let workflow =
                workflow::read(&text, directory(&self.path), self.environment.variables())?;
            trust::require_workflow(context, &self.path, &text, Asking::Never).map_err(unagreed)?;
            Ok(workflow)
        });
        if let (true, Err(why)) = (same, &read)
            && self.broken.as_ref() == Some(why)
        {
            return Change::None;
        }
        match read {
            Ok(workflow) => {
                self.tracker = tracker(&workflow, &self.environment, &self.outward);
                self.workflow = workflow;
                self.broken = None;
                Change::Taken
            }
            Err(why) => {
                self.broken = Some(why.clone());
                Change::Broken(why)
            }
        }
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    pub(super) fn interval(&self) -> Duration {
        self.workflow.config.interval
    }

    /// Returns the workflow's name as used in the origin of runs.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    pub(super) fn dir(&self) -> &Path {
        directory(&self.path)
    }

    /// Returns the places where a change triggers an early pass.
    pub(super) fn places(&self) -> Vec<Place> {
        let file = self.path.file_name().map(ToOwned::to_owned);
        let own = Place { dir: self.dir().to_owned(), file };
        let issues = match &self.workflow.config.tracker.settings {
            Settings::File(settings) => Some(Place { dir: settings.path.clone(), file: None }),
            Settings::GitHub(_) => None,
        };
        [own].into_iter().chain(issues).collect()
    }

    pub(super) fn about(&self) -> About {
        let config = &self.workflow.config;
        let tracker = match &config.tracker.settings {
            Settings::File(settings) => format!("issues in {}", settings.path.display()),
            Settings::GitHub(settings) => match &settings.repo {
                Some(repo) => format!("issues of {repo} on GitHub"),
                None => "issues of this repository on GitHub".to_owned(),
            },
        };
        let (at_once, interval) = (config.agent.concurrent, config.interval);
        About { workflow: self.name(), tracker, at_once, interval }
    }
}

fn tracker(
    workflow: &Workflow,
    environment: &Environment,
    outward: &[(String, String)],
) -> Box<dyn Tracker> {
    let tracker = &workflow.config.tracker;
    let mut variables = environment.variables().clone();
    variables.extend(outward.iter().cloned());
    tracker.settings.open(&tracker.terminal, &variables)
}

/// Returns the variables that give git, below `gh`, the current remotes and no other repository setting: an agent can
/// change the configuration, and with it whose issues are read. Empty outside a repository.
fn outward_variables(context: &Context, dir: &Path) -> Vec<(String, String)> {
    let variables = || {
        let (git, project) = place::project_at(context, dir).ok()?;
        let base = project.commit(&git).ok()?;
        let remote = provost_git::remote_of(&git, &project, None).ok()?;
        let settings = remote.map(|remote| remote.settings).unwrap_or_default();
        let own = context.home().ok()?.path.join("serve").join(place::directory(&project));
        provost_git::outward(&git, &project, &own, &base, &settings).ok()
    };
    variables().unwrap_or_default()
}

fn directory(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

fn read(path: &Path) -> Result<String, Error> {
    let bytes = agent_file::read_linked(path, MOST_BYTES).map_err(|why| match why {
        agent_file::Error::NotRegular(_) | agent_file::Error::Outside(_) => {
            missing(path, &"it is not a regular file")
        }
        agent_file::Error::TooLong { limit, .. } => {
            missing(path, &format!("it has more than {limit} bytes"))
        }
        agent_file::Error::Io { source, .. } => missing(path, &source),
    })?;
    String::from_utf8(bytes).map_err(|_| missing(path, &"it is not UTF-8"))
}

/// Converts a trust error: an untrusted change is not used, and the message includes the hint.
fn unagreed(why: ApiError) -> Error {
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
            ApiError::new(Code::NotFound, message).next("provost serve --workflow FILE")
        }
        Error::Untrusted(_) => ApiError::new(Code::Refused, message).next("provost trust"),
        Error::Parse(_)
        | Error::NotAMap(_)
        | Error::Config { .. }
        | Error::TemplateParse(_)
        | Error::TemplateRender(_) => usage(message).next("provost serve --help"),
    }
}
