//! Limits how many events an agent's stream adds to the ledger. Signals that only report progress
//! are coalesced, so even an agent that never stops printing causes only one event per kind and
//! interval.
//!
//! This module is pure: signals come in with the time at which they were printed, and are returned
//! in order. Anything more important (a claim, a request, the start or end of a turn) is passed on
//! immediately, after everything that precedes it. Signals that are held back remain in the journal
//! after the recorded cursor, so a crash loses none of them.

use std::collections::BTreeMap;

use provost_core::session::{Cursor, StreamSignal, Usage};

/// Progress signals of one kind are recorded at most once per this interval.
pub(crate) const COALESCE_MS: u64 = 1_000;

/// A signal and its position in the journal.
pub(crate) type JournalSignal = (StreamSignal, Cursor);

/// Holds back and coalesces progress signals.
#[derive(Debug, Default)]
pub(crate) struct SignalCoalescer {
    kinds: BTreeMap<CoalescedKind, HeldSignal>,
    /// Whether to pass on every usage signal immediately, so that an exhausted budget stops the
    /// work within one model call.
    prompt_usage: bool,
}

/// The kinds of signals that may be coalesced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CoalescedKind {
    /// Only the latest progress signal is kept.
    Progress,
    /// The values of usage signals are added up.
    Usage,
    /// Only the latest context signal is kept.
    Context,
    /// Only the latest retry signal is kept.
    Retrying,
}

#[derive(Debug)]
struct HeldSignal {
    released_ms: u64,
    waiting: Option<JournalSignal>,
}

impl SignalCoalescer {
    pub(crate) fn new(prompt_usage: bool) -> SignalCoalescer {
        SignalCoalescer { prompt_usage, ..SignalCoalescer::default() }
    }

    /// Adds a signal that was printed at the given time, and returns the signals to record now, oldest first.
    pub(crate) fn take(
        &mut self,
        signal: StreamSignal,
        cursor: Cursor,
        at_ms: u64,
    ) -> Vec<JournalSignal> {
        let at_once = self.prompt_usage && matches!(signal, StreamSignal::Usage(_));
        let kind = if at_once { None } else { kind(&signal) };
        let Some(kind) = kind else {
            let mut released = self.flush();
            released.push((signal, cursor));
            return released;
        };
        match self.kinds.get_mut(&kind) {
            Some(held) if at_ms < held.due_ms() => {
                held.fold(signal, cursor);
                Vec::new()
            }
            Some(_) | None => {
                self.hold_signal(kind, signal, cursor);
                self.release_all(at_ms)
            }
        }
    }

    /// Returns when the signals that are held back must be recorded, if there are any.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.kinds.values().filter(|held| held.waiting.is_some()).map(HeldSignal::due_ms).min()
    }

    /// Returns the signals that must be recorded by now, oldest first.
    pub(crate) fn due(&mut self, now_ms: u64) -> Vec<JournalSignal> {
        if self.due_ms().is_some_and(|due| due <= now_ms) {
            self.release_all(now_ms)
        } else {
            Vec::new()
        }
    }

    /// Returns all signals that are held back, oldest first, because a more important one follows.
    pub(crate) fn flush(&mut self) -> Vec<JournalSignal> {
        let mut released: Vec<JournalSignal> =
            self.kinds.values_mut().filter_map(|held| held.waiting.take()).collect();
        released.sort_by_key(|(_, cursor)| *cursor);
        released
    }

    /// Returns all signals that are held back. They must be recorded together, because the sum for
    /// one kind covers lines before the cursor of another kind.
    fn release_all(&mut self, at_ms: u64) -> Vec<JournalSignal> {
        for held in self.kinds.values_mut().filter(|held| held.waiting.is_some()) {
            held.released_ms = at_ms;
        }
        self.flush()
    }

    fn hold_signal(&mut self, kind: CoalescedKind, signal: StreamSignal, cursor: Cursor) {
        let held = self.kinds.entry(kind).or_insert(HeldSignal { released_ms: 0, waiting: None });
        held.fold(signal, cursor);
    }
}

impl HeldSignal {
    fn due_ms(&self) -> u64 {
        self.released_ms.saturating_add(COALESCE_MS)
    }

    fn fold(&mut self, signal: StreamSignal, cursor: Cursor) {
        let signal = match (self.waiting.take(), signal) {
            (Some((StreamSignal::Usage(before), _)), StreamSignal::Usage(more)) => {
                StreamSignal::Usage(Usage {
                    input: before.input.saturating_add(more.input),
                    output: before.output.saturating_add(more.output),
                })
            }
            (_, latest) => latest,
        };
        self.waiting = Some((signal, cursor));
    }
}

