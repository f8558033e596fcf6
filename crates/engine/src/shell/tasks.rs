//! Requests about teams, and the replies.

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
    sync::{Mutex, PoisonError},
};

use provost_api::{ApiError, Code, DraftRow, HandoffRow, StandingTaskRow};
use provost_core::{
    ids::{LaunchId, SessionId, StandingId},
    session::{Session, SessionOpened, Spec},
    task::{
        Actor, Awaited, Caller, Command, Event, Labels, Member, MessageOffered, Needs, Post,
        Rejected, Role, Task, TaskSpec, Template, Told, not_finished,
    },
    wait::WaitStatus,
};
use provost_ledger::{By as FoundBy, ReadLedger, Sought};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    answer::{ambiguous, unread},
    listing::{self, Extent, Listing},
    owner::Owner,
};
use crate::{
    acting, board::Turn, handoff_card, report::check_name, stream, task_card, task_help, task_look,
};

/// The caller of a request about a team, as the socket proved it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    Operator,
    /// A user who acts for a member, or the application that has the member.
    As(String),
    /// An agent. It is always the member that its session is bound to, whatever name it gives.
    Launch {
        launch: LaunchId,
        named: Option<String>,
    },
}

impl By {
    fn name(&self) -> &str {
        match self {
            By::Operator => "operator",
            By::As(name) => name,
            By::Launch { named, .. } => named.as_deref().unwrap_or("this agent"),
        }
    }
}

/// Names the caller's own team: the one that an agent is bound to, or the only open one.
pub const OWN_TASK: &str = "@";

/// A new team with its members, criteria, loop and first messages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pairing {
    pub spec: TaskSpec,
    pub members: Vec<NewMember>,
    /// Criteria of the caller. They are accepted, not only proposed.
    #[serde(default)]
    pub criteria: Vec<NewCriterion>,
    #[serde(default)]
    pub template: Option<Box<Template>>,
    #[serde(default)]
    pub posts: Vec<Post>,
}

/// A member of a new team.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewMember {
    pub name: String,
    pub role: Role,
    #[serde(default)]
    pub labels: Labels,
    /// A member without one pulls its messages.
    #[serde(default)]
    pub session: Option<NewSession>,
}

/// The session of a new member.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NewSession {
    /// An existing one, by id or name.
    Existing(String),
    New {
        id: SessionId,
        spec: Box<Spec>,
    },
}

/// A criterion of a new team.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewCriterion {
    pub text: String,
    #[serde(default)]
    pub rationale: Option<String>,
    pub needs: Needs,
}

/// A request about teams.
#[derive(Debug)]
pub enum TaskAsk {
    Open {
        id: StandingId,
        spec: Box<TaskSpec>,
    },
    /// Opens a team with all its members, or nothing.
    Pair {
        id: StandingId,
        pairing: Box<Pairing>,
    },
    Do {
        task: String,
        by: By,
        command: Box<Command>,
    },
    /// The next message of the caller.
    Next {
        task: String,
        by: By,
    },
    Row {
        task: String,
        by: By,
    },
    Messages {
        task: String,
        by: By,
    },
    /// Everything that a decision about the next step needs, as a member sees it.
    Cycle {
        task: String,
        by: By,
    },
    /// Whether an awaited event has happened, or can no longer happen.
    Wait {
        task: String,
        by: By,
        awaited: Awaited,
    },
    /// The hand-off of one member or all, with the heartbeats of the team.
    Handoff {
        task: String,
        by: By,
        member: Option<String>,
    },
    List {
        limit: usize,
    },
    /// The sessions that are bound to an open team, each with the team's name.
    Bound,
}

impl TaskAsk {
    pub(super) fn is_query(&self) -> bool {
        match self {
            TaskAsk::Open { .. }
            | TaskAsk::Pair { .. }
            | TaskAsk::Do { .. }
            | TaskAsk::Next { .. } => false,
            TaskAsk::Row { .. }
            | TaskAsk::Messages { .. }
            | TaskAsk::Cycle { .. }
            | TaskAsk::Wait { .. }
            | TaskAsk::Handoff { .. }
            | TaskAsk::List { .. }
            | TaskAsk::Bound => true,
        }
    }

