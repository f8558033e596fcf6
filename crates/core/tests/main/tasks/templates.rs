//! Built-in loop templates, and loops made from named evidence.

use insta::assert_snapshot;
use provost_core::task::{
    Blocked, CleanUp, Proof, Required,
    templates::{
        BUILT_IN, BadEvidence, Outline, REQUIRED, Unfilled, Wanted, adversarial, built_in,
        evidence, require,
    },
};

use super::kit::Desk;

fn checks(commands: &[&str]) -> Vec<String> {
    commands.iter().map(|command| (*command).to_owned()).collect()
}

/// A built-in loop with all project-specific commands filled in.
fn filled(name: &str) -> provost_core::task::Template {
    let outline = built_in(name).expect("it is built in");
    let unknown: Vec<String> = outline
        .evidence
        .iter()
        .filter(|(_, w)| *w == Wanted::Unknown)
        .map(|(n, _)| n.clone())
        .collect();
    let told = |outline: Outline, name: &String| {
        outline.asking(name, "verified:./prove".parse().expect("it is a proof"))
    };
    let outline = unknown.iter().fold(outline, told);
    outline.fill(&checks(&["cargo test", "cargo clippy"])).expect("all its commands are known")
}

#[test]
fn d19_every_proper_subset_of_a_built_in_loops_evidence_is_refused() {
    for name in BUILT_IN {
        let template = filled(name);
        let all = template.evidence.len();
        assert!(all >= 2, "{name} has a gate of more than one thing");
        for subset in 0..1_u32 << all {
            let mut desk = Desk::paired();
            desk.begin_loop(template.clone());
            let shown = |n: &usize| subset & (1 << n) != 0;
            for n in (0..all).filter(shown) {
                desk.show(&template.evidence[n], "one");
            }
            let missing: Vec<String> =
                (0..all).filter(|n| !shown(n)).map(|n| template.evidence[n].name.clone()).collect();
            let expected =
                if missing.is_empty() { Ok(1) } else { Err(Blocked::MissingEvidence(missing)) };
            assert_eq!(desk.continues(2), expected, "{name}");
        }
    }
}

#[test]
fn built_in_loops_have_bounds_a_plateau_and_a_policy_of_cleaning_up() {
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
                outline.clean_up.word(),
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
    pr-ci-merge: one pull request after the other, each through its checks
      at most 10, plateau Some(3), new_thread
      checks=verified pull_request=artifact:url,branch,title ci=verified:COMMAND merged=artifact:commit,into
    ship-it: a release: proved, attacked, and with a way back
      at most 5, plateau Some(1), keep
      checks=verified attack=attack review=asserted release=artifact:version,notes,rollback
    ");
    assert_eq!(built_in("Build"), None);
}

