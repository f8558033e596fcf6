//! Pictures as evidence: which files may be compared, which members may do it, and when a comparison passes.

use proptest::prelude::*;
use provost_core::{
    ids::TreeId,
    team::{
        CheckSubject, CriterionEvidence, CriterionJudgement, EvidenceMismatch, EvidenceRequirement,
        LoopProof, LoopRequirement, LoopTemplate, MemberCall, PictureComparison, ShownEvidence,
        TeamActor, TeamCommand, TeamPhase, TeamRejection,
        pictures::{
            MAX_TOLERANCE, PictureCheck, PictureFiles, PictureFilesError, PictureInfo,
            PictureMeasurement, WHOLE,
        },
        pictures::{format_share, parse_share},
    },
    verdict::CheckEnd,
};

use super::kit::{A_REASON, TestTeam, member, template};

fn files(expected: &str, actual: &str) -> PictureFiles {
    PictureFiles { expected: expected.to_owned(), actual: actual.to_owned(), tolerance: 0 }
}

fn pictures(differing: u32) -> PictureCheck {
    PictureCheck { files: files("design/a.png", "shots/a.png"), differing }
}

fn measured(differing: u64, points: u64) -> PictureMeasurement {
    let picture = |digest: &str| PictureInfo { digest: digest.to_owned(), width: 10, height: 10 };
    PictureMeasurement { expected: picture("one"), actual: picture("two"), differing, points }
}

/// A team whose loop requires a picture comparison.
fn with_picture_loop(named: Option<PictureFiles>) -> TestTeam {
    let mut team = TestTeam::paired();
    let proof = LoopProof::Pictures { differing: 1_000, files: named };
    let evidence = vec![LoopRequirement { name: "screens".to_owned(), proof }];
    team.begin_loop(LoopTemplate { evidence, ..template(3) });
    team
}

fn compare_command(files: PictureFiles) -> TeamCommand {
    TeamCommand::Check { what: CheckSubject::Pictures { evidence: "screens".to_owned(), files } }
}

fn comparison_done(team: &TestTeam, found: Result<PictureMeasurement, String>) -> TeamCommand {
    let check = team.task.checks.last().expect("a check is pending");
    let pictures = check.pictures.as_ref().expect("of pictures");
    let (receipt, compared) = pictures.receipt(TreeId("tree".to_owned()), found);
    let compared = compared.map(Box::new);
    TeamCommand::CheckDone { no: check.no, receipt: Box::new(receipt), compared }
}

fn shown_screens(team: &TestTeam) -> Option<&ShownEvidence> {
    team.task.loop_state.as_ref().and_then(|looped| looped.evidence_shown.get("screens"))
}

#[test]
fn measured_pictures_are_evidence_with_digests() {
    let mut team = with_picture_loop(None);
    team.apply(&member("hand"), compare_command(files("design/a.png", "shots/a.png")));
    team.apply(&TeamActor::Provost, comparison_done(&team, Ok(measured(1, 1_000))));
    let Some(ShownEvidence::Pictures(compared)) = shown_screens(&team) else {
        panic!("{:?}", shown_screens(&team))
    };
    assert_eq!(compared.differing, 1_000);
    assert_eq!((&*compared.expected_is.digest, &*compared.actual_is.digest), ("one", "two"));
    assert_eq!(team.continue_loop(2), Ok(team.task.messages_stored));
}

#[test]
fn failed_comparison_is_reported_not_shown() {
    let other_size = PictureMeasurement {
        actual: PictureInfo { digest: "two".to_owned(), width: 10, height: 11 },
        ..measured(0, 100)
    };
    let all = [
        (Ok(measured(2, 1_000)), "2000 of a million pixels differ"),
        (Ok(other_size), "expected 10x10 pixels, found 10x11"),
        (Err("shots/a.png is no PNG picture".to_owned()), "shots/a.png is no PNG picture"),
    ];
    for (found, expected) in all {
        let mut team = with_picture_loop(None);
        team.apply(&member("hand"), compare_command(files("design/a.png", "shots/a.png")));
        team.apply(&TeamActor::Provost, comparison_done(&team, found));
        assert_eq!(shown_screens(&team), None);
        let newest = team.task.messages.last().expect("the requester is notified");
        assert!(newest.text.contains(expected), "{}", newest.text);
    }
}

#[test]
fn only_provost_shows_comparisons() {
    let mut team = with_picture_loop(None);
    let compared = PictureComparison {
        expected: "a".to_owned(),
        actual: "b".to_owned(),
        differing: 0,
        tolerance: 0,
        expected_is: PictureInfo::default(),
        actual_is: PictureInfo::default(),
    };
    for actor in [member("hand"), member("boss"), TeamActor::Operator] {
        let (name, shown) = ("screens".to_owned(), ShownEvidence::Pictures(compared.clone()));
        let show = TeamCommand::Show { iteration: 1, name, shown };
        assert_eq!(team.reject(&actor, show), TeamRejection::NothingToCheck);
    }
}

