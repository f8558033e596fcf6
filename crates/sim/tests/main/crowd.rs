//! A thousand workers under one manager, with an engine that dies again and again.

use provost_sim::crowd;

/// How many work; a debug build, which is slow, only shows that they do.
const WORKERS: u64 = if cfg!(debug_assertions) { 60 } else { 1_000 };

#[test]
fn a_thousand_workers_under_one_manager_are_each_instructed_once_and_heard() {
    let report = crowd(7, WORKERS);
    println!(
        "{WORKERS} workers: {} events in {} commits, {} crashes",
        report.events, report.commits, report.crashes
    );
    assert_eq!(report.broken, None);
    assert!(report.crashes > 3, "the engine died {} times", report.crashes);
}
