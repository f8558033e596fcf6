//! Decides on the changes that callers request.

use provost_api::{ApiError, CallReply, ErrorCode, Hint, OpenSessionReply};
use provost_core::{
    ids::{LaunchId, SessionId},
    run::Run,
    session::{
        AgentInterface, AgentMessage, Reporter, Session, SessionCommand, SessionRejection,
        report_status_of,
    },
};

use super::{
    super::{
        handle::{ChangeResult, EngineReply, EngineRequest},
        refusals::{
            already_adopted, loss_error, refused_change, refused_for_external, run_name_taken,
            run_refused,
        },
        replies::{report_reply, run_changed, session_changed},
    },
    Owner,
};
use crate::{
    board::{BoardTransaction, CallResult},
    projection,
};

impl Owner {
    pub(super) fn apply_request(
        &self,
        turn: &mut BoardTransaction<'_>,
        ask: &EngineRequest,
        actor: &str,
    ) -> ChangeResult {
        if let Some(loss) = self.ledger.loss() {
            return Err(loss_error(&loss));
        }
        if let Some(why) = self.ledger.read_only() {
            return Err(
                ApiError::new(ErrorCode::ReadOnly, why.to_string()).next(Hint::ExportLedger)
            );
        }
        match ask {
            EngineRequest::Open { id, spec, warnings } => {
                self.check_adapters(spec.interfaces())?;
                let adopted = spec.adopted.as_deref();
                if let Some(other) = adopted.and_then(|adopted| turn.has_agent(adopted)) {
                    return Err(already_adopted(other));
                }
                let session = turn.open(*id, (**spec).clone(), actor);
                let row = projection::session::row(session);
                Ok(EngineReply::SessionOpened(Box::new(OpenSessionReply {
                    ok: true,
                    id: row.id.clone(),
                    session: row,
                    warnings: warnings.clone(),
                })))
            }
            EngineRequest::SessionCommand { session, command } => {
                let id = self.resolve::<Session>(session)?;
                match turn.command(id, command, actor) {
                    None => Err(self.not_loaded(id)),
                    Some(Err(SessionRejection::NothingNew)) => {
                        self.session_row_reply(turn, id, session)
                    }
                    Some(Err(why)) => Err(refused_for_external(&why, turn.session(id), id)),
                    Some(Ok((session, _))) => {
                        self.keep_secret(session, command);
                        Ok(session_changed(session))
                    }
                }
            }
            EngineRequest::Report { session, from, testimony } => {
                let id = match (session, from) {
                    (None, Reporter::Launch(launch) | Reporter::DropBox(launch)) => launch.session,
                    (Some(session), Reporter::Launch(launch) | Reporter::DropBox(launch)) => {
                        self.check_own_session(session, launch)?
                    }
                    (Some(session), Reporter::Operator) => self.resolve::<Session>(session)?,
                    (None, Reporter::Operator) => {
                        return Err(ApiError::new(ErrorCode::BadRequest, "no session was given")
                            .next(Hint::ReportCompletedFor));
                    }
                };
                let testimony = self.secrets.mask_testimony(id, testimony);
                let command = SessionCommand::Report { from: *from, testimony };
                match turn.command(id, &command, actor) {
                    None => Err(self.not_loaded(id)),
                    Some(Err(SessionRejection::NothingNew)) => turn
                        .session(id)
                        .map(|session| report_reply(session, "recorded"))
                        .ok_or_else(|| self.no_session(&id.to_string())),
                    Some(Err(why @ SessionRejection::ReportBudget { launch })) => {
                        // Record the refusal, so that the session shows that reports are missing.
                        drop(turn.command(id, &SessionCommand::ReportRefused { launch }, actor));
                        Err(refused_change(&why, turn.session(id), id))
                    }
                    Some(Err(why)) => Err(refused_change(&why, turn.session(id), id)),
                    Some(Ok((session, events))) => {
                        let status = report_status_of(&events).map_or("recorded", |s| s.as_str());
                        Ok(report_reply(session, status))
                    }
                }
            }
            EngineRequest::ToolCall { launch, native, call } => {
                let id = launch.session;
                match turn.call(*launch, native, call, actor) {
                    None => Err(self.not_loaded(id)),
                    Some(Err(SessionRejection::NothingNew)) => {
                        let message = "the calling process has ended, or the call was already made";
                        Err(ApiError::new(ErrorCode::Refused, message).next(Hint::StatusOfAll))
                    }
                    Some(Err(why @ SessionRejection::ReportBudget { launch })) => {
                        drop(turn.command(id, &SessionCommand::ReportRefused { launch }, actor));
                        Err(refused_change(&why, turn.session(id), id))
                    }
                    Some(Err(why)) => Err(refused_change(&why, turn.session(id), id)),
                    Some(Ok(CallResult { ok, text })) => {
                        let (id, answer) = (id.to_string(), text);
                        let reply = CallReply { ok: true, id, accepted: ok, answer };
                        Ok(EngineReply::Call(Box::new(reply)))
                    }
                }
            }
            EngineRequest::OpenRun { id, spec } => {
                self.check_adapters([&spec.agent.interface])?;
                // The names of issues are unique only within their tracker.
                if spec.origin.is_none()
                    && let Some(other) = turn.open_run_named(&spec.name, *id)
                {
                    return Err(run_name_taken(other));
                }
                let run = turn.open_run(*id, (**spec).clone(), actor);
                run.map(run_changed).ok_or_else(|| self.no_run(&id.to_string()))
            }
            EngineRequest::RunCommand { run, command } => {
                let id = self.resolve::<Run>(run)?;
                match turn.command_run(id, command, actor) {
                    None => Err(self.no_run(run)),
                    Some(Err(why)) => Err(run_refused(&why, &id.short())),
                    Some(Ok(run)) => Ok(run_changed(run)),
                }
            }
            EngineRequest::Team(ask) => self.change_team(turn, ask, actor),
        }
    }

