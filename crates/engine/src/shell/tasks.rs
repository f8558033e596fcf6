//! What may be asked of the engine about tasks that stand alone, and what it answers.

use std::ops::ControlFlow;

use provost_api::{ApiError, Code};
use provost_core::{
    ids::{LaunchId, SessionId, StandingId},
    task::{
        self, Actor, Command, CriterionJudged, Event, MessageOffered, Rejected, Task, TaskSpec,
    },
};
use provost_ledger::ReadLedger;
use serde_json::{Value, json};

use super::{
    answer::{ambiguous, unread},
    listing::{self, Extent, Listing},
    owner::Owner,
};
use crate::{board::Turn, stream, task_card};

/// Who asks something of a task, as the socket proved it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    Operator,
    /// A person who acts for a member, or the application that has the member.
    As(String),
    /// An agent, which is the member whose session it is and nobody else.
    Launch(LaunchId),
}

/// What may be asked about tasks.
#[derive(Debug)]
pub enum TaskAsk {
    Open {
        id: StandingId,
        spec: Box<TaskSpec>,
    },
    Do {
        task: String,
        by: By,
        command: Box<Command>,
    },
    /// The next message of whoever asks.
    Next {
        task: String,
        by: By,
    },
    Row {
        task: String,
    },
    Messages {
        task: String,
    },
    List {
        limit: usize,
    },
}

impl TaskAsk {
    pub(super) fn is_query(&self) -> bool {
        match self {
            TaskAsk::Open { .. } | TaskAsk::Do { .. } | TaskAsk::Next { .. } => false,
            TaskAsk::Row { .. } | TaskAsk::Messages { .. } | TaskAsk::List { .. } => true,
        }
    }

    fn named(&self) -> Option<&str> {
        match self {
            TaskAsk::Do { task, .. }
            | TaskAsk::Next { task, .. }
            | TaskAsk::Row { task }
            | TaskAsk::Messages { task } => Some(task),
            TaskAsk::Open { .. } | TaskAsk::List { .. } => None,
        }
    }
}

impl Owner {
    /// Finds the task that something is asked about.
    pub(super) fn subject_task(&self, ask: &TaskAsk) -> Option<StandingId> {
        ask.named().and_then(|named| self.resolve_task(named).ok())
    }

    /// Finds the task that a person means.
    fn resolve_task(&self, text: &str) -> Result<StandingId, ApiError> {
        if let Ok(id) = text.parse::<StandingId>() {
            let held = self.board.task(id).is_some();
            let stored =
                || self.ledger.stream(&stream::task_stream_id(id)).map_err(|why| unread(&why));
            return match held || stored()?.is_some() {
                true => Ok(id),
                false => Err(no_task(text)),
            };
        }
        let found = listing::find(stream::TASK, &self.ledger, text).map_err(|why| unread(&why))?;
        match found.as_slice() {
            [(id, _)] => id.parse().map_err(|_| no_task(text)),
            [] => Err(no_task(text)),
            several => Err(ambiguous(text, "tasks", several)),
        }
    }

    /// Answers what changes nothing.
    pub(super) fn answer_task(&mut self, ask: &TaskAsk) -> Result<String, ApiError> {
        match ask {
            TaskAsk::Row { task } => {
                self.with_task(task, |task| json!({"ok": true, "task": task_card::row(task)}))
            }
            TaskAsk::Messages { task } => self.with_task(task, |task| {
                let rows: Vec<_> = task.messages.iter().map(task_card::message).collect();
                json!({"ok": true, "messages": rows})
            }),
            TaskAsk::List { limit } => {
                let listing = Listing { extent: Extent::LiveAnd(*limit), ..Listing::default() };
                let mut cards = Vec::new();
                let shown = listing.visit_tasks(&self.ledger, |card| {
                    cards.push(card.to_owned());
                    ControlFlow::Continue(())
                });
                let more = shown.map_err(|why| unread(&why))?;
                Ok(format!("{{\"ok\":true,\"tasks\":[{}],\"more\":{more}}}", cards.join(",")))
            }
            TaskAsk::Open { .. } | TaskAsk::Do { .. } | TaskAsk::Next { .. } => {
                unreachable!("changes are decided, not answered")
            }
        }
    }

