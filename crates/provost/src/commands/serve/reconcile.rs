//! One pass of `serve`: reads the runs and the tracker, then opens, cancels and cleans up runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
};

use provost_api::{ApiError, CancelRequest, Client, ErrorCode, RequestRow, RunRow, RunsReply};
use provost_tracker::{
    issue::Issue,
    schedule::{
        self, DispatchPlan, DispatchRules, HoldReason, IssueRunStop, IssueStart, RunHistory,
        RunStopReason,
    },
    trackers,
};
use serde_json::{Value, json};

use super::{
    event_log::{IssueRef, ServeEvent},
    open, run_state,
    source::{ProjectChange, WorkflowChange, WorkflowSource},
};
use crate::{clock, context::Context, error::Error, target, ui};

/// The maximum number of finished runs to read at startup. No real ledger contains more finished runs.
const MAX_INITIAL_RUNS: usize = 1_000_000;

/// The maximum number of finished runs to read after startup. Fewer runs than this limit end
/// between two passes.
const MAX_RECENT_RUNS: usize = 500;

/// The state of `serve` for one workflow.
pub(super) struct TrackerServer<'a> {
    context: &'a Context,
    pub(super) source: WorkflowSource,
    work: RunHistory,
    /// The rows of open runs as last reported, by ID.
    open_runs: BTreeMap<String, RunRow>,
    /// Runs to clean up once they have ended.
    to_clean: BTreeSet<String>,
    /// Issues that were active in the last pass.
    active: BTreeSet<String>,
    /// Issues that used to be active and whose current state must be read.
    inactive: BTreeSet<String>,
    /// The events that have already been reported. Each event is reported only once.
    reported: ReportedEvents,
    started: bool,
    failed: bool,
}

#[derive(Default)]
struct ReportedEvents {
    requests: BTreeSet<String>,
    waiting_reasons: BTreeMap<String, String>,
    warnings: BTreeSet<String>,
    /// The tracker's errors in this pass and in the previous one.
    failures: BTreeSet<String>,
    failures_before: BTreeSet<String>,
}

impl<'a> TrackerServer<'a> {
    pub(super) fn new(context: &'a Context, source: WorkflowSource) -> Self {
        TrackerServer {
            context,
            source,
            work: RunHistory::default(),
            open_runs: BTreeMap::new(),
            to_clean: BTreeSet::new(),
            active: BTreeSet::new(),
            inactive: BTreeSet::new(),
            reported: ReportedEvents::default(),
            started: false,
            failed: false,
        }
    }

    /// Returns a success code if there were no failures in the last pass.
    pub(super) fn outcome(&self) -> ExitCode {
        ExitCode::from(if self.failed { ErrorCode::Failed.exit_code() } else { 0 })
    }

    /// Returns the IDs of the open runs.
    pub(super) fn open_run_ids(&self) -> Vec<String> {
        self.open_runs.keys().cloned().collect()
    }

    pub(super) fn report(&self, news: &ServeEvent) -> Result<(), Error> {
        if self.context.ui.json {
            self.context.ui.value(&news.json(clock::now_ms()))
        } else {
            self.context.ui.line(&news.line())
        }
    }

    /// Performs one pass over the runs and the tracker. Returns the time of the next retry, if any.
    pub(super) fn pass(&mut self) -> Result<Option<u64>, Error> {
        self.failed = false;
        self.reported.failures_before = std::mem::take(&mut self.reported.failures);
        self.reload()?;
        let client = self.context.daemon()?;
        self.refresh_runs(&client)?;
        let rules = self.source.workflow.config.rules();
        self.reconcile(&client, &rules)?;
        self.sweep(&rules)?;
        self.clean(&client)?;
        self.started = true;
        if self.source.is_broken() {
            return Ok(None);
        }
        let Some(candidates) = self.candidates(&rules)? else { return Ok(None) };
        self.check_inactive(&rules, &candidates)?;
        self.clean(&client)?;
        self.work.record_active_issues(&rules, &candidates);
        let plan = schedule::plan_dispatch(&rules, &self.work, &candidates, now());
        self.report_waiting(&plan)?;
        for start in &plan.start {
            self.start(start)?;
        }
        Ok(schedule::plan_dispatch(&rules, &self.work, &candidates, now()).wake_ms)
    }

