//! Pictures as evidence: which may be compared, by whom, and when a comparison passes.

use proptest::prelude::*;
use provost_core::{
    ids::TreeId,
    task::{
        Actor, Call, Checked, Command, Compared, Evidence, Judgement, Needs, Phase, Proof,
        Rejected, Required, Shown, Template, Unfit,
        pictures::{BadFiles, Files, MAX_TOLERANCE, Measured, Picture, Pictures, WHOLE},
        pictures::{read_share, share},
    },
    verdict::CheckEnd,
};

use super::kit::{A_REASON, Desk, member, template};

fn files(expected: &str, actual: &str) -> Files {
    Files { expected: expected.to_owned(), actual: actual.to_owned(), tolerance: 0 }
}

fn pictures(differing: u32) -> Pictures {
    Pictures { files: files("design/a.png", "shots/a.png"), differing }
}

fn measured(differing: u64, points: u64) -> Measured {
    let picture = |digest: &str| Picture { digest: digest.to_owned(), width: 10, height: 10 };
    Measured { expected: picture("one"), actual: picture("two"), differing, points }
}

/// A team whose loop requires a picture comparison.
fn looping(named: Option<Files>) -> Desk {
    let mut desk = Desk::paired();
    let proof = Proof::Pictures { differing: 1_000, files: named };
    let evidence = vec![Required { name: "screens".to_owned(), proof }];
    desk.begin_loop(Template { evidence, ..template(3) });
    desk
}

fn asks(files: Files) -> Command {
    Command::Check { what: Checked::Pictures { evidence: "screens".to_owned(), files } }
}

fn done(desk: &Desk, found: Result<Measured, String>) -> Command {
    let owed = desk.task.checks.last().expect("a check is pending");
    let pictures = owed.pictures.as_ref().expect("of pictures");
    let (receipt, compared) = pictures.receipt(TreeId("tree".to_owned()), found);
    let compared = compared.map(Box::new);
    Command::CheckDone { no: owed.no, receipt: Box::new(receipt), compared }
}

fn shown(desk: &Desk) -> Option<&Shown> {
    desk.task.looped.as_ref().and_then(|looped| looped.shown.get("screens"))
}

#[test]
fn what_provost_measured_is_the_evidence_with_the_digests_of_both_files() {
    let mut desk = looping(None);
    desk.done(&member("hand"), asks(files("design/a.png", "shots/a.png")));
    desk.done(&Actor::Provost, done(&desk, Ok(measured(1, 1_000))));
    let Some(Shown::Pictures(compared)) = shown(&desk) else { panic!("{:?}", shown(&desk)) };
    assert_eq!(compared.differing, 1_000);
    assert_eq!((&*compared.expected_is.digest, &*compared.actual_is.digest), ("one", "two"));
    assert_eq!(desk.continues(2), Ok(desk.task.messages_stored));
}

#[test]
fn what_differs_too_much_is_of_another_size_or_no_picture_shows_nothing_and_is_told() {
    let other_size = Measured {
        actual: Picture { digest: "two".to_owned(), width: 10, height: 11 },
        ..measured(0, 100)
    };
    let all = [
        (Ok(measured(2, 1_000)), "2000 of a million points differ"),
        (Ok(other_size), "expected 10x10 points, found 10x11"),
        (Err("shots/a.png is no PNG picture".to_owned()), "shots/a.png is no PNG picture"),
    ];
    for (found, told) in all {
        let mut desk = looping(None);
        desk.done(&member("hand"), asks(files("design/a.png", "shots/a.png")));
        desk.done(&Actor::Provost, done(&desk, found));
        assert_eq!(shown(&desk), None);
        let newest = desk.task.messages.last().expect("the requester is notified");
        assert!(newest.text.contains(told), "{}", newest.text);
    }
}

#[test]
fn nobody_but_provost_shows_what_was_compared() {
    let mut desk = looping(None);
    let compared = Compared {
        expected: "a".to_owned(),
        actual: "b".to_owned(),
        differing: 0,
        tolerance: 0,
        expected_is: Picture::default(),
        actual_is: Picture::default(),
    };
    for actor in [member("hand"), member("boss"), Actor::Operator] {
        let (name, shown) = ("screens".to_owned(), Shown::Pictures(compared.clone()));
        let show = Command::Show { iteration: 1, name, shown };
        assert_eq!(desk.refused(&actor, show), Rejected::NothingToCheck);
    }
}

