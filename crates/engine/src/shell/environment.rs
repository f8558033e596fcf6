//! The environments of external commands. They inherit only variables whose names are allowed.

use std::{
    collections::BTreeMap, ffi::OsString, os::unix::fs::PermissionsExt, path::Path, sync::Arc,
};

use provost_core::{
    ids::LaunchId,
    session::{AgentSpec, Session, SessionSpec},
    verification::CheckEnvironment,
};

/// The daemon's own environment, from which allowed variables are passed on.
#[derive(Clone, Default)]
pub struct DaemonEnvironment {
    /// Shared, because every effect needs it.
    variables: Arc<BTreeMap<String, String>>,
}

/// Shows only the names, because values may be secret.
impl std::fmt::Debug for DaemonEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

impl DaemonEnvironment {
    /// Takes the environment of a process. Variables that are not valid UTF-8 cannot be passed on.
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        DaemonEnvironment { variables: Arc::new(variables.into_iter().filter_map(text).collect()) }
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str)
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Returns an agent's environment: the session's own values, the allowed variables, and its
    /// identity in Provost.
    pub(crate) fn for_launch(
        &self,
        session: &Session,
        launch: LaunchId,
        place: &ProvostPaths<'_>,
    ) -> Vec<(String, String)> {
        let mut all = self.allowed_variables(&session.spec.agent);
        let number = session.launches.iter().filter(|l| l.attempt == session.attempt().no).count();
        let ours = [
            ("PROVOST_HOME", place.home.display().to_string()),
            ("PROVOST_SOCKET", place.socket.display().to_string()),
            ("PROVOST_BIN", place.program.display().to_string()),
            ("PROVOST_SESSION", session.id.to_string()),
            ("PROVOST_TOKEN", place.token.to_owned()),
            ("PROVOST_LAUNCH_NO", number.max(1).to_string()),
        ];
        all.extend(ours.map(|(name, value)| (name.to_owned(), value)));
        for name in &session.spec.agent.own_env {
            all.extend(self.get(name).map(|value| (name.clone(), value.to_owned())));
        }
        all.extend(
            session.conversation.thread.clone().map(|thread| ("PROVOST_THREAD".to_owned(), thread)),
        );
        debug_assert!(launch.session == session.id);
        all.into_iter().collect()
    }

    /// Returns the environment of a check.
    pub(crate) fn for_check(&self, wanted: &CheckEnvironment) -> Vec<(String, String)> {
        self.with_passed(&wanted.set, &wanted.pass).into_iter().collect()
    }

    /// Returns the environment of a setup or a hook, without the token and the launch id.
    pub(crate) fn for_command(&self, spec: &SessionSpec) -> Vec<(String, String)> {
        self.for_agent(&spec.agent)
    }

    /// Returns the environment of any other command that is run for an agent.
    pub(crate) fn for_agent(&self, agent: &AgentSpec) -> Vec<(String, String)> {
        self.allowed_variables(agent).into_iter().collect()
    }

    /// Like [`DaemonEnvironment::for_agent`], but with additional names.
    pub(crate) fn for_agent_with(
        &self,
        agent: &AgentSpec,
        names: &[&str],
    ) -> Vec<(String, String)> {
        let mut all = self.allowed_variables(agent);
        let own = names.iter().filter_map(|name| Some(((*name).to_owned(), self.get(name)?)));
        all.extend(own.map(|(name, value)| (name, value.to_owned())));
        all.into_iter().collect()
    }

    /// Describes why an agent's program cannot be started, if the program is missing or not executable.
    pub fn missing_program(&self, agent: &AgentSpec, cwd: &str) -> Option<String> {
        let program = agent.argv.first()?;
        if program.contains('/') {
            // `join` leaves an absolute path unchanged.
            let path = Path::new(cwd).join(program);
            return (!is_program(&path)).then(|| {
                if path.exists() {
                    format!("\"{}\" is not an executable file", path.display())
                } else {
                    format!("there is no program \"{}\"", path.display())
                }
            });
        }
        let own = self.allowed_variables(agent).remove("PATH");
        let paths = own.or_else(|| self.get("PATH").map(str::to_owned)).unwrap_or_default();
        let found = std::env::split_paths(&paths).any(|place| is_program(&place.join(program)));
        (!found).then(|| format!("there is no program \"{program}\" in its PATH ({paths})"))
    }

    fn allowed_variables(&self, agent: &AgentSpec) -> BTreeMap<String, String> {
        self.with_passed(&agent.env, &agent.pass_env)
    }

    fn with_passed(
        &self,
        set: &BTreeMap<String, String>,
        pass: &[String],
    ) -> BTreeMap<String, String> {
        let mut all = set.clone();
        for name in pass {
            if let Some(value) = self.variables.get(name) {
                all.insert(name.clone(), value.clone());
            }
        }
        all
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The paths and the token that an agent needs to reach Provost.
pub(crate) struct ProvostPaths<'a> {
    pub(crate) home: &'a Path,
    pub(crate) socket: &'a Path,
    pub(crate) program: &'a Path,
    pub(crate) token: &'a str,
}