    fn named(&self) -> Option<(&str, &By)> {
        match self {
            TaskAsk::Do { task, by, .. }
            | TaskAsk::Next { task, by }
            | TaskAsk::Row { task, by }
            | TaskAsk::Messages { task, by }
            | TaskAsk::Cycle { task, by }
            | TaskAsk::Wait { task, by, .. }
            | TaskAsk::Handoff { task, by, .. } => Some((task, by)),
            TaskAsk::Open { .. } | TaskAsk::Pair { .. } | TaskAsk::List { .. } | TaskAsk::Bound => {
                None
            }
        }
    }
}

/// How often each member polled in vain since its last message, and when it polled last, as far as
/// this daemon knows. It is recorded with the next accepted message, and causes no write before.
#[derive(Debug, Default)]
pub(super) struct Polls(Mutex<HashMap<(StandingId, String), Poll>>);

#[derive(Clone, Copy, Debug, Default)]
struct Poll {
    in_vain: u32,
    at: i64,
}

impl Polls {
    fn note(&self, task: StandingId, consumer: &str, at: i64, vain: bool) {
        let mut polls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let poll = polls.entry((task, consumer.to_owned())).or_default();
        poll.at = at;
        poll.in_vain = poll.in_vain.saturating_add(u32::from(vain));
    }

    fn of(&self, task: StandingId, consumer: &str) -> Option<Poll> {
        let polls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        polls.get(&(task, consumer.to_owned())).copied()
    }

    fn begin_anew(&self, task: StandingId, consumer: &str) {
        let mut polls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(poll) = polls.get_mut(&(task, consumer.to_owned())) {
            poll.in_vain = 0;
        }
    }
}

impl Owner {
    /// Resolves the team that a request is about.
    pub(super) fn subject_task(&self, ask: &TaskAsk) -> Option<StandingId> {
        ask.named().and_then(|(named, by)| self.resolve_task(named, by).ok())
    }

    /// Returns the existing sessions that a request binds to a team.
    pub(super) fn sessions_to_bind(&self, ask: &TaskAsk) -> Vec<SessionId> {
        if let TaskAsk::Do { command, .. } = ask {
            return command.bound_session().into_iter().collect();
        }
        let TaskAsk::Pair { pairing, .. } = ask else { return Vec::new() };
        let named = pairing.members.iter().filter_map(|member| match &member.session {
            Some(NewSession::Existing(session)) => self.resolve(session).ok(),
            Some(NewSession::New { .. }) | None => None,
        });
        named.collect()
    }

    /// Resolves a team by its id, a part of it, or its name.
    fn resolve_task(&self, text: &str, by: &By) -> Result<StandingId, ApiError> {
        if text == OWN_TASK {
            return self.own_task(by);
        }
        if let Ok(id) = text.parse::<StandingId>() {
            let held = self.board.task(id).is_some();
            let stored =
                || self.ledger.stream(&stream::task_stream_id(id)).map_err(|why| unread(&why));
            return if held || stored()?.is_some() { Ok(id) } else { Err(no_task(text)) };
        }
        let found = listing::find(stream::TASK, &self.ledger, text).map_err(|why| unread(&why))?;
        match found.as_slice() {
            [(id, _)] => id.parse().map_err(|_| no_task(text)),
            [] => Err(no_task(text)),
            several => Err(ambiguous(text, &[stream::TASK], several)),
        }
    }

