//! Types into the pane of an external agent: reads the pane, records the intent, and then types.

use std::time::Duration;

use provost_agent::{Adapters, screen::ScreenKind};
use provost_core::{
    ids::LaunchId,
    session::{AgentMessage, AgentMessageKind, PaneState, Session, SessionCommand, TypingState},
};
use tokio::sync::watch;

use super::{
    super::{
        failpoint,
        handle::{EngineHandle, EngineRequest, ObservationSender},
        supervised_command,
    },
    hub::PaneRegistry,
    pane_target::{PaneClaim, PaneContent, PaneRead, PaneTarget},
};

/// How long to wait before rereading a pane that cannot be typed into. The delay doubles up to the
/// second value.
const RETRY_DELAY: Duration = Duration::from_millis(500);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(8);

/// How long to keep the lock on a pane after typing.
const SETTLE_TIME: Duration = Duration::from_secs(1);
const CLAIM_TRIES: u32 = 10;

/// The actor that is recorded for typing.
const ACTOR: &str = "provost";

/// The input to type.
#[derive(Clone, Debug)]
pub(crate) enum PaneInput {
    /// A text that is pasted and then submitted.
    Text(String),
    /// The keys of an answer, or the interrupt key.
    Keys(Vec<u8>),
}

/// Types into the pane of one launch.
pub(crate) struct Typist {
    pub(crate) launch: LaunchId,
    place: PaneTarget,
    panes: PaneRegistry,
    handle: EngineHandle,
    observations: ObservationSender,
}

impl Typist {
    pub(crate) fn new(
        session: &Session,
        launch: LaunchId,
        adapters: &Adapters,
        panes: PaneRegistry,
        handle: EngineHandle,
        observations: ObservationSender,
    ) -> Option<Typist> {
        Some(Typist {
            launch,
            place: PaneTarget::from_session(
                session,
                adapters.get(&session.spec.agent.interface).ok()?,
            )?,
            panes,
            handle,
            observations,
        })
    }

    /// Types a message once the pane is ready for input, unless the delivery is cancelled first.
    pub(crate) async fn deliver(
        &self,
        message: &AgentMessage,
        what: PaneInput,
        cancel: watch::Receiver<bool>,
    ) {
        let wanted: &[ScreenKind] = match message.kind {
            AgentMessageKind::Answer => &[ScreenKind::Approval],
            AgentMessageKind::Interrupt => &[ScreenKind::Working, ScreenKind::Retrying],
            AgentMessageKind::Instruction
            | AgentMessageKind::Steer
            | AgentMessageKind::Returned
            | AgentMessageKind::Nudge
            | AgentMessageKind::Compact
            | AgentMessageKind::Rework
            | AgentMessageKind::ResultWanted
            | AgentMessageKind::Continue => &[ScreenKind::Prompt],
        };
        let mut rest = RETRY_DELAY;
        while !*cancel.borrow() {
            // Read the pane after claiming it, because another process may have changed it before.
            if let Some(claimed) = self.claim().await
                && self.pane_shows(wanted).await
                && self.record_step(&message.key, TypingState::Typing).await
            {
                self.type_message(&message.key, what).await;
                return keep_claim_until_drawn(claimed).await;
            }
            self.panes.bell(self.launch).notify_one();
            supervised_command::sleep(rest).await;
            rest = (rest * 2).min(MAX_RETRY_DELAY);
        }
    }

    /// Types a message after this daemon recorded that it is about to type it.
    async fn type_message(&self, key: &str, what: PaneInput) {
        failpoint::pass("pane.typing");
        self.panes.remember(self.launch, key);
        let place = self.place.clone();
        match supervised_command::blocking(move || type_input(&place, &what)).await {
            Ok(()) => {
                failpoint::pass("pane.typed");
                self.record_step(key, TypingState::Typed).await;
            }
            Err(TypingError::NothingTyped) => {
                self.record_step(key, TypingState::Untyped).await;
            }
            // After a while, the message is marked as unconfirmed, just as after a crash.
            Err(TypingError::PartlyTyped) => {}
        }
    }

