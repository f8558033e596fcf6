//! Loops: no iteration without its evidence, repeated or skipped.

use provost_core::team::{
    CleanUp, ContinuationBlocked, CriterionEvidence, Event, LoopEnd, LoopEvent, LoopProof,
    LoopRequirement, LoopTemplate, LoopTemplateError, MemberRole, MessageEvent, MessageStatus,
    ShownEvidence, TeamActor, TeamCommand, TeamRejection,
};
use provost_core::{team::CheckSubject, verdict::CheckEnd};

use super::kit::{A_REASON, TestTeam, continue_command, matching_evidence, member, template};
use crate::kit::receipt;

fn with_loop(template: LoopTemplate) -> TestTeam {
    let mut team = TestTeam::paired();
    team.begin_loop(template);
    team
}

fn iteration(team: &TestTeam) -> u32 {
    team.task.loop_state.as_ref().expect("there is a loop").iteration
}

#[test]
fn d20_iteration_begins_on_accepted_continuation() {
    let mut team = with_loop(template(3));
    team.show_all_evidence("one");
    let no = team.continue_loop(2).expect("its evidence is there");
    assert_eq!(iteration(&team), 1, "not when it is stored");
    let (_, lease) = team.next("hand").expect("it waits");
    assert_eq!(iteration(&team), 1, "not when it is offered");
    team.advance_clock(10);
    assert_eq!(
        (iteration(&team), team.message_status(no)),
        (1, &MessageStatus::Stored),
        "not by time"
    );
    let (_, lease) = team.next("hand").map_or((no, lease), |offered| offered);
    let events = team.apply(&member("hand"), TeamCommand::Accept { no, lease, polls: 0 });
    assert_eq!(iteration(&team), 2);
    let Some(Event::Loop(LoopEvent::LoopAdvanced(advanced))) = events.get(1) else {
        panic!("in one commit")
    };
    assert_eq!((advanced.to, advanced.message), (2, no));
    assert_eq!(advanced.consumer, "hand");
    assert_eq!(team.task.loop_state.as_ref().map(|looped| looped.evidence_shown.len()), Some(0));
}

#[test]
fn d19_incomplete_evidence_is_rejected() {
    let proofs = [
        LoopProof::Verified { check: "test".to_owned() },
        LoopProof::Asserted,
        LoopProof::Adversarial,
        LoopProof::Artifact { fields: vec!["url".to_owned()] },
        LoopProof::Pictures { differing: 5, files: None },
    ];
    let evidence: Vec<LoopRequirement> = proofs
        .into_iter()
        .enumerate()
        .map(|(n, proof)| LoopRequirement { name: format!("proof-{n}"), proof })
        .collect();
    let all = evidence.len();
    for subset in 0..1_u32 << all {
        let mut team = with_loop(LoopTemplate { evidence: evidence.clone(), ..template(3) });
        let shown = |n: &usize| subset & (1 << n) != 0;
        for n in (0..all).filter(shown) {
            team.show_evidence(&evidence[n], "one");
        }
        let missing: Vec<String> =
            (0..all).filter(|n| !shown(n)).map(|n| format!("proof-{n}")).collect();
        let expected = if missing.is_empty() {
            Ok(1)
        } else {
            Err(ContinuationBlocked::MissingEvidence(missing))
        };
        assert_eq!(team.continue_loop(2), expected);
    }
}

#[test]
fn d13_d20_wrong_iteration_is_rejected_with_expected() {
    let mut team = with_loop(template(9));
    team.show_all_evidence("one");
    team.continue_loop(2).expect("its evidence is there");
    team.handle("hand");
    team.show_all_evidence("two");
    for given in [0, 1, 2, 4, 9] {
        let why = ContinuationBlocked::OtherIteration { expected: 3, given };
        assert_eq!(team.continue_loop(given), Err(why));
    }
    assert_eq!(iteration(&team), 2);
    assert_eq!(team.task.loop_state.as_ref().map(|looped| looped.refusals), Some(5));
}

