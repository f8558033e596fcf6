//! Rules for typing into a terminal: pasting texts, answering requests, pressing Enter once more, and
//! giving up input that no turn took.

use super::{
    command::Rejected,
    effect::Due,
    event::{Event, MessageDelivered, MessageLost, MessageTyped},
    launch::Launch,
    pane::PaneSight,
    spec::Driver,
    state::{Message, MessageFate, MessageKind, Session},
    watch::{Record, Said, Typed, Way},
};
use crate::{ids::LaunchId, request::Request, time::Moment};

/// The reason for dropping an answer that a user gave first at the screen.
const SETTLED_THERE: &str = "it was settled at the agent's screen first";

/// The reason for dropping an answer whose question was asked again.
const ASKED_ANEW: &str = "the agent asked again";

/// The reason for dropping an answer for a process that is gone.
const ASKER_ENDED: &str = "the process that asked has ended";

/// The reason for dropping a message that may have been typed.
pub(super) const DOUBTED: &str =
    "it may have been typed, but the agent's transcript does not show it";

/// Returns a text as it is pasted: nothing in it can end the paste or control the terminal.
pub fn pasted(text: &str) -> String {
    let is_text = |char: &char| !char.is_control() || matches!(char, '\n' | '\t');
    text.replace("\r\n", "\n").replace('\r', "\n").chars().filter(is_text).collect()
}

/// Returns a text in the form that an agent's terminal takes literally.
///
/// Codex's composer treats a leading `/` as a command of its own, unless a space precedes it. Its
/// completion of a last word that starts with `@` or `$` captures Enter, unless a space follows. It
/// trims its input, so that neither space reaches the model.
pub fn literally(driver: Driver, text: &str) -> String {
    let text = pasted(text);
    if driver != Driver::CodexTerminal {
        return text;
    }
    let before = if text.starts_with('/') { " " } else { "" };
    let last = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    let after = if last.starts_with(['@', '$']) { " " } else { "" };
    format!("{before}{text}{after}")
}

/// Checks that a text can be typed into an agent's terminal.
///
/// # Errors
/// If Codex would run it as a command of the user, outside of its sandbox, or if nothing of it can be
/// typed.
pub fn sayable(driver: Driver, text: &str) -> Result<(), Rejected> {
    let text = pasted(text);
    match text.trim_start() {
        _ if !driver.has_terminal() => Ok(()),
        "" => Err(Rejected::NothingToType),
        begun if driver == Driver::CodexTerminal && begun.starts_with('!') => {
            Err(Rejected::RunAsCommand)
        }
        _ => Ok(()),
    }
}

impl Typed {
    /// Whether an event happened after this was typed.
    fn is_before(&self, happened: Option<Moment>) -> bool {
        happened.is_some_and(|at| at.mono_ms > self.at.mono_ms)
    }
}

impl Launch {
    /// Whether a user was at its screen since this was typed, and may have changed the input.
    pub(super) fn was_attended_since(&self, typed: &Typed) -> bool {
        self.people > 0 || typed.is_before(self.attended)
    }
}

// Answers.
impl Session {
    fn answers(&self) -> impl Iterator<Item = &Message> {
        let waits = |m: &&Message| m.kind == MessageKind::Answer && m.fate == MessageFate::Queued;
        self.messages.iter().filter(waits)
    }

    /// Whether an answer for this launch is not typed yet. Any other key would answer the request.
    pub(super) fn has_answer_to_type(&self, launch: LaunchId) -> bool {
        let of_it = |m: &Message| self.answered_by(m).is_some_and(|asked| asked.launch == launch);
        self.answers().any(|message| message.typed.is_none() && of_it(message))
    }

    fn answered_by(&self, message: &Message) -> Option<&Request> {
        self.requests.iter().find(|request| Some(request.id) == message.request)
    }

    /// Returns the unsettled requests of a launch: open, or with an answer on its way.
    pub(super) fn unsettled(&self, launch: LaunchId) -> impl DoubleEndedIterator<Item = &Request> {
        let waits = |id| self.answers().any(|message| message.request == Some(id));
        let of_it = self.requests.iter().filter(move |request| request.launch == launch);
        of_it.filter(move |request| request.is_open() || waits(request.id))
    }

    /// Whether an answer is for the agent's current request: the newest one, and the only one in its
    /// transcript. With several it is unclear which one is on the screen.
    pub(super) fn is_asked_now(&self, launch: &Launch, answer: &Message) -> bool {
        let mut unsettled = self.unsettled(launch.id).rev();
        let newest = unsettled.next().is_some_and(|newest| Some(newest.id) == answer.request);
        newest && unsettled.all(|other| other.is_guessed())
    }

