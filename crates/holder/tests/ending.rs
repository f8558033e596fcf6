//! Ending: in order, the whole tree, verified; also without the holder.

use std::fs;
use std::time::Duration;

use provost_holder::client::{Error, Started};
use provost_holder::journal::Channel;
use provost_holder::tree::Traces;
use provost_holder::wire::{Op, Sent};
use provost_holder::{End, EndedBy, HoldSpec, Identity, Looked, look, start, tree};

use crate::kit::{Launch, program, sh, until};

#[test]
fn the_time_limit_ends_the_command() {
    let mut launch = Launch::start(HoldSpec { time_limit_ms: Some(50), ..sh("sleep 1000") });
    let (exit, gone) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (End::Signalled { signal: 15 }, EndedBy::TimeLimit));
    assert_eq!((gone.leftovers, gone.verified), (0, true));
}

#[test]
fn a_stopped_command_keeps_its_own_exit_code() {
    let mut launch =
        Launch::start(sh("trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done"));
    launch.wait_for_output("ready");
    launch.link().request(Op::Stop { grace_ms: 30_000 }).unwrap();
    let (exit, _) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (End::Exited { code: 3 }, EndedBy::Stop));
}

#[test]
fn who_ignores_term_is_killed_after_the_grace() {
    let mut launch = Launch::start(sh("trap '' TERM; echo ready; while :; do sleep 1000; done"));
    launch.wait_for_output("ready");
    launch.link().request(Op::Stop { grace_ms: 50 }).unwrap();
    let (exit, gone) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (End::Signalled { signal: 9 }, EndedBy::Stop));
    assert!(gone.verified);
    assert_eq!(gone.leftovers, 1, "the sleep inherited the ignored TERM");
}

#[test]
fn a_second_stop_hurries_the_first() {
    let mut launch = Launch::start(sh("trap '' TERM; echo ready; while :; do sleep 1000; done"));
    launch.wait_for_output("ready");
    let mut link = launch.link();
    link.request(Op::Stop { grace_ms: 3_600_000 }).unwrap();
    link.request(Op::Stop { grace_ms: 0 }).unwrap();
    assert_eq!(launch.wait().0.end, End::Signalled { signal: 9 });
}

#[test]
fn a_second_stop_sends_term_again() {
    let script = "trap 'count=x$count; echo $count; test $count = xx && exit 8' TERM; echo ready; while :; do sleep 0.01; done";
    let mut launch = Launch::start(sh(script));
    launch.wait_for_output("ready");
    let mut link = launch.link();
    link.request(Op::Stop { grace_ms: 3_600_000 }).unwrap();
    launch.wait_for_output("x");
    link.request(Op::Stop { grace_ms: 3_600_000 }).unwrap();
    assert_eq!(launch.wait().0.end, End::Exited { code: 8 });
}

#[test]
fn a_process_that_was_stopped_by_a_signal_is_ended_too() {
    let mut launch = Launch::start(sh("kill -STOP $$"));
    let child = launch.held().child;
    until("it is stopped", || {
        fs::read_to_string(format!("/proc/{}/stat", child.pid)).unwrap().contains(") T ")
    });
    launch.link().request(Op::Stop { grace_ms: 30_000 }).unwrap();
    assert_eq!(launch.wait().0.end, End::Signalled { signal: 15 });
}

#[test]
fn an_interrupt_reaches_the_group_and_ends_nothing_else() {
    let mut launch =
        Launch::start(sh("trap 'exit 5' INT; echo ready; while :; do sleep 0.01; done"));
    launch.wait_for_output("ready");
    launch.link().request(Op::Signal { signal: Sent::Int }).unwrap();
    let (exit, _) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (End::Exited { code: 5 }, EndedBy::Itself));
}

#[test]
fn grandchildren_in_sessions_of_their_own_are_ended() {
    let script =
        "setsid sleep 1000 & (setsid sh -c 'sleep 1000 & setsid sleep 1000' &); echo ready; wait";
    let mut launch = Launch::start(sh(script));
    launch.wait_for_output("ready");
    let tree = tree_of(&launch, 5);
    launch.link().request(Op::Stop { grace_ms: 5000 }).unwrap();
    let (exit, gone) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (End::Signalled { signal: 15 }, EndedBy::Stop));
    assert!(gone.verified);
    assert_all_gone(&tree);
}

