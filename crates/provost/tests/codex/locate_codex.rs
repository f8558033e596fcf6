//! Locating Codex if other programs have the same name.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::{Value, json};

use crate::codex_env::CodexEnv;

const DONE_SCENARIO: &str = r#"
[[thread]]
turn = [{ response = [
  { items = [{ tool = "provost_report", args = { status = "completed", summary = "done" } }] },
  { items = [{ message = "Done." }] },
] }]
"#;

/// Writes a program that runs this shell line, whatever arguments it gets.
fn write_fake_codex(path: &Path, says: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{says}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Puts an older Codex, a broken one and another program before the real one on the `PATH`.
fn crowd_path(stage: &mut CodexEnv) -> String {
    let real = provost_testkit::model::codex().unwrap();
    let root = stage.home.root().to_owned();
    write_fake_codex(&root.join("older/codex"), "echo codex-cli 0.120.0");
    write_fake_codex(&root.join("broken/codex"), "exit 3");
    write_fake_codex(&root.join("other/codex"), "echo something else 9.9.9");
    let dirs = ["older", "broken", "other"].map(|dir| root.join(dir).display().to_string());
    let real = real.parent().unwrap().display().to_string();
    let path = format!("{}:{real}:/usr/local/bin:/usr/bin:/bin", dirs.join(":"));
    stage.home.set_env("PATH", &path).set_env("PROVOST_CODEX", "");
    real
}

#[test]
fn r05_newest_usable_codex_on_path_is_used() {
    let Some(mut stage) = CodexEnv::new(DONE_SCENARIO) else { return };
    let real = crowd_path(&mut stage);
    let id = stage.spawn(&["Find it."]);
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "completed", "{row:#}");
    assert!(row["argv"][0].as_str().unwrap().starts_with(&real), "{row:#}");
    let doctor = stage.home.provost(&["doctor", "--json"]).json();
    let found: Vec<String> = doctor["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["what"] == "codex")
        .map(|finding| finding["found"].as_str().unwrap().to_owned())
        .collect();
    let about = |part: &str| found.iter().any(|text| text.contains(part));
    let expected = [
        "older/codex",
        "a newer version is installed",
        "broken/codex",
        "other/codex",
        &real,
        "used by",
    ];
    for part in expected {
        assert!(about(part), "{part}: {found:#?}");
    }
}

#[test]
fn r05_named_non_codex_is_an_error() {
    let Some(mut stage) = CodexEnv::new(DONE_SCENARIO) else { return };
    crowd_path(&mut stage);
    let other = stage.home.root().join("other/codex").display().to_string();
    let refused = stage.try_spawn(&["--codex-path", &other, "Find it."]);
    let error: Value = refused.assert_code(2).json();
    assert_eq!(error["ok"], json!(false), "{error:#}");
    assert!(error.to_string().contains("--codex-path"), "{error:#}");
    assert!(stage.model.requests().is_empty());
}