    /// Settles the answers of a launch whose request was settled at its screen. A typed answer did that;
    /// a waiting one is too late, and must not be typed into the next request.
    pub(super) fn answered<'a>(
        &'a self,
        launch: &'a Launch,
    ) -> impl Iterator<Item = Event> + use<'a> {
        let of_it = |message: &&Message| {
            self.answered_by(message).is_some_and(|request| request.launch == launch.id)
        };
        self.answers().filter(of_it).map(|message| {
            let key = message.key.clone();
            if message.typed.is_some() || message.unproved.is_some() {
                MessageDelivered { key, launch: launch.id }.into()
            } else {
                MessageLost { key, reason: SETTLED_THERE.to_owned() }.into()
            }
        })
    }

    /// Whether an action was approved after this message was sent, and is not finished yet according to
    /// the agent's hooks.
    pub(super) fn was_approved_after(&self, launch: &Launch, message: &Message) -> bool {
        let tells = launch.watch.records.contains_key(&Record::Hook);
        let Some(approved) = launch.watch.approved else { return false };
        let mut later = self.messages.iter().skip_while(|one| one.key != message.key);
        tells && later.any(|one| one.request == Some(approved))
    }

    /// Remembers an approved action until the agent continues, unless the continuation itself confirmed
    /// the answer.
    pub(super) fn expect_what_was_approved(&mut self, answer: &str, launch: LaunchId, at: Moment) {
        let answered = self.messages.iter().find(|m| m.key == answer).and_then(|m| m.request);
        let allowed = |r: &&Request| Some(r.id) == answered && r.allowed == Some(true);
        if let Some(approved) = self.requests.iter().find(allowed).map(|request| request.id) {
            self.on_launch(launch, |launch| {
                let mut records = launch.watch.records.values();
                let done = records.any(|seen| seen.said == Said::WentOn && seen.at == at);
                launch.watch.approved = (!done).then_some(approved);
            });
        }
    }

    /// Returns the reason an answer that waits for a terminal can no longer be delivered.
    pub(super) fn why_moot(&self, answer: &Message) -> Option<&'static str> {
        let waits = self.spec.agent.driver.has_terminal() && answer.typed.is_none();
        if !waits {
            return None;
        }
        let request = self.answered_by(answer)?;
        match self.running() {
            Some(launch) if launch.id != request.launch => Some(ASKER_ENDED),
            Some(_) if request.is_open() => Some(ASKED_ANEW),
            Some(_) | None => None,
        }
    }

    /// Returns the reason the answer to a request never reached the agent, if it was lost.
    pub(super) fn why_lost(&self, request: &Request) -> Option<&str> {
        let to_it = |message: &&Message| message.request == Some(request.id);
        match &self.messages.iter().rev().find(to_it)?.fate {
            MessageFate::Undeliverable { reason } => Some(reason),
            MessageFate::Queued | MessageFate::Delivered { .. } => None,
        }
    }
}

// Typed input.
impl Session {
    /// Returns the message that a launch got on its command line.
    pub fn given(&self, launch: LaunchId) -> Option<&Message> {
        let on_its_line = |typed: Typed| typed.launch == launch && typed.way == Way::CommandLine;
        self.messages.iter().find(|message| message.typed.is_some_and(on_its_line))
    }

    /// Puts the first text for a terminal on its command line. Later texts are typed.
    pub(super) fn give_on_the_command_line(&mut self, launch: LaunchId, at: Moment) {
        let driver = self.spec.agent.driver;
        if !driver.has_terminal() || self.spec.adopted.is_some() {
            return;
        }
        let mut queued: Vec<&mut Message> =
            self.messages.iter_mut().filter(|m| m.fate == MessageFate::Queued).collect();
        // Input typed into an earlier process does not concern this one.
        queued.iter_mut().for_each(|m| (m.typed, m.unproved) = (None, None));
        let fits = |m: &&mut &mut Message| m.is_text() && sayable(driver, &m.text).is_ok();
        if let Some(message) = queued.iter_mut().find(fits) {
            message.typed = Some(Typed { launch, at, way: Way::CommandLine });
        }
    }

