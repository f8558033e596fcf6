//! One pass: reads the runs and the tracker, and acts on both.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
};

use provost_api::{ApiError, CancelRequest, Client, Code, RequestRow, RunRow};
use provost_tracker::{
    issue::Issue,
    schedule::{self, HeldWhy, Plan, Rules, Start, Stop, StopWhy, Work},
    trackers,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    news::{News, Of},
    open, seen,
    source::{Change, ProjectChange, Source},
};
use crate::{clock, context::Context, error::Error, target, ui};

/// The maximum number of ended runs read when serving begins: in effect all.
const ALL: usize = 1_000_000;

/// The maximum number of ended runs read later: fewer end between two passes.
const NEWEST: usize = 500;

/// The served workflow and everything known about it.
pub(super) struct Server<'a> {
    context: &'a Context,
    pub(super) source: Source,
    work: Work,
    /// The last reported rows of open runs, by ID.
    going: BTreeMap<String, RunRow>,
    /// Runs to clean up once they have ended.
    to_clean: BTreeSet<String>,
    /// Issues that were active in the last pass.
    active: BTreeSet<String>,
    /// Issues that are no longer active, and whose state must be read.
    left: BTreeSet<String>,
    /// Events already reported, so that each is reported once.
    told: Told,
    begun: bool,
    failed: bool,
}

#[derive(Default)]
struct Told {
    requests: BTreeSet<String>,
    held: BTreeMap<String, String>,
    warnings: BTreeSet<String>,
    /// The tracker's errors in this pass, and in the previous one.
    failures: BTreeSet<String>,
    failures_before: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Listed {
    runs: Vec<RunRow>,
}

impl<'a> Server<'a> {
    pub(super) fn new(context: &'a Context, source: Source) -> Self {
        Server {
            context,
            source,
            work: Work::default(),
            going: BTreeMap::new(),
            to_clean: BTreeSet::new(),
            active: BTreeSet::new(),
            left: BTreeSet::new(),
            told: Told::default(),
            begun: false,
            failed: false,
        }
    }

    /// Returns success if the newest pass completed everything.
    pub(super) fn outcome(&self) -> ExitCode {
        ExitCode::from(if self.failed { Code::Failed.exit_code() } else { 0 })
    }

    /// Returns the open runs.
    pub(super) fn going(&self) -> Vec<String> {
        self.going.keys().cloned().collect()
    }

    pub(super) fn tell(&self, news: &News) -> Result<(), Error> {
        if self.context.ui.json {
            self.context.ui.value(&news.json(clock::now_ms()))
        } else {
            self.context.ui.line(&news.line())
        }
    }

    /// Runs one pass over the runs and the tracker. Returns the time at which something is due next.
    pub(super) fn pass(&mut self) -> Result<Option<u64>, Error> {
        self.failed = false;
        self.told.failures_before = std::mem::take(&mut self.told.failures);
        self.reload()?;
        let client = self.context.daemon()?;
        self.look_at_runs(&client)?;
        let rules = self.source.workflow.config.rules();
        self.reconcile(&client, &rules)?;
        self.sweep(&rules)?;
        self.clean(&client)?;
        self.begun = true;
        if self.source.is_broken() {
            return Ok(None);
        }
        let Some(candidates) = self.candidates(&rules)? else { return Ok(None) };
        self.look_at_left(&rules, &candidates)?;
        self.clean(&client)?;
        self.work.see_active(&rules, &candidates);
        let plan = schedule::plan(&rules, &self.work, &candidates, now());
        self.tell_held(&plan)?;
        for start in &plan.start {
            self.start(start)?;
        }
        Ok(schedule::plan(&rules, &self.work, &candidates, now()).wake_ms)
    }

    fn reload(&mut self) -> Result<(), Error> {
        match self.source.refresh_project(self.context) {
            ProjectChange::None => {}
            ProjectChange::Taken => self.work.forget_unopened(),
            ProjectChange::NotTaken(message) => self.tell(&News::NotTaken { message })?,
        }
        match self.source.refresh(self.context) {
            Change::None if self.begun => return Ok(()),
            Change::None => {}
            Change::Taken => {
                self.work.forget_unopened();
                self.told.warnings.clear();
                self.tell(&News::Reloaded(self.source.about()))?;
            }
            Change::Broken(why) => {
                self.failed = true;
                let (class, message) = (why.class(), why.to_string());
                return self.tell(&News::NotReloaded { class, message });
            }
        }
        for message in self.source.workflow.warnings.clone() {
            self.tell(&News::Warning { message })?;
        }
        Ok(())
    }

