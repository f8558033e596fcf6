//! Liveness is pid and start time.

use std::{fs, process::Command};

use serde_json::Value;

use crate::kit::{HANGS, Stage, kill, lives};

#[test]
fn e23_a_reused_pid_is_not_taken_for_the_launch() {
    let stage = Stage::new();
    let id = stage.play(HANGS, &[]);
    let agent = stage.pid(&id);
    let dir = stage.home.path().join("launches").join(format!("{id}.l1"));
    let held: Value = serde_json::from_slice(&fs::read(dir.join("held.json")).unwrap()).unwrap();
    stage.home.daemon().kill();
    kill(u32::try_from(held["holder"]["pid"].as_u64().unwrap()).unwrap());
    kill(agent);
    // Somebody else lives under the pids that the launch had.
    let mut bystander = Command::new("sleep").arg("600").spawn().unwrap();
    for file in ["held.json", "holder.json"] {
        let mut record: Value = serde_json::from_slice(&fs::read(dir.join(file)).unwrap()).unwrap();
        for who in ["holder", "child"] {
            if record.get(who).is_some() {
                record[who]["pid"] = bystander.id().into();
            }
        }
        fs::write(dir.join(file), record.to_string()).unwrap();
    }
    let row = stage.sealed(&id);
    let unharmed = lives(bystander.id());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    assert_eq!(row["process"], "unknown", "{row}");
    assert_eq!(row["launches"][0]["phase"], "unobserved");
    assert!(unharmed, "a process of somebody else was ended");
}

#[test]
fn e23_the_same_pid_and_start_time_is_still_the_launch() {
    let stage = Stage::new();
    let id = stage.play(HANGS, &[]);
    let agent = stage.pid(&id);
    stage.home.daemon().kill();
    let row = stage.status(&id);
    assert_eq!((&row["process"], &row["launches"][0]["pid"]), (&"alive".into(), &agent.into()));
    assert_eq!(row["launches"].as_array().unwrap().len(), 1);
}
