//! Reading real files.

use std::fs;
use std::path::PathBuf;

use provost_config::{ConfigPaths, Inputs, LoadError, MAX_FILE_BYTES, load, resolve};

#[test]
fn both_files_are_read_and_named_in_provenance() {
    let directory = tempfile::tempdir().unwrap();
    let paths = ConfigPaths {
        user: Some(directory.path().join("u.toml")),
        project: Some(directory.path().join("p.toml")),
    };
    fs::write(
        paths.user.as_ref().unwrap(),
        "\u{feff}session.rework = 1\nsession.settle = \"1s\"\n",
    )
    .unwrap();
    fs::write(paths.project.as_ref().unwrap(), "session.rework = 2\r\n").unwrap();
    let (user, project) = load(&paths).unwrap();
    let resolved =
        resolve(&Inputs { user, project, project_is_trusted: true, ..Inputs::default() }).unwrap();
    assert_eq!((resolved.session.rework, resolved.session.settle.as_secs()), (2, 1));
    let source = resolved.provenance["session.rework"].to_string();
    assert_eq!(source, format!("project ({}:1:9)", directory.path().join("p.toml").display()));
}

#[test]
fn missing_files_are_not_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let absent = ConfigPaths { user: Some(directory.path().join("no/such.toml")), project: None };
    assert_eq!(load(&absent).unwrap(), (None, None));
}

#[test]
fn unusable_file_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("provost.toml");
    fs::create_dir(&path).unwrap();
    assert!(matches!(load_project(&path), Err(LoadError::NotAFile { .. })));
    fs::remove_dir(&path).unwrap();
    fs::write(&path, b"ok = 1\n\xff").unwrap();
    assert!(matches!(load_project(&path), Err(LoadError::NotUtf8 { valid: 7, .. })));
    fs::write(&path, "x/y").unwrap();
    assert!(matches!(load_project(&path.join("below")), Err(LoadError::Read { .. })));
}

#[test]
fn a_pipe_in_the_files_place_does_not_block() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("provost.toml");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    assert!(matches!(load_project(&path), Err(LoadError::NotAFile { .. })));
}

#[test]
fn the_size_of_a_file_is_limited() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("provost.toml");
    let comment = |length: u64| format!("#{}", "x".repeat(usize::try_from(length).unwrap() - 1));
    fs::write(&path, comment(MAX_FILE_BYTES)).unwrap();
    assert!(load_project(&path).is_ok());
    fs::write(&path, comment(MAX_FILE_BYTES + 1)).unwrap();
    assert!(matches!(load_project(&path), Err(LoadError::TooLarge { .. })));
}

fn load_project(path: &std::path::Path) -> Result<(), LoadError> {
    load(&ConfigPaths { user: None, project: Some(PathBuf::from(path)) }).map(|_| ())
}
