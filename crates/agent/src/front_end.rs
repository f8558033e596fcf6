//! The port of the command line to one kind of agent: its configuration, program, checks, skills and
//! screen.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use provost_api::ApiError;
use provost_config::{AgentSection, FilePath, NamePatterns, Resolved, ValueSource, Variables};
use provost_core::session::{AgentMode, AgentProfile, AgentSettings, MultiAgent};
use serde::Serialize;

/// The default search path for programs.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The command line's view of one kind of agent. Users start the agent with `--agent NAME`, and
/// `[agents.NAME]` is its section of the configuration.
///
/// Every function runs in the process of the command line, with the user's permissions, and may
/// block.
pub trait AgentFrontEnd: Send + Sync {
    /// The name of the agent on the command line and in the configuration.
    fn name(&self) -> &'static str;

    /// The name of the agent in sentences.
    fn title(&self) -> &'static str;

    /// The agent's section of the configuration, if it has settings.
    fn section(&self) -> Option<AgentSection> {
        None
    }

    /// The key in the agent's section that names its program.
    fn program_key(&self) -> &'static str {
        "path"
    }

    /// Returns the variables that the configuration gives to the agent.
    fn variables(&self, config: &Resolved) -> AgentVariables;

    /// Finds the agent's program, and derives its settings from the machine and the configuration.
    fn resolve(
        &self,
        context: &FrontEndContext<'_>,
        request: &ProgramRequest<'_>,
    ) -> Result<AgentProgram, ApiError>;

    /// Whether the user trusts a repository in the agent's own configuration.
    fn trusts_repository(&self, _context: &FrontEndContext<'_>, _top: &Path) -> bool {
        false
    }

    /// Returns whether the agent may start agents of its own. `None` if this is unknown.
    fn multi_agent(
        &self,
        _context: &FrontEndContext<'_>,
        _argv: &[String],
    ) -> Result<Option<MultiAgent>, ApiError> {
        Ok(None)
    }

    /// Returns the settings whose effective values `config show` explains, because the agent itself
    /// decides if the configuration does not.
    fn effective_settings(&self, _context: &FrontEndContext<'_>) -> Vec<EffectiveSetting> {
        Vec::new()
    }

    /// Checks the agent's installation for `provost doctor`. `home` is Provost's own home.
    fn examine(&self, _context: &FrontEndContext<'_>, _home: Option<&Path>) -> Vec<DoctorFinding> {
        Vec::new()
    }

    /// Lists the skills that a session working in a directory would have. Returns `None` if the
    /// agent has no skills.
    fn skills(
        &self,
        _context: &FrontEndContext<'_>,
        _directory: &Path,
    ) -> Result<Option<Vec<SkillListing>>, ApiError> {
        Ok(None)
    }

    /// Returns why users cannot attach to this version of the agent with its own screen, as the rest
    /// of a sentence that begins with the session. Only asked if the agent's interface allows it.
    fn attach_obstacle(&self, _version: Option<&str>) -> Option<String> {
        None
    }

    /// Returns the command that shows a conversation on the agent's own screen, or why there is
    /// none, as the rest of a sentence that begins with the session.
    fn native_screen(&self, _request: &ScreenRequest<'_>) -> Result<NativeScreen, String> {
        Err("has no screen of its own".to_owned())
    }
}

/// The user's environment and configuration.
pub struct FrontEndContext<'a> {
    pub variables: &'a BTreeMap<String, String>,
    pub config: &'a Resolved,
    /// The directory that relative paths in flags and variables are resolved against.
    pub current_dir: PathBuf,
    /// The search path for programs.
    pub path: OsString,
    /// Whether programs that a repository configures may be run.
    pub runs_project_programs: bool,
}

impl<'a> FrontEndContext<'a> {
    pub fn new(
        variables: &'a BTreeMap<String, String>,
        config: &'a Resolved,
        current_dir: PathBuf,
    ) -> Self {
        let path = variables.get("PATH").filter(|path| !path.is_empty());
        let path = path.map_or(DEFAULT_PATH, String::as_str).into();
        FrontEndContext { variables, config, current_dir, path, runs_project_programs: true }
    }

    /// Restricts the context for commands that only read. Directories in `PATH` are ignored if they
    /// are relative or inside the project, and programs that the project configures are not run.
    pub fn read_only(self, project_top: Option<&Path>) -> Self {
        let real = |dir: &Path| std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
        let counts = |dir: &PathBuf| {
            let inside = project_top.is_some_and(|top| real(dir).starts_with(real(top)));
            dir.is_absolute() && !inside
        };
        let kept: Vec<PathBuf> = std::env::split_paths(&self.path).filter(counts).collect();
        let path = std::env::join_paths(kept).unwrap_or_default();
        FrontEndContext { path, runs_project_programs: false, ..self }
    }

