//! The laws of the input that is typed into an agent, and of the messages that an agent may receive.

use std::collections::BTreeSet;

use provost_core::{
    lifecycle::Activity,
    limits::MAX_REFUSALS,
    request::{Request, RequestStatus},
    session::{
        AgentMessage, AgentMessageKind, DeliveryStatus, Event, InputEvent, Launch, LaunchPhase,
        ProcessEvent, Session, SessionEffect, SignalKind, TypingState,
    },
};

use super::{BrokenLaw, law};

/// No keys are sent to an external agent that has no pane.
#[expect(clippy::wildcard_enum_match_arm, reason = "the law is about these effects only")]
pub(super) fn no_input_without_pane(
    session: &Session,
    effects: &[SessionEffect],
) -> Result<(), BrokenLaw> {
    let closed = session.spec.adopted.as_ref().is_some_and(|adopted| adopted.pane.is_none());
    if !closed {
        return Ok(());
    }
    for effect in effects {
        match effect {
            SessionEffect::Deliver { launch, message }
            | SessionEffect::PressAgain { launch, message } => {
                return Err(format!("{message} is to be typed to {launch}, which has no pane"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// An answer is typed only for the latest request, and an interrupt is never typed while a request is open. A text is
/// typed only at an unattended prompt, with no open request and no turn in progress.
#[expect(clippy::wildcard_enum_match_arm, reason = "the law is about these effects only")]
pub(super) fn keys_reach_their_target(
    session: &Session,
    effects: &[SessionEffect],
) -> Result<(), BrokenLaw> {
    if !session.spec.agent.interface.has_terminal() {
        return Ok(());
    }
    for effect in effects {
        let (launch, key, again) = match effect {
            SessionEffect::Deliver { launch, message } => (launch, message, false),
            SessionEffect::PressAgain { launch, message } => (launch, message, true),
            _ => continue,
        };
        let message = session.input.messages.iter().find(|message| message.key == *key);
        let (Some(launch), Some(message)) = (session.launch(*launch), message) else {
            return Err(format!("{key} is typed without a running launch"));
        };
        let of_it = session.requests.iter().filter(|request| request.launch == launch.id);
        let open = of_it.clone().filter(|request| request.status == RequestStatus::Open).count();
        law!(launch.viewers == 0, "{key} is typed while a user is at the screen");
        if message.kind == AgentMessageKind::Answer {
            let asked = of_it.clone().find(|request| Some(request.id) == message.request);
            let newer = of_it.skip_while(|request| Some(request.id) != message.request).skip(1);
            let settled = |request: &Request| {
                let waits = |m: &AgentMessage| {
                    m.status == DeliveryStatus::Queued && m.request == Some(request.id)
                };
                request.status != RequestStatus::Open && !session.input.messages.iter().any(waits)
            };
            law!(
                asked.is_some_and(|request| request.status == RequestStatus::Answered),
                "{key} answers no open request"
            );
            law!(
                newer.into_iter().all(settled),
                "{key} is typed, although a newer request is open"
            );
            continue;
        }
        let shown = launch.watch.shown_signal();
        law!(open == 0 && shown != Some(SignalKind::Asks), "{key} would answer an open request");
        // A turn that is only expected starts with the typed text.
        let in_turn = launch.activity() == Activity::Active && !launch.stream.expected;
        law!(message.kind == AgentMessageKind::Interrupt || !in_turn, "{key} is typed into a turn");
        let typed = message.typed.map(|typed| typed.at.mono_ms);
        let turned = launch.watch.turn_changed_at.map(|at| at.mono_ms);
        law!(!again || turned <= typed, "{key} is sent again, although a turn has started since");
    }
    Ok(())
}

/// A deadline, or the end of a turn, settles unconfirmed typed input.
pub(super) fn typed_input_settles(
    session: &Session,
    effects: &[SessionEffect],
) -> Result<(), BrokenLaw> {
    let typed = |m: &&AgentMessage| m.status == DeliveryStatus::Queued && m.typed.is_some();
    let running = |launch: &&Launch| matches!(launch.phase, LaunchPhase::Running { .. });
    let Some(launch) = session.launches.last().filter(running) else { return Ok(()) };
    for message in session.input.messages.iter().filter(typed) {
        let pressed =
            effects.iter().any(|effect| matches!(effect, SessionEffect::PressAgain { .. }));
        // A message on the command line waits for the user to pass startup dialogs.
        let given = message.typed.is_some_and(|typed| typed.state == TypingState::CommandLine);
        let in_turn = matches!(launch.activity(), Activity::Active | Activity::Stale);
        let bounded = session.deadline().is_some() || pressed || given || in_turn;
        law!(bounded, "{} was typed, but nothing settles it", message.key);
    }
    Ok(())
}

/// A message is settled only once, unless the agent's program rejects it after delivery. A rejected message is either
/// lost or sent again, for a limited number of times.
pub(super) fn messages_settle_once(
    before: &Session,
    event: &Event,
    after: &Session,
) -> Result<(), BrokenLaw> {
    let refused =
        |key: &str| matches!(event, Event::Input(InputEvent::MessageRefused(e)) if e.key == key);
    let keys: BTreeSet<&str> =
        after.input.messages.iter().map(|message| message.key.as_str()).collect();
    law!(keys.len() == after.input.messages.len(), "two messages share a key");
    for (was, is) in before.input.messages.iter().zip(&after.input.messages) {
        law!(was.key == is.key, "a message was lost from the record");
        law!(
            was.status == DeliveryStatus::Queued || was.status == is.status || refused(&was.key),
            "the message {} was settled twice",
            was.key
        );
        law!(is.refusals < MAX_REFUSALS, "the message {} is sent forever", is.key);
    }
    Ok(())
}

/// Provost never stops an external agent.
pub(super) fn external_agents_are_not_stopped(
    before: &Session,
    event: &Event,
) -> Result<(), BrokenLaw> {
    if let Event::Process(ProcessEvent::StopRequested(e)) = event {
        let adopted = before.launch(e.launch).is_some_and(|launch| launch.adopted);
        law!(!adopted, "{} is to be stopped, but is an external agent", e.launch);
    }
    Ok(())
}