    /// Returns the team that an agent is or was last bound to; for other callers the only open one.
    fn own_task(&self, by: &By) -> Result<StandingId, ApiError> {
        let (own, none): (Vec<StandingId>, &str) = match by {
            By::Launch { launch, .. } => {
                (self.board.tasks_of(launch.session), "this agent belongs to no team")
            }
            By::Operator | By::As(_) => {
                let open = self.board.tasks().filter(|task| !task.phase.is_over());
                (open.map(|task| task.id).take(2).collect(), "no team is open")
            }
        };
        let last = match (by, own.is_empty()) {
            // A member that asks once more after the end learns about the end.
            (By::Launch { launch, .. }, true) => self.last_task(launch.session)?,
            (By::Launch { .. } | By::Operator | By::As(_), _) => None,
        };
        match (own.as_slice(), last) {
            ([one], _) => Ok(*one),
            ([], Some(last)) => Ok(last),
            ([], None) => Err(ApiError::new(Code::NotFound, none).next("provost task ls")),
            ([..], _) => {
                let message = "there are several teams: name one of them";
                Err(ApiError::new(Code::BadRequest, message).next("provost task ls"))
            }
        }
    }

    /// Finds the newest team that a session was bound to, by the index: it is closed, and on no
    /// board.
    fn last_task(&self, session: SessionId) -> Result<Option<StandingId>, ApiError> {
        let Some(sought) = Sought::new(&session.0.simple().to_string()) else { return Ok(None) };
        let mut newest = None;
        let found =
            self.ledger.find_streams(stream::TASK, FoundBy::Parts(&sought), LIKE, &mut |card| {
                let row = card.card.as_deref().map(serde_json::from_str::<StandingTaskRow>);
                // Any text may match the index; only the members count.
                let own = row.and_then(Result::ok).filter(|row| {
                    let mut sessions = row.members.iter().filter_map(|one| one.session.as_deref());
                    sessions.any(|one| one == session.to_string())
                });
                let id = own.and_then(|row| row.id.parse().ok());
                newest = newest.max(id.map(|id| (card.created_seq, id)));
                ControlFlow::Continue(())
            });
        found.map_err(|why| unread(&why))?;
        Ok(newest.map(|(_, id)| id))
    }

    /// Answers a read-only request.
    pub(super) fn answer_task(&mut self, ask: &TaskAsk) -> Result<String, ApiError> {
        match ask {
            TaskAsk::Row { task, by } => self.with_sessions(task, by, |task, owner| {
                let look = |session| owner.board.session(session);
                let mut row = task_card::row_with(task, &owner.caller, &asking(task, by), look);
                for member in &mut row.members {
                    member.polled_at = owner.polls.of(task.id, &member.name).map(|poll| poll.at);
                }
                Ok(json!({"ok": true, "task": row}))
            }),
            TaskAsk::Messages { task, by } => self.with_task(task, by, |task, _| {
                let rows: Vec<_> =
                    task.messages.iter().map(|one| task_card::message(one)).collect();
                Ok(json!({"ok": true, "task": task.id.to_string(), "messages": rows}))
            }),
            TaskAsk::Cycle { task, by } => self.with_sessions(task, by, |task, owner| {
                let seen = seen_by(task, by)?;
                let look = |session| owner.board.session(session);
                Ok(json!({"ok": true, "cycle": task_look::look(task, &seen, &owner.caller, look)}))
            }),
            TaskAsk::Wait { task, by, awaited } => self.with_task(task, by, |task, _| {
                Ok(match task.wait_status(*awaited) {
                    WaitStatus::Pending => json!({"ok": true, "status": "pending"}),
                    WaitStatus::Done(result) => {
                        json!({"ok": true, "status": "done", "done": result})
                    }
                    WaitStatus::Impossible(reason) => {
                        json!({"ok": true, "status": "impossible", "reason": reason})
                    }
                })
            }),
            TaskAsk::Handoff { task, by, member } => self
                .with_task(task, by, |task, owner| handed(task, member.as_deref(), &owner.caller)),
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
            TaskAsk::Bound => {
                let open = self.board.tasks().filter(|task| !task.phase.is_over());
                let bound = open.flat_map(|task| {
                    let name = &task.spec.name;
                    wanted(task).into_iter().map(move |session| (session.to_string(), name))
                });
                Ok(json!(bound.collect::<BTreeMap<_, _>>()).to_string())
            }
            TaskAsk::Open { .. }
            | TaskAsk::Pair { .. }
            | TaskAsk::Do { .. }
            | TaskAsk::Next { .. } => {
                unreachable!("changes are decided, not answered")
            }
        }
    }

