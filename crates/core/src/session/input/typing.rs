//! Rules for typing into a terminal: pasting texts, answering requests, pressing Enter a second
//! time, and giving up on input that did not start a turn.

use crate::{
    ids::LaunchId,
    request::Request,
    session::{
        command::SessionRejection,
        effect::DeadlineKind,
        event::{Event, MessageDelivered, MessageLost, MessageTyped},
        input::{
            pane::PaneState,
            signals::{RecordSource, SignalKind},
            typed::{TypedInput, TypingState},
        },
        interface::{AgentInterface, Composer},
        launch::Launch,
        state::{AgentMessage, AgentMessageKind, DeliveryStatus, Session},
    },
    time::Moment,
};

/// The reason for dropping an answer if a user at the screen answered first.
const SETTLED_AT_SCREEN: &str = "it was settled at the agent's screen first";

/// The reason for dropping an answer if the agent asked the question again.
const ASKED_AGAIN: &str = "the agent asked again";

/// The reason for dropping an answer if the process that made the request is gone.
const ASKER_ENDED: &str = "the process that asked has ended";

/// The reason for dropping a message that may already have been typed.
pub(in crate::session) const UNCONFIRMED: &str =
    "it may have been typed, but the agent's transcript does not show it";

/// Returns the form of a text that is pasted. The result contains nothing that could end the paste
/// or control the terminal.
pub fn pasteable_text(text: &str) -> String {
    let is_text = |char: &char| !char.is_control() || matches!(char, '\n' | '\t');
    text.replace("\r\n", "\n").replace('\r', "\n").chars().filter(is_text).collect()
}

/// Returns a text in a form that an agent's composer treats literally. Composers trim their input,
/// so the added spaces do not reach the model.
pub fn literal_text(composer: &Composer, text: &str) -> String {
    let text = pasteable_text(text);
    let before = if text.starts_with(among(&composer.command_prefixes)) { " " } else { "" };
    let last = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    let after = if last.starts_with(among(&composer.completion_prefixes)) { " " } else { "" };
    format!("{before}{text}{after}")
}

/// Checks that a text can be typed into an agent's terminal.
///
/// # Errors
///
/// If the agent would run the text as a user command outside of its sandbox, or if no part of the
/// text can be typed.
pub fn check_typeable(interface: &AgentInterface, text: &str) -> Result<(), SessionRejection> {
    if !interface.has_terminal() {
        return Ok(());
    }
    let text = pasteable_text(text);
    let first = text.trim_start().chars().next().ok_or(SessionRejection::NothingToType)?;
    if interface.composer().shell_prefixes.contains(first) {
        return Err(SessionRejection::RunsAsShellCommand(first));
    }
    Ok(())
}

fn among(characters: &str) -> impl Fn(char) -> bool {
    |char| characters.contains(char)
}

impl TypedInput {
    /// Whether something happened after the message was typed.
    fn is_before(&self, happened: Option<Moment>) -> bool {
        happened.is_some_and(|at| at.mono_ms > self.at.mono_ms)
    }
}

impl Launch {
    /// Whether a user was at the screen after the message was typed, and might have changed the input.
    pub(in crate::session) fn was_attended_since(&self, typed: &TypedInput) -> bool {
        self.viewers > 0 || typed.is_before(self.attended)
    }
}

// Answers to requests on the screen.
impl Session {
    fn queued_answers(&self) -> impl Iterator<Item = &AgentMessage> {
        let waits = |m: &&AgentMessage| {
            m.kind == AgentMessageKind::Answer && m.status == DeliveryStatus::Queued
        };
        self.input.messages.iter().filter(waits)
    }

    /// Whether there is an answer for this launch that has not been typed yet. Until it is typed,
    /// any other key would answer the request.
    pub(in crate::session) fn has_answer_to_type(&self, launch: LaunchId) -> bool {
        let of_it =
            |m: &AgentMessage| self.answered_request(m).is_some_and(|asked| asked.launch == launch);
        self.queued_answers().any(|message| message.typed.is_none() && of_it(message))
    }

    fn answered_request(&self, message: &AgentMessage) -> Option<&Request> {
        self.requests.iter().find(|request| Some(request.id) == message.request)
    }

    /// Returns the unsettled requests of a launch, which are open or have an answer on its way.
    pub(in crate::session) fn unsettled_requests(
        &self,
        launch: LaunchId,
    ) -> impl DoubleEndedIterator<Item = &Request> {
        let waits = |id| self.queued_answers().any(|message| message.request == Some(id));
        let of_it = self.requests.iter().filter(move |request| request.launch == launch);
        of_it.filter(move |request| request.is_open() || waits(request.id))
    }

    /// Whether an answer is for the agent's current request, which must be the newest one and the
    /// only one in the transcript. If there are several, it is unclear which of them is on the
    /// screen.
    pub(in crate::session) fn answers_current_request(
        &self,
        launch: &Launch,
        answer: &AgentMessage,
    ) -> bool {
        let mut unsettled = self.unsettled_requests(launch.id).rev();
        let newest = unsettled.next().is_some_and(|newest| Some(newest.id) == answer.request);
        newest && unsettled.all(|other| other.is_inferred())
    }

