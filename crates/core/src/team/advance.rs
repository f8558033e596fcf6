//! The automatic steps of a team. They are level-triggered: each step depends only on the current state of the team and
//! its sessions.

use std::{
    cell::LazyCell,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    command_line::ProvostInvocation,
    envelope,
    event::*,
    member::{MemberRole, TeamActor, TeamMember},
    message::{DeadlineEffect, DeliveryMode, MessageLease, Recipient, TeamMessage},
    state::Team,
};
use crate::{
    ids::SessionId,
    lifecycle::{Activity, ClaimKind, State},
    limits::MAX_FAILED_STARTS,
    rules::rules,
    session::{self, DeliveryStatus, Launch, SendMode, Session},
    time::Moment,
};

/// The state that `advance` reads in addition to the team itself.
#[derive(Clone, Copy)]
pub struct TeamAdvanceContext<'a> {
    pub now: Moment,
    /// Returns the current state of a session. A session that cannot be read does not count as ended.
    pub session: &'a dyn Fn(SessionId) -> Option<&'a Session>,
    /// The way to invoke Provost in commands that are shown to members. These commands must work in
    /// an empty environment.
    pub caller: &'a ProvostInvocation,
}

/// One automatic step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TeamStep {
    Events(Vec<Event>),
    /// An offer, together with the command that delivers it to a session. If the session rejects
    /// the command, the message is dead-lettered.
    Send(Box<(MessageOffered, SessionId, session::SessionCommand)>),
}

/// The steps to look for: all steps of the team, or only those of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepScope {
    Team,
    Session(SessionId),
}

impl StepScope {
    /// Returns the session if it is in scope.
    pub(super) fn filter(self, session: Option<SessionId>) -> Option<SessionId> {
        match self {
            StepScope::Team => session,
            StepScope::Session(only) => session.filter(|id| *id == only),
        }
    }

    fn is_session(self) -> bool {
        matches!(self, StepScope::Session(_))
    }
}

impl<'a> TeamAdvanceContext<'a> {
    /// Returns the tokens used by the team's workers.
    pub(super) fn tokens_used(&self, task: &Team) -> u64 {
        let sessions = task.bound(MemberRole::Worker).filter_map(|worker| worker.session);
        sessions
            .filter_map(|id| (self.session)(id))
            .map(|session| session.spending.usage.total())
            .sum()
    }
}

impl Team {
    /// Returns the next automatic step, if any. The caller applies the step and then calls this method again.
    pub fn advance(&self, context: &TeamAdvanceContext<'_>) -> Option<TeamStep> {
        if self.phase.is_over() {
            return None;
        }
        self.next_step(context, StepScope::Team)
    }

    /// Returns the next step, given that only this session or its messages have changed since the team was last idle.
    /// Reads no other session, unless a rule of the team requires another session. Any further steps are left to
    /// [`Team::advance`]. A team may have thousands of members, and most changes to one of them do not affect the
    /// others.
    pub fn advance_for(
        &self,
        session: SessionId,
        context: &TeamAdvanceContext<'_>,
    ) -> Option<TeamStep> {
        if self.phase.is_over() {
            return None;
        }
        self.next_step(context, StepScope::Session(session))
    }