    /// Shows a team with its members' sessions, including evicted ones.
    fn with_sessions(
        &mut self,
        named: &str,
        by: &By,
        show: impl FnOnce(&Task, &Owner) -> Result<Value, ApiError>,
    ) -> Result<String, ApiError> {
        let id = self.resolve_task(named, by)?;
        let loaded = self.load_with_members(id);
        let shown = self.board.task(id).ok_or_else(|| self.not_here(id, named));
        let shown = shown.and_then(|task| show(task, self));
        self.put_away(&loaded);
        shown.map(|shown| shown.to_string())
    }

    /// Describes why a team is not on the board: it does not exist, or cannot be read.
    fn not_here(&self, id: StandingId, named: &str) -> ApiError {
        match self.unreadable.get(&stream::task_stream_id(id).to_string()) {
            None => no_task(named),
            Some(why) => ApiError::new(Code::Storage, why.clone()).next("provost ledger verify"),
        }
    }

    fn with_task(
        &mut self,
        named: &str,
        by: &By,
        show: impl FnOnce(&Task, &Owner) -> Result<Value, ApiError>,
    ) -> Result<String, ApiError> {
        let id = self.resolve_task(named, by)?;
        let loaded = self.board.task(id).is_none();
        if loaded {
            self.load(&stream::task_stream_id(id))
                .map_err(|why| ApiError::new(Code::Storage, why).next("provost ledger verify"))?;
        }
        let shown = self.board.task(id).map(|task| show(task, self));
        let shown = shown.unwrap_or_else(|| Err(no_task(named)));
        if loaded {
            self.board.let_task_go(id);
        }
        shown.map(|shown| shown.to_string())
    }

