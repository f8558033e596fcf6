//! Loops: no iteration without its evidence, repeated or skipped.

use provost_core::task::{
    Actor, BadTemplate, Blocked, CleanUp, Command, Event, Evidence, LoopEnd, Proof, Rejected,
    Required, Role, Shown, Standing, Template,
};
use provost_core::{task::Checked, verdict::CheckEnd};

use super::kit::{A_REASON, Desk, fitting, go_on, member, template};
use crate::kit::receipt;

fn looping(template: Template) -> Desk {
    let mut desk = Desk::paired();
    desk.begin_loop(template);
    desk
}

fn iteration(desk: &Desk) -> u32 {
    desk.task.looped.as_ref().expect("there is a loop").iteration
}

#[test]
fn d20_an_iteration_begins_when_its_continuation_is_accepted_and_not_before() {
    let mut desk = looping(template(3));
    desk.show_all("one");
    let no = desk.continues(2).expect("its evidence is there");
    assert_eq!(iteration(&desk), 1, "not when it is stored");
    let (_, lease) = desk.next("hand").expect("it waits");
    assert_eq!(iteration(&desk), 1, "not when it is offered");
    desk.wait(10);
    assert_eq!((iteration(&desk), desk.standing(no)), (1, &Standing::Stored), "not by time");
    let (_, lease) = desk.next("hand").map_or((no, lease), |offered| offered);
    let events = desk.done(&member("hand"), Command::Accept { no, lease, polls: 0 });
    assert_eq!(iteration(&desk), 2);
    let Some(Event::LoopAdvanced(advanced)) = events.get(1) else { panic!("in one commit") };
    assert_eq!((advanced.to, advanced.message), (2, no));
    assert_eq!(advanced.consumer, "hand");
    assert_eq!(desk.task.looped.as_ref().map(|looped| looped.shown.len()), Some(0));
}

#[test]
fn d19_every_proper_subset_of_the_evidence_is_refused() {
    let proofs = [
        Proof::Verified { check: "test".to_owned() },
        Proof::Asserted,
        Proof::Adversarial,
        Proof::Artifact { fields: vec!["url".to_owned()] },
        Proof::Pictures { differing: 5, files: None },
    ];
    let evidence: Vec<Required> = proofs
        .into_iter()
        .enumerate()
        .map(|(n, proof)| Required { name: format!("proof-{n}"), proof })
        .collect();
    let all = evidence.len();
    for subset in 0..1_u32 << all {
        let mut desk = looping(Template { evidence: evidence.clone(), ..template(3) });
        let shown = |n: &usize| subset & (1 << n) != 0;
        for n in (0..all).filter(shown) {
            desk.show(&evidence[n], "one");
        }
        let missing: Vec<String> =
            (0..all).filter(|n| !shown(n)).map(|n| format!("proof-{n}")).collect();
        let expected =
            if missing.is_empty() { Ok(1) } else { Err(Blocked::MissingEvidence(missing)) };
        assert_eq!(desk.continues(2), expected);
    }
}

#[test]
fn d13_d20_the_current_an_earlier_and_a_skipped_iteration_are_refused_with_the_expected_number() {
    let mut desk = looping(template(9));
    desk.show_all("one");
    desk.continues(2).expect("its evidence is there");
    desk.handle("hand");
    desk.show_all("two");
    for given in [0, 1, 2, 4, 9] {
        let why = Blocked::OtherIteration { expected: 3, given };
        assert_eq!(desk.continues(given), Err(why));
    }
    assert_eq!(iteration(&desk), 2);
    assert_eq!(desk.task.looped.as_ref().map(|looped| looped.refusals), Some(5));
}

#[test]
fn d13_one_continuation_is_for_one_iteration() {
    let mut desk = looping(template(9));
    desk.show_all("one");
    let no = desk.continues(2).expect("its evidence is there");
    assert_eq!(desk.continues(2), Err(Blocked::AskedAlready(no)));
    let other = Blocked::OtherIteration { expected: 2, given: 3 };
    assert_eq!(desk.continues(3), Err(other), "the number comes first");
    let because = A_REASON.to_owned();
    desk.done(&member("boss"), Command::CancelMessage { no, because });
    desk.continues(2).expect("the other one is gone");
}

#[test]
fn the_gate_is_looked_at_again_when_it_is_delivered() {
    let mut desk = looping(template(9));
    desk.show_all("one");
    let no = desk.continues(2).expect("its evidence is there");
    desk.done(&member("boss"), Command::StopLoop { because: A_REASON.to_owned() });
    assert_eq!(desk.next("hand"), None);
    assert_eq!(desk.standing(no).word(), "dead");
    assert_eq!(iteration(&desk), 1);
}

