//! Requests inferred from a terminal. Each dialog gets one request, and never the text of another
//! dialog.

use super::{
    event::{Event, MessageLost, RequestSettled},
    launch::Launch,
    state::{Message, MessageFate, MessageKind, Session},
    watch::{Glimpse, Hinted},
};
use crate::request::{Asked, Fate, Request, RequestKind};

impl Session {
    /// Whether a terminal that already showed a request now shows a different one.
    pub(super) fn asks_otherwise(&self, launch: &Launch, by: Glimpse, what: &Hinted) -> bool {
        let Hinted::Asks(asked) = what else { return false };
        let shown = asked.guessed(by).subject;
        let before = self.guessed_last(launch).map(|request| &request.asked.subject);
        shown.is_some() && before.is_some_and(|before| *before != shown)
    }

    /// Opens a request for a dialog shown on a terminal, unless the agent itself reported one or it is
    /// already known. The screen is drawn after the escape code that signals a request, and adds its
    /// details.
    pub(super) fn guess(&self, launch: &Launch, by: Glimpse, asked: Asked) -> Vec<Event> {
        let asked = asked.guessed(by);
        let told = |request: &Request| request.launch == launch.id && !request.is_guessed();
        if self.open_requests().any(told) {
            return Vec::new();
        }
        let Some(known) = self.guessed_last(launch) else {
            return self.ask(launch, asked).into_iter().collect();
        };
        match (&known.asked.subject, &asked.subject) {
            (None, shown) if known.is_open() && (shown.is_some() || known.is_vaguer(&asked)) => {
                let asked = Asked { native: known.asked.native.clone(), ..asked };
                vec![self.asked(launch.id, asked, launch.cursor).into()]
            }
            (Some(before), Some(now)) if before != now => {
                let opened = self.asked(launch.id, asked, launch.cursor).into();
                self.overtaken(launch, known).into_iter().chain([opened]).collect()
            }
            (None | Some(_), None | Some(_)) => Vec::new(),
        }
    }

    /// Returns the last request inferred for a launch, unless it is settled.
    fn guessed_last(&self, launch: &Launch) -> Option<&Request> {
        let of_it = |request: &&Request| request.launch == launch.id && request.is_guessed();
        let last = self.requests.iter().rev().find(of_it)?;
        let answers = |m: &Message| m.request == Some(last.id) && m.fate == MessageFate::Queued;
        (last.is_open() || self.messages.iter().any(answers)).then_some(last)
    }

    /// Settles a request that another dialog has replaced on the screen. It was answered by the typed
    /// input or by a user there, and an answer still waiting is not for the new dialog.
    fn overtaken(&self, launch: &Launch, request: &Request) -> Vec<Event> {
        let waits = |m: &&Message| {
            let queued = m.fate == MessageFate::Queued && m.typed.is_none();
            m.kind == MessageKind::Answer && m.request == Some(request.id) && queued
        };
        let lost = self.messages.iter().filter(waits).map(|message| {
            let reason = "its screen now shows another request".to_owned();
            MessageLost { key: message.key.clone(), reason }.into()
        });
        let settled = request.is_open().then(|| {
            let fate = Fate::AnsweredElsewhere;
            RequestSettled { request: request.id, fate, cursor: None }.into()
        });
        self.answered(launch).chain(lost).chain(settled).collect()
    }
}

impl Request {
    /// Whether this request only shows that input is needed, as a title does, while `than` shows for
    /// what.
    fn is_vaguer(&self, than: &Asked) -> bool {
        self.asked.kind == RequestKind::Dialog && than.kind != RequestKind::Dialog
    }
}

impl Asked {
    /// Marks the subject as inferred, and records from which source.
    fn guessed(&self, by: Glimpse) -> Asked {
        let mut asked = self.clone();
        if let Some(subject) = asked.subject.as_deref_mut() {
            subject.guessed_by = Some(by);
        }
        asked
    }
}
