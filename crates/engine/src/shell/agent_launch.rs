//! Applies what an agent's adapter needs to the specification of a launch.

use std::path::{Path, PathBuf};

use provost_agent::{
    Adapter,
    launch::{LaunchInput, LaunchPlan, LaunchRequest, RepositoryFiles},
};
use provost_core::{ids::LaunchId, session::Session};
use provost_holder::{HoldSpec, Relay, RelayListener, StdinMode};

use super::{engine_world::EngineWorld, executor::cwd_of};

/// Adds what the adapter needs for this launch. Calling this again for the same launch yields the
/// same result.
pub(crate) fn prepare(
    world: &EngineWorld,
    session: &Session,
    launch: LaunchId,
    spec: &mut HoldSpec,
) -> Result<(), String> {
    let request = LaunchRequest {
        session,
        launch,
        program: &world.program,
        dir: &world.home.agent(session.id),
        drop_box: &world.home.agent_drop_box(session.id),
        listen_socket: world.home.listen_socket(launch),
        files: repository_files(session),
    };
    let adapter =
        world.adapters.get(&session.spec.agent.interface).map_err(|why| why.to_string())?;
    let plan = adapter.plan_launch(&request)?;
    let LaunchPlan { arguments, removed_variables, variables, input } = plan;
    spec.argv.extend(arguments);
    spec.env.retain(|(name, _)| !removed_variables.contains(&name.as_str()));
    for (name, value) in variables {
        set_variable(spec, name, &value);
    }
    match input {
        LaunchInput::Usual => {}
        LaunchInput::Text(text) => {
            spec.stdin = StdinMode::Text(text);
            spec.journal_stdin = false;
        }
        LaunchInput::Socket => {
            spec.stdin = StdinMode::Null;
            let listener = RelayListener { socket: world.home.attach_socket(launch) };
            spec.relay = Some(Relay { socket: request.listen_socket, listener: Some(listener) });
        }
    }
    Ok(())
}

/// Removes the files that a killed agent and its holder left behind.
pub(crate) fn remove_remains(world: &EngineWorld, adapter: Option<&dyn Adapter>, launch: LaunchId) {
    std::fs::remove_file(world.home.attach_socket(launch)).ok();
    if let Some(adapter) = adapter {
        adapter.remove_socket(&world.home.listen_socket(launch));
    }
}

/// Compares the repository's files with what the user trusts. The files are compared before each launch, because an
/// agent may have changed them.
fn repository_files(session: &Session) -> RepositoryFiles {
    let worktree = PathBuf::from(cwd_of(session));
    let root = provost_trust::find_top(&worktree).unwrap_or_else(|| worktree.clone());
    let found = provost_trust::agent_digest(&root, &worktree).ok().flatten();
    let found = found.map(|digest| digest.to_string());
    let agreed = &session.spec.agent.profile.trusted_files;
    RepositoryFiles {
        trusted: agreed.is_some() && *agreed == found,
        exist: provost_trust::has_agent_files(&root, &worktree),
        root,
        worktree,
    }
}

fn set_variable(spec: &mut HoldSpec, name: String, value: &Path) {
    spec.env.retain(|(known, _)| *known != name);
    spec.env.push((name, value.display().to_string()));
}
