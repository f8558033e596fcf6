//! The wait loop. It wakes up on events, at the end of the silence window and on timeout.

use std::{
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use provost_api::{ApiError, Client, ErrorCode, EventRow};
use provost_verify::{AttemptEnding, VerifierVerdict};

use super::{
    status::{WatchStatus, WatchTarget},
    verdict::{self, AwaitedState, Conclusion},
    verifier::WorkflowVerifier,
    window::SilenceWindow,
};
use crate::{
    clock,
    context::Context,
    follow::{self, EventFilter},
    target::{self, SessionOrRun},
};

/// The maximum number of retries if the daemon exits during a request.
const MAX_TRIES: u32 = 20;

/// The pause between two retries of a request.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// The conditions that end a watch, and the verifier to run.
pub(super) struct WatchOptions {
    pub(super) proof: Option<WorkflowVerifier>,
    pub(super) window: SilenceWindow,
    pub(super) timeout: Option<Duration>,
    pub(super) until: Option<String>,
    pub(super) any: bool,
}

/// The state of a session or run at the end of the watch.
pub(super) struct WatchResult {
    pub(super) watched: WatchTarget,
    pub(super) verdict: Option<VerifierVerdict>,
    /// The conclusion, or `None` if another session ended the watch while the work of this session
    /// or run continues.
    pub(super) conclusion: Option<Conclusion>,
}

/// Waits until every given session or run has a conclusion.
pub(super) fn run(
    context: &Context,
    ids: &[String],
    asked: &WatchOptions,
) -> Result<Vec<WatchResult>, ApiError> {
    let mut watch = MonitorWatch::begin(context, ids, asked)?;
    let events = follow::follow_in_background(watch.event_filter(), watch.since)?;
    loop {
        watch.judge();
        if watch.is_finished() {
            return Ok(watch.seen);
        }
        if watch.has_timed_out() {
            return Ok(watch.timed_out());
        }
        match wait(&events, watch.wake())? {
            WakeCause::Events(concerned) => {
                watch.refresh(|id| concerned.iter().any(|one| one == id))?
            }
            WakeCause::Time => watch.refresh(|_| true)?,
        }
    }
}

struct MonitorWatch<'a> {
    context: &'a Context,
    asked: &'a WatchOptions,
    seen: Vec<WatchResult>,
    statuses: Vec<WatchStatus>,
    /// The last event before the rows were first read.
    since: u64,
    deadline: Option<Instant>,
}

impl<'a> MonitorWatch<'a> {
    fn begin(
        context: &'a Context,
        ids: &[String],
        asked: &'a WatchOptions,
    ) -> Result<Self, ApiError> {
        retry_unreachable(|| context.daemon())?;
        // The newest event is determined before the rows are read, so that no later event is
        // missed.
        let since = follow::newest(context)?;
        let mut seen: Vec<WatchResult> = Vec::new();
        for id in ids {
            let watched = retry_unreachable(|| find_target(&context.daemon()?, id))?;
            // If a session is given twice, it is watched once.
            if !seen.iter().any(|one| one.watched.id() == watched.id()) {
                seen.push(WatchResult { watched, verdict: None, conclusion: None });
            }
        }
        let deadline = asked.timeout.map(clock::deadline_after);
        Ok(MonitorWatch { context, asked, seen, statuses: Vec::new(), since, deadline })
    }

    /// Returns the event filter. Several sessions share one stream.
    fn event_filter(&self) -> EventFilter {
        match self.seen.as_slice() {
            [WatchResult { watched: WatchTarget::Session(row), .. }] => {
                EventFilter::Session(row.id.clone())
            }
            [WatchResult { watched: WatchTarget::Run(row, _), .. }] => {
                EventFilter::Run(row.id.clone())
            }
            _ => EventFilter::All,
        }
    }

    /// Updates all conclusions, running the verifier where a conclusion depends on it.
    fn judge(&mut self) {
        let (asked, now) = (self.asked, clock::now_ms());
        self.statuses.clear();
        for seen in &mut self.seen {
            let status = seen.watched.status(asked.window.ms(), now);
            let until = asked.until.as_deref();
            let until =
                until.map(|wanted| AwaitedState { wanted, state: seen.watched.known_state() });
            if let Some(proof) = &asked.proof
                && verdict::needs_proof(&status, until)
                && seen.verdict.is_none()
            {
                seen.verdict = Some(proof.verify(self.context, Path::new(seen.watched.worktree())));
            }
            seen.conclusion = verdict::conclude(&status, seen.verdict.as_ref(), until, now);
            self.statuses.push(status);
        }
    }

    fn is_finished(&self) -> bool {
        let mut concluded = self.seen.iter().map(|seen| seen.conclusion.is_some());
        if self.asked.any { concluded.any(|known| known) } else { concluded.all(|known| known) }
    }

