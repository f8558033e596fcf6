//! Peer identity: how the daemon and holders identify the process on the other end of a socket.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::Path,
    process::{Child, Command},
};

use provost_testkit::env::{HANGS, TALKER, TestEnv, is_running};
use provost_testkit::harness::{eventually, read_nonempty};
use serde_json::{Value, json};

use super::perl_client::{
    daemon_socket, holder_request, holder_socket, operator_query, spawn_script, write_client,
};

/// An agent that runs until it is stopped and writes every line it receives to `received`.
const LISTENER_SCENARIO: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
repeat = { times = 99, steps = [ { read_line = true }, { append = { path = "received", content = "{{input}}\n" } } ] }
"#;

#[test]
fn f2_6_holder_rejects_other_launches_and_checks() {
    let stage = TestEnv::new();
    stage.configure_talker(LISTENER_SCENARIO, "");
    let victim = stage.spawn_in(stage.root(), &["--agent", TALKER, "work"]);
    stage.wait(&victim, "working");
    let received = || fs::read_to_string(stage.file("received")).unwrap_or_default();
    let before =
        eventually("the instruction arrived", || Some(received()).filter(|it| !it.is_empty()));
    let ops = [
        json!({"write": {"key": "x", "data": "YXBwcm92ZQo=", "secret": false}}),
        json!({"type": {"data": "YXBwcm92ZQo="}}),
        json!("view"),
        json!({"signal": {"signal": "term"}}),
        json!({"limit": {"bytes": 1}}),
        json!({"mask": {"forms": ["YQ=="]}}),
        json!("close_stdin"),
        json!({"stop": {"grace_ms": 0}}),
        json!("ping"),
    ];
    let io = holder_socket(&stage, &victim);
    let script: String = ops
        .iter()
        .map(|op| {
            format!("perl {} line {io} '{}' >> said\n", write_client(&stage), holder_request(op))
        })
        .collect();
    fs::write(stage.file("tries.sh"), script).unwrap();
    // The requests are sent from a launch, and from a check of another session.
    let other = spawn_script(&stage, "sh tries.sh; env -i PATH=$PATH setsid -w sh tries.sh");
    stage.wait_sealed(&other);
    let repo = stage.repo("work");
    let check = format!("cd {} && sh tries.sh", stage.root().display());
    let checked = stage.spawn_scenario_in(
        repo.path(),
        "[[step]]\nwrite = { path = \"b\", content = \"b\" }\n[[step]]\nreport = \"completed\"\n",
        &["--worktree", "--check", &check],
    );
    stage.wait_sealed(&checked);
    let replies = fs::read_to_string(stage.file("said")).unwrap();
    assert_eq!(replies.lines().count(), ops.len() * 3, "{replies}");
    assert!(replies.lines().all(|line| line.contains("forbidden")), "{replies}");
    assert_eq!((received(), stage.status(&victim)["state"].clone()), (before, json!("working")));
}

#[test]
fn f2_6_operator_reads_but_cannot_bypass_ledger() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario(HANGS, &[]);
    stage.pid(&id);
    let mut link = BufReader::new(UnixStream::connect(holder_socket(&stage, &id)).unwrap());
    let mut ask = |op: Value| {
        link.get_mut().write_all(format!("{}\n", holder_request(&op)).as_bytes()).unwrap();
        let mut line = String::new();
        link.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    assert_eq!(ask(json!("ping"))["ok"], true);
    for op in [json!({"stop": {"grace_ms": 0}}), json!({"limit": {"bytes": 1}})] {
        assert_eq!(ask(op)["error"]["code"], "forbidden");
    }
    // A replacement daemon proves itself with the lock it holds.
    stage.daemon().kill();
    stage.provost(&["stop", &id]).ok();
    stage.wait_sealed(&id);
}

