//! Control orders from a team to its members' sessions, besides messages.

use super::{
    advance::Around,
    command::Rejected,
    decide::{Decision, one},
    envelope,
    event::*,
    gate::{CleanUp, Loop},
    member::{Actor, Member, Order},
    message::Message,
    state::{Phase, Task},
};
use crate::{
    ids::SessionId,
    session::{self, Session},
    time::Moment,
};

impl Task {
    /// Builds the session command for an order. Its text names its author, like that of a message.
    fn ordered(&self, order: &Order, key: &str, by: &Actor) -> session::Command {
        let key = key.to_owned();
        match order {
            Order::Interrupt { text } => {
                let text = text.as_ref().map(|text| envelope::interrupting(self, by, text));
                session::Command::Interrupt { key, text }
            }
            Order::Compact => session::Command::Compact { key },
        }
    }

    /// Sends an order to a member's agent, if its session accepts it now.
    pub(super) fn tell_member(
        &self,
        actor: &Actor,
        name: &str,
        what: Order,
        key: &str,
        around: &Around<'_>,
    ) -> Decision {
        let member = self.known(name)?;
        if *actor == Actor::Member(name.to_owned()) && what != Order::Compact {
            let why = "you cannot interrupt yourself".to_owned();
            return Err(Rejected::NotTaken { member: name.to_owned(), why });
        }
        let none = || Rejected::NoSession(name.to_owned());
        let session = member.session.and_then(|id| (around.look)(id)).ok_or_else(none)?;
        match session.decide(&self.ordered(&what, key, actor), around.now) {
            Ok(_) => {
                let (name, key, by) = (name.to_owned(), key.to_owned(), actor.clone());
                one(MemberTold { name, what, key, by })
            }
            Err(session::Rejected::Nothing) => Err(Rejected::Nothing),
            Err(why) => Err(Rejected::NotTaken { member: name.to_owned(), why: why.to_string() }),
        }
    }

    /// Returns the session commands of an event. They are sent in the same commit.
    pub fn said_by(&self, event: &Event) -> Vec<(SessionId, session::Command)> {
        if let Event::PhaseChanged(e) = event {
            return self.dismissals(&e.phase);
        }
        self.said_to_one(event).into_iter().collect()
    }

    /// Dismisses the members' sessions when the team ends. Only sessions opened for a team accept
    /// that.
    fn dismissals(&self, phase: &Phase) -> Vec<(SessionId, session::Command)> {
        if !phase.is_over() {
            return Vec::new();
        }
        let at_once = !matches!(phase, Phase::Done { .. });
        let because = format!("its team \"{}\" is {}", self.spec.name, phase.word());
        let dismiss = session::Command::Dismiss { because, at_once };
        let members = self.members.iter().filter_map(|member| member.session);
        members.map(|session| (session, dismiss.clone())).collect()
    }

    /// Returns the session command of an event to one member.
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is said to a session")]
    fn said_to_one(&self, event: &Event) -> Option<(SessionId, session::Command)> {
        let (name, command) = match event {
            Event::MemberTold(e) => (&e.name, self.ordered(&e.what, &e.key, &e.by)),
            Event::CleanedUp(e) if e.skipped.is_none() && e.clean_up == CleanUp::Compact => {
                (&e.name, session::Command::Compact { key: self.clean_up_key(e.message) })
            }
            Event::FinishTold(e) => {
                let key = format!("task-{}-done", self.id.short());
                let mode = session::SendMode::Continue;
                (&e.name, session::Command::Send { key, text: e.text.clone(), mode })
            }
            _ => return None,
        };
        let member = self.members.iter().find(|member| member.name == *name)?;
        member.session.map(|session| (session, command))
    }

    fn clean_up_key(&self, message: u32) -> String {
        format!("task-{}-{message}-clean-up", self.id.short())
    }

    /// Cleans up a worker's conversation before a continuation is delivered, once per continuation.
    /// A new conversation begins with the continuation itself.
    pub(super) fn clean_up(
        &self,
        member: &Member,
        message: &Message,
        session: &Session,
        now: Moment,
    ) -> Option<Event> {
        message.iteration?;
        let looped = self.running_loop()?;
        let clean_up = looped.template.clean_up;
        if looped.cleaned_for == Some(message.no) {
            return Some(self.not_compacted(looped, member, session)?.into());
        }
        let skipped = match clean_up {
            CleanUp::Keep => return None,
            CleanUp::NewThread if session.spec.agent.driver.begins_threads() => None,
            CleanUp::NewThread => Some("its agent cannot begin another conversation".to_owned()),
            CleanUp::Compact => {
                let command = session::Command::Compact { key: self.clean_up_key(message.no) };
                session.decide(&command, now).err().map(|why| why.to_string())
            }
        };
        let asked = clean_up == CleanUp::Compact && skipped.is_none();
        let compactions = asked.then_some(session.compactions);
        let (message, name) = (message.no, member.name.clone());
        Some(CleanedUp { message, name, clean_up, skipped, compactions }.into())
    }

    /// Reports a requested compaction that never happened, so that the record does not claim that
    /// the conversation was compacted.
    fn not_compacted(
        &self,
        looped: &Loop,
        member: &Member,
        session: &Session,
    ) -> Option<CleanedUp> {
        if session.is_compacting() {
            return None;
        }
        let before = looped.compactions?;
        let skipped = (session.compactions <= before)
            .then(|| "its agent did not report a compaction".to_owned())?;
        Some(CleanedUp {
            message: looped.cleaned_for?,
            name: member.name.clone(),
            clean_up: looped.template.clean_up,
            skipped: Some(skipped),
            compactions: None,
        })
    }

    /// Whether a continuation begins a new conversation.
    pub(super) fn begins_thread(&self, message: &Message, session: &Session) -> bool {
        let new_thread = |looped: &Loop| looped.template.clean_up == CleanUp::NewThread;
        message.iteration.is_some()
            && self.running_loop().is_some_and(new_thread)
            && session.spec.agent.driver.begins_threads()
    }
}