    /// Decides a change of a team.
    pub(super) fn change_task(
        &self,
        turn: &mut Turn<'_>,
        ask: &TaskAsk,
        actor: &str,
    ) -> Result<String, ApiError> {
        match ask {
            TaskAsk::Open { id, spec } => self.open_task(turn, *id, spec, actor),
            TaskAsk::Pair { id, pairing } => self.open_pair(turn, *id, pairing, actor),
            TaskAsk::Do { task, by, command } => {
                let id = self.resolve_task(task, by)?;
                let who = member_of(turn, id, by)?;
                let unknown = command.bound_session().filter(|id| turn.session(*id).is_none());
                if let Some(session) = unknown {
                    return Err(self.unloaded(session));
                }
                if let Command::Rename { name } = &**command {
                    check_name(name)?;
                    is_free(turn, name, Some(id))?;
                }
                self.do_task(turn, id, &who, command, &acting::recorded(actor, &who))
            }
            TaskAsk::Next { task, by } => {
                let id = self.resolve_task(task, by)?;
                let who = member_of(turn, id, by)?;
                self.next_of_task(turn, id, &who, &acting::recorded(actor, &who))
            }
            TaskAsk::Row { .. }
            | TaskAsk::Messages { .. }
            | TaskAsk::Cycle { .. }
            | TaskAsk::Wait { .. }
            | TaskAsk::Handoff { .. }
            | TaskAsk::List { .. }
            | TaskAsk::Bound => {
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
        is_free(turn, &spec.name, None)?;
        turn.open_task(id, spec.clone(), &[], actor).map_err(|why| {
            ApiError::new(code(&why), why.to_string()).next("provost task new --help")
        })?;
        self.opened(turn, id)
    }

    fn opened(&self, turn: &Turn<'_>, id: StandingId) -> Result<String, ApiError> {
        let row = self.row_in(turn, id, &Actor::Operator)?;
        Ok(json!({"ok": true, "id": row.id, "task": row}).to_string())
    }

    /// Builds the row of a team for the caller, as it would be after the decisions so far.
    pub(super) fn row_in(
        &self,
        turn: &Turn<'_>,
        id: StandingId,
        who: &Actor,
    ) -> Result<StandingTaskRow, ApiError> {
        let task = turn.task(id).ok_or_else(|| no_task(&id.to_string()))?;
        Ok(task_card::row_with(task, &self.caller, who, |session| turn.session(session)))
    }

    /// Opens a team, its sessions and their bindings in one commit, or nothing at all.
    fn open_pair(
        &self,
        turn: &mut Turn<'_>,
        id: StandingId,
        pairing: &Pairing,
        actor: &str,
    ) -> Result<String, ApiError> {
        is_free(turn, &pairing.spec.name, None)?;
        let mut commands = Vec::new();
        for member in &pairing.members {
            let session = match &member.session {
                Some(NewSession::Existing(named)) => Some(self.resolve(named)?),
                Some(NewSession::New { id, .. }) => Some(*id),
                None => None,
            };
            let (name, labels) = (member.name.clone(), member.labels.clone());
            commands.push(Command::Bind { name, role: member.role, session, labels });
        }
        for criterion in &pairing.criteria {
            let NewCriterion { text, rationale, needs } = criterion.clone();
            commands.push(Command::Demand { text, rationale, needs });
        }
        let template = pairing.template.iter().cloned();
        commands.extend(template.map(|template| Command::BeginLoop { template }));
        let posts = pairing.posts.iter().cloned();
        commands.extend(posts.map(|post| Command::Post(Box::new(post))));
        let new = self.about_to_be_opened(pairing);
        turn.open_task_with(id, pairing.spec.clone(), &commands, &new, actor).map_err(|why| {
            // There is no team to show.
            ApiError::new(code(&why), why.to_string()).next("provost pair --help")
        })?;
        for member in &pairing.members {
            if let Some(NewSession::New { id, spec }) = &member.session {
                turn.open(*id, (**spec).clone(), actor);
            }
        }
        turn.follow_task(id);
        self.opened(turn, id)
    }

    /// Returns the new sessions of a pair in their initial state.
    fn about_to_be_opened(&self, pairing: &Pairing) -> Vec<Session> {
        let new = pairing.members.iter().filter_map(|member| match &member.session {
            Some(NewSession::New { id, spec }) => Some((*id, spec.clone())),
            Some(NewSession::Existing(_)) | None => None,
        });
        new.map(|(id, spec)| Session::open(id, self.clock.now(), &SessionOpened { spec })).collect()
    }

    fn do_task(
        &self,
        turn: &mut Turn<'_>,
        id: StandingId,
        who: &Actor,
        command: &Command,
        actor: &str,
    ) -> Result<String, ApiError> {
        let counted = self.with_polls(id, who, command);
        let draft = drafted(turn.task(id), who, command);
        match turn.command_task(id, who, counted.as_ref().unwrap_or(command), actor) {
            None => Err(no_task(&id.to_string())),
            Some(Err(Rejected::Nothing)) => self.told_again(turn, id, who, command),
            Some(Err(why)) => Err(refused_to(&why, id, who, command)),
            Some(Ok((_, events))) => {
                if counted.is_some() {
                    self.polls.begin_anew(id, who.name());
                }
                let until = self.lease_until(turn.task(id), command);
                self.changed(turn, id, who, &events, draft, until)
            }
        }
    }

    /// Returns the wall time of a deadline.
    fn wall_of(&self, mono_ms: u64) -> i64 {
        task_card::wall_of(self.clock.now(), mono_ms)
    }

    /// Returns the deadline for acknowledging an accepted message.
    fn lease_until(&self, task: Option<&Task>, command: &Command) -> Option<i64> {
        let Command::Accept { no, .. } = command else { return None };
        let lease = task?.message(*no)?.standing.lease()?;
        lease.until_ms.map(|until| self.wall_of(until))
    }

    /// Answers a repeated change with the result of the first one.
    fn told_again(
        &self,
        turn: &Turn<'_>,
        id: StandingId,
        who: &Actor,
        command: &Command,
    ) -> Result<String, ApiError> {
        let task = turn.task(id).ok_or_else(|| no_task(&id.to_string()))?;
        let sent = command.message_key().and_then(|key| task.sent(who, key));
        let mut reply = match sent {
            Some(message) => {
                let row = task_card::message(message);
                json!({"ok": true, "task": task_card::head(task), "message": row})
            }
            None => json!({"ok": true, "task": self.row_in(turn, id, who)?}),
        };
        if let Command::Check { what } = command
            && let Some(pending) = task.pending_check(what)
        {
            reply["check"] = json!(pending.no);
        }
        if let Some(until) = self.lease_until(Some(task), command) {
            reply["lease_until"] = json!(until);
        }
        Ok(reply.to_string())
    }

    /// Answers with the changed rows. A refusal is an error even if it was recorded.
    fn changed(
        &self,
        turn: &Turn<'_>,
        id: StandingId,
        who: &Actor,
        events: &[Event],
        draft: Option<DraftRow>,
        lease_until: Option<i64>,
    ) -> Result<String, ApiError> {
        let task = turn.task(id).ok_or_else(|| no_task(&id.to_string()))?;
        events.iter().find_map(|event| came_to_nothing(task, who, event)).map_or(Ok(()), Err)?;
        let changed = events.iter().filter_map(|event| task_card::changed(task, event));
        let mut rows: BTreeMap<&str, String> =
            changed.map(|(name, row)| (name, task_card::written(&row))).collect();
        rows.extend(draft.map(|draft| ("draft", task_card::written(&draft))));
        rows.extend(lease_until.map(|until| ("lease_until", until.to_string())));
        // Serialized directly: an intermediate value would cost more than the change. And the
        // sender of a message does not need a row with thousands of members.
        let of_message = rows.contains_key("message");
        let row = if of_message && events.iter().all(task_card::is_of_message) {
            task_card::written(&task_card::head(task))
        } else {
            task_card::written(&self.row_in(turn, id, who)?)
        };
        let mut reply = format!("{{\"ok\":true,\"task\":{row}");
        for (name, row) in rows {
            reply.push_str(&format!(",\"{name}\":{row}"));
        }
        reply.push('}');
        Ok(reply)
    }

    /// Fills in the number of polls in vain, which is known here and not taken from the caller.
    fn with_polls(&self, id: StandingId, who: &Actor, command: &Command) -> Option<Command> {
        let Command::Accept { no, lease, .. } = command else { return None };
        let polls = self.polls.of(id, who.name()).map_or(0, |poll| poll.in_vain);
        Some(Command::Accept { no: *no, lease: *lease, polls })
    }

    /// Returns the caller's next message, or nothing if there is none, which is not a failure.
    fn next_of_task(
        &self,
        turn: &mut Turn<'_>,
        id: StandingId,
        who: &Actor,
        actor: &str,
    ) -> Result<String, ApiError> {
        let now = self.clock.now();
        let command = Command::Next { consumer: who.name().to_owned() };
        let item = match turn.command_task(id, who, &command, actor) {
            None => return Err(no_task(&id.to_string())),
            Some(Err(Rejected::Nothing)) => None,
            Some(Err(why)) => return Err(refused_to(&why, id, who, &command)),
            Some(Ok((task, events))) => {
                let wall_of = |mono_ms| self.wall_of(mono_ms);
                events.iter().find_map(|event| offered(task, event, &self.caller, wall_of))
            }
        };
        self.polls.note(id, who.name(), now.wall_ms, item.is_none());
        Ok(json!({"ok": true, "task": id.to_string(), "item": item}).to_string())
    }
}

/// Returns the member that the caller names or is, if there is one. The outer `None` means the
/// operator.
fn meant<'t>(task: &'t Task, by: &By) -> Option<Option<&'t Member>> {
    let mut bound = task.members.iter().filter(|one| one.is_bound());
    match by {
        By::Operator => None,
        By::As(name) => Some(bound.find(|one| one.name == *name)),
        By::Launch { launch, .. } => Some(bound.find(|one| one.session == Some(launch.session))),
    }
}