    /// Returns the maximum time to wait, until the silence window ends or the timeout expires.
    fn wake(&self) -> Option<Duration> {
        let now = clock::now_ms();
        let silence = self.statuses.iter().filter_map(|status| match status {
            WatchStatus::Continues { until } => *until,
            WatchStatus::AtPrompt { until } => Some(*until).filter(|until| *until > now),
            WatchStatus::TurnsHidden { recheck_at: again } => {
                self.asked.proof.as_ref().map(|_| *again)
            }
            WatchStatus::NeedsInput(_)
            | WatchStatus::Stuck(_)
            | WatchStatus::Lost(_)
            | WatchStatus::Ended(..) => None,
        });
        let silence = silence.min().map(|at| {
            Duration::from_millis(u64::try_from(at.saturating_sub(now)).unwrap_or_default() + 1)
        });
        let deadline = self.deadline.map(clock::time_until);
        silence.into_iter().chain(deadline).min()
    }

    fn has_timed_out(&self) -> bool {
        self.deadline.is_some_and(|deadline| clock::time_until(deadline).is_zero())
    }

    /// Marks every session or run without a conclusion as timed out.
    fn timed_out(mut self) -> Vec<WatchResult> {
        for seen in &mut self.seen {
            let reached = self.asked.until.as_ref().map(|_| false);
            let reason = match seen.watched.known_state() {
                Some(state) => format!("timed out in the state {state}"),
                None => {
                    "timed out while the agent was running; its turns are not visible".to_owned()
                }
            };
            let ending = AttemptEnding::TimedOut;
            let conclusion = Conclusion { ending, reason, reached, natural_ending: None };
            seen.conclusion.get_or_insert(conclusion);
        }
        self.seen
    }

    /// Rereads the sessions and runs that have new events. An event of a run may affect any part of the run.
    fn refresh(&mut self, concerned: impl Fn(&str) -> bool) -> Result<(), ApiError> {
        for seen in &mut self.seen {
            let asks = match &seen.watched {
                WatchTarget::Session(row) => concerned(&row.id),
                WatchTarget::Run(row, _) => !row.sealed,
            };
            if asks {
                let watched = retry_unreachable(|| reread(&self.context.daemon()?, &seen.watched))?;
                // A sealed outcome is final, so its work is not verified again.
                if watched.sealed_attempt().is_none()
                    || watched.sealed_attempt() != seen.watched.sealed_attempt()
                {
                    seen.verdict = None;
                }
                seen.watched = watched;
            }
        }
        Ok(())
    }
}

/// The reason why a wait ended.
enum WakeCause {
    /// Events of the given sessions or runs arrived.
    Events(Vec<String>),
    Time,
}

fn wait(
    events: &Receiver<Result<EventRow, ApiError>>,
    most: Option<Duration>,
) -> Result<WakeCause, ApiError> {
    let ended = || ApiError::new(ErrorCode::Unreachable, "the event stream has ended");
    let first = match most {
        None => events.recv().map_err(|_| ended())?,
        Some(most) => match events.recv_timeout(most) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) => return Ok(WakeCause::Time),
            Err(RecvTimeoutError::Disconnected) => return Err(ended()),
        },
    };
    let mut concerned = vec![first.map_err(connection_lost)?.session];
    for event in events.try_iter() {
        concerned.push(event.map_err(connection_lost)?.session);
    }
    Ok(WakeCause::Events(concerned))
}

/// Adds an explanation to an error: only the monitor lost its connection, and the watched work
/// continues.
fn connection_lost(error: ApiError) -> ApiError {
    let message =
        format!("the monitor lost its connection, but the watched work continues: {error}");
    ApiError { message, ..error }
}

fn find_target(client: &Client, id: &str) -> Result<WatchTarget, ApiError> {
    match target::find_session_or_run(client, id)? {
        SessionOrRun::Session(row) => Ok(WatchTarget::Session(row)),
        SessionOrRun::Run(row) => reread(client, &WatchTarget::Run(row, Vec::new())),
    }
}

fn reread(client: &Client, watched: &WatchTarget) -> Result<WatchTarget, ApiError> {
    match watched {
        WatchTarget::Session(row) => {
            Ok(WatchTarget::Session(Box::new(target::find_session(client, &row.id)?)))
        }
        WatchTarget::Run(row, _) => {
            let run = target::find_run(client, &row.id)?;
            let live = run.sessions.iter().filter(|session| session.state.is_none());
            let live = live.map(|session| target::find_session(client, &session.id));
            let live = live.collect::<Result<_, _>>()?;
            Ok(WatchTarget::Run(Box::new(run), live))
        }
    }
}

/// Retries a request while a daemon exits, because the next daemon can reply to it.
fn retry_unreachable<T>(mut ask: impl FnMut() -> Result<T, ApiError>) -> Result<T, ApiError> {
    for _ in 1..MAX_TRIES {
        match ask() {
            Err(error) if error.code == ErrorCode::Unreachable => clock::sleep(RETRY_PAUSE),
            other => return other,
        }
    }
    ask().map_err(connection_lost)
}
