//! Rollouts, the files in which an agent records its conversation: each line is reported once, and nothing that
//! ended before watching began.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::Write as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use provost_testkit::{agent::THREAD, harness::eventually};
use serde_json::{Value, json};

use crate::kit::{Stage, kill, text};

/// The rollout of an external agent.
struct Theirs {
    path: PathBuf,
}

impl Theirs {
    fn begin(stage: &Stage) -> Theirs {
        let path = stage.home.root().join(format!("rollout-2026-11-16T10-00-00-{THREAD}.jsonl"));
        let theirs = Theirs { path };
        let cwd = text(stage.home.root());
        theirs.add("session_meta", json!({"id": THREAD, "cwd": cwd, "cli_version": "0.166.0"}));
        theirs
    }

    fn add(&self, kind: &str, payload: Value) {
        let line = format!(r#"{{"timestamp":"T","type":"{kind}","payload":{payload}}}"#);
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path).unwrap();
        writeln!(file, "{line}").unwrap();
    }

    fn event(&self, payload: Value) {
        self.add("event_msg", payload);
    }

    fn starts(&self, turn: &str) {
        self.event(json!({"type": "task_started", "turn_id": turn}));
    }

    fn ends(&self, turn: &str) {
        self.event(
            json!({"type": "task_complete", "turn_id": turn, "last_agent_message": "Done."}),
        );
    }

    #[track_caller]
    fn adopted(&self, stage: &Stage) -> String {
        let path = text(&self.path);
        let adopted = stage.home.provost(&["adopt", "--rollout", &path, "--json"]);
        let id = adopted.ok().json()["id"].as_str().unwrap().to_owned();
        stage.wait_state(&id, |row| row["thread"] == THREAD);
        id
    }
}

/// The numbers of started and ended turns; asserts that no position of the file was reported twice.
#[track_caller]
fn turns(stage: &Stage, id: &str) -> (usize, usize) {
    let recorded = stage.events_of(id, "signal.recorded");
    let places: Vec<u64> =
        recorded.iter().map(|event| event["data"]["place"].as_u64().unwrap()).collect();
    let unique: BTreeSet<&u64> = places.iter().collect();
    assert_eq!(unique.len(), places.len(), "{places:?}");
    (stage.events_of(id, "turn.started").len(), stage.events_of(id, "turn.ended").len())
}

#[test]
fn d08_each_place_of_a_record_is_told_once_and_what_was_over_is_no_news() {
    let stage = Stage::new();
    let theirs = Theirs::begin(&stage);
    for old in ["a", "b"] {
        theirs.starts(old);
        theirs.ends(old);
    }
    let id = theirs.adopted(&stage);
    assert_eq!(turns(&stage, &id), (0, 0), "what was over is no news");
    theirs.starts("c");
    stage.wait(&id, "working");
    stage.home.daemon().kill();
    theirs.ends("c");
    theirs.starts("d");
    stage.wait_state(&id, |row| row["turns"] == 2);
    let second = Stage::new();
    let other = theirs.adopted(&second);
    second.wait(&other, "working");
    for _ in 0..3 {
        stage.home.daemon().kill();
        stage.status(&id);
    }
    theirs.ends("d");
    for (stage, id) in [(&stage, &id), (&second, &other)] {
        stage.wait(id, "idle");
    }
    assert_eq!(turns(&stage, &id), (2, 2));
    assert_eq!(turns(&second, &other), (1, 1), "it came when the last turn was open");
}

#[test]
fn d09_aborts_errors_and_compaction_are_understood_and_a_late_count_of_tokens_changes_nothing() {
    let stage = Stage::new();
    let theirs = Theirs::begin(&stage);
    let id = theirs.adopted(&stage);
    theirs.starts("a");
    theirs.add("compacted", json!({"message": "shorter"}));
    stage.wait(&id, "working");
    theirs.event(json!({"type": "turn_aborted", "turn_id": "a", "reason": "interrupted"}));
    let row = stage.wait(&id, "idle");
    assert_eq!(row["claim"], "none", "interrupted is not done: {row:#}");
    let end = |no: usize| stage.events_of(&id, "turn.ended")[no]["data"]["end"].clone();
    assert_eq!(end(0), "interrupted");
    theirs.starts("b");
    stage.wait(&id, "working");
    theirs.ends("b");
    let row = stage.wait(&id, "idle");
    let usage = json!({"input_tokens": 9, "output_tokens": 3, "total_tokens": 12});
    let info = json!({"total_token_usage": usage, "last_token_usage": usage});
    theirs.event(json!({"type": "token_count", "info": info}));
    eventually("the tokens are reported", || {
        (!stage.events_of(&id, "usage.told").is_empty()).then_some(())
    });
    let after = stage.status(&id);
    assert_eq!((&after["state"], &after["turns"]), (&row["state"], &row["turns"]), "{after:#}");
    theirs.starts("c");
    theirs.event(json!({"type": "error", "message": "no more", "codex_error_info": "other"}));
    theirs.event(json!({"type": "task_complete", "turn_id": "c", "last_agent_message": null}));
    eventually("the error is reported", || (turns(&stage, &id) == (3, 3)).then_some(()));
    assert!(end(2).to_string().contains("no more"), "{}", end(2));
}

