//! How often a terminal is read that keeps on writing: a spinner draws thirty times a second, and nobody who watches it
//! from afar needs each of its pictures.

/// Pieces that come no later than this after each other are of one flow.
const PAUSE_MS: u64 = 300;
/// How long a flow is read as it comes: what is drawn once is seen at once.
const AS_IT_COMES_MS: u64 = 500;
/// How long what flows on is gathered.
const GATHERED_MS: u64 = 200;
/// Whoever writes so much in that time would come to wait for its reader, and is never made to: the kernel keeps four
/// times as much.
const MUCH: u64 = 16_000;
/// A read of so many bytes may have left some behind.
const FULL: u64 = 4_000;

/// The flow of a terminal's output.
#[derive(Debug, Default)]
pub(super) struct Pace {
    flow: Option<Flow>,
    rests_until: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Flow {
    /// Since when it has flowed, and little at a time.
    began: u64,
    last: u64,
    /// When what is counted was begun to be counted, and how much came since.
    counted_from: u64,
    count: u64,
}

impl Pace {
    /// Takes note of a read of so many bytes.
    pub(super) fn read(&mut self, bytes: u64, now: u64) {
        let new = Flow { began: now, last: now, counted_from: now, count: 0 };
        let known = self.flow.filter(|flow| now.saturating_sub(flow.last) <= PAUSE_MS);
        let mut flow = known.unwrap_or(new);
        if now.saturating_sub(flow.counted_from) > GATHERED_MS {
            (flow.counted_from, flow.count) = (now, 0);
        }
        flow.count += bytes;
        flow.last = now;
        if flow.count >= MUCH {
            flow.began = now;
        }
        let lasts = now.saturating_sub(flow.began) >= AS_IT_COMES_MS;
        self.rests_until = (lasts && bytes < FULL).then_some(now + GATHERED_MS);
        self.flow = Some(flow);
    }

    /// Somebody is at the terminal: everything is read as it comes.
    pub(super) fn hurry(&mut self) {
        *self = Self::default();
    }

    /// Gives until when the terminal is not read.
    pub(super) fn rests_until(&self, now: u64) -> Option<u64> {
        self.rests_until.filter(|until| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_once_is_read_at_once_and_what_flows_on_is_gathered() {
        let mut pace = Pace::default();
        for now in (0..500).step_by(30) {
            pace.read(200, now);
            assert_eq!(pace.rests_until(now), None, "at {now}");
        }
        pace.read(200, 510);
        assert_eq!(pace.rests_until(510), Some(710));
        assert_eq!(pace.rests_until(710), None);
        pace.read(1_000, 711);
        assert_eq!(pace.rests_until(711), Some(911), "it flows on");
        pace.read(200, 1_500);
        assert_eq!(pace.rests_until(1_500), None, "it had paused");
    }

    #[test]
    fn a_flood_and_who_is_at_the_terminal_wait_for_nobody() {
        let mut pace = Pace::default();
        // Small reads of a reader that keeps up are a flood as well.
        for now in 0..2_000 {
            pace.read(100, now);
            assert_eq!(pace.rests_until(now), None, "at {now}");
        }
        pace.read(4_095, 2_600);
        assert_eq!(pace.rests_until(2_600), None, "there may be more");
        // A burst in the middle of a spinner is read on as it comes once it is met.
        let mut pace = Pace::default();
        (0..600).step_by(30).for_each(|now| pace.read(200, now));
        assert_eq!(pace.rests_until(570), Some(770));
        (0..4).for_each(|_| pace.read(4_095, 771));
        assert_eq!(pace.rests_until(771), None);
        pace.read(80, 772);
        assert_eq!(pace.rests_until(772), None);
        pace.read(80, 1_000);
        pace.read(80, 1_273);
        assert_eq!(pace.rests_until(1_273), Some(1_473), "it is a spinner again");
        pace.hurry();
        assert_eq!(pace.rests_until(1_273), None);
    }
}
