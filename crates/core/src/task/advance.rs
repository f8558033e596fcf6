//! What follows by itself, from the task and from its members' sessions as they stand. Level-triggered.

use std::{cell::LazyCell, collections::BTreeMap};

use super::{
    command_line::Caller,
    envelope,
    event::*,
    member::{Member, Role},
    message::{Lease, Message, Overdue, Way},
    messages::Messages,
    state::Task,
};
use crate::{
    ids::SessionId,
    lifecycle::{Activity, ClaimKind, State},
    session::{self, Launch, MessageFate, SendMode, Session},
    time::Moment,
};

/// What a task looks at besides itself.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    pub now: Moment,
    /// Gives a session as it stands. One that cannot be looked at has not ended.
    pub look: &'a dyn Fn(SessionId) -> Option<&'a Session>,
    /// How Provost is named in commands that members are told: they have to work in an empty environment.
    pub caller: &'a Caller,
}

/// One thing that follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Events(Vec<Event>),
    /// The offer together with what it says to a session, or, if that takes nothing, the message is dead.
    Send(Box<(MessageOffered, SessionId, session::Command)>),
}

impl<'a> Around<'a> {
    /// Gives the tokens that the task's workers used.
    pub(super) fn used(&self, task: &Task) -> u64 {
        let sessions = task.bound(Role::Worker).filter_map(|worker| worker.session);
        sessions.filter_map(|id| (self.look)(id)).map(|session| session.usage.total()).sum()
    }
}

impl Task {
    /// Gives the next thing that is due without anyone asking, or none. The caller folds it and asks again.
    pub fn advance(&self, around: &Around<'_>) -> Option<Step> {
        if self.phase.is_over() {
            return None;
        }
        self.step(around, |_| true)
    }

    /// Gives what is due because something happened to this session, and to no other since the task was at rest. What
    /// follows from that is for [`Task::advance`]. A task may have thousands of members, and most that happens to one
    /// of them is nothing to the others.
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

    /// Gives when time alone changes something.
    pub fn deadline(&self) -> Option<u64> {
        let messages = Some(&self.messages).filter(|_| !self.phase.is_over());
        let messages = messages.and_then(Messages::deadline);
        messages.into_iter().chain(self.policy_deadline()).min()
    }

    /// Does at once what time does to all messages: thousands of leases may end in one moment.
    fn let_time_work(&self, now: Moment) -> Option<Step> {
        let overdue = self.messages.due(now.mono_ms).filter_map(|message| {
            let no = message.no;
            Some(match message.overdue(now)? {
                Overdue::Expired => MessageExpired { no }.into(),
                Overdue::Returned => {
                    let holder = message.standing.lease().map_or("nobody", |lease| &lease.consumer);
                    let reason = format!("{holder} did not say in time that it was handled");
                    MessageReturned { no, reason }.into()
                }
                Overdue::Dead => {
                    let reason =
                        format!("it was offered {} times and never handled", message.offers);
                    MessageDead { no, reason, by: None }.into()
                }
            })
        });
        let events: Vec<Event> = overdue.collect();
        (!events.is_empty()).then_some(Step::Events(events))
    }

    /// Sees what became of what was given to sessions.
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
            // The agent began with it: a confirmed push is consumed. What its loop ended for meanwhile begins nothing,
            // also if another loop began.
            Reached::Begun => {
                if let Some(why) = self.bars(message, around) {
                    return Some(self.refuse_delivery(message, why));
                }
                let mut events = self.accepted(message, lease.clone(), 0);
                let by = lease.consumer.clone();
                events.push(MessageAcknowledged { no, by, note: None }.into());
                Some(events)
            }
            // The agent did nothing of it, so it can be offered again.
            Reached::Nobody(reason) if !message.is_worn() => {
                Some(vec![MessageReturned { no, reason: reason.to_owned() }.into()])
            }
            Reached::Nobody(reason) => {
                Some(vec![MessageDead { no, reason: reason.to_owned(), by: None }.into()])
            }
            Reached::Unknown => {
                let reason = "its session does not know it".to_owned();
                Some(vec![MessageDead { no, reason, by: None }.into()])
            }
        }
    }

    /// Gives the next message to a session that is at rest, one at a time.
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
                None => Some(self.send((member, message), session, around.caller)),
            }
        })
    }

    /// Gives what waits for each member, in one look at all messages: there may be as many of these as of those.
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

    fn send(
        &self,
        (member, message): (&Member, &Message),
        session: &Session,
        caller: &Caller,
    ) -> Step {
        let sent = format!("task-{}-{}-{}", self.id.short(), message.no, message.offers + 1);
        let begins_thread = self.begins_thread(message, session);
        // To a session that has ended it is its next instruction, which has a key of its own.
        let key = match session.attempt().is_sealed() || begins_thread {
            true => format!("instruction-{}", session.attempt().no + 1),
            false => sent.clone(),
        };
        let way = Way::Push { session: session.id, key, turns: session.turns };
        let lease =
            Lease { no: message.offers + 1, consumer: member.name.clone(), way, until_ms: None };
        let text = envelope::wrapped(self, message, caller);
        let (text, mode) = match begins_thread {
            true => (envelope::handed_over(self, member, &text, caller), SendMode::NewThread),
            false => (text, SendMode::Continue),
        };
        let command = session::Command::Send { key: sent, text, mode };
        let offered = MessageOffered { no: message.no, lease };
        Step::Send(Box::new((offered, session.id, command)))
    }
}

/// How far what was given to a session has come.
enum Reached<'s> {
    /// It may yet be begun with.
    Waits,
    Begun,
    /// Nobody began with it, and nobody will, for this reason.
    Nobody(&'s str),
    /// The session has no such message.
    Unknown,
}

impl<'s> Reached<'s> {
    /// Looks at a message that was given to a session when it had begun so many turns. What was only written to an agent
    /// is lost with its process: it is begun with when the next turn is, or when the agent says how the work stands. Who
    /// dies before that goes on with it in its next process, if it has one.
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
        // Whoever tells of no turns at all tells no more of this one.
        let begun = session.turns > turns || session.turns == 0 || says || bug!(WrittenIsBegun);
        let current = session.current_launch();
        // In a process that began no turn one is only expected.
        let steered =
            |one: &Launch| one.is_in_turn() && !one.stream.expected && one.watch.turned.is_some();
        let over = |one: &Launch| one.id == launch && one.has_ended();
        match current {
            _ if begun => Reached::Begun,
            Some(one) if one.may_live() && steered(one) => Reached::Begun,
            Some(one) if over(one) && session.attempt().is_sealed() => {
                Reached::Nobody("its process ended before it began with it")
            }
            Some(_) | None => Reached::Waits,
        }
    }
}

/// What waits for a member.
#[derive(Default)]
struct Waiting<'t> {
    first: Option<&'t Message>,
    /// The first of those that may reach it in the middle of its turn.
    steered: Option<&'t Message>,
    /// Whether it has one already.
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

/// Says whether a session takes something now: it is at rest, and nobody is asked anything. One that claimed an end takes
/// what comes next when that is sealed: what it claimed is not about it. One that
/// the operator stopped is the operator's to go on with: what waits for it would have it run again at once.
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

/// Says whether something can be said to a session in the middle of its turn.
fn can_be_steered(session: &Session) -> bool {
    let driver = session.spec.agent.driver;
    let able = driver.has_protocol() && !driver.has_terminal();
    let free = !session.attempt().is_sealed() && session.open_requests().next().is_none();
    let launch = session.current_launch().filter(|launch| launch.may_live());
    able && free && launch.is_some_and(|launch| launch.stop.is_none() && launch.is_in_turn())
}
