//! Requests inferred from a terminal. Each dialog becomes a separate request that contains the text
//! of the dialog.

use crate::{
    ids::LaunchId,
    limits::MAX_OPEN_REQUESTS,
    request::{AgentRequest, Request, RequestKind, RequestStatus},
    session::{
        command::SessionRejection,
        decide::CommandResult,
        event::{Event, MessageLost, RequestSettled, SignalInferred, StreamRetrying},
        input::signals::{INFERRED_PREFIX, ScreenHint, ScreenSource, SignalKind},
        launch::Launch,
        state::{AgentMessage, AgentMessageKind, DeliveryStatus, Session},
    },
};

impl Session {
    /// Whether the terminal now shows a different request than before.
    pub(in crate::session) fn shows_other_request(
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
    pub(in crate::session) fn infer_request(
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
        (last.is_open() || self.input.messages.iter().any(answers)).then_some(last)
    }

    /// Settles a request whose dialog was replaced by another one on the screen. Either the typed
    /// input or a user at the screen answered it. An answer that has not been typed yet must not be
    /// used for the new dialog.
    fn settle_replaced(&self, launch: &Launch, request: &Request) -> Vec<Event> {
        let waits = |m: &&AgentMessage| {
            let queued = m.status == DeliveryStatus::Queued && m.typed.is_none();
            m.kind == AgentMessageKind::Answer && m.request == Some(request.id) && queued
        };
        let lost = self.input.messages.iter().filter(waits).map(|message| {
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

impl Session {
    /// Records a signal inferred from a terminal, if it differs from the previous one.
    pub(in crate::session) fn decide_hint(
        &self,
        id: LaunchId,
        by: ScreenSource,
        place: u64,
        what: &ScreenHint,
    ) -> CommandResult {
        let launch = self.launch(id).ok_or(SessionRejection::UnknownLaunch(id))?;
        let same = launch.watch.last_hint(by) == Some(what.signal_kind())
            && !launch.watch.is_overtaken(by)
            && !self.shows_other_request(launch, by, what);
        if launch.watch.has_shown(by, place) || same || launch.has_ended() {
            return Err(SessionRejection::NothingNew);
        }
        let seen = SignalInferred { launch: id, by, place, said: what.signal_kind() }.into();
        // The source that showed the request also shows that it was settled. Other sources may lag behind.
        let showed_it = launch.watch.last_hint(by) == Some(SignalKind::Asks);
        // A screen is drawn and read after its escape codes arrive, so it lags behind until it
        // shows the request that they announced.
        let behind = by == ScreenSource::Screen && !showed_it;
        let guessed =
            |r: &Request| r.is_inferred() && !(behind && r.is_inferred_from(ScreenSource::Osc));
        // If a terminal is active again, an approval was granted there. Even then, nothing may be
        // typed, because no text is typed into an open turn.
        let approved =
            |r: &Request| showed_it && (guessed(r) || r.asked.kind == RequestKind::Approval);
        let answered = || showed_it.then(|| self.settle_answers(launch)).into_iter().flatten();
        let then: Vec<Event> = match what.clone() {
            ScreenHint::ShowsRequest(asked) => {
                let native = format!("{INFERRED_PREFIX}{}-{place}", by.as_str());
                self.infer_request(launch, by, AgentRequest { native, ..asked })
            }
            ScreenHint::Working => {
                answered().chain(self.settle_requests(launch, approved)).collect()
            }
            ScreenHint::AtPrompt | ScreenHint::UnsentText | ScreenHint::Finished => {
                answered().chain(self.settle_requests(launch, guessed)).collect()
            }
            ScreenHint::Retrying { detail } => {
                let retrying = StreamRetrying { launch: id, detail, cursor: launch.cursor };
                let tries = launch.is_in_turn() && !launch.stream.retrying;
                tries.then(|| retrying.into()).into_iter().collect()
            }
        };
        Ok(std::iter::once(seen).chain(then).collect())
    }

    /// Opens a request, unless it is already open under this or another id.
    pub(in crate::session) fn open_new_request(
        &self,
        launch: &Launch,
        asked: AgentRequest,
    ) -> Option<Event> {
        let guessed = asked.native.starts_with(INFERRED_PREFIX);
        // A request stays visible until its answer has been typed, so it is not a new request.
        let same = |request: &Request| request.is_open() && request.asked.native == asked.native;
        let known = self.unsettled_requests(launch.id).any(|request| guessed || same(request));
        let room = self.open_requests().count() < MAX_OPEN_REQUESTS;
        (!known && room && launch.may_be_running())
            .then(|| self.request_opened(launch.id, asked, launch.cursor).into())
    }

    /// Settles all requests of an agent that continues: it received the typed answer, and a user at
    /// its terminal settled the others.
    pub(in crate::session) fn settle_all<'a>(
        &'a self,
        launch: &'a Launch,
    ) -> impl Iterator<Item = Event> + 'a {
        self.settle_answers(launch).chain(self.settle_requests(launch, |_| true))
    }

    fn settle_requests<'a>(
        &'a self,
        launch: &'a Launch,
        which: impl Fn(&Request) -> bool + 'a,
    ) -> impl Iterator<Item = Event> + 'a {
        let of_it = move |request: &&Request| request.launch == launch.id && which(request);
        self.open_requests().filter(of_it).map(|request| {
            let fate = RequestStatus::AnsweredElsewhere;
            RequestSettled { request: request.id, status: fate, cursor: None }.into()
        })
    }
}
