//! Projections of a member's handoff and of a team's heartbeats.

use provost_api::{HandoffRow, HeartbeatRow, MemberHeartbeatRow, TeardownRow};
use provost_core::team::{
    Handoff, HeartbeatTeardown, MemberHeartbeat, ProvostInvocation, Team, TeamHeartbeats,
};

/// Builds the handoff for a member. `None` if no member with this name is bound.
pub fn handoff(task: &Team, member: &str, caller: &ProvostInvocation) -> Option<HandoffRow> {
    provost_core::team::build_handoff(task, member, caller).map(handoff_row)
}

/// Builds the heartbeats for a team. `None` if Provost wakes all members itself.
pub fn heartbeat(task: &Team, caller: &ProvostInvocation) -> Option<HeartbeatRow> {
    provost_core::team::build_heartbeats(task, caller).map(heartbeat_row)
}

fn handoff_row(handoff: Handoff) -> HandoffRow {
    let Handoff { team: task, name, member, role, via, labels, prompt, receive_command, heartbeat } =
        handoff;
    HandoffRow {
        team: task,
        name,
        member,
        role: role.as_str().to_owned(),
        via: via.as_str().to_owned(),
        thread: labels.thread,
        title: labels.title,
        prompt,
        receive_command,
        heartbeat: heartbeat.map(beat),
    }
}

fn heartbeat_row(heartbeat: TeamHeartbeats) -> HeartbeatRow {
    let TeamHeartbeats { applies_when, interval_minutes, note, teardown, manager, worker, others } =
        heartbeat;
    let HeartbeatTeardown { owner, rule, finish_command } = teardown;
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

fn beat(beat: MemberHeartbeat) -> MemberHeartbeatRow {
    let MemberHeartbeat { member, receive_command, prompt } = beat;
    MemberHeartbeatRow { member, receive_command, prompt }
}
