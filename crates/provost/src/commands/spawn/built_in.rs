//! The agents that users start by name: derives the spec of their sessions from the machine, the
//! configuration and the flags.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use provost_agent::{
    Adapter,
    front_end::{AgentFrontEnd, AgentProgram, AgentVariables, FrontEndContext, ProgramRequest},
};
use provost_api::ApiError;
use provost_config::{FlagSetting, Resolved};
use provost_core::session::{AgentMode, AgentProfile, AgentSpec, CommandStdin, MultiAgent};

use super::{
    SpawnArgs,
    variables::{VariableArgs, VariableSet},
};
use crate::{
    adapters::adapters,
    context::Context,
    error::usage,
    settings::{self, flag_text},
    trust::{self, AgentTrust, AgentWorkplace},
};

/// The agent settings on the command line. They set keys in the section of the agent.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// Model of the agent [default: the agent's own]
    #[arg(long)]
    pub(super) model: Option<String>,
    /// Reasoning effort of the model, such as low, medium or high [default: the agent's own]
    #[arg(long)]
    pub(super) effort: Option<String>,
    /// File access of the agent's commands
    #[arg(long, value_name = "MODE")]
    pub(super) sandbox: Option<String>,
    /// Approval mode: when the agent asks for approval
    #[arg(long, value_name = "WHEN")]
    pub(super) approvals: Option<String>,
    /// Allow network access in the sandbox
    #[arg(long)]
    pub(super) network: bool,
    /// Codex program to start [default: the newest one found]
    #[arg(long, value_name = "PATH")]
    pub(super) codex_path: Option<String>,
}