#[test]
fn f2_6_answer_key_is_unguessable() {
    let stage = TestEnv::new();
    stage.configure(&stage.sample_agent("asker", "asks_question"));
    let id = stage.spawn_in(stage.root(), &["--agent", "asker", "store it"]);
    stage.wait(&id, "needs_input");
    stage.provost(&["answer", &id, "SQLite"]).ok();
    stage.wait_sealed(&id);
    let journal = fs::read(stage.path().join(format!("launches/{id}.l1/journal"))).unwrap();
    let journal = String::from_utf8_lossy(&journal);
    let keys: Vec<&str> = journal
        .split("{\"key\":\"")
        .skip(1)
        .filter_map(|rest| rest.split_once("\",\"len\":").map(|(key, _)| key))
        .filter(|key| key.starts_with("answer") && !key.contains('"'))
        .collect();
    let is_sealed = |key: &&str| {
        key.rsplit_once('~').is_some_and(|(_, seal)| {
            seal.len() == 32 && seal.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    assert!(!keys.is_empty() && keys.iter().all(is_sealed), "{keys:?}");
    // `logs --raw` shows the key as it is in the ledger.
    let logs = stage.provost(&["logs", &id, "--raw"]);
    assert!(!logs.stdout.contains('~') && !logs.stderr.contains('~'), "{logs:#?}");
}

/// Starts a process with this pid. No other process can get the pid while it lives. `None` if
/// another process got the pid first.
fn spawn_with_pid(wanted: u32) -> Option<Child> {
    while !is_running(wanted) {
        fs::write("/proc/sys/kernel/ns_last_pid", (wanted - 1).to_string()).unwrap();
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        if child.id() == wanted {
            return Some(child);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    None
}

/// The number of pids that are tried, because other processes start at the same time.
const PIDS: u32 = 20;

/// Returns the reply to a peer that has exited, and whose pid a process of the operator got. `None`
/// if another process got the pid.
fn reply_to_reused_pid(stage: &TestEnv, dir: &Path) -> Option<String> {
    fs::create_dir(dir).unwrap();
    let borrow = format!(
        "perl {} borrow {} /v1/daemon/operator {}",
        write_client(stage),
        daemon_socket(stage),
        dir.display()
    );
    let id = spawn_script(stage, &borrow);
    let pid = eventually("a child connected and exited", || read_nonempty(dir.join("pid")));
    let innocent = spawn_with_pid(pid.trim().parse().unwrap());
    fs::write(dir.join("go"), "").unwrap();
    let reply = eventually("the answer", || read_nonempty(dir.join("said")));
    stage.wait_sealed(&id);
    let mut innocent = innocent?;
    innocent.kill().unwrap();
    innocent.wait().unwrap();
    Some(reply)
}

fn assert_reused_pid_rejected(by_start_time: bool) {
    if !rustix::process::geteuid().is_root() {
        // Only root can choose a pid, so only a test run as root covers this.
        return;
    }
    let mut stage = TestEnv::new();
    if by_start_time {
        stage.home.set_env("PROVOST_TEST_PIN_BY_START_TIME", "1");
    }
    let dir = |no: u32| stage.root().join(format!("borrowed-{no}"));
    let reply = (0..PIDS).find_map(|no| reply_to_reused_pid(&stage, &dir(no)));
    let reply = reply.expect("a pid was free");
    assert!(reply.starts_with("403 ") && reply.contains("has exited"), "{reply}");
}

#[test]
fn f2_7_reused_pid_is_rejected_by_pidfd() {
    assert_reused_pid_rejected(false);
}

#[test]
fn f2_7_reused_pid_is_rejected_by_start_time() {
    assert_reused_pid_rejected(true);
}

#[test]
fn f2_7_peers_are_served_without_pidfd() {
    let mut stage = TestEnv::new();
    stage.home.set_env("PROVOST_TEST_PIN_BY_START_TIME", "1");
    let id = spawn_script(&stage, &format!("{} > said; sleep 600", operator_query(&stage)));
    let reply = eventually("the answer", || read_nonempty(stage.file("said")));
    assert!(reply.starts_with("403 "), "{reply}");
    stage.provost(&["stop", &id]).ok();
    stage.wait_sealed(&id);
}

/// A fake git that once leaves a process behind, without its parent or its environment mark. That process calls the
/// daemon after git has exited.
#[test]
fn f2_8c_git_orphan_is_not_operator_and_is_reaped() {
    let mut stage = TestEnv::new();
    let bin = stage.root().join("bin");
    fs::create_dir(&bin).unwrap();
    let usual = "/usr/local/bin:/usr/bin:/bin";
    let orphan = format!(
        "while test \"$(ps -o ppid= -p $$ | tr -d ' ')\" = $1; do sleep 0.05; done\nps -o ppid= -p $$ > parent\nenv > env\n{} > new; mv new said\n",
        operator_query(&stage)
    );
    fs::write(stage.file("orphan.sh"), orphan).unwrap();
    let git = format!(
        "#!/bin/sh\nPATH={usual}; cd {root} || exit\nif grep -q daemon /proc/$PPID/cmdline && mv armed fired 2>/dev/null; then env > marked; setsid env -i PATH={usual} sh -c 'sh orphan.sh $$ & sleep 0.1' & wait; fi\ncd \"$OLDPWD\" && exec git \"$@\"\n",
        root = stage.root().display(),
    );
    fs::write(bin.join("git"), git).unwrap();
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o700)).unwrap();
    stage.home.set_env("PATH", format!("{}:{usual}", bin.display()));
    fs::write(stage.file("armed"), "").unwrap();
    let repo = stage.repo("work");
    let id =
        stage.spawn_scenario_in(repo.path(), "[[step]]\nreport = \"completed\"\n", &["--worktree"]);
    let reply = eventually("the answer", || read_nonempty(stage.file("said")));
    assert!(reply.starts_with("403 "), "{reply}");
    let marked = fs::read_to_string(stage.file("marked")).unwrap();
    assert!(marked.contains("PROVOST_LAUNCH=helper"), "{marked}");
    let parent = fs::read_to_string(stage.file("parent")).unwrap();
    let daemon = stage.daemon().pid().unwrap();
    assert_eq!(parent.trim(), daemon.to_string(), "it is reparented to the daemon");
    eventually("no zombie is left", || zombies_of(daemon).is_empty().then_some(()));
    stage.wait_sealed(&id);
}

fn zombies_of(parent: u32) -> Vec<String> {
    let stats = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        (fields.next()? == "Z" && fields.next()? == parent.to_string()).then_some(stat)
    });
    stats.collect()
}