    /// Settles the answers for a launch whose request was settled on its screen. An answer that was
    /// typed settled it. An answer that is still queued is too late, and must not be typed into the
    /// next request.
    pub(in crate::session) fn settle_answers<'a>(
        &'a self,
        launch: &'a Launch,
    ) -> impl Iterator<Item = Event> + use<'a> {
        let of_it = |message: &&AgentMessage| {
            self.answered_request(message).is_some_and(|request| request.launch == launch.id)
        };
        self.queued_answers().filter(of_it).map(|message| {
            let key = message.key.clone();
            if message.typed.is_some() || message.unconfirmed_reason.is_some() {
                MessageDelivered { key, launch: launch.id }.into()
            } else {
                MessageLost { key, reason: SETTLED_AT_SCREEN.to_owned() }.into()
            }
        })
    }

    /// Whether an action was approved after this message was sent and, according to the agent's
    /// hooks, has not finished yet.
    pub(in crate::session) fn was_approved_after(
        &self,
        launch: &Launch,
        message: &AgentMessage,
    ) -> bool {
        let has_hook = launch.watch.records.contains_key(&RecordSource::Hook);
        let Some(approved) = launch.watch.approved else { return false };
        let mut later = self.input.messages.iter().skip_while(|one| one.key != message.key);
        has_hook && later.any(|one| one.request == Some(approved))
    }

    /// Remembers an approved action until the agent continues, unless the agent has already
    /// continued and thereby confirmed the answer.
    pub(in crate::session) fn remember_approval(
        &mut self,
        answer: &str,
        launch: LaunchId,
        at: Moment,
    ) {
        let answered = self.input.messages.iter().find(|m| m.key == answer).and_then(|m| m.request);
        let allowed = |r: &&Request| Some(r.id) == answered && r.allowed == Some(true);
        if let Some(approved) = self.requests.iter().find(allowed).map(|request| request.id) {
            self.update_launch(launch, |launch| {
                let mut records = launch.watch.records.values();
                let done = records.any(|seen| seen.said == SignalKind::Continued && seen.at == at);
                launch.watch.approved = (!done).then_some(approved);
            });
        }
    }

    /// Returns the reason why an answer that waits for a terminal can no longer be delivered, if
    /// there is one.
    pub(in crate::session) fn moot_reason(&self, answer: &AgentMessage) -> Option<&'static str> {
        let waits = self.spec.agent.interface.has_terminal() && answer.typed.is_none();
        if !waits {
            return None;
        }
        let request = self.answered_request(answer)?;
        match self.running_launch() {
            Some(launch) if launch.id != request.launch => Some(ASKER_ENDED),
            Some(_) if request.is_open() => Some(ASKED_AGAIN),
            Some(_) | None => None,
        }
    }

    /// Returns why the answer to a request never reached the agent, if it was lost.
    pub(in crate::session) fn answer_loss_reason(&self, request: &Request) -> Option<&str> {
        let to_it = |message: &&AgentMessage| message.request == Some(request.id);
        match &self.input.messages.iter().rev().find(to_it)?.status {
            DeliveryStatus::Undeliverable { reason } => Some(reason),
            DeliveryStatus::Queued | DeliveryStatus::Delivered { .. } => None,
        }
    }
}

// Typed input and its confirmation.
impl Session {
    /// Returns the message that a launch received on its command line.
    pub fn command_line_message(&self, launch: LaunchId) -> Option<&AgentMessage> {
        let on_its_line =
            |typed: TypedInput| typed.launch == launch && typed.state == TypingState::CommandLine;
        self.input.messages.iter().find(|message| message.typed.is_some_and(on_its_line))
    }

    /// Puts the first text for a terminal on the command line. Later texts are typed.
    pub(in crate::session) fn put_on_command_line(&mut self, launch: LaunchId, at: Moment) {
        let interface = &self.spec.agent.interface;
        if !interface.has_terminal() || self.spec.adopted.is_some() {
            return;
        }
        let mut queued: Vec<&mut AgentMessage> =
            self.input.messages.iter_mut().filter(|m| m.status == DeliveryStatus::Queued).collect();
        // Input that was typed into an earlier process does not affect the new process.
        queued.iter_mut().for_each(|m| (m.typed, m.unconfirmed_reason) = (None, None));
        let fits =
            |m: &&mut &mut AgentMessage| m.is_text() && check_typeable(interface, &m.text).is_ok();
        if let Some(message) = queued.iter_mut().find(fits) {
            message.typed = Some(TypedInput { launch, at, state: TypingState::CommandLine });
        }
    }