#[test]
fn d2_a_continuation_that_comes_again_begins_nothing_again() {
    let mut desk = looping(template(9));
    desk.show_all("one");
    let no = desk.continues(2).expect("its evidence is there");
    desk.take("hand");
    desk.wait(100);
    assert_eq!(*desk.standing(no), Standing::Stored);
    assert_eq!(desk.handle("hand"), no);
    assert_eq!(iteration(&desk), 2);
    let advanced = desk.events.iter().filter(|event| matches!(event, Event::LoopAdvanced(_)));
    assert_eq!(advanced.count(), 1);
}

#[test]
fn a_plain_message_advances_no_loop() {
    let mut desk = looping(template(9));
    desk.show_all("one");
    desk.post(&member("boss"), "hand", "please begin iteration 2");
    desk.handle("hand");
    assert_eq!(iteration(&desk), 1);
}

#[test]
fn success_in_the_last_iteration_counts_and_there_is_none_after_it() {
    let mut desk = looping(template(1));
    assert!(!desk.task.looped.as_ref().is_some_and(|looped| looped.is_complete()));
    desk.show_all("one");
    assert_eq!(desk.continues(2), Err(Blocked::LastIteration(1)));
    assert!(desk.task.looped.as_ref().is_some_and(|looped| looped.is_complete()));
}

#[test]
fn a_loop_that_changes_nothing_is_stopped() {
    let mut desk = looping(Template { plateau: Some(2), ..template(9) });
    for next in 2..=3 {
        desk.show_all("same");
        desk.continues(next).expect("it may still have changed something");
        desk.handle("hand");
    }
    desk.show_all("same");
    assert_eq!(
        desk.continues(4),
        Err(Blocked::Plateau(2)),
        "the second and the third changed nothing"
    );
    assert_eq!(desk.continues(4), Err(Blocked::Ended), "it ended with that");
    let ended = desk.events.iter().filter(|event| matches!(event, Event::LoopEnded(_)));
    assert_eq!(ended.count(), 1);
    let ended = desk.task.looped.as_ref().and_then(|looped| looped.ended.clone());
    assert_eq!(ended, Some(LoopEnd::Plateau { iterations: 2 }));
    // The ended loop blocks finishing until the operator accepts it as it is.
    desk.prove();
    assert!(!desk.task.blockers(|_| None).is_empty());
    desk.done(&Actor::Operator, Command::StopLoop { because: A_REASON.to_owned() });
    assert!(desk.task.blockers(|_| None).is_empty());
}

#[test]
fn a_loop_that_changes_the_tree_goes_on() {
    let mut desk = looping(Template { plateau: Some(1), ..template(9) });
    for next in 2..=6 {
        desk.show_all(&format!("tree-{next}"));
        desk.continues(next).expect("the tree changed");
        desk.handle("hand");
    }
}

#[test]
fn d12_evidence_that_says_nothing_is_refused() {
    let mut desk = looping(template(9));
    let show = |name: &str, shown| Command::Show { iteration: 1, name: name.to_owned(), shown };
    let mut attack = super::kit::attack();
    attack.result = "x".to_owned();
    let why = desk.refused(&member("eye"), show("attack", Shown::Attack(attack)));
    assert!(matches!(why, Rejected::Unfit(_)), "{why:?}");
    let word =
        Evidence::Asserted { text: "all of the tests pass".to_owned(), by: "hand".to_owned() };
    let why = desk.refused(&member("hand"), show("tests", Shown::Evidence(word.clone())));
    assert!(matches!(why, Rejected::Unfit(_)), "{why:?}");
    let why = desk.refused(&member("hand"), show("other", Shown::Evidence(word)));
    assert_eq!(why, Rejected::NoSuchEvidence(vec!["tests".to_owned(), "attack".to_owned()]));
}

#[test]
fn only_provost_shows_what_it_ran_itself() {
    let mut desk = looping(template(9));
    let (shown, _) = fitting(&Proof::Verified { check: "test".to_owned() }, "one");
    let forged = Command::Show { iteration: 1, name: "tests".to_owned(), shown };
    assert_eq!(desk.refused(&member("hand"), forged), Rejected::NothingToCheck);
}

#[test]
fn evidence_of_another_iteration_is_refused() {
    let mut desk = looping(template(9));
    let (shown, actor) = fitting(&Proof::Adversarial, "one");
    let early = Command::Show { iteration: 2, name: "attack".to_owned(), shown };
    assert_eq!(desk.refused(&actor, early), Rejected::OtherIteration { now: 1, given: 2 });
}

