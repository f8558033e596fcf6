//! Clocks and samples.

use std::time::{Duration, Instant};

/// Runs `work` and measures its duration.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub(crate) fn time<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let done = work();
    (done, start.elapsed())
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Several measurements of the same thing.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    sorted: Vec<f64>,
}

impl Sample {
    pub(crate) fn add(&mut self, value: f64) {
        let place = self.sorted.partition_point(|other| *other < value);
        self.sorted.insert(place, value);
    }

    pub(crate) fn add_ms(&mut self, time: Duration) {
        self.add(time.as_secs_f64() * 1_000.0);
    }

    /// Returns the value below which this share of the measurements lies.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let last = self.sorted.len().saturating_sub(1);
        let place = (last as f64 * share).round() as usize;
        self.sorted.get(place).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Describes the median and the spread.
    pub(crate) fn spread(&self, unit: &str) -> String {
        format!(
            "median {:.2}{unit}, 10–90 % {:.2}–{:.2}{unit}, n={}",
            self.median(),
            self.quantile(0.1),
            self.quantile(0.9),
            self.sorted.len()
        )
    }
}