    fn reload(&mut self) -> Result<(), Error> {
        match self.source.refresh_project(self.context) {
            ProjectChange::None => {}
            ProjectChange::Trusted => self.work.forget_failed_opens(),
            ProjectChange::Untrusted(message) => {
                self.report(&ServeEvent::ChangeNotTrusted { message })?
            }
        }
        match self.source.refresh(self.context) {
            WorkflowChange::None if self.started => return Ok(()),
            WorkflowChange::None => {}
            WorkflowChange::Reloaded => {
                self.work.forget_failed_opens();
                self.reported.warnings.clear();
                self.report(&ServeEvent::Reloaded(self.source.summary()))?;
            }
            WorkflowChange::Invalid(why) => {
                self.failed = true;
                let (class, message) = (why.class(), why.to_string());
                return self.report(&ServeEvent::NotReloaded { class, message });
            }
        }
        for message in self.source.workflow.warnings.clone() {
            self.report(&ServeEvent::Warning { message })?;
        }
        Ok(())
    }

    /// Reads the runs from the daemon, which is the only source of state.
    fn refresh_runs(&mut self, client: &Client) -> Result<(), Error> {
        let limit = if self.started { MAX_RECENT_RUNS } else { MAX_INITIAL_RUNS };
        let path = target::with_query("/v1/runs", &[("limit", Some(limit.to_string()))]);
        let listed: RunsReply = client.get(&path)?;
        let name = self.source.name();
        let watches = self.source.workflow.config.codex.silence_ms.is_some();
        for row in listed.runs {
            let silent = |session: &str| watches && run_state::is_stalled(client, session);
            let Some((issue, run)) = run_state::from_row(&row, &name, silent) else { continue };
            let of = IssueRef { issue: issue.clone(), identifier: run.identifier.clone() };
            self.report_run(of, row)?;
            self.work.record_run(&issue, run);
        }
        Ok(())
    }

    fn report_run(&mut self, of: IssueRef, row: RunRow) -> Result<(), Error> {
        if row.sealed {
            return match self.open_runs.remove(&row.id) {
                Some(_) => self.report(&ServeEvent::Ended { of, row: Box::new(row) }),
                None => Ok(()),
            };
        }
        if self.open_runs.insert(row.id.clone(), row.clone()).is_none() {
            self.report(&ServeEvent::Continues { of: of.clone(), row: Box::new(row.clone()) })?;
        }
        if let Some(approval) = &row.approval {
            let waits = format!("{}-{}", row.id, approval.commit.as_deref().unwrap_or("plan"));
            if self.reported.requests.insert(waits) {
                let command = format!("provost approve {}", ui::short_id(&row.id));
                self.report(&ServeEvent::NeedsInput {
                    of: of.clone(),
                    row: Box::new(row.clone()),
                    command,
                })?;
            }
        }
        for request in &row.requests {
            if self.reported.requests.insert(request.id.clone()) {
                let command = RequestRow::answer_command(request);
                self.report(&ServeEvent::NeedsInput {
                    of: of.clone(),
                    row: Box::new(row.clone()),
                    command,
                })?;
            }
        }
        Ok(())
    }

    /// Cancels runs whose issues are no longer active.
    fn reconcile(&mut self, client: &Client, rules: &DispatchRules) -> Result<(), Error> {
        let ids: Vec<String> = self.work.active_runs().map(|(issue, _)| issue.to_owned()).collect();
        let refreshed = match self.source.tracker.issues_by_ids(&ids) {
            Ok(issues) => Some(by_id(issues)),
            Err(why) => {
                self.report_tracker_error(&why)?;
                None
            }
        };
        for stop in schedule::runs_to_stop(rules, &self.work, refreshed.as_ref()) {
            self.stop(client, &stop)?;
        }
        Ok(())
    }

