//! The cost of watching: a large rollout, twenty agents in terminals, and twenty external agents in
//! tmux panes.
//!
//! `PROVOST_BENCH_SMALL` reduces all sizes, to check quickly that the benchmarks run. Its figures
//! are meaningless.

mod ingest;
mod panes;
mod terminals;

use std::time::Duration;

pub(crate) use ingest::run as ingest;
pub(crate) use panes::run as panes;
pub(crate) use terminals::run as terminals;

/// The amount of work in a benchmark.
#[derive(Clone, Copy, Debug)]
struct Size {
    sessions: usize,
    /// The time for which usage is measured.
    measured_for: Duration,
    /// The size of the rollout.
    bytes: usize,
    rounds: usize,
}

#[expect(clippy::disallowed_methods, reason = "the size of the benchmark, read once")]
fn size() -> Size {
    match std::env::var_os("PROVOST_BENCH_SMALL") {
        None => {
            Size { sessions: 20, measured_for: Duration::from_secs(30), bytes: 1 << 30, rounds: 9 }
        }
        Some(_) => {
            Size { sessions: 3, measured_for: Duration::from_secs(3), bytes: 32 << 20, rounds: 2 }
        }
    }
}

/// Time for freshly drawn screens to settle before a measurement starts.
const SETTLE_TIME: Duration = Duration::from_secs(3);

/// Returns the usage of several processor clocks during `measured_for`, in percent of one core.
#[expect(clippy::disallowed_methods, reason = "usage is measured over a period")]
fn cpu_shares<const N: usize>(
    looked_at: Duration,
    used: impl Fn() -> anyhow::Result<[f64; N]>,
) -> anyhow::Result<[f64; N]> {
    std::thread::sleep(SETTLE_TIME);
    let (began, before) = (crate::timing::now(), used()?);
    std::thread::sleep(looked_at);
    let (after, took) = (used()?, began.elapsed());
    let share = |no: usize| (after[no] - before[no]) / (took.as_secs_f64() * 1_000.0) * 100.0;
    Ok(std::array::from_fn(share))
}
