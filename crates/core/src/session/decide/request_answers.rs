//! Answers to agents' requests, and requests that agents withdraw.

use super::{
    super::{
        command::SessionRejection,
        event::*,
        launch::{Cursor, Launch, LaunchReason, StopReason},
        state::Session,
    },
    CommandResult, answer_message, if_new, one_event,
};
use crate::{
    ids::{LaunchId, RequestId},
    request::{Request, RequestKind, RequestReply, RequestStatus},
};

impl Session {
    pub(super) fn withdraw(&self, launch: LaunchId, native: &str, cursor: Cursor) -> CommandResult {
        let open = self
            .open_requests()
            .find(|request| request.launch == launch && request.asked.native == native);
        let Some(request) = open else { return Err(SessionRejection::NothingNew) };
        // An agent that is being stopped withdraws its requests. A question can still be answered,
        // unless the attempt is decided; the answer then resumes the work in another process.
        let asker = self.known_launch(launch)?;
        let outlives = request.asked.kind != RequestKind::Approval && !self.attempt().is_decided();
        let fate = match (asker.stop.is_some(), outlives) {
            // If users are at the agent's screen, they settled the request there.
            (false, _) if asker.is_attended() => RequestStatus::AnsweredElsewhere,
            (false, _) => RequestStatus::Withdrawn,
            (true, false) => RequestStatus::Void,
            (true, true) => return Err(SessionRejection::NothingNew),
        };
        one_event(RequestSettled { request: request.id, status: fate, cursor: Some(cursor) })
    }

    /// Compares the outcome of an approval with its answer. They can differ if a user at the
    /// agent's own screen answered first.
    pub(super) fn compare_outcome(
        &self,
        launch: LaunchId,
        native: &str,
        done: bool,
        cursor: Cursor,
    ) -> CommandResult {
        let about = |request: &&Request| request.launch == launch && request.asked.native == native;
        let request = self.requests.iter().find(about).ok_or(SessionRejection::NothingNew)?;
        let allowed = request.allowed.ok_or(SessionRejection::NothingNew)?;
        let new = allowed != done && request.contradicted_by_outcome.is_none();
        if_new(new, RequestContradicted { request: request.id, done, cursor })
    }

    /// Explains why an answer is no longer needed.
    fn void_reason(&self, request: &Request) -> String {
        if let Some(dismissed) = &self.dismissed {
            return dismissed.because.clone();
        }
        let asker = self.launch(request.launch);
        let stopped = |launch: &Launch| launch.stop.is_some_and(|s| s.why == StopReason::Operator);
        let reason = match (&self.attempt().cancelled, asker) {
            (Some(_), _) => "the session was cancelled",
            (None, Some(asker)) if stopped(asker) => "the session was stopped",
            (None, Some(asker)) if asker.adopted && asker.has_ended() => {
                "the process that asked has ended"
            }
            // The launch that made the request has been replaced by a newer one.
            (None, Some(asker)) if self.launches.last() != Some(asker) => {
                "the process that asked has ended"
            }
            (None, _) => "the session ended",
        };
        reason.to_owned()
    }

    pub(super) fn answer(
        &self,
        id: RequestId,
        revision: u32,
        reply: &RequestReply,
    ) -> CommandResult {
        let request = self
            .requests
            .iter()
            .find(|r| r.id == id)
            .ok_or(SessionRejection::UnknownRequest(id))?;
        let settled = |why: &str| SessionRejection::RequestSettled(id, why.to_owned());
        match request.status {
            RequestStatus::Open => {}
            RequestStatus::Answered => {
                let lost = self.answer_loss_reason(request);
                let answered = || settled("it was answered");
                return Err(lost.map_or_else(answered, |why| {
                    SessionRejection::AnswerLost(id, why.to_owned())
                }));
            }
            RequestStatus::Withdrawn => {
                return Err(settled("the agent withdrew it"));
            }
            RequestStatus::AnsweredElsewhere => {
                return Err(settled("it was answered on the agent's screen"));
            }
            RequestStatus::Void => {
                return Err(SessionRejection::RequestSettled(id, self.void_reason(request)));
            }
        }
        if self.attempt().is_decided() {
            let why = self.dismissed.as_ref().map_or("the session was ended", |one| &one.because);
            return Err(settled(why));
        }
        if request.revision != revision {
            return Err(SessionRejection::RequestRevision {
                id,
                now: request.revision,
                given: revision,
            });
        }
        if self.spec.adopted.as_ref().is_some_and(|adopted| adopted.pane.is_none()) {
            return Err(SessionRejection::NoChannel);
        }
        if self.is_screen_only(request) {
            return Err(match (&self.spec.adopted, self.has_ended()) {
                (Some(_), _) => SessionRejection::ExternalAgent,
                (None, true) => SessionRejection::NotRunning,
                (None, false) => SessionRejection::ScreenOnly(id),
            });
        }
        request
            .asked
            .check_reply(reply)
            .map_err(|misfit| SessionRejection::InvalidReply(id, misfit))?;
        // The message would reach neither the process that is being stopped nor a later one.
        if self.current_launch().is_some_and(Launch::is_stopping) {
            return Err(SessionRejection::BeingStopped(id));
        }
        let mut events = vec![
            RequestSettled { request: id, status: RequestStatus::Answered, cursor: None }.into(),
            answer_message(request, reply).into(),
        ];
        if self.has_ended() {
            // Provost cannot restart an external agent.
            if self.spec.adopted.is_some() {
                return Err(SessionRejection::NotRunning);
            }
            events.push(
                LaunchRequested { launch: self.next_launch(), why: LaunchReason::Answer }.into(),
            );
        }
        Ok(events)
    }
}