    /// Reads the runs from the daemon, which are the only memory.
    fn look_at_runs(&mut self, client: &Client) -> Result<(), Error> {
        let limit = if self.begun { NEWEST } else { ALL };
        let path = target::query("/v1/runs", &[("limit", Some(limit.to_string()))]);
        let listed: Listed = client.get(&path)?;
        let name = self.source.name();
        let watches = self.source.workflow.config.codex.silence_ms.is_some();
        for row in listed.runs {
            let silent = |session: &str| watches && seen::is_stalled(client, session);
            let Some((issue, run)) = seen::of_row(&row, &name, silent) else { continue };
            let of = Of { issue: issue.clone(), identifier: run.identifier.clone() };
            self.tell_run(of, row)?;
            self.work.take(&issue, run);
        }
        Ok(())
    }

    fn tell_run(&mut self, of: Of, row: RunRow) -> Result<(), Error> {
        if row.sealed {
            return match self.going.remove(&row.id) {
                Some(_) => self.tell(&News::Ended { of, row: Box::new(row) }),
                None => Ok(()),
            };
        }
        if self.going.insert(row.id.clone(), row.clone()).is_none() {
            self.tell(&News::GoesOn { of: of.clone(), row: Box::new(row.clone()) })?;
        }
        if let Some(approval) = &row.approval {
            let waits = format!("{}-{}", row.id, approval.commit.as_deref().unwrap_or("plan"));
            if self.told.requests.insert(waits) {
                let command = format!("provost approve {}", ui::short(&row.id));
                self.tell(&News::Asks { of: of.clone(), row: Box::new(row.clone()), command })?;
            }
        }
        for request in &row.requests {
            if self.told.requests.insert(request.id.clone()) {
                let command = RequestRow::answer_command(request);
                self.tell(&News::Asks { of: of.clone(), row: Box::new(row.clone()), command })?;
            }
        }
        Ok(())
    }

    /// Cancels the runs whose issues are no longer active.
    fn reconcile(&mut self, client: &Client, rules: &Rules) -> Result<(), Error> {
        let ids: Vec<String> = self.work.going().map(|(issue, _)| issue.to_owned()).collect();
        let refreshed = match self.source.tracker.by_ids(&ids) {
            Ok(issues) => Some(by_id(issues)),
            Err(why) => {
                self.tell_tracker(&why)?;
                None
            }
        };
        for stop in schedule::reconcile(rules, &self.work, refreshed.as_ref()) {
            self.stop(client, &stop)?;
        }
        Ok(())
    }

    fn stop(&mut self, client: &Client, stop: &Stop) -> Result<(), Error> {
        let request = CancelRequest { because: stop.why.because() };
        let path = target::run_action(&stop.run, "cancel");
        match client.post::<Value>(&path, &request, &self.context.key(None)) {
            // It ended meanwhile; the next pass sees how.
            Err(error) if error.code == Code::Refused => return Ok(()),
            answer => answer?,
        };
        if StopWhy::cleans(&stop.why) {
            self.to_clean.insert(stop.run.clone());
        }
        let of = Of { issue: stop.issue.clone(), identifier: stop.identifier.clone() };
        self.tell(&News::Stopping { of, run: stop.run.clone(), why: stop.why.to_string() })
    }

    /// Finds the leftovers of runs whose issues are closed, when serving begins.
    fn sweep(&mut self, rules: &Rules) -> Result<(), Error> {
        if self.begun {
            return Ok(());
        }
        match self.source.tracker.in_states(&rules.terminal) {
            Ok(found) => self.to_clean.extend(schedule::sweep(rules, &self.work, &found.issues)),
            Err(why) => self.tell_tracker(&why)?,
        }
        Ok(())
    }

    /// Does the same for issues that were active until now; only these are read, because there may be many others.
    fn look_at_left(&mut self, rules: &Rules, candidates: &[Issue]) -> Result<(), Error> {
        let now: BTreeSet<String> = candidates.iter().map(|issue| issue.id.clone()).collect();
        let before = std::mem::replace(&mut self.active, now);
        self.left.extend(before);
        self.left.retain(|issue| !self.active.contains(issue));
        self.left.retain(|issue| self.work.runs_of(issue).iter().any(schedule::Run::has_ended));
        let ids: Vec<String> = self.left.iter().cloned().collect();
        match self.source.tracker.by_ids(&ids) {
            Ok(issues) => {
                self.left.clear();
                self.to_clean.extend(schedule::sweep(rules, &self.work, &issues));
            }
            // They are read again in the next pass.
            Err(why) => self.tell_tracker(&why)?,
        }
        Ok(())
    }

