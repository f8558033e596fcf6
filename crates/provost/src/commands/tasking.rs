//! What all commands have in common that are about a task that stands alone.

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

/// Which task is meant, and as whom something is done to it
#[derive(Debug, Args)]
pub(crate) struct OfTask {
    /// The task: its id, the beginning or end of it, or its name. Without this the one that this agent works for, or
    /// the only one that is open
    #[arg(long, value_name = "TASK", value_parser = input::parse_name)]
    task: Option<String>,
    /// Act as this member, with its rights and no more. An agent is always who it is
    #[arg(long = "as", value_name = "MEMBER", value_parser = input::parse_name)]
    by: Option<String>,
}

/// A member of a task, whose agent is told something
#[derive(Debug, Args)]
pub(crate) struct MemberArgs {
    /// The member of a task whose agent is meant
    #[arg(long, value_name = "MEMBER", value_parser = input::parse_name)]
    member: Option<String>,
    #[command(flatten)]
    pub(crate) task: OfTask,
}

impl MemberArgs {
    /// Gives the member that is meant; none if a session is. A task without a member would be passed over in silence.
    pub(crate) fn named(&self) -> Result<Option<&str>, ApiError> {
        match (&self.member, self.task.task.is_some() || self.task.by.is_some()) {
            (None, true) => Err(usage("--task and --as are about a member: name it with --member")),
            (member, _) => Ok(member.as_deref()),
        }
    }
}

/// The same for a command that names its task first
#[derive(Debug, Args)]
pub(crate) struct NamedTask {
    /// The task: its id, the beginning or end of it, or its name. Without this the one that this agent works for, or
    /// the only one that is open
    #[arg(value_name = "TASK", value_parser = input::parse_name)]
    task: Option<String>,
    /// Act as this member, with its rights and no more. An agent is always who it is
    #[arg(long = "as", value_name = "MEMBER", value_parser = input::parse_name)]
    by: Option<String>,
}

/// A task, and who speaks of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meant<'a> {
    task: &'a str,
    by: Option<&'a str>,
}

impl OfTask {
    pub(crate) fn meant(&self) -> Meant<'_> {
        Meant { task: self.task.as_deref().unwrap_or(OWN_TASK), by: self.by.as_deref() }
    }

    /// Says whether the operator asks and names no task.
    pub(crate) fn is_operators(&self, context: &Context) -> bool {
        let agent = context.environment.get(MARK).is_some();
        !agent && self.task.is_none() && self.by.as_deref().is_none_or(|by| by == "operator")
    }

    /// Gives the options that say the same again, for a command that is suggested.
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

/// The answer that has one task.
#[derive(Debug, Deserialize)]
pub(crate) struct TaskReply {
    pub(crate) task: StandingTaskRow,
}

impl<'a> Meant<'a> {
    pub(crate) fn named(task: &'a str) -> Self {
        Meant { task, by: None }
    }

    /// Gives the address of something about the task.
    pub(crate) fn path(&self, what: &str) -> String {
        target::task_action(self.task, what)
    }

    pub(crate) fn by(&self) -> Option<String> {
        self.by.map(str::to_owned)
    }

    /// Looks at the task.
    pub(crate) fn find(&self, context: &Context) -> Result<StandingTaskRow, ApiError> {
        let reply: TaskReply = self.get(context, &target::task(self.task))?;
        Ok(reply.task)
    }

    /// Asks for something about the task. Who asks is said with it, for an agent may mean its own.
    pub(crate) fn get<T: serde::de::DeserializeOwned>(
        &self,
        context: &Context,
        path: &str,
    ) -> Result<T, ApiError> {
        let (launch, token) = proof(context);
        let asks = [("as", self.by()), ("launch", launch), ("token", token)];
        client(context)?.get(&target::query(path, &asks))
    }

    /// Asks something of the task, and gives the answer.
    pub(crate) fn tell(
        &self,
        context: &Context,
        command: &Command,
        key: &str,
    ) -> Result<Value, ApiError> {
        let command = serde_json::to_value(command)
            .map_err(|why| usage(format!("it cannot be written down: {why}")))?;
        let (launch, token) = proof(context);
        let request = TaskRequest { command, by: self.by(), launch, token };
        client(context)?.post(&self.path("do"), &request, key)
    }