impl AgentArgs {
    /// Returns the flags as settings in the highest layer of the configuration. The flags become the settings of the
    /// agent with this name.
    pub(crate) fn flags(&self, agent: Option<&str>) -> Vec<FlagSetting> {
        let Some(agent) = agent.and_then(BuiltInAgent::find) else { return Vec::new() };
        let text = |given: Option<&str>, flag: &str, key: &str| {
            given.map(|text| flag_text(flag, &format!("agents.{}.{key}", agent.name()), text))
        };
        [
            text(self.codex_path.as_deref(), "--codex-path", agent.front_end.program_key()),
            text(self.model.as_deref(), "--model", "model"),
            text(self.effort.as_deref(), "--effort", "effort"),
            text(self.sandbox.as_deref(), "--sandbox", "sandbox"),
            text(self.network.then_some("true"), "--network", "network"),
            text(self.approvals.as_deref(), "--approvals", "approvals"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Returns the name of the first flag that was given.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        let given = [
            (self.codex_path.is_some(), "--codex-path"),
            (self.model.is_some(), "--model"),
            (self.effort.is_some(), "--effort"),
            (self.sandbox.is_some(), "--sandbox"),
            (self.network, "--network"),
            (self.approvals.is_some(), "--approvals"),
        ];
        given.into_iter().find_map(|(given, flag)| given.then_some(flag))
    }
}

/// An agent that users start by name, without any configuration.
#[derive(Clone, Copy)]
pub(crate) struct BuiltInAgent {
    pub(crate) adapter: &'static Arc<dyn Adapter>,
    pub(crate) front_end: &'static dyn AgentFrontEnd,
}

impl BuiltInAgent {
    /// Returns the agent with this name.
    pub(crate) fn find(name: &str) -> Option<BuiltInAgent> {
        adapters().named(name).map(|(adapter, front_end)| BuiltInAgent { adapter, front_end })
    }

    /// Returns the agent of this adapter.
    pub(crate) fn of_adapter(agent: &AgentSpec) -> Option<BuiltInAgent> {
        let adapter = adapters().get(&agent.interface).ok()?;
        Some(BuiltInAgent { adapter, front_end: adapter.front_end()? })
    }

    pub(crate) fn all() -> impl Iterator<Item = BuiltInAgent> {
        adapters().front_ends().map(|(adapter, front_end)| BuiltInAgent { adapter, front_end })
    }

    pub(crate) fn name(self) -> &'static str {
        self.front_end.name()
    }

    /// Returns whether this agent may start agents of its own. `None` if this is unknown.
    pub(crate) fn multi_agent(
        self,
        context: &Context,
        config: &Resolved,
        argv: &[String],
    ) -> Result<Option<MultiAgent>, ApiError> {
        self.front_end.multi_agent(&front_end_context(context, config)?, argv)
    }

    /// Builds the agent, and warnings about it.
    pub(crate) fn spec(
        self,
        context: &Context,
        given: &VariableArgs,
        mode: AgentMode,
        config: &Resolved,
        place: AgentWorkplace<'_>,
    ) -> Result<(AgentSpec, Vec<String>), ApiError> {
        let interface = self.adapter.interface(mode).ok_or_else(|| self.lacks_mode(mode))?;
        let front = front_end_context(context, config)?;
        let trust = trust::agent_trust(&context.environment, place, |top| {
            self.front_end.trusts_repository(&front, top)
        });
        let AgentVariables { set, passed, reserved, removed } = self.front_end.variables(config);
        let mut variables = VariableSet::safe(context.environment.variables());
        variables.configured(self.name(), &set)?;
        variables.patterns(&passed);
        variables.values(&given.env);
        variables.names(&given.pass_env);
        if let Some((name, reason)) = reserved.iter().find(|(name, _)| variables.contains(name)) {
            return Err(usage(format!("Provost sets {name}, {reason}")));
        }
        variables.patterns(&config.environment.allow);
        removed.iter().for_each(|name| variables.without(name));
        // If the home does not exist yet or is not trusted, nothing is cached.
        let home = context.trusted_home().ok().map(|home| home.path);
        let request = ProgramRequest {
            mode,
            cwd: place.cwd,
            passes: &|name| variables.by_name.contains(name),
            ignores_files: trust == AgentTrust::Untrusted,
            home: home.as_deref(),
        };
        let AgentProgram {
            argv,
            version,
            settings,
            profile,
            own_variables,
            search_first,
            search_last,
            warnings,
        } = self.front_end.resolve(&front, &request)?;
        variables.path(|path| search_path(&search_first, path, &search_last));
        let agent = AgentSpec {
            name: self.name().to_owned(),
            interface,
            argv,
            env: variables.by_value,
            pass_env: variables.by_name.into_iter().collect(),
            own_env: own_variables,
            input: CommandStdin::Closed,
            settings,
            version,
            profile: AgentProfile {
                trusted_files: match trust {
                    AgentTrust::Trusted(digest) => Some(digest),
                    AgentTrust::None | AgentTrust::Untrusted => None,
                },
                ..profile
            },
        };
        Ok((agent, warnings))
    }

    fn lacks_mode(self, mode: AgentMode) -> ApiError {
        let without = match mode {
            AgentMode::Once => "cannot run with --once",
            AgentMode::Terminal => "cannot run with --tty",
            AgentMode::Headless => "runs only with --once or --tty",
        };
        usage(format!("{} {without}", self.front_end.title())).next("provost spawn --help")
    }

    /// Rejects flags that have no effect or a misleading effect with such an agent.
    pub(super) fn reject_ineffective(self, args: &SpawnArgs) -> Result<(), ApiError> {
        let (name, title) = (self.name(), self.front_end.title());
        if args.instruction.is_none() && !args.tty {
            return Err(usage(format!("{title} needs an instruction"))
                .next(format!("provost spawn --agent {name} INSTRUCTION"))
                .next(format!("provost spawn --agent {name} - < FILE")));
        }
        if !args.command.is_empty() {
            return Err(usage(format!(
                "{title} accepts no further arguments: use flags of spawn or keys of agents.{name}"
            ))
            .next("provost spawn --help"));
        }
        match (args.stdin, args.exit_zero_completes && !args.once) {
            (true, _) => Err(usage(format!(
                "--stdin applies only to plain commands; Provost controls {title} over a protocol"
            ))),
            (_, true) => Err(usage(format!(
                "--exit-zero-completes applies only to commands that end; {title} runs as a \
                 server, whose exit status does not describe the work"
            ))),
            (false, false) => Ok(()),
        }
    }
}

/// Returns the user's environment and configuration for the front end of an agent.
pub(crate) fn front_end_context<'a>(
    context: &'a Context,
    config: &'a Resolved,
) -> Result<FrontEndContext<'a>, ApiError> {
    let current_dir = context.environment.current_dir()?;
    Ok(FrontEndContext::new(context.environment.variables(), config, current_dir))
}

