//! Processes that lost their holder or their parent: which of them count as the operator.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use provost_testkit::env::{HANGS, TestEnv, is_running, kill, output_of, text};
use provost_testkit::harness::{eventually, read_nonempty};
use serde_json::Value;

use super::perl_client::{daemon_socket, operator_query, run_detached, spawn_script, write_client};

/// Spawns an agent that leaves its holder and drops its environment mark. It runs `first`, such as killing the daemon,
/// and then kills the holder. It calls the daemon whenever `ask` exists and ends once `end` exists.
fn spawn_escaper(stage: &TestEnv, first: &str) -> String {
    let script = format!(
        "trap '' TERM HUP INT\nwhile ! test -e go; do sleep 0.05; done\n{first}kill -9 $1\nwhile ! test -e end; do if mv ask asked 2>/dev/null; then {} > new 2>&1; mv new said; fi; sleep 0.05; done\n",
        operator_query(stage)
    );
    fs::write(stage.file("escape.sh"), script).unwrap();
    let start = "env -i PATH=$PATH setsid sh escape.sh $PPID & sleep 600";
    let id = spawn_script(stage, start);
    stage.wait_state(&id, |row| row["launches"][0]["phase"] == "running");
    id
}

/// Returns the daemon's current answer to the escaped process.
fn ask_escaped(stage: &TestEnv) -> String {
    fs::remove_file(stage.file("said")).ok();
    fs::write(stage.file("ask"), "").unwrap();
    eventually("the escaped process asks", || read_nonempty(stage.file("said")))
}

fn ask_as_operator(stage: &TestEnv) -> String {
    let mut command = Command::new("perl");
    command.args([&write_client(stage), "get", &daemon_socket(stage), "/v1/daemon/operator"]);
    output_of(command).stdout
}

#[test]
fn f2_9_orphan_of_killed_holder_is_not_operator() {
    let stage = TestEnv::new();
    let id = spawn_escaper(&stage, "");
    fs::write(stage.file("go"), "").unwrap();
    stage.wait_sealed(&id);
    assert!(ask_escaped(&stage).starts_with("403 "), "it is a descendant of the daemon");
    // The process is reparented when the daemon exits. The next daemon knows which launches lost their holders.
    for killed in [false, true] {
        if killed {
            stage.daemon().kill();
        } else {
            stage.daemon().stop();
        }
        stage.status(&id);
        let reply = ask_escaped(&stage);
        assert!(reply.starts_with("409 ") && reply.contains("from a terminal"), "{reply}");
        assert!(ask_as_operator(&stage).starts_with("200 "), "the test is older than the launch");
    }
    fs::write(stage.file("end"), "").unwrap();
}

#[test]
fn f2_9_orphan_that_killed_daemon_is_not_operator() {
    let stage = TestEnv::new();
    let id = spawn_escaper(&stage, "kill -9 $(head -1 home/ledger/ledger.lock)\n");
    fs::write(stage.file("go"), "").unwrap();
    let holder = stage.path().join(format!("launches/{id}.l1/holder.json"));
    let holder: Value = serde_json::from_slice(&fs::read(holder).unwrap()).unwrap();
    let pid = u32::try_from(holder["holder"]["pid"].as_u64().unwrap()).unwrap();
    eventually("the holder is killed", || (!is_running(pid)).then_some(()));
    stage.wait_sealed(&id);
    assert!(ask_escaped(&stage).starts_with("409 "));
    fs::write(stage.file("end"), "").unwrap();
}

/// Returns a shell prefix that runs a command with exactly the environment of the harness, so
/// without a mark.
fn clean_environment(stage: &TestEnv) -> String {
    let command = stage.command::<&str>(&[]);
    let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let set = set.map(|(name, value)| format!("{}='{}'", name.display(), value.display()));
    format!("env -i {}", set.collect::<Vec<_>>().join(" "))
}

