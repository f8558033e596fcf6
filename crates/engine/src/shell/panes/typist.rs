//! Types into the pane of an external agent: reads it, records the intent, then types.

use std::time::Duration;

use provost_core::{
    ids::LaunchId,
    session::{AgentMessage, AgentMessageKind, PaneState, Session, SessionCommand, TypingState},
};
use provost_watch::screen::{self, ScreenKind};
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

/// The wait before reading again a pane that cannot be typed into; it doubles up to the second.
const RETRY_DELAY: Duration = Duration::from_millis(500);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(8);

/// How long the lock on a pane is kept after typing.
const SETTLE_TIME: Duration = Duration::from_secs(1);
const CLAIM_TRIES: u32 = 10;

/// The actor of the records about typing.
const ACTOR: &str = "provost";

/// The input to type.
#[derive(Clone, Debug)]
pub(crate) enum PaneInput {
    /// Pasted, and then submitted.
    Text(String),
    /// The keys of an answer, or the interrupt key.
    Keys(Vec<u8>),
}

/// Types for one launch.
pub(crate) struct Typist {
    pub(crate) launch: LaunchId,
    place: PaneTarget,
    panes: PaneRegistry,
    handle: EngineHandle,
    teller: ObservationSender,
}

impl Typist {
    pub(crate) fn new(
        session: &Session,
        launch: LaunchId,
        panes: PaneRegistry,
        handle: EngineHandle,
        teller: ObservationSender,
    ) -> Option<Typist> {
        Some(Typist { launch, place: PaneTarget::from_session(session)?, panes, handle, teller })
    }

    /// Types a message once the pane is ready for it, unless it is cancelled before.
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
            | AgentMessageKind::Continue => &[ScreenKind::Composer],
        };
        let mut rest = RETRY_DELAY;
        while !*cancel.borrow() {
            // The pane is read after it is claimed, because another process may have changed it
            // before.
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

    /// Types a message that was recorded as being typed by this daemon.
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
            // It becomes unconfirmed in time, as after a crash.
            Err(TypingError::PartlyTyped) => {}
        }
    }

    /// Presses Enter for a message once more. A message that another daemon typed is left alone. If
    /// the prompt has anything but exactly the typed text, Enter would submit a user's draft.
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
        let enter = PaneInput::Keys(provost_drivers::ENTER.to_vec());
        if supervised_command::blocking(move || type_input(&place, &enter)).await.is_ok() {
            self.record_step(key, TypingState::Pressed).await;
        }
        keep_claim_until_drawn(claimed).await;
    }

    async fn claim(&self) -> Option<PaneClaim> {
        let place = self.place.clone();
        supervised_command::blocking(move || place.claim()).await
    }

    /// Claims the pane, waiting for the lock of the message typed before.
    async fn claim_with_retry(&self) -> Option<PaneClaim> {
        for _ in 0..CLAIM_TRIES {
            if let Some(claimed) = self.claim().await {
                return Some(claimed);
            }
            supervised_command::sleep(SETTLE_TIME / CLAIM_TRIES).await;
        }
        self.claim().await
    }

    /// Whether the pane shows one of these now and can be typed into.
    async fn pane_shows(&self, wanted: &[ScreenKind]) -> bool {
        let found = self.read_pane().await;
        found.is_some_and(|found| found.sight == PaneState::Open && shows(&found, wanted))
    }

    /// Whether exactly this text is at the agent's prompt.
    async fn has_exact_text(&self, text: &str) -> bool {
        let is_it = |found: &PaneContent| {
            let stands = |written: &String| screen::is_draft_of(written, text);
            shows(found, &[ScreenKind::Composer]) && found.draft.as_ref().is_some_and(stands)
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

    /// Records a step, and returns whether that is durable.
    async fn record_step(&self, key: &str, way: TypingState) -> bool {
        let (launch, key) = (self.launch, key.to_owned());
        let command = SessionCommand::TypingChanged { launch, key, way };
        let ask = EngineRequest::SessionCommand { session: launch.session.to_string(), command };
        self.handle.request(ask, ACTOR, None).await.is_ok()
    }

    /// Reports that a message cannot be typed.
    pub(crate) async fn report_lost(&self, key: &str, reason: String) {
        let lost = SessionCommand::MessageLost { key: key.to_owned(), reason };
        self.teller.send(self.launch.session, lost).await;
    }
}

/// Keeps a pane until the agent has drawn the typed text: until then the prompt looks empty.
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
    /// None of it was typed.
    NothingTyped,
    /// Some of it may be at the prompt.
    PartlyTyped,
}

/// Types the input, and checks right before each step that the agent still receives it. Between
/// that check and the step tmux takes a moment in which the pane may get another program. tmux
/// itself detects a dead pane and copy mode.
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
            place.is_ready().then(|| place.server.send_keys(&place.id, provost_drivers::ENTER));
        return enter.and_then(Result::ok).ok_or(TypingError::PartlyTyped);
    }
    Ok(())
}