    /// Presses Enter again for a message. If another daemon typed the message, nothing is done.
    /// Enter is not pressed if the prompt contains anything but the typed text, because that would
    /// submit a user's unsent text.
    pub(crate) async fn press_enter_again(&self, key: &str, text: &str) {
        let ours = self.panes.remembers(self.launch, key);
        let claimed = self.claim_with_retry().await;
        let claimed = if ours { claimed } else { None };
        let Some(claimed) = claimed else {
            self.record_step(key, TypingState::Unconfirmed).await;
            return;
        };
        if !self.has_exact_text(text).await {
            self.record_step(key, TypingState::Unconfirmed).await;
            return;
        }
        if !self.record_step(key, TypingState::Pressing).await {
            return;
        }
        let place = self.place.clone();
        let enter = PaneInput::Keys(provost_agent::ENTER.to_vec());
        if supervised_command::blocking(move || type_input(&place, &enter)).await.is_ok() {
            self.record_step(key, TypingState::Pressed).await;
        }
        keep_claim_until_drawn(claimed).await;
    }

    async fn claim(&self) -> Option<PaneClaim> {
        let place = self.place.clone();
        supervised_command::blocking(move || place.claim()).await
    }

    /// Claims the pane, waiting for the lock that is still held for the previous message.
    async fn claim_with_retry(&self) -> Option<PaneClaim> {
        for _ in 0..CLAIM_TRIES {
            if let Some(claimed) = self.claim().await {
                return Some(claimed);
            }
            supervised_command::sleep(SETTLE_TIME / CLAIM_TRIES).await;
        }
        self.claim().await
    }

    /// Whether the pane currently shows one of these screens and can be typed into.
    async fn pane_shows(&self, wanted: &[ScreenKind]) -> bool {
        let found = self.read_pane().await;
        found.is_some_and(|found| found.sight == PaneState::Open && shows(&found, wanted))
    }

    /// Whether the agent's prompt contains exactly this text.
    async fn has_exact_text(&self, text: &str) -> bool {
        let is_it = |found: &PaneContent| {
            let is_draft = |written: &String| self.place.is_draft_of(written, text);
            shows(found, &[ScreenKind::Prompt]) && found.draft.as_ref().is_some_and(is_draft)
        };
        self.read_pane()
            .await
            .is_some_and(|found| found.sight == PaneState::UnsentText && is_it(&found))
    }

    async fn read_pane(&self) -> Option<Box<PaneContent>> {
        let place = self.place.clone();
        match supervised_command::blocking(move || place.look()).await {
            PaneRead::Present(found) => Some(found),
            PaneRead::Unavailable | PaneRead::Gone => None,
        }
    }

    /// Records a step, and returns whether it is now durable.
    async fn record_step(&self, key: &str, state: TypingState) -> bool {
        let (launch, key) = (self.launch, key.to_owned());
        let command = SessionCommand::TypingChanged { launch, key, state };
        let ask = EngineRequest::SessionCommand { session: launch.session.to_string(), command };
        self.handle.request(ask, ACTOR, None).await.is_ok()
    }

    /// Reports that a message cannot be typed.
    pub(crate) async fn report_lost(&self, key: &str, reason: String) {
        let lost = SessionCommand::MessageLost { key: key.to_owned(), reason };
        self.observations.send(self.launch.session, lost).await;
    }
}

/// Holds the claim on a pane until the agent has drawn the typed text, because until then the
/// prompt looks empty.
async fn keep_claim_until_drawn(claimed: PaneClaim) {
    supervised_command::sleep(SETTLE_TIME).await;
    drop(claimed);
}

fn shows(found: &PaneContent, wanted: &[ScreenKind]) -> bool {
    found.reading.as_ref().is_some_and(|reading| wanted.contains(&reading.kind))
}

/// Why a message was not typed completely.
#[derive(Debug)]
enum TypingError {
    /// No part of the message was typed.
    NothingTyped,
    /// Part of the message may be at the prompt.
    PartlyTyped,
}

/// Types the input. Right before each step, checks that the agent will still receive it. Between
/// the check and the step, there is a brief moment in which another program may appear in the pane.
/// tmux itself detects a dead pane and copy mode.
fn type_input(place: &PaneTarget, what: &PaneInput) -> Result<(), TypingError> {
    let first = match what {
        PaneInput::Keys(keys) => place.is_ready().then(|| place.server.send_keys(&place.id, keys)),
        PaneInput::Text(text) => place.is_ready().then(|| place.server.paste(&place.id, text)),
    };
    match first {
        Some(Ok(())) => {}
        Some(Err(error)) if !error.is_refusal() => return Err(TypingError::PartlyTyped),
        Some(Err(_)) | None => return Err(TypingError::NothingTyped),
    }
    if matches!(what, PaneInput::Text(_)) {
        let enter =
            place.is_ready().then(|| place.server.send_keys(&place.id, provost_agent::ENTER));
        return enter.and_then(Result::ok).ok_or(TypingError::PartlyTyped);
    }
    Ok(())
}