#[test]
fn f2_9_orphan_cannot_start_daemon() {
    let stage = TestEnv::new();
    let program = text(Path::new(stage.command::<&str>(&[]).get_program()));
    let clean = clean_environment(&stage);
    // Appends the exit code and the output. An accepted daemon would run until the time limit.
    let attempt = |name: &str, what: &str| {
        format!(
            "timeout 10 {what} > {name}.new 2>&1; echo \"exit $?\" >> {name}.new; mv {name}.new {name}\n"
        )
    };
    let script = format!(
        "trap '' TERM HUP INT\nkill -9 $(head -1 home/ledger/ledger.lock)\n{}kill -9 $1\nwhile ! test -e orphaned; do sleep 0.05; done\n{}{}{}",
        attempt("below", &format!("{clean} {program} daemon run")),
        attempt("marked", &format!("{clean} PROVOST_LAUNCH=$2 {program} daemon run")),
        attempt("orphan", &format!("{clean} {program} daemon run")),
        attempt("command", &format!("{clean} {program} ls")),
    );
    fs::write(stage.file("escape.sh"), script).unwrap();
    let start = "while ! test -e go; do sleep 0.05; done; env -i PATH=$PATH setsid sh escape.sh $PPID $PROVOST_LAUNCH & sleep 600";
    let id = spawn_script(&stage, start);
    stage.wait_state(&id, |row| row["launches"][0]["phase"] == "running");
    let holder = stage.path().join(format!("launches/{id}.l1/holder.json"));
    let holder: Value = serde_json::from_slice(&fs::read(holder).unwrap()).unwrap();
    let pid = u32::try_from(holder["holder"]["pid"].as_u64().unwrap()).unwrap();
    fs::write(stage.file("go"), "").unwrap();
    let below = eventually("the agent has tried", || read_nonempty(stage.file("below")));
    eventually("the holder is killed", || (!is_running(pid)).then_some(()));
    fs::write(stage.file("orphaned"), "").unwrap();
    let said = |name| eventually("the orphan has tried", || read_nonempty(stage.file(name)));
    for said in [below, said("marked")] {
        assert!(said.contains("exit 4") && said.contains("only the operator"), "{said}");
    }
    for said in [said("orphan"), said("command")] {
        assert!(said.contains("exit 4") && said.contains("cannot start the daemon"), "{said}");
        assert!(said.contains("from a terminal"), "{said}");
    }
    // The test is older than the launch, so its commands start a daemon.
    stage.wait_sealed(&id);
}

#[test]
fn operator_starts_daemon_with_lost_launch() {
    let stage = TestEnv::new();
    let program = text(Path::new(stage.command::<&str>(&[]).get_program()));
    let list = format!("{} {program} ls", clean_environment(&stage));
    // Cron is older than every launch and starts new processes.
    let cron = waiting_script(&stage, "cron", &format!("setsid sh -c \"{list}; true\""));
    run_detached(&format!("({cron}) & :"));
    eventually("the script runs", || read_nonempty(stage.file("cron.pid")));
    create_lost_launch(&stage);
    stage.daemon().stop();
    let said = release_script(&stage, "cron");
    assert!(!said.contains("error") && stage.daemon().pid().is_some(), "{said}");
    // A script that outlived its shell and is younger than the launch looks like an agent.
    stage.daemon().stop();
    run_detached(&format!("({}) & :", waiting_script(&stage, "nohup", &list)));
    let said = release_script(&stage, "nohup");
    assert!(said.contains("cannot start the daemon"), "{said}");
    assert!(stage.daemon().pid().is_none(), "{said}");
}

/// Writes a script that waits for `NAME.go` and then runs a command. Returns the shell line that starts it.
fn waiting_script(stage: &TestEnv, name: &str, what: &str) -> String {
    let script = format!(
        "echo $$ > {name}.pid\nwhile ! test -e {name}.go; do sleep 0.05; done\n{what} > {name}.new 2>&1; mv {name}.new {name}.said\n"
    );
    fs::write(stage.file(&format!("{name}.sh")), script).unwrap();
    format!("cd {}; exec sh {name}.sh", stage.root().display())
}

fn release_script(stage: &TestEnv, name: &str) -> String {
    fs::write(stage.file(&format!("{name}.go")), "").unwrap();
    eventually("its answer", || read_nonempty(stage.file(&format!("{name}.said"))))
}

/// Creates a launch without a holder, so that the operator's identity has to be proved.
fn create_lost_launch(stage: &TestEnv) {
    let id = spawn_script(stage, "kill -9 $PPID; sleep 600");
    stage.wait_sealed(&id);
}

