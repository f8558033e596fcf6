//! Automatic steps that follow from a team and the current state of its sessions. Level-triggered.

use std::{cell::LazyCell, collections::BTreeMap};

use super::{
    command_line::Caller,
    envelope,
    event::*,
    member::{Member, Role},
    message::{Lease, Message, Overdue, Way},
    state::Task,
};
use crate::{
    ids::SessionId,
    lifecycle::{Activity, ClaimKind, State},
    session::{self, Launch, MessageFate, SendMode, Session},
    time::Moment,
};

/// The read context of `advance`, besides the team itself.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    pub now: Moment,
    /// Returns the current state of a session. One that cannot be read is not treated as ended.
    pub look: &'a dyn Fn(SessionId) -> Option<&'a Session>,
    /// How Provost is invoked in commands shown to members. They must work in an empty environment.
    pub caller: &'a Caller,
}

/// One automatic step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Events(Vec<Event>),
    /// An offer together with the command it sends to a session. If the session rejects the
    /// command, the message is dead-lettered.
    Send(Box<(MessageOffered, SessionId, session::Command)>),
}

impl<'a> Around<'a> {
    /// Returns the tokens used by the team's workers.
    pub(super) fn used(&self, task: &Task) -> u64 {
        let sessions = task.bound(Role::Worker).filter_map(|worker| worker.session);
        sessions.filter_map(|id| (self.look)(id)).map(|session| session.usage.total()).sum()
    }
}

impl Task {
    /// Returns the next automatic step, or none. The caller folds it and calls again.
    pub fn advance(&self, around: &Around<'_>) -> Option<Step> {
        if self.phase.is_over() {
            return None;
        }
        self.step(around, |_| true)
    }

    /// Returns the next step if only this session changed since the team was idle. Further steps
    /// are left to [`Task::advance`]. A team may have thousands of members, and most changes of one
    /// do not affect the others.
    pub fn advance_for(&self, session: SessionId, around: &Around<'_>) -> Option<Step> {
        if self.phase.is_over() {
            return None;
        }
        self.step(around, |id| id == session)
    }

    fn step(&self, around: &Around<'_>, of: impl Fn(SessionId) -> bool + Copy) -> Option<Step> {
        self.let_time_work(around.now)
            .or_else(|| self.hand_over(around.caller))
            .or_else(|| self.see_pushed(around, of))
            .or_else(|| self.tell_news(around, of))
            .or_else(|| self.tell_undelivered())
            .or_else(|| self.stop_unjudged(around))
            .or_else(|| self.manage(around))
            .or_else(|| self.push(around, of))
    }

    /// Returns the next time at which time alone changes something.
    pub fn deadline(&self) -> Option<u64> {
        let messages = if self.phase.is_over() { None } else { self.messages.deadline() };
        messages.into_iter().chain(self.policy_deadline()).min()
    }

    /// Expires all due messages and leases in one step. Thousands of leases may end at the same
    /// moment.
    fn let_time_work(&self, now: Moment) -> Option<Step> {
        let overdue = self.messages.due(now.mono_ms).filter_map(|message| {
            let no = message.no;
            Some(match message.overdue(now)? {
                Overdue::Expired => MessageExpired { no }.into(),
                Overdue::Returned => {
                    let holder = message.standing.lease().map_or("nobody", |lease| &lease.consumer);
                    let reason = format!("{holder} did not acknowledge it in time");
                    MessageReturned { no, reason }.into()
                }
                Overdue::Dead => {
                    let reason =
                        format!("it was offered {} times but never handled", message.offers);
                    MessageDead { no, reason, by: None }.into()
                }
            })
        });
        let events: Vec<Event> = overdue.collect();
        (!events.is_empty()).then_some(Step::Events(events))
    }

    /// Checks what became of the messages pushed to sessions.
    fn see_pushed(&self, around: &Around<'_>, of: impl Fn(SessionId) -> bool) -> Option<Step> {
        self.messages.leased().find_map(|message| {
            let lease = message.standing.lease()?;
            let Way::Push { session, key, turns } = &lease.way else { return None };
            let session = Some(*session).filter(|id| of(*id)).and_then(around.look)?;
            let fate = Reached::of(session, key, *turns);
            self.pushed(message, lease, fate, around).map(Step::Events)
        })
    }

