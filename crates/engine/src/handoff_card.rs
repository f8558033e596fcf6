//! Projections of a member's hand-off and a team's heartbeats.

use provost_api::{BeatRow, HandoffRow, HeartbeatRow, TeardownRow};
use provost_core::task::{Beat, Caller, Handoff, Heartbeat, Task, Teardown};

/// Builds the hand-off of a member. `None` if no member of that name is bound.
pub fn handoff(task: &Task, member: &str, caller: &Caller) -> Option<HandoffRow> {
    provost_core::task::handoff(task, member, caller).map(handoff_row)
}

/// Builds the heartbeats of a team. `None` if Provost wakes all its members itself.
pub fn heartbeat(task: &Task, caller: &Caller) -> Option<HeartbeatRow> {
    provost_core::task::heartbeat(task, caller).map(heartbeat_row)
}

fn handoff_row(handoff: Handoff) -> HandoffRow {
    let Handoff { task, name, member, role, via, labels, prompt, receive_command, heartbeat } =
        handoff;
    HandoffRow {
        task,
        name,
        member,
        role: role.word().to_owned(),
        via: via.word().to_owned(),
        thread: labels.thread,
        title: labels.title,
        prompt,
        receive_command,
        heartbeat: heartbeat.map(beat),
    }
}

fn heartbeat_row(heartbeat: Heartbeat) -> HeartbeatRow {
    let Heartbeat { applies_when, interval_minutes, note, teardown, manager, worker, others } =
        heartbeat;
    let Teardown { owner, rule, finish_command } = teardown;
    HeartbeatRow {
        applies_when,
        interval_minutes,
        note,
        teardown: TeardownRow { owner, rule, finish_command },
        manager: manager.map(beat),
        worker: worker.map(beat),
        others: others.into_iter().map(beat).collect(),
    }
}

fn beat(beat: Beat) -> BeatRow {
    let Beat { member, receive_command, prompt } = beat;
    BeatRow { member, receive_command, prompt }
}
