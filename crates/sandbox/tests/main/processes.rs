//! Signals, namespaces and limits of the processes in a sandbox.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::Child;

use provost_sandbox::{NetworkAccess, ProcessLimits, SandboxLevel, SandboxMode, SandboxRequest};
use provost_sys::stat::ProcStat;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::kit::{GENEROUS_LIMITS, TestEnv, TestUser, everywhere, has_full, users};

/// Starts a script as the leader of a process group and waits for its first line.
fn start(env: &TestEnv, request: &SandboxRequest, level: SandboxLevel, script: &str) -> Child {
    let mut command = env.command(request, level, &["/bin/sh", "-c", script]);
    let mut child = command.process_group(0).spawn().unwrap();
    let mut line = String::new();
    // One byte at a time, so that later output stays in the pipe.
    let out = child.stdout.as_mut().unwrap();
    BufReader::with_capacity(1, out).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

fn rest_of(child: &mut Child) -> String {
    let mut text = String::new();
    child.stdout.as_mut().unwrap().read_to_string(&mut text).unwrap();
    text
}

#[test]
fn command_can_react_to_a_signal_to_its_group() {
    everywhere(|env, level| {
        let script = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
        let mut child = start(env, &env.request(), level, script);
        kill_process_group(Pid::from_child(&child), Signal::TERM).unwrap();
        assert_eq!(rest_of(&mut child), "bye\n", "{level}");
        assert_eq!(child.wait().unwrap().code(), Some(3), "{level}");
    });
}

#[test]
fn signal_ends_a_command_that_does_not_handle_it() {
    everywhere(|env, level| {
        let mut child = start(env, &env.request(), level, "echo ready; exec sleep 60");
        kill_process_group(Pid::from_child(&child), Signal::TERM).unwrap();
        rest_of(&mut child);
        let status = child.wait().unwrap();
        // Bubblewrap reports a signal as a shell does.
        let expected = if level == SandboxLevel::Full { Some(128 + 15) } else { None };
        assert_eq!(status.code(), expected, "{level} {status}");
    });
}

/// Returns a script whose grandchild leaves its parent, its session and its environment, and holds
/// the standard output until it ends.
const RUNAWAY: &str = "env -i setsid sh -c 'sleep 60 & exec sleep 60' & echo ready; exec sleep 60";

#[test]
fn end_of_the_outer_process_ends_everything_inside() {
    if !has_full() {
        return;
    }
    for user in users() {
        for mode in [SandboxMode::Workspace, SandboxMode::Off] {
            let env = TestEnv::new(user);
            let request = SandboxRequest { mode, ..env.request() };
            let mut child = start(&env, &request, SandboxLevel::Full, RUNAWAY);
            child.kill().unwrap();
            // The end of the output shows that no process is left that could have written to it.
            assert_eq!(rest_of(&mut child), "", "{user:?} {mode}");
            child.wait().unwrap();
        }
    }
}

#[test]
fn finding_2_9_killed_parent_takes_the_orphans_with_it() {
    if !has_full() {
        return;
    }
    let env = TestEnv::new(TestUser::Current);
    let request = SandboxRequest { mode: SandboxMode::Off, ..env.request() };
    let inner = env.command(&request, SandboxLevel::Full, &["/bin/sh", "-c", RUNAWAY]);
    let program = inner.get_program().to_owned();
    let args: Vec<_> = inner.get_args().map(ToOwned::to_owned).collect();
    // The shell takes the role of the holder. It waits, so that it stays the parent.
    let mut holder = std::process::Command::new("/bin/sh");
    holder.args(["-c", "\"$@\"; exit 0", "holder"]).arg(program).args(args);
    for (name, value) in inner.get_envs() {
        holder.env(name, value.unwrap_or_default());
    }
    let mut holder = holder.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::with_capacity(1, holder.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    kill_process(Pid::from_child(&holder), Signal::KILL).unwrap();
    holder.wait().unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "all processes have ended");
}

#[test]
fn processes_outside_are_invisible_and_cannot_be_signalled() {
    everywhere(|env, level| {
        let mut victim = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = victim.id();
        let parent = std::process::id();
        let script = format!(
            "test -e /proc/{parent}/stat && echo visible; cat /proc/{pid}/environ >/dev/null \
             && echo readable; perl -e 'print kill(9, {pid}) ? \"killed\" : \"safe\"'"
        );
        let run = env.run(&env.request(), level, &script);
        let stat = ProcStat::read(pid).unwrap();
        victim.kill().unwrap();
        victim.wait().unwrap();
        assert!(stat.is_some_and(|stat| stat.is_living()), "{level} {run:?}");
        assert!(!run.stdout.contains("readable"), "{level} {run:?}");
        assert_eq!(run.stdout.contains("visible"), level == SandboxLevel::Files, "{run:?}");
    });
}

#[test]
fn command_is_not_process_one_and_orphans_are_reaped() {
    if !has_full() {
        return;
    }
    for mode in [SandboxMode::Workspace, SandboxMode::Off] {
        let env = TestEnv::new(TestUser::Current);
        let request = SandboxRequest { mode, ..env.request() };
        let script = "echo $$; (sh -c 'sh -c \"exit 0\" &') ; n=1; i=0; \
                      while [ $n != 0 ] && [ $((i += 1)) -lt 100 ]; do sleep 0.1; \
                      n=$(cat /proc/[0-9]*/stat | grep -c ') Z '); done; echo $n";
        let run = env.run(&request, SandboxLevel::Full, script);
        let lines: Vec<&str> = run.stdout.lines().collect();
        let [pid, zombies] = lines[..] else { panic!("{run:?}") };
        assert!(pid.parse::<u32>().unwrap() > 1 && zombies == "0", "{mode} {run:?}");
    }
}

#[test]
fn open_files_are_limited_and_the_limit_cannot_be_raised() {
    everywhere(|env, level| {
        let limits = ProcessLimits { open_files: 64, ..GENEROUS_LIMITS };
        let request = SandboxRequest { limits, ..env.request() };
        let run = env.run(&request, level, "ulimit -Hn; ulimit -n 4096 && echo raised; ulimit -n");
        assert_eq!(run.stdout, "64\n64\n", "{level} {run:?}");
    });
}

#[test]
fn fork_bomb_is_limited() {
    // The kernel does not limit root.
    let user = *users().last().unwrap();
    for level in crate::kit::levels() {
        let env = TestEnv::new(user);
        let limits = ProcessLimits { processes: 40, ..GENEROUS_LIMITS };
        let request = SandboxRequest { limits, ..env.request() };
        let script = "perl -e '$| = 1; for (1..200) { my $p = fork; if (!defined $p) { last } \
                      if (!$p) { sleep 60 } $n++ } print \"$n\\n\"; kill 9, -getpgrp'";
        let mut command = env.command(&request, level, &["/bin/sh", "-c", script]);
        let output = command.process_group(0).output().unwrap();
        let forked: u32 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
        assert!((1..200).contains(&forked), "{level} {forked} {output:?}");
    }
}

#[test]
fn no_descriptor_of_the_sandbox_is_inherited() {
    everywhere(|env, level| {
        let request = SandboxRequest { network: NetworkAccess::On, ..env.request() };
        let run = env.run(&request, level, "ls /proc/self/fd");
        // The runner of the tests may leave descriptors to every program.
        let outside = std::process::Command::new("ls").arg("/proc/self/fd").output().unwrap();
        assert_eq!(run.stdout, String::from_utf8_lossy(&outside.stdout), "{level} {run:?}");
    });
}
