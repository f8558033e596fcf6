//! `provost adopt`

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use clap::Args;
use provost_agent::discovery::{AgentSelector, DiscoveredAgent, Discovery};
use provost_api::{ApiError, Client, OpenSessionRequest};
use provost_config::{Act, FlagSetting, Resolved};
use provost_core::{
    ids::SessionId,
    session::{
        AgentInterface, AgentSpec, CommandStdin, ExitZeroPolicy, ExternalAgent, OnFinish,
        ProcessIdentity, Reaction, SessionSpec, TmuxPane, WorkLocation,
    },
    verdict::EmptyDiff,
};
use serde_json::Value;

use super::{
    mutation::KeyArgs,
    spawn::{
        self, label,
        spec_from_config::{bounds, budget, session_hooks},
        worktree,
    },
};
use crate::{
    adapters::adapters, cli::CliResult, clock, context::Context, error::usage, settings, target,
    trust::TrustPrompt, ui,
};

/// Supervise an agent that Provost did not start
///
/// At least one of --pid, --rollout, --tmux and --thread is required. If several are given but
/// match different agents, the command fails.
///
/// Provost watches the agent but never terminates it. If the agent runs in a tmux pane, Provost
/// also reads the pane, and `send` types messages into the pane when the agent shows its prompt.
/// Without a pane, `send` fails. `stop` always fails: stop the agent in its own terminal. `cancel`
/// ends the session, but the agent keeps running. The exit code remains unknown, because the
/// process is not a child of Provost.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost discover\n  provost adopt --pid 4711\n  provost adopt --thread 01a1e08b-614a-7c61-a49a-d6ec86726bf8 --name review\n  provost adopt --tmux %3 --role dev"
)]
pub(crate) struct AdoptArgs {
    /// Process ID of the agent
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Rollout file of the agent: the file below ~/.codex/sessions in which Codex records the
    /// conversation
    #[arg(long, value_name = "FILE")]
    rollout: Option<PathBuf>,
    /// tmux pane of the agent, such as %3, or SOCKET:%3 for another tmux server
    #[arg(long, value_name = "PANE")]
    tmux: Option<String>,
    /// ID of the agent's conversation
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// Name of the session [default: derived from the agent and the ID]
    #[arg(long, value_parser = label)]
    name: Option<String>,
    /// Role of the session, used to filter lists
    #[arg(long, value_parser = label)]
    role: Option<String>,
    /// Working directory of the agent, if Provost cannot detect it
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Duration of silence after which an open turn counts as stalled [default: 5m]
    #[arg(long, value_name = "DURATION")]
    stale_after: Option<String>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &AdoptArgs) -> CliResult {
    let given = AgentSelector {
        pid: args.pid,
        rollout: args.rollout.clone(),
        pane: args.tmux.clone(),
        thread: args.thread.clone(),
    };
    let variable = |name: &str| context.environment.get(name).map(str::to_owned);
    let discovery = Discovery { adapters: adapters(), variable: &variable };
    let found = discovery.find_agent(&given)?;
    let id = clock::new_id();
    let client = context.daemon()?;
    let mut spec = spec(context, args, SessionId(id), &found)?;
    spec.warnings.extend(args.name.as_deref().and_then(|name| same_name_warning(&client, name)));
    let spec = serde_json::to_value(&spec)
        .map_err(|why| usage(format!("cannot encode the session: {why}")))?;
    let request = OpenSessionRequest { id: Some(id.to_string()), spec };
    let reply: Value = client.post("/v1/sessions", &request, &args.key.get(context))?;
    spawn::show_opened(context, reply)
}

/// Returns a warning if another live session has the same name, because the name would then refer to two sessions.
fn same_name_warning(client: &Client, name: &str) -> Option<String> {
    let other =
        target::find_session(client, name).ok().filter(|row| row.name == name && !row.sealed)?;
    let id = ui::short_id(&other.id);
    Some(format!("session {id} has the same name; use IDs to distinguish them"))
}

