//! What a terminal lets guess of what is asked: one request for one dialog, and never the words of another.

use super::{
    event::{Event, MessageLost, RequestSettled},
    launch::Launch,
    state::{Message, MessageFate, MessageKind, Session},
    watch::{Glimpse, Hinted},
};
use crate::request::{Asked, Fate, Request, RequestKind};

impl Session {
    /// Says whether a terminal that asked before asks something else now.
    pub(super) fn asks_otherwise(&self, launch: &Launch, by: Glimpse, what: &Hinted) -> bool {
        let Hinted::Asks(asked) = what else { return false };
        let shown = asked.guessed(by).subject;
        let before = self.guessed_last(launch).map(|request| &request.asked.subject);
        shown.is_some() && before.is_some_and(|before| *before != shown)
    }

    /// Opens a request for what a terminal shows to be asked, unless the agent itself told of it or it is known already. The
    /// screen is drawn after an escape code told that something is asked, and adds what that is.
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

    /// Gives the last request that was guessed of a launch, unless it is over.
    fn guessed_last(&self, launch: &Launch) -> Option<&Request> {
        let of_it = |request: &&Request| request.launch == launch.id && request.is_guessed();
        let last = self.requests.iter().rev().find(of_it)?;
        let answers = |m: &Message| m.request == Some(last.id) && m.fate == MessageFate::Queued;
        (last.is_open() || self.messages.iter().any(answers)).then_some(last)
    }

    /// Another dialog stands where this one stood: it was settled, by what was typed or by somebody else, and an answer
    /// that still waits is not for the other.
    fn overtaken(&self, launch: &Launch, request: &Request) -> Vec<Event> {
        let waits = |m: &&Message| {
            let queued = m.fate == MessageFate::Queued && m.typed.is_none();
            m.kind == MessageKind::Answer && m.request == Some(request.id) && queued
        };
        let lost = self.messages.iter().filter(waits).map(|message| {
            let reason = "its screen asks something else by now".to_owned();
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
    /// Says whether it only tells that somebody is needed, as a title does, and this tells for what.
    fn is_vaguer(&self, than: &Asked) -> bool {
        self.asked.kind == RequestKind::Dialog && than.kind != RequestKind::Dialog
    }
}

impl Asked {
    /// Marks what it is about as a guess, and by what.
    fn guessed(&self, by: Glimpse) -> Asked {
        let mut asked = self.clone();
        if let Some(subject) = asked.subject.as_deref_mut() {
            subject.guessed_by = Some(by);
        }
        asked
    }
}
