//! Ending: in order, the whole tree, verified; also without the holder.

use std::fs;
use std::time::Duration;

use provost_holder::client::{Error, StartedHolder};
use provost_holder::journal::JournalChannel;
use provost_holder::tree::LaunchTraces;
use provost_holder::wire::{HolderOp, SignalName};
use provost_holder::{
    EndCause, HoldSpec, LaunchState, ProcessEnd, ProcessInstance, inspect, start, tree,
};

use crate::kit::{Launch, program, sh, until};

#[test]
fn time_limit_ends_the_command() {
    let mut launch = Launch::start(HoldSpec { time_limit_ms: Some(50), ..sh("sleep 1000") });
    let (exit, gone) = launch.wait();
    assert_eq!(
        (exit.end, exit.ended_by),
        (ProcessEnd::Signalled { signal: 15 }, EndCause::TimeLimit)
    );
    assert_eq!((gone.leftovers, gone.verified), (0, true));
}

#[test]
fn stopped_command_keeps_its_exit_code() {
    let mut launch =
        Launch::start(sh("trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done"));
    launch.wait_for_output("ready");
    launch.link().request(HolderOp::Stop { grace_ms: 30_000 }).unwrap();
    let (exit, _) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (ProcessEnd::Exited { code: 3 }, EndCause::Stop));
}

#[test]
fn process_ignoring_term_is_killed_after_grace() {
    let mut launch = Launch::start(sh("trap '' TERM; echo ready; while :; do sleep 1000; done"));
    launch.wait_for_output("ready");
    launch.link().request(HolderOp::Stop { grace_ms: 50 }).unwrap();
    let (exit, gone) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (ProcessEnd::Signalled { signal: 9 }, EndCause::Stop));
    assert!(gone.verified);
    assert_eq!(gone.leftovers, 1, "the sleep inherited the ignored TERM");
}

#[test]
fn second_stop_speeds_up_the_first() {
    let mut launch = Launch::start(sh("trap '' TERM; echo ready; while :; do sleep 1000; done"));
    launch.wait_for_output("ready");
    let mut link = launch.link();
    link.request(HolderOp::Stop { grace_ms: 3_600_000 }).unwrap();
    link.request(HolderOp::Stop { grace_ms: 0 }).unwrap();
    assert_eq!(launch.wait().0.end, ProcessEnd::Signalled { signal: 9 });
}

#[test]
fn a_second_stop_sends_term_again() {
    let script = "trap 'count=x$count; echo $count; test $count = xx && exit 8' TERM; echo ready; while :; do sleep 0.05; done";
    let mut launch = Launch::start(sh(script));
    launch.wait_for_output("ready");
    let mut link = launch.link();
    link.request(HolderOp::Stop { grace_ms: 3_600_000 }).unwrap();
    launch.wait_for_output("x");
    link.request(HolderOp::Stop { grace_ms: 3_600_000 }).unwrap();
    assert_eq!(launch.wait().0.end, ProcessEnd::Exited { code: 8 });
}

#[test]
fn suspended_process_is_ended() {
    let mut launch = Launch::start(sh("kill -STOP $$"));
    let child = launch.held().child;
    until("it is stopped", || {
        fs::read_to_string(format!("/proc/{}/stat", child.pid)).unwrap().contains(") T ")
    });
    launch.link().request(HolderOp::Stop { grace_ms: 30_000 }).unwrap();
    assert_eq!(launch.wait().0.end, ProcessEnd::Signalled { signal: 15 });
}

#[test]
fn interrupt_reaches_only_the_group() {
    let mut launch =
        Launch::start(sh("trap 'exit 5' INT; echo ready; while :; do sleep 0.05; done"));
    launch.wait_for_output("ready");
    launch.link().request(HolderOp::Signal { signal: SignalName::Int }).unwrap();
    let (exit, _) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (ProcessEnd::Exited { code: 5 }, EndCause::Itself));
}

#[test]
fn grandchildren_in_own_sessions_are_ended() {
    let script =
        "setsid sleep 1000 & (setsid sh -c 'sleep 1000 & setsid sleep 1000' &); echo ready; wait";
    let mut launch = Launch::start(sh(script));
    launch.wait_for_output("ready");
    let tree = tree_of(&launch, 5);
    launch.link().request(HolderOp::Stop { grace_ms: 5000 }).unwrap();
    let (exit, gone) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (ProcessEnd::Signalled { signal: 15 }, EndCause::Stop));
    assert!(gone.verified);
    assert_all_gone(&tree);
}

#[test]
fn term_reaches_processes_outside_the_group() {
    let outside = "trap 'echo heard; exit' TERM; echo ready; while :; do sleep 0.05; done";
    let mut launch = Launch::start(sh(&format!("setsid sh -c \"{outside}\" & wait")));
    launch.wait_for_output("ready");
    launch.link().request(HolderOp::Stop { grace_ms: 30_000 }).unwrap();
    assert_eq!(launch.wait().1.leftovers, 0, "none had to be killed");
    assert_eq!(launch.output(JournalChannel::Stdout), b"ready\nheard\n");
}

