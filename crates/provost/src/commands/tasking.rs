//! Arguments and helpers shared by all commands about a team.

use std::process::ExitCode;

use clap::Args;
use provost_api::{
    ApiError, Client, Code, MemberRow, StandingTaskRow, TaskHeadRow, TaskMessageRow, TaskRequest,
};
use provost_core::{task::Command, text::shell_word};
use provost_engine::shell::OWN_TASK;
use provost_holder::spec::MARK;
use serde::Deserialize;
use serde_json::Value;

use super::{change::KeyArgs, input};
use crate::{cli::Outcome, context::Context, daemon, error::usage, target, ui};

/// The team, and the member to act as
#[derive(Debug, Args)]
pub(crate) struct OfTask {
    /// Team ID (a unique part is enough) or name [default: the team this agent works for, or the only
    /// open one]
    #[arg(long, value_name = "TASK", value_parser = input::parse_name)]
    task: Option<String>,
    /// Act as this member, with only its rights; an agent always acts as itself
    #[arg(long = "as", value_name = "MEMBER", value_parser = input::parse_name)]
    by: Option<String>,
}

/// A member of a team whose agent is addressed
#[derive(Debug, Args)]
pub(crate) struct MemberArgs {
    /// Member of a team whose agent is addressed
    #[arg(long, value_name = "MEMBER", value_parser = input::parse_name)]
    member: Option<String>,
    #[command(flatten)]
    pub(crate) task: OfTask,
}

impl MemberArgs {
    /// Returns the named member; None if a session is addressed. A team without a member is an error, not ignored.
    pub(crate) fn named(&self) -> Result<Option<&str>, ApiError> {
        match (&self.member, self.task.task.is_some() || self.task.by.is_some()) {
            (None, true) => Err(usage("--task and --as need a member: name it with --member")),
            (member, _) => Ok(member.as_deref()),
        }
    }
}

/// The team as the first argument, and the member to act as
#[derive(Debug, Args)]
pub(crate) struct NamedTask {
    /// Team ID (a unique part is enough) or name [default: the team this agent works for, or the only
    /// open one]
    #[arg(value_name = "TASK", value_parser = input::parse_name)]
    task: Option<String>,
    /// Act as this member, with only its rights; an agent always acts as itself
    #[arg(long = "as", value_name = "MEMBER", value_parser = input::parse_name)]
    by: Option<String>,
}

/// A team, and the member to act as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meant<'a> {
    task: &'a str,
    by: Option<&'a str>,
}

impl OfTask {
    pub(crate) fn meant(&self) -> Meant<'_> {
        Meant { task: self.task.as_deref().unwrap_or(OWN_TASK), by: self.by.as_deref() }
    }

    /// Whether the caller is the operator and names no team.
    pub(crate) fn is_operators(&self, context: &Context) -> bool {
        let agent = context.environment.get(MARK).is_some();
        !agent && self.task.is_none() && self.by.as_deref().is_none_or(|by| by == "operator")
    }

    /// Returns the same options as text, for suggested commands.
    pub(crate) fn words(&self) -> String {
        let given = [("--task", &self.task), ("--as", &self.by)];
        let given = given.into_iter().filter_map(|(flag, name)| Some((flag, name.as_deref()?)));
        given.map(|(flag, name)| format!(" {flag}={}", shell_word(name))).collect()
    }
}

impl NamedTask {
    pub(crate) fn meant(&self) -> Meant<'_> {
        Meant { task: self.task.as_deref().unwrap_or(OWN_TASK), by: self.by.as_deref() }
    }
}

/// The reply with one team.
#[derive(Debug, Deserialize)]
pub(crate) struct TaskReply {
    pub(crate) task: StandingTaskRow,
}

impl<'a> Meant<'a> {
    pub(crate) fn named(task: &'a str) -> Self {
        Meant { task, by: None }
    }

    /// Returns the API path of a resource of the team.
    pub(crate) fn path(&self, what: &str) -> String {
        target::task_action(self.task, what)
    }

    pub(crate) fn by(&self) -> Option<String> {
        self.by.map(str::to_owned)
    }

    /// Reads the team.
    pub(crate) fn find(&self, context: &Context) -> Result<StandingTaskRow, ApiError> {
        let reply: TaskReply = self.get(context, &target::task(self.task))?;
        Ok(reply.task)
    }

    /// Reads a resource of the team. Sends the caller's identity, because an agent's default is its own team.
    pub(crate) fn get<T: serde::de::DeserializeOwned>(
        &self,
        context: &Context,
        path: &str,
    ) -> Result<T, ApiError> {
        let (launch, token) = proof(context);
        let asks = [("as", self.by()), ("launch", launch), ("token", token)];
        client(context)?.get(&target::query(path, &asks))
    }

    /// Sends a command to the team, and returns the reply.
    pub(crate) fn tell(
        &self,
        context: &Context,
        command: &Command,
        key: &str,
    ) -> Result<Value, ApiError> {
        let command = serde_json::to_value(command)
            .map_err(|why| usage(format!("cannot encode the command: {why}")))?;
        let (launch, token) = proof(context);
        let request = TaskRequest { command, by: self.by(), launch, token };
        client(context)?.post(&self.path("do"), &request, key)
    }

