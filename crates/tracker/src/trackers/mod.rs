//! Issue trackers. Provost only reads them. The state of an issue is changed by agents or users.

pub mod file;
pub mod github;
mod subprocess;

use std::{fmt, path::Path};

use crate::{
    issue::{Issue, States},
    workflow::{self, EnvironmentMap},
};

/// A tracker's response: the issues, and warnings about unreadable ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IssueList {
    pub issues: Vec<Issue>,
    pub warnings: Vec<String>,
}

/// A source of issues.
pub trait Tracker: fmt::Debug {
    /// Returns the issues in these states, including blocked ones. Unreadable issues are left out,
    /// with a warning for each.
    fn issues_in_states(&self, states: &States) -> Result<IssueList, Error>;

    /// Returns the issues with these ids in their current state. Missing issues are left out. An
    /// unreadable issue is an error, because its run would be cancelled if it were left out.
    fn issues_by_ids(&self, ids: &[String]) -> Result<Vec<Issue>, Error>;
}

/// The reason why a tracker request failed. Each variant corresponds to a category in the
/// specification.
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
    /// Returns the name of the error's category, for use by programs.
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

/// The tracker settings of a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrackerSettings {
    File(file::FileTrackerSettings),
    GitHub(github::GitHubSettings),
}

impl TrackerSettings {
    /// Reads the settings for a tracker of this kind. Also returns the keys that are unknown.
    pub(crate) fn read(
        kind: Option<&str>,
        provider: workflow::Fields,
        dir: &Path,
        environment: &EnvironmentMap,
    ) -> Result<(Self, Vec<String>), workflow::Error> {
        let wrong = |why: String| Err(workflow::Error::config("tracker.kind", why));
        match kind.map(str::trim) {
            Some(file::KIND) => file::FileTrackerSettings::read(provider, dir, environment)
                .map(|(settings, rest)| (TrackerSettings::File(settings), rest)),
            Some(github::KIND) => github::GitHubSettings::read(provider, dir, environment)
                .map(|(settings, rest)| (TrackerSettings::GitHub(settings), rest)),
            Some(other) => wrong(format!("is {other:?}; expected file or github")),
            None => wrong("is not set; expected file or github".to_owned()),
        }
    }

    /// Returns the default active states and the default terminal states.
    pub(crate) fn states(&self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            TrackerSettings::File(_) => (&file::ACTIVE, &file::TERMINAL),
            TrackerSettings::GitHub(_) => (&github::ACTIVE, &github::TERMINAL),
        }
    }

    /// Creates the tracker. An issue in one of the `terminal` states no longer blocks other issues.
    pub fn open(&self, terminal: &States, environment: &EnvironmentMap) -> Box<dyn Tracker> {
        match self {
            TrackerSettings::File(settings) => {
                Box::new(file::FileTracker::new(settings.clone(), terminal.clone()))
            }
            TrackerSettings::GitHub(settings) => {
                Box::new(github::GitHubTracker::new(settings.clone(), environment.clone()))
            }
        }
    }
}
