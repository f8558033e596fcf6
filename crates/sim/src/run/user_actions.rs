//! Actions of users.

use provost_core::{
    ids::{RequestId, SessionId},
    request::{RequestKind, RequestReply},
    session::{ReportBody, Reporter, SendMode, SessionCommand, WorkState},
};

use super::Sim;
use crate::script::{self, UserAction};

impl Sim {
    pub(super) fn do_user_action(&mut self) {
        let Some((_, no, action)) = self.user_actions.pop_front() else { return };
        self.do_session_action(script::session_id(self.seed, no), action);
    }

    pub(super) fn do_session_action(&mut self, id: SessionId, action: UserAction) {
        let Some(session) = self.engine.shadow(id) else { return };
        let because = "so it is".to_owned();
        let command = match action {
            UserAction::OnRun(action) => return self.do_run_action(action),
            UserAction::OnTeam(action) => return self.do_team_action(action),
            UserAction::Cancel => SessionCommand::Cancel { because },
            UserAction::Stop => SessionCommand::Stop,
            UserAction::Resolve(to) => SessionCommand::Resolve { to, because },
            UserAction::Send(mode) => {
                SessionCommand::Send { key: self.send_key(), text: because, mode }
            }
            UserAction::AnswerOpen => match session.open_requests().next() {
                Some(request) => SessionCommand::Answer {
                    request: request.id,
                    revision: request.revision,
                    reply: match request.asked.kind {
                        RequestKind::Approval => RequestReply::Deny,
                        RequestKind::Question | RequestKind::Dialog => RequestReply::Text(because),
                    },
                },
                // Without an explicit request, the message is the answer.
                None => {
                    let (key, mode) = (self.send_key(), SendMode::Continue);
                    SessionCommand::Send { key, text: because, mode }
                }
            },
            UserAction::AnswerForged => {
                let request = RequestId { session: id, no: 77 };
                SessionCommand::Answer {
                    request,
                    revision: 1,
                    reply: provost_core::request::RequestReply::Text(because),
                }
            }
            UserAction::RaiseBudget => {
                let tokens = session.spending.budget.tokens.map(|tokens| tokens + 20);
                SessionCommand::RaiseBudget { tokens, turns: Some(100) }
            }
            UserAction::RaiseLimit => {
                SessionCommand::RaiseLimit { bytes: session.output_limit + 1 }
            }
            UserAction::Report(kind) => SessionCommand::Report {
                from: Reporter::Operator,
                testimony: ReportBody::Claim { kind, text: None },
            },
            UserAction::ToggleAttach => match session.current_launch() {
                Some(launch) => {
                    let (launch, people) = (launch.id, u32::from(launch.viewers == 0));
                    SessionCommand::ViewersChanged { launch, people }
                }
                None => return,
            },
            UserAction::CollectGarbage => match session.is_closed() {
                true if session.worktree.state != WorkState::Removed => SessionCommand::WorkRemoved,
                true if !session.conversation.deleted => SessionCommand::ConversationRemoved,
                true | false => return,
            },
        };
        self.ask(id, command);
    }

    fn send_key(&self) -> String {
        format!("send-{}", self.request_count + 1)
    }
}