    /// Returns the sessions whose next steps may depend on these events, which have already been
    /// applied. [`Team::advance`] finds any steps that this function overlooks.
    #[expect(clippy::wildcard_enum_match_arm, reason = "most events concern no session")]
    pub fn sessions_concerned_by(&self, events: &[Event]) -> Vec<SessionId> {
        let mut names: BTreeSet<&str> = BTreeSet::new();
        let mut messages: BTreeSet<u32> = BTreeSet::new();
        for event in events {
            match event {
                Event::Team(TeamChange::PhaseChanged(_)) => {
                    names.extend(self.members.iter().map(|member| member.name.as_str()));
                }
                Event::Member(
                    MemberEvent::MemberBound(MemberBound { name, .. })
                    | MemberEvent::MemberOrdered(MemberOrdered { name, .. }),
                )
                | Event::Loop(LoopEvent::ConversationCleanedUp(ConversationCleanedUp {
                    name,
                    ..
                }))
                | Event::Member(MemberEvent::MemberRotated(MemberRotated { to: name, .. }))
                | Event::Message(MessageEvent::MessageStored(MessageStored {
                    to: Recipient::Member(name),
                    ..
                })) => {
                    names.insert(name);
                }
                Event::Member(MemberEvent::MemberLeft(MemberLeft { to: Some(name), .. })) => {
                    names.insert(name);
                }
                Event::Message(
                    MessageEvent::MessageOffered(MessageOffered { no, lease })
                    | MessageEvent::MessageAccepted(MessageAccepted { no, lease, .. }),
                ) => {
                    names.insert(&lease.consumer);
                    messages.insert(*no);
                }
                Event::Message(MessageEvent::MessageAcknowledged(MessageAcknowledged {
                    no,
                    by,
                    ..
                })) => {
                    names.insert(by);
                    messages.insert(*no);
                }
                Event::Message(
                    MessageEvent::MessageReturned(MessageReturned { no, .. })
                    | MessageEvent::MessageExpired(MessageExpired { no })
                    | MessageEvent::MessageCancelled(MessageCancelled { no, .. })
                    | MessageEvent::MessageDead(MessageDead { no, .. })
                    | MessageEvent::MessageRequeued(MessageRequeued { no, .. })
                    | MessageEvent::NewsAdded(NewsAdded { no, .. }),
                ) => {
                    messages.insert(*no);
                }
                _ => {}
            }
        }
        if !messages.is_empty() {
            let concerned = self.messages.iter().filter(|message| messages.contains(&message.no));
            names.extend(concerned.map(|message| message.to.name()));
        }
        let bound = self.members.iter().filter(|member| member.is_bound());
        let concerned = bound.filter(|member| names.contains(member.name.as_str()));
        concerned.filter_map(|member| member.session).collect()
    }

    fn next_step(&self, context: &TeamAdvanceContext<'_>, scope: StepScope) -> Option<TeamStep> {
        self.expire_messages(context.now)
            .or_else(|| self.onboard_members(context.caller))
            .or_else(|| self.check_pushed(context, scope))
            .or_else(|| self.report_news(context, scope))
            .or_else(|| self.report_undelivered())
            .or_else(|| self.stop_unjudged(context))
            .or_else(|| self.run_policy(context, scope))
            .or_else(|| self.push_next(context, scope))
    }

    /// Returns the earliest time at which a message or the managing policy needs a step, even if nothing else happens
    /// until then.
    pub fn deadline(&self) -> Option<u64> {
        let messages = if self.phase.is_over() { None } else { self.messages.deadline() };
        messages.into_iter().chain(self.policy_deadline()).min()
    }

    /// Expires all due messages and leases in one step, because thousands of leases may expire at
    /// the same time.
    fn expire_messages(&self, now: Moment) -> Option<TeamStep> {
        let overdue = self.messages.due(now.mono_ms).filter_map(|message| {
            let no = message.no;
            Some(match message.deadline_effect(now)? {
                DeadlineEffect::Expired => MessageExpired { no }.into(),
                DeadlineEffect::Returned => {
                    let holder = message.status.lease().map_or("nobody", |lease| &lease.consumer);
                    let reason = format!("{holder} did not acknowledge it in time");
                    MessageReturned { no, reason }.into()
                }
                DeadlineEffect::Dead => {
                    let reason =
                        format!("it was offered {} times but never handled", message.offers);
                    MessageDead { no, reason, by: None }.into()
                }
            })
        });
        let events: Vec<Event> = overdue.collect();
        (!events.is_empty()).then_some(TeamStep::Events(events))
    }

    /// Checks whether messages that were pushed to sessions have been delivered.
    fn check_pushed(&self, context: &TeamAdvanceContext<'_>, scope: StepScope) -> Option<TeamStep> {
        self.messages.leased().find_map(|message| {
            let lease = message.status.lease()?;
            let DeliveryMode::Push { session, key, turns } = &lease.delivery else { return None };
            let session = scope.filter(Some(*session)).and_then(context.session)?;
            let fate = PushStatus::inspect(session, key, *turns);
            self.settle_push(message, lease, fate, context).map(TeamStep::Events)
        })
    }