#[test]
fn which_pictures_and_how_exactly_is_not_for_whoever_has_to_pass() {
    let own = Files { tolerance: 10_000, ..files("design/a.png", "shots/a.png") };
    let mut desk = looping(Some(own.clone()));
    let other = asks(files("shots/a.png", "shots/b.png"));
    assert_eq!(desk.refused(&member("boss"), other), Rejected::OtherPictures);
    // Files configured in the loop need not be named.
    let what = Checked::Evidence("screens".to_owned());
    desk.done(&member("hand"), Command::Check { what });
    let owed = desk.task.checks[0].pictures.as_ref().expect("pictures");
    assert_eq!((&owed.files, owed.differing), (&own, 1_000));
    let mut desk = looping(None);
    for who in ["hand", "eye"] {
        assert_eq!(desk.refused(&member(who), asks(own.clone())).code(), "not_for_role");
    }
    desk.done(&member("boss"), asks(own));
    let mut desk = looping(None);
    let what = Checked::Evidence("screens".to_owned());
    assert_eq!(desk.refused(&member("hand"), Command::Check { what }), Rejected::NoPictures);
}

#[test]
fn only_two_files_below_the_work_are_compared() {
    let mut desk = looping(None);
    for bad in ["/etc/passwd", "../a.png", "a/../../b.png", "", "a//b", "./a", "a\0b"] {
        let why = desk.refused(&member("hand"), asks(files(bad, "b.png")));
        assert_eq!(why, Rejected::BadFiles(BadFiles::Path(bad.to_owned())));
        let why = desk.refused(&member("hand"), asks(files("b.png", bad)));
        assert_eq!(why.code(), "bad_pictures");
    }
    let long = "x".repeat(5_000);
    assert!(matches!(
        desk.refused(&member("hand"), asks(files("b", &long))),
        Rejected::BadFiles(_)
    ));
    let same = desk.refused(&member("hand"), asks(files("a.png", "a.png")));
    assert_eq!(same, Rejected::BadFiles(BadFiles::Same("a.png".to_owned())));
    let blind = Files { tolerance: MAX_TOLERANCE + 1, ..files("a.png", "b.png") };
    assert_eq!(desk.refused(&member("boss"), asks(blind)), Rejected::BadFiles(BadFiles::Tolerance));
}

#[test]
fn a_criterion_that_needs_pictures_takes_no_word_and_is_looked_at_again_at_the_end() {
    let mut desk = Desk::paired();
    let no = desk.criterion(Needs::Pictures(Box::new(pictures(0))));
    let evidence = Evidence::Asserted { text: A_REASON.to_owned(), by: "boss".to_owned() };
    let word = Command::Judge { no, judgement: Judgement::Satisfy { evidence } };
    assert!(matches!(desk.refused(&member("boss"), word), Rejected::Insufficient(_)));
    desk.done(&member("boss"), Command::Check { what: Checked::Criterion(no) });
    desk.done(&Actor::Provost, done(&desk, Ok(measured(1, 100))));
    assert_eq!(desk.task.criteria[0].state.word(), "accepted");
    desk.done(&member("boss"), Command::Check { what: Checked::Criterion(no) });
    desk.done(&Actor::Provost, done(&desk, Ok(measured(0, 100))));
    assert_eq!(desk.task.criteria[0].state.word(), "satisfied");
    desk.done(
        &Actor::Operator,
        Command::Finish { because: A_REASON.to_owned(), allow: Vec::new() },
    );
    assert_eq!(desk.task.checks.len(), 1, "the audit compares them, too");
    desk.done(&Actor::Provost, done(&desk, Ok(measured(5, 100))));
    assert_eq!(desk.task.phase, Phase::Active);
    desk.done(
        &Actor::Operator,
        Command::Finish { because: A_REASON.to_owned(), allow: Vec::new() },
    );
    desk.done(&Actor::Provost, done(&desk, Ok(measured(0, 100))));
    assert_eq!(desk.task.phase.word(), "done");
}

