//! An agent belongs to at most one session.

use provost_core::session::{Adopted, Command, Identity, Record, Recorded, Spec};

use crate::{
    kit::Bench,
    watching::{adopted, identity, terminal, watching},
};

fn process(pid: i32) -> Option<Identity> {
    Some(Identity { pid, ..identity() })
}

fn wanted(process: Option<Identity>, thread: Option<&str>) -> Adopted {
    Adopted { process, thread: thread.map(str::to_owned), ..Adopted::default() }
}

fn named(bench: &mut Bench, thread: &str) {
    let (launch, what) = (bench.launch(), Recorded::Named { thread: thread.to_owned() });
    bench.tell(Command::Recorded { launch, by: Record::Rollout, place: 1, what });
}

#[test]
fn an_agent_is_known_by_its_process_and_by_its_conversation() {
    let mut bench = watching(adopted(false));
    named(&mut bench, "t");
    let has = |process, thread| bench.session.has_agent(&wanted(process, thread));
    assert!(has(process(7), None) && has(None, Some("t")) && has(process(8), Some("t")));
    assert!(!has(process(8), None) && !has(None, Some("u")) && !has(None, None));
}

#[test]
fn one_that_is_only_about_to_be_watched_is_taken_already() {
    let given = Some(Box::new(wanted(process(7), Some("t"))));
    let bench = Bench::new(Spec { adopted: given, ..adopted(false) });
    assert!(bench.session.has_agent(&wanted(process(7), None)));
    assert!(bench.session.has_agent(&wanted(None, Some("t"))));
}

#[test]
fn an_agent_of_provosts_own_is_taken_and_one_that_ended_is_free() {
    let mut bench = Bench::running(terminal());
    named(&mut bench, "t");
    assert!(bench.session.has_agent(&wanted(None, Some("t"))));
    let launch = bench.launch();
    let mut gone = watching(adopted(false));
    named(&mut gone, "t");
    gone.tell(Command::ProcessUnobserved { launch, why: "gone".to_owned() });
    assert!(!gone.session.has_agent(&wanted(None, Some("t"))));
    let mut left = watching(adopted(false));
    named(&mut left, "t");
    left.tell(Command::Cancel { because: "enough".to_owned() });
    assert!(!left.session.has_agent(&wanted(process(7), Some("t"))));
}

#[test]
fn a_conversation_that_was_left_is_free() {
    let mut bench = watching(adopted(false));
    named(&mut bench, "t");
    let (launch, what) = (bench.launch(), Recorded::Moved { thread: "u".to_owned() });
    bench.tell(Command::Recorded { launch, by: Record::Rollout, place: 2, what });
    assert!(bench.session.has_agent(&wanted(None, Some("u"))));
    assert!(!bench.session.has_agent(&wanted(None, Some("t"))));
}
