//! Screen signals of an agent's terminal: from its escape codes, and from the screen that it draws.

use std::collections::BTreeMap;

use provost_core::{
    request::{Asked, RequestKind, Subject, Waiting},
    session::{Driver, Glimpse, Hinted, Session},
};
use provost_drivers::codex::Version;
use provost_watch::{
    screen::{self, Reading, Shown, Steady},
    terminal::{AgentState, Blocked, Scanner, Screen, Signal, TitleState, title_state},
};

/// A state inferred from a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guess {
    pub(crate) by: Glimpse,
    pub(crate) place: u64,
    pub(crate) what: Hinted,
}

/// The assumed size of a screen that is read elsewhere, in rows and columns.
const UNKNOWN_SIZE: (u16, u16) = (24, 80);

/// How long after a write the screen is read, and read again to see whether it is stable.
const LOOK_MS: u64 = 120;

/// The same delay while something is drawn continuously without anything new.
const CALM_LOOK_MS: u64 = 400;

/// Reads the terminal of one launch.
pub(crate) struct Hints {
    scanner: Scanner,
    drawn: Option<Drawn>,
    /// How many bytes the terminal was sent.
    sent: u64,
    /// How many of them the scanner did not get: those before it, and those that are missing.
    before: u64,
    /// The last signal of each kind of code: a title with a spinner repeats itself ten times a
    /// second.
    said: BTreeMap<Glimpse, Hinted>,
}

/// The screen of an agent whose screens are known.
struct Drawn {
    screen: Screen,
    steady: Steady,
    /// The agent's version, if it is known.
    version: Option<(u64, u64)>,
    /// When it is to be read.
    due_ms: Option<u64>,
    /// Whether anything was drawn since it was read.
    changed: bool,
}

impl Hints {
    pub(crate) fn new(session: &Session, rows: u16, columns: u16) -> Hints {
        let agent = &session.spec.agent;
        let version = agent.version.as_deref().and_then(Version::parse);
        let drawn = (agent.driver == Driver::CodexTerminal).then(|| Drawn {
            screen: Screen::new(rows, columns),
            steady: Steady::default(),
            version: version.map(|Version(major, minor, _)| (u64::from(major), u64::from(minor))),
            due_ms: None,
            changed: false,
        });
        Hints { scanner: Scanner::default(), drawn, sent: 0, before: 0, said: BTreeMap::new() }
    }

    /// Returns hints for a terminal that is read elsewhere: its frames and its title. Their
    /// positions start after this one.
    pub(crate) fn after(session: &Session, place: u64) -> Hints {
        let (rows, columns) = UNKNOWN_SIZE;
        Hints { sent: place, before: place, ..Hints::new(session, rows, columns) }
    }

    /// Reports an unsent draft at the prompt, at once and from a single read: a user who detaches
    /// leaves it there.
    pub(crate) fn draft(&mut self) -> Option<Guess> {
        let place = self.sent;
        let drawn = self.drawn.as_mut()?;
        let reading = drawn.read();
        if reading.shown != Shown::Draft || drawn.steady.shown() == Some(Shown::Draft) {
            return None;
        }
        drawn.steady.believe(&reading);
        Some(Guess { by: Glimpse::Screen, place, what: Hinted::Drafted })
    }

    /// Takes a title that was read together with a frame, and returns its signal unless the last
    /// title had the same. A title only shows that the user is needed. The reason comes from the
    /// screen, unless the screen is stable and shows no known request.
    pub(crate) fn title(&mut self, title: &str, reading: Option<&Reading>) -> Option<Guess> {
        let what = of_title(title)?;
        let is_told = |reading: &Reading| {
            !self.agrees(reading) || matches!(of_screen(reading), Some(Hinted::Asks(_)))
        };
        if matches!(what, Hinted::Asks(_)) && reading.is_some_and(is_told) {
            return None;
        }
        let guess = self.news(Guess { by: Glimpse::Title, place: self.sent + 1, what })?;
        self.sent += 1;
        self.before += 1;
        Some(guess)
    }