#[test]
fn d13_iteration_has_one_continuation() {
    let mut team = with_loop(template(9));
    team.show_all_evidence("one");
    let no = team.continue_loop(2).expect("its evidence is there");
    assert_eq!(team.continue_loop(2), Err(ContinuationBlocked::AlreadyRequested(no)));
    let other = ContinuationBlocked::OtherIteration { expected: 2, given: 3 };
    assert_eq!(team.continue_loop(3), Err(other), "the number comes first");
    let because = A_REASON.to_owned();
    team.apply(&member("boss"), TeamCommand::CancelMessage { no, because });
    team.continue_loop(2).expect("the other one is gone");
}

#[test]
fn gate_is_rechecked_on_delivery() {
    let mut team = with_loop(template(9));
    team.show_all_evidence("one");
    let no = team.continue_loop(2).expect("its evidence is there");
    team.apply(&member("boss"), TeamCommand::StopLoop { because: A_REASON.to_owned() });
    assert_eq!(team.next("hand"), None);
    assert_eq!(team.message_status(no).as_str(), "dead");
    assert_eq!(iteration(&team), 1);
}

#[test]
fn d2_redelivered_continuation_starts_nothing() {
    let mut team = with_loop(template(9));
    team.show_all_evidence("one");
    let no = team.continue_loop(2).expect("its evidence is there");
    team.take("hand");
    team.advance_clock(100);
    assert_eq!(*team.message_status(no), MessageStatus::Stored);
    assert_eq!(team.handle("hand"), no);
    assert_eq!(iteration(&team), 2);
    let advanced =
        team.events.iter().filter(|event| matches!(event, Event::Loop(LoopEvent::LoopAdvanced(_))));
    assert_eq!(advanced.count(), 1);
}

#[test]
fn plain_message_does_not_advance_loop() {
    let mut team = with_loop(template(9));
    team.show_all_evidence("one");
    team.post(&member("boss"), "hand", "please begin iteration 2");
    team.handle("hand");
    assert_eq!(iteration(&team), 1);
}

#[test]
fn last_iteration_counts_and_has_no_successor() {
    let mut team = with_loop(template(1));
    assert!(!team.task.loop_state.as_ref().is_some_and(|looped| looped.is_complete()));
    team.show_all_evidence("one");
    assert_eq!(team.continue_loop(2), Err(ContinuationBlocked::LastIteration(1)));
    assert!(team.task.loop_state.as_ref().is_some_and(|looped| looped.is_complete()));
}

#[test]
fn plateau_ends_the_loop() {
    let mut team = with_loop(LoopTemplate { plateau: Some(2), ..template(9) });
    for next in 2..=3 {
        team.show_all_evidence("same");
        team.continue_loop(next).expect("it may still have changed something");
        team.handle("hand");
    }
    team.show_all_evidence("same");
    assert_eq!(
        team.continue_loop(4),
        Err(ContinuationBlocked::Plateau(2)),
        "the second and the third changed nothing"
    );
    assert_eq!(team.continue_loop(4), Err(ContinuationBlocked::Ended), "it ended with that");
    let ended =
        team.events.iter().filter(|event| matches!(event, Event::Loop(LoopEvent::LoopEnded(_))));
    assert_eq!(ended.count(), 1);
    let ended = team.task.loop_state.as_ref().and_then(|looped| looped.ended.clone());
    assert_eq!(ended, Some(LoopEnd::Plateau { iterations: 2 }));
    // The ended loop blocks finishing until the operator accepts it as it is.
    team.satisfy_by_operator();
    assert!(!team.task.blockers(|_| None).is_empty());
    team.apply(&TeamActor::Operator, TeamCommand::StopLoop { because: A_REASON.to_owned() });
    assert!(team.task.blockers(|_| None).is_empty());
}

#[test]
fn changing_tree_is_no_plateau() {
    let mut team = with_loop(LoopTemplate { plateau: Some(1), ..template(9) });
    for next in 2..=6 {
        team.show_all_evidence(&format!("tree-{next}"));
        team.continue_loop(next).expect("the tree changed");
        team.handle("hand");
    }
}