#[test]
fn a_rollout_of_two_hundred_megabytes_is_adopted_in_constant_memory() {
    let stage = Stage::new();
    let theirs = Theirs::begin(&stage);
    theirs.starts("a");
    let line = format!(
        "{{\"timestamp\":\"T\",\"type\":\"response_item\",\"payload\":{{\"type\":\"message\",\"text\":\"{}\"}}}}\n",
        "words ".repeat(1_000)
    );
    let block = line.repeat(1_000);
    let mut file = OpenOptions::new().append(true).open(&theirs.path).unwrap();
    for _ in 0..(200 << 20) / block.len() + 1 {
        file.write_all(block.as_bytes()).unwrap();
    }
    stage.rows();
    let daemon = stage.home.daemon().pid().unwrap();
    let before = peak_kib(daemon);
    let id = theirs.adopted(&stage);
    stage.wait(&id, "working");
    let took = peak_kib(daemon) - before;
    assert!(took <= 16 << 10, "{took} KiB");
    theirs.ends("a");
    stage.wait(&id, "idle");
}

fn peak_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// Starts an external agent with its rollout open.
fn begin_agent(theirs: &Theirs) -> Child {
    let mut agent = Command::new("bash");
    let record = text(&theirs.path);
    agent.args(["-c", &format!("exec 3>>{record:?}; exec -a codex sleep 600")]);
    agent.env("AI_AGENT", "codex").stdin(Stdio::null()).spawn().unwrap()
}

#[test]
fn an_agent_is_adopted_once_by_whatever_it_is_named_and_again_when_nobody_watches_it() {
    let stage = Stage::new();
    let theirs = Theirs::begin(&stage);
    let mut agent = begin_agent(&theirs);
    let (number, record) = (agent.id(), text(&theirs.path));
    let pid = number.to_string();
    let ways = [["--pid", pid.as_str()], ["--rollout", &record]];
    let began = eventually("it has its record open", || {
        let discovered = stage.home.provost(&["discover", "--json"]).ok().json();
        let agents = discovered["agents"].as_array().unwrap().clone();
        agents.into_iter().find(|one| one["pid"] == number && one["rollout"] == record)
    });
    assert_eq!(began["thread"], THREAD, "{began:#}");
    // Enough at once that two of them are decided together.
    let asked: Vec<Child> = (0..8)
        .map(|no| {
            let mut adopt = stage.home.command(&["adopt", ways[no % 2][0], ways[no % 2][1]]);
            adopt.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let ended: Vec<_> = asked.into_iter().map(|one| one.wait_with_output().unwrap()).collect();
    let codes: Vec<i32> = ended.iter().map(|one| one.status.code().unwrap()).collect();
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == 4).count(), 7, "{codes:?}");
    let [row] = stage.rows().try_into().unwrap();
    let (name, id) = (row["name"].as_str().unwrap(), row["id"].as_str().unwrap());
    let refused = stage.home.provost(&["adopt", "--pid", &pid, "--name", "again"]);
    assert!(refused.exits(4).stderr.contains(name), "{refused:#?}");
    stage.home.provost(&["cancel", id, "--because", "enough"]).ok();
    stage.sealed(id);
    stage.home.provost(&["adopt", "--pid", &pid, "--name", "again"]).ok();
    agent.kill().unwrap();
    agent.wait().unwrap();
}

/// A step between the adoption of an agent and its sealed end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    KillDaemon,
    StopDaemon,
    EndAgent,
}

/// Adopts an agent, performs these steps in order, and returns the session with its sealed row.
#[track_caller]
fn adopted_and(deeds: &[Deed]) -> (Stage, String, Value) {
    let stage = Stage::new();
    let theirs = Theirs::begin(&stage);
    theirs.starts("a");
    let mut agent = begin_agent(&theirs);
    let pid = agent.id();
    let id = theirs.adopted(&stage);
    stage.wait(&id, "working");
    for deed in deeds {
        match deed {
            Deed::KillDaemon => drop(stage.home.daemon().kill()),
            Deed::StopDaemon => stage.home.daemon().stop(),
            Deed::EndAgent => {
                kill(pid);
                agent.wait().unwrap();
            }
        }
    }
    let row = stage.sealed(&id);
    (stage, id, row)
}

#[test]
fn an_adopted_agent_that_ends_while_daemons_come_and_go_has_one_end_and_is_sent_nothing() {
    use Deed::{EndAgent, KillDaemon, StopDaemon};
    let orders: [&[Deed]; 4] =
        [&[EndAgent], &[KillDaemon, EndAgent], &[EndAgent, KillDaemon], &[StopDaemon, EndAgent]];
    for order in orders {
        let (stage, id, row) = adopted_and(order);
        assert_eq!(row["state"], "ended_unclaimed", "{order:?}: {row:#}");
        let flags = row["flags"].as_array().unwrap();
        assert!(flags.contains(&json!("exit_code_unobserved")), "{order:?}: {row:#}");
        for end in [KillDaemon, StopDaemon] {
            match end {
                KillDaemon => drop(stage.home.daemon().kill()),
                StopDaemon | EndAgent => stage.home.daemon().stop(),
            }
            assert_eq!(stage.status(&id), row, "{order:?}: another daemon changed it");
        }
        assert_eq!(stage.events_of(&id, "attempt.sealed").len(), 1, "{order:?}");
        for sent in ["message.queued", "message.typed", "stop.asked"] {
            assert_eq!(stage.events_of(&id, sent), Vec::<Value>::new(), "{order:?}");
        }
    }
}
