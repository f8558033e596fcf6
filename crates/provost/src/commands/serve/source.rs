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
use crate::{
    context::Context,
    environment::Environment,
    error::usage,
    settings::{self, ProjectFile},
};

/// The longest workflow that is read.
const MOST_BYTES: u64 = 256 << 10;

/// A workflow's file with the last good reading of it.
pub(super) struct Source {
    pub(super) path: PathBuf,
    environment: Environment,
    /// The file as it was seen last, and the text that is followed.
    text: Result<String, Error>,
    taken: String,
    /// The project's configuration that runs are opened with.
    pub(super) project: ProjectFile,
    /// The project's configuration as it was seen last.
    project_seen: Option<String>,
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
    /// It says something else, and the operator has not agreed to it.
    NotTaken(String),
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
        let tracker = tracker(&workflow, &environment);
        let project = settings::read_project(directory(&path))?;
        let (taken, project_seen) = (text.clone(), text_of(&project));
        let (text, broken) = (Ok(text), None);
        Ok(Source {
            path,
            environment,
            text,
            taken,
            project,
            project_seen,
            workflow,
            tracker,
            broken,
        })
    }

    /// Looks at the project's configuration again. A change counts once the operator agreed to it: an agent may have
    /// written it.
    pub(super) fn refresh_project(&mut self) -> Change {
        let Ok(now) = settings::read_project(self.dir()) else { return Change::None };
        let (text, taken) = (text_of(&now), text_of(&self.project));
        let new = text != self.project_seen;
        self.project_seen.clone_from(&text);
        if text == taken {
            return Change::None;
        }
        let path = now.path.clone().unwrap_or_default();
        if is_agreed_to(&path, text.as_deref()) {
            self.project = now;
            return Change::Taken;
        }
        if new { Change::NotTaken(not_taken(&path)) } else { Change::None }
    }

    /// Looks at the file again. A change counts once the operator agreed to it.
    pub(super) fn refresh(&mut self) -> Change {
        let text = read(&self.path);
        let new = text != self.text;
        self.text = text.clone();
        let read = text.and_then(|text| {
            let variables = self.environment.variables();
            let workflow = workflow::read(&text, directory(&self.path), variables)?;
            Ok((text, workflow))
        });
        match read {
            Ok((text, _)) if text != self.taken && !is_agreed_to(&self.path, Some(&text)) => {
                // What serving began with still holds.
                self.broken = None;
                if new { Change::NotTaken(not_taken(&self.path)) } else { Change::None }
            }
            Ok((text, _)) if text == self.taken && self.broken.is_none() => Change::None,
            Ok((text, workflow)) => {
                self.tracker = tracker(&workflow, &self.environment);
                (self.workflow, self.taken) = (workflow, text);
                self.broken = None;
                Change::Taken
            }
            Err(_) if !new => Change::None,
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

/// Whether the operator agreed to a file as it is now. The trust store connects here: until it does, only what serving
/// began with counts.
fn is_agreed_to(_path: &Path, _text: Option<&str>) -> bool {
    false
}

fn not_taken(path: &Path) -> String {
    let (path, place) = (path.display(), directory(path).display());
    format!("{path} changed and is not taken: runs begin by what serving began with; agree to the change with: provost trust {place}")
}

fn text_of(project: &ProjectFile) -> Option<String> {
    project.content.as_ref().map(|file| file.text.clone())
}

fn tracker(workflow: &Workflow, environment: &Environment) -> Box<dyn Tracker> {
    let tracker = &workflow.config.tracker;
    tracker.settings.open(&tracker.terminal, environment.variables())
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
