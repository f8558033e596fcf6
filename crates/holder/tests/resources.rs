//! The cost of an idle holder.

use std::time::Duration;

use provost_holder::wire::HolderOp;

use crate::kit::{
    Launch, in_terminal, pause, proc_value, sh, state, switches_when_idle, voluntary_switches,
};

/// Private memory of an idle holder.
const MAX_PRIVATE_KB: u64 = 2048;

#[test]
fn an_idle_holder_does_not_wake_up() {
    for spec in [sh("sleep 1000"), in_terminal(sh("sleep 1000"))] {
        let launch = Launch::start(spec);
        let mut link = launch.link();
        link.request(HolderOp::Follow).unwrap();
        state(&mut link);
        let before = switches_when_idle(launch.holder_pid());
        pause(Duration::from_secs(2));
        assert_eq!(voluntary_switches(launch.holder_pid()), before);
    }
}

#[test]
fn an_idle_holder_is_small() {
    let script = "seq 1 100000; sleep 1000";
    for spec in [sh(script), in_terminal(sh(script))] {
        let launch = Launch::start(spec);
        launch.wait_for_output("\n100000");
        let mut link = launch.link();
        state(&mut link);
        let value = |name| proc_value(launch.holder_pid(), "smaps_rollup", name);
        let (dirty, clean) = (value("Private_Dirty"), value("Private_Clean"));
        println!("private: {dirty} kB dirty, {clean} kB clean; resident: {} kB", value("Rss"));
        assert!(dirty <= MAX_PRIVATE_KB, "{dirty} kB");
    }
}