#[test]
fn a_template_has_bounds_and_evidence_with_names() {
    let twice = vec![template(1).evidence[0].clone(), template(1).evidence[0].clone()];
    let empty = Required { name: "a".to_owned(), proof: Proof::Artifact { fields: Vec::new() } };
    for (bad, why) in [
        (Template { max: 0, ..template(1) }, BadTemplate::Bounds(0)),
        (Template { max: 1001, ..template(1) }, BadTemplate::Bounds(1001)),
        (Template { evidence: Vec::new(), ..template(1) }, BadTemplate::NoEvidence),
        (Template { evidence: twice, ..template(1) }, BadTemplate::Twice("tests".to_owned())),
        (Template { evidence: vec![empty], ..template(1) }, BadTemplate::Empty("a".to_owned())),
    ] {
        assert_eq!(bad.check(), Err(why));
    }
    assert_eq!(Template { max: 1000, clean_up: CleanUp::Compact, ..template(1) }.check(), Ok(()));
}

#[test]
fn one_loop_at_a_time() {
    let mut desk = looping(template(9));
    let another = Command::BeginLoop { template: Box::new(template(2)) };
    let why = Rejected::LoopRuns("build".to_owned());
    assert_eq!(desk.refused(&Actor::Operator, another.clone()), why);
    desk.done(&Actor::Operator, Command::StopLoop { because: A_REASON.to_owned() });
    desk.done(&Actor::Operator, another);
    desk.done(&Actor::Operator, Command::StopLoop { because: A_REASON.to_owned() });
}

#[test]
fn there_is_no_next_iteration_without_a_loop() {
    let mut desk = Desk::paired();
    assert_eq!(desk.refused(&member("boss"), go_on(2, "k")), Rejected::NoLoop);
}

#[test]
fn an_iteration_begins_with_a_worker_and_nobody_else() {
    let mut desk = looping(template(3));
    desk.show_all("one");
    for name in ["boss", "eye"] {
        let mut command = go_on(2, name);
        if let Command::Continue { to, .. } = &mut command {
            *to = name.to_owned();
        }
        let why = desk.refused(&member("boss"), command);
        assert_eq!(why, Rejected::NoWorker(name.to_owned()));
    }
}

#[test]
fn a_continuation_is_of_its_own_loop() {
    let mut desk = looping(template(3));
    desk.show_all("one");
    let no = desk.continues(2).expect("its evidence is there");
    desk.done(&member("boss"), Command::StopLoop { because: A_REASON.to_owned() });
    desk.begin_loop(template(3));
    desk.show_all("one");
    assert_eq!(desk.next("hand"), None, "it was for another");
    assert!(
        matches!(desk.standing(no), Standing::Dead { reason } if reason.contains("other_loop"))
    );
    assert_eq!(iteration(&desk), 1);
}

#[test]
fn a_receipt_of_an_older_tree_no_longer_counts() {
    let two = ["tests", "lint"].map(|name| Required {
        name: name.to_owned(),
        proof: Proof::Verified { check: name.to_owned() },
    });
    let mut desk = looping(Template { evidence: two.to_vec(), ..template(3) });
    desk.show(&two[0], "old");
    desk.show(&two[1], "new");
    assert_eq!(desk.continues(2), Err(Blocked::MissingEvidence(vec!["tests".to_owned()])));
    desk.show(&two[0], "new");
    desk.continues(2).expect("both are of one tree");
}

#[test]
fn what_told_of_no_tree_is_no_plateau() {
    let evidence = vec![Required { name: "notes".to_owned(), proof: Proof::Asserted }];
    let mut desk = looping(Template { evidence, plateau: Some(1), ..template(9) });
    for iteration in 2..6 {
        desk.show_all("one");
        desk.continues(iteration).expect("without a tree there is no plateau");
        desk.handle("hand");
    }
}

/// Checks the evidence "tests" on a tree with this exit code.
fn checked(desk: &mut Desk, tree: &str, exit: i32) {
    let what = Checked::Evidence("tests".to_owned());
    desk.done(&Actor::Operator, Command::Check { what });
    let receipt = Box::new(receipt(tree, "test", CheckEnd::Exit(exit)));
    let no = desk.task.checks_owed;
    desk.done(&Actor::Provost, Command::CheckDone { no, receipt, compared: None });
}

fn tested() -> Desk {
    looping(Template { evidence: vec![template(1).evidence[0].clone()], ..template(9) })
}

#[test]
fn a_check_that_fails_later_takes_back_what_passed_before() {
    let mut desk = tested();
    checked(&mut desk, "one", 0);
    checked(&mut desk, "two", 1);
    let missing = Blocked::MissingEvidence(vec!["tests".to_owned()]);
    assert_eq!(desk.continues(2), Err(missing.clone()));
    checked(&mut desk, "three", 0);
    let no = desk.continues(2).expect("it passed again");
    checked(&mut desk, "three", 1);
    assert_eq!(desk.next("hand"), None, "the gate is checked again");
    assert_eq!((iteration(&desk), desk.standing(no).word()), (1, "dead"));
    assert_eq!(desk.continues(2), Err(missing));
}

