//! Handles the events of an agent's hooks, which are reports from its launch in the agent's own format.

use provost_agent::{Adapter, HookReport};
use provost_api::{ApiError, ErrorCode};
use provost_core::{
    ids::LaunchId,
    session::{RecordSignal, RecordSource, SessionCommand},
};
use serde_json::Value;

use super::super::{
    engine_world::EngineWorld,
    handle::{EngineHandle, EngineRequest},
    supervised_command,
};

/// Records a hook event under its key, so that it counts only once, no matter how often it is read.
pub async fn take_hook_event(
    world: &EngineWorld,
    handle: &EngineHandle,
    launch: LaunchId,
    event: &Value,
    actor: &str,
    key: &str,
) -> Result<(), ApiError> {
    let session = launch.session.to_string();
    let row = handle.session(&*session).await?.session;
    let adapter = world
        .adapters
        .with_id(&row.adapter)
        .map_err(|why| ApiError::new(ErrorCode::BadRequest, why.to_string()))?;
    let report = adapter
        .parse_hook(event.to_string().as_bytes())
        .map_err(|why| ApiError::new(ErrorCode::BadRequest, why))?;
    let elsewhere = row.thread.as_deref().is_some_and(|own| own != report.thread);
    let moved = elsewhere && is_thread_switch(world, &**adapter, launch, &report).await;
    let first = moved.then(|| {
        ("moved".to_owned(), RecordSignal::ThreadSwitched { thread: report.thread.clone() })
    });
    let rest = counted_signals(report, !elsewhere || moved).into_iter().enumerate();
    for (no, what) in first.into_iter().chain(rest.map(|(no, what)| (no.to_string(), what))) {
        let command = SessionCommand::RecordRead { launch, by: RecordSource::Hook, place: 0, what };
        let ask = EngineRequest::SessionCommand { session: session.clone(), command };
        match handle.request(ask, actor, Some(format!("{key}/{no}"))).await {
            Err(error) if error.code == ErrorCode::Unreachable => return Err(error),
            // A hook event that reports a known fact is not an error.
            Ok(_) | Err(_) => {}
        }
    }
    if moved {
        world.moves.ring(launch);
    }
    Ok(())
}

/// Returns the signals to record. Events of other conversations in the same process, and of
/// sub-agents, are ignored.
fn counted_signals(report: HookReport, own_conversation: bool) -> Vec<RecordSignal> {
    if own_conversation && !report.from_subagent { report.signals } else { Vec::new() }
}

/// Whether a hook shows that the user switched to another conversation: input was submitted there,
/// its file is in the agent's own home, and according to the file, it is a user's conversation. The
/// path in the hook event is ignored, because any process below the agent can forge it.
async fn is_thread_switch(
    world: &EngineWorld,
    adapter: &dyn Adapter,
    launch: LaunchId,
    report: &HookReport,
) -> bool {
    let Some(store) = adapter.transcripts() else { return false };
    if !report.takes_input || report.from_subagent {
        return false;
    }
    let home = store.home(&world.home.agent(launch.session));
    let thread = report.thread.clone();
    supervised_command::blocking(move || store.is_user_thread(&home, &thread)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_threads_and_sub_agents_are_ignored() {
        let signals = vec![RecordSignal::TurnStarted { turn: Some("turn-1".to_owned()) }];
        let report = |from_subagent| HookReport {
            thread: "thread-1".to_owned(),
            from_subagent,
            takes_input: false,
            signals: signals.clone(),
        };
        assert_eq!(counted_signals(report(false), true), signals);
        assert_eq!(counted_signals(report(false), false), []);
        assert_eq!(counted_signals(report(true), true), []);
    }
}
