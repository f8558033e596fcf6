//! Decides when to read a pane, based on when its program writes.
//!
//! After a single write, the pane is read soon. If a program draws continuously, for example a
//! spinner, the pane is read when the drawing starts and when it stops. In between, and while
//! something blinks, it is read less and less often for as long as nothing new is found.

/// How long after a write the pane is read.
pub(super) const READ_DELAY_MS: u64 = 150;

/// The maximum time between two reads of a pane whose program draws continuously.
const MAX_ANIMATED_MS: u64 = 5_000;

/// The maximum time between two reads of a pane with occasional writes.
const MAX_BLINKING_MS: u64 = 2_000;

/// How long to stop listening after a write, because a spinner draws dozens of times a second.
const LISTEN_PAUSE_MS: u64 = 200;

/// If a program writes nothing for this long, it has stopped drawing.
const QUIET_MS: u64 = 250;

/// If a program keeps writing for this long, it is drawing continuously.
const ANIMATED_MS: u64 = 500;

/// The reading pace for one pane. All times are on the monotonic clock.
#[derive(Debug, Default)]
pub(super) struct PaneReadPace {
    flow: Option<WriteFlow>,
    /// Whether something was written after the last read.
    unseen: bool,
    due_ms: Option<u64>,
    /// The time of the last read, and the minimum wait before the next one.
    looked: Option<(u64, u64)>,
    /// When the last write was noticed.
    wrote_ms: Option<u64>,
}

/// A sequence of writes without a pause.
#[derive(Debug)]
struct WriteFlow {
    began_ms: u64,
    animated: bool,
    hearing: ListenState,
}

#[derive(Debug)]
enum ListenState {
    /// Not listening until this time.
    Paused(u64),
    /// Listening. If nothing is written by this time, the flow is over.
    Listening(u64),
}

impl PaneReadPace {
    /// Records a write.
    pub(super) fn record_write(&mut self, now_ms: u64) {
        let rested =
            self.wrote_ms.is_none_or(|last| now_ms.saturating_sub(last) >= MAX_ANIMATED_MS);
        self.wrote_ms = Some(now_ms);
        self.unseen = true;
        let hearing = ListenState::Paused(now_ms + LISTEN_PAUSE_MS);
        let flow = self.flow.get_or_insert(WriteFlow {
            began_ms: now_ms,
            animated: false,
            hearing: ListenState::Paused(now_ms),
        });
        flow.hearing = hearing;
        let most = if flow.animated { MAX_ANIMATED_MS } else { MAX_BLINKING_MS };
        let spaced = |(at, spacing): (u64, u64)| at + spacing.min(most);
        let spaced = if rested { 0 } else { self.looked.map_or(0, spaced) };
        let mut due = spaced.max(now_ms + READ_DELAY_MS);
        if !flow.animated && now_ms.saturating_sub(flow.began_ms) >= ANIMATED_MS {
            flow.animated = true;
            due = now_ms;
        }
        self.due_ms = Some(self.due_ms.map_or(due, |before| before.min(due)));
    }

    /// Whether the caller should now listen for the next write.
    pub(super) fn wants_to_listen(&self, now_ms: u64) -> bool {
        match &self.flow {
            Some(WriteFlow { hearing: ListenState::Paused(until), .. }) => *until <= now_ms,
            Some(WriteFlow { hearing: ListenState::Listening(_), .. }) | None => false,
        }
    }

    /// Records that the caller is listening from now on.
    pub(super) fn record_listening(&mut self, now_ms: u64) {
        if let Some(flow) = &mut self.flow {
            flow.hearing = ListenState::Listening(now_ms + QUIET_MS);
        }
    }

    /// Records that time has passed.
    pub(super) fn advance(&mut self, now_ms: u64) {
        let quiet = |flow: &mut WriteFlow| matches!(flow.hearing, ListenState::Listening(until) if until <= now_ms);
        if let Some(flow) = self.flow.take_if(quiet)
            && flow.animated
            && self.unseen
        {
            self.due_ms = Some(now_ms);
        }
    }

