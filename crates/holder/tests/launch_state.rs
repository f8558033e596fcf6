//! The state of a launch directory, especially when it is uncertain.

use std::fs;

use provost_holder::launch_dir::Error;
use provost_holder::{HeldRecord, LaunchState, inspect};

use crate::kit::{Launch, sh, with_pipe, write};

#[test]
fn missing_is_absent_and_bare_directory_is_starting() {
    let temp = tempfile::tempdir().unwrap();
    assert_eq!(inspect(&temp.path().join("no")).unwrap(), LaunchState::Absent);
    let LaunchState::Starting { age_ms, holder: None } = inspect(temp.path()).unwrap() else {
        panic!()
    };
    assert!(age_ms < 600_000);
}

#[test]
fn unreadable_directory_is_an_error() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(inspect(&file), Err(Error::Io { .. })));
    assert!(matches!(inspect(&file.join("below")), Err(Error::Io { .. })));
}

#[test]
fn damaged_record_error_names_the_file() {
    let mut launch = Launch::start(sh("exit 0"));
    launch.wait();
    for name in ["gone.json", "held.json", "exit.json"] {
        let path = launch.dir.join(name);
        let good = fs::read_to_string(&path).unwrap();
        fs::write(&path, &good[..good.len() / 2]).unwrap();
        assert!(
            matches!(inspect(&launch.dir), Err(Error::Malformed { path: named, .. }) if named == path)
        );
        fs::write(&path, good.replace("\"version\":1", "\"version\":2")).unwrap();
        assert!(matches!(inspect(&launch.dir), Err(Error::Version { version: 2, .. })));
        fs::write(&path, good).unwrap();
    }
    assert!(matches!(inspect(&launch.dir), Ok(LaunchState::Ended { .. })));
}

#[test]
fn launch_becomes_dead_holder_then_other_boot() {
    let mut launch = Launch::start(with_pipe(sh("read line")));
    let held = launch.held();
    assert!(held.child.is_alive().unwrap());
    assert_eq!(held.key, launch.key);
    launch.kill_holder();
    let died = LaunchState::HolderDied { holder: held.holder.clone(), held: Some(held.clone()) };
    assert_eq!(inspect(&launch.dir).unwrap(), died);

    let mut other: HeldRecord = held;
    other.holder.boot_id = "another".into();
    fs::write(launch.dir.join("held.json"), serde_json::to_vec(&other).unwrap()).unwrap();
    assert!(matches!(inspect(&launch.dir).unwrap(), LaunchState::OtherBoot { held: Some(_), .. }));
    fs::remove_file(launch.dir.join("held.json")).unwrap();
    assert!(matches!(inspect(&launch.dir).unwrap(), LaunchState::HolderDied { held: None, .. }));
}

#[test]
fn exit_record_outlives_the_holder() {
    let mut launch = Launch::start(with_pipe(sh("read line; exit 4")));
    write(&mut launch.link(), "k", b"\n").unwrap();
    launch.wait();
    let LaunchState::Ended { held: Some(held), .. } = inspect(&launch.dir).unwrap() else {
        panic!()
    };
    assert!(!held.holder.is_alive().unwrap() && !held.child.is_alive().unwrap());
}
