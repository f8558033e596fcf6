//! The wait loop: events wake it, and so do timers for silence and the timeout.

use std::{
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use provost_api::{ApiError, Client, Code, EventRow};
use provost_verify::{Ending, Verdict};

use super::{
    conclude::{self, Conclusion, Until},
    proof::Proof,
    stand::{Stand, Watched},
    window::Window,
};
use crate::{
    clock,
    context::Context,
    follow::{self, Of},
    target::{self, Target},
};

/// How often to retry if the daemon exits during a request.
const MAX_TRIES: u32 = 20;

/// The pause between such retries.
const PAUSE: Duration = Duration::from_millis(250);

/// The parameters of a watch.
pub(super) struct Asked {
    pub(super) proof: Option<Proof>,
    pub(super) window: Window,
    pub(super) timeout: Option<Duration>,
    pub(super) until: Option<String>,
    pub(super) any: bool,
}

/// A session or run at the end of the watch.
pub(super) struct Seen {
    pub(super) watched: Watched,
    pub(super) verdict: Option<Verdict>,
    /// None if it continues and another one ended the watch.
    pub(super) conclusion: Option<Conclusion>,
}

/// Waits until every named session or run has a conclusion.
pub(super) fn run(context: &Context, ids: &[String], asked: &Asked) -> Result<Vec<Seen>, ApiError> {
    let mut watch = Watch::begin(context, ids, asked)?;
    let events = follow::aside(watch.of(), watch.since)?;
    loop {
        watch.judge();
        if watch.is_enough() {
            return Ok(watch.seen);
        }
        if watch.is_late() {
            return Ok(watch.timed_out());
        }
        match wait(&events, watch.wake())? {
            Woken::Events(concerned) => watch.look(|id| concerned.iter().any(|one| one == id))?,
            Woken::Time => watch.look(|_| true)?,
        }
    }
}

struct Watch<'a> {
    context: &'a Context,
    asked: &'a Asked,
    seen: Vec<Seen>,
    stands: Vec<Stand>,
    /// The last event before the first read.
    since: u64,
    deadline: Option<Instant>,
}

impl<'a> Watch<'a> {
    fn begin(context: &'a Context, ids: &[String], asked: &'a Asked) -> Result<Self, ApiError> {
        patiently(|| context.daemon())?;
        // Read before the rows, so that no later event is missed.
        let since = follow::newest(context)?;
        let mut seen: Vec<Seen> = Vec::new();
        for id in ids {
            let watched = patiently(|| first_look(&context.daemon()?, id))?;
            // A session that is named twice is watched once.
            if !seen.iter().any(|one| one.watched.id() == watched.id()) {
                seen.push(Seen { watched, verdict: None, conclusion: None });
            }
        }
        let deadline = asked.timeout.map(clock::after);
        Ok(Watch { context, asked, seen, stands: Vec::new(), since, deadline })
    }

    /// Returns the event filter; several sessions share one stream.
    fn of(&self) -> Of {
        match self.seen.as_slice() {
            [Seen { watched: Watched::Session(row), .. }] => Of::Session(row.id.clone()),
            [Seen { watched: Watched::Run(row, _), .. }] => Of::Run(row.id.clone()),
            _ => Of::All,
        }
    }

    /// Updates every conclusion, and runs the verifier where it matters.
    fn judge(&mut self) {
        let (asked, now) = (self.asked, clock::now_ms());
        self.stands.clear();
        for seen in &mut self.seen {
            let stand = seen.watched.stand(asked.window.ms(), now);
            let until = asked.until.as_deref();
            let until = until.map(|wanted| Until { wanted, state: seen.watched.known() });
            if let Some(proof) = &asked.proof
                && conclude::needs_proof(&stand, until)
                && seen.verdict.is_none()
            {
                seen.verdict = Some(proof.ask(self.context, Path::new(seen.watched.place())));
            }
            seen.conclusion = conclude::conclude(&stand, seen.verdict.as_ref(), until, now);
            self.stands.push(stand);
        }
    }

    fn is_enough(&self) -> bool {
        let mut concluded = self.seen.iter().map(|seen| seen.conclusion.is_some());
        if self.asked.any { concluded.any(|known| known) } else { concluded.all(|known| known) }
    }