fn spec(
    context: &Context,
    args: &AdoptArgs,
    id: SessionId,
    found: &DiscoveredAgent,
) -> Result<SessionSpec, ApiError> {
    let seen = args.cwd.clone().or_else(|| found.cwd.clone());
    let cwd = spawn::spec::directory(context, seen.as_deref())?;
    check_cwd(&cwd, found)?;
    let stale = args.stale_after.as_deref();
    let flags: Vec<FlagSetting> = stale
        .map(|text| settings::flag_text("--stale-after", "session.stale_after", text))
        .into_iter()
        .collect();
    let wanted = settings::ConfigInputs { flags, ..Default::default() };
    let config = settings::load_to_start(context, &cwd, wanted, TrustPrompt::AtTerminal)?;
    let project = settings::project_top(&cwd).map(|top| worktree::path_text(&top)).transpose()?;
    let name = format!("{}-{}", found.agent, id.short());
    Ok(SessionSpec {
        name: args.name.clone().unwrap_or(name),
        role: args.role.clone(),
        project,
        cwd: worktree::path_text(&cwd)?,
        agent: agent(found),
        instruction: None,
        work: WorkLocation::Plain,
        setup: None,
        checks: Vec::new(),
        keep: Vec::new(),
        protected: Vec::new(),
        check_terms: Default::default(),
        empty_diff: EmptyDiff::Refused,
        exit_zero: ExitZeroPolicy::NotAClaim,
        on_finish: OnFinish::Park,
        bounds: bounds(&config),
        budget: budget(&config),
        policy: Default::default(),
        hooks: session_hooks(&config)?,
        reactions: reactions(&config, &found.interface())?,
        warnings: found.limitations(),
        run: None,
        task: None,
        adopted: Some(Box::new(adopted(found)?)),
    })
}

/// Rejects a `--cwd` that contradicts the observed working directory.
fn check_cwd(given: &Path, found: &DiscoveredAgent) -> Result<(), ApiError> {
    let same =
        |seen: &PathBuf| std::fs::canonicalize(seen).ok() == std::fs::canonicalize(given).ok();
    match &found.cwd {
        Some(seen) if !same(seen) => {
            let (given, seen) = (given.display(), seen.display());
            let message = format!("--cwd is {given}, but the agent works in {seen}");
            Err(usage(message).next("leave out --cwd"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns the reactions for an adopted agent: the project's notifications and nudges. All other
/// reactions are left out.
fn reactions(config: &Resolved, interface: &AgentInterface) -> Result<Vec<Reaction>, ApiError> {
    let no_successor =
        |name: &str| Err(usage(format!("an adopted agent cannot hand over to {name:?}")));
    let mut config = config.clone();
    config.reactions.retain(|_, one| matches!(one.act, Act::Notify | Act::Nudge));
    spawn::reactions::build(&config, interface, no_successor)
}

fn agent(found: &DiscoveredAgent) -> AgentSpec {
    AgentSpec {
        name: found.agent.clone(),
        interface: found.interface(),
        argv: found.argv.clone(),
        env: BTreeMap::new(),
        pass_env: Vec::new(),
        own_env: Vec::new(),
        input: CommandStdin::Closed,
        settings: Default::default(),
        version: found.version.clone(),
        profile: Default::default(),
    }
}

fn adopted(found: &DiscoveredAgent) -> Result<ExternalAgent, ApiError> {
    let process = found.process.as_ref().map(|process| ProcessIdentity {
        pid: i32::try_from(process.pid).unwrap_or(0),
        start_time: process.start_time,
        boot_id: process.boot_id.clone(),
    });
    let pane = found.pane.as_ref();
    let pane = pane.map(|pane| TmuxPane {
        socket: pane.socket.clone(),
        id: pane.id.clone(),
        server: Some(pane.server),
    });
    Ok(ExternalAgent {
        process,
        rollout: found.rollout.as_deref().map(worktree::path_text).transpose()?,
        pane,
        thread: found.thread.clone(),
    })
}
