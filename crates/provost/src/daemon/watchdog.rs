//! The watchdog, a thread outside the runtime that aborts the daemon if its runtime does not respond.
//!
//! The watchdog rarely polls, so that an idle daemon stays idle. After an abort, agents continue
//! under their holders, and the next command starts another daemon, which resumes supervising them.
//! If the whole process is paused (by SIGSTOP, a debugger or a suspended machine), this does not
//! count as a stall, because the watchdog is paused too.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use provost_sys::clock::now;
use tokio::sync::mpsc as async_mpsc;

/// How long the runtime may take to respond.
pub(crate) const STALL_LIMIT: Duration = Duration::from_secs(10);

/// The time between two polls, as a multiple of the limit.
const POLL_INTERVAL_FACTOR: u32 = 3;

/// The number of waits that the limit is divided into.
const WAITS_PER_LIMIT: u32 = 10;

/// The factor by which a wait may exceed its planned length. If it takes even longer, the process was paused.
const PAUSE_FACTOR: u32 = 3;

/// How many waits for a response have ended without one.
#[derive(Debug, Default)]
struct MissedWaits {
    missed: u32,
}

impl MissedWaits {
    /// Counts a wait without a response. Returns whether the limit has been reached.
    fn count_miss(&mut self, planned: Duration, waited: Duration) -> bool {
        self.missed = if waited > planned * PAUSE_FACTOR { 0 } else { self.missed + 1 };
        self.missed >= WAITS_PER_LIMIT
    }
}

/// The task on the runtime that responds to the watchdog.
pub(crate) struct WatchdogResponder {
    polls: async_mpsc::Receiver<()>,
    answers: mpsc::Sender<()>,
}

impl WatchdogResponder {
    /// Starts the watchdog thread, which runs until the process exits.
    pub(crate) fn start_watchdog() -> std::io::Result<WatchdogResponder> {
        let (ask, questions) = async_mpsc::channel(1);
        let (answers, answered) = mpsc::channel();
        thread::Builder::new()
            .name("watchdog".to_owned())
            .stack_size(64 << 10)
            .spawn(move || watch(&ask, &answered))?;
        Ok(WatchdogResponder { polls: questions, answers })
    }

    /// Responds until the watchdog is gone. Must be spawned on the runtime that is being watched.
    pub(crate) async fn respond(mut self) {
        while self.polls.recv().await.is_some() {
            if self.answers.send(()).is_err() {
                return;
            }
        }
    }
}

/// Polls the runtime in a loop, and aborts the process if it does not respond in time.
fn watch(ask: &async_mpsc::Sender<()>, answered: &mpsc::Receiver<()>) {
    loop {
        pause(limit() * POLL_INTERVAL_FACTOR);
        // A runtime that is shutting down no longer responds, but it has the same time limit to finish.
        ask.try_send(()).ok();
        wait_for_answer(answered);
    }
}

fn wait_for_answer(answered: &mpsc::Receiver<()>) {
    let planned = limit() / WAITS_PER_LIMIT;
    let mut patience = MissedWaits::default();
    loop {
        let began = now();
        match answered.recv_timeout(planned) {
            Ok(()) => return,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => pause(planned),
        }
        if patience.count_miss(planned, now() - began) {
            abort();
        }
    }
}

#[expect(clippy::print_stderr, reason = "a daemon logs to its standard error")]
fn abort() -> ! {
    eprintln!(
        "the daemon's runtime has not answered for {:?}, so the daemon aborts; agents keep \
         running, and the next command starts another daemon",
        limit()
    );
    std::process::abort()
}

#[expect(clippy::disallowed_methods, reason = "a stall is the absence of events")]
fn pause(time: Duration) {
    thread::sleep(time);
}

#[cfg(not(feature = "failpoints"))]
fn limit() -> Duration {
    STALL_LIMIT
}

/// Returns [`STALL_LIMIT`], or a shorter time in tests.
#[cfg(feature = "failpoints")]
fn limit() -> Duration {
    test_limit().unwrap_or(STALL_LIMIT)
}

/// Returns the limit that a test of the watchdog sets.
#[cfg(feature = "failpoints")]
#[expect(clippy::disallowed_methods, reason = "a test's switch")]
fn test_limit() -> Option<Duration> {
    let set = std::env::var("PROVOST_WATCHDOG_MS").ok()?;
    set.parse().ok().map(Duration::from_millis)
}

/// For tests of the watchdog: blocks a worker of the runtime once this file exists.
#[cfg(feature = "failpoints")]
pub(crate) async fn stall_on(file: std::path::PathBuf) {
    while test_limit().is_some() {
        if file.exists() {
            pause(Duration::from_secs(3_600));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_without_an_answer_reach_the_limit() {
        let mut patience = MissedWaits::default();
        for _ in 1..WAITS_PER_LIMIT {
            assert!(!patience.count_miss(SECOND, SECOND));
        }
        assert!(patience.count_miss(SECOND, SECOND));
    }

    #[test]
    fn process_pause_resets_the_limit() {
        let mut patience = MissedWaits::default();
        for _ in 1..WAITS_PER_LIMIT {
            assert!(!patience.count_miss(SECOND, SECOND));
        }
        assert!(!patience.count_miss(SECOND, SECOND * 3_600), "stopped for an hour");
        for _ in 1..WAITS_PER_LIMIT {
            assert!(!patience.count_miss(SECOND, SECOND));
        }
        assert!(patience.count_miss(SECOND, SECOND));
    }
}