    /// Stores the signal of a code, and returns it unless the same kind of code had it last.
    fn news(&mut self, guess: Guess) -> Option<Guess> {
        let before = self.said.insert(guess.by, guess.what.clone());
        let new = before.as_ref() != Some(&guess.what);
        if new
            && guess.by != Glimpse::Screen
            && let Some(drawn) = self.drawn.as_mut()
        {
            // The screen is reported again after that, even if it is unchanged: only the screen
            // shows whether the agent is at its prompt, and the code that ends the state may be
            // missed.
            drawn.steady.forget();
        }
        new.then_some(guess)
    }

    /// Takes a screen that was read elsewhere, as one of two frames that have to agree.
    pub(crate) fn frame(&mut self, reading: Reading) -> Option<Guess> {
        let steady = self.drawn.as_mut()?.steady.frame(reading)?;
        self.sent += 1;
        self.before += 1;
        Some(Guess { by: Glimpse::Screen, place: self.sent, what: of_screen(&steady)? })
    }

    /// Whether a reading shows the accepted state, so that no further read is needed.
    pub(crate) fn agrees(&self, reading: &Reading) -> bool {
        self.drawn.as_ref().is_none_or(|drawn| drawn.steady.agrees(reading))
    }

    pub(crate) fn resize(&mut self, rows: u16, columns: u16) {
        if let Some(drawn) = &mut self.drawn {
            drawn.screen.resize(rows, columns);
        }
    }

    /// Returns when the screen is to be read.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.drawn.as_ref().and_then(|drawn| drawn.due_ms)
    }

    /// Reads the screen, if it is due.
    pub(crate) fn look(&mut self, now_ms: u64) -> Option<Guess> {
        let place = self.sent;
        let drawn =
            self.drawn.as_mut().filter(|drawn| drawn.due_ms.is_some_and(|at| at <= now_ms))?;
        // A stable screen is read twice, and then no more.
        let again = std::mem::replace(&mut drawn.changed, false);
        let reading = drawn.read();
        let known = drawn.steady.shown() == Some(reading.shown);
        let next = if known { CALM_LOOK_MS } else { LOOK_MS };
        drawn.due_ms = again.then_some(now_ms + next);
        let steady = drawn.steady.frame(reading)?;
        let what = of_screen(&steady)?;
        Some(Guess { by: Glimpse::Screen, place, what })
    }

    /// Takes the next bytes of the terminal and returns their signals, each with the position after
    /// it in the terminal's output.
    pub(crate) fn feed(&mut self, bytes: &[u8], now_ms: u64) -> Vec<Guess> {
        let mut found = Vec::new();
        self.sent += bytes.len() as u64;
        if let Some(drawn) = &mut self.drawn {
            drawn.screen.feed(bytes);
            drawn.changed = true;
            drawn.due_ms.get_or_insert(now_ms + LOOK_MS);
        }
        let before = self.before;
        self.scanner.feed(bytes, |heard| {
            let guess = |(by, what)| Guess { by, place: before + heard.after, what };
            found.extend(of_signal(&heard.signal).map(guess));
        });
        found.into_iter().filter_map(|guess| self.news(guess)).collect()
    }
}

impl Drawn {
    fn read(&self) -> Reading {
        screen::read_painted(&self.screen.painted(), self.version)
    }
}

fn of_signal(signal: &Signal) -> Option<(Glimpse, Hinted)> {
    match signal {
        Signal::Agent { state, .. } => Some((Glimpse::Osc, of_state(state))),
        Signal::Title(title) => of_title(title).map(|hinted| (Glimpse::Title, hinted)),
        Signal::Notification(text) => Some((Glimpse::Notify, of_notification(text)?)),
        Signal::Bell => None,
    }
}

