//! Types into the pane of an external agent: reads it, records the intent, then types.

use std::time::Duration;

use provost_core::{
    ids::LaunchId,
    session::{Command, Message, MessageKind, PaneSight, Session, Way},
};
use provost_watch::screen::{self, Shown};
use tokio::sync::watch;

use super::{
    super::{
        failpoint,
        handle::{Ask, Handle, Teller},
        held,
    },
    hub::Panes,
    place::{Claimed, Found, Looked, Place},
};

/// The wait before reading again a pane that cannot be typed into; it doubles up to the second.
const REST: Duration = Duration::from_millis(500);
const LONGEST_REST: Duration = Duration::from_secs(8);

/// How long the lock on a pane is kept after typing.
const SETTLES: Duration = Duration::from_secs(1);
const CLAIM_TRIES: u32 = 10;

/// The actor of the records about typing.
const TYPIST: &str = "provost";

/// The input to type.
#[derive(Clone, Debug)]
pub(crate) enum Typing {
    /// Pasted, and then submitted.
    Text(String),
    /// The keys of an answer, or the interrupt key.
    Keys(Vec<u8>),
}

/// Types for one launch.
pub(crate) struct Typist {
    pub(crate) launch: LaunchId,
    place: Place,
    panes: Panes,
    handle: Handle,
    teller: Teller,
}

impl Typist {
    pub(crate) fn new(
        session: &Session,
        launch: LaunchId,
        panes: Panes,
        handle: Handle,
        teller: Teller,
    ) -> Option<Typist> {
        Some(Typist { launch, place: Place::of(session)?, panes, handle, teller })
    }

    /// Types a message once the pane is ready for it, unless it is cancelled before.
    pub(crate) async fn deliver(
        &self,
        message: &Message,
        what: Typing,
        cancel: watch::Receiver<bool>,
    ) {
        let wanted: &[Shown] = match message.kind {
            MessageKind::Answer => &[Shown::Approval],
            MessageKind::Interrupt => &[Shown::Working, Shown::Retrying],
            MessageKind::Instruction
            | MessageKind::Steer
            | MessageKind::Returned
            | MessageKind::Nudge
            | MessageKind::Compact
            | MessageKind::Rework
            | MessageKind::ResultWanted
            | MessageKind::Continue => &[Shown::Composer],
        };
        let mut rest = REST;
        while !*cancel.borrow() {
            // The pane is read after it is claimed, because another process may have changed it
            // before.
            if let Some(claimed) = self.claim().await
                && self.shows(wanted).await
                && self.records(&message.key, Way::Typing).await
            {
                self.type_it(&message.key, what).await;
                return let_settle(claimed).await;
            }
            self.panes.bell(self.launch).notify_one();
            held::pause(rest).await;
            rest = (rest * 2).min(LONGEST_REST);
        }
    }

    /// Types a message that was recorded as being typed by this daemon.
    async fn type_it(&self, key: &str, what: Typing) {
        failpoint::pass("pane.typing");
        self.panes.remember(self.launch, key);
        let place = self.place.clone();
        match held::blocking(move || typed(&place, &what)).await {
            Ok(()) => {
                failpoint::pass("pane.typed");
                self.records(key, Way::Keys).await;
            }
            Err(TypingError::Untyped) => {
                self.records(key, Way::Untyped).await;
            }
            // It becomes unconfirmed in time, as after a crash.
            Err(TypingError::HalfTyped) => {}
        }
    }

    /// Presses Enter for a message once more. A message that another daemon typed is left alone. If
    /// the prompt has anything but exactly the typed text, Enter would submit a user's draft.
    pub(crate) async fn press(&self, key: &str, text: &str) {
        let ours = self.panes.remembers(self.launch, key);
        let claimed = self.claim_soon().await;
        let claimed = if ours { claimed } else { None };
        let Some(claimed) = claimed else {
            self.records(key, Way::Doubted).await;
            return;
        };
        if !self.holds(text).await {
            self.records(key, Way::Doubted).await;
            return;
        }
        if !self.records(key, Way::Pressing).await {
            return;
        }
        let place = self.place.clone();
        let enter = Typing::Keys(provost_drivers::ENTER.to_vec());
        if held::blocking(move || typed(&place, &enter)).await.is_ok() {
            self.records(key, Way::Pressed).await;
        }
        let_settle(claimed).await;
    }

