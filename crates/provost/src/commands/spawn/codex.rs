//! The built-in agent: derives the settings of a Codex session from the machine, the configuration and the flags.

use std::{collections::BTreeSet, ffi::OsString, path::Path};

use clap::Args;
use provost_agent_codex::{CodexProgram, home};
use provost_api::ApiError;
use provost_config::{self as config, BUILT_IN, FlagSetting, Resolved};
use provost_core::{
    result::ResultForm,
    session::{
        AgentMode, AgentProfile, AgentSettings, AgentSpec, Approvals, CommandStdin, Sandbox,
    },
};

use super::{
    SpawnArgs,
    variables::{VariableArgs, VariableSet},
    worktree::path_text,
};
use crate::{
    codex::{CodexSetup, HOME_VARIABLE, config_error, configured_multi_agent},
    context::Context,
    error::usage,
    settings::flag_text,
    trust::{self, AgentTrust, AgentWorkplace},
};

/// Proxy variables. Some machines cannot reach a model without them. Their values may contain a
/// password, so they are passed by name.
const PROXY_VARS: [&str; 11] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CODEX_CA_CERTIFICATE",
];

/// The agent settings on the command line, which exist only for the built-in agent, Codex.
#[derive(Debug, Args)]
pub(crate) struct CodexArgs {
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

impl CodexArgs {
    /// Returns the flags as settings in the highest layer of the configuration.
    pub(crate) fn flags(&self) -> Vec<FlagSetting> {
        let text = |given: &Option<String>, flag: &str, key: &str| {
            given.as_deref().map(|text| flag_text(flag, key, text))
        };
        [
            text(&self.codex_path, "--codex-path", "agents.codex.path"),
            text(&self.model, "--model", "agents.codex.model"),
            text(&self.effort, "--effort", "agents.codex.effort"),
            text(&self.sandbox, "--sandbox", "agents.codex.sandbox"),
            self.network.then(|| flag_text("--network", "agents.codex.network", "true")),
            text(&self.approvals, "--approvals", "agents.codex.approvals"),
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

/// Builds the agent, and warnings about it.
pub(crate) fn agent(
    context: &Context,
    given: &VariableArgs,
    mode: AgentMode,
    config: &Resolved,
    place: AgentWorkplace<'_>,
) -> Result<(AgentSpec, Vec<String>), ApiError> {
    let setup = CodexSetup::new(&context.environment, config)?;
    let trust = trust::codex_trust(&context.environment, place, setup.codex_home()?.as_deref());
    let profile = agent_profile(&setup, &trust)?;
    let mut variables = variables(context, given, config)?;
    let own_env = own_variables(context, profile.agent_home.as_deref())?;
    // If the home does not exist yet or is not trusted, the version cache is missing.
    let memory = context.trusted_home().ok().map(|home| home.codex_version_cache());
    let found = setup.find(memory.as_deref())?.codex;
    variables.path(|path| search_path(&found, path));
    let agent = AgentSpec {
        name: BUILT_IN.to_owned(),
        interface: provost_agent_codex::interface(mode),
        argv: vec![path_text(&found.program)?],
        env: variables.by_value,
        pass_env: variables.by_name.into_iter().collect(),
        own_env: own_env.into_iter().collect(),
        input: CommandStdin::Closed,
        settings: settings(mode, config),
        version: Some(found.version.to_string()),
        profile,
    };
    let passed = |name: &str| agent.pass_env.iter().any(|passed| passed == name);
    let no_login = setup.login_problem(&passed)?;
    let no_login = no_login.map(|missing| format!("{}: {}", missing.problem, missing.fix));
    let warnings = absent_roots(&setup).into_iter().chain(no_login);
    Ok((agent, warnings.chain(unread_by_codex(&trust, place.cwd)).collect()))
}

/// Returns the first flag given to `spawn` that only Codex supports.
pub(super) fn own_flag(args: &SpawnArgs) -> Option<&'static str> {
    args.codex.first_given().or_else(|| args.once.then_some("--once"))
}

/// Rejects flags that have no effect or a misleading effect with Codex.
pub(super) fn reject_ineffective(args: &SpawnArgs) -> Result<(), ApiError> {
    if args.instruction.is_none() && !args.tty {
        return Err(usage("Codex needs an instruction")
            .next("provost spawn --agent codex INSTRUCTION")
            .next("provost spawn --agent codex - < FILE"));
    }
    if !args.command.is_empty() {
        return Err(usage(
            "Codex accepts no further arguments: use flags of spawn or keys of agents.codex",
        )
        .next("provost spawn --help"));
    }
    match (args.stdin, args.exit_zero_completes && !args.once) {
        (true, _) => Err(usage(
            "--stdin applies only to plain commands; Provost controls Codex over a protocol",
        )),
        (_, true) => Err(usage(
            "--exit-zero-completes applies only to commands that end; Codex runs as a server, whose \
             exit status does not describe the work",
        )),
        (false, false) => Ok(()),
    }
}

fn agent_profile(setup: &CodexSetup<'_>, trust: &AgentTrust) -> Result<AgentProfile, ApiError> {
    let skills =
        setup.skill_roots().iter().map(|root| path_text(root)).collect::<Result<_, _>>()?;
    let codex_home = setup.codex_home()?;
    let account = home::account(codex_home.as_deref(), &setup.user_home).map_err(config_error)?;
    Ok(AgentProfile {
        user_home: path_text(&setup.user_home)?,
        agent_home: codex_home.as_deref().map(path_text).transpose()?,
        skills,
        account: Some(account),
        trusted_files: match trust {
            AgentTrust::Trusted(digest) => Some(digest.clone()),
            AgentTrust::None | AgentTrust::Untrusted => None,
        },
    })
}

/// Warns that Codex ignores the repository's `.codex` files, because Codex itself does not report this.
fn unread_by_codex(trust: &AgentTrust, cwd: &Path) -> Option<String> {
    (*trust == AgentTrust::Untrusted).then(|| {
        format!(
            "Codex ignores .codex in {} because it is not trusted; review it with `provost trust`",
            cwd.display()
        )
    })
}

/// Returns the variables that Codex needs to reach its model: the proxies, and the API keys
/// mentioned in its configuration.
fn own_variables(
    context: &Context,
    codex_home: Option<&str>,
) -> Result<BTreeSet<String>, ApiError> {
    let set = |name: &&&str| context.environment.get(name).is_some();
    let usual = PROXY_VARS.iter().chain(&home::KEYS).filter(set).map(|name| (*name).to_owned());
    let named = match codex_home {
        None => BTreeSet::new(),
        Some(codex_home) => home::named_variables(Path::new(codex_home)).map_err(config_error)?,
    };
    let astray = |name: &String| scrubbed_vars().any(|other| other == name);
    Ok(usual.chain(named).filter(|name| !astray(name)).collect())
}

/// Returns the variables that would make Codex use a home other than that of its session.
fn scrubbed_vars() -> impl Iterator<Item = &'static str> {
    home::SCRUBBED_VARIABLES.into_iter().chain([HOME_VARIABLE])
}

fn variables(
    context: &Context,
    args: &VariableArgs,
    config: &Resolved,
) -> Result<VariableSet, ApiError> {
    let mut variables = VariableSet::safe(context.environment.variables());
    variables.patterns(&config.environment.allow);
    variables.configured(BUILT_IN, &config.codex.env)?;
    variables.patterns(&config.codex.pass_env);
    variables.values(&args.env);
    variables.names(&args.pass_env);
    refuse_own_home(args, config)?;
    scrubbed_vars().for_each(|name| variables.without(name));
    Ok(variables)
}

/// Rejects a variable that sets Codex's home. It would have no effect, because each session has its own home.
fn refuse_own_home(args: &VariableArgs, config: &Resolved) -> Result<(), ApiError> {
    let by_flag = args.env.iter().map(|(name, _)| name).chain(&args.pass_env);
    let configured = config.codex.env.iter().map(|(name, _)| name);
    let mut named =
        by_flag.map(String::as_str).chain(configured).chain(config.codex.pass_env.iter());
    if named.any(|name| name == HOME_VARIABLE) {
        return Err(usage(format!(
            "Provost sets {HOME_VARIABLE}, because each session has its own home; set yours with \
             agents.codex.home"
        )));
    }
    Ok(())
}

/// Returns the search path for Codex: the directories that its launcher would add, then `PATH`,
/// then the directory of the program, where a launcher script may find its interpreter.
fn search_path(codex: &CodexProgram, path: &str) -> String {
    let known: Vec<_> = std::env::split_paths(path).collect();
    let own = codex.program.parent().map(Path::to_owned).filter(|own| !known.contains(own));
    let dirs = codex.extra_path.clone().into_iter().chain(known).chain(own);
    let joined = std::env::join_paths(dirs).map(OsString::into_string);
    joined.ok().and_then(Result::ok).unwrap_or_else(|| path.to_owned())
}

/// Returns the agent's settings. Codex cannot ask for approval if it runs only once.
fn settings(mode: AgentMode, config: &Resolved) -> AgentSettings {
    let once = mode == AgentMode::Once;
    let codex = &config.codex;
    let label =
        |choice: &config::Switchable<config::NameLabel>| choice.on().map(|l| l.as_str().to_owned());
    AgentSettings {
        model: label(&codex.model),
        effort: label(&codex.effort),
        sandbox: match codex.sandbox {
            config::Sandbox::ReadOnly => Sandbox::ReadOnly,
            config::Sandbox::WorkspaceWrite => Sandbox::WorkspaceWrite,
            config::Sandbox::FullAccess => Sandbox::FullAccess,
        },
        network: codex.network,
        approvals: match codex.approvals {
            _ if once => Approvals::Never,
            config::Approvals::Untrusted => Approvals::Untrusted,
            config::Approvals::OnRequest => Approvals::OnRequest,
            config::Approvals::Never => Approvals::Never,
        },
        questions: codex.questions && !once,
        result: ResultForm::Plain,
        accept_trust: false,
        member: None,
        multi_agent: configured_multi_agent(config),
    }
}

fn absent_roots(setup: &CodexSetup<'_>) -> Vec<String> {
    let roots = setup.skill_roots();
    let absent = roots.iter().filter(|root| !root.is_dir());
    absent.map(|root| format!("skills.roots: {} is not a directory", root.display())).collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

    use clap::Parser;
    use provost_agent_codex::AgentVersion;
    use provost_core::session::{ExitZeroPolicy, SessionSpec};
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
        let codex = |extra: Option<&str>, program: &str| CodexProgram {
            program: PathBuf::from(program),
            version: AgentVersion::new(0, 166, 0),
            extra_path: extra.map(PathBuf::from),
        };
        let path = |codex: &CodexProgram| search_path(codex, "/usr/bin:/bin");
        assert_eq!(path(&codex(None, "/usr/bin/codex")), "/usr/bin:/bin");
        assert_eq!(path(&codex(None, "/nvm/bin/codex")), "/usr/bin:/bin:/nvm/bin");
        assert_eq!(path(&codex(Some("/v/path"), "/bin/codex")), "/v/path:/usr/bin:/bin");
    }
}