    /// Checks that this build knows the adapters of all agents.
    pub(in crate::shell) fn check_adapters<'a>(
        &self,
        interfaces: impl IntoIterator<Item = &'a AgentInterface>,
    ) -> Result<(), ApiError> {
        for interface in interfaces {
            self.adapters
                .get(interface)
                .map_err(|why| ApiError::new(ErrorCode::BadRequest, why.to_string()))?;
        }
        Ok(())
    }

    /// Checks that a launch which specifies a session specifies its own.
    fn check_own_session(&self, named: &str, launch: &LaunchId) -> Result<SessionId, ApiError> {
        if self.resolve::<Session>(named)? == launch.session {
            return Ok(launch.session);
        }
        let message =
            format!("an agent can only report about itself; this agent belongs to launch {launch}");
        Err(ApiError::new(ErrorCode::Forbidden, message).next(Hint::ReportCompleted))
    }

    /// Keeps a secret answer in memory until it is delivered, because the ledger does not contain it.
    fn keep_secret(&self, session: &Session, command: &SessionCommand) {
        let SessionCommand::Answer { request, reply, .. } = command else { return };
        let answers = |message: &&AgentMessage| message.request == Some(*request);
        let asked = session.requests.iter().find(|asked| asked.id == *request);
        if let Some(message) = session.input.messages.iter().rev().find(answers)
            && let Some(asked) = asked.map(|request| &request.asked)
            && asked.is_secret()
        {
            let masks = self.adapters.secret_masks(&session.spec.agent.interface, asked, reply);
            self.secrets.keep(session.id, &message.key, reply, masks);
        }
    }

    fn session_row_reply(
        &self,
        turn: &BoardTransaction<'_>,
        id: SessionId,
        named: &str,
    ) -> ChangeResult {
        turn.session(id).map(session_changed).ok_or_else(|| self.no_session(named))
    }
}