    /// Whether Enter may be pressed once more: the text is at the prompt as it was typed, because there
    /// is no request, no turn has begun and no user was there since.
    pub(super) fn may_press_again(&self, typed: &Typed) -> bool {
        let Some(launch) = self.running().filter(|one| one.id == typed.launch) else {
            return false;
        };
        let prompts = matches!(launch.watch.shows(), Some(Said::AtPrompt | Said::Drafted));
        let asks = self.unsettled(launch.id).next().is_some();
        let turned = launch.is_in_recorded_turn() || typed.is_before(launch.watch.turned);
        let pane = matches!(launch.watch.pane, Some(PaneSight::Open | PaneSight::Drafted));
        prompts
            && !asks
            && !turned
            && !launch.watch.suspended
            && !launch.was_attended_since(typed)
            && (pane || !launch.adopted)
    }

    /// Cancels an Enter retry that is no longer allowed, and marks the input as unconfirmed.
    pub(super) fn call_off_the_press(&self) -> Option<Event> {
        let (message, typed) = self.pressed_again()?;
        (!self.may_press_again(&typed)).then(|| doubted(message, typed.launch))
    }

    /// Returns the text for which Enter is to be pressed once more.
    pub(super) fn pressed_again(&self) -> Option<(&Message, Typed)> {
        let again = |m: &'_ Message| m.typed.filter(|typed| typed.way == Way::Again);
        let mut queued = self.messages.iter().filter(|m| m.fate == MessageFate::Queued);
        queued.find_map(|m| Some((m, again(m)?)))
    }

    /// Gives up typed input that no turn took. A turn that ended without it shows that the agent did not
    /// take the input, or took something else. If a user may have begun that turn at the same time, the
    /// input is marked as unconfirmed first.
    pub(super) fn give_up_what_no_turn_took<'a>(
        &'a self,
        launch: &'a Launch,
    ) -> impl Iterator<Item = Event> + use<'a> {
        let typed = |m: &'a Message| {
            let text = m.fate == MessageFate::Queued && m.kind != MessageKind::Answer;
            let typed = m.typed.filter(|typed| text && typed.launch == launch.id)?;
            (typed.way != Way::Typing).then_some((m, typed))
        };
        let alone = |typed: &Typed| !launch.adopted && !launch.was_attended_since(typed);
        self.messages.iter().filter_map(typed).map(move |(m, typed)| {
            if typed.way == Way::Doubted || alone(&typed) {
                given_up(m)
            } else {
                doubted(m, launch.id)
            }
        })
    }

    /// Returns when unconfirmed input expires. It does not expire during a turn, whose end would reveal
    /// more.
    pub(super) fn doubt_deadline(&self) -> Option<(u64, Due)> {
        self.doubted_for_long().map(|(_, at)| (at, Due::Proof))
    }

    pub(super) fn give_up_what_is_doubted(&self, now: Moment) -> Option<Event> {
        let (message, at) = self.doubted_for_long()?;
        (now.mono_ms >= at).then(|| given_up(message))
    }

    fn doubted_for_long(&self) -> Option<(&Message, u64)> {
        let launch = self.running()?;
        if launch.is_in_recorded_turn() && !self.asks(launch) {
            return None;
        }
        let doubted = |m: &'_ Message| {
            let queued = m.fate == MessageFate::Queued;
            m.typed.filter(|t| queued && t.way == Way::Doubted && t.launch == launch.id)
        };
        let long = |typed: Typed| typed.at.deadline(self.spec.bounds.unproved_ms);
        let found = self.messages.iter().filter_map(|m| Some((m, long(doubted(m)?))));
        found.min_by_key(|(_, at)| *at)
    }

    fn asks(&self, launch: &Launch) -> bool {
        self.unsettled(launch.id).next().is_some()
    }
}

impl Message {
    /// Whether it is a text for the agent, not a key press.
    pub fn is_text(&self) -> bool {
        match self.kind {
            MessageKind::Instruction
            | MessageKind::Steer
            | MessageKind::Rework
            | MessageKind::ResultWanted
            | MessageKind::Continue
            | MessageKind::Nudge => true,
            MessageKind::Answer
            | MessageKind::Interrupt
            | MessageKind::Compact
            | MessageKind::Returned => false,
        }
    }
}

/// Marks input as unconfirmed: it may be in the terminal, so it is not typed again.
pub(super) fn doubted(message: &Message, launch: LaunchId) -> Event {
    MessageTyped { key: message.key.clone(), launch, way: Way::Doubted }.into()
}

pub(super) fn given_up(message: &Message) -> Event {
    MessageLost { key: message.key.clone(), reason: DOUBTED.to_owned() }.into()
}
