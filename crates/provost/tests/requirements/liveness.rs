//! A process is identified by pid and start time.

use std::{fs, process::Command};

use serde_json::Value;

use provost_testkit::env::{HANGS, TestEnv, is_running, kill};

#[test]
fn e23_reused_pid_is_not_the_launch() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario(HANGS, &[]);
    let agent = stage.pid(&id);
    let dir = stage.home.path().join("launches").join(format!("{id}.l1"));
    let held: Value = serde_json::from_slice(&fs::read(dir.join("held.json")).unwrap()).unwrap();
    stage.home.daemon().kill();
    kill(u32::try_from(held["holder"]["pid"].as_u64().unwrap()).unwrap());
    kill(agent);
    // Another process now has the pids of the launch.
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
    let row = stage.wait_sealed(&id);
    let unharmed = is_running(bystander.id());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    assert_eq!(row["process"], "unknown", "{row}");
    assert_eq!(row["launches"][0]["phase"], "unobserved");
    assert!(unharmed, "a foreign process was killed");
}

#[test]
fn e23_same_pid_and_start_time_is_the_launch() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario(HANGS, &[]);
    let agent = stage.pid(&id);
    stage.home.daemon().kill();
    let row = stage.status(&id);
    assert_eq!((&row["process"], &row["launches"][0]["pid"]), (&"alive".into(), &agent.into()));
    assert_eq!(row["launches"].as_array().unwrap().len(), 1);
}

/// Returns the pids of a launch's holder and agent.
fn processes(stage: &TestEnv, id: &str) -> [u32; 2] {
    let agent = stage.pid(id);
    let dir = stage.home.path().join("launches").join(format!("{id}.l1"));
    let held: Value = serde_json::from_slice(&fs::read(dir.join("held.json")).unwrap()).unwrap();
    [u32::try_from(held["holder"]["pid"].as_u64().unwrap()).unwrap(), agent]
}

#[test]
fn mass_death_seen_only_by_probes_is_not_believed() {
    let stage = TestEnv::new();
    let sessions: Vec<String> = (0..5).map(|_| stage.spawn_scenario(HANGS, &[])).collect();
    let processes: Vec<[u32; 2]> = sessions.iter().map(|id| processes(&stage, id)).collect();
    stage.home.daemon().kill();
    // Four of five launches vanished without an exit record while no daemon ran.
    processes.iter().skip(1).flatten().for_each(|pid| kill(*pid));
    for id in &sessions[1..] {
        let row = stage.home.wait_state(id, |row| row["process"] == "unknown");
        let phase = &row["launches"][0]["phase"];
        assert_eq!((phase, &row["sealed"]), (&"running".into(), &false.into()), "{row:#}");
        let why = stage.events_of(id, "process.unknown")[0]["data"]["why"].to_string();
        assert!(why.contains("4 of 5 launches look dead at once"), "{why}");
    }
    assert_eq!(stage.status(&sessions[0])["process"], "alive");
    // An exit status is always accepted. With few sessions left, it is plausible that all of them
    // ended.
    kill(processes[0][1]);
    assert_eq!(stage.wait_sealed(&sessions[0])["state"], "failed");
    for id in &sessions[1..] {
        assert_eq!(stage.wait_sealed(id)["launches"][0]["phase"], "unobserved");
    }
}

#[test]
fn few_dead_processes_are_believed() {
    let stage = TestEnv::new();
    let sessions: Vec<String> = (0..5).map(|_| stage.spawn_scenario(HANGS, &[])).collect();
    let processes: Vec<[u32; 2]> = sessions.iter().map(|id| processes(&stage, id)).collect();
    stage.home.daemon().kill();
    processes.iter().take(2).flatten().for_each(|pid| kill(*pid));
    for id in &sessions[..2] {
        let row = stage.wait_sealed(id);
        assert_eq!(row["launches"][0]["phase"], "unobserved", "{row:#}");
    }
    for id in &sessions[2..] {
        stage.home.provost(&["cancel", id]).ok();
        stage.wait_sealed(id);
    }
}

#[test]
fn answer_after_holder_death_finishes_the_work() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let opened = stage.home.provost_in(repo.path(), &["spawn", "--json", "--agent", "demo", "hi"]);
    let id = opened.ok().json()["id"].as_str().unwrap().to_owned();
    let asks = |row: &Value| row["state"] == "needs_input";
    stage.home.wait_state(&id, asks);
    stage.home.daemon().kill();
    processes(&stage, &id).into_iter().for_each(kill);
    stage.home.wait_state(&id, |row| asks(row) && row["process"] == "unknown");
    stage.home.provost(&["answer", &id, "French"]).ok();
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    assert!(repo.read("GREETING.md").starts_with("Bonjour!"));
}
