//! The laws of a team's news.

use std::collections::BTreeSet;

use provost_core::{
    session::{Launch, LaunchPhase, Session},
    team::{
        Event, MemberEvent, MemberRole, MessageEvent, NewsReported, NewsWatermark, Team, TeamMember,
    },
};

use super::{TeamWatch, law};
use crate::session_laws::BrokenLaw;

impl TeamWatch {
    /// News about a member is sent to each of its managers exactly once, in one message each.
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else contains news")]
    pub(super) fn check_news(&mut self, task: &Team, event: &Event) -> Result<(), BrokenLaw> {
        match event {
            Event::Member(MemberEvent::NewsReported(e)) => self.record_news(task, e),
            Event::Message(MessageEvent::MessageStored(_) | MessageEvent::NewsAdded(_)) => Ok(()),
            _ => {
                law!(self.news.is_empty(), "news messages {:?} belong to no record", self.news);
                Ok(())
            }
        }
    }

    fn record_news(&mut self, task: &Team, e: &NewsReported) -> Result<(), BrokenLaw> {
        let listed: BTreeSet<u32> = e.messages.iter().copied().collect();
        let fresh = std::mem::take(&mut self.news);
        law!(
            listed == fresh,
            "the record of {} lists {listed:?}, but {fresh:?} were sent",
            e.member
        );
        let managers: Vec<&str> =
            task.bound(MemberRole::Manager).map(|one| one.name.as_str()).collect();
        let mut notified: Vec<&str> =
            listed.iter().map(|no| self.messages[no].to.as_str()).collect();
        notified.sort_unstable();
        let mut wanted = managers;
        // In a team without managers, the operator gets the news. A managing policy gets no news, because it reads the
        // state of the team.
        if wanted.is_empty() && task.spec.policy.is_none() {
            wanted.push("operator");
        }
        wanted.sort_unstable();
        law!(
            notified == wanted,
            "news about {} was sent to {notified:?}, not to {wanted:?}",
            e.member
        );
        let now = NewsWatermark {
            turns_ended: e.turns_ended,
            attempts_sealed: e.attempts_sealed,
            requests: e.requests,
            processes_lost: e.processes_lost,
        };
        let before = self.sent_news.insert(e.member.clone(), now).unwrap_or_default();
        law!(now != before, "the same news about {} is sent twice: {now:?}", e.member);
        law!(
            includes_news(now, before),
            "news about {} is retracted: {before:?}, {now:?}",
            e.member
        );
        Ok(())
    }

    /// All news about a member has been sent. A turn, or a process that never ran, may be reported together with the
    /// seal that follows it, as long as that seal is still to come.
    pub(super) fn news_are_complete(
        &self,
        member: &TeamMember,
        session: &Session,
    ) -> Result<(), BrokenLaw> {
        if member.role == MemberRole::Manager {
            return Ok(());
        }
        let sent = self.sent_news.get(&member.name).copied().unwrap_or_default();
        let ended = session.attempts.iter().filter(|one| one.is_sealed() && !one.superseded);
        let (sealed, name) = (ended.count(), &member.name);
        let lost = session.launches.iter().filter(|launch| launch.ended_unexpectedly()).count();
        law!(sent.attempts_sealed as usize == sealed, "{sealed} outcomes of {name}: sent {sent:?}");
        let asked = session.requests.len();
        law!(sent.requests as usize == asked, "{asked} requests of {name}: sent {sent:?}");
        let failed = |launch: &Launch| matches!(launch.phase, LaunchPhase::Failed { .. });
        let settles = session.state().is_terminal()
            && !session.attempt().is_sealed()
            && session.deadline().is_some();
        let waits = settles && session.launches.iter().all(failed);
        let all_sent = sent.processes_lost as usize == lost || waits;
        law!(all_sent, "{lost} lost processes of {name}: sent {sent:?}");
        let alive = session.current_launch().is_some_and(Launch::may_be_running);
        let settles = session.state().is_terminal() && !session.attempt().is_sealed();
        let under_way = u32::from(alive);
        let turns = sent.turns_ended <= session.spending.turns
            && (settles || sent.turns_ended + under_way >= session.spending.turns);
        law!(turns, "{} turns of {name}: sent {sent:?}", session.spending.turns);
        Ok(())
    }
}

fn includes_news(now: NewsWatermark, before: NewsWatermark) -> bool {
    now.turns_ended >= before.turns_ended
        && now.attempts_sealed >= before.attempts_sealed
        && now.requests >= before.requests
        && now.processes_lost >= before.processes_lost
}
