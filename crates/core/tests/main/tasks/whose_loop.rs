//! The operator owns the loops it starts: a manager may stop one, but cannot finish the team by doing so.

use provost_core::task::{
    Actor, Blocker, Command, Event, LoopEnd, Rejected, SaysNothing, Template,
};

use super::kit::{A_REASON, Desk, member, template};

fn stop() -> Command {
    Command::StopLoop { because: A_REASON.to_owned() }
}

fn begin() -> Command {
    Command::BeginLoop { template: Box::new(template(2)) }
}

fn finishes(desk: &mut Desk, by: &Actor) -> Vec<&'static str> {
    let events = desk.done(by, Command::Finish { because: A_REASON.to_owned(), allow: Vec::new() });
    match events.first() {
        Some(Event::FinishRefused(refused)) => refused.blockers.iter().map(Blocker::code).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn a_manager_that_drops_the_operators_gate_cannot_finish_behind_it() {
    let mut desk = Desk::paired();
    desk.prove();
    desk.begin_loop(template(3));
    assert_eq!(finishes(&mut desk, &member("boss")), ["loop_incomplete"]);
    desk.done(&member("boss"), stop());
    for by in [member("boss"), Actor::Policy] {
        assert_eq!(finishes(&mut desk, &by), ["gate_dropped"], "{by:?}");
    }
    let why = Rejected::OperatorsLoop("build".to_owned());
    assert_eq!(desk.refused(&member("boss"), begin()), why, "a weaker one is no way around it");
    assert_eq!(desk.task.phase.word(), "active");
    assert_eq!(desk.task.readiness(|_| None).first().map(Blocker::code), Some("gate_dropped"));
    assert_eq!(finishes(&mut desk, &Actor::Operator), [] as [&str; 0]);
    assert_eq!(desk.task.phase.word(), "done");
}

#[test]
fn what_gave_up_is_the_operators_too() {
    let mut desk = Desk::paired();
    desk.prove();
    desk.begin_loop(Template { plateau: Some(1), ..template(9) });
    desk.show_all("same");
    desk.continues(2).expect("it may still have changed something");
    desk.handle("hand");
    desk.show_all("same");
    desk.continues(3).expect_err("nothing changed");
    let ended = desk.task.looped.as_ref().and_then(|looped| looped.ended.clone());
    assert_eq!(ended, Some(LoopEnd::Plateau { iterations: 1 }));
    assert_eq!(desk.refused(&member("boss"), begin()).code(), "operators_loop");
    desk.done(&member("boss"), stop());
    assert_eq!(finishes(&mut desk, &member("boss")), ["gate_dropped"]);
    // The operator starts another loop, which restores the gate.
    desk.begin_loop(template(2));
    assert_eq!(finishes(&mut desk, &member("boss")), ["loop_incomplete"]);
}

#[test]
fn what_a_manager_began_it_may_stop_and_so_may_it_what_the_operator_called_off() {
    let mut desk = Desk::paired();
    desk.prove();
    desk.done(&member("boss"), begin());
    desk.done(&member("boss"), stop());
    desk.done(&member("boss"), begin());
    desk.done(&member("boss"), stop());
    assert_eq!(desk.task.blockers(|_| None), []);
    desk.begin_loop(template(2));
    desk.done(&Actor::Operator, stop());
    desk.done(&member("boss"), begin());
    desk.done(&member("boss"), stop());
    assert_eq!(finishes(&mut desk, &member("boss")), [] as [&str; 0]);
    assert_eq!(desk.task.phase.word(), "done");
}

#[test]
fn to_stop_a_loop_needs_a_reason_that_says_something() {
    let mut desk = Desk::paired();
    desk.begin_loop(template(2));
    let because = "x".to_owned();
    let why = Rejected::SaysNothing(SaysNothing(because.clone()));
    for by in [member("boss"), Actor::Operator] {
        let stop = Command::StopLoop { because: because.clone() };
        assert_eq!(desk.refused(&by, stop), why);
    }
}

#[test]
fn a_loop_of_before_is_the_operators_and_nobody_dropped_it() {
    let (kind, v) = ("task.loop_begun", 1);
    let template = serde_json::to_string(&template(2)).expect("it is written");
    let begun = Event::decode(kind, v, &format!("{{\"template\":{template}}}"));
    let Ok(Event::LoopBegun(begun)) = begun else { panic!("{begun:?}") };
    assert_eq!(begun.by, Actor::Operator);
    let ended = Event::decode("task.loop_ended", 1, r#"{"end":{"stopped":{"because":"so"}}}"#);
    let Ok(Event::LoopEnded(ended)) = ended else { panic!("{ended:?}") };
    assert_eq!(ended.by, Actor::Operator);
}
