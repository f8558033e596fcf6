//! The sandbox is tested before a session needs it.

use std::fs;
use std::path::Path;

use provost_agent_codex::preflight::{SandboxFault, preflight};
use provost_agent_codex::{CodexProgram, NamedCodex, PathSource, Preflight, find_codex};

use crate::real;
use crate::test_env::{CodexHomeEnv, search_environment};

#[test]
fn working_sandbox_is_detected_in_all_versions() {
    let env = CodexHomeEnv::new();
    let new = env.script("new", "[ \"$*\" = '--version' ] && echo codex-cli 0.150.0; true");
    let old = env.script(
        "old",
        "case \"$*\" in --version) echo codex-cli 0.107.0;; 'sandbox linux -- true') ;; \
         *) echo \"error: unrecognized subcommand 'true'\" >&2; exit 2;; esac",
    );
    for file in [new, old] {
        assert_eq!(tried(&env, &file, &env.search_path(&[])), Preflight::Works);
    }
    assert_eq!(fs::read_dir(env.path("scratch")).unwrap().count(), 0, "a home was left behind");
}

#[test]
fn broken_sandbox_has_reason_and_advice() {
    let env = CodexHomeEnv::new();
    let file = env.script(
        "codex",
        "[ \"$*\" = '--version' ] && echo codex-cli 0.150.0 && exit; \
         echo 'bwrap: No permissions to create a new namespace' >&2; exit 1",
    );
    let Preflight::Broken(broken) = tried(&env, &file, &env.search_path(&[])) else {
        panic!("it is broken")
    };
    assert_eq!(broken.reason, SandboxFault::UserNamespacesForbidden);
    assert_eq!(broken.output, "bwrap: No permissions to create a new namespace");
    assert!(broken.reason.advice().contains("sysctl"));
}

#[test]
fn real_sandboxes_are_classified() {
    let (Some(new), Some(old)) = (real::codex(), real::old_codex()) else { return };
    let env = CodexHomeEnv::new();
    for (file, kind) in [(new, None), (old, Some("linux"))] {
        let mut by_hand = real::command(&env, &file, &env.path("scratch"));
        by_hand.arg("sandbox").args(kind).args(["--", "true"]);
        let works = by_hand.output().unwrap().status.success();
        let result = tried(&env, &file, &env.search_path(&[]));
        assert_eq!(result == Preflight::Works, works, "{}: {result:?}", file.display());
    }
}

#[test]
fn missing_bubblewrap_is_detected() {
    let Some(codex) = real::codex() else { return };
    let env = CodexHomeEnv::new();
    let native = found(&env, &codex, &env.search_path(&[])).program;
    // Without its package, Codex does not find the bubblewrap program.
    let alone = env.path("bin/codex");
    if fs::hard_link(&native, &alone).is_err() {
        fs::copy(&native, &alone).unwrap();
    }
    let nothing = env.path("tmp").display().to_string();
    let Preflight::Broken(broken) = tried(&env, &alone, &nothing) else { panic!("it is broken") };
    assert_eq!(broken.reason, SandboxFault::NoBubblewrap, "{}", broken.output);
}

fn tried(env: &CodexHomeEnv, file: &Path, path: &str) -> Preflight {
    let home = env.path("home");
    preflight(&found(env, file, path), &search_environment(path, &home), &env.path("scratch"))
        .unwrap()
}

fn found(env: &CodexHomeEnv, file: &Path, path: &str) -> CodexProgram {
    let explicit = NamedCodex { path: file.to_owned(), source: PathSource::Flag };
    find_codex(Some(&explicit), &search_environment(path, &env.path("home"))).unwrap().codex
}
