//! Typed input and its confirmation by the agent's records.

use serde::{Deserialize, Serialize};

use crate::{
    ids::LaunchId,
    session::{
        command::SessionRejection,
        decide::CommandResult,
        effect::DeadlineKind,
        event::{Event, MessageDelivered, MessageTyped},
        input::{
            pane::PaneState,
            signals::{ScreenSource, SignalKind},
            typing::{drop_unconfirmed, mark_unconfirmed},
        },
        launch::Launch,
        state::{AgentMessage, AgentMessageKind, DeliveryStatus, Session},
    },
    time::Moment,
};

/// A message that was typed but is not confirmed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypedInput {
    pub launch: LaunchId,
    pub at: Moment,
    pub state: TypingState,
}

/// The progress of typing a text into a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TypingState {
    /// The text is on the agent's command line. The agent reads it when it is ready.
    CommandLine,
    /// The text is about to be typed into an external pane.
    Typing,
    /// The text was not typed, because the pane accepted no keys. It stays queued.
    Untyped,
    Typed,
    /// The text was not confirmed, so Enter will be pressed again.
    RetryEnter,
    /// Enter is about to be pressed in an external pane.
    Pressing,
    /// Enter was pressed again.
    Pressed,
    /// The text may be in the terminal, so it is not typed again.
    Unconfirmed,
}

/// The suffix that is added to a message's key for the second press of Enter.
const ENTER_RETRY_SUFFIX: &str = "-again";

/// Returns the key under which Enter is pressed again for a message.
pub fn enter_retry_key(message: &str) -> String {
    format!("{message}{ENTER_RETRY_SUFFIX}")
}

/// The reason why nothing can be typed into a terminal right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputBlocked {
    TurnOpen,
    RequestOpen,
    RequestNotShown,
    /// The screen shows a different request than the one that was answered.
    OtherRequestOpen,
    /// The interrupt was sent before an approval, and the approved action is still running.
    ApprovedActionRunning,
    Attended,
    NotAtPrompt,
    /// The prompt contains unsent text, which would be sent with the message.
    UnsentText,
    EarlierInputUnconfirmed,
    Suspended,
    /// The external pane has not been observed yet.
    PaneUnobserved,
    Pane(PaneState),
}

impl InputBlocked {
    pub fn describe(self) -> &'static str {
        match self {
            InputBlocked::TurnOpen => "it is in a turn",
            InputBlocked::RequestOpen => "it has an open request, and the text would answer it",
            InputBlocked::RequestNotShown => "its screen does not show the request",
            InputBlocked::OtherRequestOpen => {
                "it has another open request, which the answer might reach"
            }
            InputBlocked::ApprovedActionRunning => {
                "an action that was approved later has not finished yet"
            }
            InputBlocked::Attended => "a user is at its screen",
            InputBlocked::NotAtPrompt => "it is not known to be at its prompt",
            InputBlocked::UnsentText => "its prompt has unsent text, which would be sent with it",
            InputBlocked::EarlierInputUnconfirmed => {
                "earlier input is not in the agent's transcript yet"
            }
            InputBlocked::Suspended => "its process is suspended",
            InputBlocked::PaneUnobserved => "its pane has not been observed yet",
            InputBlocked::Pane(sight) => sight.describe(),
        }
    }
}

impl Session {
    /// Records that input was written. With a protocol, the input has reached the agent. With a
    /// terminal, it is only known to have reached the terminal.
    pub(in crate::session) fn input_seen(&self, key: &str, launch: LaunchId) -> CommandResult {
        let queued = |key: &str| {
            self.input
                .messages
                .iter()
                .find(|m| m.write_key() == key && m.status == DeliveryStatus::Queued)
        };
        // A transcript never confirms an interrupt key: the turn either ends or it does not.
        let presses =
            queued(key).is_some_and(|message| message.kind == AgentMessageKind::Interrupt);
        if !self.spec.agent.interface.has_terminal() || presses {
            let message = queued(key).ok_or(SessionRejection::NothingNew)?;
            return Ok(vec![MessageDelivered { key: message.key.clone(), launch }.into()]);
        }
        let pressed = key.strip_suffix(ENTER_RETRY_SUFFIX).and_then(queued);
        let (message, from, to) = match pressed {
            Some(message) => (message, Some(TypingState::RetryEnter), TypingState::Pressed),
            None => (queued(key).ok_or(SessionRejection::NothingNew)?, None, TypingState::Typed),
        };
        // An agent that has exited cannot confirm the input. The input is not sent to its successor.
        let ended = !self.launch(launch).is_some_and(Launch::may_be_running);
        let typed = MessageTyped { key: message.key.clone(), launch, state: to };
        if message.typed.map(|typed| typed.state) != from {
            return Err(SessionRejection::NothingNew);
        }
        Ok(vec![if ended { drop_unconfirmed(message) } else { typed.into() }])
    }