/// Returns the actor of a read-only request: the operator, if no member is meant.
fn asking(task: &Task, by: &By) -> Actor {
    let member = meant(task, by).flatten();
    member.map_or(Actor::Operator, |member| Actor::Member(member.name.clone()))
}

/// Returns the member that looks at the team. The operator sees what a manager sees.
fn seen_by(task: &Task, by: &By) -> Result<Member, ApiError> {
    match meant(task, by) {
        Some(Some(member)) => Ok(member.clone()),
        Some(None) => {
            let who = by.name().to_owned();
            Err(refused(&Rejected::NoMember { who }, task.id))
        }
        None => Ok(Member {
            name: Actor::Operator.name().to_owned(),
            role: Role::Manager,
            session: None,
            labels: Labels::default(),
            means: None,
            handed: false,
            handover: None,
            bound: task.opened,
            left: None,
            acknowledged: Some(task.config.revision),
            told: Told::default(),
            news: Vec::new(),
        }),
    }
}

/// Returns the hand-offs of members.
fn handed(task: &Task, member: Option<&str>, caller: &Caller) -> Result<Value, ApiError> {
    let bound = task.members.iter().filter(|one| one.is_bound());
    let named = bound.filter(|one| member.is_none_or(|member| one.name == member));
    let rows: Vec<HandoffRow> =
        named.filter_map(|one| handoff_card::handoff(task, &one.name, caller)).collect();
    if let (Some(member), true) = (member, rows.is_empty()) {
        return Err(refused(&Rejected::NoMember { who: member.to_owned() }, task.id));
    }
    let heartbeat = handoff_card::heartbeat(task, caller);
    Ok(json!({"ok": true, "task": task.id.to_string(), "handoffs": rows, "heartbeat": heartbeat}))
}

