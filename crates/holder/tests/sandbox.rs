//! Commands in a sandbox: their records, signals and processes, and how their peers see them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use provost_holder::journal::JournalChannel;
use provost_holder::wire::{HolderOp, SignalName};
use provost_holder::{EndCause, HoldSpec, ProcessEnd};
use provost_sandbox::enter::SandboxOrder;
use provost_sandbox::private_paths::UserDirs;
use provost_sandbox::probe::probe;
use provost_sandbox::{
    NetworkAccess, ProcessLimits, SandboxLevel, SandboxMode, SandboxPlan, SandboxRequest,
};
use provost_sys::origin::{Boundary, ProcessOrigin};
use provost_sys::peer::{PinnedPeer, Pinning};
use provost_sys::register::LaunchRegister;
use provost_sys::stat::ProcStat;
use tempfile::TempDir;

use crate::kit::{Launch, in_terminal, program, sh, signal, until, write};

/// A launch in a sandbox, and its directories.
struct SandboxedLaunch {
    temp: TempDir,
    order: SandboxOrder,
}

/// Returns the directories of a launch, or `None` if this machine has no bubblewrap.
fn prepare(mode: SandboxMode) -> Option<SandboxedLaunch> {
    let found = probe(&"/usr/local/bin:/usr/bin:/bin".into(), Path::new("/")).unwrap();
    let bubblewrap = found.bubblewrap_program()?.to_owned();
    let temp = tempfile::tempdir().unwrap();
    let helper: PathBuf = program().remove(0).into();
    for name in ["work", "tmp"] {
        fs::create_dir(temp.path().join(name)).unwrap();
    }
    let request = SandboxRequest {
        mode,
        network: NetworkAccess::Off,
        directory: temp.path().join("work"),
        worktree: temp.path().join("work"),
        git: None,
        temporary: temp.path().join("tmp"),
        writable: Vec::new(),
        user_writable: Vec::new(),
        readable: vec![helper.clone()],
        hidden: Vec::new(),
        user: UserDirs::default(),
        limits: ProcessLimits::default(),
    };
    let order = SandboxOrder {
        level: SandboxLevel::Full,
        plan: request.resolve().unwrap(),
        bubblewrap: Some(bubblewrap),
        helper: vec![helper, "--sandbox".into()],
        status: temp.path().join("status"),
    };
    Some(SandboxedLaunch { temp, order })
}

impl SandboxedLaunch {
    fn start(self, spec: HoldSpec) -> Launch {
        let dir = self.temp.path().join("launch");
        let cwd = self.order.plan.directory.clone();
        Launch::start_at(self.temp, dir, HoldSpec { cwd, sandbox: Some(self.order), ..spec })
    }

    /// Starts the holder with the command line by which a home recognizes its holders.
    fn start_as_holder(self, spec: HoldSpec) -> Launch {
        let dir = self.temp.path().join("launch");
        let cwd = self.order.plan.directory.clone();
        let key = format!("test-{}", self.temp.path().display());
        let spec = HoldSpec { key: key.clone(), cwd, sandbox: Some(self.order), ..spec };
        let program = [program(), vec!["hold".into()]].concat();
        let started = provost_holder::start(&program, &dir, &spec).unwrap();
        Launch::adopt(self.temp, dir, key, started.holder)
    }
}

fn out(launch: &Launch) -> String {
    String::from_utf8_lossy(&launch.output(JournalChannel::Stdout)).into_owned()
}

/// Returns the living processes below a process.
fn descendants(root: u32) -> Vec<ProcStat> {
    let all: BTreeMap<u32, ProcStat> = ProcStat::all().unwrap();
    let is_below = |stat: &ProcStat| {
        let mut at = stat.ppid;
        while at > 1 && at != root {
            at = all.get(&at).map_or(0, |parent| parent.ppid);
        }
        at == root
    };
    all.values().filter(|stat| stat.is_living() && is_below(stat)).cloned().collect()
}

fn still_alive(stats: &[ProcStat]) -> usize {
    let is_alive = |known: &&ProcStat| {
        let now = ProcStat::read(known.pid).unwrap();
        now.is_some_and(|now| now.start_time == known.start_time && now.is_living())
    };
    stats.iter().filter(is_alive).count()
}

#[test]
fn record_shows_the_command_and_its_exit_code() {
    let Some(prepared) = prepare(SandboxMode::Workspace) else { return };
    let spec = sh("read x; echo got $x; pwd; echo y >/etc/x; exit 7");
    let argv = spec.argv.clone();
    let work = prepared.order.plan.directory.clone();
    let mut launch =
        prepared.start(HoldSpec { stdin: provost_holder::StdinMode::Text("it\n".into()), ..spec });
    let (exit, gone) = launch.wait();
    assert_eq!(exit.end, ProcessEnd::Exited { code: 7 });
    assert!(gone.verified);
    assert_eq!(out(&launch), format!("got it\n{}\n", work.display()));
    let held = fs::read_to_string(launch.dir.join("held.json")).unwrap();
    let held: serde_json::Value = serde_json::from_str(&held).unwrap();
    assert_eq!(held["argv"], serde_json::json!(argv));
}