    fn pushed(
        &self,
        message: &Message,
        lease: &Lease,
        fate: Reached<'_>,
        around: &Around<'_>,
    ) -> Option<Vec<Event>> {
        let no = message.no;
        match fate {
            Reached::Waits if bug!(PushComesBack) && message.offers == 1 => {
                Some(vec![MessageReturned { no, reason: "it waits".to_owned() }.into()])
            }
            Reached::Waits => None,
            // The agent began with it, and a confirmed push is consumed. If its loop ended in the
            // meantime, it begins no iteration, even if another loop is running.
            Reached::Begun => {
                if let Some(why) = self.bars(message, around) {
                    return Some(self.refuse_delivery(message, why));
                }
                let mut events = self.accepted(message, lease.clone(), 0);
                let by = lease.consumer.clone();
                events.push(MessageAcknowledged { no, by, note: None }.into());
                Some(events)
            }
            // The agent did not act on it, so that it can be offered again.
            Reached::Nobody(reason) if !message.is_worn() => {
                Some(vec![MessageReturned { no, reason: reason.to_owned() }.into()])
            }
            Reached::Nobody(reason) => {
                Some(vec![MessageDead { no, reason: reason.to_owned(), by: None }.into()])
            }
            Reached::Unknown => {
                let reason = "its session does not know the message".to_owned();
                Some(vec![MessageDead { no, reason, by: None }.into()])
            }
        }
    }

    /// Pushes the next message to an idle session, one at a time.
    fn push(&self, around: &Around<'_>, of: impl Fn(SessionId) -> bool) -> Option<Step> {
        if self.is_paused() {
            return None;
        }
        let waiting = LazyCell::new(|| self.waiting(around.now));
        let mut bound = self.members.iter().filter(|member| member.is_bound());
        bound.find_map(|member| {
            let session = member.session.filter(|id| of(*id)).and_then(around.look)?;
            let takes = takes(session);
            if !takes && !can_be_steered(session) {
                return None;
            }
            let next = waiting.get(member.name.as_str()).filter(|next| !next.held)?;
            let message = if takes { next.first? } else { next.steered? };
            if let Some(why) = self.bars(message, around) {
                return Some(Step::Events(self.refuse_delivery(message, why)));
            }
            match self.clean_up(member, message, session, around.now) {
                Some(cleaned) => Some(Step::Events(vec![cleaned])),
                None if session.is_compacting() => None,
                None => Some(self.send(member, message, session, around.caller)),
            }
        })
    }

    /// Groups the waiting messages by member in one pass: there may be as many members as messages.
    fn waiting(&self, now: Moment) -> BTreeMap<&str, Waiting<'_>> {
        let mut waiting: BTreeMap<&str, Waiting<'_>> = BTreeMap::new();
        for message in &self.messages {
            if let Some(lease) = message.standing.lease() {
                waiting.entry(&lease.consumer).or_default().held = true;
            } else if message.waits(now) {
                waiting.entry(message.to.name()).or_default().add(message);
            }
        }
        waiting
    }

    fn send(&self, member: &Member, message: &Message, session: &Session, caller: &Caller) -> Step {
        let sent = format!("task-{}-{}-{}", self.id.short(), message.no, message.offers + 1);
        let begins_thread = self.begins_thread(message, session);
        // A session that has ended takes it as its next instruction, which has its own key.
        let key = if session.attempt().is_sealed() || begins_thread {
            format!("instruction-{}", session.attempt().no + 1)
        } else {
            sent.clone()
        };
        let way = Way::Push { session: session.id, key, turns: session.turns };
        let lease =
            Lease { no: message.offers + 1, consumer: member.name.clone(), way, until_ms: None };
        let text = envelope::wrapped(self, message, caller);
        let (text, mode) = if begins_thread {
            (envelope::handed_over(self, member, &text, caller), SendMode::NewThread)
        } else {
            (text, SendMode::Continue)
        };
        let command = session::Command::Send { key: sent, text, mode };
        let offered = MessageOffered { no: message.no, lease };
        Step::Send(Box::new((offered, session.id, command)))
    }
}

