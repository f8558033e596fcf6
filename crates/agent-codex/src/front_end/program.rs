//! Derives the program, the settings and the variables of a Codex session from the machine and the
//! configuration.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use provost_agent::front_end::{
    AgentProgram, AgentVariables, EffectiveSetting, FrontEndContext, ProgramRequest,
};
use provost_api::ApiError;
use provost_config::{self as config, Resolved};
use provost_core::{
    result::ResultForm,
    session::{AgentMode, AgentProfile, AgentSettings, Approvals, Sandbox},
};

use super::{
    settings::CodexSettings,
    setup::{CodexSetup, HOME_VARIABLE, MULTI_AGENT, config_error, configured_multi_agent, usage},
};
use crate::home::{self, KEYS, SCRUBBED_VARIABLES};

/// The file in Provost's home that caches the versions that Codex programs have reported. It can be
/// deleted at any time.
const VERSION_CACHE: &str = "known-codex.json";

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

pub(super) fn variables(config: &Resolved) -> AgentVariables {
    let reason = "because each session has its own home; set yours with agents.codex.home";
    let settings = CodexSettings::from_config(config);
    AgentVariables {
        set: settings.env,
        passed: settings.pass_env,
        reserved: vec![(HOME_VARIABLE, reason)],
        removed: scrubbed_vars().collect(),
    }
}

pub(super) fn resolve(
    context: &FrontEndContext<'_>,
    request: &ProgramRequest<'_>,
) -> Result<AgentProgram, ApiError> {
    let setup = CodexSetup::new(context)?;
    let profile = agent_profile(&setup)?;
    let own_variables = own_variables(context, profile.agent_home.as_deref())?;
    let cache = request.home.map(|home| home.join(VERSION_CACHE));
    let found = setup.find(cache.as_deref())?.codex;
    let no_login = setup.login_problem(request.passes)?;
    let no_login = no_login.map(|missing| format!("{}: {}", missing.problem, missing.fix));
    let warnings = absent_roots(&setup).into_iter().chain(no_login);
    let ignored = request.ignores_files.then(|| {
        format!(
            "Codex ignores .codex in {} because it is not trusted; review it with `provost trust`",
            request.cwd.display()
        )
    });
    Ok(AgentProgram {
        argv: vec![path_text(&found.program)?],
        version: Some(found.version.to_string()),
        settings: settings(request.mode, context.config),
        profile,
        own_variables: own_variables.into_iter().collect(),
        search_first: found.extra_path.into_iter().collect(),
        // A launcher script may find its interpreter next to it.
        search_last: found.program.parent().map(Path::to_owned).into_iter().collect(),
        warnings: warnings.chain(ignored).collect(),
    })
}

pub(super) fn trusts_repository(context: &FrontEndContext<'_>, top: &Path) -> bool {
    let home = CodexSetup::new(context).and_then(|setup| setup.codex_home()).ok().flatten();
    home.is_some_and(|home| home::trusts(&home, top).unwrap_or(false))
}

/// Returns the effective value of `agents.codex.multi_agent` if the key is unset. Asks Codex for
/// the value, unless the repository sets the program or the home of Codex. Returns nothing if Codex
/// is not installed.
pub(super) fn effective_settings(context: &FrontEndContext<'_>) -> Vec<EffectiveSetting> {
    let found = || {
        let setup = CodexSetup::new(context).ok()?;
        if setup.is_named_by_project() && !context.runs_project_programs {
            return configured_multi_agent(context.config);
        }
        let program = setup.find(None).ok()?.codex.program.to_str()?.to_owned();
        setup.multi_agent(&[program]).ok()?
    };
    let setting = found().map(|found| EffectiveSetting {
        key: MULTI_AGENT.to_owned(),
        on: found.on,
        source: found.source,
    });
    setting.into_iter().collect()
}

fn agent_profile(setup: &CodexSetup<'_>) -> Result<AgentProfile, ApiError> {
    let skills =
        setup.skill_roots().iter().map(|root| path_text(root)).collect::<Result<_, _>>()?;
    let codex_home = setup.codex_home()?;
    let account = home::account(codex_home.as_deref(), &setup.user_home).map_err(config_error)?;
    Ok(AgentProfile {
        user_home: path_text(&setup.user_home)?,
        agent_home: codex_home.as_deref().map(path_text).transpose()?,
        skills,
        account: Some(account),
        trusted_files: None,
    })
}

/// Returns the variables that Codex needs to reach its model: the proxies, and the API keys
/// mentioned in its configuration.
fn own_variables(
    context: &FrontEndContext<'_>,
    codex_home: Option<&str>,
) -> Result<BTreeSet<String>, ApiError> {
    let set = |name: &&&str| context.variable(name).is_some();
    let usual = PROXY_VARS.iter().chain(&KEYS).filter(set).map(|name| (*name).to_owned());
    let named = match codex_home {
        None => BTreeSet::new(),
        Some(codex_home) => home::named_variables(Path::new(codex_home)).map_err(config_error)?,
    };
    let astray = |name: &String| scrubbed_vars().any(|other| other == name);
    Ok(usual.chain(named).filter(|name| !astray(name)).collect())
}

/// Returns the variables that would make Codex use a home other than that of its session.
fn scrubbed_vars() -> impl Iterator<Item = &'static str> {
    SCRUBBED_VARIABLES.into_iter().chain([HOME_VARIABLE])
}

/// Returns the agent's settings. Codex cannot ask for approval if it runs only once.
fn settings(mode: AgentMode, config: &Resolved) -> AgentSettings {
    let once = mode == AgentMode::Once;
    let codex = CodexSettings::from_config(config);
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
    let absent = roots.iter().filter(|root: &&PathBuf| !root.is_dir());
    absent.map(|root| format!("skills.roots: {} is not a directory", root.display())).collect()
}

fn path_text(path: &Path) -> Result<String, ApiError> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| usage(format!("the path {} is not UTF-8", path.display())))
}
