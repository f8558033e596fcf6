//! Applies events about input for the agent.

use crate::{
    session::{
        event::InputEvent,
        input::{
            pane::unconfirmed_reason,
            signals::{LastSignal, RecordSource, SignalKind},
            typed::{TypedInput, TypingState},
        },
        state::{AgentMessageKind, DeliveryStatus, Session},
    },
    time::Moment,
};

impl Session {
    /// Applies an event about input for the agent.
    pub(in crate::session) fn apply_input(&mut self, at: Moment, event: &InputEvent) {
        match event {
            InputEvent::SignalRecorded(e) => {
                if e.by == RecordSource::Hook {
                    self.count_report(e.launch, usize::try_from(e.bytes).unwrap_or(usize::MAX));
                }
                let seen = LastSignal { said: e.said, place: e.place, at };
                self.update_launch(e.launch, |launch| {
                    launch.watch.store_signal(e.by, seen);
                    launch.watch.approved.take_if(|_| e.said == SignalKind::Continued);
                });
            }
            InputEvent::SignalInferred(e) => {
                let seen = LastSignal { said: e.said, place: e.place, at };
                self.update_launch(e.launch, |launch| {
                    launch.watch.hints.insert(e.by, seen);
                });
            }
            InputEvent::PaneSeen(e) => {
                self.update_launch(e.launch, |launch| launch.watch.pane = Some(e.state));
            }
            InputEvent::MessageQueued(e) => {
                self.queue(e.key.clone(), e.kind, e.text.clone(), e.request, e.reply.clone());
            }
            InputEvent::MessageDelivered(e) => {
                self.set_awaits_input(Some(e.launch), false);
                self.record_delivery(&e.key, e.launch, at);
                self.remember_approval(&e.key, e.launch, at);
                self.settle_message(&e.key, DeliveryStatus::Delivered { launch: e.launch });
            }
            InputEvent::MessageTyped(e) => {
                let typed = TypedInput { launch: e.launch, at, state: e.state };
                self.input.update(&e.key, |message| {
                    message.typed = (e.state != TypingState::Untyped).then_some(typed);
                    message.unconfirmed_reason = unconfirmed_reason(e.state);
                });
            }
            InputEvent::MessageUnconfirmed(e) => self.input.update(&e.key, |message| {
                message.typed = None;
                message.unconfirmed_reason = Some(e.reason.clone());
            }),
            InputEvent::MessageRefused(e) => self.record_refusal(e, at),
            InputEvent::MessageLost(e) => {
                if self.input.kind_of(&e.key) == Some(AgentMessageKind::Interrupt) {
                    // The turn may have ended because a user interrupted it at the screen.
                    let attempt = self.attempt_mut();
                    attempt.awaits_user = attempt.was_interrupted();
                    self.drop_interrupt_text(&e.key, &e.reason);
                }
                self.settle_message(
                    &e.key,
                    DeliveryStatus::Undeliverable { reason: e.reason.clone() },
                );
            }
        }
    }
}
