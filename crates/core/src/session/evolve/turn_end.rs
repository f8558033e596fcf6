//! Applies the end of a turn: its result, its error, or the usage limit that ended it.

use crate::{
    ids::{LaunchId, text_jitter_ms},
    lifecycle::ClaimKind,
    session::{
        attempt::{Claim, ClaimSource},
        event::TurnEnded,
        input::Compaction,
        launch::TurnEnd,
        state::{DeliveryStatus, LimitWait, Session},
    },
    time::Moment,
};

impl Session {
    pub(super) fn end_turn(&mut self, e: &TurnEnded, at: Moment) {
        self.record_heard(e.launch, at, e.cursor);
        self.spending.usage.add(e.usage.unwrap_or_default());
        // Messages that could not be typed before can now be retried.
        self.input.messages.iter_mut().for_each(|message| {
            message.unconfirmed_reason = None;
            if message.status != DeliveryStatus::Queued {
                message.text.clear();
            }
        });
        // An agent that accepts no instructions has nothing left to do after its turn.
        let takes_more = self.spec.agent.interface.takes_instructions();
        self.update_launch(e.launch, |launch| {
            launch.stream.end_turn(e.end == TurnEnd::Ok, takes_more);
            launch.watch.turn_changed_at = Some(at);
            launch.watch.approved = None;
            launch.watch.last_turn = e.turn.clone().or(launch.watch.last_turn.take());
        });
        let current = self.current_launch().is_some_and(|launch| launch.id == e.launch);
        // The result of a compaction is not a result of the work. A turn that was already open
        // before the compaction is not part of it.
        let own = |asked: &Compaction| asked.launch == e.launch && asked.turn;
        let compacted = self.conversation.compacting.take_if(|asked| own(asked)).is_some();
        if !current || compacted || self.attempt().is_sealed() {
            return;
        }
        self.attempt_mut().record_turn_end(e);
        match &e.end {
            TurnEnd::Ok => self.expect_own_turn(e.launch, at),
            TurnEnd::Interrupted => {
                // An interrupted turn is unfinished, and the user who interrupted it decides how to
                // continue.
                self.attempt_mut().awaits_user = true;
                self.expect_queued_turn(at);
            }
            TurnEnd::Error(text) => self.take_turn_error(e.launch, text, at),
            TurnEnd::Limited { detail, .. }
                if self.attempt().limit_waits >= self.spec.bounds.limit_waits =>
            {
                self.take_turn_error(e.launch, detail, at);
            }
            TurnEnd::Limited { until_ms, detail } => self.wait_for_limit(*until_ms, detail, at),
        }
    }

    fn take_turn_error(&mut self, launch: LaunchId, text: &str, at: Moment) {
        self.attempt_mut().claim = Some(Claim {
            kind: ClaimKind::Failed,
            source: ClaimSource::TurnError,
            text: Some(text.to_owned()),
            launch: Some(launch),
            at,
        });
    }

    /// Waits for the account's usage limit to pass. The limit says nothing about the work, and the
    /// turn continues afterwards.
    fn wait_for_limit(&mut self, until_ms: Option<u64>, detail: &str, at: Moment) {
        let bounds = &self.spec.bounds;
        let wait = match until_ms {
            Some(until) => until.saturating_sub(u64::try_from(at.wall_ms).unwrap_or(0)),
            None => bounds.limit_wait_ms,
        };
        let jitter = match &self.spec.agent.profile.account {
            Some(account) => text_jitter_ms(account, bounds.limit_jitter_ms),
            None => self.id.jitter_ms(bounds.limit_jitter_ms),
        };
        let until_mono_ms = at.mono_ms.saturating_add(wait).saturating_add(jitter);
        self.attempt_mut().limit_waits += 1;
        self.spending.limited =
            Some(LimitWait { detail: detail.to_owned(), since: at, until_mono_ms });
        self.expect_turn(at);
    }
}
