//! News: changes to a member's session, which are reported to its managers automatically and once.
//!
//! One change often follows another: a turn ends, and then its work is sealed. The last turn before
//! a seal is reported together with the seal. As long as news about a member has not been
//! delivered, further news is added to the same message.

use super::{
    advance::{StepScope, TeamAdvanceContext, TeamStep},
    envelope,
    event::*,
    member::{MemberRole, NewsWatermark, TeamMember},
    message::{MAX_NEWS_BYTES, Recipient, TeamMessage},
    state::Team,
};

use crate::{
    rules::rules,
    session::{Attempt, LaunchPhase, Session},
};

impl Team {
    pub(super) fn report_news(
        &self,
        context: &TeamAdvanceContext<'_>,
        scope: StepScope,
    ) -> Option<TeamStep> {
        let reportable =
            |member: &&TeamMember| member.is_bound() && member.role != MemberRole::Manager;
        self.members.iter().filter(reportable).find_map(|member| {
            let session = scope.filter(member.session).and_then(context.session)?;
            // A reopened turn or attempt has already been reported, or will be reported when it
            // ends again.
            let seen = session_watermark(session).max(member.reported);
            let new = seen != member.reported
                && !is_reported_with_outcome(session, member.reported, seen);
            new.then(|| TeamStep::Events(self.news_events(member, session, seen)))
        })
    }

    fn news_events(
        &self,
        member: &TeamMember,
        session: &Session,
        seen: NewsWatermark,
    ) -> Vec<Event> {
        let text = envelope::format_news(member, session, seen);
        let (mut events, mut messages, mut stored) = (Vec::new(), Vec::new(), self.messages_stored);
        for to in self.news_recipients() {
            match self.append_to_pending_news(member, &to, &text) {
                Some(added) => {
                    messages.push(added.no);
                    events.push(added.into());
                }
                None => {
                    stored += 1;
                    messages.push(stored);
                    let key = news_key(member, seen, &to);
                    events.push(MessageStored::by_rule(stored, key, to, text.clone()).into());
                }
            }
        }
        let reported = NewsReported {
            member: member.name.clone(),
            turns_ended: seen.turns_ended,
            attempts_sealed: seen.attempts_sealed,
            requests: seen.requests,
            processes_lost: seen.processes_lost,
            messages,
        };
        events.push(reported.into());
        events
    }

    /// Returns the members that are notified of news: the managers, or the operator in a team without
    /// managers. A policy that manages a team needs no notification, because it reads the team's state.
    pub(super) fn news_recipients(&self) -> Vec<Recipient> {
        let by_rules =
            self.spec.policy.is_some() && self.bound(MemberRole::Manager).next().is_none();
        if by_rules { Vec::new() } else { self.managers_or_operator() }
    }

    /// Adds the news to a message that is still waiting, is not leased, and has enough room. None
    /// if there is no such message.
    fn append_to_pending_news(
        &self,
        member: &TeamMember,
        to: &Recipient,
        text: &str,
    ) -> Option<NewsAdded> {
        let waits =
            |message: &&TeamMessage| message.to == *to && rules().may_extend_news(&message.status);
        let mut newest = member.news.iter().rev().filter_map(|no| self.message(*no));
        let waiting = newest.find(waits)?;
        let text = envelope::join_news(&waiting.text, text);
        (text.len() <= MAX_NEWS_BYTES).then_some(NewsAdded { no: waiting.no, text })
    }
}

/// Returns a key that is unique to the news, so that nothing is reported twice.
fn news_key(member: &TeamMember, seen: NewsWatermark, to: &Recipient) -> String {
    format!(
        "news-{}-{}-{}-{}-{}-{}",
        member.name,
        seen.turns_ended,
        seen.attempts_sealed,
        seen.requests,
        seen.processes_lost,
        to.name()
    )
}

/// Counts the changes to a session that are worth reporting.
pub(super) fn session_watermark(session: &Session) -> NewsWatermark {
    // Attempts that Provost itself superseded are not news.
    let ended = |attempt: &&Attempt| attempt.is_sealed() && !attempt.superseded;
    let sealed = session.attempts.iter().filter(ended).count();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let turns_ended = session.spending.turns.saturating_sub(u32::from(has_open_turn(session)));
    let lost = rules().count_lost(session);
    NewsWatermark {
        turns_ended,
        attempts_sealed: count(sealed),
        requests: count(session.requests.len()),
        processes_lost: count(lost),
    }
}

/// Whether the only news is the last turn of work that is about to be sealed, or a process that
/// could not be started. Both are reported together with the outcome.
fn is_reported_with_outcome(
    session: &Session,
    reported: NewsWatermark,
    seen: NewsWatermark,
) -> bool {
    let never_ran =
        session.launches.iter().all(|one| matches!(one.phase, LaunchPhase::Failed { .. }));
    let processes_lost = if never_ran { seen.processes_lost } else { reported.processes_lost };
    let only_its_end =
        NewsWatermark { turns_ended: seen.turns_ended, processes_lost, ..reported } == seen;
    let settles = session.state().is_terminal() && !session.attempt().is_sealed();
    only_its_end && settles && session.deadline().is_some()
}

/// Whether a turn has started and is still open. In a process that has not had any turn, a turn is
/// only expected.
fn has_open_turn(session: &Session) -> bool {
    session.current_launch().is_some_and(|launch| {
        launch.may_be_running() && launch.is_in_turn() && launch.watch.turn_changed_at.is_some()
    })
}