    fn stop(&mut self, client: &Client, stop: &IssueRunStop) -> Result<(), Error> {
        let request = CancelRequest { because: stop.why.to_reason() };
        let path = target::run_action_path(&stop.run, "cancel");
        match client.post::<Value>(&path, &request, &self.context.idempotency_key(None)) {
            // The run has ended in the meantime. The next pass reads its outcome.
            Err(error) if error.code == ErrorCode::Refused => return Ok(()),
            answer => answer?,
        };
        if RunStopReason::removes_leftovers(&stop.why) {
            self.to_clean.insert(stop.run.clone());
        }
        let of = IssueRef { issue: stop.issue.clone(), identifier: stop.identifier.clone() };
        self.report(&ServeEvent::Stopping { of, run: stop.run.clone(), why: stop.why.to_string() })
    }

    /// At startup, finds runs to clean up because their issues are closed.
    fn sweep(&mut self, rules: &DispatchRules) -> Result<(), Error> {
        if self.started {
            return Ok(());
        }
        match self.source.tracker.issues_in_states(&rules.terminal) {
            Ok(found) => {
                self.to_clean.extend(schedule::runs_to_clean(rules, &self.work, &found.issues))
            }
            Err(why) => self.report_tracker_error(&why)?,
        }
        Ok(())
    }

    /// Finds runs to clean up because their issues became inactive. Reads only issues that were
    /// active before, because a tracker may contain many others.
    fn check_inactive(&mut self, rules: &DispatchRules, candidates: &[Issue]) -> Result<(), Error> {
        let now: BTreeSet<String> = candidates.iter().map(|issue| issue.id.clone()).collect();
        let before = std::mem::replace(&mut self.active, now);
        self.inactive.extend(before);
        self.inactive.retain(|issue| !self.active.contains(issue));
        self.inactive
            .retain(|issue| self.work.runs_of(issue).iter().any(schedule::IssueRun::has_ended));
        let ids: Vec<String> = self.inactive.iter().cloned().collect();
        match self.source.tracker.issues_by_ids(&ids) {
            Ok(issues) => {
                self.inactive.clear();
                self.to_clean.extend(schedule::runs_to_clean(rules, &self.work, &issues));
            }
            // Issues that could not be read are read again in the next pass.
            Err(why) => self.report_tracker_error(&why)?,
        }
        Ok(())
    }

    /// Removes the worktrees of finished runs if their issues are closed. Worktrees with unsaved
    /// work are kept.
    fn clean(&mut self, client: &Client) -> Result<(), Error> {
        let ended: Vec<String> = self
            .to_clean
            .iter()
            .filter(|run| !self.open_runs.contains_key(*run))
            .cloned()
            .collect();
        for run in ended {
            let body = json!({"apply": true, "runs": [run]});
            let reply: Value = client.post("/v1/gc", &body, &self.context.idempotency_key(None))?;
            let (removed, kept) = (paths(&reply, "removed"), paths(&reply, "kept"));
            self.to_clean.remove(&run);
            if !removed.is_empty() || !kept.is_empty() {
                self.report(&ServeEvent::Cleaned { run, removed, kept })?;
            }
        }
        Ok(())
    }

    /// Reads the active issues. Returns `None` if the tracker failed.
    fn candidates(&mut self, rules: &DispatchRules) -> Result<Option<Vec<Issue>>, Error> {
        match self.source.tracker.issues_in_states(&rules.active) {
            Ok(found) => {
                for message in found.warnings {
                    if self.reported.warnings.insert(message.clone()) {
                        self.report(&ServeEvent::Warning { message })?;
                    }
                }
                Ok(Some(found.issues))
            }
            Err(why) => {
                self.report_tracker_error(&why)?;
                Ok(None)
            }
        }
    }

