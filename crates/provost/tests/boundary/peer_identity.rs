//! Peer identity: how the daemon and holders identify the process on the other end of a socket.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use provost_testkit::harness::{eventually, read_nonempty, scripted_agent_bin};
use serde_json::{Value, json};

#[path = "../requirements/kit.rs"]
#[expect(dead_code, reason = "a kit shared with another suite")]
mod kit;

use kit::{HANGS, TALKER, TestEnv, is_running, kill, output_of, text};

/// A client in plain Perl, without Provost's code.
///
/// `perl client.pl get SOCKET PATH` prints the status and the body. `line SOCKET LINE` sends a line
/// and prints the first line of the response. `borrow SOCKET PATH DIR` forks a child that connects
/// and exits, writes the child's pid to DIR/pid, and sends its request over that connection once
/// DIR/go exists.
const CLIENT_SCRIPT: &str = r#"
use strict; use Socket; $SIG{PIPE} = 'IGNORE';
my ($how, $socket, $what, $dir) = @ARGV;
sub dial { socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die; $s }
sub reach { my $s = shift; chdir(($socket =~ m{^(.*)/})[0]); my ($name) = $socket =~ m{([^/]+)$};
    connect($s, pack_sockaddr_un($name)) or die "connect: $!" }
sub get { my $s = shift; syswrite($s, "GET $what HTTP/1.1\r\nhost: provost\r\nconnection: close\r\n\r\n");
    my $all = ''; while (sysread($s, my $part, 65536)) { $all .= $part }
    my ($head, $body) = split(/\r\n\r\n/, $all, 2); my $status = (split / /, $head)[1]; "$status $body\n" }
my $s = dial();
if ($how eq 'get') { reach($s); print get($s) }
elsif ($how eq 'line') { reach($s); syswrite($s, "$what\n"); print scalar readline($s) }
else {
    # Connections are accepted in their order: once a later one is answered, this one was. A process that starts
    # within the same tick of 10 ms has the same start time, and the next one to have this pid must not.
    my $pid = fork(); if (!$pid) { reach($s); my $later = dial(); reach($later); get($later);
        select(undef, undef, undef, 0.05); exit 0 }
    waitpid($pid, 0);
    open(my $f, '>', "$dir/pid.new"); print $f $pid; close $f; rename("$dir/pid.new", "$dir/pid");
    select(undef, undef, undef, 0.01) until -e "$dir/go";
    open($f, '>', "$dir/said.new"); print $f get($s); close $f; rename("$dir/said.new", "$dir/said");
}
"#;

/// Writes `client.pl` next to the home and returns its path.
fn write_client(stage: &TestEnv) -> String {
    let path = stage.file("client.pl");
    fs::write(&path, CLIENT_SCRIPT).unwrap();
    path
}

fn daemon_socket(stage: &TestEnv) -> String {
    text(&stage.path().join("daemon.sock"))
}

/// Returns a shell command that asks the daemon whether the caller is the operator and prints the HTTP status first.
fn operator_query(stage: &TestEnv) -> String {
    format!("perl {} get {} /v1/daemon/operator", write_client(stage), daemon_socket(stage))
}

/// Returns a one-line request to a holder, with the id 1.
fn holder_request(op: &Value) -> String {
    json!({"v": 1, "id": 1, "op": op}).to_string()
}

fn holder_socket(stage: &TestEnv, session: &str) -> String {
    text(&stage.path().join(format!("launches/{session}.l1/io.sock")))
}

/// Starts a shell script as an agent.
fn spawn_script(stage: &TestEnv, script: &str) -> String {
    stage.spawn_in(stage.root(), &["--", "sh", "-c", script])
}

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
    let agent = text(&scripted_agent_bin());
    stage.configure(&format!(
        "[agents.asker]\nadapter = \"jsonl\"\ncommand = [{agent:?}, \"sample:asks_question\"]\n"
    ));
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