    /// Removes unneeded worktrees without work in them, of ended runs whose issues are closed.
    fn clean(&mut self, client: &Client) -> Result<(), Error> {
        let ended: Vec<String> =
            self.to_clean.iter().filter(|run| !self.going.contains_key(*run)).cloned().collect();
        for run in ended {
            let body = json!({"apply": true, "runs": [run]});
            let reply: Value = client.post("/v1/gc", &body, &self.context.key(None))?;
            let (removed, kept) = (paths(&reply, "removed"), paths(&reply, "kept"));
            self.to_clean.remove(&run);
            if !removed.is_empty() || !kept.is_empty() {
                self.tell(&News::Cleaned { run, removed, kept })?;
            }
        }
        Ok(())
    }

    /// Reads the active issues; None if the tracker failed.
    fn candidates(&mut self, rules: &Rules) -> Result<Option<Vec<Issue>>, Error> {
        match self.source.tracker.in_states(&rules.active) {
            Ok(found) => {
                for message in found.warnings {
                    if self.told.warnings.insert(message.clone()) {
                        self.tell(&News::Warning { message })?;
                    }
                }
                Ok(Some(found.issues))
            }
            Err(why) => {
                self.tell_tracker(&why)?;
                Ok(None)
            }
        }
    }

    /// Reports a tracker error once for as long as it persists.
    fn tell_tracker(&mut self, why: &trackers::Error) -> Result<(), Error> {
        self.failed = true;
        let (category, message) = (why.category(), why.to_string());
        let known = self.told.failures_before.contains(&message);
        if self.told.failures.insert(message.clone()) && !known {
            self.tell(&News::TrackerFailed { category, message })
        } else {
            Ok(())
        }
    }

    /// Reports why issues wait, each reason once.
    fn tell_held(&mut self, plan: &Plan) -> Result<(), Error> {
        let mut told = BTreeMap::new();
        for held in &plan.held {
            let why = held.why.to_string();
            if self.told.held.get(&held.issue) != Some(&why) && worth_telling(&held.why) {
                let of = Of { issue: held.issue.clone(), identifier: held.identifier.clone() };
                self.tell(&News::Held { of, why: why.clone() })?;
            }
            told.insert(held.issue.clone(), why);
        }
        self.told.held = told;
        Ok(())
    }

    /// Starts a run. A failed start is retried later and does not block other starts.
    fn start(&mut self, start: &Start) -> Result<(), Error> {
        let issue = &start.issue;
        let of = Of { issue: issue.id.clone(), identifier: issue.identifier.clone() };
        match open::open(self.context, &self.source, start) {
            Ok(row) => self.opened(of, start, row),
            Err(error) if error.code == Code::Unreachable => Err(Error::Api(error)),
            Err(ApiError { message, .. }) => {
                self.failed = true;
                self.work.could_not_open(&issue.id, now(), &message);
                self.tell(&News::NotOpened { of, attempt: start.attempt, message })
            }
        }
    }

    fn opened(&mut self, of: Of, start: &Start, row: RunRow) -> Result<(), Error> {
        if let Some((issue, run)) = seen::of_row(&row, &self.source.name(), |_| false) {
            self.work.take(&issue, run);
            self.going.insert(row.id.clone(), row.clone());
        }
        for warning in &row.warnings {
            if self.told.warnings.insert(warning.clone()) {
                self.tell(&News::Warning { message: warning.clone() })?;
            }
        }
        let (title, url) = (start.issue.title.clone(), start.issue.url.clone());
        let (attempt, row) = (start.attempt, Box::new(row));
        self.tell(&News::Opened { of, title, url, attempt, row })
    }
}

/// Whether to report why an issue waits. Waiting for a slot is not reported, because the start will be.
fn worth_telling(why: &HeldWhy) -> bool {
    match why {
        HeldWhy::NoSlot | HeldWhy::NoSlotInState(_) => false,
        HeldWhy::NotDispatchable
        | HeldWhy::Lacks(_)
        | HeldWhy::Later { .. }
        | HeldWhy::UsedUp { .. }
        | HeldWhy::Delivered
        | HeldWhy::Cancelled => true,
    }
}

fn by_id(issues: Vec<Issue>) -> BTreeMap<String, Issue> {
    issues.into_iter().map(|issue| (issue.id.clone(), issue)).collect()
}

fn now() -> u64 {
    u64::try_from(clock::now_ms()).unwrap_or(0)
}

/// Returns the paths in a list of the clean-up reply, with the reason for each kept one.
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
