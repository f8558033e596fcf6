//! Results that arrive late, twice, or from before a cancel are ignored.

use provost_core::{
    run::{Cause, Command, Ending, Rejected},
    verdict::CheckEnd,
};

use super::kit::{RunBench, given};
use crate::kit::snapshot;

fn refuses(bench: &mut RunBench, late: &Command) {
    let before = bench.log.len();
    assert_eq!(bench.try_tell(late.clone()), Err(Rejected::Nothing), "{late:?}");
    assert_eq!(bench.log.len(), before);
}

fn two_done() -> RunBench {
    let mut bench = RunBench::open(given(&[("a", &[]), ("b", &[]), ("c", &["a"])]));
    bench.on("a").works("a1").on("b").works("b1");
    bench
}

#[test]
fn a_merge_is_taken_once_and_only_onto_the_newest_work() {
    let mut bench = two_done();
    let merged = bench.batch_merged(&[("a", "a1")], &[]);
    let Command::BatchMerged { batch, links, conflicts, .. } = merged.clone() else {
        unreachable!()
    };
    let onto = snapshot("older");
    refuses(&mut bench, &Command::BatchMerged { batch, onto, links, conflicts });
    bench.tell(merged.clone());
    refuses(&mut bench, &merged);
    bench.integrates();
    refuses(&mut bench, &merged);
    assert_eq!(bench.count("run.batch_merged"), 1);
}

#[test]
fn the_branch_is_brought_forward_once_and_only_as_far_as_is_proved() {
    let mut bench = two_done();
    bench.merges(&[("a", "m1"), ("b", "m2")]);
    refuses(&mut bench, &Command::Integrated { batch: 1, len: 2 });
    bench.merge_is("m2", CheckEnd::Exit(1)).merge_is("m1", CheckEnd::Exit(0));
    let integrated = bench.integrated();
    assert_eq!(integrated, Command::Integrated { batch: 1, len: 1 });
    refuses(&mut bench, &Command::Integrated { batch: 1, len: 2 });
    refuses(&mut bench, &Command::Integrated { batch: 1, len: 0 });
    bench.tell(integrated.clone());
    refuses(&mut bench, &integrated);
    assert_eq!(bench.run.head, Some(snapshot("m1")));
}

#[test]
fn an_errand_is_answered_once() {
    let mut bench = two_done();
    bench.comes_in("a");
    let no = bench.errand("c");
    let failed = Command::ErrandFailed { no, reason: "late".to_owned() };
    bench.tell(Command::ErrandDone { no });
    refuses(&mut bench, &Command::ErrandDone { no });
    refuses(&mut bench, &failed);
    refuses(&mut bench, &Command::ErrandDone { no: no + 1 });
    assert_eq!(bench.count("run.handed_over"), 0);
}

#[test]
fn nothing_of_the_queue_is_taken_once_the_run_was_stopped() {
    let mut bench = two_done();
    let merged = bench.batch_merged(&[("a", "a1")], &[]);
    bench.cancel().end_all();
    refuses(&mut bench, &merged);
    refuses(&mut bench, &Command::QueueFailed { batch: 1, reason: "late".to_owned() });
    let mut bench = two_done();
    bench.merges(&[("a", "a1")]);
    let integrated = bench.integrated();
    bench.cancel();
    refuses(&mut bench, &integrated);
    bench.end_all().tell(Command::Resume);
    refuses(&mut bench, &integrated);
    assert_eq!(bench.run.head, None);
    bench.merges(&[("a", "a1")]).integrates();
    assert_eq!(bench.word("a"), "merged");
}

#[test]
fn an_errand_from_before_a_resume_is_known_as_one() {
    let mut bench = two_done();
    bench.comes_in("a").cancel().end_all().tell(Command::Resume);
    assert_eq!(bench.errand("c"), 2, "it is another");
    refuses(&mut bench, &Command::ErrandDone { no: 1 });
}

#[test]
fn a_queue_that_cannot_merge_ends_the_run() {
    let mut bench = two_done();
    refuses(&mut bench, &Command::QueueFailed { batch: 2, reason: "late".to_owned() });
    bench.tell(Command::QueueFailed { batch: 1, reason: "no such branch".to_owned() }).end_all();
    assert_eq!((bench.ending(), bench.outcome().cause), (Ending::Failed, Some(Cause::Queue)));
    assert_eq!(bench.outcome().detail, "no such branch");
}