/// Returns the context for commands that only read the state of the project that contains `cwd`.
pub(crate) fn read_only_context<'a>(
    context: &'a Context,
    config: &'a Resolved,
    cwd: &Path,
) -> Result<FrontEndContext<'a>, ApiError> {
    let top = settings::project_top(cwd);
    Ok(front_end_context(context, config)?.read_only(top.as_deref()))
}

/// Returns the first flag given to `spawn` that only built-in agents support.
pub(super) fn own_flag(args: &SpawnArgs) -> Option<&'static str> {
    args.settings.first_given().or_else(|| args.once.then_some("--once"))
}

/// Returns the error for a flag that only built-in agents support. `command` is the command to use.
pub(crate) fn only_built_in(flag: &str, command: &str) -> ApiError {
    let (titles, names): (Vec<_>, Vec<_>) =
        BuiltInAgent::all().map(|agent| (agent.front_end.title(), agent.name())).unzip();
    let Some(first) = names.first() else {
        return usage(format!(
            "{flag} applies only to built-in agents, and this build of Provost contains no such agent"
        ));
    };
    let message = format!(
        "{flag} applies only to {}: use it with --agent {}",
        titles.join(" and "),
        names.join(" or --agent ")
    );
    usage(message).next(command.replace("AGENT", first))
}

