//! The whole spec of a session, resolved once from flags and configuration.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use provost_api::ApiError;
use provost_config::{self as config, Flag, Resolved};
use provost_core::{
    ids::SessionId,
    limits::Bounds,
    session::{
        Afterwards, Agent, Budget, Carried, Driver, Exit0, HookEvent, HookSpec, Input, Settings,
        Spec, Work,
    },
    verdict::EmptyDiff,
};
use uuid::Uuid;

use super::{
    SpawnArgs, codex,
    place::{self, Wanted},
    policy,
    variables::Given,
};
use crate::{
    commands::{config::unread, input},
    context::Context,
    error::usage,
    settings::{self, flag_list, flag_text},
};

/// The agent's name for a plain command.
const COMMAND: &str = "command";

/// The most agents that an error names.
const MAX_NAMED: usize = 10;

/// Builds the spec, with what is worth a warning in it.
pub(super) fn build(context: &Context, args: &SpawnArgs, id: Uuid) -> Result<Spec, ApiError> {
    let cwd = directory(context, args)?;
    let config = settings::load(&context.environment, &cwd, flags(args))?;
    refuse_unused(&config)?;
    let (agent, agents_warnings) = agent(context, args, &config)?;
    let instruction = instruction(args, &agent)?;
    let short = SessionId(id).short();
    let name = args.name.clone().unwrap_or_else(|| format!("{}-{short}", label(&agent)));
    let about = args.name.as_deref().or(instruction.as_deref()).unwrap_or_default();
    let wanted = Wanted { cwd: &cwd, config: &config, short: &short, about };
    let placed = place::find(context, &wanted)?;
    let setup = match &placed.work {
        Work::Worktree { .. } => config.worktree.setup.on().map(shell_line),
        Work::Plain | Work::InPlace { .. } | Work::Detached { .. } => None,
    };
    let warnings = config.warnings.iter().map(ToString::to_string);
    let warnings = warnings
        .chain(unread(&cwd, settings::project_top(&cwd).as_deref()))
        .chain(agents_warnings)
        .chain(placed.warnings.iter().cloned())
        .collect();
    let policy = policy::build(context, &config, policy::base(&placed, &cwd))?;
    Ok(Spec {
        name,
        role: args.role.clone(),
        project: placed.project,
        cwd: place::text(&cwd)?,
        instruction,
        work: placed.work,
        setup,
        checks: config.verify.checks.iter().map(shell_line).collect(),
        keep: config.verify.keep.iter().map(|pattern| pattern.as_str().to_owned()).collect(),
        protected: Vec::new(),
        empty_diff: if config.session.no_change_ok {
            EmptyDiff::Accepted
        } else {
            EmptyDiff::Refused
        },
        exit0: exit0(agent.driver, &config),
        afterwards: if args.keep { Afterwards::Park } else { Afterwards::Close },
        bounds: bounds(&config),
        budget: budget(&config),
        policy,
        hooks: hooks(&config)?,
        agent,
        warnings,
        run: None,
    })
}

fn directory(context: &Context, args: &SpawnArgs) -> Result<PathBuf, ApiError> {
    let given = args.cwd.clone().map_or_else(|| context.environment.here(), Ok)?;
    let found = std::fs::canonicalize(&given)
        .map_err(|why| usage(format!("cannot work in {}: {why}", given.display())))?;
    match found.is_dir() {
        true => Ok(found),
        false => Err(usage(format!("cannot work in {}: it is not a directory", given.display()))),
    }
}