    /// Returns the maximum wait: until silence reaches its window or the timeout expires.
    fn wake(&self) -> Option<Duration> {
        let now = clock::now_ms();
        let silence = self.stands.iter().filter_map(|stand| match stand {
            Stand::GoesOn { until } => *until,
            Stand::AtPrompt { until } => Some(*until).filter(|until| *until > now),
            Stand::Unseen { again } => self.asked.proof.as_ref().map(|_| *again),
            Stand::Waits(_) | Stand::Stuck(_) | Stand::Lost(_) | Stand::Ended(..) => None,
        });
        let silence = silence.min().map(|at| {
            Duration::from_millis(u64::try_from(at.saturating_sub(now)).unwrap_or_default() + 1)
        });
        let deadline = self.deadline.map(clock::until);
        silence.into_iter().chain(deadline).min()
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| clock::until(deadline).is_zero())
    }

    /// Marks everything without a conclusion as timed out.
    fn timed_out(mut self) -> Vec<Seen> {
        for seen in &mut self.seen {
            let reached = self.asked.until.as_ref().map(|_| false);
            let reason = match seen.watched.known() {
                Some(state) => format!("timed out while it was {state}"),
                None => "timed out while it ran; its turns are not visible".to_owned(),
            };
            let ending = Ending::TimedOut;
            let conclusion = Conclusion { ending, reason, reached, otherwise: None };
            seen.conclusion.get_or_insert(conclusion);
        }
        self.seen
    }

    /// Rereads the sessions with new events. Any event of a run may have changed all of it.
    fn look(&mut self, concerned: impl Fn(&str) -> bool) -> Result<(), ApiError> {
        for seen in &mut self.seen {
            let asks = match &seen.watched {
                Watched::Session(row) => concerned(&row.id),
                Watched::Run(row, _) => !row.sealed,
            };
            if asks {
                let watched = patiently(|| again(&self.context.daemon()?, &seen.watched))?;
                // A sealed result stays as it was found.
                if watched.over().is_none() || watched.over() != seen.watched.over() {
                    seen.verdict = None;
                }
                seen.watched = watched;
            }
        }
        Ok(())
    }
}

/// The reason a wait ended.
enum Woken {
    /// Events of these sessions or runs.
    Events(Vec<String>),
    Time,
}

fn wait(
    events: &Receiver<Result<EventRow, ApiError>>,
    most: Option<Duration>,
) -> Result<Woken, ApiError> {
    let ended = || ApiError::new(Code::Unreachable, "the event stream has ended");
    let first = match most {
        None => events.recv().map_err(|_| ended())?,
        Some(most) => match events.recv_timeout(most) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) => return Ok(Woken::Time),
            Err(RecvTimeoutError::Disconnected) => return Err(ended()),
        },
    };
    let mut concerned = vec![first.map_err(blind)?.session];
    for event in events.try_iter() {
        concerned.push(event.map_err(blind)?.session);
    }
    Ok(Woken::Events(concerned))
}

/// Explains that a monitor without connection says nothing about the watched work.
fn blind(error: ApiError) -> ApiError {
    let message =
        format!("the monitor lost its connection, but the watched work continues: {error}");
    ApiError { message, ..error }
}

fn first_look(client: &Client, id: &str) -> Result<Watched, ApiError> {
    match target::find_any(client, id)? {
        Target::Session(row) => Ok(Watched::Session(row)),
        Target::Run(row) => again(client, &Watched::Run(row, Vec::new())),
    }
}

fn again(client: &Client, watched: &Watched) -> Result<Watched, ApiError> {
    match watched {
        Watched::Session(row) => Ok(Watched::Session(Box::new(target::find(client, &row.id)?))),
        Watched::Run(row, _) => {
            let run = target::find_run(client, &row.id)?;
            let live = run.sessions.iter().filter(|session| session.state.is_none());
            let live = live.map(|session| target::find(client, &session.id));
            let live = live.collect::<Result<_, _>>()?;
            Ok(Watched::Run(Box::new(run), live))
        }
    }
}

/// Retries a request while a daemon exits, because the next one answers it.
fn patiently<T>(mut ask: impl FnMut() -> Result<T, ApiError>) -> Result<T, ApiError> {
    for _ in 1..MAX_TRIES {
        match ask() {
            Err(error) if error.code == Code::Unreachable => clock::pause(PAUSE),
            other => return other,
        }
    }
    ask().map_err(blind)
}
