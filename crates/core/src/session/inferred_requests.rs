//! Requests inferred from a terminal. Each dialog becomes a separate request that contains the text
//! of the dialog.

use super::{
    event::{Event, MessageLost, RequestSettled},
    launch::Launch,
    state::{AgentMessage, AgentMessageKind, DeliveryStatus, Session},
    watch::{ScreenHint, ScreenSource},
};
use crate::request::{AgentRequest, Request, RequestKind, RequestStatus};

impl Session {
    /// Whether the terminal now shows a different request than before.
    pub(super) fn shows_other_request(
        &self,
        launch: &Launch,
        by: ScreenSource,
        what: &ScreenHint,
    ) -> bool {
        let ScreenHint::ShowsRequest(asked) = what else { return false };
        let shown = asked.mark_inferred(by).subject;
        let before = self.last_inferred(launch).map(|request| &request.asked.subject);
        shown.is_some() && before.is_some_and(|before| *before != shown)
    }

    /// Opens a request for a dialog in a terminal, unless the request is already known or the agent
    /// reported one itself. The screen is drawn after the escape code that signals a request, and
    /// provides the details.
    pub(super) fn infer_request(
        &self,
        launch: &Launch,
        by: ScreenSource,
        asked: AgentRequest,
    ) -> Vec<Event> {
        let asked = asked.mark_inferred(by);
        let is_reported = |request: &Request| request.launch == launch.id && !request.is_inferred();
        if self.open_requests().any(is_reported) {
            return Vec::new();
        }
        let Some(known) = self.last_inferred(launch) else {
            return self.open_new_request(launch, asked).into_iter().collect();
        };
        match (&known.asked.subject, &asked.subject) {
            (None, shown)
                if known.is_open() && (shown.is_some() || known.is_vaguer_than(&asked)) =>
            {
                let asked = AgentRequest { native: known.asked.native.clone(), ..asked };
                vec![self.request_opened(launch.id, asked, launch.cursor).into()]
            }
            (Some(before), Some(now)) if before != now => {
                let opened = self.request_opened(launch.id, asked, launch.cursor).into();
                self.settle_replaced(launch, known).into_iter().chain([opened]).collect()
            }
            (None | Some(_), None | Some(_)) => Vec::new(),
        }
    }

    /// Returns the last request inferred for a launch, unless that request is settled.
    fn last_inferred(&self, launch: &Launch) -> Option<&Request> {
        let of_it = |request: &&Request| request.launch == launch.id && request.is_inferred();
        let last = self.requests.iter().rev().find(of_it)?;
        let answers =
            |m: &AgentMessage| m.request == Some(last.id) && m.status == DeliveryStatus::Queued;
        (last.is_open() || self.messages.iter().any(answers)).then_some(last)
    }

    /// Settles a request whose dialog was replaced by another one on the screen. Either the typed
    /// input or a user at the screen answered it. An answer that has not been typed yet must not be
    /// used for the new dialog.
    fn settle_replaced(&self, launch: &Launch, request: &Request) -> Vec<Event> {
        let waits = |m: &&AgentMessage| {
            let queued = m.status == DeliveryStatus::Queued && m.typed.is_none();
            m.kind == AgentMessageKind::Answer && m.request == Some(request.id) && queued
        };
        let lost = self.messages.iter().filter(waits).map(|message| {
            let reason = "its screen now shows another request".to_owned();
            MessageLost { key: message.key.clone(), reason }.into()
        });
        let settled = request.is_open().then(|| {
            let fate = RequestStatus::AnsweredElsewhere;
            RequestSettled { request: request.id, status: fate, cursor: None }.into()
        });
        self.settle_answers(launch).chain(lost).chain(settled).collect()
    }
}

impl Request {
    /// Whether this request only shows that some input is needed, for example in a window title,
    /// while `than` also shows the reason.
    fn is_vaguer_than(&self, than: &AgentRequest) -> bool {
        self.asked.kind == RequestKind::Dialog && than.kind != RequestKind::Dialog
    }
}

impl AgentRequest {
    /// Marks the subject as inferred from this source.
    fn mark_inferred(&self, by: ScreenSource) -> AgentRequest {
        let mut asked = self.clone();
        if let Some(subject) = asked.subject.as_deref_mut() {
            subject.inferred_from = Some(by);
        }
        asked
    }
}
