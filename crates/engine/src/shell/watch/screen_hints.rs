//! Signals inferred from an agent's terminal: from its escape codes, and from the screen that it draws.

use std::{collections::BTreeMap, sync::Arc};

use provost_agent::screen::{
    FrameDebouncer, ScreenKind, ScreenReader, ScreenReading, inferred_request,
};
use provost_core::{
    request::RequestKind,
    session::{ScreenHint, ScreenSource, Session},
};
use provost_terminal::{
    AgentState, BlockedReason, Scanner, TerminalScreen, TerminalSignal, TitleState, title_state,
};

/// A state inferred from a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InferredState {
    pub(crate) by: ScreenSource,
    pub(crate) place: u64,
    pub(crate) what: ScreenHint,
}

/// The size to assume for a screen that is read elsewhere, in rows and columns.
const UNKNOWN_SIZE: (u16, u16) = (24, 80);

/// How long after a write to read the screen, and how long to wait before rereading it to see
/// whether it is stable.
const READ_DELAY_MS: u64 = 120;

/// The delay after a write while something is drawn continuously but nothing is new.
const CALM_READ_DELAY_MS: u64 = 400;

/// Reads the terminal of one launch.
pub(crate) struct ScreenHints {
    scanner: Scanner,
    drawn: Option<TrackedScreen>,
    /// The number of bytes sent to the terminal.
    bytes_sent: u64,
    /// The number of bytes that the scanner did not receive, because they were sent before it
    /// started or are missing.
    bytes_skipped: u64,
    /// The last signal of each kind of escape code, because a title with a spinner repeats itself
    /// ten times a second.
    last_signals: BTreeMap<ScreenSource, ScreenHint>,
}

/// The screen of an agent whose screens can be interpreted.
struct TrackedScreen {
    reader: Arc<dyn ScreenReader>,
    screen: TerminalScreen,
    steady: FrameDebouncer,
    /// The agent's version, if it is known.
    version: Option<String>,
    /// When the screen must be read next.
    due_ms: Option<u64>,
    /// Whether anything was drawn since the last read.
    drawn_since_read: bool,
}

impl ScreenHints {
    /// Returns hints for a terminal of this size. Without a reader, only escape codes count.
    pub(crate) fn new(
        session: &Session,
        reader: Option<Arc<dyn ScreenReader>>,
        rows: u16,
        columns: u16,
    ) -> ScreenHints {
        let agent = &session.spec.agent;
        let signals = agent.interface.capabilities.screen.signals;
        let reader = if signals { reader } else { None };
        let drawn = reader.map(|reader| TrackedScreen {
            reader,
            screen: TerminalScreen::new(rows, columns),
            steady: FrameDebouncer::default(),
            version: agent.version.clone(),
            due_ms: None,
            drawn_since_read: false,
        });
        ScreenHints {
            scanner: Scanner::default(),
            drawn,
            bytes_sent: 0,
            bytes_skipped: 0,
            last_signals: BTreeMap::new(),
        }
    }

    /// Returns hints for a terminal that another component reads and passes on as frames and
    /// titles. Positions start after `place`.
    pub(crate) fn after(
        session: &Session,
        reader: Option<Arc<dyn ScreenReader>>,
        place: u64,
    ) -> ScreenHints {
        let (rows, columns) = UNKNOWN_SIZE;
        ScreenHints {
            bytes_sent: place,
            bytes_skipped: place,
            ..ScreenHints::new(session, reader, rows, columns)
        }
    }

    /// Reports unsent text at the prompt immediately, from a single read, because a user who detaches leaves the unsent
    /// text at the prompt.
    pub(crate) fn draft(&mut self) -> Option<InferredState> {
        let place = self.bytes_sent;
        let drawn = self.drawn.as_mut()?;
        let reading = drawn.read();
        if reading.kind != ScreenKind::Draft
            || drawn.steady.accepted_kind() == Some(ScreenKind::Draft)
        {
            return None;
        }
        drawn.steady.accept(&reading);
        Some(InferredState { by: ScreenSource::Screen, place, what: ScreenHint::UnsentText })
    }