    /// Sends a command to the team, and shows its new state in one line.
    pub(crate) fn change(&self, context: &Context, command: &Command, key: &KeyArgs) -> Outcome {
        let reply = self.tell(context, command, &key.get(context))?;
        self.show(context, reply)
    }

    /// Shows the reply to a change: the change, the team's state, and the caller's next commands.
    pub(crate) fn show(&self, context: &Context, reply: Value) -> Outcome {
        show_to(context, self.by, reply)
    }

    /// Returns the options that name the team by its ID, and the same member.
    pub(crate) fn words(&self, id: &str) -> String {
        format!(" --task {}{}", ui::short(id), as_member(self.by))
    }

    /// Returns the command that shows the team to the same member.
    pub(crate) fn show_command(&self, id: &str) -> String {
        format!("provost task show {}{}", ui::short(id), as_member(self.by))
    }
}

/// Returns the ID and token of the launch that this process belongs to, if any.
pub(crate) fn proof(context: &Context) -> (Option<String>, Option<String>) {
    let variable = |name: &str| context.environment.get(name).map(str::to_owned);
    (variable(MARK), variable("PROVOST_TOKEN"))
}

/// Connects to the daemon. An agent does not start one, because it would be the agent's descendant and end with it.
pub(crate) fn client(context: &Context) -> Result<Client, ApiError> {
    match context.environment.get(MARK) {
        Some(_) => daemon::connect_only(&context.trusted_home()?),
        None => context.daemon(),
    }
}

fn show_to(context: &Context, by: Option<&str>, reply: Value) -> Outcome {
    let changed: Changed = serde_json::from_value(reply.clone()).map_err(|why| {
        ApiError::new(Code::Internal, format!("cannot parse the daemon's reply: {why}"))
    })?;
    let own = context.environment.get("PROVOST_SESSION");
    let (next, lines) = match &changed {
        Changed::Message { task, message } => {
            (after_message(task, by), vec![ui::message_changed(task, message)])
        }
        Changed::Task { task } => {
            (next_for(task, by, own), ui::task_changed(context.ui.paint, task, &reply))
        }
    };
    if context.ui.json {
        context.ui.result(reply, &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    context.ui.lines(&lines)?;
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

/// The reply to a change: with a message, it may contain only the head of its team.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Changed {
    Message { task: TaskHeadRow, message: Box<TaskMessageRow> },
    Task { task: Box<StandingTaskRow> },
}

/// Returns the next commands after a message: a member takes its next one, other callers list all of them.
fn after_message(task: &TaskHeadRow, by: Option<&str>) -> Vec<String> {
    let (id, by_whom) = (ui::short(&task.id), as_member(by));
    let then = match by {
        Some(_) => format!("provost inbox next --task {id}{by_whom}"),
        None => format!("provost inbox ls --task {id}"),
    };
    vec![then, format!("provost task show {id}{by_whom}")]
}

/// Returns the next commands for the caller: a member by name, or an agent by its session. Callers that do not manage
/// see only commands they may run.
fn next_for(row: &StandingTaskRow, by: Option<&str>, session: Option<&str>) -> Vec<String> {
    let acts = |member: &&MemberRow| {
        Some(member.name.as_str()) == by
            || (session.is_some() && member.session.as_deref() == session)
    };
    let member = row.members.iter().filter(|member| !member.left).find(acts);
    match member.filter(|member| member.role != "manager" && !row.terminal) {
        None => next_commands(row, by),
        Some(member) => {
            let (id, by) = (ui::short(&row.id), as_member(Some(&member.name)));
            let mut next = vec![format!("provost task show {id}{by}")];
            if !member.communication.can_push {
                next.push(format!("provost inbox next --task {id}{by}"));
            }
            next
        }
    }
}

/// Returns the commands that make sense in a team's current state, for the operator or for a member.
pub(crate) fn next_commands(row: &StandingTaskRow, by: Option<&str>) -> Vec<String> {
    let (id, by) = (ui::short(&row.id), as_member(by));
    let mut next = vec![format!("provost task show {id}{by}")];
    if row.terminal {
        next.push(format!("provost audit {id}"));
        return next;
    }
    if row.members.is_empty() {
        next.push(format!("provost task bind {id} NAME --role worker"));
    } else if row.blockers.is_empty() {
        next.push(match failed_worker(row) {
            Some(session) => format!("provost status {} --why", ui::short(session)),
            None => format!("provost finish {id} --because TEXT{by}"),
        });
    } else {
        let help = row.blockers.iter().find_map(|blocker| blocker.hint.clone());
        next.push(help.unwrap_or_else(|| format!("provost inbox ls --task {id}{by}")));
    }
    next
}

/// Returns the session of a failed worker: then nothing is open, but the team cannot finish either.
fn failed_worker(row: &StandingTaskRow) -> Option<&str> {
    let workers = row.members.iter().filter(|one| one.role == "worker" && !one.left);
    let mut failed = workers.filter(|one| one.state.as_deref() == Some("failed"));
    failed.find_map(|one| one.session.as_deref())
}

/// Returns the option that names the member; empty for the operator. Without it, a user who acts for a member would act
/// as the operator from then on.
fn as_member(by: Option<&str>) -> String {
    by.map(|name| format!(" --as={}", shell_word(name))).unwrap_or_default()
}