/// How far a message pushed to a session has come.
enum Reached<'s> {
    /// It is still pending in the session.
    Waits,
    Begun,
    /// No agent began with it or ever will, for this reason.
    Nobody(&'s str),
    /// The session does not know the message.
    Unknown,
}

impl<'s> Reached<'s> {
    /// Inspects a message that was pushed when the session had begun `turns` turns. Input written
    /// to an agent is lost with its process, so a message counts as begun only when the next turn
    /// starts or the agent reports on its work. If the process dies before that, the message
    /// carries over to the next process.
    fn of(session: &'s Session, key: &str, turns: u32) -> Reached<'s> {
        let Some(sent) = session.messages.iter().find(|sent| sent.key == key) else {
            return Reached::Unknown;
        };
        let launch = match &sent.fate {
            MessageFate::Queued => return Reached::Waits,
            MessageFate::Undeliverable { reason } => return Reached::Nobody(reason),
            MessageFate::Delivered { launch } => *launch,
        };
        let attempt = session.attempts.iter().find(|attempt| attempt.no == sent.attempt);
        let says = attempt.is_some_and(|attempt| attempt.claim.is_some());
        // Without turn events from this agent there is no better evidence.
        let begun = session.turns > turns || session.turns == 0 || says || bug!(WrittenIsBegun);
        let current = session.current_launch();
        // In a process that began no turn, a turn is only expected.
        let steered =
            |one: &Launch| one.is_in_turn() && !one.stream.expected && one.watch.turned.is_some();
        let over = |one: &Launch| one.id == launch && one.has_ended();
        match current {
            _ if begun => Reached::Begun,
            Some(one) if one.may_live() && steered(one) => Reached::Begun,
            Some(one) if over(one) && session.attempt().is_sealed() => {
                Reached::Nobody("its process ended before starting on it")
            }
            Some(_) | None => Reached::Waits,
        }
    }
}

/// The messages waiting for a member.
#[derive(Default)]
struct Waiting<'t> {
    first: Option<&'t Message>,
    /// The first message that may be delivered in the middle of a turn.
    steered: Option<&'t Message>,
    /// Whether the member already holds a message.
    held: bool,
}

impl<'t> Waiting<'t> {
    fn add(&mut self, message: &'t Message) {
        let first = |known: Option<&'t Message>| match known {
            Some(known) if known.comes_before(message) => known,
            Some(_) | None => message,
        };
        self.first = Some(first(self.first));
        if message.steer {
            self.steered = Some(first(self.steered));
        }
    }
}

/// Whether a session can take a message now: it is idle and has no open request. A session that
/// claimed an end takes the next message once that end is sealed, because the claim is not about
/// the message. A session that the operator stopped is left to the operator: a delivery would
/// restart it at once.
pub(super) fn takes(session: &Session) -> bool {
    if session.spec.adopted.is_some() || session.open_requests().next().is_some() {
        return false;
    }
    let sealed = session.attempt().is_sealed();
    let claimed = matches!(session.claim(), ClaimKind::Completed | ClaimKind::Failed);
    let at_rest = session.current_launch().is_some_and(|launch| {
        let hears = launch.may_live() && !session.ends_unheard();
        hears && launch.activity() == Activity::Idle && !claimed
    });
    let resumable = session.spec.agent.driver.has_protocol()
        && session.state() != State::Cancelled
        && !session.was_stopped();
    (sealed && resumable) || (!sealed && at_rest)
}

/// Whether a message can be delivered in the middle of the session's turn.
fn can_be_steered(session: &Session) -> bool {
    let driver = session.spec.agent.driver;
    let able = driver.has_protocol() && !driver.has_terminal();
    let free = !session.attempt().is_sealed() && session.open_requests().next().is_none();
    let launch = session.current_launch().filter(|launch| launch.may_live());
    able && free && launch.is_some_and(|launch| launch.stop.is_none() && launch.is_in_turn())
}
