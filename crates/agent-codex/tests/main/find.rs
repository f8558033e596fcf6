//! R5: every Codex is examined, the newest usable one is selected, and an explicit path takes
//! precedence.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use provost_agent_codex::locate::{CandidateFault, CandidateOrigin, VERSION_LIMIT, survey};
use provost_agent_codex::{
    AgentVersion, CandidateStatus, CodexCandidate, NamedCodex, PathSource, find_codex,
};

use crate::real;
use crate::test_env::{CodexHomeEnv, search_environment};

#[test]
fn r5_newest_usable_candidate_is_chosen() {
    let env = CodexHomeEnv::new();
    env.fake_codex("a/codex", "0.140.0");
    env.fake_codex("b/codex", "0.99.0");
    env.script("c/codex", "echo broken >&2; exit 3");
    env.script("d/codex", "echo 'codex 1.0, a codec'");
    env.write("e/codex", "text");
    env.fake_codex("f/codex", "0.150.0");
    env.fake_codex("g/codex", "0.151.0-alpha.1");
    env.fake_codex("h/codex", "0.150.0");
    env.link("i/codex", Path::new("nowhere"));
    fs::create_dir_all(env.path("j/codex")).unwrap();
    let path = env.search_path(&["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]);
    let home = env.path("home");

    let found = find_codex(None, &search_environment(&path, &home)).unwrap();

    let seen = of_lab(&env, &found.candidates);
    assert_eq!(found.codex.program, env.path("g/codex"));
    let fault = |name: &str| seen[name].codex.clone().unwrap_err();
    let chosen = seen.iter().filter(|(_, one)| one.status == CandidateStatus::Chosen);
    assert_eq!(chosen.map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["g"]);
    for older in ["a", "f", "h"] {
        assert_eq!(seen[older].status, CandidateStatus::NotNewest);
    }
    assert_eq!(fault("b"), CandidateFault::TooOld { version: AgentVersion::new(0, 99, 0) });
    assert_eq!(
        fault("c"),
        CandidateFault::Failed { how: "exit code 3".into(), output: "broken".into() }
    );
    assert_eq!(fault("d"), CandidateFault::NotCodex { output: "codex 1.0, a codec".into() });
    assert_eq!(fault("e"), CandidateFault::NotExecutable);
    assert_eq!(fault("i"), CandidateFault::Missing);
    assert!(!seen.contains_key("j"), "a directory is no program");
}

#[test]
fn r5_first_of_equal_versions_is_chosen() {
    let env = CodexHomeEnv::new();
    env.fake_codex("a/codex", "0.150.0");
    env.fake_codex("b/codex", "0.150.0");
    let path = env.search_path(&["b", "a"]);
    let found = find_codex(None, &search_environment(&path, &env.path("home"))).unwrap();
    assert_eq!(found.codex.program, env.path("b/codex"));
}

#[test]
fn hanging_candidate_is_killed_with_children() {
    let env = CodexHomeEnv::new();
    // The lock can be acquired only when the child is gone.
    env.script("a/codex", "flock \"$HOME/lock\" sleep 600 & sleep 600");
    env.fake_codex("b/codex", "0.150.0");
    let path = env.search_path(&["a", "b"]);
    let home = env.path("home");

    let found = find_codex(None, &search_environment(&path, &home)).unwrap();

    assert_eq!(found.codex.program, env.path("b/codex"));
    let fault = of_lab(&env, &found.candidates)["a"].codex.clone().unwrap_err();
    assert_eq!(fault, CandidateFault::DidNotAnswer { limit: VERSION_LIMIT });
    let lock = Command::new("flock").arg("-w30").arg(home.join("lock")).arg("true").status();
    assert!(lock.unwrap().success(), "a child outlived the question");
}

#[test]
fn endless_output_candidate_is_killed() {
    let env = CodexHomeEnv::new();
    env.script("a/codex", "exec yes codex-cli 0.166.0");
    let path = env.search_path(&["a"]);
    let seen = survey(&search_environment(&path, &env.path("home"))).unwrap();
    let fault = of_lab(&env, &seen)["a"].codex.clone().unwrap_err();
    assert!(
        matches!(&fault, CandidateFault::Failed { how, .. } if how.contains("output")),
        "{fault}"
    );
}

#[test]
fn r5_explicit_path_wins() {
    let env = CodexHomeEnv::new();
    let older = env.fake_codex("x/my-codex", "0.120.0");
    env.fake_codex("a/codex", "0.150.0");
    let path = env.search_path(&["a"]);
    let found =
        find_codex(Some(&explicit(&older)), &search_environment(&path, &env.path("home"))).unwrap();
    assert_eq!((found.codex.program, found.codex.version), (older, AgentVersion::new(0, 120, 0)));
}

#[test]
fn r5_unusable_explicit_path_error_has_advice() {
    let env = CodexHomeEnv::new();
    env.fake_codex("a/codex", "0.150.0");
    let path = env.search_path(&["a"]);
    let home = env.path("home");
    let error = |file: &Path, source: PathSource| {
        let explicit = NamedCodex { path: file.to_owned(), source };
        find_codex(Some(&explicit), &search_environment(&path, &home)).unwrap_err().to_string()
    };

    let old = env.fake_codex("x/old", "0.99.0");
    let expected = format!(
        "cannot use {} as Codex (set by --codex-path): version 0.99.0 is older than 0.107.0; \
         update Codex with `npm install -g @openai/codex`",
        old.display()
    );
    assert_eq!(error(&old, PathSource::Flag), expected);
    let missing = error(&env.path("x/none"), PathSource::Environment);
    assert!(missing.contains("set by PROVOST_CODEX"), "{missing}");
    assert!(missing.contains("there is no such file; correct PROVOST_CODEX"), "{missing}");
    let directory = error(&env.path("home"), PathSource::Config);
    assert!(directory.contains("set by agents.codex.path"), "{directory}");
    assert!(directory.contains("not an executable file"), "{directory}");
}

#[test]
fn no_usable_codex_error_lists_candidates() {
    let env = CodexHomeEnv::new();
    let old = env.fake_codex("a/codex", "0.99.0");
    let path = env.search_path(&["a"]);
    let Err(error) = find_codex(None, &search_environment(&path, &env.path("home"))) else {
        // A Codex in one of the machine's known locations may be found.
        return;
    };
    let message = error.to_string();
    assert!(message.contains(&format!("{}: version 0.99.0 is older", old.display())), "{message}");
    assert!(message.contains("npm install -g @openai/codex"), "{message}");
}

#[test]
fn aliases_in_known_paths_are_merged() {
    let env = CodexHomeEnv::new();
    let nvm = env.fake_codex("home/.nvm/versions/node/v24.1.0/bin/codex", "0.151.0");
    let local = env.fake_codex("home/.local/bin/codex", "0.150.0");
    let prefix = env.fake_codex("npm/bin/codex", "0.149.0");
    env.write("home/.npmrc", &format!("prefix={}\n", env.path("npm").display()));
    env.link("a/codex", &local);
    let path = env.search_path(&["a", "home/.local/bin", "a"]);

    let found = find_codex(None, &search_environment(&path, &env.path("home"))).unwrap();

    assert_eq!(found.codex.program, nvm);
    let by_path: BTreeMap<&Path, &CodexCandidate> =
        found.candidates.iter().map(|one| (one.path.as_path(), one)).collect();
    assert_eq!(by_path[nvm.as_path()].origin, CandidateOrigin::KnownPlace);
    assert_eq!(by_path[prefix.as_path()].origin, CandidateOrigin::NpmPrefix);
    let linked = by_path[env.path("a/codex").as_path()];
    assert_eq!((linked.origin, &linked.aliases), (CandidateOrigin::Path, &vec![local.clone()]));
    assert!(!by_path.contains_key(local.as_path()));
}

#[test]
fn version_query_environment_is_minimal() {
    let env = CodexHomeEnv::new();
    env.script("a/codex", "env > \"$HOME/seen\"; echo 'codex-cli 0.150.0'");
    let path = env.search_path(&["a"]);
    let home = env.path("home");
    find_codex(None, &search_environment(&path, &home)).unwrap();
    let seen = fs::read_to_string(home.join("seen")).unwrap();
    let names: Vec<&str> = seen.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    // The shell itself adds the last three. The mark prevents its children from being identified as
    // the operator.
    let known = ["PATH", "HOME", "CODEX_HOME", "PROVOST_LAUNCH", "PWD", "SHLVL", "_"];
    assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
    let codex_home = seen.lines().find_map(|line| line.strip_prefix("CODEX_HOME=")).unwrap();
    assert!(!Path::new(codex_home).starts_with(&home));
    assert!(!Path::new(codex_home).exists(), "the scratch home was left behind");
}

#[test]
fn native_program_is_preferred_over_launcher() {
    let env = CodexHomeEnv::new();
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let platform = if cfg!(target_arch = "x86_64") { "x64" } else { "arm64" };
    for (package, version) in [("new", "0.150.0"), ("old", "0.110.0"), ("dead", "0.149.0")] {
        env.fake_codex(&format!("{package}/@openai/codex/bin/codex.js"), version);
        env.write(&format!("{package}/@openai/codex/package.json"), "{}");
        let launcher = env.path(&format!("{package}/@openai/codex/bin/codex.js"));
        env.link(&format!("{package}/bin/codex"), &launcher);
    }
    let vendor =
        |package: &str| format!("{package}/@openai/codex-linux-{platform}/vendor/{target}");
    let new = env.fake_codex(&format!("{}/bin/codex", vendor("new")), "0.150.0");
    let old = env.fake_codex(&format!("{}/codex/codex", vendor("old")), "0.110.0");
    let extra = env.write(&format!("{}/path/rg", vendor("old")), "");
    env.script(&format!("{}/bin/codex", vendor("dead")), "exit 127");
    let codex = |package: &str| {
        let path = env.search_path(&[]);
        let launcher = explicit(&env.path(&format!("{package}/bin/codex")));
        find_codex(Some(&launcher), &search_environment(&path, &env.path("home"))).unwrap().codex
    };

    assert_eq!(codex("new").program, new);
    assert_eq!(
        (codex("old").program, codex("old").extra_path),
        (old, extra.parent().map(Into::into))
    );
    assert_eq!(codex("dead").program, env.path("dead/bin/codex"));
    assert_eq!(codex("new").extra_path, None);
}

#[test]
fn real_codex_query_leaves_user_home_unchanged() {
    let (Some(new), Some(old)) = (real::codex(), real::old_codex()) else { return };
    let env = CodexHomeEnv::new();
    fs::remove_dir(env.path("home/.codex")).unwrap();
    env.link("bin/codex", &launcher_of(&new));
    env.link("bin2/codex", &launcher_of(&old));
    let path = env.search_path(&["bin2", "bin"]);
    let home = env.path("home");

    let found = find_codex(None, &search_environment(&path, &home)).unwrap();

    let seen = of_lab(&env, &found.candidates);
    assert_eq!(seen["bin"].status, CandidateStatus::Chosen);
    assert_eq!(seen["bin2"].status, CandidateStatus::NotNewest);
    let older = seen["bin2"].codex.clone().unwrap();
    assert_eq!(older.version, AgentVersion::new(0, 107, 0));
    assert!(older.extra_path.unwrap().join("rg").is_file());
    for program in [&found.codex.program, &older.program] {
        let start = fs::read(program).unwrap()[..4].to_vec();
        assert_eq!(start, b"\x7fELF", "{} is not native", program.display());
    }
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
}

/// Returns the launcher of a real Codex's package.
fn launcher_of(codex: &Path) -> PathBuf {
    let real = fs::canonicalize(codex).unwrap();
    let launchers = real.ancestors().map(|above| above.join("@openai/codex/bin/codex.js"));
    launchers.into_iter().find(|file| file.is_file()).expect("Codex was installed by npm")
}

fn explicit(path: &Path) -> NamedCodex {
    NamedCodex { path: path.to_owned(), source: PathSource::Flag }
}

/// Returns the candidates of the test environment, by directory, without those of the machine.
fn of_lab(env: &CodexHomeEnv, candidates: &[CodexCandidate]) -> BTreeMap<String, CodexCandidate> {
    let root = env.path("");
    let own = candidates.iter().filter_map(|one| {
        let name = one.path.strip_prefix(&root).ok()?.parent()?.to_str()?.to_owned();
        Some((name, one.clone()))
    });
    own.collect()
}

#[test]
fn unrunnable_program_is_reported_failed() {
    let env = CodexHomeEnv::new();
    let file = env.write("a/codex", "no format that the kernel knows");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let path = env.search_path(&["a"]);
    let seen = survey(&search_environment(&path, &env.path("home"))).unwrap();
    let fault = of_lab(&env, &seen)["a"].codex.clone().unwrap_err();
    assert!(matches!(fault, CandidateFault::Failed { .. }), "{fault}");
}