    /// Returns a variable of the environment. An empty one is treated as unset.
    pub fn variable(&self, name: &str) -> Option<&'a str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns a path from a variable. A relative path is treated as unset.
    pub fn absolute_path(&self, name: &str) -> Option<PathBuf> {
        self.variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// Resolves a path from the configuration. Relative paths are resolved against the directory of
    /// the file that sets the key.
    pub fn resolve_path(&self, key: &str, path: &FilePath, user_home: &Path) -> PathBuf {
        path.resolve(self.config.directory_of(key).unwrap_or(&self.current_dir), user_home)
    }

    /// Whether the project's file sets a key.
    pub fn is_set_by_project(&self, key: &str) -> bool {
        let source = match self.config.provenance.get(key) {
            Some(ValueSource::Preset { set, .. }) => Some(set.as_ref()),
            other => other,
        };
        matches!(source, Some(ValueSource::Project(_)))
    }
}

/// The variables that the configuration gives to an agent.
#[derive(Clone, Debug, Default)]
pub struct AgentVariables {
    pub set: Variables,
    pub passed: NamePatterns,
    /// Variables that the user must not set, each with the reason.
    pub reserved: Vec<(&'static str, &'static str)>,
    /// Variables of the user's environment that must not reach the agent.
    pub removed: Vec<&'static str>,
}

/// Which program of an agent is needed, and where it will work.
pub struct ProgramRequest<'a> {
    pub mode: AgentMode,
    pub cwd: &'a Path,
    /// Whether the agent gets a variable of the daemon's environment.
    pub passes: &'a dyn Fn(&str) -> bool,
    /// Whether the repository contains files that the agent ignores, because they are not trusted.
    pub ignores_files: bool,
    /// Provost's own home, in which files may be cached. None if it does not exist.
    pub home: Option<&'a Path>,
}

/// The program of an agent, and everything that is stored with a session.
#[derive(Clone, Debug)]
pub struct AgentProgram {
    pub argv: Vec<String>,
    pub version: Option<String>,
    pub settings: AgentSettings,
    /// The profile, without the trusted files.
    pub profile: AgentProfile,
    /// Variables that only the agent itself gets, by name.
    pub own_variables: Vec<String>,
    /// Directories to search before those in `PATH`.
    pub search_first: Vec<PathBuf>,
    /// Directories to search after those in `PATH`, unless they are in it.
    pub search_last: Vec<PathBuf>,
    pub warnings: Vec<String>,
}

/// The effective value of a setting, and what determined it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveSetting {
    pub key: String,
    pub on: bool,
    pub source: String,
}

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingLevel {
    Ok,
    Warn,
    Fail,
    /// The check could not be made, for a reason that another finding reports.
    Skipped,
}

/// The result of a single check of `provost doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorFinding {
    pub what: &'static str,
    pub level: FindingLevel,
    pub found: String,
    /// How to fix the problem, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl DoctorFinding {
    pub fn ok(what: &'static str, found: impl Into<String>) -> Self {
        DoctorFinding { what, level: FindingLevel::Ok, found: found.into(), fix: None }
    }

    pub fn skipped(what: &'static str, why: impl Into<String>) -> Self {
        DoctorFinding { what, level: FindingLevel::Skipped, found: why.into(), fix: None }
    }

    pub fn warn(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        let (found, fix) = (found.into(), Some(fix.into()));
        DoctorFinding { what, level: FindingLevel::Warn, found, fix }
    }

    pub fn fail(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        let (found, fix) = (found.into(), Some(fix.into()));
        DoctorFinding { what, level: FindingLevel::Fail, found, fix }
    }
}

/// A skill, and whether it reaches the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillListing {
    pub name: String,
    pub description: String,
    pub path: PathBuf,
    /// The directory that was searched.
    pub root: PathBuf,
    pub root_kind: &'static str,
    pub state: SkillState,
}

/// Whether a skill reaches the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillState {
    Used {
        delivery: &'static str,
        /// Further details for users.
        detail: Option<String>,
    },
    Skipped(String),
}

impl SkillListing {
    pub fn is_used(&self) -> bool {
        matches!(self.state, SkillState::Used { .. })
    }
}

/// The live conversation that a user attaches to.
#[derive(Clone, Copy, Debug)]
pub struct ScreenRequest<'a> {
    /// The command of the session's agent.
    pub argv: &'a [String],
    /// The conversation. It may contain any text.
    pub thread: &'a str,
    /// The socket on which the agent listens.
    pub socket: &'a Path,
    /// The directory that belongs to the session's agent.
    pub dir: &'a Path,
    /// The search path for programs.
    pub path: Option<&'a OsStr>,
}

/// The agent's own program, and the arguments that make it show the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeScreen {
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Variables to remove from the environment.
    pub unset: Vec<&'static str>,
}
