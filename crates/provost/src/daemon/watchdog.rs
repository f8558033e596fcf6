//! The watchdog: a thread outside the runtime that aborts a daemon whose runtime does not answer.
//!
//! Agents go on under their holders, and the next command starts another daemon, which takes up their work. A pause of
//! the whole process (SIGSTOP, a debugger, a suspended machine) is no stall: then the watchdog was paused too.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How long the runtime may take to answer.
pub(crate) const STALL_LIMIT: Duration = Duration::from_secs(10);

/// How many looks of the watchdog make up that time.
const LOOKS: u32 = 10;

/// A look that comes later than this many times its interval was paused with the process.
const PAUSED: u32 = 3;

/// What one look at the runtime shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Alive,
    Missed(u32),
    Stalled,
}

/// Counts consecutive looks without a beat.
#[derive(Debug)]
struct Watch {
    interval: Duration,
    beats: u64,
    missed: u32,
}

impl Watch {
    fn new(interval: Duration) -> Watch {
        Watch { interval, beats: 0, missed: 0 }
    }

    /// Judges the number of beats so far, this long after the last look.
    fn look(&mut self, beats: u64, since_last: Duration) -> Look {
        let paused = since_last > self.interval * PAUSED;
        if paused || beats != self.beats {
            (self.beats, self.missed) = (beats, 0);
            return Look::Alive;
        }
        self.missed += 1;
        if self.missed < LOOKS { Look::Missed(self.missed) } else { Look::Stalled }
    }
}

/// The pulse of a runtime: beats as long as the runtime runs its tasks and its timers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pulse {
    beats: Arc<AtomicU64>,
}

impl Pulse {
    /// Beats for ever. To be spawned on the runtime that is watched.
    pub(crate) async fn beat(self) {
        let mut interval = tokio::time::interval(limit() / (2 * LOOKS));
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            self.beats.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Starts the thread that watches the pulse. It ends with the process.
    pub(crate) fn watch(&self) -> std::io::Result<()> {
        let (beats, interval) = (Arc::clone(&self.beats), limit() / LOOKS);
        let watch = move || {
            let mut watch = Watch::new(interval);
            let mut last = now();
            loop {
                pause(interval);
                let at = now();
                let look = watch.look(beats.load(Ordering::Relaxed), at - last);
                last = at;
                if look == Look::Stalled {
                    abort();
                }
            }
        };
        thread::Builder::new()
            .name("watchdog".to_owned())
            .stack_size(64 << 10)
            .spawn(watch)
            .map(drop)
    }
}

#[expect(clippy::print_stderr, reason = "the log of a daemon is its standard error")]
fn abort() -> ! {
    eprintln!(
        "the daemon's runtime has not answered for {:?}: it is aborted; agents go on, and the next command starts another daemon",
        limit()
    );
    std::process::abort()
}

#[expect(clippy::disallowed_methods, reason = "the watchdog measures time itself")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a stall is the absence of events")]
fn pause(time: Duration) {
    thread::sleep(time);
}

#[cfg(not(feature = "failpoints"))]
fn limit() -> Duration {
    STALL_LIMIT
}

/// Tests shorten it.
#[cfg(feature = "failpoints")]
#[expect(clippy::disallowed_methods, reason = "a test's switch")]
fn limit() -> Duration {
    let set = std::env::var("PROVOST_WATCHDOG_MS").ok().and_then(|text| text.parse().ok());
    set.map_or(STALL_LIMIT, Duration::from_millis)
}

/// Blocks a worker of the runtime when a test makes this file.
#[cfg(feature = "failpoints")]
pub(crate) async fn stall_on(file: std::path::PathBuf) {
    loop {
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
    fn only_consecutive_looks_without_a_beat_are_a_stall() {
        let mut watch = Watch::new(SECOND);
        assert_eq!(watch.look(1, SECOND), Look::Alive);
        for missed in 1..LOOKS {
            assert_eq!(watch.look(1, SECOND), Look::Missed(missed));
        }
        assert_eq!(watch.look(2, SECOND), Look::Alive);
        for missed in 1..LOOKS {
            assert_eq!(watch.look(2, SECOND), Look::Missed(missed));
        }
        assert_eq!(watch.look(2, SECOND), Look::Stalled);
    }

    #[test]
    fn pause_of_the_process_is_no_stall() {
        let mut watch = Watch::new(SECOND);
        for missed in 1..LOOKS {
            assert_eq!(watch.look(0, SECOND), Look::Missed(missed));
        }
        assert_eq!(watch.look(0, SECOND * 3_600), Look::Alive, "stopped for an hour");
        assert_eq!(watch.look(0, SECOND), Look::Missed(1));
    }
}