    /// Returns typed input that is not confirmed yet, with its deadline. A text on the command line
    /// has no deadline, because the agent reads it when it is ready, no matter how long its dialogs
    /// stay open.
    fn awaiting_confirmation(&self) -> impl Iterator<Item = (&AgentMessage, TypedInput, u64)> {
        let waits = |state| {
            matches!(
                state,
                TypingState::Typing
                    | TypingState::Typed
                    | TypingState::Pressing
                    | TypingState::Pressed
            )
        };
        let runs = |id| self.launch(id).is_some_and(Launch::may_be_running);
        let queued = self.input.queued();
        let typed = queued.filter_map(|m| Some((m, m.typed?)));
        let waiting = typed.filter(move |(_, typed)| waits(typed.state) && runs(typed.launch));
        waiting.map(|(m, typed)| (m, typed, typed.at.deadline(self.spec.bounds.confirm_ms)))
    }

    pub(in crate::session) fn confirmation_deadline(&self) -> Option<(u64, DeadlineKind)> {
        let proof =
            self.awaiting_confirmation().map(|(_, _, at)| (at, DeadlineKind::InputConfirmation));
        proof.chain(self.unconfirmed_deadline()).min_by_key(|(at, _)| *at)
    }

    /// Presses Enter again for input that was not confirmed in time. If that does not help, marks
    /// the input as unconfirmed.
    pub(in crate::session) fn mark_input_unconfirmed(&self, now: Moment) -> Option<Event> {
        let (message, typed, _) =
            self.awaiting_confirmation().find(|(_, _, at)| now.mono_ms >= *at)?;
        let key = message.key.clone();
        // Pressing Enter could give the wrong answer to the agent's request.
        let sends = message.kind != AgentMessageKind::Answer && self.may_retry_enter(&typed);
        Some(match typed.state {
            TypingState::Typed if sends => {
                MessageTyped { key, launch: typed.launch, state: TypingState::RetryEnter }.into()
            }
            TypingState::CommandLine
            | TypingState::Typing
            | TypingState::Untyped
            | TypingState::Typed
            | TypingState::RetryEnter
            | TypingState::Pressing
            | TypingState::Pressed
            | TypingState::Unconfirmed => mark_unconfirmed(message, typed.launch),
        })
    }

    /// Returns why a message cannot be typed into a launch's terminal right now, or None if it can.
    /// An answer requires its request to be on the screen; anything else requires a prompt.
    pub fn input_blocked(&self, launch: &Launch, message: &AgentMessage) -> Option<InputBlocked> {
        let asks = self.open_requests().any(|request| request.launch == launch.id)
            || launch.watch.shown_signal() == Some(SignalKind::Asks);
        let drafted = launch.watch.last_hint(ScreenSource::Screen) == Some(SignalKind::UnsentText);
        let answers = message.kind == AgentMessageKind::Answer;
        let by_pane = self.pane_block(launch);
        let interrupts = message.kind == AgentMessageKind::Interrupt;
        let prompted = !answers && !interrupts;
        // A key press waits for the previous one, but not for the confirmation of a text.
        let before = |m: &AgentMessage, state: TypingState| {
            prompted || (m.kind == AgentMessageKind::Answer && state != TypingState::Unconfirmed)
        };
        let typed = |m: &AgentMessage| {
            m.status == DeliveryStatus::Queued
                && m.typed.is_some_and(|typed| before(m, typed.state))
        };
        let reasons = [
            (launch.watch.suspended, InputBlocked::Suspended),
            (self.input.messages.iter().any(typed), InputBlocked::EarlierInputUnconfirmed),
            (launch.viewers > 0, InputBlocked::Attended),
            (
                answers && !self.answers_current_request(launch, message),
                InputBlocked::OtherRequestOpen,
            ),
            (answers && !launch.watch.shows_request_on_screen(), InputBlocked::RequestNotShown),
            (!answers && asks, InputBlocked::RequestOpen),
            (!answers && self.has_answer_to_type(launch.id), InputBlocked::RequestOpen),
            (
                interrupts && self.was_approved_after(launch, message),
                InputBlocked::ApprovedActionRunning,
            ),
            (prompted && launch.is_in_recorded_turn(), InputBlocked::TurnOpen),
            (prompted && drafted, InputBlocked::UnsentText),
            (prompted && !launch.watch.is_at_an_empty_prompt(), InputBlocked::NotAtPrompt),
        ];
        reasons.into_iter().find(|(holds, _)| *holds).map(|(_, why)| why).or(by_pane)
    }
}
