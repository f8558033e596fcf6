//! Built-in loop templates, and loops made from named evidence.

use insta::assert_snapshot;
use provost_core::team::{
    CleanUp, ContinuationBlocked, LoopProof, LoopRequirement,
    templates::{
        BUILT_IN, EvidenceSpec, EvidenceSpecError, LoopOutline, OutlineError, REQUIRED_LOOP,
        built_in, outline_from_evidence, parse_evidence, with_adversarial_proof,
    },
};

use super::kit::TestTeam;

fn checks(commands: &[&str]) -> Vec<String> {
    commands.iter().map(|command| (*command).to_owned()).collect()
}

/// A built-in loop with all project-specific commands filled in.
fn filled(name: &str) -> provost_core::team::LoopTemplate {
    let outline = built_in(name).expect("it is built in");
    let unknown: Vec<String> = outline
        .evidence
        .iter()
        .filter(|(_, w)| *w == EvidenceSpec::Unknown)
        .map(|(n, _)| n.clone())
        .collect();
    let with_field = |outline: LoopOutline, name: &String| {
        outline.with_evidence(name, "verified:./prove".parse().expect("it is a proof"))
    };
    let outline = unknown.iter().fold(outline, with_field);
    outline
        .fill_checks(&checks(&["cargo test", "cargo clippy"]))
        .expect("all its commands are known")
}

#[test]
fn d19_built_in_loops_reject_incomplete_evidence() {
    for name in BUILT_IN {
        let template = filled(name);
        let all = template.evidence.len();
        assert!(all >= 2, "{name} has a gate of more than one thing");
        for subset in 0..1_u32 << all {
            let mut team = TestTeam::paired();
            team.begin_loop(template.clone());
            let shown = |n: &usize| subset & (1 << n) != 0;
            for n in (0..all).filter(shown) {
                team.show_evidence(&template.evidence[n], "one");
            }
            let missing: Vec<String> =
                (0..all).filter(|n| !shown(n)).map(|n| template.evidence[n].name.clone()).collect();
            let expected = if missing.is_empty() {
                Ok(1)
            } else {
                Err(ContinuationBlocked::MissingEvidence(missing))
            };
            assert_eq!(team.continue_loop(2), expected, "{name}");
        }
    }
}

