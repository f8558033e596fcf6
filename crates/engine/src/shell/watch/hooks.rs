//! Takes what a hook of an agent says: a report of its launch, in the agent's own format.

use provost_api::{ApiError, Code};
use provost_core::{
    ids::LaunchId,
    session::{Command, Record},
};
use provost_watch::hooks;
use serde_json::Value;

use super::{
    super::handle::{Ask, Handle},
    records::of_hook,
};

/// Records what a hook says under its key, so that it counts once however often it is taken.
pub async fn take(
    handle: &Handle,
    launch: LaunchId,
    said: &Value,
    actor: &str,
    key: &str,
) -> Result<(), ApiError> {
    let bytes = said.to_string();
    let heard = hooks::read(bytes.as_bytes()).map_err(|why| {
        ApiError::new(Code::BadRequest, format!("this is no hook of Codex: {why}"))
    })?;
    let session = launch.session.to_string();
    let row = handle.ask_json(Ask::Row { session: session.clone() }).await?;
    let thread = row["session"]["thread"].as_str();
    for (no, what) in of_hook(&heard, thread).into_iter().enumerate() {
        let command = Command::Recorded { launch, by: Record::Hook, place: 0, what };
        let ask = Ask::Do { session: session.clone(), command };
        match handle.ask(ask, actor, Some(format!("{key}/{no}"))).await {
            Err(error) if error.code == Code::Unreachable => return Err(error),
            // What was known already is no fault of the hook.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}
