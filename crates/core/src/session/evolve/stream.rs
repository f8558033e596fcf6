//! Applies what was observed on a launch's stream: its output, turns, conversation and tokens.

use crate::{
    ids::LaunchId,
    rules::rules,
    session::{
        event::{BudgetEvent, ConversationEvent, StreamEvent, TurnEvent},
        launch::Cursor,
        state::{AgentMessageKind, Session},
    },
    time::Moment,
};

impl Session {
    /// Applies an event about the output of a launch.
    pub(super) fn apply_stream(&mut self, at: Moment, event: &StreamEvent) {
        match event {
            StreamEvent::StreamReady(e) => {
                self.record_heard(e.launch, at, e.cursor);
                self.conversation.thread = e.thread.clone().or(self.conversation.thread.take());
                self.update_launch(e.launch, |launch| launch.stream.ready = true);
            }
            StreamEvent::StreamRefused(e) => {
                self.record_heard(e.launch, at, e.cursor);
                self.update_launch(e.launch, |launch| {
                    launch.stream.refused = Some(e.reason.clone())
                });
            }
            StreamEvent::StreamUnreachable(e) => {
                self.record_heard(e.launch, at, e.cursor);
                self.update_launch(e.launch, |launch| {
                    launch.stream.refused = Some(e.reason.clone());
                    launch.stream.unreachable = true;
                });
            }
            StreamEvent::StreamHeard(e) => {
                self.break_silence(e.launch);
                self.update_launch(e.launch, |launch| {
                    launch.stream.last_heard.mono_ms = e.heard_ms;
                    launch.stream.silent = false;
                });
            }
            StreamEvent::StreamSilent(e) => {
                self.update_launch(e.launch, |launch| launch.stream.silent = true)
            }
            StreamEvent::StreamRetrying(e) => {
                // Retrying is not progress, so the silence window continues.
                self.update_launch(e.launch, |launch| {
                    launch.stream.retrying = true;
                    launch.stream.retrying_why = Some(e.detail.clone());
                    launch.cursor = launch.cursor.max(e.cursor);
                });
            }
            StreamEvent::StreamClosed(e) => self.update_launch(e.launch, |launch| {
                launch.stream.closed = Some(at);
                launch.cursor = launch.cursor.max(e.cursor);
            }),
            StreamEvent::StreamSettled(e) => {
                self.update_launch(e.launch, |launch| launch.stream.settled = true)
            }
            StreamEvent::AgentWarned(e) => {
                self.record_heard(e.launch, at, e.cursor);
                self.reported.warnings.push(e.text.clone());
            }
            StreamEvent::OutputOversized(e) => {
                self.record_heard(e.launch, at, e.cursor);
                self.update_launch(e.launch, |launch| launch.oversized = true);
            }
            StreamEvent::OutputAtLimit(e) => {
                self.update_launch(e.launch, |launch| launch.at_limit = true)
            }
            StreamEvent::OutputDiskFull(e) => {
                self.update_launch(e.launch, |launch| launch.disk_full = Some(e.dir.clone()));
            }
            StreamEvent::OutputResumed(e) => {
                self.update_launch(e.launch, |launch| launch.disk_full = None)
            }
            StreamEvent::OutputLost(e) => self.update_launch(e.launch, |launch| {
                launch.output_lost = true;
                launch.cursor = e.cursor;
            }),
            StreamEvent::LimitRaised(e) => {
                self.output_limit = e.bytes;
                for launch in &mut self.launches {
                    launch.at_limit = false;
                }
            }
        }
    }

    /// Applies an event about the agent's turns.
    pub(super) fn apply_turn(&mut self, at: Moment, event: &TurnEvent) {
        match event {
            TurnEvent::TurnStarted(e) => {
                self.record_heard(e.launch, at, e.cursor);
                self.update_launch(e.launch, |launch| {
                    launch.stream.begin_turn(e.turn.clone());
                    launch.watch.turn_changed_at = Some(at);
                    launch.watch.approved = None;
                });
                self.begin_turn(e.launch);
            }
            TurnEvent::TurnEnded(e) => self.end_turn(e, at),
            TurnEvent::GoalChanged(e) => self.change_goal(e, at),
            TurnEvent::TurnMissing(e) => self.update_launch(e.launch, |launch| {
                launch.stream.goal = false;
                launch.stream.forget_expected_turn();
            }),
        }
    }

