//! Applies the agent's reports, requests and tool calls.

use crate::{
    ids::LaunchId,
    lifecycle::ClaimKind,
    limits::{MAX_FACTS_KEPT, MAX_LATE_CLAIMS_KEPT, MAX_TEXT_KEPT},
    request::{Request, RequestStatus},
    session::{
        attempt::{Claim, ReportStatus},
        decide::answer_message,
        event::{ReportEvent, RequestEvent, RequestOpened, ToolEvent},
        hook::HookEvent,
        state::{Fact, Session},
    },
    text::shortened,
    time::Moment,
};

impl Session {
    /// Applies a report of the agent.
    pub(super) fn apply_report(&mut self, at: Moment, event: &ReportEvent) {
        match event {
            ReportEvent::ClaimMade(e) => {
                self.advance_cursor(e.launch, e.cursor, at);
                if let Some(launch) = e.launch {
                    self.count_report(launch, e.text.as_deref().map_or(0, str::len));
                }
                let claim = Claim {
                    kind: e.kind,
                    source: e.source,
                    text: e.text.clone(),
                    launch: e.launch,
                    at,
                };
                self.take_claim(claim, e.status, at);
            }
            ReportEvent::FactReported(e) => {
                self.advance_cursor(e.launch, e.cursor, at);
                self.set_awaits_input(e.launch, false);
                if let Some(launch) = e.launch {
                    self.count_report(launch, e.value.len());
                }
                if e.status == ReportStatus::Applied {
                    let value = shortened(&e.value, MAX_TEXT_KEPT);
                    push_bounded(
                        &mut self.reported.facts,
                        Fact { kind: e.fact, value, at },
                        MAX_FACTS_KEPT,
                    );
                }
            }
            ReportEvent::ResultReported(e) => {
                self.advance_cursor(Some(e.launch), Some(e.cursor), at);
                if e.status == ReportStatus::Applied {
                    self.attempt_mut().result = Some(e.result.clone());
                }
            }
            ReportEvent::ProgressReported(e) => {
                self.set_awaits_input(Some(e.launch), false);
                // Progress on the stream is already limited to one report per second.
                if e.cursor.is_none() {
                    self.count_report(e.launch, 0);
                }
                self.record_heard(e.launch, at, e.cursor.unwrap_or_default());
                self.reported.progress = Some(e.progress);
            }
            ReportEvent::ReportsRefused(e) => {
                self.update_launch(e.launch, |launch| launch.reports.refused = true);
            }
            ReportEvent::TeamCommandCounted(e) => {
                self.count_report(e.launch, usize::try_from(e.bytes).unwrap_or(usize::MAX));
            }
        }
    }

    /// Applies an event about one of the agent's requests.
    pub(super) fn apply_request(&mut self, at: Moment, event: &RequestEvent) {
        match event {
            RequestEvent::RequestOpened(e) => self.open_request(e, at),
            RequestEvent::RequestSettled(e) => {
                if let Some(request) = self.requests.iter_mut().find(|r| r.id == e.request) {
                    request.status = e.status;
                    let launch = request.launch;
                    self.advance_cursor(Some(launch), e.cursor, at);
                }
            }
            RequestEvent::RequestContradicted(e) => {
                if let Some(request) = self.requests.iter_mut().find(|r| r.id == e.request) {
                    request.contradicted_by_outcome = Some(e.done);
                    let launch = request.launch;
                    self.advance_cursor(Some(launch), Some(e.cursor), at);
                }
            }
            RequestEvent::RequestRuled(e) => {
                let ruled = self.requests.iter_mut().find(|request| request.id == e.request);
                if let Some(request) = ruled {
                    request.status = RequestStatus::Answered;
                    let answer = answer_message(request, &e.reply);
                    self.queue(answer.key, answer.kind, answer.text, answer.request, answer.reply);
                }
            }
        }
    }

    /// Applies an event about a tool call.
    pub(super) fn apply_tool(&mut self, at: Moment, event: &ToolEvent) {
        match event {
            ToolEvent::ToolCalled(e) => self.record_call(e, at),
            ToolEvent::ToolAnswered(e) => self.queue_call_result(e),
        }
    }

    /// Counts a report against its launch's budget.
    pub(in crate::session) fn count_report(&mut self, launch: LaunchId, bytes: usize) {
        self.update_launch(launch, |launch| launch.reports.add(bytes));
    }

    fn take_claim(&mut self, claim: Claim, status: ReportStatus, at: Moment) {
        match status {
            ReportStatus::Applied => {
                self.set_awaits_input(claim.launch, claim.kind == ClaimKind::NeedsInput);
                self.attempt_mut().claim = Some(claim);
            }
            ReportStatus::Recorded => {}
            ReportStatus::RecordedLate => {
                let text = claim.text.map(|text| shortened(&text, MAX_TEXT_KEPT));
                let claim = Claim { text, ..claim };
                push_bounded(&mut self.attempt_mut().late_claims, claim, MAX_LATE_CLAIMS_KEPT);
                self.queue_hook(HookEvent::LateClaim, at);
            }
        }
    }

    fn open_request(&mut self, e: &RequestOpened, at: Moment) {
        self.record_heard(e.launch, at, e.cursor);
        let current = self.current_launch().is_some_and(|launch| launch.id == e.launch);
        let known = self.requests.iter().any(|request| request.id == e.request);
        // Requests from an older launch are void, because that launch no longer waits for answers.
        // Requests that it made earlier stay unchanged.
        let fate = match (current, known) {
            (true, _) => RequestStatus::Open,
            (false, false) => RequestStatus::Void,
            (false, true) => return,
        };
        self.requests.retain(|request| request.id != e.request);
        self.requests.push(Request {
            id: e.request,
            launch: e.launch,
            asked: e.asked.clone(),
            revision: e.revision,
            at,
            status: fate,
            allowed: None,
            contradicted_by_outcome: None,
        });
    }
}

/// Adds an item, and drops the oldest items if there are more than `limit`.
fn push_bounded<T>(items: &mut Vec<T>, item: T, limit: usize) {
    items.push(item);
    items.drain(..items.len().saturating_sub(limit));
}