/// Returns the signal of a stable screen. A screen that no rule knows has none.
fn of_screen(reading: &Reading) -> Option<Hinted> {
    let lines: Vec<&str> = reading.lines.iter().map(|line| line.trim()).collect();
    let said = lines.iter().find(|line| !line.is_empty()).copied().unwrap_or_default();
    let dialog = |what: &str| Hinted::Asks(asked(RequestKind::Dialog, &format!("{what}: {said}")));
    Some(match reading.shown {
        Shown::Trust => dialog("asks whether to trust the directory"),
        Shown::HookTrust => dialog("asks whether to trust hooks"),
        Shown::Login => dialog("wants a login"),
        Shown::Update => dialog("offers an update"),
        Shown::ModelMigration => dialog("offers another model"),
        Shown::UnknownDialog => dialog("waits for a choice"),
        Shown::Approval => Hinted::Asks(approval(reading)),
        Shown::Question | Shown::Plan => Hinted::Asks(asked(RequestKind::Question, said)),
        Shown::Retrying => {
            Hinted::Retrying { detail: "its screen shows that it is reconnecting".to_owned() }
        }
        Shown::Working => Hinted::Working,
        Shown::Composer => Hinted::AtPrompt,
        Shown::Draft => Hinted::Drafted,
        Shown::Nothing => return None,
    })
}

/// Returns the approval that a screen shows, with the text of its subject.
fn approval(reading: &Reading) -> Asked {
    let Some(shown) = reading.approval() else {
        return asked(RequestKind::Approval, "its screen asks for an approval");
    };
    let (command, reason) = (shown.command, shown.reason);
    let title = [Some(shown.asks), command.clone()].into_iter().flatten().collect::<Vec<_>>();
    let subject = command.is_some().then(|| Subject { command, reason, ..Subject::default() });
    Asked { subject: subject.map(Box::new), ..asked(RequestKind::Approval, &title.join(" ")) }
}

fn of_state(state: &AgentState) -> Hinted {
    match state {
        AgentState::Idle => Hinted::AtPrompt,
        AgentState::Working => Hinted::Working,
        AgentState::Blocked(Blocked::Permission) => {
            Hinted::Asks(asked(RequestKind::Approval, "its terminal asks for an approval"))
        }
        AgentState::Blocked(Blocked::Question) => {
            Hinted::Asks(asked(RequestKind::Question, "its terminal asks a question"))
        }
        AgentState::Blocked(Blocked::Other(_)) => {
            Hinted::Asks(asked(RequestKind::Dialog, "its terminal waits for the user"))
        }
        AgentState::Done => Hinted::AtPrompt,
        AgentState::Error | AgentState::Clear => Hinted::Rests,
    }
}

fn of_title(title: &str) -> Option<Hinted> {
    match title_state(title) {
        TitleState::Idle => Some(Hinted::AtPrompt),
        TitleState::Working => Some(Hinted::Working),
        TitleState::ActionRequired => {
            Some(Hinted::Asks(asked(RequestKind::Dialog, "its title shows that it needs input")))
        }
        TitleState::Unmarked => None,
    }
}

/// The beginnings of notifications that ask for input; all others only inform.
const ASKING: [(&str, RequestKind); 2] =
    [("Approval requested", RequestKind::Approval), ("Plan mode prompt", RequestKind::Question)];

fn of_notification(text: &str) -> Option<Hinted> {
    let (_, kind) = ASKING.iter().find(|(beginning, _)| text.starts_with(beginning))?;
    Some(Hinted::Asks(asked(*kind, text)))
}

