//! Handles the events of an agent's hooks, which are reports from its launch in the agent's own format.

use provost_agent_codex::{
    ThreadId,
    hooks::{self, CodexHookEvent, HookCall},
};
use provost_api::{ApiError, ErrorCode};
use provost_core::{
    ids::LaunchId,
    session::{RecordSignal, RecordSource, SessionCommand},
};
use serde_json::Value;

use super::{
    super::{
        codex,
        executor::EngineWorld,
        handle::{EngineHandle, EngineRequest},
        supervised_command,
    },
    records::from_hook,
    thread_switch,
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
    let bytes = event.to_string();
    let heard = hooks::parse_hook(bytes.as_bytes()).map_err(|why| {
        ApiError::new(ErrorCode::BadRequest, format!("this is not a Codex hook event: {why}"))
    })?;
    let session = launch.session.to_string();
    let row = handle.request_json(EngineRequest::SessionRow { session: session.clone() }).await?;
    let own = row["session"]["thread"].as_str();
    let moved = is_thread_switch(world, launch, &heard, own).await;
    let thread = if moved { Some(heard.thread.as_str()) } else { own };
    let first = moved.then(|| {
        ("moved".to_owned(), RecordSignal::ThreadSwitched { thread: heard.thread.to_string() })
    });
    let rest = from_hook(&heard, thread).into_iter().enumerate();
    for (no, what) in first.into_iter().chain(rest.map(|(no, what)| (no.to_string(), what))) {
        let command = SessionCommand::RecordRead { launch, by: RecordSource::Hook, place: 0, what };
        let ask = EngineRequest::SessionCommand { session: session.clone(), command };
        match handle.request(ask, actor, Some(format!("{key}/{no}"))).await {
            Err(error) if error.code == ErrorCode::Unreachable => return Err(error),
            // It is not the hook's fault if a fact was already known.
            Ok(_) | Err(_) => {}
        }
    }
    if moved {
        world.moves.ring(launch);
    }
    Ok(())
}

/// Whether a hook shows that the user switched to another conversation: input was submitted there,
/// its file is in the agent's own home, and according to the file, it is a user's conversation. The
/// path in the hook event is ignored, because any process below the agent can forge it.
async fn is_thread_switch(
    world: &EngineWorld,
    launch: LaunchId,
    heard: &HookCall,
    own: Option<&str>,
) -> bool {
    let begins = matches!(
        heard.event,
        CodexHookEvent::SessionStarted { .. } | CodexHookEvent::PromptSubmitted { .. }
    );
    let other = own.is_some_and(|own| own != heard.thread.as_str());
    if !begins || !other || heard.subagent.is_some() {
        return false;
    }
    let [(_, home), _] = codex::session_environment(&world.home, launch.session);
    let thread: ThreadId = heard.thread.clone();
    supervised_command::blocking(move || thread_switch::is_user_thread(home, &thread)).await
}
