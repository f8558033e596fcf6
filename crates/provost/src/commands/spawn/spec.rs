//! Builds the complete spec of a session from the flags and the configuration.

use std::path::{Path, PathBuf};

use provost_api::ApiError;
use provost_config::{FlagSetting, Resolved};
use provost_core::{
    ids::SessionId,
    session::{
        AgentInterface, AgentMode, AgentSpec, CheckTerms, CommandStdin, ExitZeroMeaning,
        ExitZeroPolicy, OnFinish, SessionSpec, WorkLocation, check_typeable,
    },
};
use uuid::Uuid;

use super::{
    SpawnArgs, agents,
    built_in::{self, BuiltInAgent},
    policy, reactions,
    spec_from_config::{
        bounds, budget, checks, keep, no_change, protected, session_hooks, shell_line,
    },
    worktree::{self, WorktreeRequest},
};
use crate::{
    commands::{config::ignored_project_file, input},
    commit_trust::{self, CommitTerms},
    context::Context,
    error::usage,
    settings::{self, flag_list, flag_text},
    trust::{AgentWorkplace, TrustPrompt},
};

/// Builds the spec, and warnings about it.
pub(super) fn build(
    context: &Context,
    args: &SpawnArgs,
    id: Uuid,
) -> Result<SessionSpec, ApiError> {
    let cwd = directory(context, args.cwd.as_deref())?;
    let config = settings::load_to_start(context, &cwd, wanted(args), TrustPrompt::AtTerminal)?;
    let start = worktree::start_commit(context, &cwd, &config)?;
    let ignores_project = args.ignore_project_config;
    let terms = CommitTerms { cwd: &cwd, ignores_project, asking: TrustPrompt::AtTerminal };
    let committed = match &start {
        Some(start) if worktree::is_separate(&config) => {
            commit_trust::judge(context, start, terms)?
        }
        Some(_) | None => None,
    };
    let place = AgentWorkplace { cwd: &cwd, committed: committed.as_ref(), ignores_project };
    let (mut agent, agents_warnings) = agent(context, args, place, &config)?;
    agent.settings.accept_trust = accepts_trust(args, &cwd)?;
    let instruction = instruction(args, &agent)?;
    let short = SessionId(id).short();
    let name = args.name.clone().unwrap_or_else(|| format!("{}-{short}", agents::label(&agent)));
    let about = args.name.as_deref().or(instruction.as_deref()).unwrap_or_default();
    let wanted = WorktreeRequest { cwd: &cwd, config: &config, short: &short, about };
    let placed = worktree::find(context, &wanted, start.as_ref())?;
    let setup = match &placed.work {
        WorkLocation::Worktree { .. } => config.worktree.setup.on().map(shell_line),
        WorkLocation::Plain | WorkLocation::InPlace { .. } | WorkLocation::Detached { .. } => None,
    };
    let warnings = config.warnings.iter().map(ToString::to_string);
    let warnings = warnings
        .chain(ignored_project_file(&cwd, settings::project_top(&cwd).as_deref()))
        .chain(agents_warnings)
        .chain(placed.warnings.iter().cloned())
        .collect();
    let policy = policy::build(context, &config, policy::base(&placed, &cwd))?;
    Ok(SessionSpec {
        name,
        role: args.role.clone(),
        project: placed.project,
        cwd: worktree::path_text(&cwd)?,
        instruction,
        work: placed.work,
        setup,
        checks: checks(&config),
        keep: keep(&config),
        protected: protected(&config),
        check_terms: CheckTerms {
            configured: if args.check.is_empty() { checks(&config) } else { Vec::new() },
            ..CheckTerms::default()
        },
        empty_diff: no_change(&config),
        exit_zero: exit_zero(args, &agent.interface, &config),
        on_finish: if args.keep || args.tty { OnFinish::Park } else { OnFinish::Close },
        bounds: reactions::bounded(bounds(&config), &config),
        budget: budget(&config),
        policy,
        hooks: session_hooks(&config)?,
        reactions: reactions::build(&config, &agent.interface, |name| {
            successor(context, args, name, place, &config)
        })?,
        agent,
        warnings,
        run: None,
        task: None,
        adopted: None,
    })
}

