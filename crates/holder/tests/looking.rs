//! The state of a launch directory, especially when it is uncertain.

use std::fs;

use provost_holder::launch_dir::Error;
use provost_holder::{Held, Looked, look};

use crate::kit::{Launch, sh, with_pipe, write};

#[test]
fn nothing_there_is_absent_and_a_bare_directory_is_starting() {
    let temp = tempfile::tempdir().unwrap();
    assert_eq!(look(&temp.path().join("no")).unwrap(), Looked::Absent);
    let Looked::Starting { age_ms, holder: None } = look(temp.path()).unwrap() else { panic!() };
    assert!(age_ms < 600_000);
}

#[test]
fn what_cannot_be_looked_at_is_an_error() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(look(&file), Err(Error::Io { .. })));
    assert!(matches!(look(&file.join("below")), Err(Error::Io { .. })));
}

#[test]
fn a_damaged_record_is_an_error_that_names_the_file() {
    let mut launch = Launch::start(sh("exit 0"));
    launch.wait();
    for name in ["gone.json", "held.json", "exit.json"] {
        let path = launch.dir.join(name);
        let good = fs::read_to_string(&path).unwrap();
        fs::write(&path, &good[..good.len() / 2]).unwrap();
        assert!(
            matches!(look(&launch.dir), Err(Error::Malformed { path: named, .. }) if named == path)
        );
        fs::write(&path, good.replace("\"version\":1", "\"version\":2")).unwrap();
        assert!(matches!(look(&launch.dir), Err(Error::Version { version: 2, .. })));
        fs::write(&path, good).unwrap();
    }
    assert!(matches!(look(&launch.dir), Ok(Looked::Ended { .. })));
}

#[test]
fn a_living_launch_turns_into_a_dead_holder_and_then_another_boot() {
    let mut launch = Launch::start(with_pipe(sh("read line")));
    let held = launch.held();
    assert!(held.child.is_alive().unwrap());
    assert_eq!(held.key, launch.key);
    launch.kill_holder();
    let died = Looked::HolderDied { holder: held.holder.clone(), held: Some(held.clone()) };
    assert_eq!(look(&launch.dir).unwrap(), died);

    let mut other: Held = held;
    other.holder.boot_id = "another".into();
    fs::write(launch.dir.join("held.json"), serde_json::to_vec(&other).unwrap()).unwrap();
    assert!(matches!(look(&launch.dir).unwrap(), Looked::OtherBoot { held: Some(_), .. }));
    fs::remove_file(launch.dir.join("held.json")).unwrap();
    assert!(matches!(look(&launch.dir).unwrap(), Looked::HolderDied { held: None, .. }));
}

#[test]
fn the_record_of_an_end_stands_though_the_holder_is_gone() {
    let mut launch = Launch::start(with_pipe(sh("read line; exit 4")));
    write(&mut launch.link(), "k", b"\n").unwrap();
    launch.wait();
    let Looked::Ended { held: Some(held), .. } = look(&launch.dir).unwrap() else { panic!() };
    assert!(!held.holder.is_alive().unwrap() && !held.child.is_alive().unwrap());
}