#[test]
fn d12_meaningless_evidence_is_rejected() {
    let mut team = with_loop(template(9));
    let show = |name: &str, shown| TeamCommand::Show { iteration: 1, name: name.to_owned(), shown };
    let mut challenge = super::kit::challenge();
    challenge.result = "x".to_owned();
    let why = team.reject(&member("eye"), show("challenge", ShownEvidence::Challenge(challenge)));
    assert!(matches!(why, TeamRejection::EvidenceMismatch(_)), "{why:?}");
    let word = CriterionEvidence::Asserted {
        text: "all of the tests pass".to_owned(),
        by: "hand".to_owned(),
    };
    let why = team.reject(&member("hand"), show("tests", ShownEvidence::Evidence(word.clone())));
    assert!(matches!(why, TeamRejection::EvidenceMismatch(_)), "{why:?}");
    let why = team.reject(&member("hand"), show("other", ShownEvidence::Evidence(word)));
    assert_eq!(
        why,
        TeamRejection::NoSuchEvidence(vec!["tests".to_owned(), "challenge".to_owned()])
    );
}

#[test]
fn only_provost_shows_verified_evidence() {
    let mut team = with_loop(template(9));
    let (shown, _) = matching_evidence(&LoopProof::Verified { check: "test".to_owned() }, "one");
    let forged = TeamCommand::Show { iteration: 1, name: "tests".to_owned(), shown };
    assert_eq!(team.reject(&member("hand"), forged), TeamRejection::NothingToCheck);
}

#[test]
fn evidence_of_other_iteration_is_rejected() {
    let mut team = with_loop(template(9));
    let (shown, actor) = matching_evidence(&LoopProof::Adversarial, "one");
    let early = TeamCommand::Show { iteration: 2, name: "challenge".to_owned(), shown };
    assert_eq!(team.reject(&actor, early), TeamRejection::OtherIteration { now: 1, given: 2 });
}

#[test]
fn loop_template_is_validated() {
    let twice = vec![template(1).evidence[0].clone(), template(1).evidence[0].clone()];
    let empty =
        LoopRequirement { name: "a".to_owned(), proof: LoopProof::Artifact { fields: Vec::new() } };
    for (bad, why) in [
        (LoopTemplate { max: 0, ..template(1) }, LoopTemplateError::Bounds(0)),
        (LoopTemplate { max: 1001, ..template(1) }, LoopTemplateError::Bounds(1001)),
        (LoopTemplate { evidence: Vec::new(), ..template(1) }, LoopTemplateError::NoEvidence),
        (
            LoopTemplate { evidence: twice, ..template(1) },
            LoopTemplateError::Twice("tests".to_owned()),
        ),
        (
            LoopTemplate { evidence: vec![empty], ..template(1) },
            LoopTemplateError::Empty("a".to_owned()),
        ),
    ] {
        assert_eq!(bad.validate(), Err(why));
    }
    assert_eq!(
        LoopTemplate { max: 1000, clean_up: CleanUp::Compact, ..template(1) }.validate(),
        Ok(())
    );
}

#[test]
fn only_one_loop_runs_at_a_time() {
    let mut team = with_loop(template(9));
    let another = TeamCommand::BeginLoop { template: Box::new(template(2)) };
    let why = TeamRejection::LoopRuns("build".to_owned());
    assert_eq!(team.reject(&TeamActor::Operator, another.clone()), why);
    team.apply(&TeamActor::Operator, TeamCommand::StopLoop { because: A_REASON.to_owned() });
    team.apply(&TeamActor::Operator, another);
    team.apply(&TeamActor::Operator, TeamCommand::StopLoop { because: A_REASON.to_owned() });
}

#[test]
fn continuation_without_loop_is_rejected() {
    let mut team = TestTeam::paired();
    assert_eq!(team.reject(&member("boss"), continue_command(2, "k")), TeamRejection::NoLoop);
}