#[test]
fn term_reaches_those_outside_the_group_too() {
    let outside = "trap 'echo heard; exit' TERM; echo ready; while :; do sleep 0.01; done";
    let mut launch = Launch::start(sh(&format!("setsid sh -c \"{outside}\" & wait")));
    launch.wait_for_output("ready");
    launch.link().request(Op::Stop { grace_ms: 30_000 }).unwrap();
    assert_eq!(launch.wait().1.leftovers, 0, "none had to be killed");
    assert_eq!(launch.output(Channel::Stdout), b"ready\nheard\n");
}

#[test]
fn whoever_outlives_the_leader_is_ended() {
    let script = "(trap '' TERM; setsid sh -c 'while :; do sleep 1000; done' > /dev/null 2>&1 &) ; exec > /dev/null 2>&1; setsid sleep 1000 & exit 0";
    let mut launch = Launch::start(HoldSpec { grace_ms: 50, ..sh(script) });
    let (exit, gone) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (End::Exited { code: 0 }, EndedBy::Itself));
    assert!(gone.verified && gone.leftovers >= 2, "{gone:?}");
    assert_eq!(tree::survivors(&launch.key).unwrap(), []);
}

#[test]
fn a_tree_that_keeps_forking_is_ended() {
    let script = "trap '' TERM; f() { sh -c 'trap \"\" TERM; sleep 0.05; sleep 1000 & sleep 1000' & }; echo ready; while :; do f; sleep 0.02; done";
    let mut launch = Launch::start(sh(script));
    launch.wait_for_output("ready");
    tree_of(&launch, 6);
    launch.link().request(Op::Stop { grace_ms: 100 }).unwrap();
    let (_, gone) = launch.wait();
    assert!(gone.verified && gone.leftovers > 0, "{gone:?}");
    assert_eq!(tree::survivors(&launch.key).unwrap(), []);
}

#[test]
fn the_survivors_of_a_killed_holder_are_found_and_ended() {
    let script = "trap '' TERM; setsid sh -c 'env -i sleep 1000 & wait' & echo ready; wait";
    let mut launch = Launch::start(sh(script));
    let bystander = Launch::start(sh("sleep 1000"));
    launch.wait_for_output("ready");
    tree_of(&launch, 3);
    launch.kill_holder();
    assert!(matches!(look(&launch.dir).unwrap(), Looked::HolderDied { .. }));
    let survivors = tree::survivors(&launch.key).unwrap();
    assert_eq!(survivors.len(), 3, "with the one that cleaned its environment");
    let ended = tree::end_survivors(&launch.key, Duration::from_millis(100)).unwrap();
    assert!(ended.verified());
    assert_eq!(ended.found, 3);
    assert_all_gone(&survivors);
    assert!(bystander.held().child.is_alive().unwrap());
}

#[test]
fn a_launch_is_ended_by_its_traces_though_its_directory_is_gone_and_its_holder_stopped() {
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
            Traces { holder: Some(held.holder.clone()), ..Traces::of(&launch.key) }
        } else {
            Traces { holder_line: line, ..Traces::of(&launch.key) }
        };
        let ended = tree::end_all(&traces, Duration::ZERO).unwrap();
        assert!(ended.verified() && ended.found >= 2, "{ended:?}");
        assert_all_gone(&[held.holder, held.child]);
        launch.wait_for_holder();
    }
    assert!(bystander.held().child.is_alive().unwrap());
}

#[test]
fn a_stopped_holder_is_woken() {
    let launch = Launch::start(sh("sleep 1000"));
    stop(launch.holder_pid());
    tree::wake(&launch.held().holder).unwrap();
    launch.link().request(Op::Ping).unwrap();
}

#[test]
fn a_start_does_not_wait_for_a_holder_that_its_command_stopped() {
    let temp = tempfile::tempdir().unwrap();
    let (dir, key) = (temp.path().join("launch"), format!("test-{}", temp.path().display()));
    let spec = HoldSpec { key: key.clone(), ..sh("while :; do kill -STOP $PPID; done") };
    match start(&program(), &dir, &spec) {
        Err(Error::Silent { holder }) | Ok(Started { holder }) => {
            drop(Launch::adopt(temp, dir, key, holder));
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn ending_survivors_that_are_not_there_finds_none() {
    let ended = tree::end_survivors("nobody has this mark", Duration::from_secs(30)).unwrap();
    assert_eq!((ended.found, ended.verified()), (0, true));
}

/// Waits until the marked tree has at least `count` processes.
fn tree_of(launch: &Launch, count: usize) -> Vec<Identity> {
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

fn assert_all_gone(tree: &[Identity]) {
    for process in tree {
        assert!(!process.is_alive().unwrap(), "{process:?}");
    }
}
