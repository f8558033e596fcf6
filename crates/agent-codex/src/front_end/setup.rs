//! The configured Codex on this machine: its program, home, login and skills.

use std::path::{Path, PathBuf};

use provost_agent::front_end::FrontEndContext;
use provost_api::{ApiError, ErrorCode};
use provost_config::{Resolved, Switchable, ValueSource};
use provost_core::session::MultiAgent;
use provost_sys::error_chain;

use super::settings::CodexSettings;
use crate::{
    CodexSearch, NamedCodex, SearchEnvironment, features, find_codex,
    home::{self, Login, MissingLogin},
    locate, skills,
};

/// The environment variable that contains the path of Codex's home.
pub(super) const HOME_VARIABLE: &str = "CODEX_HOME";

/// The key that allows Codex to start agents of its own.
pub(super) const MULTI_AGENT: &str = "agents.codex.multi_agent";

/// The configuration of Codex, and what is needed to resolve the paths in it.
pub(super) struct CodexSetup<'a> {
    context: &'a FrontEndContext<'a>,
    settings: CodexSettings,
    pub(super) user_home: PathBuf,
}

/// Why a session cannot log in, and how to fix it.
#[derive(Debug)]
pub(super) struct LoginProblem {
    pub(super) problem: String,
    pub(super) fix: String,
}

/// Returns whether the configuration allows Codex to start agents of its own, or `None` if the key
/// is unset.
pub(super) fn configured_multi_agent(config: &Resolved) -> Option<MultiAgent> {
    let source = config.provenance.get(MULTI_AGENT).map(ToString::to_string);
    let settings = CodexSettings::from_config(config);
    settings.multi_agent.map(|on| MultiAgent { on, source: source.unwrap_or_default() })
}

impl<'a> CodexSetup<'a> {
    pub(super) fn new(context: &'a FrontEndContext<'a>) -> Result<Self, ApiError> {
        let user_home = context.absolute_path("HOME").ok_or_else(|| {
            usage("Codex needs a home directory: HOME is not set").next("export HOME=DIRECTORY")
        })?;
        let settings = CodexSettings::from_config(context.config);
        Ok(CodexSetup { context, settings, user_home })
    }

    /// Whether the project's file sets the program or the home that the program would read.
    pub(super) fn is_named_by_project(&self) -> bool {
        ["agents.codex.path", "agents.codex.home"]
            .into_iter()
            .any(|key| self.context.is_set_by_project(key))
    }

    /// Returns the configured program and where it is configured.
    pub(super) fn explicit_program(&self) -> Option<NamedCodex> {
        const KEY: &str = "agents.codex.path";
        let path = self.resolve_path(KEY, self.settings.path.on()?);
        let source = match self.context.config.provenance.get(KEY) {
            Some(ValueSource::Flag { .. }) => locate::PathSource::Flag,
            Some(ValueSource::Environment { .. }) => locate::PathSource::Environment,
            Some(
                ValueSource::Default
                | ValueSource::User(_)
                | ValueSource::Project(_)
                | ValueSource::Preset { .. },
            )
            | None => locate::PathSource::Config,
        };
        Some(NamedCodex { path, source })
    }

    /// Finds the Codex program to start. If there is a cache file, programs whose version it
    /// contains are not run again.
    pub(super) fn find(&self, memory: Option<&Path>) -> Result<CodexSearch, ApiError> {
        let search = SearchEnvironment { version_cache: memory, ..self.search_environment() };
        find_codex(self.explicit_program().as_ref(), &search).map_err(|why| {
            let code = match &why {
                locate::Error::Unusable { .. } => ErrorCode::BadRequest,
                locate::Error::NoneUsable { .. } | locate::Error::Scratch(_) => {
                    ErrorCode::Unreachable
                }
            };
            ApiError::new(code, error_chain(&why)).next("provost doctor")
        })
    }