#[test]
fn a_loop_of_which_a_command_is_not_known_does_not_begin() {
    for name in BUILT_IN {
        let why = built_in(name).expect("it is built in").fill(&[]).expect_err("no checks");
        let evidence = "checks".to_owned();
        assert_eq!(why, Unfilled::NoChecks { looped: name.to_owned(), evidence });
    }
    let none = built_in("build").expect("it is built in").fill(&[]).expect_err("no checks");
    assert_snapshot!(none, @r#"the loop "build" runs the project's checks for "checks", but there are none: set verify.checks in provost.toml, or give --check COMMAND"#);
    let coverage = built_in("test-coverage").expect("it is built in");
    assert_snapshot!(coverage.fill(&checks(&["true"])).expect_err("no command"), @r#"the loop "test-coverage" runs a command for "coverage" that only the project knows: set loops.test-coverage.evidence.coverage = "verified:COMMAND" in provost.toml"#);
}

#[test]
fn each_check_of_the_project_has_a_receipt_of_its_own() {
    let template = built_in("build").expect("it is built in").fill(&checks(&["a", "b", "c"]));
    let evidence = template.expect("its checks are known").evidence;
    let verified = |name: &str, check: &str| Required {
        name: name.to_owned(),
        proof: Proof::Verified { check: check.to_owned() },
    };
    let expected = [verified("checks", "a"), verified("checks-2", "b"), verified("checks-3", "c")];
    assert_eq!(evidence[..3], expected);
}

#[test]
fn evidence_is_read_as_it_is_written() {
    for text in [
        "tests=verified:cargo test --all -- 'a=b:c'",
        "notes=asserted",
        "attack=attack",
        "screens=pictures:1000",
        "screens=pictures:1000:design/a.png:shots/a.png",
        "screens=pictures:0:design/a.png:shots/a.png:0.01",
        "release=artifact:version,notes",
    ] {
        let (name, wanted) = evidence(text).expect("it names evidence");
        assert_eq!(format!("{name}={wanted}"), text);
    }
    assert_eq!(evidence("attack"), Ok(("attack".to_owned(), Wanted::Proof(Proof::Adversarial))));
    assert_eq!(evidence("checks"), Ok(("checks".to_owned(), Wanted::Checks)));
    assert_eq!(evidence(" tests = verified "), Ok(("tests".to_owned(), Wanted::Checks)));
}

#[test]
fn what_names_no_evidence_is_told_what_was_expected() {
    let of = |text: &str| evidence(text).expect_err("it names none").to_string();
    let told: Vec<String> = [
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
        "a=attack:now",
    ]
    .map(of)
    .into();
    assert_snapshot!(told.join("\n"), @r#"
    "tests" is not valid evidence: expected "checks", "attack", NAME=verified, NAME=verified:COMMAND, NAME=asserted, NAME=attack, NAME=artifact:FIELD,FIELD or NAME=pictures:MILLIONTHS[:EXPECTED:ACTUAL[:TOLERANCE]]
    "" is not valid evidence: expected "checks", "attack", NAME=verified, NAME=verified:COMMAND, NAME=asserted, NAME=attack, NAME=artifact:FIELD,FIELD or NAME=pictures:MILLIONTHS[:EXPECTED:ACTUAL[:TOLERANCE]]
    "" is not a valid evidence name: expected 1 to 64 letters, digits, "-" or "_"
    "a b" is not a valid evidence name: expected 1 to 64 letters, digits, "-" or "_"
    "-x" is not a valid evidence name: expected 1 to 64 letters, digits, "-" or "_"
    "" is not a valid proof: expected verified[:COMMAND], asserted, attack, artifact:FIELD,FIELD, pictures:MILLIONTHS[:EXPECTED:ACTUAL[:TOLERANCE]]
    "verified:" has no command; omit the colon to use the project's checks
    "verify:x" is not a valid proof: expected verified[:COMMAND], asserted, attack, artifact:FIELD,FIELD, pictures:MILLIONTHS[:EXPECTED:ACTUAL[:TOLERANCE]]
    "asserted:x" is not a valid proof: expected verified[:COMMAND], asserted, attack, artifact:FIELD,FIELD, pictures:MILLIONTHS[:EXPECTED:ACTUAL[:TOLERANCE]]
    "artifact:" has no fields: expected comma-separated names, as in artifact:version,notes
    "artifact:" has no fields: expected comma-separated names, as in artifact:version,notes
    "" is not a valid artifact field: expected 1 to 64 letters, digits, "-" or "_"
    "a b" is not a valid artifact field: expected 1 to 64 letters, digits, "-" or "_"
    "" is not a valid share of points: expected 0 to 1000000 millionths, as in pictures:1000
    "2000000" is not a valid share of points: expected 0 to 1000000 millionths, as in pictures:1000
    "-1" is not a valid share of points: expected 0 to 1000000 millionths, as in pictures:1000
    "+5" is not a valid share of points: expected 0 to 1000000 millionths, as in pictures:1000
    "5:a.png" does not name two pictures: expected pictures:MILLIONTHS:EXPECTED:ACTUAL, optionally followed by a tolerance of 0 to 0.5
    "5:a.png:b.png:0.9" does not name two pictures: expected pictures:MILLIONTHS:EXPECTED:ACTUAL, optionally followed by a tolerance of 0 to 0.5
    "/b.png" is not a valid picture path: expected one below the working directory, without ".."
    "a.png" would be compared with itself
    "attack:now" is not a valid proof: expected verified[:COMMAND], asserted, attack, artifact:FIELD,FIELD, pictures:MILLIONTHS[:EXPECTED:ACTUAL[:TOLERANCE]]
    "#);
}

#[test]
fn a_loop_of_named_evidence_is_a_loop_like_any_other() {
    let outline = require(["tests=verified:true", "attack"]).expect("both name evidence");
    let template = outline.fill(&[]).expect("its commands are known");
    assert_eq!((template.name.as_str(), template.max), (REQUIRED, 10));
    let mut desk = Desk::paired();
    desk.begin_loop(template);
    let missing = vec!["tests".to_owned(), "attack".to_owned()];
    assert_eq!(desk.continues(2), Err(Blocked::MissingEvidence(missing)));
    desk.show_all("one");
    assert_eq!(desk.continues(2), Ok(1));
    assert_eq!(require(["x"]), Err(BadEvidence::NoForm("x".to_owned())));
    let none = require([]).expect("nothing is named").fill(&[]).expect_err("it has no gate");
    assert_snapshot!(none, @r#"the loop "required" cannot be used: a loop without evidence has no gate: name what each iteration has to show"#);
    let twice = require(["a=asserted", "a=attack"]).expect("both are evidence");
    assert_snapshot!(twice.fill(&[]).expect_err("one name"), @r#"the loop "required" cannot be used: the evidence "a" is named twice"#);
}

#[test]
fn the_adversarial_proof_is_asked_for_once() {
    let build = filled("build");
    let once = adversarial(build.clone());
    assert_eq!(once.evidence.len(), build.evidence.len() + 1);
    assert_eq!(once.evidence.last().map(|last| last.name.as_str()), Some("attack"));
    assert_eq!(adversarial(once.clone()), once);
    let ship = filled("ship-it");
    assert_eq!(adversarial(ship.clone()), ship, "it asks for one by itself");
    let other = require(["attack=asserted"]).expect("it is evidence").fill(&[]).expect("known");
    let other = adversarial(other);
    assert_eq!(other.check(), Ok(()));
    assert_eq!(other.evidence[1].name, "adversarial");
}

#[test]
fn a_project_changes_a_built_in_loop_by_the_name_of_its_evidence() {
    let outline = Outline { clean_up: CleanUp::Compact, ..built_in("ship-it").expect("built in") };
    let changed = outline
        .asking("review", Wanted::Proof(Proof::Adversarial))
        .asking("notes", Wanted::Proof(Proof::Asserted));
    let names: Vec<&str> = changed.evidence.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["checks", "attack", "review", "release", "notes"]);
}
