//! The operator owns the loops it starts: a manager may stop one, but cannot finish the team by doing so.

use provost_core::team::{
    Event, FinishBlocker, FinishEvent, LoopEnd, LoopEvent, LoopTemplate, TeamActor, TeamCommand,
    TeamRejection, TextTooShort,
};

use super::kit::{A_REASON, TestTeam, member, template};

fn stop() -> TeamCommand {
    TeamCommand::StopLoop { because: A_REASON.to_owned() }
}

fn begin() -> TeamCommand {
    TeamCommand::BeginLoop { template: Box::new(template(2)) }
}

fn finish_blockers(team: &mut TestTeam, by: &TeamActor) -> Vec<&'static str> {
    let events =
        team.apply(by, TeamCommand::Finish { because: A_REASON.to_owned(), allow: Vec::new() });
    match events.first() {
        Some(Event::Finish(FinishEvent::FinishRefused(refused))) => {
            refused.blockers.iter().map(FinishBlocker::code).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn manager_cannot_finish_after_dropping_gate() {
    let mut team = TestTeam::paired();
    team.satisfy_by_operator();
    team.begin_loop(template(3));
    assert_eq!(finish_blockers(&mut team, &member("boss")), ["loop_incomplete"]);
    team.apply(&member("boss"), stop());
    for by in [member("boss"), TeamActor::Policy] {
        assert_eq!(finish_blockers(&mut team, &by), ["gate_dropped"], "{by:?}");
    }
    let why = TeamRejection::OperatorsLoop("build".to_owned());
    assert_eq!(team.reject(&member("boss"), begin()), why, "a weaker one is no way around it");
    assert_eq!(team.task.phase.as_str(), "active");
    assert_eq!(
        team.task.readiness(|_| None).first().map(FinishBlocker::code),
        Some("gate_dropped")
    );
    assert_eq!(finish_blockers(&mut team, &TeamActor::Operator), [] as [&str; 0]);
    assert_eq!(team.task.phase.as_str(), "done");
}

#[test]
fn plateaued_loop_stays_the_operators() {
    let mut team = TestTeam::paired();
    team.satisfy_by_operator();
    team.begin_loop(LoopTemplate { plateau: Some(1), ..template(9) });
    team.show_all_evidence("same");
    team.continue_loop(2).expect("it may still have changed something");
    team.handle("hand");
    team.show_all_evidence("same");
    team.continue_loop(3).expect_err("nothing changed");
    let ended = team.task.loop_state.as_ref().and_then(|looped| looped.ended.clone());
    assert_eq!(ended, Some(LoopEnd::Plateau { iterations: 1 }));
    assert_eq!(team.reject(&member("boss"), begin()).code(), "operators_loop");
    team.apply(&member("boss"), stop());
    assert_eq!(finish_blockers(&mut team, &member("boss")), ["gate_dropped"]);
    // The operator starts another loop, which restores the gate.
    team.begin_loop(template(2));
    assert_eq!(finish_blockers(&mut team, &member("boss")), ["loop_incomplete"]);
}

#[test]
fn manager_may_stop_own_or_released_loops() {
    let mut team = TestTeam::paired();
    team.satisfy_by_operator();
    team.apply(&member("boss"), begin());
    team.apply(&member("boss"), stop());
    team.apply(&member("boss"), begin());
    team.apply(&member("boss"), stop());
    assert_eq!(team.task.blockers(|_| None), []);
    team.begin_loop(template(2));
    team.apply(&TeamActor::Operator, stop());
    team.apply(&member("boss"), begin());
    team.apply(&member("boss"), stop());
    assert_eq!(finish_blockers(&mut team, &member("boss")), [] as [&str; 0]);
    assert_eq!(team.task.phase.as_str(), "done");
}

#[test]
fn stopping_a_loop_needs_a_meaningful_reason() {
    let mut team = TestTeam::paired();
    team.begin_loop(template(2));
    let because = "x".to_owned();
    let why = TeamRejection::TextTooShort(TextTooShort(because.clone()));
    for by in [member("boss"), TeamActor::Operator] {
        let stop = TeamCommand::StopLoop { because: because.clone() };
        assert_eq!(team.reject(&by, stop), why);
    }
}

#[test]
fn old_loop_events_belong_to_operator() {
    let (kind, v) = ("team.loop_begun", 1);
    let template = serde_json::to_string(&template(2)).expect("it is written");
    let begun = Event::decode(kind, v, &format!("{{\"template\":{template}}}"));
    let Ok(Event::Loop(LoopEvent::LoopBegun(begun))) = begun else { panic!("{begun:?}") };
    assert_eq!(begun.by, TeamActor::Operator);
    let ended = Event::decode("team.loop_ended", 1, r#"{"end":{"stopped":{"because":"so"}}}"#);
    let Ok(Event::Loop(LoopEvent::LoopEnded(ended))) = ended else { panic!("{ended:?}") };
    assert_eq!(ended.by, TeamActor::Operator);
}
