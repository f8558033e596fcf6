//! Orders from a team to its members' sessions that are not messages.

use super::{
    advance::TeamAdvanceContext,
    command::TeamRejection,
    decide::{TeamCommandResult, single_event},
    envelope,
    event::*,
    loop_state::{CleanUp, Loop},
    member::{MemberOrder, TeamActor, TeamMember},
    message::TeamMessage,
    state::{Team, TeamPhase},
};
use crate::{
    ids::SessionId,
    session::{self, Session},
    time::Moment,
};

impl Team {
    /// Builds the session command for an order. Like a message, its text identifies the author.
    fn order_command(
        &self,
        order: &MemberOrder,
        key: &str,
        by: &TeamActor,
    ) -> session::SessionCommand {
        let key = key.to_owned();
        match order {
            MemberOrder::Interrupt { text } => {
                let text = text.as_ref().map(|text| envelope::format_interrupt(self, by, text));
                session::SessionCommand::Interrupt { key, text }
            }
            MemberOrder::Compact => session::SessionCommand::Compact { key },
        }
    }

    /// Sends an order to a member's agent, if the session currently accepts it.
    pub(super) fn order_member(
        &self,
        actor: &TeamActor,
        name: &str,
        what: MemberOrder,
        key: &str,
        context: &TeamAdvanceContext<'_>,
    ) -> TeamCommandResult {
        let member = self.bound_member(name)?;
        if *actor == TeamActor::Member(name.to_owned()) && what != MemberOrder::Compact {
            let why = "you cannot interrupt yourself".to_owned();
            return Err(TeamRejection::SessionRejected { member: name.to_owned(), why });
        }
        let none = || TeamRejection::NoSession(name.to_owned());
        let session = member.session.and_then(|id| (context.session)(id)).ok_or_else(none)?;
        match session.decide(&self.order_command(&what, key, actor), context.now) {
            Ok(_) => {
                let (name, key, by) = (name.to_owned(), key.to_owned(), actor.clone());
                single_event(MemberOrdered { name, what, key, by })
            }
            Err(session::SessionRejection::NothingNew) => Err(TeamRejection::NothingNew),
            Err(why) => Err(TeamRejection::SessionRejected {
                member: name.to_owned(),
                why: why.to_string(),
            }),
        }
    }

    /// Returns the session commands that an event requires, which are sent in the same transaction.
    pub fn session_commands(&self, event: &Event) -> Vec<(SessionId, session::SessionCommand)> {
        if let Event::Team(TeamChange::PhaseChanged(e)) = event {
            return self.dismissals(&e.phase);
        }
        self.member_command(event).into_iter().collect()
    }

    /// Dismisses the members' sessions when the team ends. Sessions that were not opened for a team
    /// reject the dismissal.
    fn dismissals(&self, phase: &TeamPhase) -> Vec<(SessionId, session::SessionCommand)> {
        if !phase.is_over() {
            return Vec::new();
        }
        let at_once = !matches!(phase, TeamPhase::Done { .. });
        let because = format!("its team \"{}\" is {}", self.spec.name, phase.as_str());
        let dismiss = session::SessionCommand::Dismiss { because, at_once };
        let members = self.members.iter().filter_map(|member| member.session);
        members.map(|session| (session, dismiss.clone())).collect()
    }

    /// Returns the session command that an event requires for one member.
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other event requires a command")]
    fn member_command(&self, event: &Event) -> Option<(SessionId, session::SessionCommand)> {
        let (name, command) = match event {
            Event::Member(MemberEvent::MemberOrdered(e)) => {
                (&e.name, self.order_command(&e.what, &e.key, &e.by))
            }
            Event::Loop(LoopEvent::ConversationCleanedUp(e))
                if e.skipped.is_none() && e.clean_up == CleanUp::Compact =>
            {
                (&e.name, session::SessionCommand::Compact { key: self.clean_up_key(e.message) })
            }
            Event::Finish(FinishEvent::FinishReported(e)) => {
                let key = format!("team-{}-done", self.id.short());
                let mode = session::SendMode::Continue;
                (&e.name, session::SessionCommand::Send { key, text: e.text.clone(), mode })
            }
            _ => return None,
        };
        let member = self.members.iter().find(|member| member.name == *name)?;
        member.session.map(|session| (session, command))
    }

    fn clean_up_key(&self, message: u32) -> String {
        format!("team-{}-{message}-clean-up", self.id.short())
    }

    /// Cleans up a worker's conversation before a continuation is delivered, once per continuation. If a new
    /// conversation is required, the continuation itself starts the new conversation.
    pub(super) fn clean_up(
        &self,
        member: &TeamMember,
        message: &TeamMessage,
        session: &Session,
        now: Moment,
    ) -> Option<Event> {
        message.iteration?;
        let looped = self.running_loop()?;
        let clean_up = looped.template.clean_up;
        if looped.cleaned_for == Some(message.no) {
            return Some(self.compaction_failed(looped, member, session)?.into());
        }
        let skipped = match clean_up {
            CleanUp::Keep => return None,
            CleanUp::NewThread if session.spec.agent.interface.can_start_threads() => None,
            CleanUp::NewThread => Some("its agent cannot begin another conversation".to_owned()),
            CleanUp::Compact => {
                let command =
                    session::SessionCommand::Compact { key: self.clean_up_key(message.no) };
                session.decide(&command, now).err().map(|why| why.to_string())
            }
        };
        let asked = clean_up == CleanUp::Compact && skipped.is_none();
        let compactions = asked.then_some(session.conversation.compactions);
        let (message, name) = (message.no, member.name.clone());
        Some(ConversationCleanedUp { message, name, clean_up, skipped, compactions }.into())
    }

    /// Records that a requested compaction never happened, so that the record does not claim that the conversation was
    /// compacted.
    fn compaction_failed(
        &self,
        looped: &Loop,
        member: &TeamMember,
        session: &Session,
    ) -> Option<ConversationCleanedUp> {
        if session.is_compacting() {
            return None;
        }
        let before = looped.compactions?;
        let skipped = (session.conversation.compactions <= before)
            .then(|| "its agent did not report a compaction".to_owned())?;
        Some(ConversationCleanedUp {
            message: looped.cleaned_for?,
            name: member.name.clone(),
            clean_up: looped.template.clean_up,
            skipped: Some(skipped),
            compactions: None,
        })
    }

    /// Whether a continuation starts a new conversation.
    pub(super) fn begins_thread(&self, message: &TeamMessage, session: &Session) -> bool {
        let new_thread = |looped: &Loop| looped.template.clean_up == CleanUp::NewThread;
        message.iteration.is_some()
            && self.running_loop().is_some_and(new_thread)
            && session.spec.agent.interface.can_start_threads()
    }
}