    /// Asks something of the task, and shows in one line what is true then.
    pub(crate) fn change(&self, context: &Context, command: &Command, key: &KeyArgs) -> Outcome {
        let reply = self.tell(context, command, &key.get(context))?;
        self.show(context, reply)
    }

    /// Shows the answer to a change: what was changed, how the task stands, and what makes sense next to who asked.
    pub(crate) fn show(&self, context: &Context, reply: Value) -> Outcome {
        show_to(context, self.by, reply)
    }

    /// Gives the options that name the task by its id, and the same one who asks now.
    pub(crate) fn words(&self, id: &str) -> String {
        format!(" --task {}{}", ui::short(id), as_member(self.by))
    }

    /// Gives the command that shows the task, for the same one who asks now.
    pub(crate) fn show_command(&self, id: &str) -> String {
        format!("provost task show {}{}", ui::short(id), as_member(self.by))
    }
}

/// Gives what this process knows of the launch that it belongs to.
pub(crate) fn proof(context: &Context) -> (Option<String>, Option<String>) {
    let variable = |name: &str| context.environment.get(name).map(str::to_owned);
    (variable(MARK), variable("PROVOST_TOKEN"))
}

/// Reaches the daemon. One that an agent starts would be its descendant and end with it, so an agent starts none.
pub(crate) fn client(context: &Context) -> Result<Client, ApiError> {
    match context.environment.get(MARK) {
        Some(_) => daemon::connect_only(&context.trusted_home()?),
        None => context.daemon(),
    }
}

fn show_to(context: &Context, by: Option<&str>, reply: Value) -> Outcome {
    let changed: Changed = serde_json::from_value(reply.clone())
        .map_err(|why| ApiError::new(Code::Internal, format!("the answer is not known: {why}")))?;
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

/// The answer to a change: with a message, only the head of its task is sure to be there.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Changed {
    Message { task: TaskHeadRow, message: Box<TaskMessageRow> },
    Task { task: Box<StandingTaskRow> },
}

/// Who acts for a member goes on with its next message; everybody else may want to see them all.
fn after_message(task: &TaskHeadRow, by: Option<&str>) -> Vec<String> {
    let (id, by_whom) = (ui::short(&task.id), as_member(by));
    let then = match by {
        Some(_) => format!("provost inbox next --task {id}{by_whom}"),
        None => format!("provost inbox ls --task {id}"),
    };
    vec![then, format!("provost task show {id}{by_whom}")]
}

/// Gives the commands that make sense to who acts: a member by its name, or an agent by its session. Who does not manage
/// is told of nothing that it may not do.
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

/// Gives the commands that make sense for a task as it is, to the operator or to who acts for a member.
pub(crate) fn next_commands(row: &StandingTaskRow, by: Option<&str>) -> Vec<String> {
    let (id, by) = (ui::short(&row.id), as_member(by));
    let mut next = vec![format!("provost task show {id}{by}")];
    if row.terminal {
        next.push(format!("provost audit {id}"));
        return next;
    }
    match row.blockers.is_empty() && !row.members.is_empty() {
        true => next.push(match failed_worker(row) {
            Some(session) => format!("provost status {} --why", ui::short(session)),
            None => format!("provost finish {id} --because TEXT{by}"),
        }),
        false if row.members.is_empty() => {
            next.push(format!("provost task bind {id} NAME --role worker"));
        }
        false => {
            let help = row.blockers.iter().find_map(|blocker| blocker.hint.clone());
            next.push(help.unwrap_or_else(|| format!("provost inbox ls --task {id}{by}")));
        }
    }
    next
}

/// Gives the session of a worker that failed: nothing is open then, and yet nothing may be done.
fn failed_worker(row: &StandingTaskRow) -> Option<&str> {
    let workers = row.members.iter().filter(|one| one.role == "worker" && !one.left);
    let mut failed = workers.filter(|one| one.state.as_deref() == Some("failed"));
    failed.find_map(|one| one.session.as_deref())
}

/// Gives the option that says who acts; nothing for the operator. Left out, a person who acts for a member would act as the
/// operator from then on.
fn as_member(by: Option<&str>) -> String {
    by.map(|name| format!(" --as={}", shell_word(name))).unwrap_or_default()
}