#[test]
fn cron_and_scripts_are_operator_with_lost_launch() {
    let stage = TestEnv::new();
    // A script that starts the daemon itself and then runs commands.
    let program = text(Path::new(stage.command::<&str>(&[]).get_program()));
    let script = waiting_script(&stage, "script", &operator_query(&stage));
    let script = script.replace("exec sh", &format!("{program} daemon run > ready & sh"));
    // Cron and a service manager are older than every launch and start new processes.
    let cron =
        waiting_script(&stage, "cron", &format!("setsid sh -c '{}; true'", operator_query(&stage)));
    run_detached(&format!("({cron}) & :"));
    let mut running = Command::new("setsid")
        .args(["sh", "-c", &script])
        .envs(
            stage.command::<&str>(&[]).get_envs().filter_map(|(name, value)| Some((name, value?))),
        )
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    eventually("its daemon answers", || read_nonempty(stage.file("ready")));
    create_lost_launch(&stage);
    for name in ["cron", "script"] {
        let reply = release_script(&stage, name);
        assert!(reply.starts_with("200 "), "{name}: {reply}");
    }
    // A process that outlived its shell and is younger than the launch looks like an agent.
    run_detached(&format!("({}) & :", waiting_script(&stage, "nohup", &operator_query(&stage))));
    let reply = release_script(&stage, "nohup");
    assert!(reply.starts_with("409 ") && reply.contains("from a terminal"), "{reply}");
    stage.daemon().stop();
    running.wait().unwrap();
}

/// Waits until the daemon has seen the end of a session's holder. The outcome may be sealed before.
/// In between, the launch counts as one that lost its holder.
fn wait_unregistered(stage: &TestEnv, id: &str) {
    eventually("the launch is not registered anymore", || {
        let register = fs::read_to_string(stage.path().join("holders.json")).unwrap();
        if register.contains(id) { Err(register) } else { Ok(()) }
    });
}

#[test]
fn orphan_is_operator_without_lost_launch() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario(HANGS, &[]);
    let ended = spawn_script(&stage, "true");
    stage.wait_sealed(&ended);
    wait_unregistered(&stage, &ended);
    run_detached(&format!("({}) & :", waiting_script(&stage, "nohup", &operator_query(&stage))));
    let reply = release_script(&stage, "nohup");
    assert!(reply.starts_with("200 "), "{reply}");
    // The same holds for launches that ended after another daemon took over.
    stage.daemon().kill();
    stage.provost(&["stop", &id]).ok();
    wait_unregistered(&stage, &id);
    run_detached(&format!("({}) & :", waiting_script(&stage, "again", &operator_query(&stage))));
    let reply = release_script(&stage, "again");
    assert!(reply.starts_with("200 "), "{reply}");
}

#[test]
fn unit_in_its_own_cgroup_is_operator() {
    let group = PathBuf::from(format!("/sys/fs/cgroup/unified/pv-{}", std::process::id()));
    let group = if Path::new("/sys/fs/cgroup/unified").exists() {
        group
    } else {
        PathBuf::from(format!("/sys/fs/cgroup/pv-{}", std::process::id()))
    };
    if fs::create_dir(&group).is_err() {
        eprintln!("cannot create a control group: skipped");
        return;
    }
    let stage = TestEnv::new();
    create_lost_launch(&stage);
    let unit = waiting_script(&stage, "unit", &operator_query(&stage));
    run_detached(&format!("(echo 0 > {}/cgroup.procs; {unit}) & :", group.display()));
    let reply = release_script(&stage, "unit");
    eventually("the control group is empty", || fs::remove_dir(&group).is_ok().then_some(()));
    assert!(reply.starts_with("200 "), "{reply}");
}

/// Home, daemon and launches run in a PID namespace; the operator enters it as `docker exec` does.
#[test]
fn operator_may_enter_pid_namespace() {
    let stage = TestEnv::new();
    let environment: Vec<_> = stage
        .command::<&str>(&[])
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    let program = text(Path::new(stage.command::<&str>(&[]).get_program()));
    let inside = format!(
        "{program} spawn -- sh -c 'kill -9 $PPID; sleep 600'; until {program} ls --all --json | grep -q exit_code_unobserved; do sleep 0.05; done; touch inside; sleep 600"
    );
    let begun = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", &inside])
        .envs(environment)
        .current_dir(stage.root())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut container = begun.unwrap();
    let first = || {
        let children = format!("/proc/{0}/task/{0}/children", container.id());
        fs::read_to_string(children).ok()?.split_whitespace().next()?.parse::<u32>().ok()
    };
    let Some(init) = (0..200).find_map(|_| {
        Command::new("sleep").arg("0.01").status().unwrap();
        first()
    }) else {
        container.wait().unwrap();
        eprintln!("cannot create a PID namespace: skipped");
        return;
    };
    eventually("its launch lost its holder", || {
        Path::new(&stage.file("inside")).exists().then_some(())
    });
    let mut command = Command::new("nsenter");
    command.args(["-t", &init.to_string(), "-p", "-m", "sh", "-c", &operator_query(&stage)]);
    let reply = output_of(command).stdout;
    kill(init);
    container.wait().unwrap();
    assert!(reply.starts_with("200 "), "{reply}");
}