    /// Whether the pane should be read now.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        self.due_ms.is_some_and(|due| due <= now_ms)
    }

    /// Returns when to act next.
    pub(super) fn next_ms(&self) -> Option<u64> {
        let hearing = self.flow.as_ref().map(|flow| match flow.hearing {
            ListenState::Paused(until) | ListenState::Listening(until) => until,
        });
        self.due_ms.into_iter().chain(hearing).min()
    }

    /// Records that the pane was read, and whether that revealed anything new. The caller must have
    /// been listening since before the read.
    pub(super) fn record_read(&mut self, now_ms: u64, news: bool) {
        let spacing = match self.looked {
            Some((_, spacing)) if !news && self.unseen => (spacing * 2).min(MAX_ANIMATED_MS),
            Some((_, spacing)) if !news => spacing,
            Some(_) | None => READ_DELAY_MS,
        };
        self.looked = Some((now_ms, spacing));
        (self.unseen, self.due_ms) = (false, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replays writes at these times, and returns when the pane was read. None of the reads finds
    /// anything new.
    fn looks(writes: &[u64], end_ms: u64) -> Vec<u64> {
        let (mut pace, mut found) = (PaneReadPace::default(), Vec::new());
        let (mut listens, mut missed) = (true, false);
        for now in 0..end_ms {
            missed |= writes.contains(&now);
            if missed && listens {
                (listens, missed) = (false, false);
                pace.record_write(now);
            }
            pace.advance(now);
            let due = pace.is_due(now);
            if due || pace.wants_to_listen(now) {
                (listens, missed) = (true, false);
                pace.record_listening(now);
            }
            if due {
                found.push(now);
                pace.record_read(now, false);
            }
        }
        found
    }

    fn every(step: usize, from: u64, to: u64) -> Vec<u64> {
        (from..to).step_by(step).collect()
    }

    #[test]
    fn single_write_is_read_soon_and_once() {
        assert_eq!(looks(&[1_000], 20_000), [1_000 + READ_DELAY_MS]);
        assert_eq!(looks(&[], 20_000), Vec::<u64>::new());
    }

    #[test]
    fn spinner_is_read_less_often_and_when_it_stops() {
        let found = looks(&every(40, 1_000, 61_040), 120_000);
        let stopped = *found.last().unwrap();
        let soon = 61_000..=61_000 + LISTEN_PAUSE_MS + 2 * QUIET_MS;
        assert!(soon.contains(&stopped), "{found:?}");
        assert!(found.len() <= 22, "{found:?}");
        let gaps: Vec<u64> = found.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(
            gaps.iter().all(|gap| *gap <= MAX_ANIMATED_MS + LISTEN_PAUSE_MS + QUIET_MS),
            "{gaps:?}"
        );
    }

    #[test]
    fn spinner_after_blinking_is_read_at_its_start() {
        let blinks = every(1_000, 1_000, 60_000);
        let found = looks(&[blinks, every(40, 60_000, 70_000)].concat(), 80_000);
        assert!(found.iter().any(|at| (60_000..61_000).contains(at)), "{found:?}");
        let blinked = found.iter().filter(|at| **at < 60_000).count();
        assert!(blinked <= 35, "{found:?}");
    }

    #[test]
    fn write_after_a_rest_is_read_soon() {
        let found = looks(&[every(40, 1_000, 20_000), vec![40_000]].concat(), 50_000);
        assert_eq!(found.last(), Some(&(40_000 + READ_DELAY_MS)));
    }

    #[test]
    fn nothing_written_last_stays_unseen() {
        for (step, to) in [(40, 3_000), (90, 7_777), (300, 5_000), (700, 9_000), (1_000, 30_000)] {
            let writes = every(step, 1_000, to);
            let found = looks(&writes, 60_000);
            assert!(found.last() >= writes.last(), "{step} {to}: {found:?}");
        }
    }

    #[test]
    fn read_with_news_is_followed_by_another_soon() {
        let mut pace = PaneReadPace::default();
        for (at, news, expected) in [
            (0, false, READ_DELAY_MS),
            (1_000, false, 2 * READ_DELAY_MS),
            (2_000, true, READ_DELAY_MS),
        ] {
            pace.record_write(at);
            pace.record_read(at + READ_DELAY_MS, news);
            assert_eq!(pace.looked, Some((at + READ_DELAY_MS, expected)));
        }
        pace.record_read(3_000, false);
        assert_eq!(pace.looked, Some((3_000, READ_DELAY_MS)), "nothing was written since");
    }
}