#[test]
fn processes_outliving_the_leader_are_ended() {
    let script = "(trap '' TERM; setsid sh -c 'while :; do sleep 1000; done' > /dev/null 2>&1 &) ; exec > /dev/null 2>&1; setsid sleep 1000 & exit 0";
    let mut launch = Launch::start(HoldSpec { grace_ms: 50, ..sh(script) });
    let (exit, gone) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (ProcessEnd::Exited { code: 0 }, EndCause::Itself));
    assert!(gone.verified && gone.leftovers >= 2, "{gone:?}");
    assert_eq!(tree::survivors(&launch.key).unwrap(), []);
}

#[test]
fn forking_tree_is_ended() {
    let script = "trap '' TERM; f() { sh -c 'trap \"\" TERM; sleep 0.05; sleep 1000 & sleep 1000' & }; echo ready; while :; do f; sleep 0.02; done";
    let mut launch = Launch::start(sh(script));
    launch.wait_for_output("ready");
    tree_of(&launch, 6);
    launch.link().request(HolderOp::Stop { grace_ms: 100 }).unwrap();
    let (_, gone) = launch.wait();
    assert!(gone.verified && gone.leftovers > 0, "{gone:?}");
    assert_eq!(tree::survivors(&launch.key).unwrap(), []);
}

#[test]
fn survivors_of_killed_holder_are_ended() {
    let script = "trap '' TERM; setsid sh -c 'env -i sleep 1000 & wait' & echo ready; wait";
    let mut launch = Launch::start(sh(script));
    let bystander = Launch::start(sh("sleep 1000"));
    launch.wait_for_output("ready");
    tree_of(&launch, 3);
    launch.kill_holder();
    assert!(matches!(inspect(&launch.dir).unwrap(), LaunchState::HolderDied { .. }));
    let survivors = tree::survivors(&launch.key).unwrap();
    assert_eq!(survivors.len(), 3, "with the one that cleaned its environment");
    let ended = tree::end_survivors(&launch.key, Duration::from_millis(100)).unwrap();
    assert!(ended.verified());
    assert_eq!(ended.found, 3);
    assert_all_gone(&survivors);
    assert!(bystander.held().child.is_alive().unwrap());
}

#[test]
fn launch_without_directory_is_ended_by_traces() {
    let script =
        "trap '' TERM; env -i setsid sh -c 'sleep 1000' & echo ready; exec env -i sleep 1000";
    let bystander = Launch::start(sh("sleep 1000"));
    for known in [true, false] {
        let mut launch = Launch::start(sh(script));
        launch.wait_for_output("ready");
        let held = launch.held();
        stop(launch.holder_pid());
        fs::remove_dir_all(&launch.dir).unwrap();
        // None of them carries the mark any more: they are found through their holder, and the
        // holder through its record or its command line.
        until("all have cleaned their environment", || {
            tree::survivors(&launch.key).unwrap().is_empty()
        });
        let line = vec![launch.dir.clone().into_os_string()];
        let traces = if known {
            LaunchTraces {
                holder: Some(held.holder.clone()),
                ..LaunchTraces::with_mark(&launch.key)
            }
        } else {
            LaunchTraces { holder_line: line, ..LaunchTraces::with_mark(&launch.key) }
        };
        let ended = tree::end_all(&traces, Duration::ZERO).unwrap();
        assert!(ended.verified() && ended.found >= 2, "{ended:?}");
        assert_all_gone(&[held.holder, held.child]);
        launch.wait_for_holder();
    }
    assert!(bystander.held().child.is_alive().unwrap());
}

#[test]
fn stopped_holder_is_resumed() {
    let launch = Launch::start(sh("sleep 1000"));
    stop(launch.holder_pid());
    tree::resume_process(&launch.held().holder).unwrap();
    launch.link().request(HolderOp::Ping).unwrap();
}

#[test]
fn start_does_not_wait_for_stopped_holder() {
    let temp = tempfile::tempdir().unwrap();
    let (dir, key) = (temp.path().join("launch"), format!("test-{}", temp.path().display()));
    let spec = HoldSpec { key: key.clone(), ..sh("while :; do kill -STOP $PPID; done") };
    match start(&program(), &dir, &spec) {
        Err(Error::AnswerTimeout { holder }) | Ok(StartedHolder { holder }) => {
            drop(Launch::adopt(temp, dir, key, holder));
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn ending_absent_survivors_finds_none() {
    let ended = tree::end_survivors("nobody has this mark", Duration::from_secs(30)).unwrap();
    assert_eq!((ended.found, ended.verified()), (0, true));
}

/// Waits until the marked tree has at least `count` processes.
fn tree_of(launch: &Launch, count: usize) -> Vec<ProcessInstance> {
    let mut tree = Vec::new();
    until("the tree has grown", || {
        tree = tree::survivors(&launch.key).unwrap();
        tree.len() >= count
    });
    tree
}

/// Stops a process, and waits until it is stopped.
fn stop(pid: u32) {
    let raw = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(raw, rustix::process::Signal::STOP).unwrap();
    until("it is stopped", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
    });
}

fn assert_all_gone(tree: &[ProcessInstance]) {
    for process in tree {
        assert!(!process.is_alive().unwrap(), "{process:?}");
    }
}
