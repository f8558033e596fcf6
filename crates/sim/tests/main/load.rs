//! A thousand workers under one manager, with an engine that crashes repeatedly.

use provost_sim::crowd;

use crate::depth::is_whole;

/// The number of workers: the thousand of the test's name only in a whole run.
fn workers() -> u64 {
    if is_whole() {
        1_000
    } else if cfg!(debug_assertions) {
        60
    } else {
        300
    }
}

#[test]
fn thousand_workers_are_instructed_once_and_report() {
    let workers = workers();
    let report = crowd(7, workers);
    println!(
        "{workers} workers: {} events in {} commits, {} crashes",
        report.events, report.commits, report.crashes
    );
    assert_eq!(report.broken, None);
    assert!(report.crashes > 3, "the engine crashed {} times", report.crashes);
}