    fn with_task(
        &mut self,
        named: &str,
        show: impl FnOnce(&Task) -> Value,
    ) -> Result<String, ApiError> {
        let id = self.resolve_task(named)?;
        let loaded = self.board.task(id).is_none();
        if loaded {
            self.load(&stream::task_stream_id(id))
                .map_err(|why| ApiError::new(Code::Storage, why).next("provost ledger verify"))?;
        }
        let shown = self.board.task(id).map(show).ok_or_else(|| no_task(named));
        if loaded {
            self.board.let_task_go(id);
        }
        shown.map(|shown| shown.to_string())
    }

    /// Decides a change of a task.
    pub(super) fn change_task(
        &self,
        turn: &mut Turn<'_>,
        ask: &TaskAsk,
        actor: &str,
    ) -> Result<String, ApiError> {
        match ask {
            TaskAsk::Open { id, spec } => self.open_task(turn, *id, spec, actor),
            TaskAsk::Do { task, by, command } => {
                let id = self.resolve_task(task)?;
                let who = member_of(turn, id, by)?;
                self.do_task(turn, id, (&who, command), actor)
            }
            TaskAsk::Next { task, by } => {
                let id = self.resolve_task(task)?;
                let who = member_of(turn, id, by)?;
                let command = Command::Next { consumer: who.name().to_owned() };
                self.next_of_task(turn, id, (&who, &command), actor)
            }
            TaskAsk::Row { .. } | TaskAsk::Messages { .. } | TaskAsk::List { .. } => {
                unreachable!("queries are answered before decisions")
            }
        }
    }

    fn open_task(
        &self,
        turn: &mut Turn<'_>,
        id: StandingId,
        spec: &TaskSpec,
        actor: &str,
    ) -> Result<String, ApiError> {
        let mut open = self.board.tasks().filter(|task| !task.phase.is_over());
        if open.any(|task| task.spec.name == spec.name) {
            let message = format!("there is an open task \"{}\" already", spec.name);
            return Err(ApiError::new(Code::Refused, message).next("provost task ls"));
        }
        let task = turn.open_task(id, spec.clone(), actor).ok_or_else(|| no_task(&spec.name))?;
        let row = task_card::row(task);
        Ok(json!({"ok": true, "id": row.id, "task": row}).to_string())
    }

    fn do_task(
        &self,
        turn: &mut Turn<'_>,
        id: StandingId,
        asked: (&Actor, &Command),
        actor: &str,
    ) -> Result<String, ApiError> {
        match turn.command_task(id, asked, actor) {
            None => Err(no_task(&id.to_string())),
            Some(Err(Rejected::Nothing)) => turn
                .task(id)
                .map(|task| json!({"ok": true, "task": task_card::row(task)}).to_string())
                .ok_or_else(|| no_task(&id.to_string())),
            Some(Err(why)) => Err(refused(&why, id)),
            Some(Ok((task, events))) => changed(task, &events),
        }
    }

    /// Gives the next message, or nothing: whoever has none waits for one, and nobody has failed.
    fn next_of_task(
        &self,
        turn: &mut Turn<'_>,
        id: StandingId,
        asked: (&Actor, &Command),
        actor: &str,
    ) -> Result<String, ApiError> {
        let now = self.clock.now();
        let wall_of = |mono_ms: u64| {
            let ahead = i64::try_from(mono_ms.saturating_sub(now.mono_ms)).unwrap_or(i64::MAX);
            now.wall_ms.saturating_add(ahead)
        };
        match turn.command_task(id, asked, actor) {
            None => Err(no_task(&id.to_string())),
            Some(Err(Rejected::Nothing)) => Ok(json!({"ok": true, "item": null}).to_string()),
            Some(Err(why)) => Err(refused(&why, id)),
            Some(Ok((task, events))) => {
                let item = events.iter().find_map(|event| offered(task, event, wall_of));
                Ok(json!({"ok": true, "item": item}).to_string())
            }
        }
    }
}

fn offered(task: &Task, event: &Event, wall_of: impl Fn(u64) -> i64) -> Option<Value> {
    let Event::MessageOffered(MessageOffered { no, lease }) = event else { return None };
    let message = task.message(*no)?;
    Some(json!(task_card::item(task, message, lease, wall_of)))
}

