//! Run attempts: a resume continues the remaining work, in the same conversation if possible.

use provost_core::{
    ids::SessionId,
    lifecycle::State,
    run::{Cause, Command, Ending, LandMode, ReviewMode, RunSpec, Stage},
    session::{self, Driver, Resolve},
};

use super::kit::{
    RunBench, landing_by, merge_step, reviewed, run_spec, triaged, unchecked, understood,
};

fn cancelled(bench: &mut RunBench) -> SessionId {
    let id = bench.live();
    bench.start().cancel().end_session(id);
    id
}

#[test]
fn work_goes_on_in_the_same_conversation_and_the_same_worktree() {
    let mut bench = RunBench::open(triaged());
    bench.does("old", Some(understood("it")));
    let id = cancelled(&mut bench);
    bench.tell(Command::Resume);
    assert_eq!((bench.run.leg().no, bench.run.stage), (2, Stage::Work));
    assert_eq!(bench.live(), id);
    assert_eq!((bench.last().no, bench.last().leg, bench.last().cycle), (2, 2, 1));
    assert_eq!(bench.session(2).attempts.len(), 2);
    assert!(
        bench
            .instruction()
            .starts_with("The work was interrupted before it was done: cancelled (enough).")
    );
    bench.works("new").landed("new");
    assert_eq!(bench.ending(), Ending::Succeeded);
    assert_eq!(bench.run.legs[0].sealed.as_ref().unwrap().ending, Ending::Cancelled, "it stays");
    let hooks = ["run.opened", "run.cancelled", "run.succeeded"];
    assert_eq!(bench.hooks(), hooks);
}

#[test]
fn every_leg_has_its_own_card() {
    let mut bench = RunBench::open(run_spec());
    cancelled(&mut bench);
    bench.tell(Command::Resume);
    cancelled(&mut bench);
    let cards = bench.run.effects().into_iter().map(|effect| effect.key());
    let cards: Vec<String> = cards.filter(|key| key.starts_with("card")).collect();
    assert_eq!(cards, ["card-1", "card-2"]);
    assert_eq!(bench.run.hooks_fired.values().copied().max(), Some(2), "each is announced");
}

#[test]
fn stages_without_a_conversation_to_go_on_with_begin_anew() {
    let mut bench = RunBench::open(triaged());
    cancelled(&mut bench);
    bench.tell(Command::Resume);
    assert_eq!((bench.run.stage, bench.last().no), (Stage::Triage, 2));
    let mut bench = RunBench::open(reviewed(ReviewMode::Report, ReviewMode::Off));
    bench.works("new");
    cancelled(&mut bench);
    bench.tell(Command::Resume);
    assert_eq!((bench.run.stage, bench.last().no, bench.last().cycle), (Stage::TaskReview, 3, 1));
}

#[test]
fn a_failed_run_is_resumed_too() {
    let mut bench = RunBench::open(run_spec());
    bench.fails();
    assert_eq!(bench.outcome().cause, Some(Cause::Work));
    bench.tell(Command::Resume).works("new").landed("new");
    assert_eq!(bench.ending(), Ending::Succeeded);
}

#[test]
fn work_that_could_not_be_committed_is_tried_again() {
    let mut bench = RunBench::open(unchecked());
    bench.works("-");
    let session = bench.run.id.session(1);
    bench.tell(Command::HeadFailed { session, reason: "no room".to_owned() });
    bench.tell(Command::Resume).works("-").head("new").landed("new");
    assert_eq!(bench.ending(), Ending::Completed);
}

#[test]
fn a_place_that_was_removed_or_an_agent_that_takes_no_more_is_replaced() {
    let mut bench = RunBench::open(run_spec());
    let id = cancelled(&mut bench);
    bench.say_to(id, session::Command::WorkRemoved);
    bench.tell(Command::Resume);
    assert_eq!((bench.last().no, bench.session(2).attempts.len()), (2, 1));
    let mut spec = run_spec();
    spec.agent.driver = Driver::Command;
    let mut bench = RunBench::open(spec);
    cancelled(&mut bench);
    bench.tell(Command::Resume);
    assert_eq!(bench.last().no, 2, "a command takes no second instruction");
}

#[test]
fn what_people_do_with_a_session_meanwhile_is_theirs() {
    let mut bench = RunBench::open(run_spec());
    let id = cancelled(&mut bench);
    let send = session::Command::Send {
        key: "mine".to_owned(),
        text: "try this".to_owned(),
        mode: session::SendMode::Continue,
    };
    bench.theirs.insert(id);
    bench.say_to(id, send);
    assert_eq!(bench.ending(), Ending::Cancelled, "the run has ended");
    let because = "done".to_owned();
    bench.say_to(id, session::Command::Resolve { to: Resolve::Accepted, because });
    bench.theirs.clear();
    bench.tell(Command::Resume);
    assert_eq!(bench.live(), id);
    assert_eq!(bench.session(1).attempts.len(), 3);
}

#[test]
fn a_merge_that_was_not_mended_is_begun_anew() {
    let mut bench = RunBench::open(landing_by(LandMode::Merge));
    bench.works("new").tell(Command::TargetMoved { step: 0, merge: merge_step("m", &["a"]) });
    bench.fails().tell(Command::LandOver { leg: 1, pull: None });
    assert_eq!(bench.outcome().cause, Some(Cause::Landing));
    bench.tell(Command::Resume);
    assert_eq!((bench.run.stage, bench.last().no, bench.last().cycle), (Stage::Land, 3, 1));
    bench.works("mended");
    assert_eq!(bench.owed(), ["land-2-1"]);
    bench.landed("mended");
    assert_eq!(bench.ending(), Ending::Succeeded);
}

#[test]
fn a_branch_that_kept_moving_may_move_again_for_a_run_that_is_resumed() {
    let mut bench = RunBench::open(RunSpec { land: LandMode::Merge, ..unchecked() });
    bench.works("-").head("new");
    for step in 0..5 {
        bench.tell(Command::TargetMoved { step, merge: merge_step(&format!("m{step}"), &[]) });
    }
    bench.tell(Command::TargetMoved { step: 5, merge: merge_step("m5", &[]) });
    assert_eq!(bench.outcome().cause, Some(Cause::Landing));
    assert_eq!(
        bench.outcome().detail,
        "the branch moved 5 times while the work was being merged with it"
    );
    bench.tell(Command::Resume);
    bench.tell(Command::TargetMoved { step: 5, merge: merge_step("m5", &[]) });
    assert_eq!(bench.owed(), ["land-2-6"]);
}

#[test]
fn a_live_owner_is_not_resumed() {
    let mut bench = RunBench::open(run_spec());
    assert!(bench.try_tell(Command::Resume).is_err());
    bench.start().cancel();
    assert!(bench.try_tell(Command::Resume).is_err());
    assert_eq!(bench.state(1), State::Cancelled);
    assert_eq!(bench.run.legs.len(), 1);
}
