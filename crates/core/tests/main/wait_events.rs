//! Waits become due by events that happen after the last evaluation.

use provost_core::wait::Wait;

#[test]
fn new_wait_is_due_without_event() {
    assert!(Wait::begin(7).is_due());
}

#[test]
fn later_event_makes_wait_due_again() {
    let mut wait = Wait::begin(7);
    wait.mark_evaluated();
    wait.record_event(7);
    assert!(!wait.is_due(), "it happened before the look");
    wait.record_event(9);
    assert!(wait.is_due());
    assert_eq!(wait.since(), 9);
}
