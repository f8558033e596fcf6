//! Observations on a launch's stream, and reports.

use crate::{
    ids::{LaunchId, RequestId},
    lifecycle::ClaimKind,
    limits::{MAX_OPEN_REQUESTS, MAX_SAYS, MAX_WARNINGS},
    request::AgentRequest,
    rules::rules,
    session::{
        attempt::{ClaimSource, ReportStatus},
        command::{ReportBody, Reporter, SessionRejection, StreamSignal},
        decide::{CommandResult, if_new, one_event},
        event::{
            AgentWarned, ClaimMade, CompactionFailed, ContextCompacted, ContextReported, Event,
            FactReported, GoalChanged, OutputOversized, ProgressReported, ReportEvent,
            ReportsRefused, RequestOpened, ResultReported, StreamClosed, StreamHeard, StreamReady,
            StreamRefused, StreamRetrying, StreamSilent, StreamUnreachable, TurnEnded, TurnStarted,
            UsageReported,
        },
        launch::{Cursor, Launch, ReportUsage},
        state::{Progress, Session},
    },
    text::shortened,
    time::Moment,
};

impl Session {
    /// Records an observation on a stream. Everything before the cursor has already been recorded,
    /// so nothing is recorded twice.
    pub(in crate::session) fn observe(
        &self,
        id: LaunchId,
        signal: &StreamSignal,
        cursor: Cursor,
    ) -> CommandResult {
        let launch = self.known_launch(id)?;
        if let StreamSignal::InputWritten { key } = signal {
            // The cursor counts lines of output only. Input has a key instead of a position.
            return self.input_seen(key, id);
        }
        let folded = rules().is_folded(cursor, launch.cursor);
        if folded && *signal != StreamSignal::Closed {
            return Err(SessionRejection::NothingNew);
        }
        match signal.clone() {
            StreamSignal::Ready { thread } => one_event(StreamReady { launch: id, thread, cursor }),
            StreamSignal::TurnStarted { turn } => {
                one_event(TurnStarted { launch: id, turn, cursor })
            }
            StreamSignal::TurnEnded { turn, end, usage, says } => {
                let says = says.map(|says| shortened(&says, MAX_SAYS));
                one_event(TurnEnded { launch: id, turn, end, usage, says, cursor })
            }
            StreamSignal::Refused { reason } => {
                one_event(StreamRefused { launch: id, reason, cursor })
            }
            StreamSignal::Unreachable { reason } => {
                one_event(StreamUnreachable { launch: id, reason, cursor })
            }
            StreamSignal::Goal { active } => {
                if_new(launch.stream.goal != active, GoalChanged { launch: id, active, cursor })
            }
            StreamSignal::MessageRefused { key, reason, busy } => {
                self.decide_refusal(launch, &key, &reason, busy, cursor)
            }
            StreamSignal::Warned { text } => {
                let new = !self.reported.warnings.contains(&text)
                    && self.reported.warnings.len() < MAX_WARNINGS;
                if_new(new, AgentWarned { launch: id, text, cursor })
            }
            StreamSignal::Reported(testimony) => self.report_on_stream(id, &testimony, cursor),
            StreamSignal::ClaimWithResult { kind, text, result } => {
                let status = self.result_status(id);
                let claim = ReportBody::Claim { kind, text };
                let mut events = self.report_on_stream(id, &claim, cursor)?;
                if let [Event::Report(ReportEvent::ReportsRefused(_))] = events.as_slice() {
                    return Ok(events);
                }
                events.push(ResultReported { launch: id, result, status, cursor }.into());
                Ok(events)
            }
            StreamSignal::RequestOpened(_) if self.open_requests().count() >= MAX_OPEN_REQUESTS => {
                Err(SessionRejection::NothingNew)
            }
            StreamSignal::RequestOpened(asked) => one_event(self.request_opened(id, asked, cursor)),
            StreamSignal::ToolCalled { native, call } => {
                self.decide_call(id, &native, &call, Some(cursor))
            }
            StreamSignal::RequestWithdrawn { native } => self.withdraw(id, &native, cursor),
            StreamSignal::ItemFinished { native, done } => {
                self.compare_outcome(id, &native, done, cursor)
            }
            StreamSignal::Progress(progress) => {
                one_event(ProgressReported { launch: id, progress, cursor: Some(cursor) })
            }
            StreamSignal::Usage(usage) => one_event(UsageReported { launch: id, usage, cursor }),
            StreamSignal::Context(context) => if_new(
                self.conversation.context != Some(context),
                ContextReported { launch: id, context, cursor },
            ),
            StreamSignal::Compacted => one_event(ContextCompacted { launch: id, cursor }),
            StreamSignal::CompactionFailed { reason } => {
                let asked = self.compacting().is_some_and(|asked| asked.launch == id);
                if_new(asked, CompactionFailed { launch: id, reason, cursor: Some(cursor) })
            }
            StreamSignal::Retrying { detail } => {
                one_event(StreamRetrying { launch: id, detail, cursor })
            }
            StreamSignal::Oversized { bytes } => {
                one_event(OutputOversized { launch: id, bytes, cursor })
            }
            StreamSignal::InputWritten { .. } => Err(SessionRejection::NothingNew),
            StreamSignal::Closed => {
                if_new(launch.stream.closed.is_none(), StreamClosed { launch: id, cursor })
            }
        }
    }