    /// Applies an event about the conversation and its context.
    pub(super) fn apply_conversation(&mut self, at: Moment, event: &ConversationEvent) {
        match event {
            ConversationEvent::ThreadSwitched(e) => self.switch_thread(e, at),
            ConversationEvent::ThreadRestarted(_) => {
                (self.conversation.thread, self.conversation.context) = (None, None)
            }
            ConversationEvent::ContextReported(e) => {
                self.record_heard(e.launch, at, e.cursor);
                self.conversation.context = Some(e.context);
            }
            ConversationEvent::ContextCompacted(e) => {
                self.record_heard(e.launch, at, e.cursor);
                // The usage after the compaction has not been reported yet.
                self.conversation.context = None;
                self.conversation.compactions = self.conversation.compactions.saturating_add(1);
                self.conversation.compacting =
                    self.conversation.compacting.filter(|asked| asked.turn);
            }
            ConversationEvent::CompactionFailed(e) => {
                self.advance_cursor(Some(e.launch), e.cursor, at);
                self.conversation.compacting = None;
            }
            ConversationEvent::ConversationDeleted(_) => self.conversation.deleted = true,
        }
    }

    /// Applies an event about tokens, the budget, or the usage limit.
    pub(super) fn apply_budget(&mut self, at: Moment, event: &BudgetEvent) {
        match event {
            BudgetEvent::UsageReported(e) => {
                self.record_heard(e.launch, at, e.cursor);
                self.spending.usage.add(e.usage);
            }
            BudgetEvent::BudgetRaised(e) => {
                self.spending.budget.tokens = e.tokens.or(self.spending.budget.tokens);
                self.spending.budget.turns = e.turns.or(self.spending.budget.turns);
            }
            BudgetEvent::LimitSlot(e) => {
                if let Some(limited) = &mut self.spending.limited {
                    limited.until_mono_ms = rules().resume_time(limited.until_mono_ms, e.at_ms);
                }
            }
            BudgetEvent::LimitLifted(_) => {
                self.spending.released_ms = Some(at.mono_ms);
                let detail =
                    self.spending.limited.take().map(|limited| limited.detail).unwrap_or_default();
                let text = format!("{}\n\n{detail}", crate::prompt::LIMIT_LIFTED);
                let (no, waits) = (self.attempt().no, self.attempt().limit_waits);
                self.queue(
                    format!("lifted-{no}-{waits}"),
                    AgentMessageKind::Continue,
                    text,
                    None,
                    None,
                );
                self.expect_turn(at);
            }
        }
    }

    pub(in crate::session) fn record_heard(
        &mut self,
        launch: LaunchId,
        at: Moment,
        cursor: Cursor,
    ) {
        self.break_silence(launch);
        self.update_launch(launch, |launch| {
            launch.stream.last_heard = at;
            launch.stream.silent = false;
            launch.stream.retrying = false;
            launch.stream.retrying_why = None;
            launch.cursor = launch.cursor.max(cursor);
        });
    }

    /// Discards the evidence if the agent had been silent, because it may now change the work again.
    fn break_silence(&mut self, launch: LaunchId) {
        if self.launch(launch).is_some_and(|launch| launch.stream.silent) {
            self.void_verdict(launch);
        }
    }

    pub(in crate::session) fn advance_cursor(
        &mut self,
        launch: Option<LaunchId>,
        cursor: Option<Cursor>,
        at: Moment,
    ) {
        if let (Some(launch), Some(cursor)) = (launch, cursor) {
            self.record_heard(launch, at, cursor);
        }
    }
}