#[test]
fn what_was_offered_is_not_accepted_after_its_check_failed() {
    let mut desk = tested();
    checked(&mut desk, "one", 0);
    desk.continues(2).expect("its evidence is there");
    let (no, lease) = desk.next("hand").expect("it waits");
    checked(&mut desk, "two", 1);
    desk.done(&member("hand"), Command::Accept { no, lease, polls: 0 });
    assert_eq!((iteration(&desk), desk.standing(no).word()), (1, "dead"));
}

#[test]
fn a_check_of_an_iteration_that_is_over_takes_nothing_back() {
    let mut desk = tested();
    checked(&mut desk, "one", 0);
    let what = Checked::Evidence("tests".to_owned());
    desk.done(&Actor::Operator, Command::Check { what });
    let late = desk.task.checks_owed;
    desk.continues(2).expect("its evidence is there");
    desk.handle("hand");
    checked(&mut desk, "two", 0);
    let receipt = Box::new(receipt("one", "test", CheckEnd::Exit(1)));
    desk.done(&Actor::Provost, Command::CheckDone { no: late, receipt, compared: None });
    desk.continues(3).expect("that was about iteration 1");
}

#[test]
fn a_worker_that_is_retired_takes_its_continuation_with_it() {
    let mut desk = looping(template(9));
    desk.bind("other", Role::Worker, None);
    desk.show_all("one");
    let no = desk.continues(2).expect("its evidence is there");
    let (name, because) = ("hand".to_owned(), A_REASON.to_owned());
    desk.done(&Actor::Operator, Command::Retire { name, because, to: None, dead_letter: true });
    assert_eq!(desk.standing(no).word(), "dead");
    let mut again = go_on(2, "again");
    if let Command::Continue { to, .. } = &mut again {
        *to = "other".to_owned();
    }
    let events = desk.done(&member("boss"), again);
    assert!(matches!(events.first(), Some(Event::MessageStored(_))), "{events:?}");
    desk.handle("other");
    assert_eq!(iteration(&desk), 2);
}

#[test]
fn a_continuation_that_comes_back_when_others_followed_is_no_refusal_and_no_news() {
    let mut desk = looping(template(9));
    desk.show_all("one");
    let first = desk.continues(2).expect("its evidence is there");
    desk.take("hand");
    desk.show_all("two");
    desk.continues(3).expect("its evidence is there");
    desk.take("hand");
    let told = desk.task.messages_stored;
    desk.wait(100);
    assert_eq!(desk.handle("hand"), first, "it is given again, and begins nothing");
    assert_eq!((iteration(&desk), desk.task.messages_stored), (3, told));
    assert_eq!(desk.task.looped.as_ref().map(|looped| looped.refusals), Some(0));
    // The same holds when its loop has ended and another one runs.
    desk.take("hand");
    desk.done(&Actor::Operator, Command::StopLoop { because: A_REASON.to_owned() });
    desk.begin_loop(template(2));
    desk.wait(100);
    desk.handle("hand");
    assert_eq!((iteration(&desk), desk.task.messages_stored), (1, told));
}

#[test]
fn a_key_is_of_one_continuation_and_what_is_otherwise_is_refused() {
    let mut desk = looping(template(9));
    desk.done(&member("boss"), super::kit::post("hand", "plain"));
    let taken = |key: &str| Rejected::KeyTaken(key.to_owned());
    assert_eq!(desk.refused(&member("boss"), go_on(2, "plain")), taken("plain"));
    desk.show_all("one");
    desk.done(&member("boss"), go_on(2, "k"));
    assert_eq!(desk.refused(&member("boss"), go_on(2, "k")), Rejected::Nothing, "the same again");
    assert_eq!(desk.refused(&member("boss"), go_on(3, "k")), taken("k"));
    let mut other = super::kit::post("hand", "k");
    if let Command::Post(post) = &mut other {
        post.text = "go on".to_owned();
    }
    assert_eq!(desk.refused(&member("boss"), other), taken("k"), "it begins no iteration");
    // The key stays taken after the message was evicted.
    desk.handle("hand");
    desk.handle("hand");
    for n in 0..250 {
        desk.post(&member("boss"), "hand", &format!("more-{n}"));
        desk.handle("hand");
    }
    assert!(desk.task.sent(&member("boss"), "k").is_none());
    assert_eq!(desk.refused(&member("boss"), go_on(2, "k")), Rejected::Nothing);
    assert_eq!(desk.refused(&member("boss"), go_on(3, "k")), taken("k"));
}