/// Whether a terminal session also gets a window in Provost's own tmux server.
pub(super) fn wants_window(context: &Context, args: &SpawnArgs) -> Result<bool, ApiError> {
    let cwd = directory(context, args.cwd.as_deref())?;
    Ok(settings::load_with(&context.environment, &cwd, wanted(args))?.terminal.tmux)
}

fn wanted(args: &SpawnArgs) -> settings::ConfigInputs<'static> {
    let ignores_project = args.ignore_project_config;
    settings::ConfigInputs { flags: flags(args), ignores_project, ..Default::default() }
}

/// Whether `--accept-trust` was given for the directory or one of its parents.
fn accepts_trust(args: &SpawnArgs, cwd: &Path) -> Result<bool, ApiError> {
    for named in &args.accept_trust {
        let found = std::fs::canonicalize(named)
            .map_err(|why| usage(format!("--accept-trust {}: {why}", named.display())))?;
        if cwd.starts_with(&found) {
            return Ok(true);
        }
    }
    if args.accept_trust.is_empty() {
        return Ok(false);
    }
    let message = format!("--accept-trust does not cover the working directory {}", cwd.display());
    let next = format!("provost spawn --tty --agent codex --accept-trust {}", cwd.display());
    Err(usage(message).next(next))
}

/// Returns the canonical path of the working directory.
pub(crate) fn directory(context: &Context, given: Option<&Path>) -> Result<PathBuf, ApiError> {
    let given =
        given.map_or_else(|| context.environment.current_dir(), |given| Ok(given.to_owned()))?;
    let found = std::fs::canonicalize(&given)
        .map_err(|why| usage(format!("cannot work in {}: {why}", given.display())))?;
    if found.is_dir() {
        Ok(found)
    } else {
        Err(usage(format!("cannot work in {}: it is not a directory", given.display())))
    }
}

/// Converts the flags to the highest configuration layer, so that they are validated and explained
/// like all other settings.
fn flags(args: &SpawnArgs) -> Vec<FlagSetting> {
    let switch =
        |on: bool, flag: &str, key: &str, value: &str| on.then(|| flag_text(flag, key, value));
    let text = |given: &Option<String>, flag: &str, key: &str| {
        given.as_deref().map(|text| flag_text(flag, key, text))
    };
    let checks =
        (!args.check.is_empty()).then(|| flag_list("--check", "verify.checks", &args.check));
    [
        switch(args.worktree, "--worktree", "worktree.enabled", "true"),
        switch(args.tmux, "--tmux", "terminal.tmux", "true"),
        switch(args.no_worktree, "--no-worktree", "worktree.enabled", "false"),
        switch(
            args.exit_zero_completes,
            "--exit-zero-completes",
            "session.exit_zero_completes",
            "true",
        ),
        switch(args.allow_empty_diff, "--allow-empty-diff", "session.allow_empty_diff", "true"),
        text(&args.time_limit, "--time-limit", "session.time_limit"),
        text(&args.stale_after, "--stale-after", "session.stale_after"),
        text(&args.settle, "--settle", "session.settle"),
        text(&args.budget, "--budget", "budget.tokens"),
        text(&args.turns, "--turns", "budget.turns"),
        args.no_check.then(|| flag_list("--no-check", "verify.checks", &[])),
        checks,
    ]
    .into_iter()
    .flatten()
    .chain(args.settings.flags(args.agent.as_deref()))
    .collect()
}

/// Returns the agent, and warnings about it.
fn agent(
    context: &Context,
    args: &SpawnArgs,
    place: AgentWorkplace<'_>,
    config: &Resolved,
) -> Result<(AgentSpec, Vec<String>), ApiError> {
    if let Some(built_in) = args.agent.as_deref().and_then(BuiltInAgent::find) {
        built_in.reject_ineffective(args)?;
        let mode = match (args.once, args.tty) {
            (true, _) => AgentMode::Once,
            (false, true) => AgentMode::Terminal,
            (false, false) => AgentMode::Headless,
        };
        return built_in.spec(context, &args.variables, mode, config, place);
    }
    if let Some(flag) = built_in::own_flag(args) {
        return Err(built_in::only_built_in(flag, "provost spawn --agent AGENT INSTRUCTION"));
    }
    let agent =
        agents::configured(context, args.agent.as_deref(), &args.command, &args.variables, config)?;
    let interface = interface_of(args, &agent)?;
    refuse_budget(args, &interface)?;
    let input = input_of(args, &interface)?;
    Ok((AgentSpec { input, interface, ..agent }, Vec::new()))
}

