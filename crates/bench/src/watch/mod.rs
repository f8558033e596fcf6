//! What it costs to watch: a large record of a conversation, twenty agents in terminals, and twenty of others in panes.
//!
//! With `PROVOST_BENCH_SMALL` set all of it is done with little, to see that it runs through: such figures mean nothing.

mod ingest;
mod panes;
mod terminals;

use std::time::Duration;

pub(crate) use ingest::run as ingest;
pub(crate) use panes::run as panes;
pub(crate) use terminals::run as terminals;

/// How much is done.
#[derive(Clone, Copy, Debug)]
struct Size {
    sessions: usize,
    /// For how long it is looked what they cost.
    looked_at: Duration,
    /// How large a record is.
    bytes: usize,
    rounds: usize,
}

#[expect(clippy::disallowed_methods, reason = "whoever runs this says how much is done, read once")]
fn size() -> Size {
    match std::env::var_os("PROVOST_BENCH_SMALL") {
        None => {
            Size { sessions: 20, looked_at: Duration::from_secs(30), bytes: 1 << 30, rounds: 9 }
        }
        Some(_) => {
            Size { sessions: 3, looked_at: Duration::from_secs(3), bytes: 32 << 20, rounds: 2 }
        }
    }
}

/// Screens that have just been drawn are still being finished; nothing is measured meanwhile.
const SETTLED: Duration = Duration::from_secs(3);

/// Gives what several clocks of processors went on while they were looked at, in hundredths of one core.
#[expect(clippy::disallowed_methods, reason = "what is used in a time is measured over a time")]
fn shares<const N: usize>(
    looked_at: Duration,
    used: impl Fn() -> anyhow::Result<[f64; N]>,
) -> anyhow::Result<[f64; N]> {
    std::thread::sleep(SETTLED);
    let (began, before) = (crate::timing::now(), used()?);
    std::thread::sleep(looked_at);
    let (after, took) = (used()?, began.elapsed());
    let share = |no: usize| (after[no] - before[no]) / (took.as_secs_f64() * 1_000.0) * 100.0;
    Ok(std::array::from_fn(share))
}
