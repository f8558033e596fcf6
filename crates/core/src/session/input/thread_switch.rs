//! Tracks which of an agent's conversations belongs to the session when the user switches between
//! them in the TUI.
//!
//! A process may have several conversations: those of the user, one after another, and hidden ones,
//! for example for sub-agents. Only
//! [`RecordSignal::ThreadSwitched`](super::signals::RecordSignal::ThreadSwitched) changes which one
//! belongs to the session, and signals from other conversations are ignored. After a switch, the
//! transcript being read is still that of the previous conversation until its reader reports the
//! new one. Signals that arrive before then are late, and do not apply to the new conversation.

use crate::{
    session::{
        command::SessionRejection,
        decide::CommandResult,
        event::{ThreadSwitched, TurnEnded},
        input::signals::{LastSignal, LaunchWatch, RecordSignal, RecordSource, SignalKind},
        launch::{Launch, TurnEnd},
        state::Session,
    },
    time::Moment,
};

/// The maximum number of previous conversations to remember. The newest ones are kept.
const MAX_PREVIOUS_THREADS: usize = 64;

impl LaunchWatch {
    /// Whether a signal still belongs to the previous conversation.
    pub(in crate::session) fn lags_behind(
        &self,
        by: RecordSource,
        what: &RecordSignal,
        thread: Option<&str>,
    ) -> bool {
        let names_it = matches!(what, RecordSignal::ThreadNamed { thread: named } if Some(named.as_str()) == thread);
        self.behind && by == RecordSource::Rollout && !names_it
    }

    /// Stores the last signal that was read from a record.
    pub(in crate::session) fn store_signal(&mut self, by: RecordSource, seen: LastSignal) {
        self.behind &= !(by == RecordSource::Rollout && seen.said == SignalKind::Named);
        self.turns_on_file |= by == RecordSource::Rollout && seen.said == SignalKind::TurnStarted;
        self.records.insert(by, seen);
    }
}

impl Session {
    /// Whether a reported conversation id differs from the session's.
    pub(in crate::session) fn is_other_thread(&self, launch: &Launch, thread: &str) -> bool {
        launch.stream.ready && self.conversation.thread.as_deref().is_some_and(|own| own != thread)
    }

    /// Records that the user at the screen switched to another conversation. The open turn and the
    /// requests of the previous conversation end, except for a request that is on the screen now,
    /// because it belongs to the new conversation.
    pub(in crate::session) fn decide_thread_switch(
        &self,
        launch: &Launch,
        by: RecordSource,
        thread: &str,
    ) -> CommandResult {
        let Some(from) = self.conversation.thread.clone().filter(|own| own != thread) else {
            return Err(SessionRejection::NothingNew);
        };
        let current = self.current_launch().is_some_and(|current| current.id == launch.id);
        if !current || !launch.may_be_running() || self.attempt().is_sealed() {
            return Err(SessionRejection::NothingNew);
        }
        if by == RecordSource::Hook && !launch.reports.has_room_for(thread.len()) {
            return self.mark_reports_refused(launch);
        }
        let (id, cursor) = (launch.id, launch.cursor);
        let asks = launch.watch.shown_signal() == Some(SignalKind::Asks);
        let settled = (!asks).then(|| self.settle_all(launch)).into_iter().flatten();
        let left = launch.turn().map(|turn| {
            let (turn, end) = (Some(turn.to_owned()), TurnEnd::Interrupted);
            TurnEnded { launch: id, turn, end, usage: None, says: None, cursor }.into()
        });
        let moved = ThreadSwitched { launch: id, by, from, to: thread.to_owned() };
        Ok(settled.chain(left).chain([moved.into()]).collect())
    }

    /// Switches to the other conversation, and discards facts about the previous one.
    pub(in crate::session) fn switch_thread(&mut self, e: &ThreadSwitched, at: Moment) {
        let cursor = self.launch(e.launch).map(|launch| launch.cursor).unwrap_or_default();
        self.record_heard(e.launch, at, cursor);
        if e.by == RecordSource::Hook {
            self.count_report(e.launch, e.to.len());
        }
        self.conversation.thread = Some(e.to.clone());
        (self.conversation.context, self.reported.progress, self.conversation.compacting) =
            (None, None, None);
        for launch in &mut self.launches {
            // Positions are relative to a file, and the new conversation has a different file.
            launch.watch.records.remove(&RecordSource::Rollout);
        }
        self.update_launch(e.launch, |launch| {
            let watch = &mut launch.watch;
            watch.behind = true;
            watch.previous_threads.retain(|left| *left != e.from && *left != e.to);
            watch.previous_threads.push(e.from.clone());
            let surplus = watch.previous_threads.len().saturating_sub(MAX_PREVIOUS_THREADS);
            watch.previous_threads.drain(..surplus);
        });
    }
}
