//! Decisions by the user or Provost override the lifecycle table.

use std::collections::BTreeSet;

use provost_core::{
    lifecycle::{
        Activity, Cause, ClaimKind, Flag, Judgement, Overlay, Process, Rule, State, StopCause,
        Verification, judge, table,
    },
    session::{Command, Signal},
};

use crate::kit::{Bench, OVER, question, spec};

fn ended() -> Judgement {
    table(ClaimKind::Failed, Process::Exit0, Activity::Exited, &Verification::None)
}

fn living() -> Judgement {
    table(ClaimKind::None, Process::Alive, Activity::Active, &Verification::None)
}

#[test]
fn a_decision_gives_its_own_state_cause_and_rule() {
    let stopped = |cause| Overlay::Stopped(cause);
    let decided = [
        (Overlay::Resolved(State::Accepted, None), State::Accepted, None, Rule::Resolved),
        (
            Overlay::Resolved(State::Failed, Some(Cause::Budget)),
            State::Failed,
            Some(Cause::Budget),
            Rule::Resolved,
        ),
        (Overlay::Cancelled, State::Cancelled, None, Rule::Cancelled),
        (Overlay::Superseded, State::Superseded, None, Rule::Superseded),
        (stopped(StopCause::Timeout), State::Failed, Some(Cause::Timeout), Rule::Stopped),
        (stopped(StopCause::Budget), State::Failed, Some(Cause::Budget), Rule::Stopped),
        (stopped(StopCause::Launch), State::Failed, Some(Cause::Launch), Rule::Stopped),
    ];
    for (overlay, state, cause, rule) in decided {
        for found in [ended(), living()] {
            let judged = judge(&overlay, found);
            assert_eq!((judged.state, judged.cause, judged.rule), (state, cause, rule));
            assert!(judged.flags.is_empty(), "the facts no longer matter");
        }
    }
}

#[test]
fn an_owed_check_takes_the_finality_and_leaves_the_flags() {
    let found = ended().with([Flag::Unverified]);
    let judged = judge(&Overlay::Verifying, found.clone());
    assert_eq!((judged.state, judged.cause), (State::Verifying, None));
    assert_eq!(judged.flags, found.flags);
}

#[test]
fn a_moving_tree_or_nothing_leaves_a_living_state_as_it_is() {
    assert_eq!(judge(&Overlay::MovingTree, living()), living());
    assert_eq!(judge(&Overlay::None, ended()), ended());
    assert_eq!(judge(&Overlay::MovingTree, ended()).state, State::Disputed);
}

#[test]
fn beside_an_open_question_only_unknown_liveness_is_shown() {
    let found = living().with([Flag::LivenessUnknown, Flag::ChecksFailed]);
    let judged = judge(&Overlay::BlockingRequest, found);
    assert_eq!(judged.flags, BTreeSet::from([Flag::LivenessUnknown]));
}

#[test]
fn a_process_that_cannot_be_looked_at_keeps_its_question() {
    let mut bench = Bench::running(spec());
    bench.signal(Signal::Asked(question("q"))).signal(OVER);
    let launch = bench.launch();
    bench.tell(Command::ProcessUnknown { launch, why: "no permission".to_owned() });
    assert_eq!(bench.state(), State::NeedsInput);
    assert!(bench.has(Flag::LivenessUnknown));
}