    pub(super) fn search_environment(&self) -> SearchEnvironment<'_> {
        SearchEnvironment { path: &self.context.path, home: &self.user_home, version_cache: None }
    }

    /// Finds the user's Codex home: the configured one, or else the one from the environment, or
    /// else the default. A home that is set explicitly must exist.
    pub(super) fn codex_home(&self) -> Result<Option<PathBuf>, ApiError> {
        const KEY: &str = "agents.codex.home";
        match &self.settings.home {
            Switchable::Off => Ok(None),
            Switchable::On(path) => self.require_home(self.resolve_path(KEY, path), KEY).map(Some),
            Switchable::Unset => match self.context.variable(HOME_VARIABLE) {
                Some(path) => {
                    self.require_home(self.context.current_dir.join(path), HOME_VARIABLE).map(Some)
                }
                None => Ok(Some(self.user_home.join(".codex")).filter(|usual| usual.is_dir())),
            },
        }
    }

    /// Returns why a session could not log in, and how to fix it. `given` returns whether a
    /// variable is passed to the agent in addition to the configured and default ones.
    pub(super) fn login_problem(
        &self,
        given: &dyn Fn(&str) -> bool,
    ) -> Result<Option<LoginProblem>, ApiError> {
        let codex_home = self.codex_home()?;
        let codex = &self.settings;
        let configured = |name: &str| codex.env.get(name).is_some() || codex.pass_env.matches(name);
        let is_set =
            |name: &str| self.context.variable(name).is_some() || configured(name) || given(name);
        let login = home::login(codex_home.as_deref(), is_set).map_err(config_error)?;
        let Login::Missing(missing) = login else { return Ok(None) };
        Ok(Some(self.describe_missing_login(missing, codex_home)))
    }

    fn describe_missing_login(
        &self,
        missing: MissingLogin,
        codex_home: Option<PathBuf>,
    ) -> LoginProblem {
        let usual = self.user_home.join(".codex");
        let place = codex_home.unwrap_or_else(|| usual.clone());
        let log_in = if place == usual {
            "codex login".to_owned()
        } else {
            format!("{HOME_VARIABLE}={} codex login", place.display())
        };
        let keys = home::KEYS.join(" and ");
        match (missing, &self.settings.home) {
            (MissingLogin::InKeyring, _) => LoginProblem {
                problem: "the Codex login is in a keyring, which only your own Codex home can use"
                    .to_owned(),
                fix: format!(
                    "set cli_auth_credentials_store = \"file\" in {}, then: {log_in}",
                    place.join("config.toml").display()
                ),
            },
            (MissingLogin::NoLogin, Switchable::Off) => LoginProblem {
                problem: format!(
                    "Codex is not logged in: agents.codex.home is off, and {keys} are not set"
                ),
                fix: format!("export {}=KEY", home::KEYS[1]),
            },
            (MissingLogin::NoLogin, Switchable::On(_) | Switchable::Unset) => LoginProblem {
                problem: format!(
                    "Codex is not logged in: {} does not exist, and {keys} are not set",
                    place.join("auth.json").display()
                ),
                fix: log_in,
            },
        }
    }

    /// Returns whether this Codex may start agents of its own, according to the configuration or
    /// else according to Codex. `None` if neither is known.
    pub(super) fn multi_agent(&self, argv: &[String]) -> Result<Option<MultiAgent>, ApiError> {
        if let Some(configured) = configured_multi_agent(self.context.config) {
            return Ok(Some(configured));
        }
        let variables = [
            ("PATH".into(), self.context.path.clone()),
            ("HOME".into(), self.user_home.clone().into()),
        ];
        let asked =
            features::is_enabled(argv, &variables, self.codex_home()?.as_deref(), "multi_agent");
        let on = asked.map_err(|why| {
            let what = "cannot ask Codex whether it may start its own agents";
            ApiError::new(ErrorCode::Unreachable, format!("{what}: {}", error_chain(&why)))
        })?;
        Ok(on.map(|on| MultiAgent { on, source: "Codex".to_owned() }))
    }

    /// Returns the directories that contain additional skills, in order of precedence.
    pub(super) fn skill_roots(&self) -> Vec<PathBuf> {
        let roots = self.context.config.skills.roots.iter();
        roots.map(|root| self.resolve_path("skills.roots", root)).collect()
    }

    /// Lists the skills that a session working in a directory would have.
    pub(super) fn skills(&self, directory: &Path) -> Result<Vec<skills::Skill>, ApiError> {
        let session = home::SessionHome {
            dir: PathBuf::new(),
            codex_home: self.codex_home()?,
            user_home: self.user_home.clone(),
            trust: home::RepositoryTrust::Untrusted,
            root: directory.to_owned(),
            worktree: directory.to_owned(),
            skill_roots: self.skill_roots(),
            tools: None,
            settings: Default::default(),
        };
        Ok(skills::list(&home::skill_roots(&session)))
    }

    fn require_home(&self, path: PathBuf, by: &str) -> Result<PathBuf, ApiError> {
        if path.is_dir() {
            return Ok(path);
        }
        let message =
            format!("{} is not a directory, but {by} names it as Codex's home", path.display());
        Err(usage(message).next("provost config show"))
    }

    fn resolve_path(&self, key: &str, path: &provost_config::FilePath) -> PathBuf {
        self.context.resolve_path(key, path, &self.user_home)
    }
}

/// Returns an error for an unreadable Codex configuration.
pub(super) fn config_error(why: home::Error) -> ApiError {
    usage(format!("cannot use Codex's configuration: {}", error_chain(&why)))
}

