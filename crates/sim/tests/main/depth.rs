//! The depth of the simulator's tests.

/// Seeds of a run that has to visit every cell.
const WHOLE: u64 = 20_000;
/// Seeds of a one-minute run. A slow debug build only proves that they run.
const SHORT: u64 = if cfg!(debug_assertions) { 400 } else { 3_000 };

/// Returns the number of seeds: `PROVOST_SIM_SEEDS` if it exceeds a short run.
#[expect(clippy::disallowed_methods, reason = "a test's setting, read where it is used")]
pub(crate) fn seeds() -> u64 {
    let asked = std::env::var("PROVOST_SIM_SEEDS").ok().and_then(|text| text.parse().ok());
    if cfg!(debug_assertions) { SHORT } else { asked.unwrap_or(SHORT).max(SHORT) }
}

/// Whether everything is tried, and every cell has to be visited.
pub(crate) fn is_whole() -> bool {
    seeds() >= WHOLE
}

/// Whether the run is a deep one (`cargo xtask test --deep`).
#[cfg(feature = "seeded-bugs")]
#[expect(clippy::disallowed_methods, reason = "a test's setting, read where it is used")]
pub(crate) fn is_deep() -> bool {
    std::env::var_os("PROVOST_DEEP").is_some_and(|deep| deep == "1")
}
