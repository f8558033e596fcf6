//! Agents that Provost did not start, and waiting for sessions.

use crate::{agents::ASKER, recorder::Recorder};

#[test]
fn discover_and_adopt_are_recorded() {
    let mut terminal = Recorder::new();
    terminal.configure(&[], "");
    terminal.record(
        "discover",
        "discover extra
        discover --limit 3
        discover --all --all",
    );
    terminal.record(
        "adopt",
        "adopt
        adopt --pid 999999999
        adopt --pid me
        adopt --rollout missing.jsonl
        adopt --thread nothing
        adopt --tmux 3",
    );
    terminal.finish();
}

#[test]
fn monitor_is_recorded() {
    let mut terminal = Recorder::new();
    terminal.configure(&[("asker", ASKER)], "");
    terminal.open("good", "spawn --name good -- true");
    terminal.open("bad", "spawn --name bad -- sh -c 'exit 3'");
    terminal.open("asks", "spawn --name asks --agent asker 'Store the records.'");
    for name in ["good", "bad"] {
        terminal.home.wait_sealed(name);
    }
    terminal.home.wait("asks", "needs_input");
    terminal.record(
        "monitor",
        "=| monitor good
        monitor good bad
        monitor good bad --json
        monitor asks
        monitor asks --until failed --timeout 0s
        monitor good --compat story-automator
        monitor nothing
        monitor
        monitor good --timeout soon
        monitor good --until finished
        monitor good --workflow nothing",
    );
    terminal.finish();
}
