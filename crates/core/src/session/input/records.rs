//! Records that the agent writes itself: turns, requests and input that they confirm.

use crate::{
    ids::LaunchId,
    limits::MAX_SAYS,
    session::{
        command::SessionRejection,
        decide::CommandResult,
        event::{
            ContextCompacted, ContextReported, Event, MessageDelivered, ProgressReported,
            SignalRecorded, StreamReady, TurnEnded, TurnStarted, UsageReported,
        },
        input::{
            signals::{RecordSignal, RecordSource, SignalKind},
            typed::TypedInput,
            typing::pasteable_text,
        },
        launch::Launch,
        state::{AgentMessage, AgentMessageKind, DeliveryStatus, Session},
    },
    text::shortened,
};

/// Compares texts, ignoring that terminals change line endings, agents trim their input, and
/// control characters are not pasted.
fn same_text(sent: &str, recorded: &str) -> bool {
    let lines = |text: &str| {
        pasteable_text(text).trim().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    };
    lines(sent) == lines(recorded)
}

impl Session {
    /// Records a signal from one of the agent's records, once.
    pub(in crate::session) fn decide_record(
        &self,
        id: LaunchId,
        by: RecordSource,
        place: u64,
        what: &RecordSignal,
    ) -> CommandResult {
        let launch = self.launch(id).ok_or(SessionRejection::UnknownLaunch(id))?;
        if let RecordSignal::ThreadSwitched { thread } = what {
            return self.decide_thread_switch(launch, by, thread);
        }
        let behind = launch.watch.lags_behind(by, what, self.conversation.thread.as_deref());
        let ends = matches!(what, RecordSignal::TurnEnded { .. });
        let early = ends && by == RecordSource::Hook && launch.watch.turns_on_file;
        if behind || early || launch.watch.has_read(by, place) {
            return Err(SessionRejection::NothingNew);
        }
        let then = self.events_for_record(launch, what);
        let bytes = match by {
            // A hook counts as a report, because any descendant of the agent can send one.
            RecordSource::Hook => then.iter().map(|event| event.encode().len()).sum(),
            RecordSource::Rollout => 0,
        };
        if by == RecordSource::Hook && !then.is_empty() && !launch.reports.has_room_for(bytes) {
            return self.mark_reports_refused(launch);
        }
        let seen =
            SignalRecorded { launch: id, by, place, said: what.signal_kind(), bytes: bytes as u64 };
        // Store a hook only if it causes events or something is waiting for it.
        let awaited = *what == RecordSignal::Continued && launch.watch.approved.is_some();
        if then.is_empty() && by == RecordSource::Hook && !awaited {
            return Err(SessionRejection::NothingNew);
        }
        Ok(std::iter::once(seen.into()).chain(then).collect())
    }

    fn events_for_record(&self, launch: &Launch, what: &RecordSignal) -> Vec<Event> {
        let (id, cursor) = (launch.id, launch.cursor);
        match what.clone() {
            RecordSignal::ThreadNamed { thread } => {
                let known =
                    launch.stream.ready && self.conversation.thread.as_ref() == Some(&thread);
                let new = !known && !self.is_other_thread(launch, &thread);
                let ready = || StreamReady { launch: id, thread: Some(thread.clone()), cursor };
                new.then(|| ready().into()).into_iter().collect()
            }
            // `decide_thread_switch` handles this signal.
            RecordSignal::ThreadSwitched { .. } => Vec::new(),
            RecordSignal::TurnStarted { turn } => {
                if launch.knows_turn(turn.as_deref()) {
                    return Vec::new();
                }
                let started = TurnStarted { launch: id, turn, cursor }.into();
                // A record is read after the screen is drawn, so a request that is on the screen
                // now belongs to this turn.
                let asks = launch.watch.shown_signal() == Some(SignalKind::Asks);
                let went_on = (!asks).then(|| self.settle_all(launch)).into_iter().flatten();
                // A user at the agent's screen may have started the turn. Otherwise, the queued
                // message did.
                let alone = !launch.adopted;
                let compacts =
                    self.confirm_compact(id, |typed| alone && !launch.was_attended_since(typed));
                went_on.chain(compacts).chain([started]).collect()
            }
            RecordSignal::TurnEnded { turn, end, says } => {
                if !launch.has_open(turn.as_deref()) {
                    return Vec::new();
                }
                // The transcript contains secret answers in plain text, and the agent's last
                // message may as well.
                let secret = self.requests.iter().any(|request| request.asked.is_secret());
                let says = if secret { None } else { says };
                let says = says.map(|says| shortened(&says, MAX_SAYS));
                let ended = TurnEnded { launch: id, turn, end, usage: None, says, cursor };
                let ended = ended.into();
                let lost = self.drop_input_no_turn_took(launch);
                self.settle_all(launch).chain([ended]).chain(lost).collect()
            }
            RecordSignal::InputTaken { text } => {
                self.confirm_typed(id, &text).into_iter().collect()
            }
            RecordSignal::UsageReported { usage, context } => {
                let new = context.filter(|context| self.conversation.context != Some(*context));
                let reported =
                    new.map(|context| ContextReported { launch: id, context, cursor }.into());
                let used = UsageReported { launch: id, usage, cursor }.into();
                std::iter::once(used).chain(reported).collect()
            }
            RecordSignal::Progress(progress) => {
                vec![ProgressReported { launch: id, progress, cursor: Some(cursor) }.into()]
            }
            RecordSignal::RequestOpened(asked) => {
                self.open_new_request(launch, asked).into_iter().collect()
            }
            RecordSignal::Continued => self.settle_all(launch).collect(),
            RecordSignal::Compacting => self.confirm_compact(id, |_| true).into_iter().collect(),
            RecordSignal::Compacted => {
                let compacted = ContextCompacted { launch: id, cursor }.into();
                self.confirm_compact(id, |_| true).into_iter().chain([compacted]).collect()
            }
        }
    }

    /// Confirms the delivery of the typed message that appears in a record.
    fn confirm_typed(&self, launch: LaunchId, text: &str) -> Option<Event> {
        let typed = |message: &&AgentMessage| {
            message.status == DeliveryStatus::Queued
                && message.typed.is_some_and(|typed| typed.launch == launch)
                && same_text(&message.text, text)
        };
        let key = self.input.messages.iter().find(typed)?.key.clone();
        Some(MessageDelivered { key, launch }.into())
    }

    /// Confirms the delivery of a typed `/compact`. The command is not part of the conversation, so
    /// no record contains it, and only the agent's behavior shows that it arrived.
    fn confirm_compact(
        &self,
        launch: LaunchId,
        shows: impl Fn(&TypedInput) -> bool,
    ) -> Option<Event> {
        let took = |typed: TypedInput| typed.launch == launch && shows(&typed);
        let is_typed_compact = |message: &&AgentMessage| {
            message.kind == AgentMessageKind::Compact
                && message.status == DeliveryStatus::Queued
                && message.typed.is_some_and(took)
        };
        let key = self.input.messages.iter().find(is_typed_compact)?.key.clone();
        Some(MessageDelivered { key, launch }.into())
    }
}
