//! An agent belongs to at most one session.

use provost_core::session::{
    ExternalAgent, ProcessIdentity, RecordSignal, RecordSource, SessionCommand, SessionSpec,
};

use crate::{
    input::kit::{adopted_session, adopted_spec, identity, terminal_spec},
    kit::TestSession,
};

fn process(pid: i32) -> Option<ProcessIdentity> {
    Some(ProcessIdentity { pid, ..identity() })
}

fn adoption_target(process: Option<ProcessIdentity>, thread: Option<&str>) -> ExternalAgent {
    ExternalAgent { process, thread: thread.map(str::to_owned), ..ExternalAgent::default() }
}

fn record_thread(harness: &mut TestSession, thread: &str) {
    let (launch, what) =
        (harness.launch(), RecordSignal::ThreadNamed { thread: thread.to_owned() });
    harness.apply(SessionCommand::RecordRead { launch, by: RecordSource::Rollout, place: 1, what });
}

#[test]
fn agent_is_matched_by_process_or_thread() {
    let mut harness = adopted_session(adopted_spec(false));
    record_thread(&mut harness, "t");
    let has = |process, thread| harness.session.has_agent(&adoption_target(process, thread));
    assert!(has(process(7), None) && has(None, Some("t")) && has(process(8), Some("t")));
    assert!(!has(process(8), None) && !has(None, Some("u")) && !has(None, None));
}

#[test]
fn agent_about_to_be_adopted_is_taken() {
    let given = Some(Box::new(adoption_target(process(7), Some("t"))));
    let harness = TestSession::new(SessionSpec { adopted: given, ..adopted_spec(false) });
    assert!(harness.session.has_agent(&adoption_target(process(7), None)));
    assert!(harness.session.has_agent(&adoption_target(None, Some("t"))));
}

#[test]
fn own_agent_is_taken_and_ended_agent_is_free() {
    let mut harness = TestSession::running(terminal_spec());
    record_thread(&mut harness, "t");
    assert!(harness.session.has_agent(&adoption_target(None, Some("t"))));
    let launch = harness.launch();
    let mut gone = adopted_session(adopted_spec(false));
    record_thread(&mut gone, "t");
    gone.apply(SessionCommand::ProcessUnobserved { launch, why: "gone".to_owned() });
    assert!(!gone.session.has_agent(&adoption_target(None, Some("t"))));
    let mut left = adopted_session(adopted_spec(false));
    record_thread(&mut left, "t");
    left.apply(SessionCommand::Cancel { because: "enough".to_owned() });
    assert!(!left.session.has_agent(&adoption_target(process(7), Some("t"))));
}

#[test]
fn thread_the_user_left_is_free() {
    let mut harness = adopted_session(adopted_spec(false));
    record_thread(&mut harness, "t");
    let (launch, what) =
        (harness.launch(), RecordSignal::ThreadSwitched { thread: "u".to_owned() });
    harness.apply(SessionCommand::RecordRead { launch, by: RecordSource::Rollout, place: 2, what });
    assert!(harness.session.has_agent(&adoption_target(None, Some("u"))));
    assert!(!harness.session.has_agent(&adoption_target(None, Some("t"))));
}
