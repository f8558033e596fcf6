//! The prompt for opening a member outside of Provost, and the heartbeats that wake such members.

use serde::{Deserialize, Serialize};

use super::{
    command_line::{Caller, Commands},
    member::{Labels, Member, Role},
    prompts::{Via, contract},
    state::Task,
};
use crate::text::{in_quotes, named};

/// Interval of heartbeats.
pub const HEARTBEAT_MINUTES: u32 = 2;

/// Everything a member needs to begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handoff {
    /// The team's id and its name.
    pub task: String,
    pub name: String,
    pub member: String,
    pub role: Role,
    pub via: Via,
    pub labels: Labels,
    /// The complete prompt for the member.
    pub prompt: String,
    pub receive_command: String,
    /// The heartbeat for applications that can wake the member; none if Provost gives it turns
    /// itself.
    pub heartbeat: Option<Beat>,
}

/// The heartbeats for members that Provost cannot give a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    pub applies_when: String,
    pub interval_minutes: u32,
    pub note: String,
    pub teardown: Teardown,
    pub manager: Option<Beat>,
    pub worker: Option<Beat>,
    /// Further members, in the order in which they were bound.
    pub others: Vec<Beat>,
}

/// Who removes heartbeats, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Teardown {
    pub owner: String,
    pub rule: String,
    pub finish_command: String,
}

/// The heartbeat of one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    pub member: String,
    pub receive_command: String,
    pub prompt: String,
}

/// Returns a member's handoff; none if no member of that name is bound.
pub fn handoff(task: &Task, member: &str, caller: &Caller) -> Option<Handoff> {
    let member = task.member(member)?;
    let commands = Commands { caller, task, by: Some(&member.name) };
    let via = Via::of(member);
    let heartbeat = (!member.receives().is_pushed()).then(|| beat(task, member, caller));
    Some(Handoff {
        task: task.id.to_string(),
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

/// Returns the heartbeats of a team; none if Provost wakes all its members itself.
pub fn heartbeat(task: &Task, caller: &Caller) -> Option<Heartbeat> {
    let bound = task.members.iter().filter(|member| member.is_bound());
    let mut pulled: Vec<&Member> = bound.filter(|member| !member.receives().is_pushed()).collect();
    if pulled.is_empty() {
        return None;
    }
    let mut first = |role: Role| {
        let at = pulled.iter().position(|member| member.role == role)?;
        Some(beat(task, pulled.remove(at), caller))
    };
    let (manager, worker) = (first(Role::Manager), first(Role::Worker));
    Some(Heartbeat {
        applies_when: "a member runs in an application that can wake a thread at intervals; \
                       Provost gives it no turns"
            .to_owned(),
        interval_minutes: HEARTBEAT_MINUTES,
        note: "A heartbeat only wakes the member: it is not a receipt, and an empty poll is not news. \
               Without one the member is \"manual poll only\"."
            .to_owned(),
        teardown: teardown(task, caller),
        manager,
        worker,
        others: pulled.into_iter().map(|member| beat(task, member, caller)).collect(),
    })
}

fn teardown(task: &Task, caller: &Caller) -> Teardown {
    let manager = task.bound(Role::Manager).next().map(|manager| manager.name.as_str());
    let owner = manager.map_or_else(
        || "the operator".to_owned(),
        |name| format!("{} (manager) or the operator", named(name)),
    );
    Teardown {
        owner,
        rule: "only after a granted finish, or after the team was cancelled or failed; \
               never on an idle poll, never by a worker"
            .to_owned(),
        finish_command: Commands { caller, task, by: manager }.finish().to_string(),
    }
}

fn beat(task: &Task, member: &Member, caller: &Caller) -> Beat {
    let commands = Commands { caller, task, by: Some(&member.name) };
    let receive_command = commands.receive().to_string();
    let prompt = format!(
        "Heartbeat for {} ({}) of the team {}. Run\n\n    {receive_command}\n\n{} If it answers \
         {{\"item\":null}}, end this turn: say that there is no message, change nothing, and tear nothing \
         down. If the team is over, say so and {}.",
        named(&member.name),
        member.role.word(),
        in_quotes(&task.spec.name),
        handles(member.role),
        match member.role {
            Role::Manager => "remove the heartbeats".to_owned(),
            Role::Worker | Role::Reviewer => {
                format!("leave the heartbeat to {}", teardown(task, caller).owner)
            }
        },
    );
    Beat { member: member.name.clone(), receive_command, prompt }
}

/// Describes how a role handles a message.
fn handles(role: Role) -> &'static str {
    match role {
        Role::Worker => {
            "If it returns a message, do that one thing, answer with changed files, exact \
             commands, evidence, residual risk and one next task, and acknowledge it."
        }
        Role::Manager => {
            "If it returns a message, verify what it claims, give exactly one next task or \
             record your move, and acknowledge it."
        }
        Role::Reviewer => {
            "If it returns a message, try to disprove what it names, report what you tried \
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

impl Heartbeat {
    /// Formats the heartbeats for reading.
    pub fn text(&self) -> String {
        let mut lines = vec![
            format!(
                "Heartbeat, every {} minutes, where {}.",
                self.interval_minutes, self.applies_when
            ),
            self.note.clone(),
            format!("Removed by {}: {}.", self.teardown.owner, self.teardown.rule),
            format!("  {}", self.teardown.finish_command),
        ];
        for beat in self.manager.iter().chain(&self.worker).chain(&self.others) {
            lines.push(String::new());
            lines.push(format!("For {}:", named(&beat.member)));
            lines.extend(beat.prompt.lines().map(|line| format!("  {line}").trim_end().to_owned()));
        }
        lines.join("\n")
    }
}
