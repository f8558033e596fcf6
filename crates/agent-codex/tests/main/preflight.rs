//! The sandbox is tested before a session needs it.

use std::fs;
use std::path::Path;

use provost_agent_codex::preflight::{SandboxFault, preflight};
use provost_agent_codex::{CodexProgram, NamedCodex, PathSource, Preflight, find_codex};

use crate::real;
use crate::test_env::{CodexHomeEnv, search_environment};

#[test]
fn working_sandbox_is_detected_in_all_versions() {
    let lab = CodexHomeEnv::new();
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
fn broken_sandbox_has_reason_and_advice() {
    let lab = CodexHomeEnv::new();
    let file = lab.script(
        "codex",
        "[ \"$*\" = '--version' ] && echo codex-cli 0.150.0 && exit; \
         echo 'bwrap: No permissions to create a new namespace' >&2; exit 1",
    );
    let Preflight::Broken(broken) = tried(&lab, &file, &lab.search_path(&[])) else {
        panic!("it is broken")
    };
    assert_eq!(broken.reason, SandboxFault::UserNamespacesForbidden);
    assert_eq!(broken.output, "bwrap: No permissions to create a new namespace");
    assert!(broken.reason.advice().contains("sysctl"));
}

#[test]
fn real_sandboxes_are_classified() {
    let (Some(new), Some(old)) = (real::codex(), real::old_codex()) else { return };
    let lab = CodexHomeEnv::new();
    for (file, kind) in [(new, None), (old, Some("linux"))] {
        let mut by_hand = real::command(&lab, &file, &lab.path("scratch"));
        by_hand.arg("sandbox").args(kind).args(["--", "true"]);
        let works = by_hand.output().unwrap().status.success();
        let result = tried(&lab, &file, &lab.search_path(&[]));
        assert_eq!(result == Preflight::Works, works, "{}: {result:?}", file.display());
    }
}

#[test]
fn missing_bubblewrap_is_detected() {
    let Some(codex) = real::codex() else { return };
    let lab = CodexHomeEnv::new();
    let native = found(&lab, &codex, &lab.search_path(&[])).program;
    // Without its package, Codex does not find the bubblewrap program.
    let alone = lab.path("bin/codex");
    if fs::hard_link(&native, &alone).is_err() {
        fs::copy(&native, &alone).unwrap();
    }
    let nothing = lab.path("tmp").display().to_string();
    let Preflight::Broken(broken) = tried(&lab, &alone, &nothing) else { panic!("it is broken") };
    assert_eq!(broken.reason, SandboxFault::NoBubblewrap, "{}", broken.output);
}

fn tried(lab: &CodexHomeEnv, file: &Path, path: &str) -> Preflight {
    let home = lab.path("home");
    preflight(&found(lab, file, path), &search_environment(path, &home), &lab.path("scratch"))
        .unwrap()
}

fn found(lab: &CodexHomeEnv, file: &Path, path: &str) -> CodexProgram {
    let explicit = NamedCodex { path: file.to_owned(), source: PathSource::Flag };
    find_codex(Some(&explicit), &search_environment(path, &lab.path("home"))).unwrap().codex
}
