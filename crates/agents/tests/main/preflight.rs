//! The sandbox is tested before a session needs it.

use std::fs;
use std::path::Path;

use provost_agents::preflight::{Reason, preflight};
use provost_agents::{Codex, Explicit, Preflight, Source, find_codex};

use crate::lab::{Lab, around};
use crate::real;

#[test]
fn a_sandbox_that_works_is_told_and_old_versions_are_asked_in_their_way() {
    let lab = Lab::new();
    let new = lab.script("new", "[ \"$*\" = '--version' ] && echo codex-cli 0.150.0; true");
    let old = lab.script(
        "old",
        "case \"$*\" in --version) echo codex-cli 0.107.0;; 'sandbox linux -- true') ;; \
         *) echo \"error: unrecognized subcommand 'true'\" >&2; exit 2;; esac",
    );
    for file in [new, old] {
        assert_eq!(tried(&lab, &file, &lab.search_path(&[])), Preflight::Works);
    }
    assert_eq!(fs::read_dir(lab.path("scratch")).unwrap().count(), 0, "a home was left behind");
}

#[test]
fn a_broken_sandbox_is_told_with_reason_and_advice() {
    let lab = Lab::new();
    let file = lab.script(
        "codex",
        "[ \"$*\" = '--version' ] && echo codex-cli 0.150.0 && exit; \
         echo 'bwrap: No permissions to create a new namespace' >&2; exit 1",
    );
    let Preflight::Broken(broken) = tried(&lab, &file, &lab.search_path(&[])) else {
        panic!("it is broken")
    };
    assert_eq!(broken.reason, Reason::UserNamespacesForbidden);
    assert_eq!(broken.said, "bwrap: No permissions to create a new namespace");
    assert!(broken.reason.advice().contains("sysctl"));
}

#[test]
fn real_sandboxes_are_told_as_they_are() {
    let (Some(new), Some(old)) = (real::codex(), real::old_codex()) else { return };
    let lab = Lab::new();
    for (file, kind) in [(new, None), (old, Some("linux"))] {
        let mut by_hand = real::command(&lab, &file, &lab.path("scratch"));
        by_hand.arg("sandbox").args(kind).args(["--", "true"]);
        let works = by_hand.output().unwrap().status.success();
        let told = tried(&lab, &file, &lab.search_path(&[]));
        assert_eq!(told == Preflight::Works, works, "{}: {told:?}", file.display());
    }
}

#[test]
fn real_codex_without_bubblewrap_is_told_as_that() {
    let Some(codex) = real::codex() else { return };
    let lab = Lab::new();
    let native = found(&lab, &codex, &lab.search_path(&[])).program;
    // Alone it does not find the bubblewrap of its package.
    let alone = lab.path("bin/codex");
    if fs::hard_link(&native, &alone).is_err() {
        fs::copy(&native, &alone).unwrap();
    }
    let nothing = lab.path("tmp").display().to_string();
    let Preflight::Broken(broken) = tried(&lab, &alone, &nothing) else { panic!("it is broken") };
    assert_eq!(broken.reason, Reason::NoBubblewrap, "{}", broken.said);
}

fn tried(lab: &Lab, file: &Path, path: &str) -> Preflight {
    let home = lab.path("home");
    preflight(&found(lab, file, path), &around(path, &home), &lab.path("scratch")).unwrap()
}

fn found(lab: &Lab, file: &Path, path: &str) -> Codex {
    let explicit = Explicit { path: file.to_owned(), source: Source::Flag };
    find_codex(Some(&explicit), &around(path, &lab.path("home"))).unwrap().codex
}
