//! The prompt with which a member is opened outside of Provost, and the heartbeats that wake such members.

use serde::{Deserialize, Serialize};

use super::{
    command_line::{ProvostInvocation, TeamCommandLines},
    member::{MemberLabels, MemberRole, TeamMember},
    prompts::{MemberMode, contract},
    state::Team,
};
use crate::text::{quote_name, quote_text};

/// The interval between heartbeats.
pub const HEARTBEAT_MINUTES: u32 = 2;

/// Everything that a member needs in order to begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handoff {
    /// The id and name of the team.
    pub team: String,
    pub name: String,
    pub member: String,
    pub role: MemberRole,
    pub via: MemberMode,
    pub labels: MemberLabels,
    /// The complete prompt for the member.
    pub prompt: String,
    pub receive_command: String,
    /// The heartbeat for applications that can wake the member. None if Provost itself starts the
    /// member's turns.
    pub heartbeat: Option<MemberHeartbeat>,
}

/// The heartbeats for members whose turns Provost cannot start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamHeartbeats {
    pub applies_when: String,
    pub interval_minutes: u32,
    pub note: String,
    pub teardown: HeartbeatTeardown,
    pub manager: Option<MemberHeartbeat>,
    pub worker: Option<MemberHeartbeat>,
    /// All other members, in the order in which they were bound.
    pub others: Vec<MemberHeartbeat>,
}

/// The condition under which the heartbeats are removed, and the actor that removes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatTeardown {
    pub owner: String,
    pub rule: String,
    pub finish_command: String,
}

/// The heartbeat of one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberHeartbeat {
    pub member: String,
    pub receive_command: String,
    pub prompt: String,
}

/// Returns a member's handoff. None if no member with this name is bound.
pub fn build_handoff(task: &Team, member: &str, caller: &ProvostInvocation) -> Option<Handoff> {
    let member = task.member(member)?;
    let commands = TeamCommandLines { caller, task, member: Some(&member.name) };
    let via = MemberMode::for_member(member);
    let heartbeat =
        (!member.receive_mode().is_pushed()).then(|| member_heartbeat(task, member, caller));
    Some(Handoff {
        team: task.id.to_string(),
        name: task.spec.name.clone(),
        member: member.name.clone(),
        role: member.role,
        via,
        labels: member.labels.clone(),
        prompt: contract(&commands, member, via),
        receive_command: commands.receive().to_string(),
        heartbeat,
    })
}

/// Returns the heartbeats of a team. None if Provost wakes all members itself.
pub fn build_heartbeats(task: &Team, caller: &ProvostInvocation) -> Option<TeamHeartbeats> {
    let bound = task.members.iter().filter(|member| member.is_bound());
    let mut pulled: Vec<&TeamMember> =
        bound.filter(|member| !member.receive_mode().is_pushed()).collect();
    if pulled.is_empty() {
        return None;
    }
    let mut first = |role: MemberRole| {
        let at = pulled.iter().position(|member| member.role == role)?;
        Some(member_heartbeat(task, pulled.remove(at), caller))
    };
    let (manager, worker) = (first(MemberRole::Manager), first(MemberRole::Worker));
    Some(TeamHeartbeats {
        applies_when: "a member runs in an application that can wake a thread at intervals; \
                       Provost cannot start its turns"
            .to_owned(),
        interval_minutes: HEARTBEAT_MINUTES,
        note: "A heartbeat only wakes the member: it is not a receipt, and an empty poll is not news. \
               Without a heartbeat, the member is \"manual poll only\"."
            .to_owned(),
        teardown: teardown(task, caller),
        manager,
        worker,
        others: pulled.into_iter().map(|member| member_heartbeat(task, member, caller)).collect(),
    })
}

fn teardown(task: &Team, caller: &ProvostInvocation) -> HeartbeatTeardown {
    let manager = task.bound(MemberRole::Manager).next().map(|manager| manager.name.as_str());
    let owner = manager.map_or_else(
        || "the operator".to_owned(),
        |name| format!("{} (manager) or the operator", quote_name(name)),
    );
    HeartbeatTeardown {
        owner,
        rule: "only after a granted finish, or after the team was cancelled or failed; \
               never on an idle poll, never by a worker"
            .to_owned(),
        finish_command: TeamCommandLines { caller, task, member: manager }.finish().to_string(),
    }
}

fn member_heartbeat(
    task: &Team,
    member: &TeamMember,
    caller: &ProvostInvocation,
) -> MemberHeartbeat {
    let commands = TeamCommandLines { caller, task, member: Some(&member.name) };
    let receive_command = commands.receive().to_string();
    let prompt = format!(
        "Heartbeat for {} ({}) of the team {}. Run\n\n    {receive_command}\n\n{} If it answers \
         {{\"item\":null}}, end this turn: say that there is no message, change nothing, and tear nothing \
         down. If the team is over, say so and {}.",
        quote_name(&member.name),
        member.role.as_str(),
        quote_text(&task.spec.name),
        message_handling(member.role),
        match member.role {
            MemberRole::Manager => "remove the heartbeats".to_owned(),
            MemberRole::Worker | MemberRole::Reviewer => {
                format!("leave the heartbeat to {}", teardown(task, caller).owner)
            }
        },
    );
    MemberHeartbeat { member: member.name.clone(), receive_command, prompt }
}

/// Describes how a member with this role handles a message.
fn message_handling(role: MemberRole) -> &'static str {
    match role {
        MemberRole::Worker => {
            "If it returns a message, do that one thing, answer with changed files, exact \
             commands, evidence, residual risk and one next task, and acknowledge it."
        }
        MemberRole::Manager => {
            "If it returns a message, verify what it claims, give exactly one next task or \
             record your move, and acknowledge it."
        }
        MemberRole::Reviewer => {
            "If it returns a message, try to disprove what it describes, report what you tried \
             and the result, and acknowledge it."
        }
    }
}

impl Handoff {
    /// Returns the prompt to paste into the member's conversation.
    pub fn text(&self) -> &str {
        &self.prompt
    }
}

impl TeamHeartbeats {
    /// Formats the heartbeats for users to read.
    pub fn text(&self) -> String {
        let mut lines = vec![
            format!(
                "Heartbeat, every {} minutes, if {}.",
                self.interval_minutes, self.applies_when
            ),
            self.note.clone(),
            format!("Removed by {}: {}.", self.teardown.owner, self.teardown.rule),
            format!("  {}", self.teardown.finish_command),
        ];
        for beat in self.manager.iter().chain(&self.worker).chain(&self.others) {
            lines.push(String::new());
            lines.push(format!("For {}:", quote_name(&beat.member)));
            lines.extend(beat.prompt.lines().map(|line| format!("  {line}").trim_end().to_owned()));
        }
        lines.join("\n")
    }
}
