//! The workflow as it is now, and the tracker that it names.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    time::Duration,
};

use provost_api::{ApiError, Code};
use provost_tracker::{
    trackers::{Settings, Tracker},
    workflow::{self, Error, Workflow},
};

use super::{news::About, wake::Place};
use crate::{commands::spawn::place, context::Context, environment::Environment, error::usage};

/// The longest workflow that is read.
const MOST_BYTES: u64 = 256 << 10;

/// A workflow's file with the last good reading of it.
pub(super) struct Source {
    pub(super) path: PathBuf,
    environment: Environment,
    /// Variables for git below `gh`, from before any agent of the workflow began.
    outward: Vec<(String, String)>,
    text: Result<String, Error>,
    pub(super) workflow: Workflow,
    pub(super) tracker: Box<dyn Tracker>,
    /// Why the file as it is now cannot be followed.
    broken: Option<Error>,
}

/// What became of the file since it was looked at.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    None,
    Taken,
    /// The last good reading stays, and nothing new is begun by it.
    Broken(Error),
}

impl Source {
    /// Reads the workflow for the first time, when an error ends the command.
    pub(super) fn open(path: &Path, context: &Context) -> Result<Source, ApiError> {
        let text = read(path).map_err(|why| refused(path, &why))?;
        let path = path.canonicalize().map_err(|why| refused(path, &missing(path, &why)))?;
        let environment = context.environment.clone();
        let workflow = workflow::read(&text, directory(&path), environment.variables());
        let workflow = workflow.map_err(|why| refused(&path, &why))?;
        let outward = outward_variables(context, directory(&path));
        let tracker = tracker(&workflow, &environment, &outward);
        Ok(Source { path, environment, outward, text: Ok(text), workflow, tracker, broken: None })
    }

    /// Looks at the file again.
    pub(super) fn refresh(&mut self) -> Change {
        let text = read(&self.path);
        if text == self.text {
            return Change::None;
        }
        self.text = text.clone();
        let read = text.and_then(|text| {
            workflow::read(&text, directory(&self.path), self.environment.variables())
        });
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

    /// The workflow's file as it is named in the origin of runs.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    pub(super) fn dir(&self) -> &Path {
        directory(&self.path)
    }

    /// Where a change is worth a look before the time.
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

/// Returns the variables with which git, below `gh`, sees the remotes as they are now and no other setting of the
/// repository: an agent can change its configuration, and so whose issues are read. None outside of a repository.
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
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|why| missing(path, &why))?;
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|why| missing(path, &why))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(missing(path, &format!("it has more than {MOST_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| missing(path, &"it is not UTF-8"))
}

fn missing(path: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::Missing { path: path.display().to_string(), why: why.to_string() }
}

fn refused(path: &Path, why: &Error) -> ApiError {
    let message = format!("{} cannot be served ({}): {why}", path.display(), why.class());
    match why {
        Error::Missing { .. } => {
            ApiError::new(Code::NotFound, message).next("provost serve --workflow FILE")
        }
        Error::Parse(_)
        | Error::NotAMap(_)
        | Error::Config { .. }
        | Error::TemplateParse(_)
        | Error::TemplateRender(_) => usage(message).next("provost serve --help"),
    }
}
