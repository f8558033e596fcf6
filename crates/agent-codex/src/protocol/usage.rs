//! Counts the usage of each model call.
//!
//! After each call, the server reports the thread's total and the usage of the last call. It
//! repeats this report after a failed call, after a thread is resumed (immediately, or during its
//! first turn in old versions), and, in old versions, with every rate-limit update. Therefore a
//! call counts only if the total of its thread changed during a turn of this launch. The first
//! total of a resumed thread counts as its history.

use std::collections::BTreeMap;

use provost_core::session::Usage;

use super::notification::TokenCounts;

/// The maximum number of threads. Each sub-agent has its own.
const MAX_THREADS: usize = 1000;

#[derive(Clone, Debug, Default)]
pub(crate) struct UsageMeter {
    threads: BTreeMap<String, ThreadUsage>,
    /// The thread that was resumed, and therefore has a history.
    resumed: Option<String>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ThreadUsage {
    total: Option<TokenCounts>,
    /// Whether the thread has had a turn in this launch. Reports before its first turn are history.
    had_turn: bool,
}

impl UsageMeter {
    pub(crate) fn new(resumed: Option<String>) -> UsageMeter {
        UsageMeter { resumed, ..UsageMeter::default() }
    }

    pub(crate) fn turn_started(&mut self, thread: &str) {
        if let Some(thread) = self.thread(thread) {
            thread.had_turn = true;
        }
    }

    /// Returns the usage of the last call, if it has not been counted yet.
    pub(crate) fn record(
        &mut self,
        thread: &str,
        total: TokenCounts,
        last: TokenCounts,
    ) -> Option<Usage> {
        let resumed = self.resumed.as_deref() == Some(thread);
        let thread = self.thread(thread)?;
        let before = thread.total.replace(total);
        let history = before.is_none() && resumed && total != last;
        let counts = before != Some(total) && thread.had_turn && !history;
        let took = Usage { input: last.input, output: last.output };
        (counts && took.total() > 0).then_some(took)
    }

    fn thread(&mut self, thread: &str) -> Option<&mut ThreadUsage> {
        if !self.threads.contains_key(thread) && self.threads.len() >= MAX_THREADS {
            return None;
        }
        Some(self.threads.entry(thread.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input: u64) -> TokenCounts {
        TokenCounts { input, output: 1 }
    }

    #[test]
    fn e24_repeated_usage_report_counts_once() {
        let mut meter = UsageMeter::default();
        meter.turn_started("t");
        assert_eq!(meter.record("t", tokens(5), tokens(5)), Some(Usage { input: 5, output: 1 }));
        assert_eq!(meter.record("t", tokens(5), tokens(5)), None);
        assert_eq!(meter.record("t", tokens(9), tokens(4)), Some(Usage { input: 4, output: 1 }));
    }

    #[test]
    fn e24_resumed_thread_total_is_history() {
        let mut meter = UsageMeter::default();
        assert_eq!(meter.record("t", tokens(700), tokens(100)), None);
        meter.turn_started("t");
        assert_eq!(meter.record("t", tokens(700), tokens(100)), None);
        assert_eq!(meter.record("t", tokens(703), tokens(3)), Some(Usage { input: 3, output: 1 }));
    }

    #[test]
    fn e24_resumed_total_in_first_turn_is_history() {
        let mut meter = UsageMeter::new(Some("t".to_owned()));
        meter.turn_started("t");
        assert_eq!(meter.record("t", tokens(700), tokens(100)), None);
        assert!(meter.record("t", tokens(800), tokens(100)).is_some());
        let mut first = UsageMeter::new(Some("t".to_owned()));
        first.turn_started("t");
        assert!(first.record("t", tokens(100), tokens(100)).is_some());
    }

    #[test]
    fn e24_sub_agents_have_separate_totals() {
        let mut meter = UsageMeter::default();
        meter.turn_started("t");
        meter.turn_started("u");
        assert!(meter.record("t", tokens(5), tokens(5)).is_some());
        assert!(meter.record("u", tokens(5), tokens(5)).is_some());
    }
}