/// Returns an error for invalid user input.
pub(super) fn usage(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::BadRequest, message)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use provost_config::{ConfigFile, FlagSetting, FlagValue, Inputs, resolve};

    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn context<'a>(
        variables: &'a BTreeMap<String, String>,
        config: &'a Resolved,
    ) -> FrontEndContext<'a> {
        FrontEndContext::new(variables, config, std::env::current_dir().unwrap())
    }

    fn config(text: &str, flag: Option<&str>) -> Resolved {
        provost_config::register_agent_sections([CodexSettings::SECTION]);
        let flags = flag.map(|path| FlagSetting {
            flag: "--codex-path".into(),
            key: "agents.codex.path".into(),
            value: FlagValue::Text(path.into()),
        });
        let file = ConfigFile { name: "/repo/provost.toml".into(), text: text.into() };
        let inputs = Inputs {
            project: Some(file),
            project_is_trusted: true,
            flags: flags.into_iter().collect(),
            ..Inputs::default()
        };
        resolve(&inputs).unwrap()
    }

    #[test]
    fn paths_are_relative_to_their_source() {
        let environment = variables(&[("HOME", "/home/u")]);
        let text =
            "skills.roots = [\"skills\", \"~/mine\", \"/all\"]\nagents.codex.path = \"bin/codex\"";
        let resolved = config(text, None);
        let context_of_file = context(&environment, &resolved);
        let setup = CodexSetup::new(&context_of_file).unwrap();
        let roots = ["/repo/skills", "/home/u/mine", "/all"].map(PathBuf::from);
        assert_eq!(setup.skill_roots(), roots);
        let explicit = setup.explicit_program().unwrap();
        assert_eq!(explicit.path, Path::new("/repo/bin/codex"));
        assert_eq!(explicit.source, locate::PathSource::Config);
        let flagged = config(text, Some("x/codex"));
        let context_of_flag = context(&environment, &flagged);
        let explicit = CodexSetup::new(&context_of_flag).unwrap().explicit_program().unwrap();
        assert_eq!(explicit.path, std::env::current_dir().unwrap().join("x/codex"));
        assert_eq!(explicit.source, locate::PathSource::Flag);
    }

    #[test]
    fn home_is_the_set_one_the_default_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().display().to_string();
        let home_of = |pairs: &[(&str, &str)], text: &str| {
            let (environment, resolved) = (variables(pairs), config(text, None));
            CodexSetup::new(&context(&environment, &resolved)).unwrap().codex_home()
        };
        let user = [("HOME", path.as_str())];
        assert_eq!(home_of(&user, "").unwrap(), None, "the default home does not exist yet");
        std::fs::create_dir_all(dir.path().join(".codex")).unwrap();
        std::fs::create_dir_all(dir.path().join("other")).unwrap();
        assert_eq!(home_of(&user, "").unwrap(), Some(dir.path().join(".codex")));
        let other = dir.path().join("other").display().to_string();
        let both = [user[0], (HOME_VARIABLE, other.as_str())];
        assert_eq!(home_of(&both, "").unwrap(), Some(dir.path().join("other")));
        let set = home_of(&both, "agents.codex.home = \"~/.codex\"").unwrap();
        assert_eq!(set, Some(dir.path().join(".codex")));
        assert_eq!(home_of(&both, "agents.codex.home = \"off\"").unwrap(), None);
        let missing = home_of(&user, "agents.codex.home = \"~/gone\"").unwrap_err();
        assert!(missing.message.contains("gone is not a directory"), "{}", missing.message);
        assert!(home_of(&[user[0], (HOME_VARIABLE, "/no/such")], "").is_err());
    }

    #[test]
    fn missing_login_names_the_fix() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().display().to_string(), dir.path().join("other"));
        std::fs::create_dir_all(&other).unwrap();
        let other = other.display().to_string();
        let user = [("HOME", path.as_str())];
        let lacks = |pairs: &[(&str, &str)], text: &str| {
            let (environment, resolved) = (variables(pairs), config(text, None));
            let context = context(&environment, &resolved);
            CodexSetup::new(&context).unwrap().login_problem(&|_| false).unwrap()
        };
        let missing = lacks(&user, "").unwrap();
        assert!(missing.problem.contains(".codex/auth.json"), "{missing:?}");
        assert_eq!(missing.fix, "codex login");
        let elsewhere = lacks(&[user[0], (HOME_VARIABLE, &other)], "").unwrap();
        assert_eq!(elsewhere.fix, format!("CODEX_HOME={other} codex login"));
        let off = lacks(&user, "agents.codex.home = \"off\"").unwrap();
        assert_eq!(off.fix, "export OPENAI_API_KEY=KEY");
        assert!(lacks(&[user[0], ("OPENAI_API_KEY", "k")], "").is_none());
        assert!(lacks(&user, "agents.codex.pass_env = [\"CODEX_API_KEY\"]").is_none());
        std::fs::write(format!("{other}/auth.json"), "{}").unwrap();
        assert!(lacks(&[user[0], (HOME_VARIABLE, &other)], "").is_none());
    }
}