#[test]
fn sandbox_that_cannot_be_created_is_no_exit() {
    let Some(mut prepared) = prepare(SandboxMode::Workspace) else { return };
    let missing = prepared.temp.path().join("missing");
    prepared.order.plan.frozen.push(missing);
    let mut launch = prepared.start(sh("exit 1"));
    let (exit, _) = launch.wait();
    let ProcessEnd::NotStarted { error } = &exit.end else { panic!("{exit:?}") };
    assert!(error.contains("sandbox could not be created"), "{error}");
    let shown = launch.output(JournalChannel::Stderr);
    assert!(String::from_utf8_lossy(&shown).contains("missing"), "bubblewrap says why");
}

#[test]
fn stopped_command_can_clean_up() {
    let Some(prepared) = prepare(SandboxMode::Workspace) else { return };
    let script = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let mut launch = prepared.start(sh(script));
    launch.wait_for_output("ready");
    launch.link().request(HolderOp::Stop { grace_ms: 30_000 }).unwrap();
    let (exit, gone) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (ProcessEnd::Exited { code: 3 }, EndCause::Stop));
    assert!(gone.verified && out(&launch).contains("bye"));
}

#[test]
fn interrupt_reaches_the_command_in_its_terminal() {
    let Some(prepared) = prepare(SandboxMode::Workspace) else { return };
    let script = "trap 'echo interrupted; exit 4' INT; test -t 0 && echo ready; \
                  while :; do sleep 0.05; done";
    let mut launch = prepared.start(in_terminal(sh(script)));
    launch.wait_for_output("ready");
    // The terminal turns this key into a signal to the foreground group.
    write(&mut launch.link(), "k", b"\x03").unwrap();
    assert_eq!(launch.wait().0.end, ProcessEnd::Exited { code: 4 });
    assert!(out(&launch).contains("interrupted"));
}

#[test]
fn requested_signal_reaches_the_command() {
    let Some(prepared) = prepare(SandboxMode::Workspace) else { return };
    let script = "trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 0.05; done";
    let mut launch = prepared.start(sh(script));
    launch.wait_for_output("ready");
    launch.link().request(HolderOp::Signal { signal: SignalName::Int }).unwrap();
    assert_eq!(launch.wait().0.end, ProcessEnd::Exited { code: 5 });
    assert!(out(&launch).contains("interrupted"));
}

/// A command whose grandchild leaves its session, its parent and its environment.
const RUNAWAY: &str = "(env -i setsid sleep 3600 &); echo ready; exec sleep 3600";

#[test]
fn finding_2_9_killing_the_holder_ends_everything_below_it() {
    for mode in [SandboxMode::Workspace, SandboxMode::Off] {
        let Some(prepared) = prepare(mode) else { return };
        let mut launch = prepared.start(sh(RUNAWAY));
        launch.wait_for_output("ready");
        let mut found = Vec::new();
        // Bubblewrap outside, bubblewrap as process 1, and the two commands.
        until("both commands run", || {
            found = descendants(launch.holder_pid());
            found.len() == 4
        });
        launch.kill_holder();
        until("no process is left", || still_alive(&found) == 0);
    }
}

#[test]
fn without_a_namespace_a_process_outlives_its_holder() {
    let mut launch = Launch::start(sh(RUNAWAY));
    launch.wait_for_output("ready");
    let mut found = Vec::new();
    until("both commands run", || {
        found = descendants(launch.holder_pid());
        found.len() == 2
    });
    launch.kill_holder();
    assert_eq!(still_alive(&found), 2);
    for stat in &found {
        signal(stat.pid, rustix::process::Signal::KILL);
    }
}

#[test]
fn peer_in_a_pid_namespace_belongs_to_its_holder() {
    let Some(prepared) = prepare(SandboxMode::Off) else { return };
    let root = prepared.temp.path().to_owned();
    let path = root.join("peer.sock");
    let listener = UnixListener::bind(&path).unwrap();
    // The process has no mark, and has left the leader's session.
    let script = format!(
        "exec env -i PATH=\"$PATH\" setsid --wait perl -MSocket -e 'socket(S, AF_UNIX, \
         SOCK_STREAM, 0); connect(S, pack_sockaddr_un(\"{}\")) or die; sysread(S, $_, 1)'",
        path.display()
    );
    let mut launch = prepared.start_as_holder(sh(&script));
    let connection = listener.accept().unwrap().0;
    let peer = PinnedPeer::pin(&connection, Pinning::Best).unwrap();
    let boundary = Boundary {
        holder_dirs: vec![root.clone()],
        lock: root.join("lock"),
        register: root.join("register"),
        pinning: Pinning::Best,
    };
    let origin = boundary.identify(&peer, &LaunchRegister::default()).unwrap();
    let ProcessOrigin::Supervised { dir, .. } = origin else { panic!("{origin:?}") };
    assert_eq!(dir, launch.dir);
    // The process exits once the connection is closed.
    drop(connection);
    launch.wait();
}

#[test]
fn sandbox_survives_the_format_of_the_spec() {
    let plan = SandboxPlan::unrestricted("/w".into(), "/t".into());
    let order = SandboxOrder {
        level: SandboxLevel::Full,
        plan,
        bubblewrap: Some("/usr/bin/bwrap".into()),
        helper: vec!["/p".into()],
        status: "/s".into(),
    };
    let spec = HoldSpec { key: "k".into(), sandbox: Some(order), ..sh("true") };
    let text = serde_json::to_vec(&spec).unwrap();
    assert_eq!(HoldSpec::read(text.as_slice()).unwrap(), spec);
}