#[test]
fn built_in_loop_templates() {
    let lines: Vec<String> = BUILT_IN
        .iter()
        .map(|name| {
            let outline = built_in(name).expect("it is built in");
            assert_eq!(&outline.name, name);
            let evidence: Vec<String> =
                outline.evidence.iter().map(|(name, wanted)| format!("{name}={wanted}")).collect();
            format!(
                "{name}: {}\n  at most {}, plateau {:?}, {}\n  {}",
                outline.means,
                outline.max,
                outline.plateau,
                outline.clean_up.as_str(),
                evidence.join(" ")
            )
        })
        .collect();
    assert_snapshot!(lines.join("\n"), @"
    build: work that stays green, step by step
      at most 10, plateau Some(3), keep
      checks=verified report=artifact:changed_files,commands,residual_risk,next_task
    compact-then-continue: long work, with the conversation compacted before each step
      at most 20, plateau Some(3), compact
      checks=verified handover=artifact:done,open,next_task
    test-coverage: tests for untested code, until the coverage goal is reached
      at most 15, plateau Some(2), keep
      checks=verified coverage=verified:COMMAND gaps=artifact:covered,uncovered,next_task
    visual-diff: a screen that must match a picture
      at most 10, plateau Some(3), keep
      checks=verified screens=pictures:1000 report=artifact:screen,difference,next_task
    pr-ci-merge: pull requests, one by one, each merged after its checks
      at most 10, plateau Some(3), new_thread
      checks=verified pull_request=artifact:url,branch,title ci=verified:COMMAND merged=artifact:commit,into
    ship-it: a release: verified, challenged and reversible
      at most 5, plateau Some(1), keep
      checks=verified challenge=challenge review=asserted release=artifact:version,notes,rollback
    ");
    assert_eq!(built_in("Build"), None);
}

#[test]
fn loop_with_unknown_command_is_rejected() {
    for name in BUILT_IN {
        let why = built_in(name).expect("it is built in").fill_checks(&[]).expect_err("no checks");
        let evidence = "checks".to_owned();
        assert_eq!(why, OutlineError::NoChecks { looped: name.to_owned(), evidence });
    }
    let none = built_in("build").expect("it is built in").fill_checks(&[]).expect_err("no checks");
    assert_snapshot!(none, @r#"the loop "build" runs the project's checks for "checks", but there are none: set verify.checks in provost.toml, or pass --check COMMAND"#);
    let coverage = built_in("test-coverage").expect("it is built in");
    assert_snapshot!(coverage.fill_checks(&checks(&["true"])).expect_err("no command"), @r#"the loop "test-coverage" runs a command for "coverage" that only the project knows: set loops.test-coverage.evidence.coverage = "verified:COMMAND" in provost.toml"#);
}

#[test]
fn each_project_check_is_its_own_evidence() {
    let template =
        built_in("build").expect("it is built in").fill_checks(&checks(&["a", "b", "c"]));
    let evidence = template.expect("its checks are known").evidence;
    let verified = |name: &str, check: &str| LoopRequirement {
        name: name.to_owned(),
        proof: LoopProof::Verified { check: check.to_owned() },
    };
    let expected = [verified("checks", "a"), verified("checks-2", "b"), verified("checks-3", "c")];
    assert_eq!(evidence[..3], expected);
}

#[test]
fn evidence_syntax_round_trips() {
    for text in [
        "tests=verified:cargo test --all -- 'a=b:c'",
        "notes=asserted",
        "challenge=challenge",
        "screens=pictures:1000",
        "screens=pictures:1000:design/a.png:shots/a.png",
        "screens=pictures:0:design/a.png:shots/a.png:0.01",
        "release=artifact:version,notes",
    ] {
        let (name, wanted) = parse_evidence(text).expect("it names evidence");
        assert_eq!(format!("{name}={wanted}"), text);
    }
    assert_eq!(
        parse_evidence("challenge"),
        Ok(("challenge".to_owned(), EvidenceSpec::Proof(LoopProof::Adversarial)))
    );
    assert_eq!(parse_evidence("checks"), Ok(("checks".to_owned(), EvidenceSpec::Checks)));
    assert_eq!(
        parse_evidence(" tests = verified "),
        Ok(("tests".to_owned(), EvidenceSpec::Checks))
    );
}

#[test]
fn invalid_evidence_syntax_errors() {
    let of = |text: &str| parse_evidence(text).expect_err("it names none").to_string();
    let errors: Vec<String> = [
        "tests",
        "",
        "=asserted",
        "a b=asserted",
        "-x=asserted",
        "t=",
        "t=verified:",
        "t=verify:x",
        "t=asserted:x",
        "r=artifact",
        "r=artifact:",
        "r=artifact:a,,b",
        "r=artifact:a b",
        "p=pictures",
        "p=pictures:2000000",
        "p=pictures:-1",
        "p=pictures:+5",
        "p=pictures:5:a.png",
        "p=pictures:5:a.png:b.png:0.9",
        "p=pictures:5:a.png:/b.png",
        "p=pictures:5:a.png:a.png",
        "a=challenge:now",
    ]
    .map(of)
    .into();
    assert_snapshot!(errors.join("\n"), @r#"
    "tests" is not valid evidence: expected "checks", "challenge", NAME=verified, NAME=verified:COMMAND, NAME=asserted, NAME=challenge, NAME=artifact:FIELD,FIELD or NAME=pictures:MILLIONTHS[:EXPECTED:ACTUAL[:TOLERANCE]]
    "" is not valid evidence: expected "checks", "challenge", NAME=verified, NAME=verified:COMMAND, NAME=asserted, NAME=challenge, NAME=artifact:FIELD,FIELD or NAME=pictures:MILLIONTHS[:EXPECTED:ACTUAL[:TOLERANCE]]
    "" is not a valid evidence name: expected 1 to 64 letters, digits, "-" or "_"
    "a b" is not a valid evidence name: expected 1 to 64 letters, digits, "-" or "_"
    "-x" is not a valid evidence name: expected 1 to 64 letters, digits, "-" or "_"
    "" is not a valid proof: expected verified[:COMMAND], asserted, challenge, artifact:FIELD,FIELD, pictures:MILLIONTHS[:EXPECTED:ACTUAL[:TOLERANCE]]
    "verified:" has no command; omit the colon to use the project's checks
    "verify:x" is not a valid proof: expected verified[:COMMAND], asserted, challenge, artifact:FIELD,FIELD, pictures:MILLIONTHS[:EXPECTED:ACTUAL[:TOLERANCE]]
    "asserted:x" is not a valid proof: expected verified[:COMMAND], asserted, challenge, artifact:FIELD,FIELD, pictures:MILLIONTHS[:EXPECTED:ACTUAL[:TOLERANCE]]
    "artifact:" has no fields: expected comma-separated names, as in artifact:version,notes
    "artifact:" has no fields: expected comma-separated names, as in artifact:version,notes
    "" is not a valid artifact field: expected 1 to 64 letters, digits, "-" or "_"
    "a b" is not a valid artifact field: expected 1 to 64 letters, digits, "-" or "_"
    "" is not a valid share of pixels: expected 0 to 1000000 millionths, as in pictures:1000
    "2000000" is not a valid share of pixels: expected 0 to 1000000 millionths, as in pictures:1000
    "-1" is not a valid share of pixels: expected 0 to 1000000 millionths, as in pictures:1000
    "+5" is not a valid share of pixels: expected 0 to 1000000 millionths, as in pictures:1000
    "5:a.png" does not name two pictures: expected pictures:MILLIONTHS:EXPECTED:ACTUAL, optionally followed by a tolerance of 0 to 0.5
    "5:a.png:b.png:0.9" does not name two pictures: expected pictures:MILLIONTHS:EXPECTED:ACTUAL, optionally followed by a tolerance of 0 to 0.5
    "/b.png" is not a valid picture path: expected one below the working directory, without ".."
    cannot compare "a.png" with itself: expected two different files
    "challenge:now" is not a valid proof: expected verified[:COMMAND], asserted, challenge, artifact:FIELD,FIELD, pictures:MILLIONTHS[:EXPECTED:ACTUAL[:TOLERANCE]]
    "#);
}

#[test]
fn loop_of_required_evidence_has_a_gate() {
    let outline =
        outline_from_evidence(["tests=verified:true", "challenge"]).expect("both name evidence");
    let template = outline.fill_checks(&[]).expect("its commands are known");
    assert_eq!((template.name.as_str(), template.max), (REQUIRED_LOOP, 10));
    let mut team = TestTeam::paired();
    team.begin_loop(template);
    let missing = vec!["tests".to_owned(), "challenge".to_owned()];
    assert_eq!(team.continue_loop(2), Err(ContinuationBlocked::MissingEvidence(missing)));
    team.show_all_evidence("one");
    assert_eq!(team.continue_loop(2), Ok(1));
    assert_eq!(outline_from_evidence(["x"]), Err(EvidenceSpecError::NoForm("x".to_owned())));
    let none = outline_from_evidence([])
        .expect("nothing is named")
        .fill_checks(&[])
        .expect_err("it has no gate");
    assert_snapshot!(none, @r#"the loop "required" cannot be used: a loop without evidence has no gate: list the evidence that each iteration must show"#);
    let twice = outline_from_evidence(["a=asserted", "a=challenge"]).expect("both are evidence");
    assert_snapshot!(twice.fill_checks(&[]).expect_err("one name"), @r#"the loop "required" cannot be used: the evidence "a" is listed twice"#);
}

#[test]
fn adversarial_proof_is_added_once() {
    let build = filled("build");
    let once = with_adversarial_proof(build.clone());
    assert_eq!(once.evidence.len(), build.evidence.len() + 1);
    assert_eq!(once.evidence.last().map(|last| last.name.as_str()), Some("challenge"));
    assert_eq!(with_adversarial_proof(once.clone()), once);
    let ship = filled("ship-it");
    assert_eq!(with_adversarial_proof(ship.clone()), ship, "it asks for one by itself");
    let other = outline_from_evidence(["challenge=asserted"])
        .expect("it is evidence")
        .fill_checks(&[])
        .expect("known");
    let other = with_adversarial_proof(other);
    assert_eq!(other.validate(), Ok(()));
    assert_eq!(other.evidence[1].name, "adversarial");
}

#[test]
fn project_overrides_evidence_by_name() {
    let outline =
        LoopOutline { clean_up: CleanUp::Compact, ..built_in("ship-it").expect("built in") };
    let changed = outline
        .with_evidence("review", EvidenceSpec::Proof(LoopProof::Adversarial))
        .with_evidence("notes", EvidenceSpec::Proof(LoopProof::Asserted));
    let names: Vec<&str> = changed.evidence.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["checks", "challenge", "review", "release", "notes"]);
}
