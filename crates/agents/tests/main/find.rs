//! R5: every Codex is examined, the newest usable one is chosen, an explicit path wins.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use provost_agents::find::{Fault, Origin, VERSION_LIMIT, survey};
use provost_agents::{Candidate, Explicit, Source, Standing, Version, find_codex};

use crate::lab::{Lab, around};
use crate::real;

#[test]
fn r5_every_candidate_is_examined_and_the_newest_usable_one_chosen() {
    let lab = Lab::new();
    lab.fake_codex("a/codex", "0.140.0");
    lab.fake_codex("b/codex", "0.99.0");
    lab.script("c/codex", "echo broken >&2; exit 3");
    lab.script("d/codex", "echo 'codex 1.0, a codec'");
    lab.write("e/codex", "text");
    lab.fake_codex("f/codex", "0.150.0");
    lab.fake_codex("g/codex", "0.151.0-alpha.1");
    lab.fake_codex("h/codex", "0.150.0");
    lab.link("i/codex", Path::new("nowhere"));
    fs::create_dir_all(lab.path("j/codex")).unwrap();
    let path = lab.search_path(&["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]);
    let home = lab.path("home");

    let found = find_codex(None, &around(&path, &home)).unwrap();

    let seen = of_lab(&lab, &found.candidates);
    assert_eq!(found.codex.program, lab.path("g/codex"));
    let fault = |name: &str| seen[name].codex.clone().unwrap_err();
    let chosen = seen.iter().filter(|(_, one)| one.standing == Standing::Chosen);
    assert_eq!(chosen.map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["g"]);
    for older in ["a", "f", "h"] {
        assert_eq!(seen[older].standing, Standing::NotNewest);
    }
    assert_eq!(fault("b"), Fault::TooOld { version: Version::new(0, 99, 0) });
    assert_eq!(fault("c"), Fault::Failed { how: "exit code 3".into(), said: "broken".into() });
    assert_eq!(fault("d"), Fault::NotCodex { said: "codex 1.0, a codec".into() });
    assert_eq!(fault("e"), Fault::NotExecutable);
    assert_eq!(fault("i"), Fault::Missing);
    assert!(!seen.contains_key("j"), "a directory is no program");
}

#[test]
fn r5_of_equal_versions_the_first_in_the_path_is_chosen() {
    let lab = Lab::new();
    lab.fake_codex("a/codex", "0.150.0");
    lab.fake_codex("b/codex", "0.150.0");
    let path = lab.search_path(&["b", "a"]);
    let found = find_codex(None, &around(&path, &lab.path("home"))).unwrap();
    assert_eq!(found.codex.program, lab.path("b/codex"));
}

#[test]
fn one_that_does_not_answer_is_ended_with_all_that_it_started() {
    let lab = Lab::new();
    // The lock can be acquired only when the child is gone.
    lab.script("a/codex", "flock \"$HOME/lock\" sleep 600 & sleep 600");
    lab.fake_codex("b/codex", "0.150.0");
    let path = lab.search_path(&["a", "b"]);
    let home = lab.path("home");

    let found = find_codex(None, &around(&path, &home)).unwrap();

    assert_eq!(found.codex.program, lab.path("b/codex"));
    let fault = of_lab(&lab, &found.candidates)["a"].codex.clone().unwrap_err();
    assert_eq!(fault, Fault::DidNotAnswer { limit: VERSION_LIMIT });
    let lock = Command::new("flock").arg("-w30").arg(home.join("lock")).arg("true").status();
    assert!(lock.unwrap().success(), "a child outlived the question");
}

#[test]
fn one_that_never_stops_talking_is_ended() {
    let lab = Lab::new();
    lab.script("a/codex", "exec yes codex-cli 0.166.0");
    let path = lab.search_path(&["a"]);
    let seen = survey(&around(&path, &lab.path("home"))).unwrap();
    let fault = of_lab(&lab, &seen)["a"].codex.clone().unwrap_err();
    assert!(matches!(&fault, Fault::Failed { how, .. } if how.contains("output")), "{fault}");
}

#[test]
fn r5_an_explicit_path_wins_over_a_newer_one() {
    let lab = Lab::new();
    let older = lab.fake_codex("x/my-codex", "0.120.0");
    lab.fake_codex("a/codex", "0.150.0");
    let path = lab.search_path(&["a"]);
    let found = find_codex(Some(&explicit(&older)), &around(&path, &lab.path("home"))).unwrap();
    assert_eq!((found.codex.program, found.codex.version), (older, Version::new(0, 120, 0)));
}

#[test]
fn r5_an_explicit_path_that_is_no_usable_codex_is_an_error_that_says_what_to_do() {
    let lab = Lab::new();
    lab.fake_codex("a/codex", "0.150.0");
    let path = lab.search_path(&["a"]);
    let home = lab.path("home");
    let told = |file: &Path, source: Source| {
        let explicit = Explicit { path: file.to_owned(), source };
        find_codex(Some(&explicit), &around(&path, &home)).unwrap_err().to_string()
    };

    let old = lab.fake_codex("x/old", "0.99.0");
    let expected = format!(
        "cannot use {} as Codex (set by --codex-path): its version is 0.99.0, older than 0.107.0; \
         update it with `npm install -g @openai/codex`",
        old.display()
    );
    assert_eq!(told(&old, Source::Flag), expected);
    let missing = told(&lab.path("x/none"), Source::Environment);
    assert!(missing.contains("set by PROVOST_CODEX"), "{missing}");
    assert!(missing.contains("there is no such file; correct PROVOST_CODEX"), "{missing}");
    let directory = told(&lab.path("home"), Source::Config);
    assert!(directory.contains("set by agents.codex.path"), "{directory}");
    assert!(directory.contains("not an executable file"), "{directory}");
}

#[test]
fn no_usable_codex_at_all_is_an_error_that_lists_what_was_seen() {
    let lab = Lab::new();
    let old = lab.fake_codex("a/codex", "0.99.0");
    let path = lab.search_path(&["a"]);
    let Err(error) = find_codex(None, &around(&path, &lab.path("home"))) else {
        // A Codex of this machine, in one of the known locations, may be found.
        return;
    };
    let told = error.to_string();
    assert!(told.contains(&format!("{}: its version is 0.99.0", old.display())), "{told}");
    assert!(told.contains("npm install -g @openai/codex"), "{told}");
}

#[test]
fn known_places_are_searched_and_names_of_one_program_merged() {
    let lab = Lab::new();
    let nvm = lab.fake_codex("home/.nvm/versions/node/v24.1.0/bin/codex", "0.151.0");
    let local = lab.fake_codex("home/.local/bin/codex", "0.150.0");
    let prefix = lab.fake_codex("npm/bin/codex", "0.149.0");
    lab.write("home/.npmrc", &format!("prefix={}\n", lab.path("npm").display()));
    lab.link("a/codex", &local);
    let path = lab.search_path(&["a", "home/.local/bin", "a"]);

    let found = find_codex(None, &around(&path, &lab.path("home"))).unwrap();

    assert_eq!(found.codex.program, nvm);
    let by_path: BTreeMap<&Path, &Candidate> =
        found.candidates.iter().map(|one| (one.path.as_path(), one)).collect();
    assert_eq!(by_path[nvm.as_path()].origin, Origin::KnownPlace);
    assert_eq!(by_path[prefix.as_path()].origin, Origin::NpmPrefix);
    let linked = by_path[lab.path("a/codex").as_path()];
    assert_eq!((linked.origin, &linked.also), (Origin::Path, &vec![local.clone()]));
    assert!(!by_path.contains_key(local.as_path()));
}

#[test]
fn a_candidate_is_asked_with_little_environment_and_a_home_that_is_not_the_users() {
    let lab = Lab::new();
    lab.script("a/codex", "env > \"$HOME/seen\"; echo 'codex-cli 0.150.0'");
    let path = lab.search_path(&["a"]);
    let home = lab.path("home");
    find_codex(None, &around(&path, &home)).unwrap();
    let seen = fs::read_to_string(home.join("seen")).unwrap();
    let names: Vec<&str> = seen.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    // The shell itself adds the last three. The mark keeps its children from passing for the
    // operator.
    let known = ["PATH", "HOME", "CODEX_HOME", "PROVOST_LAUNCH", "PWD", "SHLVL", "_"];
    assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
    let codex_home = seen.lines().find_map(|line| line.strip_prefix("CODEX_HOME=")).unwrap();
    assert!(!Path::new(codex_home).starts_with(&home));
    assert!(!Path::new(codex_home).exists(), "the scratch home was left behind");
}

#[test]
fn the_native_program_behind_a_launcher_is_used_and_its_launcher_if_that_does_not_work() {
    let lab = Lab::new();
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let platform = if cfg!(target_arch = "x86_64") { "x64" } else { "arm64" };
    for (package, version) in [("new", "0.150.0"), ("old", "0.110.0"), ("dead", "0.149.0")] {
        lab.fake_codex(&format!("{package}/@openai/codex/bin/codex.js"), version);
        lab.write(&format!("{package}/@openai/codex/package.json"), "{}");
        let launcher = lab.path(&format!("{package}/@openai/codex/bin/codex.js"));
        lab.link(&format!("{package}/bin/codex"), &launcher);
    }
    let vendor =
        |package: &str| format!("{package}/@openai/codex-linux-{platform}/vendor/{target}");
    let new = lab.fake_codex(&format!("{}/bin/codex", vendor("new")), "0.150.0");
    let old = lab.fake_codex(&format!("{}/codex/codex", vendor("old")), "0.110.0");
    let extra = lab.write(&format!("{}/path/rg", vendor("old")), "");
    lab.script(&format!("{}/bin/codex", vendor("dead")), "exit 127");
    let codex = |package: &str| {
        let path = lab.search_path(&[]);
        let launcher = explicit(&lab.path(&format!("{package}/bin/codex")));
        find_codex(Some(&launcher), &around(&path, &lab.path("home"))).unwrap().codex
    };

    assert_eq!(codex("new").program, new);
    assert_eq!(
        (codex("old").program, codex("old").extra_path),
        (old, extra.parent().map(Into::into))
    );
    assert_eq!(codex("dead").program, lab.path("dead/bin/codex"));
    assert_eq!(codex("new").extra_path, None);
}

#[test]
fn real_codex_is_found_behind_its_launcher_and_writes_nothing_into_the_users_home() {
    let (Some(new), Some(old)) = (real::codex(), real::old_codex()) else { return };
    let lab = Lab::new();
    fs::remove_dir(lab.path("home/.codex")).unwrap();
    lab.link("bin/codex", &launcher_of(&new));
    lab.link("bin2/codex", &launcher_of(&old));
    let path = lab.search_path(&["bin2", "bin"]);
    let home = lab.path("home");

    let found = find_codex(None, &around(&path, &home)).unwrap();

    let seen = of_lab(&lab, &found.candidates);
    assert_eq!(seen["bin"].standing, Standing::Chosen);
    assert_eq!(seen["bin2"].standing, Standing::NotNewest);
    let older = seen["bin2"].codex.clone().unwrap();
    assert_eq!(older.version, Version::new(0, 107, 0));
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

fn explicit(path: &Path) -> Explicit {
    Explicit { path: path.to_owned(), source: Source::Flag }
}

/// Returns the candidates of the test environment, by directory, without those of the machine.
fn of_lab(lab: &Lab, candidates: &[Candidate]) -> BTreeMap<String, Candidate> {
    let root = lab.path("");
    let own = candidates.iter().filter_map(|one| {
        let name = one.path.strip_prefix(&root).ok()?.parent()?.to_str()?.to_owned();
        Some((name, one.clone()))
    });
    own.collect()
}

#[test]
fn a_program_that_only_others_may_run_is_told_as_failed() {
    let lab = Lab::new();
    let file = lab.write("a/codex", "no format that the kernel knows");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let path = lab.search_path(&["a"]);
    let seen = survey(&around(&path, &lab.path("home"))).unwrap();
    let fault = of_lab(&lab, &seen)["a"].codex.clone().unwrap_err();
    assert!(matches!(fault, Fault::Failed { .. }), "{fault}");
}