#[test]
fn a_comparison_that_fails_later_takes_back_what_was_shown() {
    let mut desk = looping(None);
    for (differing, is_shown) in [(0, true), (50, false), (0, true)] {
        desk.done(&member("hand"), asks(files("design/a.png", "shots/a.png")));
        desk.done(&Actor::Provost, done(&desk, Ok(measured(differing, 100))));
        assert_eq!(shown(&desk).is_some(), is_shown);
    }
    desk.done(&member("hand"), asks(files("design/a.png", "shots/a.png")));
    desk.done(&Actor::Provost, done(&desk, Err("shots/a.png is no PNG picture".to_owned())));
    assert_eq!(shown(&desk), None);
}

#[test]
fn what_a_loop_compares_is_compared_again_at_the_end() {
    for own in [None, Some(files("design/a.png", "shots/a.png"))] {
        let mut desk = looping(own);
        desk.done(&member("hand"), asks(files("design/a.png", "shots/a.png")));
        desk.done(&Actor::Provost, done(&desk, Ok(measured(0, 100))));
        let finish = Command::Finish { because: A_REASON.to_owned(), allow: Vec::new() };
        desk.done(&Actor::Operator, finish.clone());
        assert_eq!(desk.task.checks.len(), 1, "the audit compares them");
        desk.done(&Actor::Provost, done(&desk, Ok(measured(50, 100))));
        assert_eq!(desk.task.phase, Phase::Active);
        assert_eq!(desk.task.blockers[0].code(), "check_failed");
        desk.done(&Actor::Operator, finish);
        desk.done(&Actor::Provost, done(&desk, Ok(measured(0, 100))));
        assert_eq!(desk.task.phase.word(), "done");
    }
}

#[test]
fn one_point_that_differs_is_never_none() {
    let (receipt, compared) =
        pictures(0).receipt(TreeId("t".to_owned()), Ok(measured(1, 16 << 20)));
    assert_eq!(receipt.end, CheckEnd::Exit(1));
    let compared = compared.expect("they were compared");
    assert_eq!(compared.differing, 1);
    assert_eq!(compared.fits(0), Err(Unfit::Differs { found: 1, most: 0 }));
    assert_eq!(compared.fits(1), Ok(()));
}

#[test]
fn a_member_names_pictures_by_its_tool() {
    let read = |text: &str| serde_json::from_str::<Call>(text).expect("it is a call");
    let call = read(r#"{"check":{"evidence":"screens","pictures":{"expected":"a","actual":"b"}}}"#);
    let expected = asks(files("a", "b"));
    assert_eq!(call.command("hand", "own"), Ok(Some(expected)));
    let both = read(r#"{"check":{"criterion":1,"pictures":{"expected":"a","actual":"b"}}}"#);
    assert!(both.command("hand", "own").is_err());
}

#[test]
fn what_stands_for_a_command_says_all_that_counts() {
    let whole = Pictures {
        files: Files { tolerance: 12_500, ..files("a b.png", "c.png") },
        differing: 1_000,
    };
    assert_eq!(whole.command(), "pictures 'a b.png' c.png --tolerance 0.0125 --differing 0.001");
    assert_eq!(pictures(0).command(), "pictures design/a.png shots/a.png");
}

proptest! {
    #[test]
    fn a_share_is_read_as_it_is_written(given in 0..=WHOLE) {
        prop_assert_eq!(read_share(&share(given), WHOLE), Some(given));
    }

    #[test]
    fn nothing_else_is_a_share(text in "[-+0-9.e ]{0,9}") {
        if let Some(read) = read_share(&text, WHOLE) {
            let value: f64 = text.parse().expect("a number");
            prop_assert!((value * 1e6 - f64::from(read)).abs() < 0.5, "{} {}", text, read);
        }
    }

    /// For any measurement, evidence is shown if and only if the difference is within the limit.
    #[test]
    fn figures_decide(differing in 0..2_000_u64, points in 1..100_000_u64, most in 0..3_000_u32) {
        let differing = differing.min(points);
        let (receipt, compared) =
            pictures(most).receipt(TreeId("t".to_owned()), Ok(measured(differing, points)));
        let fits = differing * 1_000_000 <= u64::from(most) * points;
        prop_assert_eq!(receipt.end == CheckEnd::Exit(0), fits);
        let proof = Proof::Pictures { differing: most, files: None };
        let shown = Shown::Pictures(compared.expect("they were compared"));
        prop_assert_eq!(proof.met_by(&shown).is_ok(), fits);
    }
}
