//! What launches and other users can read: replies, environments and files.

use std::{
    fs,
    io::{Read, Write},
    os::unix::{
        fs::{MetadataExt, chown},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::Command,
};

use provost_testkit::env::{HANGS, TestEnv, kill, output_of};
use provost_testkit::harness::{eventually, read_nonempty};
use serde_json::Value;

use super::perl_client::{daemon_socket, operator_query, run_detached, spawn_script, write_client};

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