    pub(in crate::session) fn decide_silence(
        &self,
        id: LaunchId,
        heard_ms: u64,
        now: Moment,
    ) -> CommandResult {
        let launch = self.known_launch(id)?;
        let stream = &launch.stream;
        let due = heard_ms.saturating_add(self.spec.bounds.stale_ms);
        if heard_ms > stream.last_heard.mono_ms {
            return one_event(StreamHeard { launch: id, heard_ms });
        }
        let silent = now.mono_ms >= due && !stream.silent && launch.may_be_running();
        let silent = silent.then(|| StreamSilent { launch: id }.into());
        let events: Vec<Event> = silent.into_iter().chain(self.react_to_silence(now)).collect();
        if events.is_empty() { Err(SessionRejection::NothingNew) } else { Ok(events) }
    }

    /// Records a report. A report is never rejected because of the session's state, only because
    /// the launch has used up its budget.
    pub(in crate::session) fn report(
        &self,
        from: Reporter,
        testimony: &ReportBody,
        cursor: Option<Cursor>,
    ) -> CommandResult {
        let launch = match from {
            Reporter::Launch(launch) | Reporter::DropBox(launch) => {
                Some(self.known_launch(launch)?.id)
            }
            Reporter::Operator => None,
        };
        let source = match from {
            Reporter::Launch(_) => ClaimSource::Agent,
            Reporter::DropBox(_) => ClaimSource::DropBox,
            Reporter::Operator => ClaimSource::Operator,
        };
        let counts = cursor.is_none() || !matches!(testimony, ReportBody::Progress(_));
        if counts
            && let Some(launch) = launch
            && !self.known_launch(launch)?.reports.has_room_for(testimony.len())
        {
            return Err(SessionRejection::ReportBudget { launch });
        }
        let status = self.report_status(launch, testimony);
        match testimony.clone() {
            ReportBody::Claim { kind, text } => {
                one_event(ClaimMade { launch, kind, source, text, status, cursor })
            }
            ReportBody::Fact { kind, value } => {
                one_event(FactReported { launch, fact: kind, value, status, cursor })
            }
            ReportBody::Progress(progress) => self.record_progress(launch, progress, cursor),
        }
    }

    /// Records a report that arrived on the stream. If it exceeds the budget, only the fact that it
    /// was rejected is recorded.
    fn report_on_stream(
        &self,
        id: LaunchId,
        testimony: &ReportBody,
        cursor: Cursor,
    ) -> CommandResult {
        match self.report(Reporter::Launch(id), testimony, Some(cursor)) {
            Err(SessionRejection::ReportBudget { launch }) => {
                self.mark_reports_refused(self.known_launch(launch)?)
            }
            decided => decided,
        }
    }

    /// Records, once, that a launch has used up its report budget.
    pub(in crate::session) fn mark_reports_refused(&self, launch: &Launch) -> CommandResult {
        let ReportUsage { count: reports, bytes, refused } = launch.reports;
        if_new(!refused, ReportsRefused { launch: launch.id, reports, bytes })
    }

    /// Records progress. Progress reported by an older launch is ignored.
    fn record_progress(
        &self,
        launch: Option<LaunchId>,
        progress: Progress,
        cursor: Option<Cursor>,
    ) -> CommandResult {
        let reporter = self.current_launch().ok_or(SessionRejection::NotRunning)?;
        if launch.is_some_and(|launch| launch != reporter.id) {
            return Err(SessionRejection::NothingNew);
        }
        one_event(ProgressReported { launch: reporter.id, progress, cursor })
    }

    fn result_status(&self, launch: LaunchId) -> ReportStatus {
        let current = self.current_launch().is_some_and(|one| one.id == launch);
        match (current, self.attempt().is_sealed()) {
            (false, _) => ReportStatus::Recorded,
            (true, true) => ReportStatus::RecordedLate,
            (true, false) => ReportStatus::Applied,
        }
    }

    fn report_status(&self, launch: Option<LaunchId>, testimony: &ReportBody) -> ReportStatus {
        let current = self.current_launch().map(|launch| launch.id);
        if rules().is_fenced_off(launch, current) {
            return ReportStatus::Recorded;
        }
        let sealed = rules().is_late_claim(self.attempt().is_sealed());
        match testimony {
            ReportBody::Fact { .. } | ReportBody::Progress(_) => ReportStatus::Applied,
            ReportBody::Claim { kind: ClaimKind::None | ClaimKind::Working, .. } => {
                let over = sealed || self.has_ended();
                if over { ReportStatus::Recorded } else { ReportStatus::Applied }
            }
            ReportBody::Claim {
                kind: ClaimKind::NeedsInput | ClaimKind::Completed | ClaimKind::Failed,
                ..
            } => {
                if sealed {
                    ReportStatus::RecordedLate
                } else {
                    ReportStatus::Applied
                }
            }
        }
    }

    pub(in crate::session) fn request_opened(
        &self,
        launch: LaunchId,
        asked: AgentRequest,
        cursor: Cursor,
    ) -> RequestOpened {
        let same = |request: &&crate::request::Request| {
            request.launch == launch && request.asked.native == asked.native
        };
        let (request, revision) = match self.requests.iter().find(same) {
            Some(earlier) => (earlier.id, earlier.revision + 1),
            None => {
                let no = self.requests.len() as u32 + 1;
                (RequestId { session: self.id, no }, 1)
            }
        };
        RequestOpened { request, launch, asked, revision, cursor }
    }
}