    /// Processes a title that was read together with a frame, and returns its signal unless the
    /// last title had the same signal. A title only shows that the user is needed. The reason is
    /// taken from the screen, unless the screen is stable and shows no known request.
    pub(crate) fn title(
        &mut self,
        title: &str,
        reading: Option<&ScreenReading>,
    ) -> Option<InferredState> {
        let what = hint_from_title(title)?;
        let is_reported = |reading: &ScreenReading| {
            !self.agrees(reading) || matches!(reading.hint, Some(ScreenHint::ShowsRequest(_)))
        };
        if matches!(what, ScreenHint::ShowsRequest(_)) && reading.is_some_and(is_reported) {
            return None;
        }
        let guess = self.take_if_new(InferredState {
            by: ScreenSource::Title,
            place: self.bytes_sent + 1,
            what,
        })?;
        self.bytes_sent += 1;
        self.bytes_skipped += 1;
        Some(guess)
    }

    /// Stores the signal of an escape code, and returns it unless it is the same as the last signal
    /// of that kind of code.
    fn take_if_new(&mut self, guess: InferredState) -> Option<InferredState> {
        let before = self.last_signals.insert(guess.by, guess.what.clone());
        let new = before.as_ref() != Some(&guess.what);
        if new
            && guess.by != ScreenSource::Screen
            && let Some(drawn) = self.drawn.as_mut()
        {
            // After that, report the screen again even if it is unchanged, because only the screen
            // shows whether the agent is at its prompt, and the code that ends the state might be
            // missed.
            drawn.steady.forget();
        }
        new.then_some(guess)
    }

    /// Processes a frame of the screen. Two frames must agree before a hint is reported.
    pub(crate) fn frame(&mut self, reading: ScreenReading) -> Option<InferredState> {
        let steady = self.drawn.as_mut()?.steady.frame(reading)?;
        self.bytes_sent += 1;
        self.bytes_skipped += 1;
        Some(InferredState { by: ScreenSource::Screen, place: self.bytes_sent, what: steady.hint? })
    }

    /// Whether a reading shows the state that was already accepted, so that no further read is needed.
    pub(crate) fn agrees(&self, reading: &ScreenReading) -> bool {
        self.drawn.as_ref().is_none_or(|drawn| drawn.steady.is_accepted(reading))
    }

    pub(crate) fn resize(&mut self, rows: u16, columns: u16) {
        if let Some(drawn) = &mut self.drawn {
            drawn.screen.resize(rows, columns);
        }
    }

    /// Returns when to read the screen next.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.drawn.as_ref().and_then(|drawn| drawn.due_ms)
    }

    /// Reads the screen, if it is due.
    pub(crate) fn read_screen(&mut self, now_ms: u64) -> Option<InferredState> {
        let place = self.bytes_sent;
        let drawn =
            self.drawn.as_mut().filter(|drawn| drawn.due_ms.is_some_and(|at| at <= now_ms))?;
        // A stable screen is read twice, and then not again.
        let again = std::mem::replace(&mut drawn.drawn_since_read, false);
        let reading = drawn.read();
        let known = drawn.steady.accepted_kind() == Some(reading.kind);
        let next = if known { CALM_READ_DELAY_MS } else { READ_DELAY_MS };
        drawn.due_ms = again.then_some(now_ms + next);
        let steady = drawn.steady.frame(reading)?;
        let what = steady.hint?;
        Some(InferredState { by: ScreenSource::Screen, place, what })
    }

    /// Processes the next bytes of the terminal and returns their signals, each with the position
    /// that follows it in the terminal's output.
    pub(crate) fn feed(&mut self, bytes: &[u8], now_ms: u64) -> Vec<InferredState> {
        let mut found = Vec::new();
        self.bytes_sent += bytes.len() as u64;
        if let Some(drawn) = &mut self.drawn {
            drawn.screen.feed(bytes);
            drawn.drawn_since_read = true;
            drawn.due_ms.get_or_insert(now_ms + READ_DELAY_MS);
        }
        let before = self.bytes_skipped;
        self.scanner.feed(bytes, |heard| {
            let guess = |(by, what)| InferredState { by, place: before + heard.after, what };
            found.extend(hint_from_signal(&heard.signal).map(guess));
        });
        found.into_iter().filter_map(|guess| self.take_if_new(guess)).collect()
    }
}