    fn settle_push(
        &self,
        message: &TeamMessage,
        lease: &MessageLease,
        fate: PushStatus<'_>,
        context: &TeamAdvanceContext<'_>,
    ) -> Option<Vec<Event>> {
        let no = message.no;
        match fate {
            PushStatus::Pending => rules().settle_pending_push(message),
            // The agent started a turn with the message, so the push is confirmed and the message is consumed. If the
            // message's loop has ended in the meantime, the message starts no iteration, even if another loop is
            // running.
            PushStatus::Begun => {
                if let Some(why) = self.delivery_block(message, context) {
                    return Some(self.refuse_delivery(message, why));
                }
                let mut events = self.accept_events(message, lease.clone(), 0);
                let by = lease.consumer.clone();
                events.push(MessageAcknowledged { no, by, note: None }.into());
                Some(events)
            }
            // The agent did not act on the message, so it can be offered again.
            PushStatus::Lost(reason) if !message.is_out_of_offers() => {
                Some(vec![MessageReturned { no, reason: reason.to_owned() }.into()])
            }
            PushStatus::Lost(reason) => {
                Some(vec![MessageDead { no, reason: reason.to_owned(), by: None }.into()])
            }
            PushStatus::Unknown => {
                let reason = "its session does not know the message".to_owned();
                Some(vec![MessageDead { no, reason, by: None }.into()])
            }
        }
    }

    /// Pushes the next message to an idle session, one at a time.
    fn push_next(&self, context: &TeamAdvanceContext<'_>, scope: StepScope) -> Option<TeamStep> {
        if self.is_paused() {
            return None;
        }
        let in_scope =
            |member: &&TeamMember| member.is_bound() && scope.filter(member.session).is_some();
        let waiting = LazyCell::new(|| {
            let names: Option<Vec<&str>> = scope.is_session().then(|| {
                self.members.iter().filter(in_scope).map(|member| member.name.as_str()).collect()
            });
            let wanted = |name: &str| names.as_ref().is_none_or(|names| names.contains(&name));
            self.waiting_by_member(context.now, wanted)
        });
        self.members.iter().filter(in_scope).find_map(|member| {
            let session = member.session.and_then(context.session)?;
            let takes = accepts_message(session);
            if !takes && !can_be_steered(session) {
                return None;
            }
            let next = waiting.get(member.name.as_str()).filter(|next| !next.has_lease)?;
            let message = if !takes {
                next.steered?
            } else if takes_own_messages(session) {
                next.first?
            } else {
                next.requested?
            };
            if let Some(why) = self.delivery_block(message, context) {
                return Some(TeamStep::Events(self.refuse_delivery(message, why)));
            }
            match self.clean_up(member, message, session, context.now) {
                Some(cleaned) => Some(TeamStep::Events(vec![cleaned])),
                None if session.is_compacting() => None,
                None => Some(self.push_message(member, message, session, context.caller)),
            }
        })
    }

    /// Groups the waiting messages by member in one pass, because there may be as many members as
    /// messages. Only members for which `wanted` returns true are considered.
    fn waiting_by_member(
        &self,
        now: Moment,
        wanted: impl Fn(&str) -> bool,
    ) -> BTreeMap<&str, WaitingMessages<'_>> {
        let mut waiting: BTreeMap<&str, WaitingMessages<'_>> = BTreeMap::new();
        for message in &self.messages {
            if let Some(lease) = message.status.lease() {
                if wanted(&lease.consumer) {
                    waiting.entry(&lease.consumer).or_default().has_lease = true;
                }
            } else if message.is_available(now) && wanted(message.to.name()) {
                waiting.entry(message.to.name()).or_default().add(message);
            }
        }
        waiting
    }

    fn push_message(
        &self,
        member: &TeamMember,
        message: &TeamMessage,
        session: &Session,
        caller: &ProvostInvocation,
    ) -> TeamStep {
        let sent = format!("team-{}-{}-{}", self.id.short(), message.no, message.offers + 1);
        let begins_thread = self.begins_thread(message, session);
        // A sealed attempt or a new conversation receives the message as a new instruction, which has its own key.
        let key = if session.attempt().is_sealed() || begins_thread {
            format!("instruction-{}", session.attempt().no + 1)
        } else {
            sent.clone()
        };
        let delivery =
            DeliveryMode::Push { session: session.id, key, turns: session.spending.turns };
        let lease = MessageLease {
            no: message.offers + 1,
            consumer: member.name.clone(),
            delivery,
            until_ms: None,
        };
        let text = envelope::format_message(self, message, caller);
        let (text, mode) = if begins_thread {
            (envelope::format_new_conversation(self, member, &text, caller), SendMode::NewThread)
        } else {
            (text, SendMode::Continue)
        };
        let command = session::SessionCommand::Send { key: sent, text, mode };
        let offered = MessageOffered { no: message.no, lease };
        TeamStep::Send(Box::new((offered, session.id, command)))
    }
}

/// The delivery status of a message that was pushed to a session.
enum PushStatus<'s> {
    /// The message is still pending in the session.
    Pending,
    Begun,
    /// The message is lost for the given reason: the agent neither started a turn with the message nor will start one.
    Lost(&'s str),
    /// The session does not know the message.
    Unknown,
}