#[test]
fn worker_cannot_choose_pictures_or_tolerance() {
    let own = PictureFiles { tolerance: 10_000, ..files("design/a.png", "shots/a.png") };
    let mut team = with_picture_loop(Some(own.clone()));
    let other = compare_command(files("shots/a.png", "shots/b.png"));
    assert_eq!(team.reject(&member("boss"), other), TeamRejection::OtherPictures);
    // Files configured in the loop need not be named.
    let what = CheckSubject::Evidence("screens".to_owned());
    team.apply(&member("hand"), TeamCommand::Check { what });
    let pictures = team.task.checks[0].pictures.as_ref().expect("pictures");
    assert_eq!((&pictures.files, pictures.differing), (&own, 1_000));
    let mut team = with_picture_loop(None);
    for who in ["hand", "eye"] {
        assert_eq!(team.reject(&member(who), compare_command(own.clone())).code(), "not_for_role");
    }
    team.apply(&member("boss"), compare_command(own));
    let mut team = with_picture_loop(None);
    let what = CheckSubject::Evidence("screens".to_owned());
    assert_eq!(
        team.reject(&member("hand"), TeamCommand::Check { what }),
        TeamRejection::NoPictures
    );
}

#[test]
fn pictures_must_be_two_files_in_the_worktree() {
    let mut team = with_picture_loop(None);
    for bad in ["/etc/passwd", "../a.png", "a/../../b.png", "", "a//b", "./a", "a\0b"] {
        let why = team.reject(&member("hand"), compare_command(files(bad, "b.png")));
        assert_eq!(why, TeamRejection::BadFiles(PictureFilesError::Path(bad.to_owned())));
        let why = team.reject(&member("hand"), compare_command(files("b.png", bad)));
        assert_eq!(why.code(), "bad_pictures");
    }
    let long = "x".repeat(5_000);
    assert!(matches!(
        team.reject(&member("hand"), compare_command(files("b", &long))),
        TeamRejection::BadFiles(_)
    ));
    let same = team.reject(&member("hand"), compare_command(files("a.png", "a.png")));
    assert_eq!(same, TeamRejection::BadFiles(PictureFilesError::Same("a.png".to_owned())));
    let blind = PictureFiles { tolerance: MAX_TOLERANCE + 1, ..files("a.png", "b.png") };
    assert_eq!(
        team.reject(&member("boss"), compare_command(blind)),
        TeamRejection::BadFiles(PictureFilesError::Tolerance)
    );
}

#[test]
fn picture_criterion_needs_comparison_and_audit() {
    let mut team = TestTeam::paired();
    let no = team.criterion(EvidenceRequirement::Pictures(Box::new(pictures(0))));
    let evidence = CriterionEvidence::Asserted { text: A_REASON.to_owned(), by: "boss".to_owned() };
    let word = TeamCommand::Judge { no, judgement: CriterionJudgement::Satisfy { evidence } };
    assert!(matches!(team.reject(&member("boss"), word), TeamRejection::Insufficient(_)));
    team.apply(&member("boss"), TeamCommand::Check { what: CheckSubject::Criterion(no) });
    team.apply(&TeamActor::Provost, comparison_done(&team, Ok(measured(1, 100))));
    assert_eq!(team.task.criteria[0].state.as_str(), "accepted");
    team.apply(&member("boss"), TeamCommand::Check { what: CheckSubject::Criterion(no) });
    team.apply(&TeamActor::Provost, comparison_done(&team, Ok(measured(0, 100))));
    assert_eq!(team.task.criteria[0].state.as_str(), "satisfied");
    team.apply(
        &TeamActor::Operator,
        TeamCommand::Finish { because: A_REASON.to_owned(), allow: Vec::new() },
    );
    assert_eq!(team.task.checks.len(), 1, "the audit compares them, too");
    team.apply(&TeamActor::Provost, comparison_done(&team, Ok(measured(5, 100))));
    assert_eq!(team.task.phase, TeamPhase::Active);
    team.apply(
        &TeamActor::Operator,
        TeamCommand::Finish { because: A_REASON.to_owned(), allow: Vec::new() },
    );
    team.apply(&TeamActor::Provost, comparison_done(&team, Ok(measured(0, 100))));
    assert_eq!(team.task.phase.as_str(), "done");
}

