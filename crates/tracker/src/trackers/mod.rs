//! Where issues are kept. A tracker is only read: whoever works on an issue moves it.

pub mod file;
pub mod github;
mod program;

use std::{fmt, path::Path};

use crate::{
    issue::{Issue, States},
    workflow::{self, Environment},
};

/// What a tracker answered: its issues, and what in it could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub issues: Vec<Issue>,
    pub warnings: Vec<String>,
}

/// A place where issues are kept.
pub trait Tracker: fmt::Debug {
    /// Gives the issues in these states, also those that may not be worked on. Records that cannot be read are left
    /// out and told.
    fn in_states(&self, states: &States) -> Result<Found, Error>;

    /// Gives these issues as they are now. One that is no longer there is left out; one that cannot be read is an
    /// error, for its absence would mean something.
    fn by_ids(&self, ids: &[String]) -> Result<Vec<Issue>, Error>;
}

/// Why a tracker did not answer. Each has the name of its category in the specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Secret(String),
    #[error("{0}")]
    Request(String),
    #[error("{0}")]
    Status(String),
    #[error("{0}")]
    Response(String),
    #[error("{0}")]
    Pagination(String),
    #[error("{0}")]
    RateLimited(String),
}

impl Error {
    /// Gives the name of the category, for programs.
    pub fn category(&self) -> &'static str {
        match self {
            Error::Secret(_) => "missing_tracker_secret",
            Error::Request(_) => "tracker_request",
            Error::Status(_) => "tracker_status",
            Error::Response(_) => "tracker_response",
            Error::Pagination(_) => "tracker_pagination",
            Error::RateLimited(_) => "tracker_rate_limited",
        }
    }
}

/// What a workflow says about its tracker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settings {
    File(file::Settings),
    GitHub(github::Settings),
}

impl Settings {
    /// Reads what belongs to the tracker of this kind, and names what it does not know.
    pub(crate) fn read(
        kind: Option<&str>,
        provider: workflow::Fields,
        dir: &Path,
        environment: &Environment,
    ) -> Result<(Self, Vec<String>), workflow::Error> {
        let wrong = |why: String| Err(workflow::Error::config("tracker.kind", why));
        match kind.map(str::trim) {
            Some(file::KIND) => file::Settings::read(provider, dir, environment)
                .map(|(settings, rest)| (Settings::File(settings), rest)),
            Some(github::KIND) => github::Settings::read(provider, dir, environment)
                .map(|(settings, rest)| (Settings::GitHub(settings), rest)),
            Some(other) => wrong(format!("is {other:?}; expected file or github")),
            None => wrong("is not set; expected file or github".to_owned()),
        }
    }

    /// Gives the states that are active and those that are an end, unless the workflow says otherwise.
    pub(crate) fn states(&self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Settings::File(_) => (&file::ACTIVE, &file::TERMINAL),
            Settings::GitHub(_) => (&github::ACTIVE, &github::TERMINAL),
        }
    }

    /// Makes the tracker. `terminal` are the states in which an issue no longer blocks another.
    pub fn open(&self, terminal: &States, environment: &Environment) -> Box<dyn Tracker> {
        match self {
            Settings::File(settings) => {
                Box::new(file::Files::new(settings.clone(), terminal.clone()))
            }
            Settings::GitHub(settings) => {
                Box::new(github::GitHub::new(settings.clone(), environment.clone()))
            }
        }
    }
}