impl<'s> PushStatus<'s> {
    /// Inspects a message that was pushed when the session had started `turns` turns. Input that was written to an
    /// agent is lost if the agent's process dies, so the agent has begun the message only once the next turn starts or
    /// the agent reports on its work. If the process dies before that, the message remains pending for the next
    /// process.
    fn inspect(session: &'s Session, key: &str, turns: u32) -> PushStatus<'s> {
        let Some(sent) = session.input.messages.iter().find(|sent| sent.key == key) else {
            return PushStatus::Unknown;
        };
        let launch = match &sent.status {
            DeliveryStatus::Queued => return PushStatus::Pending,
            DeliveryStatus::Undeliverable { reason } => return PushStatus::Lost(reason),
            DeliveryStatus::Delivered { launch } => *launch,
        };
        let attempt = session.attempts.iter().find(|attempt| attempt.no == sent.attempt);
        let says = attempt.is_some_and(|attempt| attempt.claim.is_some());
        // If the agent reports no turns, delivery is the best evidence that the agent has begun the message.
        let begun = rules().has_begun(turns, session.spending.turns, says);
        let current = session.current_launch();
        // Ignore a turn that is only expected, because the process has not started any turn yet.
        let steered = |one: &Launch| {
            one.is_in_turn() && !one.stream.expected && one.watch.turn_changed_at.is_some()
        };
        let over = |one: &Launch| one.id == launch && one.has_ended();
        match current {
            _ if begun => PushStatus::Begun,
            Some(one) if one.may_be_running() && steered(one) => PushStatus::Begun,
            Some(one) if over(one) && session.attempt().is_sealed() => {
                PushStatus::Lost("its process ended before it started on the message")
            }
            Some(_) | None => PushStatus::Pending,
        }
    }
}

/// The messages that are waiting for a member.
#[derive(Default)]
struct WaitingMessages<'t> {
    first: Option<&'t TeamMessage>,
    /// The first message that Provost did not write itself.
    requested: Option<&'t TeamMessage>,
    /// The first message that may be delivered in the middle of a turn.
    steered: Option<&'t TeamMessage>,
    /// Whether the member already holds a message.
    has_lease: bool,
}

impl<'t> WaitingMessages<'t> {
    fn add(&mut self, message: &'t TeamMessage) {
        let first = |known: Option<&'t TeamMessage>| match known {
            Some(known) if known.comes_before(message) => known,
            Some(_) | None => message,
        };
        self.first = Some(first(self.first));
        if message.from != TeamActor::Provost {
            self.requested = Some(first(self.requested));
        }
        if message.steer {
            self.steered = Some(first(self.steered));
        }
    }
}

/// Whether a session can receive a message now: it is idle and has no open request. A session that claimed an outcome
/// receives the next message only after that outcome is sealed, because the agent made the claim before it received the
/// message. A session that the operator stopped receives nothing, because a delivery would restart it.
pub(super) fn accepts_message(session: &Session) -> bool {
    if session.spec.adopted.is_some() || session.open_requests().next().is_some() {
        return false;
    }
    let sealed = session.attempt().is_sealed();
    let claimed = matches!(session.claim(), ClaimKind::Completed | ClaimKind::Failed);
    let at_rest = session.current_launch().is_some_and(|launch| {
        let hears = launch.may_be_running() && !session.is_stopped_first();
        hears && launch.activity() == Activity::Idle && !claimed
    });
    let resumable = session.spec.agent.interface.takes_instructions()
        && session.state() != State::Cancelled
        && !session.was_stopped();
    (sealed && resumable) || (!sealed && at_rest)
}

/// Whether a session that can receive messages also receives those from Provost itself, such as news. If an agent
/// failed to start several times in a row, these messages do not start it again, because each further failure would be
/// reported to its managers. Messages from Provost wait until another message starts the agent.
fn takes_own_messages(session: &Session) -> bool {
    !session.attempt().is_sealed() || session.failed_starts() < MAX_FAILED_STARTS
}

/// Whether a message can be delivered in the middle of the session's turn.
fn can_be_steered(session: &Session) -> bool {
    let interface = &session.spec.agent.interface;
    let able = interface.takes_instructions() && !interface.has_terminal();
    let free = !session.attempt().is_sealed() && session.open_requests().next().is_none();
    let launch = session.current_launch().filter(|launch| launch.may_be_running());
    able && free && launch.is_some_and(|launch| launch.stop.is_none() && launch.is_in_turn())
}
