//! Agents defined in the configuration, and plain commands.

use std::path::Path;

use provost_api::{ApiError, ErrorCode};
use provost_config::{self as config, Resolved};
use provost_core::session::{
    AgentInterface, AgentMode, AgentProfile, AgentSettings, AgentSpec, CommandStdin,
};

use super::{
    built_in::BuiltInAgent,
    variables::{VariableArgs, VariableSet},
};
use crate::{
    commands::demo_agent::{DEMO_AGENT, DEMO_COMMAND},
    context::Context,
    error::usage,
    settings, ui,
};

/// The name used as the agent of a plain command.
const COMMAND: &str = "command";

/// The maximum number of agents to list in an error.
const MAX_NAMED: usize = 10;

/// Builds an agent from the configuration, or a plain command.
pub(crate) fn configured(
    context: &Context,
    agent: Option<&str>,
    arguments: &[String],
    given: &VariableArgs,
    config: &Resolved,
) -> Result<AgentSpec, ApiError> {
    let mut variables = VariableSet::safe(context.environment.variables());
    variables.patterns(&config.environment.allow);
    let (name, interface, mut argv) = match agent {
        None if arguments.is_empty() => {
            return Err(usage("nothing to start: pass a command or an agent")
                .next("provost spawn -- COMMAND")
                .next("provost spawn --agent NAME INSTRUCTION"));
        }
        None => (COMMAND, AgentInterface::command(), Vec::new()),
        Some(name) => match config.agents.get(name) {
            Some(agent) => {
                variables.configured(name, &agent.env)?;
                variables.patterns(&agent.pass_env);
                (name, interface(agent.adapter), agent.command.as_slice().to_vec())
            }
            None if name == DEMO_AGENT => (name, AgentInterface::json_lines(), demo_argv()?),
            None => return Err(unknown(Some(context), name, config)),
        },
    };
    argv.extend(arguments.iter().cloned());
    variables.values(&given.env);
    variables.names(&given.pass_env);
    Ok(AgentSpec {
        name: name.to_owned(),
        interface,
        argv,
        env: variables.by_value,
        pass_env: variables.by_name.into_iter().collect(),
        own_env: Vec::new(),
        input: CommandStdin::Closed,
        settings: AgentSettings::default(),
        version: None,
        profile: AgentProfile::default(),
    })
}

/// Returns the outline of an agent by name. This reads only the configuration and starts no program.
pub(crate) fn find_outline(name: &str, config: &Resolved) -> Result<AgentSpec, ApiError> {
    let built_in = BuiltInAgent::find(name);
    let built_in = built_in.and_then(|agent| agent.adapter.interface(AgentMode::Headless));
    let (interface, argv) = match (built_in, config.agents.get(name)) {
        (Some(interface), _) => (interface, vec![name.to_owned()]),
        (None, Some(agent)) => (interface(agent.adapter), agent.command.as_slice().to_vec()),
        (None, None) if name == DEMO_AGENT => (AgentInterface::json_lines(), demo_argv()?),
        (None, None) => return Err(unknown(None, name, config)),
    };
    Ok(AgentSpec {
        name: name.to_owned(),
        interface,
        argv,
        env: Default::default(),
        pass_env: Vec::new(),
        own_env: Vec::new(),
        input: CommandStdin::Closed,
        settings: AgentSettings::default(),
        version: None,
        profile: AgentProfile::default(),
    })
}

/// Returns the command for the built-in scripted agent, which is this program itself.
fn demo_argv() -> Result<Vec<String>, ApiError> {
    let own = std::env::current_exe().map_err(|why| {
        ApiError::new(ErrorCode::Internal, format!("cannot find this program's file: {why}"))
    })?;
    Ok(vec![own.to_string_lossy().into_owned(), DEMO_COMMAND.to_owned()])
}

/// Returns the part of a session's default name that comes from the program.
pub(super) fn label(agent: &AgentSpec) -> String {
    let program = agent.argv.first().map(Path::new).and_then(Path::file_name);
    let program = program.map(|name| name.to_string_lossy().into_owned());
    let plain = |name: String| ui::escape_line(&name).chars().take(32).collect();
    if agent.name == COMMAND {
        program.map_or_else(|| COMMAND.to_owned(), plain)
    } else {
        agent.name.clone()
    }
}

fn interface(adapter: config::Adapter) -> AgentInterface {
    match adapter {
        config::Adapter::Command => AgentInterface::command(),
        config::Adapter::Jsonl => AgentInterface::json_lines(),
    }
}

fn unknown(context: Option<&Context>, name: &str, config: &Resolved) -> ApiError {
    let built_in = BuiltInAgent::all().map(|agent| -> &str { agent.name() }).chain([DEMO_AGENT]);
    let own = config.agents.keys().map(String::as_str).filter(|name| *name != DEMO_AGENT);
    let known: Vec<&str> = built_in.chain(own).collect();
    let near = |known: &&&str| strsim::osa_distance(name, known) <= name.chars().count().max(3) / 3;
    let nearest = known.iter().filter(near).min_by_key(|known| strsim::osa_distance(name, known));
    let hint = match nearest {
        Some(known) => format!("did you mean {known:?}?"),
        None => {
            let known: Vec<_> =
                known.iter().take(MAX_NAMED).map(|name| format!("{name:?}")).collect();
            format!("known agents: {}", known.join(", "))
        }
    };
    let here = context.and_then(|context| context.environment.current_dir().ok());
    // An agent is often unknown because the provost.toml that defines it is ignored.
    let unread = here.as_deref().and_then(settings::ignored_file).map(|file| {
        format!(
            "; {} is not read, because it is outside a git repository (git init)",
            file.display()
        )
    });
    let message = format!("there is no agent {name:?}; {hint}{}", unread.unwrap_or_default());
    usage(message).next("provost config show")
}