    /// Whether Enter may be pressed again. The text must still be at the prompt exactly as typed,
    /// so no request may be on the screen, no turn may have started, and no user may have been at
    /// the screen since.
    pub(in crate::session) fn may_retry_enter(&self, typed: &TypedInput) -> bool {
        let Some(launch) = self.running_launch().filter(|one| one.id == typed.launch) else {
            return false;
        };
        let prompts = matches!(
            launch.watch.shown_signal(),
            Some(SignalKind::AtPrompt | SignalKind::UnsentText)
        );
        let asks = self.unsettled_requests(launch.id).next().is_some();
        let turned = launch.is_in_recorded_turn() || typed.is_before(launch.watch.turn_changed_at);
        let pane = matches!(launch.watch.pane, Some(PaneState::Open | PaneState::UnsentText));
        prompts
            && !asks
            && !turned
            && !launch.watch.suspended
            && !launch.was_attended_since(typed)
            && (pane || !launch.adopted)
    }

    /// Cancels a second press of Enter that is no longer allowed, and marks the input as unconfirmed.
    pub(in crate::session) fn cancel_enter_retry(&self) -> Option<Event> {
        let (message, typed) = self.pending_enter_retry()?;
        (!self.may_retry_enter(&typed)).then(|| mark_unconfirmed(message, typed.launch))
    }

    /// Returns the text for which Enter will be pressed again.
    pub(in crate::session) fn pending_enter_retry(&self) -> Option<(&AgentMessage, TypedInput)> {
        let again =
            |m: &'_ AgentMessage| m.typed.filter(|typed| typed.state == TypingState::RetryEnter);
        let mut queued = self.input.queued();
        queued.find_map(|m| Some((m, again(m)?)))
    }

    /// Abandons typed input that did not start a turn. If a turn ended without the input, the
    /// agent did not accept it, or accepted something else. If a user may have started that turn at
    /// the same time, the input is marked as unconfirmed first.
    pub(in crate::session) fn drop_input_no_turn_took<'a>(
        &'a self,
        launch: &'a Launch,
    ) -> impl Iterator<Item = Event> + use<'a> {
        let typed = |m: &'a AgentMessage| {
            let text = m.status == DeliveryStatus::Queued && m.kind != AgentMessageKind::Answer;
            let typed = m.typed.filter(|typed| text && typed.launch == launch.id)?;
            (typed.state != TypingState::Typing).then_some((m, typed))
        };
        let alone = |typed: &TypedInput| !launch.adopted && !launch.was_attended_since(typed);
        self.input.messages.iter().filter_map(typed).map(move |(m, typed)| {
            if typed.state == TypingState::Unconfirmed || alone(&typed) {
                drop_unconfirmed(m)
            } else {
                mark_unconfirmed(m, launch.id)
            }
        })
    }

    /// Returns when unconfirmed input expires. It does not expire during a turn, because the end of
    /// the turn may show whether the agent received it.
    pub(in crate::session) fn unconfirmed_deadline(&self) -> Option<(u64, DeadlineKind)> {
        self.oldest_unconfirmed().map(|(_, at)| (at, DeadlineKind::InputConfirmation))
    }

    pub(in crate::session) fn expire_unconfirmed_input(&self, now: Moment) -> Option<Event> {
        let (message, at) = self.oldest_unconfirmed()?;
        (now.mono_ms >= at).then(|| drop_unconfirmed(message))
    }

    fn oldest_unconfirmed(&self) -> Option<(&AgentMessage, u64)> {
        let launch = self.running_launch()?;
        if launch.is_in_recorded_turn() && !self.has_unsettled_request(launch) {
            return None;
        }
        let unconfirmed = |m: &'_ AgentMessage| {
            let queued = m.status == DeliveryStatus::Queued;
            m.typed
                .filter(|t| queued && t.state == TypingState::Unconfirmed && t.launch == launch.id)
        };
        let long = |typed: TypedInput| typed.at.deadline(self.spec.bounds.unconfirmed_ms);
        let found = self.input.messages.iter().filter_map(|m| Some((m, long(unconfirmed(m)?))));
        found.min_by_key(|(_, at)| *at)
    }

    fn has_unsettled_request(&self, launch: &Launch) -> bool {
        self.unsettled_requests(launch.id).next().is_some()
    }
}

impl AgentMessage {
    /// Whether the message is a text for the agent, and not a key press.
    pub fn is_text(&self) -> bool {
        match self.kind {
            AgentMessageKind::Instruction
            | AgentMessageKind::Steer
            | AgentMessageKind::Rework
            | AgentMessageKind::ResultWanted
            | AgentMessageKind::Continue
            | AgentMessageKind::Nudge => true,
            AgentMessageKind::Answer
            | AgentMessageKind::Interrupt
            | AgentMessageKind::Compact
            | AgentMessageKind::Returned => false,
        }
    }
}

/// Marks input as unconfirmed. It may already be in the terminal, so it is not typed again.
pub(in crate::session) fn mark_unconfirmed(message: &AgentMessage, launch: LaunchId) -> Event {
    MessageTyped { key: message.key.clone(), launch, state: TypingState::Unconfirmed }.into()
}

pub(in crate::session) fn drop_unconfirmed(message: &AgentMessage) -> Event {
    MessageLost { key: message.key.clone(), reason: UNCONFIRMED.to_owned() }.into()
}