#[test]
fn later_failed_comparison_revokes_evidence() {
    let mut team = with_picture_loop(None);
    for (differing, is_shown) in [(0, true), (50, false), (0, true)] {
        team.apply(&member("hand"), compare_command(files("design/a.png", "shots/a.png")));
        team.apply(&TeamActor::Provost, comparison_done(&team, Ok(measured(differing, 100))));
        assert_eq!(shown_screens(&team).is_some(), is_shown);
    }
    team.apply(&member("hand"), compare_command(files("design/a.png", "shots/a.png")));
    team.apply(
        &TeamActor::Provost,
        comparison_done(&team, Err("shots/a.png is no PNG picture".to_owned())),
    );
    assert_eq!(shown_screens(&team), None);
}

#[test]
fn finish_repeats_loop_comparisons() {
    for own in [None, Some(files("design/a.png", "shots/a.png"))] {
        let mut team = with_picture_loop(own);
        team.apply(&member("hand"), compare_command(files("design/a.png", "shots/a.png")));
        team.apply(&TeamActor::Provost, comparison_done(&team, Ok(measured(0, 100))));
        let finish = TeamCommand::Finish { because: A_REASON.to_owned(), allow: Vec::new() };
        team.apply(&TeamActor::Operator, finish.clone());
        assert_eq!(team.task.checks.len(), 1, "the audit compares them");
        team.apply(&TeamActor::Provost, comparison_done(&team, Ok(measured(50, 100))));
        assert_eq!(team.task.phase, TeamPhase::Active);
        assert_eq!(team.task.blockers[0].code(), "check_failed");
        team.apply(&TeamActor::Operator, finish);
        team.apply(&TeamActor::Provost, comparison_done(&team, Ok(measured(0, 100))));
        assert_eq!(team.task.phase.as_str(), "done");
    }
}

#[test]
fn one_differing_pixel_is_not_rounded_to_zero() {
    let (receipt, compared) =
        pictures(0).receipt(TreeId("t".to_owned()), Ok(measured(1, 16 << 20)));
    assert_eq!(receipt.end, CheckEnd::Exit(1));
    let compared = compared.expect("they were compared");
    assert_eq!(compared.differing, 1);
    assert_eq!(compared.check_limit(0), Err(EvidenceMismatch::Differs { found: 1, most: 0 }));
    assert_eq!(compared.check_limit(1), Ok(()));
}

#[test]
fn tool_call_names_pictures() {
    let read = |text: &str| serde_json::from_str::<MemberCall>(text).expect("it is a call");
    let call = read(r#"{"check":{"evidence":"screens","pictures":{"expected":"a","actual":"b"}}}"#);
    let expected = compare_command(files("a", "b"));
    assert_eq!(call.to_command("hand", "own"), Ok(Some(expected)));
    let both = read(r#"{"check":{"criterion":1,"pictures":{"expected":"a","actual":"b"}}}"#);
    assert!(both.to_command("hand", "own").is_err());
}

#[test]
fn picture_command_shows_all_parameters() {
    let whole = PictureCheck {
        files: PictureFiles { tolerance: 12_500, ..files("a b.png", "c.png") },
        differing: 1_000,
    };
    assert_eq!(whole.command(), "pictures 'a b.png' c.png --tolerance 0.0125 --differing 0.001");
    assert_eq!(pictures(0).command(), "pictures design/a.png shots/a.png");
}

proptest! {
    #[test]
    fn share_round_trips(given in 0..=WHOLE) {
        prop_assert_eq!(parse_share(&format_share(given), WHOLE), Some(given));
    }

    #[test]
    fn invalid_shares_are_rejected(text in "[-+0-9.e ]{0,9}") {
        if let Some(read) = parse_share(&text, WHOLE) {
            let value: f64 = text.parse().expect("a number");
            prop_assert!((value * 1e6 - f64::from(read)).abs() < 0.5, "{} {}", text, read);
        }
    }

    /// For any measurement, evidence is shown if and only if the difference is within the limit.
    #[test]
    fn comparison_passes_exactly_within_limit(differing in 0..2_000_u64, points in 1..100_000_u64, most in 0..3_000_u32) {
        let differing = differing.min(points);
        let (receipt, compared) =
            pictures(most).receipt(TreeId("t".to_owned()), Ok(measured(differing, points)));
        let fits = differing * 1_000_000 <= u64::from(most) * points;
        prop_assert_eq!(receipt.end == CheckEnd::Exit(0), fits);
        let proof = LoopProof::Pictures { differing: most, files: None };
        let shown = ShownEvidence::Pictures(compared.expect("they were compared"));
        prop_assert_eq!(proof.check_evidence(&shown).is_ok(), fits);
    }
}