    /// Reports a tracker error once, and not again while it persists.
    fn report_tracker_error(&mut self, why: &trackers::Error) -> Result<(), Error> {
        self.failed = true;
        let (category, message) = (why.category(), why.to_string());
        let known = self.reported.failures_before.contains(&message);
        if self.reported.failures.insert(message.clone()) && !known {
            self.report(&ServeEvent::TrackerFailed { category, message })
        } else {
            Ok(())
        }
    }

    /// Reports why issues are waiting, but each reason only once.
    fn report_waiting(&mut self, plan: &DispatchPlan) -> Result<(), Error> {
        let mut reasons = BTreeMap::new();
        for held in &plan.held {
            let why = held.why.to_string();
            if self.reported.waiting_reasons.get(&held.issue) != Some(&why)
                && is_reportable(&held.why)
            {
                let of =
                    IssueRef { issue: held.issue.clone(), identifier: held.identifier.clone() };
                self.report(&ServeEvent::IssueWaits { of, why: why.clone() })?;
            }
            reasons.insert(held.issue.clone(), why);
        }
        self.reported.waiting_reasons = reasons;
        Ok(())
    }

    /// Starts a run. If this fails, it is retried later, and other issues can still start.
    fn start(&mut self, start: &IssueStart) -> Result<(), Error> {
        let issue = &start.issue;
        let of = IssueRef { issue: issue.id.clone(), identifier: issue.identifier.clone() };
        match open::open(self.context, &self.source, start) {
            Ok(row) => self.opened(of, start, row),
            Err(error) if error.code == ErrorCode::Unreachable => Err(Error::Api(error)),
            Err(ApiError { message, .. }) => {
                self.failed = true;
                self.work.record_failed_open(&issue.id, now(), &message);
                self.report(&ServeEvent::NotOpened { of, attempt: start.attempt, message })
            }
        }
    }

    fn opened(&mut self, of: IssueRef, start: &IssueStart, row: RunRow) -> Result<(), Error> {
        if let Some((issue, run)) = run_state::from_row(&row, &self.source.name(), |_| false) {
            self.work.record_run(&issue, run);
            self.open_runs.insert(row.id.clone(), row.clone());
        }
        for warning in &row.warnings {
            if self.reported.warnings.insert(warning.clone()) {
                self.report(&ServeEvent::Warning { message: warning.clone() })?;
            }
        }
        let (title, url) = (start.issue.title.clone(), start.issue.url.clone());
        let (attempt, row) = (start.attempt, Box::new(row));
        self.report(&ServeEvent::Opened { of, title, url, attempt, row })
    }
}

/// Whether to report why an issue is waiting. Waiting for a slot is not reported, because the later start of the run is
/// reported.
fn is_reportable(why: &HoldReason) -> bool {
    match why {
        HoldReason::NoSlot | HoldReason::NoSlotInState(_) => false,
        HoldReason::NotDispatchable
        | HoldReason::MissingLabel(_)
        | HoldReason::Scheduled { .. }
        | HoldReason::RetriesExhausted { .. }
        | HoldReason::Delivered
        | HoldReason::Cancelled => true,
    }
}

fn by_id(issues: Vec<Issue>) -> BTreeMap<String, Issue> {
    issues.into_iter().map(|issue| (issue.id.clone(), issue)).collect()
}

fn now() -> u64 {
    u64::try_from(clock::now_ms()).unwrap_or(0)
}

/// Returns the paths in one of the lists in the clean-up reply. For each path that was kept, the reason is included.
fn paths(reply: &Value, list: &str) -> Vec<String> {
    let text = |item: &Value| {
        let path = item["path"].as_str()?;
        Some(match item["reason"].as_str() {
            Some(reason) => format!("{path} ({reason})"),
            None => path.to_owned(),
        })
    };
    reply[list].as_array().into_iter().flatten().filter_map(text).collect()
}
