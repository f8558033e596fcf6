//! Tool calls from team members. A call is decided and answered in the same commit as the decisions
//! about the calling session.

use std::collections::BTreeSet;

use provost_api::{ChangedRows, OverviewAnswer, TeamMessageRow, ToolAnswer};
use provost_core::{
    ids::{LaunchId, SessionId, TeamId},
    session::{Event, SessionCommand, SessionRejection, ToolCall, ToolEvent},
    team::{self, MemberCall, TeamActor},
};
use serde::Serialize;

use super::BoardTransaction;
use crate::{audit_actor, projection, stored_aggregate::StoredAggregate};

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallResult {
    pub ok: bool,
    pub text: String,
}

impl BoardTransaction<'_> {
    /// Handles a call that did not arrive on the agent's stream, and returns its result.
    pub fn call(
        &mut self,
        launch: LaunchId,
        native: &str,
        call: &MemberCall,
        actor: &str,
    ) -> Option<Result<CallResult, SessionRejection>> {
        let (native, call) = (native.to_owned(), Box::new(call.clone()));
        let command = SessionCommand::ToolCalled { launch, native, call };
        let called = match self.decide(launch.session, &command, actor)? {
            Ok(_) => self.answer_calls(launch.session),
            Err(why) => return Some(Err(why)),
        };
        self.advance_teams_of(launch.session);
        called.into_iter().next_back().map(Ok)
    }

    /// Answers every open call of a session. A call is open only during the transaction that read it.
    pub(super) fn answer_calls(&mut self, id: SessionId) -> Vec<CallResult> {
        let mut answered = Vec::new();
        while let Some(open) = self.session(id).and_then(|session| session.calls.open().cloned()) {
            let CallResult { ok, text } = self.execute_call(id, &open);
            let answer = SessionCommand::AnswerCall { no: open.no, ok, text };
            match self.decide(id, &answer, "provost") {
                Some(Ok(events)) => answered.extend(events.into_iter().filter_map(outcome)),
                Some(Err(_)) | None => break,
            }
        }
        answered
    }

    fn execute_call(&mut self, id: SessionId, made: &ToolCall) -> CallResult {
        let tasks: Vec<TeamId> = self.teams_of(id).into_iter().collect();
        let [task] = tasks.as_slice() else {
            return match tasks.len() {
                0 => refused_call(
                    "no_team",
                    "you belong to no open team: yours is finished, or you have left it",
                ),
                _ => refused_call(
                    "several_teams",
                    "you belong to several teams, and a call cannot specify a team",
                ),
            };
        };
        let Some(name) = self.member_of(*task, id).map(|member| member.name.clone()) else {
            return refused_call("no_member", "you are no longer a member of the team");
        };
        let Some(call) = &made.open else {
            return refused_call("no_call", "the call has already been answered");
        };
        let own = format!("call-{}-{}", id.short(), made.no);
        match call.to_command(&name, &own) {
            Err(why) => refused_call("malformed", &why.to_string()),
            Ok(None) => self.show_overview(*task, id),
            Ok(Some(command)) => {
                let who = TeamActor::Member(name);
                let actor = audit_actor::encode_actor(
                    &format!("{}{}", audit_actor::TOOL_PREFIX, made.launch),
                    &who,
                );
                self.run_command(*task, &who, &command, &actor)
            }
        }
    }

    /// Returns the open teams that a session is bound to.
    pub(super) fn teams_of(&self, session: SessionId) -> BTreeSet<TeamId> {
        let drafted = self.teams.drafts().map(|draft| draft.state.id);
        let all = self.board.teams.bound_to(session).into_iter().chain(drafted);
        let open = |id: &TeamId| {
            let team = self.team(*id).filter(|team| !team.phase.is_over());
            team.is_some_and(|team| team.bound_sessions().contains(&session))
        };
        all.filter(open).collect()
    }

    fn show_overview(&self, id: TeamId, session: SessionId) -> CallResult {
        let seen = self.team(id).zip(self.member_of(id, session)).map(|(task, me)| {
            projection::overview::overview(task, me, &self.board.caller, |session| {
                self.session(session)
            })
        });
        seen.map_or_else(
            || refused_call("no_team", "the team cannot be read"),
            |overview| CallResult {
                ok: true,
                text: to_text(&OverviewAnswer { ok: true, overview }),
            },
        )
    }

    fn run_command(
        &mut self,
        id: TeamId,
        who: &TeamActor,
        command: &team::TeamCommand,
        actor: &str,
    ) -> CallResult {
        match self.command_team(id, who, command, actor) {
            None => refused_call("no_team", "the team cannot be read"),
            // A repeated call returns the first result.
            Some(Err(team::TeamRejection::NothingNew)) => {
                let known = self.team(id).and_then(|task| repeated_message(task, who, command));
                let changed = ChangedRows { message: known, ..ChangedRows::default() };
                accepted_call(&ToolAnswer { repeated: true, changed, ..ToolAnswer::default() })
            }
            Some(Err(why)) => refused_call(why.code(), &why.to_string()),
            Some(Ok((_, events))) => match self.team(id) {
                None => refused_call("no_team", "the team cannot be read"),
                Some(task) => call_result(task, &events, &self.board.caller, who),
            },
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is an answer")]
fn outcome(event: Event) -> Option<CallResult> {
    match event {
        Event::Tool(ToolEvent::ToolAnswered(e)) => Some(CallResult { ok: e.ok, text: e.text }),
        _ => None,
    }
}

fn refused_call(code: &str, why: &str) -> CallResult {
    let (code, error) = (Some(code.to_owned()), Some(why.to_owned()));
    let answer = ToolAnswer { code, error, ..ToolAnswer::default() };
    CallResult { ok: false, text: to_text(&answer) }
}

fn accepted_call(answer: &ToolAnswer) -> CallResult {
    CallResult { ok: true, text: to_text(&ToolAnswer { ok: true, ..answer.clone() }) }
}

/// Serializes an answer. The ledger records its text with the call.
fn to_text(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).expect("an answer has string keys only")
}

/// Returns the message that an earlier command stored under the same key.
fn repeated_message(
    task: &team::Team,
    who: &team::TeamActor,
    command: &team::TeamCommand,
) -> Option<TeamMessageRow> {
    let message = task.message_by_key(who, command.message_key()?)?;
    Some(projection::team::message_row(message))
}

/// Returns the result of a command. A refusal remains a refusal even if it is also recorded as an event.
#[expect(clippy::wildcard_enum_match_arm, reason = "the changed row describes all other events")]
fn call_result(
    task: &team::Team,
    events: &[team::Event],
    caller: &team::ProvostInvocation,
    who: &TeamActor,
) -> CallResult {
    let state = task.phase.as_str().to_owned();
    let mut answer = ToolAnswer { team: Some(state), ..ToolAnswer::default() };
    for event in events {
        match event {
            team::Event::Loop(team::LoopEvent::ContinuationRefused(e)) => {
                return refused_call(e.why.code(), &e.why.to_string());
            }
            team::Event::Finish(team::FinishEvent::FinishRefused(e)) => {
                let blockers = e.blockers.iter();
                let blockers =
                    blockers.map(|one| projection::team::blocker_row(task, one, caller, who));
                let answer = ToolAnswer {
                    code: Some("not_ready".to_owned()),
                    error: Some("the team cannot finish yet: see blockers".to_owned()),
                    blockers: Some(blockers.collect()),
                    ..ToolAnswer::default()
                };
                return CallResult { ok: false, text: to_text(&answer) };
            }
            team::Event::Finish(team::FinishEvent::FinishRequested(_)) => {
                answer.note = Some(
                    "the team is being audited; you will receive the result as a message"
                        .to_owned(),
                );
            }
            team::Event::Check(team::CheckEvent::CheckRequested(e)) => {
                answer.changed.check = Some(e.check.no);
                answer.note = Some(
                    "the check is running; you will receive the result as a message".to_owned(),
                );
            }
            other => projection::team::add_changed_row(task, other, &mut answer.changed),
        }
    }
    accepted_call(&answer)
}