fn offered(
    task: &Task,
    event: &Event,
    caller: &Caller,
    wall_of: impl Fn(u64) -> i64,
) -> Option<Value> {
    let Event::MessageOffered(MessageOffered { no, lease }) = event else { return None };
    let message = task.message(*no)?;
    Some(json!(task_card::item(task, message, lease, caller, wall_of)))
}

/// Returns the caller as an actor of the team.
pub(super) fn member_of(turn: &Turn<'_>, id: StandingId, by: &By) -> Result<Actor, ApiError> {
    match by {
        By::Operator => Ok(Actor::Operator),
        By::As(name) if name == "operator" => Ok(Actor::Operator),
        By::As(name) => Ok(Actor::Member(name.clone())),
        By::Launch { launch, named } => {
            let member = turn.member_of(id, launch.session);
            let name = member.map(|member| member.name.clone()).ok_or_else(|| {
                let message = format!("launch {launch} belongs to no member of this team");
                ApiError::new(Code::Forbidden, message).next("provost task ls")
            })?;
            match named {
                Some(named) if *named != name => {
                    let message =
                        format!("you are {name} in this team, and may only act as {name}");
                    Err(ApiError::new(Code::Forbidden, message).next("provost task show"))
                }
                Some(_) | None => Ok(Actor::Member(name)),
            }
        }
    }
}

/// Checks that no other open team has this name.
fn is_free(turn: &Turn<'_>, name: &str, own: Option<StandingId>) -> Result<(), ApiError> {
    let mut others = turn.tasks().filter(|task| !task.phase.is_over() && Some(task.id) != own);
    if others.any(|task| task.spec.name == name) {
        let message = format!("there is already an open team \"{name}\"");
        return Err(ApiError::new(Code::Refused, message).next("provost task ls"));
    }
    Ok(())
}

