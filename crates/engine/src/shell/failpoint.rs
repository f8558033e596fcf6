//! Points at which a test can abort the daemon, to prove that nothing is lost or repeated.
//!
//! Compiled only with the feature `failpoints`, which releases do not enable.

/// Counts how often this point is passed, and aborts the process at the configured pass.
#[cfg(feature = "failpoints")]
pub fn pass(place: &str) {
    use std::sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    };
    static WANTED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    #[expect(clippy::disallowed_methods, reason = "a test's switch, read once")]
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("PROVOST_FAILPOINT").ok()?;
        let (place, nth) = text.rsplit_once(':')?;
        Some((place.to_owned(), nth.parse().ok()?))
    });
    let Some((wanted, nth)) = wanted else { return };
    if wanted == place && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *nth {
        std::process::abort();
    }
}

/// Does nothing.
#[cfg(not(feature = "failpoints"))]
pub fn pass(_place: &str) {}

/// Unwinds like a panic, but silently, the first N times that this point is passed. N is configured.
#[cfg(feature = "failpoints")]
pub fn unwind(place: &str) {
    use std::sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    };
    static WANTED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    #[expect(clippy::disallowed_methods, reason = "a test's switch, read once")]
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("PROVOST_FAILPOINT_UNWIND").ok()?;
        let (place, count) = text.rsplit_once(':')?;
        Some((place.to_owned(), count.parse().ok()?))
    });
    let Some((wanted, count)) = wanted else { return };
    if wanted == place && PASSED.fetch_add(1, Ordering::SeqCst) < *count {
        std::panic::resume_unwind(Box::new("a failpoint"));
    }
}

/// Does nothing.
#[cfg(not(feature = "failpoints"))]
pub fn unwind(_place: &str) {}
