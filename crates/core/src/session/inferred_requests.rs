//! Requests inferred from a terminal. Each dialog gets one request, and never the text of another
//! dialog.

use super::{
    event::{Event, MessageLost, RequestSettled},
    launch::Launch,
    state::{AgentMessage, AgentMessageKind, DeliveryStatus, Session},
    watch::{ScreenHint, ScreenSource},
};
use crate::request::{AgentRequest, Request, RequestKind, RequestStatus};

impl Session {
    /// Whether a terminal that already showed a request now shows a different one.
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

    /// Opens a request for a dialog shown on a terminal, unless the agent itself reported one or it is
    /// already known. The screen is drawn after the escape code that signals a request, and adds its
    /// details.
    pub(super) fn infer_request(
        &self,
        launch: &Launch,
        by: ScreenSource,
        asked: AgentRequest,
    ) -> Vec<Event> {
        let asked = asked.mark_inferred(by);
        let told = |request: &Request| request.launch == launch.id && !request.is_inferred();
        if self.open_requests().any(told) {
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

    /// Returns the last request inferred for a launch, unless it is settled.
    fn last_inferred(&self, launch: &Launch) -> Option<&Request> {
        let of_it = |request: &&Request| request.launch == launch.id && request.is_inferred();
        let last = self.requests.iter().rev().find(of_it)?;
        let answers =
            |m: &AgentMessage| m.request == Some(last.id) && m.status == DeliveryStatus::Queued;
        (last.is_open() || self.messages.iter().any(answers)).then_some(last)
    }

    /// Settles a request that another dialog has replaced on the screen. It was answered by the typed
    /// input or by a user there, and an answer still waiting is not for the new dialog.
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
    /// Whether this request only shows that input is needed, as a title does, while `than` shows for
    /// what.
    fn is_vaguer_than(&self, than: &AgentRequest) -> bool {
        self.asked.kind == RequestKind::Dialog && than.kind != RequestKind::Dialog
    }
}

impl AgentRequest {
    /// Marks the subject as inferred, and records from which source.
    fn mark_inferred(&self, by: ScreenSource) -> AgentRequest {
        let mut asked = self.clone();
        if let Some(subject) = asked.subject.as_deref_mut() {
            subject.inferred_from = Some(by);
        }
        asked
    }
}