/// Gives who asks, as the task knows it.
fn member_of(turn: &Turn<'_>, id: StandingId, by: &By) -> Result<Actor, ApiError> {
    match by {
        By::Operator => Ok(Actor::Operator),
        By::As(name) if name == "operator" => Ok(Actor::Operator),
        By::As(name) => Ok(Actor::Member(name.clone())),
        By::Launch(launch) => {
            let member = turn.member_of(id, launch.session);
            let name = member.map(|member| member.name.clone());
            name.map(Actor::Member).ok_or_else(|| {
                let message = format!("launch {launch} works for no member of this task");
                ApiError::new(Code::Forbidden, message).next("provost task ls")
            })
        }
    }
}

/// Answers with what was changed; what was refused and recorded is an error all the same.
fn changed(task: &Task, events: &[Event]) -> Result<String, ApiError> {
    for event in events {
        if let Event::ContinuationRefused(refused) = event {
            let message = format!("{}: {}", refused.why.code(), refused.why);
            let next = format!("provost loop status --task {}", task.id.short());
            return Err(ApiError::new(Code::Refused, message).next(next));
        }
        if let Event::FinishRefused(refused) = event {
            let told: Vec<String> = refused
                .blockers
                .iter()
                .map(|blocker| format!("{}: {blocker}", blocker.code()))
                .collect();
            let message = format!("the task is not finished: {}", told.join("; "));
            let next = format!("provost task show {}", task.id.short());
            return Err(ApiError::new(Code::Refused, message).next(next));
        }
    }
    let mut reply = json!({"ok": true, "task": task_card::row(task)});
    for event in events {
        if let Some((name, row)) = row_of(task, event) {
            reply[name] = row;
        }
    }
    Ok(reply.to_string())
}

/// Gives the row that an event changed.
#[expect(clippy::wildcard_enum_match_arm, reason = "the rest is in the task's own row")]
fn row_of(task: &Task, event: &Event) -> Option<(&'static str, Value)> {
    let message =
        |no: u32| task.message(no).map(|message| ("message", json!(task_card::message(message))));
    match event {
        Event::MessageStored(e) => message(e.no),
        Event::MessageAccepted(e) => message(e.no),
        Event::MessageAcknowledged(e) => message(e.no),
        Event::MessageReturned(e) => message(e.no),
        Event::MessageCancelled(e) => message(e.no),
        Event::MessageDead(e) => message(e.no),
        Event::MessageRequeued(e) => message(e.no),
        Event::CriterionProposed(task::CriterionProposed { no, .. })
        | Event::CriterionJudged(CriterionJudged { no, .. }) => {
            let row = task_card::row(task).criteria.into_iter().find(|row| row.no == *no)?;
            Some(("criterion", json!(row)))
        }
        _ => None,
    }
}

fn no_task(text: &str) -> ApiError {
    ApiError::new(Code::NotFound, format!("there is no task \"{text}\"")).next("provost task ls")
}

fn refused(why: &Rejected, id: StandingId) -> ApiError {
    let code = match why {
        Rejected::NoMember { .. }
        | Rejected::NoMessage(_)
        | Rejected::NoCriterion(_)
        | Rejected::NoSuchEvidence(_) => Code::NotFound,
        Rejected::NotForRole { .. } | Rejected::NotGranted(_) | Rejected::NotYours(_) => {
            Code::Forbidden
        }
        Rejected::TooLong(_)
        | Rejected::BadTemplate(_)
        | Rejected::Unfit(_)
        | Rejected::Insufficient(_) => Code::BadRequest,
        Rejected::Nothing
        | Rejected::Over(_)
        | Rejected::NotAcknowledged(_)
        | Rejected::NoMove(_)
        | Rejected::NameTaken(_)
        | Rejected::SessionTaken
        | Rejected::Full(..)
        | Rejected::MessageIs { .. }
        | Rejected::StaleLease(_)
        | Rejected::IllegalJudgement { .. }
        | Rejected::TooManyCriteria(_)
        | Rejected::NothingToCheck
        | Rejected::NoWork
        | Rejected::NoLoop
        | Rejected::LoopRuns(_)
        | Rejected::OtherIteration { .. }
        | Rejected::Blocked(_)
        | Rejected::Revision { .. }
        | Rejected::NotReady(_)
        | Rejected::BeingAudited
        | Rejected::NotPaused => Code::Refused,
    };
    ApiError::new(code, why.to_string()).next(format!("provost task show {}", id.short()))
}

/// Gives the sessions that have to be at hand when something happens to a task.
pub(super) fn wanted(task: &Task) -> Vec<SessionId> {
    let bound = task.members.iter().filter(|member| member.is_bound());
    bound.filter_map(|member| member.session).collect()
}