fn kind(signal: &StreamSignal) -> Option<CoalescedKind> {
    match signal {
        StreamSignal::Progress(_) => Some(CoalescedKind::Progress),
        StreamSignal::Usage(_) => Some(CoalescedKind::Usage),
        StreamSignal::Context(_) => Some(CoalescedKind::Context),
        StreamSignal::Retrying { .. } => Some(CoalescedKind::Retrying),
        StreamSignal::Ready { .. }
        | StreamSignal::TurnStarted { .. }
        | StreamSignal::TurnEnded { .. }
        | StreamSignal::Refused { .. }
        | StreamSignal::Unreachable { .. }
        | StreamSignal::Goal { .. }
        | StreamSignal::MessageRefused { .. }
        | StreamSignal::Warned { .. }
        | StreamSignal::Reported(_)
        | StreamSignal::ClaimWithResult { .. }
        | StreamSignal::RequestOpened(_)
        | StreamSignal::ToolCalled { .. }
        | StreamSignal::RequestWithdrawn { .. }
        | StreamSignal::ItemFinished { .. }
        | StreamSignal::Compacted
        | StreamSignal::CompactionFailed { .. }
        | StreamSignal::Oversized { .. }
        | StreamSignal::InputWritten { .. }
        | StreamSignal::Closed => None,
    }
}

#[cfg(test)]
mod tests {
    use provost_core::{
        lifecycle::ClaimKind,
        session::{Progress, ReportBody},
    };

    use super::*;

    fn progress(done: u64) -> StreamSignal {
        StreamSignal::Progress(Progress { done, total: 100 })
    }

    fn usage(input: u64) -> StreamSignal {
        StreamSignal::Usage(Usage { input, output: 1 })
    }

    fn claim() -> StreamSignal {
        StreamSignal::Reported(ReportBody::Claim { kind: ClaimKind::Completed, text: None })
    }

    fn at(offset: u64) -> Cursor {
        Cursor { offset, skip: 0 }
    }

    #[test]
    fn budget_makes_usage_pass_at_once() {
        let usage = |n| StreamSignal::Usage(Usage { input: n, output: 0 });
        for (prompt, count) in [(true, 1), (false, 0)] {
            let mut folded = SignalCoalescer::new(prompt);
            assert_eq!(folded.take(usage(1), Cursor { offset: 1, skip: 0 }, 1_000).len(), 1);
            assert_eq!(folded.take(usage(2), Cursor { offset: 2, skip: 0 }, 1_001).len(), count);
        }
    }

    #[test]
    fn first_passes_at_once_and_latest_when_due() {
        let mut folded = SignalCoalescer::default();
        assert_eq!(folded.take(progress(1), at(1), 5_000), [(progress(1), at(1))]);
        assert_eq!(folded.due_ms(), None);
        for done in 2..=9 {
            assert_eq!(folded.take(progress(done), at(done), 5_100), []);
        }
        assert_eq!(folded.due_ms(), Some(5_000 + COALESCE_MS));
        assert_eq!(folded.due(5_999), []);
        assert_eq!(folded.due(6_000), [(progress(9), at(9))]);
        assert_eq!((folded.due_ms(), folded.due(9_000)), (None, vec![]));
    }

    #[test]
    fn important_signal_flushes_held_ones() {
        let mut folded = SignalCoalescer::default();
        folded.take(progress(1), at(1), 0);
        folded.take(progress(2), at(2), 1);
        let released = folded.take(claim(), at(3), 2);
        assert_eq!(released, [(progress(2), at(2)), (claim(), at(3))]);
        assert_eq!(folded.take(claim(), at(4), 2), [(claim(), at(4))]);
    }

    #[test]
    fn alternating_kinds_are_bounded_and_sums_exact() {
        let mut folded = SignalCoalescer::default();
        let mut released = Vec::new();
        for no in 1..=1_000 {
            released.extend(folded.take(usage(1), at(2 * no), no));
            released.extend(folded.take(progress(no), at(2 * no + 1), no));
        }
        released.extend(folded.flush());
        assert!(released.len() <= 6, "{} events in a second", released.len());
        assert!(released.is_sorted_by_key(|(_, cursor)| *cursor), "{released:?}");
        let sum: u64 = released
            .iter()
            .filter_map(
                |(signal, _)| {
                    if let StreamSignal::Usage(u) = signal { Some(u.input) } else { None }
                },
            )
            .sum();
        assert_eq!(sum, 1_000);
        assert_eq!(released.last().map(|(signal, _)| signal), Some(&progress(1_000)));
    }
}