impl TrackedScreen {
    fn read(&self) -> ScreenReading {
        self.reader.read_with_draft(&self.screen.styled_lines(), self.version.as_deref())
    }
}

fn hint_from_signal(signal: &TerminalSignal) -> Option<(ScreenSource, ScreenHint)> {
    match signal {
        TerminalSignal::Agent { state, .. } => Some((ScreenSource::Osc, hint_from_state(state))),
        TerminalSignal::Title(title) => {
            hint_from_title(title).map(|hinted| (ScreenSource::Title, hinted))
        }
        TerminalSignal::Notification(text) => {
            Some((ScreenSource::Notify, hint_from_notification(text)?))
        }
        TerminalSignal::Bell => None,
    }
}

fn hint_from_state(state: &AgentState) -> ScreenHint {
    match state {
        AgentState::Idle => ScreenHint::AtPrompt,
        AgentState::Working => ScreenHint::Working,
        AgentState::Blocked(BlockedReason::Permission) => ScreenHint::ShowsRequest(
            inferred_request(RequestKind::Approval, "its terminal asks for an approval"),
        ),
        AgentState::Blocked(BlockedReason::Question) => ScreenHint::ShowsRequest(inferred_request(
            RequestKind::Question,
            "its terminal asks a question",
        )),
        AgentState::Blocked(BlockedReason::Other(_)) => ScreenHint::ShowsRequest(inferred_request(
            RequestKind::Dialog,
            "its terminal waits for the user",
        )),
        AgentState::Done => ScreenHint::AtPrompt,
        AgentState::Error | AgentState::Clear => ScreenHint::Finished,
    }
}

fn hint_from_title(title: &str) -> Option<ScreenHint> {
    match title_state(title) {
        TitleState::Idle => Some(ScreenHint::AtPrompt),
        TitleState::Working => Some(ScreenHint::Working),
        TitleState::ActionRequired => Some(ScreenHint::ShowsRequest(inferred_request(
            RequestKind::Dialog,
            "its title shows that it needs input",
        ))),
        TitleState::Unmarked => None,
    }
}

/// The beginnings of notifications that ask for input. All other notifications are only
/// informational.
const REQUEST_PREFIXES: [(&str, RequestKind); 2] =
    [("Approval requested", RequestKind::Approval), ("Plan mode prompt", RequestKind::Question)];

fn hint_from_notification(text: &str) -> Option<ScreenHint> {
    let (_, kind) = REQUEST_PREFIXES.iter().find(|(beginning, _)| text.starts_with(beginning))?;
    Some(ScreenHint::ShowsRequest(inferred_request(*kind, text)))
}

#[cfg(test)]
mod tests {
    use provost_terminal::StyledLine;

    use super::*;

    fn hints(drawn: Option<TrackedScreen>, sent: u64) -> ScreenHints {
        ScreenHints {
            scanner: Scanner::default(),
            drawn,
            bytes_sent: sent,
            bytes_skipped: sent,
            last_signals: BTreeMap::new(),
        }
    }

    /// Every screen of this agent is unknown. The tests pass their own readings.
    struct NoScreen;

    impl ScreenReader for NoScreen {
        fn read(&self, _: &[StyledLine], _: Option<&str>) -> ScreenReading {
            ScreenReading { kind: ScreenKind::Unknown, hint: None, subject: String::new() }
        }

        fn draft(&self, _: &[StyledLine]) -> Option<String> {
            None
        }

        fn is_draft_of(&self, _: &str, _: &str) -> bool {
            false
        }
    }

