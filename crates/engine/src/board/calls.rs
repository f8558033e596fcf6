//! Tool calls of team members: decided together with the calling session, in one commit, and
//! answered there.

use std::collections::BTreeSet;

use provost_core::{
    ids::{LaunchId, SessionId, StandingId},
    session::{Command, Event, Rejected, ToolCall},
    task::{self, Actor, Call},
};
use serde_json::{Value, json};

use super::{Turn, tasks};
use crate::{acting, task_card, task_look};

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub ok: bool,
    pub text: String,
}

impl Turn<'_> {
    /// Handles a call that arrived outside the agent's stream, and returns its result.
    pub fn call(
        &mut self,
        launch: LaunchId,
        native: &str,
        call: &Call,
        actor: &str,
    ) -> Option<Result<Outcome, Rejected>> {
        let (native, call) = (native.to_owned(), Box::new(call.clone()));
        let command = Command::Called { launch, native, call };
        let called = match self.decide(launch.session, &command, actor)? {
            Ok(_) => self.answer_calls(launch.session),
            Err(why) => return Some(Err(why)),
        };
        self.follow_tasks_of(launch.session);
        called.into_iter().next_back().map(Ok)
    }

    /// Answers every open call of a session. Calls are open only in the turn that read them.
    pub(super) fn answer_calls(&mut self, id: SessionId) -> Vec<Outcome> {
        let mut answered = Vec::new();
        while let Some(open) = self.session(id).and_then(|session| session.calls.open().cloned()) {
            let Outcome { ok, text } = self.carry_out(id, &open);
            let answer = Command::AnswerCall { no: open.no, ok, text };
            match self.decide(id, &answer, "provost") {
                Some(Ok(events)) => answered.extend(events.into_iter().filter_map(outcome)),
                Some(Err(_)) | None => break,
            }
        }
        answered
    }

    fn carry_out(&mut self, id: SessionId, made: &ToolCall) -> Outcome {
        let tasks: Vec<StandingId> = self.tasks_of(id).into_iter().collect();
        let [task] = tasks.as_slice() else {
            return match tasks.len() {
                0 => refused(
                    "no_task",
                    "you belong to no open team: yours is finished, or you have left it",
                ),
                _ => refused(
                    "several_tasks",
                    "you belong to several teams, and a call cannot name one of them",
                ),
            };
        };
        let Some(name) = self.member_of(*task, id).map(|member| member.name.clone()) else {
            return refused("no_member", "you are no longer a member of the team");
        };
        let Some(call) = &made.open else { return refused("no_call", "the call has an answer") };
        let own = format!("call-{}-{}", id.short(), made.no);
        match call.command(&name, &own) {
            Err(why) => refused("malformed", &why.to_string()),
            Ok(None) => self.shown_to(*task, id),
            Ok(Some(command)) => {
                let who = Actor::Member(name);
                let actor = acting::recorded(&format!("{}{}", acting::TOOL, made.launch), &who);
                self.done_for(*task, &who, &command, &actor)
            }
        }
    }

    /// Returns the open teams that a session is bound to.
    pub(super) fn tasks_of(&self, session: SessionId) -> BTreeSet<StandingId> {
        let drafted = self.tasks.values().map(|draft| draft.task.id);
        let all = self.board.tasks_of(session).into_iter().chain(drafted);
        let open = |id: &StandingId| {
            let task = self.task(*id).filter(|task| !task.phase.is_over());
            task.is_some_and(|task| tasks::sessions(task).any(|bound| bound == session))
        };
        all.filter(open).collect()
    }

    fn shown_to(&self, id: StandingId, session: SessionId) -> Outcome {
        let seen = self.task(id).zip(self.member_of(id, session)).map(|(task, me)| {
            let mut seen =
                task_look::look(task, me, &self.board.caller, |session| self.session(session));
            seen["ok"] = json!(true);
            seen.to_string()
        });
        seen.map_or_else(
            || refused("no_task", "the team cannot be read"),
            |text| Outcome { ok: true, text },
        )
    }

    fn done_for(
        &mut self,
        id: StandingId,
        who: &Actor,
        command: &task::Command,
        actor: &str,
    ) -> Outcome {
        match self.command_task(id, who, command, actor) {
            None => refused("no_task", "the team cannot be read"),
            // A repeat returns the first result.
            Some(Err(task::Rejected::Nothing)) => {
                let known = self.task(id).and_then(|task| repeated(task, who, command));
                let mut answer = json!({"ok": true, "repeated": true});
                if let Some((name, row)) = known {
                    answer[name] = json!(row);
                }
                Outcome { ok: true, text: answer.to_string() }
            }
            Some(Err(why)) => refused(why.code(), &why.to_string()),
            Some(Ok((_, events))) => match self.task(id) {
                None => refused("no_task", "the team cannot be read"),
                Some(task) => came_of(task, &events, &self.board.caller, who),
            },
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is an answer")]
fn outcome(event: Event) -> Option<Outcome> {
    match event {
        Event::ToolAnswered(e) => Some(Outcome { ok: e.ok, text: e.text }),
        _ => None,
    }
}

fn refused(code: &str, why: &str) -> Outcome {
    let text = json!({"ok": false, "code": code, "error": why}).to_string();
    Outcome { ok: false, text }
}

/// Returns the message that an earlier command stored under the same key.
fn repeated(
    task: &task::Task,
    who: &task::Actor,
    command: &task::Command,
) -> Option<(&'static str, Value)> {
    let message = task.sent(who, command.message_key()?)?;
    Some(("message", json!(task_card::message(message))))
}

/// Returns the result of a command. A refusal stays a refusal when it is also recorded.
#[expect(clippy::wildcard_enum_match_arm, reason = "the changed row describes all other events")]
fn came_of(
    task: &task::Task,
    events: &[task::Event],
    caller: &task::Caller,
    who: &Actor,
) -> Outcome {
    let mut answer = json!({"ok": true, "task": task.phase.word()});
    for event in events {
        match event {
            task::Event::ContinuationRefused(e) => {
                return refused(e.why.code(), &e.why.to_string());
            }
            task::Event::FinishRefused(e) => {
                let blockers: Vec<_> = e
                    .blockers
                    .iter()
                    .map(|one| task_card::blocker(task, one, caller, who))
                    .collect();
                let error = "the team cannot finish yet: see blockers";
                let text =
                    json!({"ok": false, "code": "not_ready", "error": error, "blockers": blockers});
                return Outcome { ok: false, text: text.to_string() };
            }
            task::Event::FinishAsked(_) => {
                answer["note"] =
                    json!("the team is being audited; you get the result as a message");
            }
            task::Event::CheckWanted(e) => {
                answer["check"] = json!(e.check.no);
                answer["note"] = json!("the check is running; you get the result as a message");
            }
            other => {
                if let Some((name, row)) = task_card::changed(task, other) {
                    answer[name] = json!(row);
                }
            }
        }
    }
    Outcome { ok: true, text: answer.to_string() }
}
