//! Rollouts, the files in which an agent records its conversation. Each line is reported once, and
//! turns that ended before the adoption are not reported.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::Write as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use provost_testkit::{agent::THREAD, harness::eventually};
use serde_json::{Value, json};

use provost_testkit::env::{TestEnv, kill, text};

/// The rollout of an external agent.
struct ForeignRollout {
    path: PathBuf,
}

impl ForeignRollout {
    fn start(stage: &TestEnv) -> ForeignRollout {
        let path = stage.home.root().join(format!("rollout-2026-11-16T10-00-00-{THREAD}.jsonl"));
        let theirs = ForeignRollout { path };
        let cwd = text(stage.home.root());
        theirs.append("session_meta", json!({"id": THREAD, "cwd": cwd, "cli_version": "0.166.0"}));
        theirs
    }

    fn append(&self, kind: &str, payload: Value) {
        let line = format!(r#"{{"timestamp":"T","type":"{kind}","payload":{payload}}}"#);
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path).unwrap();
        writeln!(file, "{line}").unwrap();
    }

    fn append_event(&self, payload: Value) {
        self.append("event_msg", payload);
    }

    fn start_turn(&self, turn: &str) {
        self.append_event(json!({"type": "task_started", "turn_id": turn}));
    }

    fn end_turn(&self, turn: &str) {
        self.append_event(
            json!({"type": "task_complete", "turn_id": turn, "last_agent_message": "Done."}),
        );
    }

    #[track_caller]
    fn adopt(&self, stage: &TestEnv) -> String {
        let path = text(&self.path);
        let adopted = stage.home.provost(&["adopt", "--rollout", &path, "--json"]);
        let id = adopted.ok().json()["id"].as_str().unwrap().to_owned();
        stage.wait_state(&id, |row| row["thread"] == THREAD);
        id
    }
}

/// Returns the numbers of started and ended turns. Asserts that no position of the file was
/// reported twice.
#[track_caller]
fn turn_counts(stage: &TestEnv, id: &str) -> (usize, usize) {
    let recorded = stage.events_of(id, "signal.recorded");
    let places: Vec<u64> =
        recorded.iter().map(|event| event["data"]["place"].as_u64().unwrap()).collect();
    let unique: BTreeSet<&u64> = places.iter().collect();
    assert_eq!(unique.len(), places.len(), "{places:?}");
    (stage.events_of(id, "turn.started").len(), stage.events_of(id, "turn.ended").len())
}

#[test]
fn d08_rollout_lines_are_reported_once_and_old_ones_never() {
    let stage = TestEnv::new();
    let theirs = ForeignRollout::start(&stage);
    for old in ["a", "b"] {
        theirs.start_turn(old);
        theirs.end_turn(old);
    }
    let id = theirs.adopt(&stage);
    assert_eq!(turn_counts(&stage, &id), (0, 0), "what was over is no news");
    theirs.start_turn("c");
    stage.wait(&id, "working");
    stage.home.daemon().kill();
    theirs.end_turn("c");
    theirs.start_turn("d");
    stage.wait_state(&id, |row| row["turns"] == 2);
    let second = TestEnv::new();
    let other = theirs.adopt(&second);
    second.wait(&other, "working");
    for _ in 0..3 {
        stage.home.daemon().kill();
        stage.status(&id);
    }
    theirs.end_turn("d");
    for (stage, id) in [(&stage, &id), (&second, &other)] {
        stage.wait(id, "idle");
    }
    assert_eq!(turn_counts(&stage, &id), (2, 2));
    assert_eq!(turn_counts(&second, &other), (1, 1), "it came when the last turn was open");
}

#[test]
fn d09_aborts_errors_and_compaction_are_understood() {
    let stage = TestEnv::new();
    let theirs = ForeignRollout::start(&stage);
    let id = theirs.adopt(&stage);
    theirs.start_turn("a");
    theirs.append("compacted", json!({"message": "shorter"}));
    stage.wait(&id, "working");
    theirs.append_event(json!({"type": "turn_aborted", "turn_id": "a", "reason": "interrupted"}));
    let row = stage.wait(&id, "idle");
    assert_eq!(row["claim"], "none", "interrupted is not done: {row:#}");
    let end = |no: usize| stage.events_of(&id, "turn.ended")[no]["data"]["end"].clone();
    assert_eq!(end(0), "interrupted");
    theirs.start_turn("b");
    stage.wait(&id, "working");
    theirs.end_turn("b");
    let row = stage.wait(&id, "idle");
    let usage = json!({"input_tokens": 9, "output_tokens": 3, "total_tokens": 12});
    let info = json!({"total_token_usage": usage, "last_token_usage": usage});
    theirs.append_event(json!({"type": "token_count", "info": info}));
    eventually("the tokens are reported", || {
        (!stage.events_of(&id, "usage.reported").is_empty()).then_some(())
    });
    let after = stage.status(&id);
    assert_eq!((&after["state"], &after["turns"]), (&row["state"], &row["turns"]), "{after:#}");
    theirs.start_turn("c");
    theirs
        .append_event(json!({"type": "error", "message": "no more", "codex_error_info": "other"}));
    theirs
        .append_event(json!({"type": "task_complete", "turn_id": "c", "last_agent_message": null}));
    eventually("the error is reported", || (turn_counts(&stage, &id) == (3, 3)).then_some(()));
    assert!(end(2).to_string().contains("no more"), "{}", end(2));
}

