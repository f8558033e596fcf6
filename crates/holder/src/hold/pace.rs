//! Limits the rate at which a terminal is read while it produces output continuously. A spinner
//! draws thirty times a second, and a remote watcher does not need every frame.

/// Pieces of output that arrive within this time of each other belong to one flow.
const FLOW_GAP_MS: u64 = 300;
/// The time for which a new flow of output is read immediately, so that a single redraw appears at
/// once.
const IMMEDIATE_MS: u64 = 500;
/// The time for which output is gathered between two reads of a continuing flow.
const GATHER_MS: u64 = 200;
/// A program that writes this much within [`GATHER_MS`] is read without pauses, because it would
/// otherwise block on its reader. The kernel buffers four times as much.
const FLOOD_BYTES: u64 = 16_000;
/// A read that returns this many bytes may have left more bytes in the terminal.
const FULL_READ_BYTES: u64 = 4_000;

/// The flow of a terminal's output.
#[derive(Debug, Default)]
pub(super) struct ReadPace {
    flow: Option<OutputFlow>,
    paused_until: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct OutputFlow {
    /// The time at which the flow began, or was last a flood.
    began: u64,
    last: u64,
    /// The start of the window in which bytes are counted.
    counted_from: u64,
    count: u64,
}

impl ReadPace {
    /// Records a read of `bytes` bytes.
    pub(super) fn record_read(&mut self, bytes: u64, now: u64) {
        let new = OutputFlow { began: now, last: now, counted_from: now, count: 0 };
        let known = self.flow.filter(|flow| now.saturating_sub(flow.last) <= FLOW_GAP_MS);
        let mut flow = known.unwrap_or(new);
        if now.saturating_sub(flow.counted_from) > GATHER_MS {
            (flow.counted_from, flow.count) = (now, 0);
        }
        flow.count += bytes;
        flow.last = now;
        if flow.count >= FLOOD_BYTES {
            flow.began = now;
        }
        let lasts = now.saturating_sub(flow.began) >= IMMEDIATE_MS;
        self.paused_until = (lasts && bytes < FULL_READ_BYTES).then_some(now + GATHER_MS);
        self.flow = Some(flow);
    }

    /// Reads everything immediately from now on, because a user is watching the terminal.
    pub(super) fn read_immediately(&mut self) {
        *self = Self::default();
    }

    /// Returns the time from which the terminal may be read again, if reading is paused.
    pub(super) fn paused_until(&self, now: u64) -> Option<u64> {
        self.paused_until.filter(|until| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_draw_is_immediate_and_flow_is_gathered() {
        let mut pace = ReadPace::default();
        for now in (0..500).step_by(30) {
            pace.record_read(200, now);
            assert_eq!(pace.paused_until(now), None, "at {now}");
        }
        pace.record_read(200, 510);
        assert_eq!(pace.paused_until(510), Some(710));
        assert_eq!(pace.paused_until(710), None);
        pace.record_read(1_000, 711);
        assert_eq!(pace.paused_until(711), Some(911), "the output continues");
        pace.record_read(200, 1_500);
        assert_eq!(pace.paused_until(1_500), None, "the output had paused");
    }

    #[test]
    fn flood_and_attended_terminal_are_not_delayed() {
        let mut pace = ReadPace::default();
        // Many small reads by a fast reader are a flood too.
        for now in 0..2_000 {
            pace.record_read(100, now);
            assert_eq!(pace.paused_until(now), None, "at {now}");
        }
        pace.record_read(4_095, 2_600);
        assert_eq!(pace.paused_until(2_600), None, "there may be more");
        // A burst within a spinner's output is read immediately once it is detected.
        let mut pace = ReadPace::default();
        (0..600).step_by(30).for_each(|now| pace.record_read(200, now));
        assert_eq!(pace.paused_until(570), Some(770));
        (0..4).for_each(|_| pace.record_read(4_095, 771));
        assert_eq!(pace.paused_until(771), None);
        pace.record_read(80, 772);
        assert_eq!(pace.paused_until(772), None);
        pace.record_read(80, 1_000);
        pace.record_read(80, 1_273);
        assert_eq!(pace.paused_until(1_273), Some(1_473), "it is a spinner again");
        pace.read_immediately();
        assert_eq!(pace.paused_until(1_273), None);
    }
}