/// Returns the refusal that an event records.
#[expect(clippy::wildcard_enum_match_arm, reason = "nothing else refuses")]
fn came_to_nothing(task: &Task, who: &Actor, event: &Event) -> Option<ApiError> {
    match event {
        Event::ContinuationRefused(refused) => {
            let message = format!("{}: {}", refused.why.code(), refused.why);
            let by = task_help::said_by(who);
            let next = format!("provost loop status --task {}{by}", task.id.short());
            Some(ApiError::new(Code::Refused, message).next(next))
        }
        Event::FinishRefused(refused) => {
            let error = ApiError::new(Code::Refused, not_finished(&refused.blockers));
            let helps = refused.blockers.iter();
            let helps = helps.filter_map(|one| task_help::about_blocker(task, who, one));
            let error = helps.take(HELPS).fold(error, ApiError::next);
            let by = task_help::said_by(who);
            Some(error.next(format!("provost task show {}{by}", task.id.short())))
        }
        _ => None,
    }
}

/// Returns the draft of a command, even if nothing is proposed.
fn drafted(task: Option<&Task>, who: &Actor, command: &Command) -> Option<DraftRow> {
    let Command::Draft { from, dry_run } = command else { return None };
    let task = task?;
    let draft = task.draft(who, from).ok()?;
    Some(task_card::draft(task, &draft, *dry_run))
}

/// The maximum number of candidate teams that are examined for a session.
const LIKE: usize = 100;

/// The maximum number of suggested commands.
const HELPS: usize = 3;

fn no_task(text: &str) -> ApiError {
    ApiError::new(Code::NotFound, format!("there is no team \"{text}\"")).next("provost task ls")
}

fn refused(why: &Rejected, id: StandingId) -> ApiError {
    ApiError::new(code(why), why.to_string()).next(format!("provost task show {}", id.short()))
}

/// Like [`refused`], with the command that helps the caller.
fn refused_to(why: &Rejected, id: StandingId, who: &Actor, command: &Command) -> ApiError {
    ApiError::new(code(why), why.to_string()).next(task_help::after_refusal(id, who, command, why))
}

fn code(why: &Rejected) -> Code {
    match why {
        Rejected::NoMember { .. }
        | Rejected::NoMessage(_)
        | Rejected::NoCriterion(_)
        | Rejected::NoSuchEvidence(_) => Code::NotFound,
        Rejected::NotForRole { .. }
        | Rejected::NotToRecord { .. }
        | Rejected::ReviewerChooses
        | Rejected::OperatorsLoop(_)
        | Rejected::NotGranted(_)
        | Rejected::NotYours(_) => Code::Forbidden,
        Rejected::TooLong(_)
        | Rejected::BadName(_)
        | Rejected::NameReserved(_)
        | Rejected::BadTemplate(_)
        | Rejected::BadFiles(_)
        | Rejected::NoPictures
        | Rejected::OtherPictures
        | Rejected::Unfit(_)
        | Rejected::SaysNothing(_)
        | Rejected::Insufficient(_) => Code::BadRequest,
        Rejected::Nothing
        | Rejected::Over(_)
        | Rejected::NotToPost(_)
        | Rejected::OperatorConsents
        | Rejected::NoSuchCommand(_)
        | Rejected::NeedsConsent(_)
        | Rejected::DeniedCommand { .. }
        | Rejected::NotAcknowledged(_)
        | Rejected::NoMove(_)
        | Rejected::NameTaken(_)
        | Rejected::SessionTaken
        | Rejected::Full(..)
        | Rejected::MessageIs { .. }
        | Rejected::StaleLease(_)
        | Rejected::NoLease { .. }
        | Rejected::KeyTaken(_)
        | Rejected::NoWorker(_)
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
        | Rejected::WorkerFirst
        | Rejected::Proposed(_)
        | Rejected::NotBoth
        | Rejected::OwnProposal
        | Rejected::OperatorAllows(_)
        | Rejected::MessagesOpen { .. }
        | Rejected::OwnSuccessor(_)
        | Rejected::BeingAudited
        | Rejected::NotPaused
        | Rejected::NoSession(_)
        | Rejected::NotTaken { .. } => Code::Refused,
    }
}

/// Returns the sessions that may get a command when a team changes.
pub(super) fn wanted(task: &Task) -> Vec<SessionId> {
    let bound = task.members.iter().filter(|member| member.is_bound());
    bound.filter_map(|member| member.session).collect()
}
