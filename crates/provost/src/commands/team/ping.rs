//! `provost team ping`: proves that every member receives messages and that its replies arrive.

use std::{collections::BTreeMap, process::ExitCode, sync::mpsc::RecvTimeoutError, time::Duration};

use clap::Args;
use provost_api::EventRow;
use provost_core::team::{
    MessageChannel, NewMessage, Priority, Recipient, TeamCommand, TeamMessageKind,
};
use serde_json::json;

use super::args::TeamTarget;
use crate::{
    cli::CliResult,
    clock,
    commands::input,
    context::Context,
    follow::{self, EventFilter},
    ui::{self, Tone},
};

/// Check that every member of a team is reachable and answers
///
/// Each member receives a unique string and must send that string back to the operator. The exit
/// code is 0 if all members answered, and 5 if one did not answer in time.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team ping limits\n  provost team ping limits --timeout 5m --json"
)]
pub(super) struct PingArgs {
    /// Team ID or name
    #[arg(value_parser = input::parse_name)]
    team: String,
    /// Maximum wait for the answers, in seconds or with a unit as in 90s or 5m
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = input::parse_seconds)]
    timeout: u64,
}

pub(super) fn run(context: &Context, args: &PingArgs) -> CliResult {
    let meant = TeamTarget::new(&args.team);
    let task = meant.find(context)?;
    let members: Vec<&str> =
        task.members.iter().filter(|one| !one.left).map(|one| one.name.as_str()).collect();
    let nonces: BTreeMap<String, &str> = members.iter().map(|name| (nonce(), *name)).collect();
    let since = follow::newest(context)?;
    let events = follow::follow_in_background(EventFilter::All, since)?;
    for (nonce, name) in &nonces {
        let command = TeamCommand::Post(Box::new(probe(nonce, name, args.timeout)));
        meant.send(context, &command, &format!("probe-{nonce}"))?;
    }
    let deadline = clock::deadline_after(Duration::from_secs(args.timeout));
    let mut waiting = nonces.clone();
    while !waiting.is_empty() {
        let event = match events.recv_timeout(clock::time_until(deadline)) {
            Ok(event) => event?,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        };
        // A member that has left, or whose team has ended, will not reply.
        if ends(&event, &task.id) {
            break;
        }
        let before = waiting.len();
        waiting.retain(|nonce, name| !is_answer(&event, &task.id, nonce, name));
        if waiting.len() < before {
            acknowledge_answer(context, meant, &event);
        }
    }
    show_result(context, &task.id, &members, waiting.into_values().collect())
}

/// Cancels a reply that this command has read, so that the operator does not receive it again. If another consumer took
/// the reply first, the reply is left unchanged.
fn acknowledge_answer(context: &Context, meant: TeamTarget<'_>, answer: &EventRow) {
    let no = answer.data["no"].as_u64().and_then(|no| u32::try_from(no).ok());
    let Some(no) = no else { return };
    let because = "answered the connection check".to_owned();
    drop(meant.send(
        context,
        &TeamCommand::CancelMessage { no, because },
        &context.idempotency_key(None),
    ));
}

/// Returns a random text, which a member cannot know before it receives the message.
fn nonce() -> String {
    let id = clock::new_id().simple().to_string();
    blake3::hash(id.as_bytes()).to_hex().chars().take(16).collect()
}

fn probe(nonce: &str, name: &str, seconds: u64) -> NewMessage {
    NewMessage {
        key: format!("probe-{nonce}"),
        correlation: Some(nonce.to_owned()),
        channel: MessageChannel::Cli,
        to: Recipient::Member(name.to_owned()),
        kind: TeamMessageKind::Probe,
        text: format!(
            "This only tests the connection. Send exactly this text to \"operator\", acknowledge this message, and do nothing else: {nonce}"
        ),
        priority: Priority::High,
        // The message expires when this command stops waiting for the reply.
        expires_in_ms: Some(seconds.saturating_mul(1_000)),
        steer: false,
    }
}

/// Whether an event ends the team or removes a member from it.
fn ends(event: &EventRow, task: &str) -> bool {
    let phase = &event.data["phase"];
    let over = ["done", "failed", "cancelled"].iter().any(|word| phase.get(word).is_some());
    let left = matches!(event.kind.as_str(), "team.member_left" | "team.member_rotated");
    event.session == task && (left || (event.kind == "team.phase_changed" && over))
}

/// Whether an event is a message from this member to the operator that contains the member's own nonce.
fn is_answer(event: &EventRow, task: &str, nonce: &str, name: &str) -> bool {
    let data = &event.data;
    event.kind == "team.message_stored"
        && event.session == task
        && data["from"]["member"] == *name
        && data["to"] == "operator"
        && data["text"].as_str().is_some_and(|text| text.trim() == nonce)
}

fn show_result(context: &Context, task: &str, members: &[&str], silent: Vec<&str>) -> CliResult {
    let ready = silent.is_empty() && !members.is_empty();
    let code = if ready { ExitCode::SUCCESS } else { ExitCode::from(5) };
    let next = if ready {
        Vec::new()
    } else {
        vec![format!("provost team inbox ls -t {}", ui::short_id(task))]
    };
    if context.ui.json {
        let answered: Vec<&&str> = members.iter().filter(|name| !silent.contains(name)).collect();
        let value = json!({
            "ok": ready, "team": task, "ready": ready, "answered": answered, "silent": silent,
        });
        context.ui.result(value, &next)?;
        return Ok(code);
    }
    for name in members {
        let (tone, word) = if silent.contains(name) {
            (Tone::Bad, "did not answer")
        } else {
            (Tone::Good, "answered")
        };
        context.ui.line(&format!(
            "{} {}",
            ui::escape_line(name),
            context.ui.paint.paint(tone, word)
        ))?;
    }
    context.ui.notice(if ready { "the team is ready" } else { "the team is not ready" });
    context.ui.next(&next);
    Ok(code)
}
