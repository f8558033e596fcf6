//! Actions of users.

use provost_core::{
    ids::{RequestId, SessionId},
    request::{Reply, RequestKind},
    session::{Command, Reporter, SendMode, Testimony, WorkState},
};

use super::Sim;
use crate::script::{self, Deed};

impl Sim {
    pub(super) fn do_deed(&mut self) {
        let Some((_, no, deed)) = self.deeds.pop_front() else { return };
        self.do_session_deed(script::session_id(self.seed, no), deed);
    }

    pub(super) fn do_session_deed(&mut self, id: SessionId, deed: Deed) {
        let Some(session) = self.engine.shadow(id) else { return };
        let because = "so it is".to_owned();
        let command = match deed {
            Deed::OfRun(deed) => return self.do_run_deed(deed),
            Deed::OfTask(deed) => return self.do_task_deed(deed),
            Deed::Cancel => Command::Cancel { because },
            Deed::Stop => Command::Stop,
            Deed::Resolve(to) => Command::Resolve { to, because },
            Deed::Send(mode) => Command::Send { key: self.send_key(), text: because, mode },
            Deed::AnswerOpen => match session.open_requests().next() {
                Some(request) => Command::Answer {
                    request: request.id,
                    revision: request.revision,
                    reply: match request.asked.kind {
                        RequestKind::Approval => Reply::Deny,
                        RequestKind::Question | RequestKind::Dialog => Reply::Text(because),
                    },
                },
                // There is no explicit request: the message is the answer.
                None => {
                    let (key, mode) = (self.send_key(), SendMode::Continue);
                    Command::Send { key, text: because, mode }
                }
            },
            Deed::AnswerForged => {
                let request = RequestId { session: id, no: 77 };
                Command::Answer {
                    request,
                    revision: 1,
                    reply: provost_core::request::Reply::Text(because),
                }
            }
            Deed::RaiseBudget => {
                let tokens = session.budget.tokens.map(|tokens| tokens + 20);
                Command::RaiseBudget { tokens, turns: Some(100) }
            }
            Deed::RaiseLimit => Command::RaiseLimit { bytes: session.output_limit + 1 },
            Deed::Report(kind) => Command::Report {
                from: Reporter::Operator,
                testimony: Testimony::Claim { kind, text: None },
            },
            Deed::Visit => match session.current_launch() {
                Some(launch) => {
                    let (launch, people) = (launch.id, u32::from(launch.people == 0));
                    Command::PeopleAttached { launch, people }
                }
                None => return,
            },
            Deed::CollectGarbage => match session.is_closed() {
                true if session.work != WorkState::Removed => Command::WorkRemoved,
                true if !session.store_removed => Command::StoreRemoved,
                true | false => return,
            },
        };
        self.ask(id, command);
    }

    fn send_key(&self) -> String {
        format!("send-{}", self.asks + 1)
    }
}
