//! `provost adopt`

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use clap::Args;
use provost_api::{ApiError, Client, OpenRequest};
use provost_config::{Act, Flag, Resolved};
use provost_core::{
    ids::SessionId,
    session::{
        Adopted, Afterwards, Agent, Driver, Exit0, Identity, Input, Pane, Reaction, Spec, Work,
    },
    verdict::EmptyDiff,
};
use serde_json::Value;

use super::{
    change::KeyArgs,
    found::{self, Found, Given},
    spawn::{
        self,
        chosen::{bounds, budget, session_hooks},
        label, place,
    },
};
use crate::{
    cli::Outcome, clock, context::Context, error::usage, settings, target, trust::Asking, ui,
};

/// Take charge of an agent that somebody else started
///
/// It is watched from now on, and Provost does not end it. If it runs in a pane of tmux it is read there too, and what is
/// sent to it is typed there when it is at its prompt. Several ways to name it may be given together; if they are not
/// about the same agent nothing is adopted. What cannot be seen of it is said: the exit code of a process that is not
/// Provost's is nobody's to see.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost discover\n  provost adopt --pid 4711\n  provost adopt --thread 01a1e08b-614a-7c61-a49a-d6ec86726bf8 --name review\n  provost adopt --tmux %3 --role dev"
)]
pub(crate) struct AdoptArgs {
    /// The process of the agent
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// The file in which it writes down its conversation
    #[arg(long, value_name = "FILE")]
    rollout: Option<PathBuf>,
    /// The tmux pane that it runs in, as in %3, or SOCKET:%3 for a server of its own
    #[arg(long, value_name = "PANE")]
    tmux: Option<String>,
    /// The id of its conversation
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// What the session is called; made from the agent and the id otherwise
    #[arg(long, value_parser = label)]
    name: Option<String>,
    /// What the session is for, to list by
    #[arg(long, value_parser = label)]
    role: Option<String>,
    /// Where it works, if that cannot be seen
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// How long an open turn may be silent before it is shown as stalled
    #[arg(long, value_name = "TIME")]
    stale_after: Option<String>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &AdoptArgs) -> Outcome {
    let given = Given {
        pid: args.pid,
        rollout: args.rollout.clone(),
        pane: args.tmux.clone(),
        thread: args.thread.clone(),
    };
    let found = found::one(context, &given)?;
    let id = clock::mint();
    let client = context.daemon()?;
    let mut spec = spec(context, args, SessionId(id), &found)?;
    spec.warnings.extend(args.name.as_deref().and_then(|name| namesake(&client, name)));
    let spec = serde_json::to_value(&spec)
        .map_err(|why| usage(format!("the session cannot be written down: {why}")))?;
    let request = OpenRequest { id: Some(id.to_string()), spec };
    let reply: Value = client.post("/v1/sessions", &request, &args.key.get(context))?;
    spawn::opened(context, reply)
}

/// Says that a session which goes on has the same name: a command that is given it would not know which is meant.
fn namesake(client: &Client, name: &str) -> Option<String> {
    let other = target::find(client, name).ok().filter(|row| row.name == name && !row.sealed)?;
    let id = ui::short(&other.id);
    Some(format!("session {id} has the same name: say which of them is meant by its id"))
}

fn spec(
    context: &Context,
    args: &AdoptArgs,
    id: SessionId,
    found: &Found,
) -> Result<Spec, ApiError> {
    let seen = args.cwd.clone().or_else(|| found.cwd.clone());
    let cwd = spawn::spec::directory(context, seen.as_deref())?;
    works_there(&cwd, found)?;
    let stale = args.stale_after.as_deref();
    let flags: Vec<Flag> = stale
        .map(|text| settings::flag_text("--stale-after", "session.stale_after", text))
        .into_iter()
        .collect();
    let wanted = settings::Wanted { flags, ..Default::default() };
    let config = settings::load_to_start(context, &cwd, wanted, Asking::AtTerminal)?;
    let project = settings::project_top(&cwd).map(|top| place::text(&top)).transpose()?;
    let name = format!("{}-{}", found.agent, id.short());
    Ok(Spec {
        name: args.name.clone().unwrap_or(name),
        role: args.role.clone(),
        project,
        cwd: place::text(&cwd)?,
        agent: agent(found),
        instruction: None,
        work: Work::Plain,
        setup: None,
        checks: Vec::new(),
        keep: Vec::new(),
        protected: Vec::new(),
        check_terms: Default::default(),
        empty_diff: EmptyDiff::Refused,
        exit0: Exit0::SaysNothing,
        afterwards: Afterwards::Park,
        bounds: bounds(&config),
        budget: budget(&config),
        policy: Default::default(),
        hooks: session_hooks(&config)?,
        reactions: reactions(&config, found.driver())?,
        warnings: found.lacks(),
        run: None,
        task: None,
        adopted: Some(Box::new(adopted(found)?)),
    })
}

/// Where it works is not for anybody to say who can see it.
fn works_there(given: &Path, found: &Found) -> Result<(), ApiError> {
    let same =
        |seen: &PathBuf| std::fs::canonicalize(seen).ok() == std::fs::canonicalize(given).ok();
    match &found.cwd {
        Some(seen) if !same(seen) => {
            let (given, seen) = (given.display(), seen.display());
            let message = format!("--cwd is {given}, and the agent is seen to work in {seen}");
            Err(usage(message).next("leave out --cwd"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Whom somebody else started is told something at most: other reactions of the project are not for it.
fn reactions(config: &Resolved, driver: Driver) -> Result<Vec<Reaction>, ApiError> {
    let nobody = |name: &str| Err(usage(format!("nobody hands over to {name}")));
    let mut config = config.clone();
    config.reactions.retain(|_, one| matches!(one.act, Act::Notify | Act::Nudge));
    spawn::reactions::build(&config, driver, nobody)
}

fn agent(found: &Found) -> Agent {
    Agent {
        name: found.agent.clone(),
        driver: found.driver(),
        argv: found.argv.clone(),
        env: BTreeMap::new(),
        pass_env: Vec::new(),
        own_env: Vec::new(),
        input: Input::Closed,
        settings: Default::default(),
        version: found.version.clone(),
        carried: Default::default(),
    }
}

fn adopted(found: &Found) -> Result<Adopted, ApiError> {
    let process = found.process.as_ref().map(|process| Identity {
        pid: i32::try_from(process.pid).unwrap_or(0),
        start_time: process.start_time,
        boot_id: process.boot_id.clone(),
    });
    let pane = found.pane.as_ref();
    let pane = pane.map(|pane| Pane {
        socket: pane.socket.clone(),
        id: pane.id.clone(),
        server: Some(pane.server),
    });
    Ok(Adopted {
        process,
        rollout: found.rollout.as_deref().map(place::text).transpose()?,
        pane,
        thread: found.thread.clone(),
    })
}