/// Returns a request without a native id: only its appearance is known.
fn asked(kind: RequestKind, title: &str) -> Asked {
    Asked {
        native: String::new(),
        kind,
        waiting: Waiting::Blocking,
        title: title.to_owned(),
        questions: Vec::new(),
        subject: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(drawn: Option<Drawn>, sent: u64) -> Hints {
        Hints { scanner: Scanner::default(), drawn, sent, before: sent, said: BTreeMap::new() }
    }

    fn told(bytes: &[u8]) -> Vec<(Glimpse, Hinted)> {
        let mut hints = hints(None, 0);
        hints.feed(bytes, 0).into_iter().map(|guess| (guess.by, guess.what)).collect()
    }

    #[test]
    fn a_state_that_is_told_is_a_hint_and_nothing_more() {
        let said = told(b"tokens used: 5\x1b]7501;state=working:app=codex\x07done.");
        assert_eq!(said, [(Glimpse::Osc, Hinted::Working)]);
        let said = told(b"\x1b]7501;state=idle:app=codex\x07");
        assert_eq!(said, [(Glimpse::Osc, Hinted::AtPrompt)]);
        let said = told(b"\x1b]7501;state=blocked:app=codex:kind=permission\x07");
        assert!(
            matches!(&said[..], [(Glimpse::Osc, Hinted::Asks(asked))] if asked.kind == RequestKind::Approval)
        );
    }

    #[test]
    fn an_approval_on_the_screen_tells_the_command_that_stands_there() {
        let screen = "  Would you like to run the following command?\n\n  Reason: May I?\n\n  $ touch x\n\n› 1. Yes (y)\n  2. No (esc)\n\n  Press enter to confirm or esc to cancel";
        let lines: Vec<String> = screen.lines().map(str::to_owned).collect();
        let Some(Hinted::Asks(asked)) = of_screen(&screen::read(&lines, None)) else {
            panic!("an approval");
        };
        assert_eq!(asked.title, "Would you like to run the following command? touch x");
        let subject = asked.subject.unwrap();
        assert_eq!(
            (subject.command.as_deref(), subject.reason.as_deref()),
            (Some("touch x"), Some("May I?"))
        );
    }

    #[test]
    fn what_a_title_says_again_and_again_is_told_once() {
        let said = told(
            "\u{1b}]0;⠋ x\u{7}\u{1b}]0;⠙ x\u{7}\u{1b}]0;Ready\u{7}\u{1b}]0;⠹ x\u{7}".as_bytes(),
        );
        let what: Vec<Hinted> = said.into_iter().map(|(_, what)| what).collect();
        assert_eq!(what, [Hinted::Working, Hinted::AtPrompt, Hinted::Working]);
    }

    #[test]
    fn text_that_looks_like_an_end_or_a_prompt_says_nothing() {
        assert_eq!(told(b"task complete\r\nuser@host:~$ \r\n100%\r\n# "), []);
    }

    #[test]
    fn title_read_by_others_is_told_once_and_frames_after_it_again() {
        let drawn = Drawn {
            screen: Screen::new(24, 80),
            steady: Steady::default(),
            version: None,
            due_ms: None,
            changed: false,
        };
        let mut hints = hints(Some(drawn), 5);
        let lines = ["› Ask", "", "  ? for shortcuts"].map(str::to_owned);
        let framed = |hints: &mut Hints| hints.frame(screen::read(&lines, None));
        assert_eq!(framed(&mut hints), None, "one frame is not believed");
        let shown = framed(&mut hints).unwrap();
        assert_eq!((shown.by, shown.what), (Glimpse::Screen, Hinted::AtPrompt));
        let titled = hints.title("Working | here", None).unwrap();
        assert_eq!((titled.by, titled.what), (Glimpse::Title, Hinted::Working));
        assert!(titled.place > shown.place);
        assert_eq!(hints.title("⠋ here", None), None, "it is the same state");
        assert_eq!(hints.title("here", None), None, "it has no state");
        assert_eq!(framed(&mut hints), None, "one frame is not believed");
        let again = framed(&mut hints).expect("the screen is reported again");
        assert!(again.place > titled.place && again.what == Hinted::AtPrompt, "{again:?}");
    }

    #[test]
    fn title_that_asks_counts_where_the_screen_asks_nothing() {
        let drawn = Drawn {
            screen: Screen::new(24, 80),
            steady: Steady::default(),
            version: None,
            due_ms: None,
            changed: false,
        };
        let mut hints = hints(Some(drawn), 0);
        let asks = |hints: &mut Hints, lines: &[&str]| {
            let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            let reading = screen::read(&lines, None);
            let titled = hints.title("[ ! ] Action Required | here", Some(&reading));
            hints.frame(reading);
            titled.is_some()
        };
        let approval = [
            "  Would you like to run the following command?",
            "› 1. Yes (y)",
            "  2. No (esc)",
            "  Press enter to confirm or esc to cancel",
        ];
        for _ in 0..4 {
            assert!(!asks(&mut hints, &approval), "its screen shows the request");
        }
        let told = [(); 4].map(|()| asks(&mut hints, &["something that no rule knows"]));
        assert_eq!(told, [false, false, true, false]);
    }
}