#[test]
fn iteration_needs_a_worker() {
    let mut team = with_loop(template(3));
    team.show_all_evidence("one");
    for name in ["boss", "eye"] {
        let mut command = continue_command(2, name);
        if let TeamCommand::Continue { to, .. } = &mut command {
            *to = name.to_owned();
        }
        let why = team.reject(&member("boss"), command);
        assert_eq!(why, TeamRejection::NoWorker(name.to_owned()));
    }
}

#[test]
fn continuation_of_ended_loop_is_dead_lettered() {
    let mut team = with_loop(template(3));
    team.show_all_evidence("one");
    let no = team.continue_loop(2).expect("its evidence is there");
    team.apply(&member("boss"), TeamCommand::StopLoop { because: A_REASON.to_owned() });
    team.begin_loop(template(3));
    team.show_all_evidence("one");
    assert_eq!(team.next("hand"), None, "it was for another");
    assert!(
        matches!(team.message_status(no), MessageStatus::Dead { reason } if reason.contains("other_loop"))
    );
    assert_eq!(iteration(&team), 1);
}

#[test]
fn receipt_of_older_tree_does_not_count() {
    let two = ["tests", "lint"].map(|name| LoopRequirement {
        name: name.to_owned(),
        proof: LoopProof::Verified { check: name.to_owned() },
    });
    let mut team = with_loop(LoopTemplate { evidence: two.to_vec(), ..template(3) });
    team.show_evidence(&two[0], "old");
    team.show_evidence(&two[1], "new");
    assert_eq!(
        team.continue_loop(2),
        Err(ContinuationBlocked::MissingEvidence(vec!["tests".to_owned()]))
    );
    team.show_evidence(&two[0], "new");
    team.continue_loop(2).expect("both are of one tree");
}

#[test]
fn evidence_without_tree_is_no_plateau() {
    let evidence = vec![LoopRequirement { name: "notes".to_owned(), proof: LoopProof::Asserted }];
    let mut team = with_loop(LoopTemplate { evidence, plateau: Some(1), ..template(9) });
    for iteration in 2..6 {
        team.show_all_evidence("one");
        team.continue_loop(iteration).expect("without a tree there is no plateau");
        team.handle("hand");
    }
}

/// Checks the evidence "tests" on a tree with this exit code.
fn check_evidence(team: &mut TestTeam, tree: &str, exit: i32) {
    let what = CheckSubject::Evidence("tests".to_owned());
    team.apply(&TeamActor::Operator, TeamCommand::Check { what });
    let receipt = Box::new(receipt(tree, "test", CheckEnd::Exit(exit)));
    let no = team.task.checks_requested;
    team.apply(&TeamActor::Provost, TeamCommand::CheckDone { no, receipt, compared: None });
}

fn with_test_evidence() -> TestTeam {
    with_loop(LoopTemplate { evidence: vec![template(1).evidence[0].clone()], ..template(9) })
}

#[test]
fn later_failed_check_revokes_evidence() {
    let mut team = with_test_evidence();
    check_evidence(&mut team, "one", 0);
    check_evidence(&mut team, "two", 1);
    let missing = ContinuationBlocked::MissingEvidence(vec!["tests".to_owned()]);
    assert_eq!(team.continue_loop(2), Err(missing.clone()));
    check_evidence(&mut team, "three", 0);
    let no = team.continue_loop(2).expect("it passed again");
    check_evidence(&mut team, "three", 1);
    assert_eq!(team.next("hand"), None, "the gate is checked again");
    assert_eq!((iteration(&team), team.message_status(no).as_str()), (1, "dead"));
    assert_eq!(team.continue_loop(2), Err(missing));
}

#[test]
fn failed_check_voids_offered_continuation() {
    let mut team = with_test_evidence();
    check_evidence(&mut team, "one", 0);
    team.continue_loop(2).expect("its evidence is there");
    let (no, lease) = team.next("hand").expect("it waits");
    check_evidence(&mut team, "two", 1);
    team.apply(&member("hand"), TeamCommand::Accept { no, lease, polls: 0 });
    assert_eq!((iteration(&team), team.message_status(no).as_str()), (1, "dead"));
}

