//! Takes the events of an agent's hooks: reports of its launch, in the agent's own format.

use provost_api::{ApiError, Code};
use provost_core::{
    ids::LaunchId,
    session::{Command, Record, Recorded},
};
use provost_watch::{
    ThreadId,
    hooks::{self, Heard, Told},
};
use serde_json::Value;

use super::{
    super::{
        codex,
        executor::World,
        handle::{Ask, Handle},
        held,
    },
    others,
    records::of_hook,
};

/// Records a hook event under its key, so that it counts once however often it is read.
pub async fn take(
    world: &World,
    handle: &Handle,
    launch: LaunchId,
    said: &Value,
    actor: &str,
    key: &str,
) -> Result<(), ApiError> {
    let bytes = said.to_string();
    let heard = hooks::read(bytes.as_bytes()).map_err(|why| {
        ApiError::new(Code::BadRequest, format!("this is not a Codex hook event: {why}"))
    })?;
    let session = launch.session.to_string();
    let row = handle.ask_json(Ask::Row { session: session.clone() }).await?;
    let own = row["session"]["thread"].as_str();
    let moved = moves(world, launch, &heard, own).await;
    let thread = if moved { Some(heard.thread.as_str()) } else { own };
    let first =
        moved.then(|| ("moved".to_owned(), Recorded::Moved { thread: heard.thread.to_string() }));
    let rest = of_hook(&heard, thread).into_iter().enumerate();
    for (no, what) in first.into_iter().chain(rest.map(|(no, what)| (no.to_string(), what))) {
        let command = Command::Recorded { launch, by: Record::Hook, place: 0, what };
        let ask = Ask::Do { session: session.clone(), command };
        match handle.ask(ask, actor, Some(format!("{key}/{no}"))).await {
            Err(error) if error.code == Code::Unreachable => return Err(error),
            // A fact that was already known is not a fault of the hook.
            Ok(_) | Err(_) => {}
        }
    }
    if moved {
        world.moves.ring(launch);
    }
    Ok(())
}

/// Whether a hook shows that the user switched to another conversation: input was submitted there,
/// its file is in the agent's own home, and the file says that it is a user's. The path that the
/// hook names is ignored, because any process below the agent can forge it.
async fn moves(world: &World, launch: LaunchId, heard: &Heard, own: Option<&str>) -> bool {
    let begins = matches!(heard.told, Told::SessionStarted { .. } | Told::PromptSubmitted { .. });
    let other = own.is_some_and(|own| own != heard.thread.as_str());
    if !begins || !other || heard.subagent.is_some() {
        return false;
    }
    let [(_, home), _] = codex::environment(&world.home, launch.session);
    let thread: ThreadId = heard.thread.clone();
    held::blocking(move || others::is_of_people(home, &thread)).await
}