/// Flags are the highest layer of the configuration, so they are checked and explained as it is.
fn flags(args: &SpawnArgs) -> Vec<Flag> {
    let switch =
        |on: bool, flag: &str, key: &str, value: &str| on.then(|| flag_text(flag, key, value));
    let text = |given: &Option<String>, flag: &str, key: &str| {
        given.as_deref().map(|text| flag_text(flag, key, text))
    };
    let checks =
        (!args.check.is_empty()).then(|| flag_list("--check", "verify.checks", &args.check));
    [
        switch(args.worktree, "--worktree", "worktree.enabled", "true"),
        switch(args.no_worktree, "--no-worktree", "worktree.enabled", "false"),
        switch(args.exit0_is_done, "--exit0-is-done", "session.exit0_is_done", "true"),
        switch(args.no_change_ok, "--no-change-ok", "session.no_change_ok", "true"),
        text(&args.time_limit, "--time-limit", "session.time_limit"),
        text(&args.stale_after, "--stale-after", "session.stale_after"),
        text(&args.settle, "--settle", "session.settle"),
        text(&args.codex_path, "--codex-path", "agents.codex.path"),
        text(&args.model, "--model", "agents.codex.model"),
        text(&args.effort, "--effort", "agents.codex.effort"),
        text(&args.sandbox, "--sandbox", "agents.codex.sandbox"),
        switch(args.network, "--network", "agents.codex.network", "true"),
        text(&args.approvals, "--approvals", "agents.codex.approvals"),
        text(&args.budget, "--budget", "budget.tokens"),
        text(&args.turns, "--turns", "budget.turns"),
        args.no_check.then(|| flag_list("--no-check", "verify.checks", &[])),
        checks,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A key that would do nothing is an error, not a comfort.
fn refuse_unused(config: &Resolved) -> Result<(), ApiError> {
    match config.verify.protected.is_empty() {
        true => Ok(()),
        false => Err(usage("verify.protected is set, but sessions cannot be landed yet, so it would protect nothing")
            .next("provost config show")),
    }
}

/// Gives the agent, with what is worth a warning about it.
fn agent(
    context: &Context,
    args: &SpawnArgs,
    config: &Resolved,
) -> Result<(Agent, Vec<String>), ApiError> {
    if args.agent.as_deref() == Some(config::BUILT_IN) {
        return codex::agent(context, args, config);
    }
    if let Some(flag) = codex::own_flag(args) {
        let message = format!("{flag} is for Codex: give it with --agent {}", config::BUILT_IN);
        return Err(usage(message).next("provost spawn --agent codex INSTRUCTION"));
    }
    configured(context, args, config).map(|agent| (agent, Vec::new()))
}

fn configured(context: &Context, args: &SpawnArgs, config: &Resolved) -> Result<Agent, ApiError> {
    let mut variables = Given::safe(context.environment.variables());
    variables.patterns(&config.environment.allow);
    let (name, driver, mut argv) = match &args.agent {
        None if args.command.is_empty() => {
            return Err(usage("nothing to start: give a command or an agent")
                .next("provost spawn -- COMMAND")
                .next("provost spawn --agent NAME INSTRUCTION"));
        }
        None => (COMMAND, Driver::Command, Vec::new()),
        Some(name) => {
            let agent = config.agents.get(name).ok_or_else(|| unknown(name, config))?;
            variables.configured(name, &agent.env)?;
            variables.patterns(&agent.pass_env);
            (name.as_str(), driver(agent.driver), agent.command.as_slice().to_vec())
        }
    };
    refuse_budget(args, driver)?;
    argv.extend(args.command.iter().cloned());
    variables.values(&args.env);
    variables.names(&args.pass_env);
    Ok(Agent {
        name: name.to_owned(),
        driver,
        argv,
        env: variables.by_value,
        pass_env: variables.by_name.into_iter().collect(),
        own_env: Vec::new(),
        input: input_of(args, driver)?,
        settings: Settings::default(),
        version: None,
        carried: Carried::default(),
    })
}

/// Nobody counts the tokens and turns of a plain command.
fn refuse_budget(args: &SpawnArgs, driver: Driver) -> Result<(), ApiError> {
    match driver.has_protocol() || (args.budget.is_none() && args.turns.is_none()) {
        true => Ok(()),
        false => Err(usage(
            "--budget and --turns are for agents: a plain command tells of no tokens and no turns, so it would never stop",
        )
        .next("provost spawn --time-limit TIME -- COMMAND")),
    }
}

/// An agent with a protocol is spoken to in any case.
fn input_of(args: &SpawnArgs, driver: Driver) -> Result<Input, ApiError> {
    match (args.stdin, driver.has_protocol()) {
        (true, true) => {
            Err(usage("--stdin is for plain commands: this agent's standard input is always open"))
        }
        (true, false) => Ok(Input::Open),
        (false, _) => Ok(Input::Closed),
    }
}

fn driver(driver: config::Driver) -> Driver {
    match driver {
        config::Driver::Command => Driver::Command,
        config::Driver::Jsonl => Driver::Jsonl,
    }
}

fn unknown(name: &str, config: &Resolved) -> ApiError {
    let known: Vec<&str> =
        std::iter::once(config::BUILT_IN).chain(config.agents.keys().map(String::as_str)).collect();
    let near = |known: &&&str| strsim::osa_distance(name, known) <= name.chars().count().max(3) / 3;
    let nearest = known.iter().filter(near).min_by_key(|known| strsim::osa_distance(name, known));
    let hint = match (nearest, known.as_slice()) {
        (Some(known), _) => format!("did you mean {known:?}?"),
        (None, [only]) => format!("there is {only:?}, and the configuration has no others"),
        (None, known) => {
            let known: Vec<_> =
                known.iter().take(MAX_NAMED).map(|name| format!("{name:?}")).collect();
            format!("there are {}", known.join(", "))
        }
    };
    usage(format!("there is no agent {name:?}; {hint}")).next("provost config show")
}

fn instruction(args: &SpawnArgs, agent: &Agent) -> Result<Option<String>, ApiError> {
    let Some(given) = &args.instruction else { return Ok(None) };
    if !agent.listens() && agent.driver != Driver::CodexExec {
        let message = format!(
            "the agent {:?} is run by the driver \"command\", whose standard input is closed; give the instruction as an argument, or add --stdin",
            agent.name
        );
        return Err(
            usage(message).next(format!("provost spawn --agent {} -- ARGUMENTS", agent.name))
        );
    }
    input::text(given).map(Some)
}

/// The part of a session's name that says what runs.
fn label(agent: &Agent) -> String {
    let program = agent.argv.first().map(Path::new).and_then(Path::file_name);
    let program = program.map(|name| name.to_string_lossy().into_owned());
    let plain = |name: String| crate::ui::clean(&name).chars().take(32).collect();
    match agent.name == COMMAND {
        true => program.map_or_else(|| COMMAND.to_owned(), plain),
        false => agent.name.clone(),
    }
}

/// The exit status of Codex's server says nothing about the work; that of one-shot work is part of it.
fn exit0(driver: Driver, config: &Resolved) -> Exit0 {
    match driver {
        Driver::Codex => Exit0::SaysNothing,
        Driver::CodexExec => Exit0::IsDone,
        Driver::Command | Driver::Jsonl if config.session.exit0_is_done => Exit0::IsDone,
        Driver::Command | Driver::Jsonl => Exit0::SaysNothing,
    }
}

fn budget(config: &Resolved) -> Budget {
    Budget {
        tokens: config.budget.tokens.on().map(|tokens| tokens.get()),
        turns: config.budget.turns.on().copied(),
    }
}

fn bounds(config: &Resolved) -> Bounds {
    let (session, verify) = (&config.session, &config.verify);
    Bounds {
        settle_ms: ms(session.settle),
        drain_ms: ms(session.drain),
        stale_ms: ms(session.stale_after),
        limit_jitter_ms: ms(session.limit_jitter),
        limit_spacing_ms: ms(session.limit_spacing),
        stop_grace_ms: ms(session.stop_grace),
        time_limit_ms: session.time_limit.on().copied().map(ms),
        approval_ms: config.approvals.expire_after.on().copied().map(ms),
        rework: session.rework,
        check_time_ms: ms(verify.time_limit),
        check_output: verify.output_limit.get(),
        output_limit: session.output_limit.get(),
        ..Bounds::default()
    }
}

fn hooks(config: &Resolved) -> Result<BTreeMap<HookEvent, HookSpec>, ApiError> {
    let hook = |(event, hook): (&config::Event, &config::Hook)| {
        let event: HookEvent = event.name().parse().map_err(usage)?;
        let argv = match &hook.command {
            config::Command::Shell(line) => vec!["sh".to_owned(), "-c".to_owned(), line.clone()],
            config::Command::Argv(argv) => argv.as_slice().to_vec(),
        };
        let (time_limit_ms, output_limit) = (ms(hook.time_limit), hook.output_limit.get());
        Ok((event, HookSpec { argv, time_limit_ms, output_limit }))
    };
    config.hooks.iter().map(hook).collect()
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Gives a command as one line for the shell.
fn shell_line(command: &config::Command) -> String {
    match command {
        config::Command::Shell(line) => line.clone(),
        config::Command::Argv(argv) => {
            argv.as_slice().iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
        }
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_arguments_means_the_same_to_the_shell() {
        assert_eq!(quoted("cargo"), "cargo");
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn every_event_of_the_configuration_is_a_hook_of_the_core() {
        for event in config::Event::ALL {
            assert!(event.name().parse::<HookEvent>().is_ok(), "{}", event.name());
        }
        assert_eq!(config::Event::ALL.len(), HookEvent::all().len());
    }
}