    async fn claim(&self) -> Option<Claimed> {
        let place = self.place.clone();
        held::blocking(move || place.claim()).await
    }

    /// Claims the pane, waiting for the lock of the message typed before.
    async fn claim_soon(&self) -> Option<Claimed> {
        for _ in 0..CLAIM_TRIES {
            if let Some(claimed) = self.claim().await {
                return Some(claimed);
            }
            held::pause(SETTLES / CLAIM_TRIES).await;
        }
        self.claim().await
    }

    /// Whether the pane shows one of these now and can be typed into.
    async fn shows(&self, wanted: &[Shown]) -> bool {
        let found = self.look().await;
        found.is_some_and(|found| found.sight == PaneSight::Open && shows(&found, wanted))
    }

    /// Whether exactly this text is at the agent's prompt.
    async fn holds(&self, text: &str) -> bool {
        let is_it = |found: &Found| {
            let stands = |written: &String| screen::is_written(written, text);
            shows(found, &[Shown::Composer]) && found.written.as_ref().is_some_and(stands)
        };
        self.look().await.is_some_and(|found| found.sight == PaneSight::Drafted && is_it(&found))
    }

    async fn look(&self) -> Option<Box<Found>> {
        let place = self.place.clone();
        match held::blocking(move || place.look()).await {
            Looked::There(found) => Some(found),
            Looked::Unseen | Looked::Never => None,
        }
    }

    /// Records a step, and returns whether that is durable.
    async fn records(&self, key: &str, way: Way) -> bool {
        let (launch, key) = (self.launch, key.to_owned());
        let command = Command::Keyed { launch, key, way };
        let ask = Ask::Do { session: launch.session.to_string(), command };
        self.handle.ask(ask, TYPIST, None).await.is_ok()
    }

    /// Reports that a message cannot be typed.
    pub(crate) async fn lose(&self, key: &str, reason: String) {
        let lost = Command::MessageLost { key: key.to_owned(), reason };
        self.teller.tell(self.launch.session, lost).await;
    }
}

/// Keeps a pane until the agent has drawn the typed text: until then the prompt looks empty.
async fn let_settle(claimed: Claimed) {
    held::pause(SETTLES).await;
    drop(claimed);
}

fn shows(found: &Found, wanted: &[Shown]) -> bool {
    found.reading.as_ref().is_some_and(|reading| wanted.contains(&reading.shown))
}

/// Why a message was not typed completely.
#[derive(Debug)]
enum TypingError {
    /// None of it was typed.
    Untyped,
    /// Some of it may be at the prompt.
    HalfTyped,
}

/// Types the input, and checks right before each step that the agent still receives it. Between
/// that check and the step tmux takes a moment in which the pane may get another program. tmux
/// itself detects a dead pane and copy mode.
fn typed(place: &Place, what: &Typing) -> Result<(), TypingError> {
    let first = match what {
        Typing::Keys(keys) => place.is_ready().then(|| place.server.keys(&place.id, keys)),
        Typing::Text(text) => place.is_ready().then(|| place.server.paste(&place.id, text)),
    };
    match first {
        Some(Ok(())) => {}
        Some(Err(error)) if !error.is_refusal() => return Err(TypingError::HalfTyped),
        Some(Err(_)) | None => return Err(TypingError::Untyped),
    }
    if matches!(what, Typing::Text(_)) {
        let enter = place.is_ready().then(|| place.server.keys(&place.id, provost_drivers::ENTER));
        return enter.and_then(Result::ok).ok_or(TypingError::HalfTyped);
    }
    Ok(())
}