#[test]
fn late_check_of_past_iteration_is_ignored() {
    let mut team = with_test_evidence();
    check_evidence(&mut team, "one", 0);
    let what = CheckSubject::Evidence("tests".to_owned());
    team.apply(&TeamActor::Operator, TeamCommand::Check { what });
    let late = team.task.checks_requested;
    team.continue_loop(2).expect("its evidence is there");
    team.handle("hand");
    check_evidence(&mut team, "two", 0);
    let receipt = Box::new(receipt("one", "test", CheckEnd::Exit(1)));
    team.apply(&TeamActor::Provost, TeamCommand::CheckDone { no: late, receipt, compared: None });
    team.continue_loop(3).expect("that was about iteration 1");
}

#[test]
fn retiring_worker_drops_its_continuation() {
    let mut team = with_loop(template(9));
    team.bind("other", MemberRole::Worker, None);
    team.show_all_evidence("one");
    let no = team.continue_loop(2).expect("its evidence is there");
    let (name, because) = ("hand".to_owned(), A_REASON.to_owned());
    team.apply(
        &TeamActor::Operator,
        TeamCommand::Retire { name, because, to: None, dead_letter: true },
    );
    assert_eq!(team.message_status(no).as_str(), "dead");
    let mut again = continue_command(2, "again");
    if let TeamCommand::Continue { to, .. } = &mut again {
        *to = "other".to_owned();
    }
    let events = team.apply(&member("boss"), again);
    assert!(
        matches!(events.first(), Some(Event::Message(MessageEvent::MessageStored(_)))),
        "{events:?}"
    );
    team.handle("other");
    assert_eq!(iteration(&team), 2);
}

#[test]
fn redelivered_old_continuation_is_silent() {
    let mut team = with_loop(template(9));
    team.show_all_evidence("one");
    let first = team.continue_loop(2).expect("its evidence is there");
    team.take("hand");
    team.show_all_evidence("two");
    team.continue_loop(3).expect("its evidence is there");
    team.take("hand");
    let stored = team.task.messages_stored;
    team.advance_clock(100);
    assert_eq!(team.handle("hand"), first, "it is given again, and begins nothing");
    assert_eq!((iteration(&team), team.task.messages_stored), (3, stored));
    assert_eq!(team.task.loop_state.as_ref().map(|looped| looped.refusals), Some(0));
    // The same holds when its loop has ended and another one runs.
    team.take("hand");
    team.apply(&TeamActor::Operator, TeamCommand::StopLoop { because: A_REASON.to_owned() });
    team.begin_loop(template(2));
    team.advance_clock(100);
    team.handle("hand");
    assert_eq!((iteration(&team), team.task.messages_stored), (1, stored));
}

#[test]
fn continuation_key_cannot_be_reused() {
    let mut team = with_loop(template(9));
    team.apply(&member("boss"), super::kit::post("hand", "plain"));
    let taken = |key: &str| TeamRejection::KeyTaken(key.to_owned());
    assert_eq!(team.reject(&member("boss"), continue_command(2, "plain")), taken("plain"));
    team.show_all_evidence("one");
    team.apply(&member("boss"), continue_command(2, "k"));
    assert_eq!(
        team.reject(&member("boss"), continue_command(2, "k")),
        TeamRejection::NothingNew,
        "the same again"
    );
    assert_eq!(team.reject(&member("boss"), continue_command(3, "k")), taken("k"));
    let mut other = super::kit::post("hand", "k");
    if let TeamCommand::Post(post) = &mut other {
        post.text = "go on".to_owned();
    }
    assert_eq!(team.reject(&member("boss"), other), taken("k"), "it begins no iteration");
    // The key stays taken after the message was evicted.
    team.handle("hand");
    team.handle("hand");
    for n in 0..250 {
        team.post(&member("boss"), "hand", &format!("more-{n}"));
        team.handle("hand");
    }
    assert!(team.task.message_by_key(&member("boss"), "k").is_none());
    assert_eq!(team.reject(&member("boss"), continue_command(2, "k")), TeamRejection::NothingNew);
    assert_eq!(team.reject(&member("boss"), continue_command(3, "k")), taken("k"));
}
