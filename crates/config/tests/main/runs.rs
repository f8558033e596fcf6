//! The keys of runs, and presets.

use std::path::Path;

use insta::assert_snapshot;
use provost_config::{Land, ReviewMode};

use crate::support::{layers, problems};

#[test]
fn a_run_needs_no_configuration() {
    let resolved = layers().resolve();
    assert_eq!((resolved.run.land, resolved.run.triage), (Land::Branch, true));
    let review = &resolved.review;
    assert_eq!(
        (review.task, review.whole, review.cycles),
        (ReviewMode::Report, ReviewMode::Off, 2)
    );
    assert!(resolved.prices.input.on().is_none());
    assert_eq!(resolved.presets().into_iter().collect::<Vec<_>>(), ["careful", "quick"]);
}

#[test]
fn flags_override_preset() {
    let file = "review.task = \"off\"\n[presets.mine]\nreview.task = \"repair\"\nreview.final = \"report\"\nskills.roots = [\"more\"]\n";
    let variable = [("PROVOST_REVIEW_FINAL", "repair")];
    let plain = layers().project(file).environment(&variable).resolve();
    assert_eq!((plain.review.task, plain.review.whole), (ReviewMode::Off, ReviewMode::Repair));

    let named = layers().user(file).environment(&variable).preset("mine");
    let resolved = named.flag("--review-task", "review.task", "report").resolve();
    let review = &resolved.review;
    assert_eq!((review.task, review.whole), (ReviewMode::Report, ReviewMode::Report));
    assert_eq!(resolved.directory_of("skills.roots"), Some(Path::new("/home/u")));
    assert_snapshot!(
        resolved.provenance["review.final"],
        @"preset mine, user (/home/u/provost.toml:4:8)"
    );
}

#[test]
fn a_file_changes_a_built_in_preset_key_by_key() {
    let file = "[presets.quick]\nreview.task = \"report\"\n";
    let resolved = layers().project(file).preset("quick").resolve();
    assert_eq!((resolved.run.triage, resolved.review.task), (false, ReviewMode::Report));
    let entries = resolved.preset_entries().filter(|entry| entry.source.to_string() != "default");
    let keys: Vec<&str> = entries.map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["run.triage", "review.task"]);
}

#[test]
fn prices_and_prompts_are_read_strictly() {
    let resolved = layers().project("[prices]\ninput = 1.25\noutput = \"10\"\n").resolve();
    let millionths = |price: &provost_config::Switchable<provost_config::Price>| {
        price.on().map(|price| price.millionths())
    };
    assert_eq!(millionths(&resolved.prices.input), Some(1_250_000));
    assert_eq!(millionths(&resolved.prices.output), Some(10_000_000));
    assert_snapshot!(problems("prices.input = -1"), @r#"invalid value for "prices.input" at provost.toml:1:16; "-1" is not a price: expected a non-negative number with at most six decimal places"#);
    assert_snapshot!(problems("prompts.work = \"{{task}} {{taks}}\""), @r#"invalid value for "prompts.work" at provost.toml:1:16; unknown placeholder "taks", expected "task", "goal", "base", "ended", "files", "comments", "plan", "faults" or "failed""#);
}

#[test]
fn unknown_preset_lists_alternatives() {
    assert_snapshot!(layers().preset("qick").problems(), @r#"invalid value for --preset; no such preset, expected "quick" or "careful""#);
    assert_snapshot!(problems("[presets.mine]\nverify.check = []"), @r#"unknown key "presets.mine.verify.check" at provost.toml:2:8; did you mean "presets.mine.verify.checks"?"#);
    assert_snapshot!(problems("[presets.\"-x\"]\nrun.triage = true"), @r#"bad name "presets.-x" at provost.toml:1:10; a preset's name has 1 to 64 letters, digits, "-" or "_", and no "-" first"#);
}