/// Starts a process with this pid. No other process can get the pid while it lives.
fn spawn_with_pid(wanted: u32) -> Child {
    for _ in 0..2_000 {
        fs::write("/proc/sys/kernel/ns_last_pid", (wanted - 1).to_string()).unwrap();
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        if child.id() == wanted {
            return child;
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    panic!("no process got the pid {wanted}");
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
    let borrow = format!(
        "perl {} borrow {} /v1/daemon/operator {}",
        write_client(&stage),
        daemon_socket(&stage),
        stage.root().display()
    );
    let id = spawn_script(&stage, &borrow);
    let pid = eventually("a child connected and exited", || read_nonempty(stage.file("pid")));
    // A process started by the operator gets the pid of the peer that connected.
    let mut innocent = spawn_with_pid(pid.trim().parse().unwrap());
    fs::write(stage.file("go"), "").unwrap();
    let reply = eventually("the answer", || read_nonempty(stage.file("said")));
    innocent.kill().unwrap();
    innocent.wait().unwrap();
    assert!(reply.starts_with("403 ") && reply.contains("has exited"), "{reply}");
    stage.wait_sealed(&id);
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

/// Runs a shell command to completion in its own session.
fn run_detached(script: &str) {
    let mut command = Command::new("setsid");
    command.args(["sh", "-c", script]).stdin(Stdio::null()).stdout(Stdio::null());
    assert!(command.status().unwrap().success());
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

#[test]
fn orphan_is_operator_without_lost_launch() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario(HANGS, &[]);
    let ended = spawn_script(&stage, "true");
    stage.wait_sealed(&ended);
    run_detached(&format!("({}) & :", waiting_script(&stage, "nohup", &operator_query(&stage))));
    let reply = release_script(&stage, "nohup");
    assert!(reply.starts_with("200 "), "{reply}");
    // The same holds for launches that ended after another daemon took over.
    stage.daemon().kill();
    stage.provost(&["stop", &id]).ok();
    stage.wait_sealed(&id);
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

#[test]
fn f2_16_launch_cannot_read_as_another_member() {
    const PLAN: &str = "first the second caller";
    let stage = TestEnv::new();
    stage.provost(&["team", "new", "limits", "--goal", "limit the callers"]).ok();
    for (name, role) in [("hand", "worker"), ("boss", "manager"), ("eye", "reviewer")] {
        stage.provost(&["team", "bind", "limits", name, "--role", role]).ok();
    }
    let act = |who: &str, words: &[&str]| {
        stage.provost(&[words, &["-t", "limits", "--as", who, "--json"]].concat()).ok().json()
    };
    act("boss", &["team", "contract", "accept", "--revision", "0"]);
    act("hand", &["team", "propose", PLAN]);
    let other = stage.spawn_scenario(HANGS, &[]);
    let get = |query: &str| {
        format!(
            "perl {} get {} '/v1/teams/limits/cycle?as=hand{query}' >> said",
            write_client(&stage),
            daemon_socket(&stage)
        )
    };
    let script = [
        get(""),
        get(&format!("&launch={other}.l1")),
        get(&format!("&launch={other}.l1&token=wrong")),
        format!("env -i PATH=$PATH setsid -w sh -c \"{}\"", get(&format!("&launch={other}.l1"))),
    ];
    let id = spawn_script(&stage, &script.join("\n"));
    stage.wait_sealed(&id);
    let replies = fs::read_to_string(stage.file("said")).unwrap();
    assert_eq!(replies.lines().count(), script.len(), "{replies}");
    assert!(
        !replies.contains(PLAN) && replies.lines().all(|line| !line.starts_with("200")),
        "{replies}"
    );
    // The operator can read as any member.
    let own = stage.provost(&["team", "overview", "limits", "--as", "hand", "--json"]).ok().json();
    assert_eq!(own["cycle"]["proposals"]["worker"]["text"], PLAN);
}

#[test]
fn f2_20_only_operator_sees_variable_names() {
    let mut stage = TestEnv::new();
    stage.home.set_env("VERY_SECRET_NAME", "x");
    let info = format!("perl {} get {} /v1/daemon", write_client(&stage), daemon_socket(&stage));
    let id = spawn_script(&stage, &format!("{info} > said; env > env"));
    stage.wait_sealed(&id);
    let reply = fs::read_to_string(stage.file("said")).unwrap();
    assert!(reply.starts_with("200 ") && !reply.contains("VERY_SECRET_NAME"), "{reply}");
    assert!(stage.daemon().status().unwrap().to_string().contains("VERY_SECRET_NAME"));
    // `XDG_RUNTIME_DIR` leads to the user's message bus, which starts programs outside every holder.
    let given = fs::read_to_string(stage.file("env")).unwrap();
    assert!(given.contains("XDG_CACHE_HOME=") && !given.contains("XDG_RUNTIME_DIR="), "{given}");
}

/// The unprivileged user that tests run as.
const UNPRIVILEGED_UID: u32 = 65534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Changes the owner of a directory and everything below it.
fn chown_all(path: &Path, uid: u32) {
    chown(path, Some(uid), Some(uid)).unwrap();
    if fs::symlink_metadata(path).unwrap().is_dir() {
        fs::read_dir(path).unwrap().flatten().for_each(|entry| chown_all(&entry.path(), uid));
    }
}

/// Returns the same command, run as the unprivileged user. Requires root.
fn as_unprivileged(command: &Command) -> Command {
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    other.arg(command.get_program()).args(command.get_args());
    other.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    other.current_dir(command.get_current_dir().unwrap_or(Path::new("/")));
    other
}

/// Runs Provost as the unprivileged user.
#[track_caller]
fn provost_unprivileged(
    stage: &TestEnv,
    arguments: &[&str],
) -> provost_testkit::harness::ProgramOutput {
    let mut command = stage.command(arguments);
    command.current_dir(stage.root());
    output_of(if is_root() { as_unprivileged(&command) } else { command })
}

/// Waits until a session of the unprivileged user has ended.
fn wait_ended(stage: &TestEnv, id: &str) -> Value {
    eventually("the session ended", || {
        let row = provost_unprivileged(stage, &["status", id, "--json"]).ok().json();
        (row["terminal"] == true).then_some(row)
    })
}

#[test]
fn f2_17_daemon_and_holder_environ_is_hidden() {
    let mut stage = TestEnv::new();
    stage.home.set_env("GH_TOKEN", "sesame");
    let look = "for p in $(head -1 home/ledger/ledger.lock) $PPID; do tr '\\0' '\\n' < /proc/$p/environ; ls -l /proc/$p/fd/; cat /proc/$p/maps; done > seen 2> errors; touch done; sleep 600";
    if is_root() {
        chown_all(stage.root(), UNPRIVILEGED_UID);
    }
    let spawned = provost_unprivileged(&stage, &["spawn", "--json", "--", "sh", "-c", look]);
    let id = spawned.ok().json()["id"].as_str().unwrap().to_owned();
    eventually("the agent has looked", || Path::new(&stage.file("done")).exists().then_some(()));
    let seen = fs::read_to_string(stage.file("seen")).unwrap();
    let errors = fs::read_to_string(stage.file("errors")).unwrap();
    assert!(!seen.contains("sesame") && !seen.contains("daemon.sock"), "{seen}\n{errors}");
    assert_eq!(errors.matches("denied").count(), 6, "{seen}\n{errors}");
    // This protection must not break Provost itself: a killed daemon is replaced, and its launch
    // continues.
    let daemon = provost_unprivileged(&stage, &["daemon", "status", "--json"]).ok().json();
    kill(u32::try_from(daemon["pid"].as_u64().unwrap()).unwrap());
    let row = provost_unprivileged(&stage, &["status", &id, "--json"]).ok().json();
    assert_eq!(row["process"], "alive", "{row}");
    provost_unprivileged(&stage, &["stop", &id]).ok();
    let row = wait_ended(&stage, &id);
    assert!(!row["flags"].to_string().contains("unobserved"), "{row}");
    provost_unprivileged(&stage, &["daemon", "stop"]).ok();
}

#[test]
fn f2_17_agent_killing_its_holder_is_detected() {
    let stage = TestEnv::new();
    if is_root() {
        chown_all(stage.root(), UNPRIVILEGED_UID);
    }
    let id = provost_unprivileged(
        &stage,
        &["spawn", "--json", "--", "sh", "-c", "kill -9 $PPID; sleep 600"],
    );
    let id = id.ok().json()["id"].as_str().unwrap().to_owned();
    let row = wait_ended(&stage, &id);
    assert!(row["flags"].to_string().contains("exit_code_unobserved"), "{row}");
    // A login session that another user created, such as root's sshd, is the operator, even if it
    // is younger than the launch.
    if is_root() {
        let asks = operator_query(&stage);
        let line = format!(
            "setpriv --reuid=65534 --regid=65534 --clear-groups {asks} > login.new; mv login.new login.said"
        );
        fs::write(stage.file("login.sh"), line).unwrap();
        run_detached(&format!("(cd {}; setsid sh login.sh; true) & :", stage.root().display()));
        let reply = eventually("its answer", || read_nonempty(stage.file("login.said")));
        assert!(reply.starts_with("200 "), "{reply}");
    }
    provost_unprivileged(&stage, &["daemon", "stop"]).ok();
}

#[test]
fn f2_20_reads_are_refused_to_other_users() {
    if !is_root() {
        eprintln!("needs root to act as two users: skipped");
        return;
    }
    let stage = TestEnv::new();
    chown_all(stage.root(), UNPRIVILEGED_UID);
    provost_unprivileged(&stage, &["ls"]).ok();
    for path in
        ["/v1/daemon", "/v1/sessions", "/v1/events", "/v1/runs", "/v1/teams", "/v1/search?q=a"]
    {
        let mut socket = UnixStream::connect(daemon_socket(&stage)).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: provost\r\nconnection: close\r\n\r\n");
        socket.write_all(head.as_bytes()).unwrap();
        let mut reply = String::new();
        socket.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 403"), "{path}: {reply}");
        assert!(reply.contains("you are user 0"), "{path}: {reply}");
    }
    provost_unprivileged(&stage, &["daemon", "stop"]).ok();
}

/// Runs Provost with a umask.
#[track_caller]
fn provost_with_umask(
    stage: &TestEnv,
    umask: &str,
    dir: &Path,
    arguments: &[&str],
) -> provost_testkit::harness::ProgramOutput {
    let command = stage.command(arguments);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")]);
    shell.arg(command.get_program()).args(command.get_args()).current_dir(dir);
    shell.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    output_of(shell)
}

/// Collects the files below a directory that other users can access.
fn collect_accessible(dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let (path, about) = (entry.path(), entry.metadata().unwrap());
        // Worktrees belong to the user, not to Provost.
        if ["worktrees", "pool"].iter().any(|name| path.ends_with(name)) {
            continue;
        }
        if !about.is_symlink() && about.mode() & 0o077 != 0 {
            found.push(format!("{:o} {}", about.mode() & 0o7777, path.display()));
        }
        if about.is_dir() {
            collect_accessible(&path, found);
        }
    }
}

#[test]
fn f2_20_own_files_private_work_keeps_umask() {
    let stage = TestEnv::new();
    let repo = stage.repo("work");
    let script = "umask > umask; echo b > b; $PROVOST_BIN report completed";
    let run = |umask: &str| {
        let spawn = [
            "spawn",
            "--json",
            "--worktree",
            "--check",
            "umask > checked",
            "--",
            "sh",
            "-c",
            script,
        ];
        let id = provost_with_umask(&stage, umask, repo.path(), &spawn).ok().json();
        stage.wait_sealed(id["id"].as_str().unwrap())
    };
    let row = run("000");
    assert_eq!(row["state"], "succeeded", "{row}");
    let tree = PathBuf::from(row["cwd"].as_str().unwrap());
    assert_eq!(fs::read_to_string(tree.join("umask")).unwrap().trim(), "0000");
    assert_eq!(fs::metadata(tree.join("b")).unwrap().mode() & 0o777, 0o666);
    let checked_out = fs::read_dir(&tree).unwrap().flatten().find(|entry| {
        entry.file_type().unwrap().is_file()
            && !["umask", "b", "checked"].contains(&entry.file_name().to_str().unwrap())
    });
    let checked_out = checked_out.unwrap().metadata().unwrap();
    assert_eq!(checked_out.mode() & 0o777, 0o666, "git keeps the umask");
    provost_with_umask(&stage, "000", stage.root(), &["ledger", "export", "--to", "exported"]).ok();
    provost_with_umask(&stage, "000", stage.root(), &["ledger", "backup", "--to", "backup"]);
    let mode = |path: &str| fs::metadata(stage.file(path)).unwrap().mode() & 0o777;
    assert_eq!(mode("exported"), 0o600);
    let mut found = Vec::new();
    collect_accessible(&stage.path(), &mut found);
    assert!(found.is_empty(), "{found:#?}");
}
