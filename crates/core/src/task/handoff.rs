//! What is handed to whoever opens a member elsewhere, and what wakes those whom Provost cannot wake.

use serde::{Deserialize, Serialize};

use super::{
    command_line::{Caller, Commands},
    member::{Labels, Member, Role},
    prompts::{Via, contract},
    state::Task,
};
use crate::text::{in_quotes, named};

/// How far apart heartbeats are.
pub const HEARTBEAT_MINUTES: u32 = 2;

/// All that a member needs to begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handoff {
    /// The task's id and its name.
    pub task: String,
    pub name: String,
    pub member: String,
    pub role: Role,
    pub via: Via,
    pub labels: Labels,
    /// What the member is told, whole.
    pub prompt: String,
    pub receive_command: String,
    /// What it is woken with where an application can wake it; none if Provost gives it turns itself.
    pub heartbeat: Option<Beat>,
}

/// What wakes members whom Provost cannot give a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    pub applies_when: String,
    pub interval_minutes: u32,
    pub note: String,
    pub teardown: Teardown,
    pub manager: Option<Beat>,
    pub worker: Option<Beat>,
    /// Further members, in the order in which they came.
    pub others: Vec<Beat>,
}

/// Who takes heartbeats away, and when.
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

/// Gives what a member is handed; none if nobody of that name is bound.
pub fn handoff(task: &Task, member: &str, caller: &Caller) -> Option<Handoff> {
    let member = task.member(member)?;
    let commands = Commands { caller, task, by: Some(&member.name) };
    let via = Via::of(member);
    let heartbeat = match member.receives().is_pushed() {
        true => None,
        false => Some(beat(task, member, caller)),
    };
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

/// Gives the heartbeats of a task; none if Provost wakes all its members itself.
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
        applies_when: "a member is opened in an application that can wake a thread at intervals; \
                       Provost gives no turns to it"
            .to_owned(),
        interval_minutes: HEARTBEAT_MINUTES,
        note: "A heartbeat wakes and says nothing else: it is no receipt, and an empty answer to it is no news. \
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
        rule: "only after a finish that was granted, or after the task was cancelled or failed; \
               never on an idle poll, never by a worker"
            .to_owned(),
        finish_command: Commands { caller, task, by: manager }.finish().to_string(),
    }
}

fn beat(task: &Task, member: &Member, caller: &Caller) -> Beat {
    let commands = Commands { caller, task, by: Some(&member.name) };
    let receive_command = commands.receive().to_string();
    let prompt = format!(
        "Heartbeat for {} ({}) of the task {}. Run\n\n    {receive_command}\n\n{} If it answers \
         {{\"item\":null}}, end this turn: say that nothing is there, change nothing, and tear nothing \
         down. If the task is over, say so and {}.",
        named(&member.name),
        member.role.word(),
        in_quotes(&task.spec.name),
        handles(member.role),
        match member.role {
            Role::Manager => "take the heartbeats away".to_owned(),
            Role::Worker | Role::Reviewer => {
                format!("leave the heartbeat to {}", teardown(task, caller).owner)
            }
        },
    );
    Beat { member: member.name.clone(), receive_command, prompt }
}

/// Says what a member does with a message.
fn handles(role: Role) -> &'static str {
    match role {
        Role::Worker => {
            "If it gives you a message, do that one thing, answer with changed files, exact \
             commands, evidence, residual risk and one next task, and acknowledge it."
        }
        Role::Manager => {
            "If it gives you a message, verify what it claims, give exactly one next task or \
             record your move, and acknowledge it."
        }
        Role::Reviewer => {
            "If it gives you a message, try to disprove what it names, tell what you tried \
             and what came of it, and acknowledge it."
        }
    }
}

impl Handoff {
    /// Gives the text to be pasted to whoever becomes the member.
    pub fn text(&self) -> &str {
        &self.prompt
    }
}

impl Heartbeat {
    /// Gives it for people to read.
    pub fn text(&self) -> String {
        let mut lines = vec![
            format!(
                "Heartbeat, every {} minutes, where {}.",
                self.interval_minutes, self.applies_when
            ),
            self.note.clone(),
            format!("Taken away by {}: {}.", self.teardown.owner, self.teardown.rule),
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