/// Returns a search path with directories before and after those of `PATH`.
fn search_path(first: &[PathBuf], path: &str, last: &[PathBuf]) -> String {
    let known: Vec<_> = std::env::split_paths(path).collect();
    let last: Vec<_> = last.iter().filter(|dir| !known.contains(dir)).cloned().collect();
    let joined = std::env::join_paths(first.iter().cloned().chain(known).chain(last));
    joined.map(OsString::into_string).ok().and_then(Result::ok).unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
#[cfg(feature = "codex")]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use clap::Parser;
    use provost_core::{
        result::ResultForm,
        session::{AgentSettings, Approvals, ExitZeroPolicy, Sandbox, SessionSpec},
    };
    use tempfile::TempDir;

    use super::{super::spec, *};
    use crate::{
        clock,
        environment::Environment,
        ui::{Paint, Ui},
    };

    #[derive(Parser)]
    struct TestCli {
        #[command(flatten)]
        args: SpawnArgs,
    }

    /// A test user with a Codex home, and a program that simulates Codex.
    struct CodexTestEnv {
        dir: TempDir,
    }

    impl CodexTestEnv {
        fn new() -> Self {
            let env = CodexTestEnv { dir: tempfile::tempdir().unwrap() };
            fs::create_dir_all(env.path("home/.codex")).unwrap();
            fs::create_dir_all(env.path("work")).unwrap();
            fs::write(env.path("home/.codex/auth.json"), "{}").unwrap();
            fs::write(env.path("codex"), "#!/bin/sh\necho 'codex-cli 0.166.0'\n").unwrap();
            fs::set_permissions(env.path("codex"), fs::Permissions::from_mode(0o755)).unwrap();
            env
        }

        fn path(&self, below: &str) -> PathBuf {
            fs::canonicalize(self.dir.path()).unwrap().join(below)
        }

        fn text(&self, below: &str) -> String {
            self.path(below).display().to_string()
        }

        fn spec(
            &self,
            flags: &[&str],
            variables: &[(&str, &str)],
        ) -> Result<SessionSpec, ApiError> {
            let (home, codex, work) = (self.text("home"), self.text("codex"), self.text("work"));
            let mut known = vec![("HOME", home.as_str()), ("PATH", "/usr/bin:/bin")];
            known.extend([("PROVOST_HOME", "/nowhere"), ("PROVOST_CODEX", codex.as_str())]);
            known.extend(variables);
            let ui = Ui { json: true, hints: true, paint: Paint::OFF, notice_paint: Paint::OFF };
            let context = Context::with(Environment::from_pairs(&known), ui);
            let line = ["spawn", "--agent", "codex", "--cwd", &work];
            let line = TestCli::try_parse_from(line.iter().chain(flags)).unwrap();
            spec::build(&context, &line.args, clock::new_id())
        }

        fn refused(&self, flags: &[&str]) -> String {
            self.spec(flags, &[]).unwrap_err().message
        }
    }

    #[test]
    fn codex_works_without_configuration() {
        let env = CodexTestEnv::new();
        let spec = env.spec(&["do it"], &[("LANG", "C")]).unwrap();
        let agent = &spec.agent;
        assert_eq!((agent.name.as_str(), agent.interface.mode), ("codex", AgentMode::Headless));
        assert_eq!(agent.argv, [env.text("codex")]);
        assert_eq!(agent.version.as_deref(), Some("0.166.0"));
        assert_eq!(agent.profile.user_home, env.text("home"));
        assert_eq!(agent.profile.agent_home, Some(env.text("home/.codex")));
        let account = format!("openai {}", env.text("home/.codex/auth.json"));
        assert_eq!(agent.profile.account, Some(account));
        assert!(agent.settings.questions);
        assert_eq!(agent.settings.approvals, Approvals::OnRequest);
        assert_eq!(agent.env["LANG"], "C");
        assert!(agent.env["PATH"].starts_with("/usr/bin:/bin:"), "{}", agent.env["PATH"]);
        assert_eq!(spec.instruction.as_deref(), Some("do it"));
        assert_eq!(spec.exit_zero, ExitZeroPolicy::NotAClaim);
    }

    #[test]
    fn flags_reach_the_session() {
        let flags = [
            "--model",
            "m",
            "--effort",
            "high",
            "--sandbox",
            "read-only",
            "--network",
            "--approvals",
            "untrusted",
            "--budget",
            "2M",
            "--turns",
            "3",
            "do it",
        ];
        let spec = CodexTestEnv::new().spec(&flags, &[]).unwrap();
        let settings = AgentSettings {
            model: Some("m".into()),
            effort: Some("high".into()),
            sandbox: Sandbox::ReadOnly,
            network: true,
            approvals: Approvals::Untrusted,
            questions: true,
            result: ResultForm::Plain,
            accept_trust: false,
            member: None,
            multi_agent: None,
        };
        assert_eq!(spec.agent.settings, settings);
        assert_eq!((spec.budget.tokens, spec.budget.turns), (Some(2_000_000), Some(3)));
    }

    #[test]
    fn one_shot_never_asks_and_exit_counts() {
        let spec = CodexTestEnv::new().spec(&["--once", "do it"], &[]).unwrap();
        assert_eq!(spec.agent.interface.mode, AgentMode::Once);
        assert_eq!(spec.exit_zero, ExitZeroPolicy::Completes);
        assert_eq!(spec.agent.settings.approvals, Approvals::Never);
        assert!(!spec.agent.settings.questions);
        assert_eq!(spec.instruction.as_deref(), Some("do it"));
    }

    #[test]
    fn keys_pass_by_name_and_user_home_is_dropped() {
        let env = CodexTestEnv::new();
        let config = "[model_providers.p]\nenv_key = \"P_KEY\"\n";
        fs::write(env.path("home/.codex/config.toml"), config).unwrap();
        let home = env.text("home/.codex");
        let variables = [
            ("OPENAI_API_KEY", "hunter1"),
            ("P_KEY", "hunter2"),
            ("HTTPS_PROXY", "http://u:hunter3@proxy"),
            ("CODEX_HOME", home.as_str()),
            ("CODEX_SQLITE_HOME", "/elsewhere"),
        ];
        let flags = ["--pass-env", "CODEX_SQLITE_HOME", "do it"];
        let spec = env.spec(&flags, &variables).unwrap();
        assert_eq!(spec.agent.own_env, ["HTTPS_PROXY", "OPENAI_API_KEY", "P_KEY"]);
        assert_eq!(spec.agent.pass_env, [""; 0], "checks and hooks get none of these variables");
        assert_eq!(spec.agent.profile.agent_home.as_deref(), Some(home.as_str()));
        let written = serde_json::to_string(&spec).unwrap();
        assert!(!written.contains("hunter"), "{written}");
        assert!(!spec.agent.env.contains_key("CODEX_HOME"));
    }

    #[test]
    fn ineffective_options_are_rejected() {
        let env = CodexTestEnv::new();
        assert!(env.refused(&[]).contains("needs an instruction"));
        assert!(env.refused(&["do it", "--", "--search"]).contains("no further arguments"));
        assert!(env.refused(&["--stdin", "do it"]).contains("--stdin"));
        assert!(env.refused(&["--exit-zero-completes", "do it"]).contains("--exit-zero-completes"));
        assert!(env.refused(&["--env", "CODEX_HOME=/x", "do it"]).contains("agents.codex.home"));
        assert!(env.refused(&["--pass-env", "CODEX_HOME", "do it"]).contains("agents.codex.home"));
        assert!(env.refused(&["--sandbox", "none", "do it"]).contains("read-only"));
        let missing = env.refused(&["--codex-path", "/no/codex", "do it"]);
        assert!(missing.contains("--codex-path") && missing.contains("no such file"), "{missing}");
        fs::write(env.path("home/.codex/config.toml"), "a = = 1").unwrap();
        assert!(env.refused(&["do it"]).contains("config.toml, line 1"));
    }

    #[test]
    fn missing_skills_root_is_a_warning() {
        let env = CodexTestEnv::new();
        fs::create_dir_all(env.path("home/.config/provost")).unwrap();
        fs::create_dir_all(env.path("home/.config/provost/ours")).unwrap();
        let text = "skills.roots = [\"ours\", \"gone\"]\n";
        fs::write(env.path("home/.config/provost/provost.toml"), text).unwrap();
        let spec = env.spec(&["do it"], &[]).unwrap();
        let roots = ["home/.config/provost/ours", "home/.config/provost/gone"];
        assert_eq!(spec.agent.profile.skills, roots.map(|root| env.text(root)));
        assert_eq!(spec.warnings.len(), 1, "{:?}", spec.warnings);
        assert!(spec.warnings[0].contains("gone is not a directory"), "{:?}", spec.warnings);
    }

    #[test]
    fn missing_login_is_a_warning() {
        let env = CodexTestEnv::new();
        assert_eq!(env.spec(&["do it"], &[]).unwrap().warnings, [""; 0]);
        fs::remove_file(env.path("home/.codex/auth.json")).unwrap();
        let spec = env.spec(&["do it"], &[]).unwrap();
        let [only] = spec.warnings.as_slice() else { panic!("{:?}", spec.warnings) };
        assert!(only.contains("is not logged in") && only.ends_with(": codex login"), "{only}");
        let named = env.spec(&["--pass-env", "OPENAI_API_KEY", "do it"], &[]).unwrap();
        assert_eq!(named.warnings, [""; 0], "the daemon reports whether it is set");
    }

    #[test]
    fn search_path_includes_launcher_dirs() {
        let dirs = |dirs: &[&str]| dirs.iter().map(PathBuf::from).collect::<Vec<_>>();
        let path = |first, last| search_path(&dirs(first), "/usr/bin:/bin", &dirs(last));
        assert_eq!(path(&[], &["/usr/bin"]), "/usr/bin:/bin");
        assert_eq!(path(&[], &["/nvm/bin"]), "/usr/bin:/bin:/nvm/bin");
        assert_eq!(path(&["/v/path"], &["/bin"]), "/v/path:/usr/bin:/bin");
    }
}