    fn tracked_screen() -> TrackedScreen {
        TrackedScreen {
            reader: Arc::new(NoScreen),
            screen: TerminalScreen::new(24, 80),
            steady: FrameDebouncer::default(),
            version: None,
            due_ms: None,
            drawn_since_read: false,
        }
    }

    fn signals_in(bytes: &[u8]) -> Vec<(ScreenSource, ScreenHint)> {
        let mut hints = hints(None, 0);
        hints.feed(bytes, 0).into_iter().map(|guess| (guess.by, guess.what)).collect()
    }

    #[test]
    fn reported_state_is_only_a_hint() {
        let signals = signals_in(b"tokens used: 5\x1b]7501;state=working:app=agent\x07done.");
        assert_eq!(signals, [(ScreenSource::Osc, ScreenHint::Working)]);
        let signals = signals_in(b"\x1b]7501;state=idle:app=agent\x07");
        assert_eq!(signals, [(ScreenSource::Osc, ScreenHint::AtPrompt)]);
        let signals = signals_in(b"\x1b]7501;state=blocked:app=agent:kind=permission\x07");
        assert!(
            matches!(&signals[..], [(ScreenSource::Osc, ScreenHint::ShowsRequest(asked))] if asked.kind == RequestKind::Approval)
        );
    }

    #[test]
    fn repeated_title_is_reported_once() {
        let signals = signals_in(
            "\u{1b}]0;⠋ x\u{7}\u{1b}]0;⠙ x\u{7}\u{1b}]0;Ready\u{7}\u{1b}]0;⠹ x\u{7}".as_bytes(),
        );
        let what: Vec<ScreenHint> = signals.into_iter().map(|(_, what)| what).collect();
        assert_eq!(what, [ScreenHint::Working, ScreenHint::AtPrompt, ScreenHint::Working]);
    }

    #[test]
    fn prompt_like_text_gives_no_hint() {
        assert_eq!(signals_in(b"task complete\r\nuser@host:~$ \r\n100%\r\n# "), []);
    }

    #[test]
    fn new_title_makes_the_frame_reported_again() {
        let mut hints = hints(Some(tracked_screen()), 5);
        let prompt = ScreenReading::new(ScreenKind::Prompt, ScreenHint::AtPrompt);
        let framed = |hints: &mut ScreenHints| hints.frame(prompt.clone());
        assert_eq!(framed(&mut hints), None, "one frame is not believed");
        let shown = framed(&mut hints).unwrap();
        assert_eq!((shown.by, shown.what), (ScreenSource::Screen, ScreenHint::AtPrompt));
        let titled = hints.title("Working | here", None).unwrap();
        assert_eq!((titled.by, titled.what), (ScreenSource::Title, ScreenHint::Working));
        assert!(titled.place > shown.place);
        assert_eq!(hints.title("⠋ here", None), None, "it is the same state");
        assert_eq!(hints.title("here", None), None, "it has no state");
        assert_eq!(framed(&mut hints), None, "one frame is not believed");
        let again = framed(&mut hints).expect("the screen is reported again");
        assert!(again.place > titled.place && again.what == ScreenHint::AtPrompt, "{again:?}");
    }

    #[test]
    fn asking_title_counts_if_screen_asks_nothing() {
        let mut hints = hints(Some(tracked_screen()), 0);
        let asks = |hints: &mut ScreenHints, reading: ScreenReading| {
            let titled = hints.title("[ ! ] Action Required | here", Some(&reading));
            hints.frame(reading);
            titled.is_some()
        };
        let request = inferred_request(RequestKind::Approval, "May I?");
        let approval = ScreenReading::new(ScreenKind::Approval, ScreenHint::ShowsRequest(request));
        for _ in 0..4 {
            assert!(!asks(&mut hints, approval.clone()), "its screen shows the request");
        }
        let unknown = NoScreen.read(&[], None);
        let reported = [(); 4].map(|()| asks(&mut hints, unknown.clone()));
        assert_eq!(reported, [false, false, true, false]);
    }
}