#[test]
fn huge_rollout_is_adopted_in_constant_memory() {
    let stage = TestEnv::new();
    let theirs = ForeignRollout::start(&stage);
    theirs.start_turn("a");
    let line = format!(
        "{{\"timestamp\":\"T\",\"type\":\"response_item\",\"payload\":{{\"type\":\"message\",\"text\":\"{}\"}}}}\n",
        "words ".repeat(1_000)
    );
    let block = line.repeat(1_000);
    let mut file = OpenOptions::new().append(true).open(&theirs.path).unwrap();
    for _ in 0..(200 << 20) / block.len() + 1 {
        file.write_all(block.as_bytes()).unwrap();
    }
    stage.list_sessions();
    let daemon = stage.home.daemon().pid().unwrap();
    let before = peak_memory_kib(daemon);
    let id = theirs.adopt(&stage);
    stage.wait(&id, "working");
    let took = peak_memory_kib(daemon) - before;
    assert!(took <= 16 << 10, "{took} KiB");
    theirs.end_turn("a");
    stage.wait(&id, "idle");
}

fn peak_memory_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// Starts an external agent, and waits until it has its rollout open. Returns its process and its entry in the
/// list of discovered agents.
fn start_agent(stage: &TestEnv, theirs: &ForeignRollout) -> (Child, Value) {
    let mut command = Command::new("bash");
    let record = text(&theirs.path);
    command.args(["-c", &format!("exec 3>>{record:?}; exec -a codex sleep 600")]);
    let agent = command.env("AI_AGENT", "codex").stdin(Stdio::null()).spawn().unwrap();
    let pid = agent.id();
    let discovered = eventually("it has its record open", || {
        let discovered = stage.home.provost(&["discover", "--json"]).ok().json();
        let agents = discovered["agents"].as_array().unwrap().clone();
        agents.into_iter().find(|one| one["pid"] == pid && one["rollout"] == record)
    });
    (agent, discovered)
}

#[test]
fn agent_is_adopted_once_until_unwatched() {
    let stage = TestEnv::new();
    let theirs = ForeignRollout::start(&stage);
    let (mut agent, began) = start_agent(&stage, &theirs);
    let (pid, record) = (agent.id().to_string(), text(&theirs.path));
    let arguments = [["--pid", pid.as_str()], ["--rollout", &record]];
    assert_eq!(began["thread"], THREAD, "{began:#}");
    // Eight commands run at once, so that the daemon decides at least two of them together.
    let asked: Vec<Child> = (0..8)
        .map(|no| {
            let mut adopt =
                stage.home.command(&["adopt", arguments[no % 2][0], arguments[no % 2][1]]);
            adopt.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let ended: Vec<_> = asked.into_iter().map(|one| one.wait_with_output().unwrap()).collect();
    let codes: Vec<i32> = ended.iter().map(|one| one.status.code().unwrap()).collect();
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == 4).count(), 7, "{codes:?}");
    let [row] = stage.list_sessions().try_into().unwrap();
    let (name, id) = (row["name"].as_str().unwrap(), row["id"].as_str().unwrap());
    let refused = stage.home.provost(&["adopt", "--pid", &pid, "--name", "again"]);
    assert!(refused.assert_code(4).stderr.contains(name), "{refused:#?}");
    stage.home.provost(&["cancel", id, "--because", "enough"]).ok();
    stage.wait_sealed(id);
    stage.home.provost(&["adopt", "--pid", &pid, "--name", "again"]).ok();
    agent.kill().unwrap();
    agent.wait().unwrap();
}

/// A step between the adoption of an agent and its sealed end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdoptionStep {
    KillDaemon,
    StopDaemon,
    EndAgent,
}

/// Adopts an agent, performs these steps in order, and returns the session with its sealed row.
#[track_caller]
fn adopt_then(steps: &[AdoptionStep]) -> (TestEnv, String, Value) {
    let stage = TestEnv::new();
    let theirs = ForeignRollout::start(&stage);
    theirs.start_turn("a");
    let (mut agent, _) = start_agent(&stage, &theirs);
    let pid = agent.id();
    let id = theirs.adopt(&stage);
    stage.wait(&id, "working");
    for step in steps {
        match step {
            AdoptionStep::KillDaemon => drop(stage.home.daemon().kill()),
            AdoptionStep::StopDaemon => stage.home.daemon().stop(),
            AdoptionStep::EndAgent => {
                kill(pid);
                agent.wait().unwrap();
            }
        }
    }
    let row = stage.wait_sealed(&id);
    (stage, id, row)
}

#[test]
fn adopted_agent_ends_once_across_daemon_restarts() {
    use AdoptionStep::{EndAgent, KillDaemon, StopDaemon};
    let orders: [&[AdoptionStep]; 4] =
        [&[EndAgent], &[KillDaemon, EndAgent], &[EndAgent, KillDaemon], &[StopDaemon, EndAgent]];
    for order in orders {
        let (stage, id, row) = adopt_then(order);
        assert_eq!(row["state"], "exited_without_claim", "{order:?}: {row:#}");
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
        for sent in ["message.queued", "message.typed", "stop.requested"] {
            assert_eq!(stage.events_of(&id, sent), Vec::<Value>::new(), "{order:?}");
        }
    }
}