/// Returns the agent that takes over the work in a hand-over.
fn successor(
    context: &Context,
    args: &SpawnArgs,
    name: &str,
    place: AgentWorkplace<'_>,
    config: &Resolved,
) -> Result<AgentSpec, ApiError> {
    match BuiltInAgent::find(name) {
        Some(agent) => {
            Ok(agent.spec(context, &args.variables, AgentMode::Headless, config, place)?.0)
        }
        None => agents::configured(context, Some(name), &[], &args.variables, config),
    }
}

/// Returns the interface. A plain command can run in a terminal, but an agent with a protocol cannot.
fn interface_of(args: &SpawnArgs, agent: &AgentSpec) -> Result<AgentInterface, ApiError> {
    match (args.tty, agent.interface.takes_instructions()) {
        (false, _) => Ok(agent.interface.clone()),
        (true, false) => Ok(AgentInterface::terminal_command()),
        (true, true) => {
            let message = format!(
                "--tty applies only to programs with a screen: {:?} uses a protocol",
                agent.name
            );
            Err(usage(message).next(format!("provost spawn --agent {} INSTRUCTION", agent.name)))
        }
    }
}

/// Rejects a token or turn limit for a plain command, because plain commands report neither tokens nor turns.
fn refuse_budget(args: &SpawnArgs, interface: &AgentInterface) -> Result<(), ApiError> {
    if interface.takes_instructions() || (args.budget.is_none() && args.turns.is_none()) {
        return Ok(());
    }
    let message = "--budget and --turns apply only to agents: a plain command reports no tokens \
        or turns, so the limit would have no effect";
    Err(usage(message).next("provost spawn --time-limit TIME -- COMMAND"))
}

/// Returns how standard input is used. For an agent with a protocol, standard input is always open.
fn input_of(args: &SpawnArgs, interface: &AgentInterface) -> Result<CommandStdin, ApiError> {
    match (args.stdin, interface.takes_instructions()) {
        (true, true) => Err(usage(
            "--stdin applies only to plain commands: this agent's standard input is always open",
        )),
        (true, false) => Ok(CommandStdin::Open),
        (false, _) => Ok(CommandStdin::Closed),
    }
}

fn instruction(args: &SpawnArgs, agent: &AgentSpec) -> Result<Option<String>, ApiError> {
    let Some(given) = &args.instruction else { return Ok(None) };
    if !agent.accepts_input() && !agent.interface.is_one_shot() {
        let message = format!(
            "agent {:?} uses the adapter \"command\", whose standard input is closed; pass the instruction as an argument, or add --stdin",
            agent.name
        );
        return Err(
            usage(message).next(format!("provost spawn --agent {} -- ARGUMENTS", agent.name))
        );
    }
    let text = input::read_text("the instruction", given)?;
    check_typeable(&agent.interface, &text).map_err(|why| usage(why.to_string()))?;
    Ok(Some(text))
}

/// Returns what exit status 0 means. The flags and the configuration are used only if the agent itself does not define
/// this meaning.
fn exit_zero(args: &SpawnArgs, interface: &AgentInterface, config: &Resolved) -> ExitZeroPolicy {
    let is_done = config.session.exit_zero_completes || args.agent.is_none();
    match interface.capabilities.exit_zero {
        ExitZeroMeaning::NotAClaim => ExitZeroPolicy::NotAClaim,
        ExitZeroMeaning::SuccessfulTurn => ExitZeroPolicy::Completes,
        ExitZeroMeaning::Configured => {
            if is_done && !args.no_exit_zero_completes {
                ExitZeroPolicy::Completes
            } else {
                ExitZeroPolicy::NotAClaim
            }
        }
    }
}
