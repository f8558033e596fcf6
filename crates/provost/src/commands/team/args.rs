//! Arguments and helpers for all team commands.

use std::process::ExitCode;

use clap::Args;
use provost_api::{
    ApiError, Client, ErrorCode, MemberRow, TeamCommandRequest, TeamHeadRow, TeamMessageRow,
    TeamReply, TeamRow, TeamStateName,
};
use provost_core::{team::TeamCommand, text::shell_quote};
use provost_engine::shell::OWN_TEAM;
use provost_holder::spec::MARK;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    cli::CliResult,
    commands::{input, mutation::KeyArgs},
    context::Context,
    daemon,
    error::usage,
    target, ui,
};

/// The environment variable that sets the team in a member's shell.
const TEAM_VARIABLE: &str = "PROVOST_TEAM";

/// The environment variable that sets the member that a shell acts as.
const MEMBER_VARIABLE: &str = "PROVOST_AS";

/// The maximum number of branches to suggest for a merge.
const MAX_MERGES: usize = 3;

/// The team, and the member to act as
#[derive(Debug, Args)]
pub(crate) struct TeamFlags {
    /// Team ID or name [default: $PROVOST_TEAM, the team this agent works
    /// for, or the only open one]
    #[arg(short, long, value_name = "TEAM", value_parser = input::parse_name)]
    team: Option<String>,
    /// Act as this member, with only its permissions; an agent always acts as itself [default:
    /// $PROVOST_AS, or the operator]
    #[arg(long = "as", value_name = "MEMBER", value_parser = input::parse_name)]
    by: Option<String>,
}

/// A member of a team, as the target of a command
#[derive(Debug, Args)]
pub(crate) struct MemberArgs {
    /// Member of a team, instead of a session
    #[arg(long, value_name = "MEMBER", value_parser = input::parse_name)]
    member: Option<String>,
    #[command(flatten)]
    pub(crate) team: TeamFlags,
}

impl MemberArgs {
    /// Returns the given member, or `None` if the target is a session. Giving a team without a
    /// member is an error.
    pub(crate) fn member(&self) -> Result<Option<&str>, ApiError> {
        match (&self.member, self.team.team.is_some() || self.team.by.is_some()) {
            (None, true) => Err(usage("--team and --as need a member: name it with --member")),
            (member, _) => Ok(member.as_deref()),
        }
    }
}

/// The team as the first argument, and the member to act as
#[derive(Debug, Args)]
pub(crate) struct NamedTeamArgs {
    /// Team ID or name [default: $PROVOST_TEAM, the team this agent works
    /// for, or the only open one]
    #[arg(value_parser = input::parse_name)]
    team: Option<String>,
    /// Act as this member, with only its permissions; an agent always acts as itself [default:
    /// $PROVOST_AS, or the operator]
    #[arg(long = "as", value_name = "MEMBER", value_parser = input::parse_name)]
    by: Option<String>,
}

/// A team, and the member to act as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TeamTarget<'a> {
    team: &'a str,
    by: Option<&'a str>,
}

impl TeamFlags {
    pub(crate) fn target<'a>(&'a self, context: &'a Context) -> TeamTarget<'a> {
        TeamTarget::resolve(context, self.team.as_deref(), self.by.as_deref())
    }

    /// Whether the caller is the operator and did not specify a team.
    pub(crate) fn is_operator_without_team(&self, context: &Context) -> bool {
        let agent = context.environment.get(MARK).is_some();
        let target = self.target(context);
        !agent && target.team == OWN_TEAM && target.by.is_none_or(|by| by == "operator")
    }

    /// Returns these options as text, for use in suggested commands.
    pub(crate) fn as_options(&self) -> String {
        let given = [("--team", &self.team), ("--as", &self.by)];
        let given = given.into_iter().filter_map(|(flag, name)| Some((flag, name.as_deref()?)));
        given.map(|(flag, name)| format!(" {flag}={}", shell_quote(name))).collect()
    }
}

impl NamedTeamArgs {
    pub(crate) fn target<'a>(&'a self, context: &'a Context) -> TeamTarget<'a> {
        TeamTarget::resolve(context, self.team.as_deref(), self.by.as_deref())
    }
}

impl<'a> TeamTarget<'a> {
    pub(crate) fn new(team: &'a str) -> Self {
        TeamTarget { team, by: None }
    }

    /// Returns the target that the options specify. Options that were not given are taken from the
    /// environment, except for agents, because an agent is identified by its process.
    fn resolve(context: &'a Context, team: Option<&'a str>, by: Option<&'a str>) -> Self {
        let is_agent = context.environment.get(MARK).is_some();
        let variable = |name| if is_agent { None } else { context.environment.get(name) };
        TeamTarget {
            team: team.or_else(|| variable(TEAM_VARIABLE)).unwrap_or(OWN_TEAM),
            by: by.or_else(|| variable(MEMBER_VARIABLE)),
        }
    }

    /// Returns the API path of a resource of the team.
    pub(crate) fn path(&self, what: &str) -> String {
        target::team_action_path(self.team, what)
    }

    pub(crate) fn by(&self) -> Option<String> {
        self.by.map(str::to_owned)
    }

    /// Reads the team.
    pub(crate) fn find(&self, context: &Context) -> Result<TeamRow, ApiError> {
        let reply: TeamReply = self.get(context, &target::team_path(self.team))?;
        Ok(reply.team)
    }

    /// Reads a resource of the team. The request includes the caller's launch, because the default team of an agent is
    /// the team that the agent belongs to.
    pub(crate) fn get<T: serde::de::DeserializeOwned>(
        &self,
        context: &Context,
        path: &str,
    ) -> Result<T, ApiError> {
        let (launch, token) = launch_credentials(context);
        let asks = [("as", self.by()), ("launch", launch), ("token", token)];
        client(context)?.get(&target::with_query(path, &asks))
    }

    /// Sends a command to the team, and returns the reply.
    pub(crate) fn send(
        &self,
        context: &Context,
        command: &TeamCommand,
        key: &str,
    ) -> Result<Value, ApiError> {
        let command = serde_json::to_value(command)
            .map_err(|why| usage(format!("cannot encode the command: {why}")))?;
        let (launch, token) = launch_credentials(context);
        let request = TeamCommandRequest { command, acting_as: self.by(), launch, token };
        client(context)?.post(&self.path("do"), &request, key)
    }

    /// Sends a command to the team, and shows the team's new state in one line.
    pub(crate) fn change(
        &self,
        context: &Context,
        command: &TeamCommand,
        key: &KeyArgs,
    ) -> CliResult {
        let reply = self.send(context, command, &key.get(context))?;
        self.show(context, reply)
    }

    /// Shows the reply to a change: the change itself, the team's state, and what the caller can do next.
    pub(crate) fn show(&self, context: &Context, reply: Value) -> CliResult {
        show_to(context, self.by, reply)
    }

    /// Returns options that specify the team by its ID, and the same member.
    pub(crate) fn options(&self, id: &str) -> String {
        format!(" -t {}{}", ui::short_id(id), as_member(self.by))
    }

    /// Returns the command that shows the team to the same member.
    pub(crate) fn show_command(&self, id: &str) -> String {
        format!("provost team show {}{}", ui::short_id(id), as_member(self.by))
    }
}

/// Returns the ID and token of the launch to which this process belongs, if there is one.
pub(crate) fn launch_credentials(context: &Context) -> (Option<String>, Option<String>) {
    let variable = |name: &str| context.environment.get(name).map(str::to_owned);
    (variable(MARK), variable("PROVOST_TOKEN"))
}

/// Connects to the daemon. An agent must not start a daemon, because the daemon would be a child of
/// the agent and end with it.
pub(crate) fn client(context: &Context) -> Result<Client, ApiError> {
    match context.environment.get(MARK) {
        Some(_) => daemon::connect_only(&context.trusted_home()?),
        None => context.daemon(),
    }
}

fn show_to(context: &Context, by: Option<&str>, reply: Value) -> CliResult {
    let changed: TeamChangeReply = serde_json::from_value(reply.clone()).map_err(|why| {
        ApiError::new(ErrorCode::Internal, format!("cannot parse the daemon's reply: {why}"))
    })?;
    let own = context.environment.get("PROVOST_SESSION");
    let (next, lines) = match &changed {
        TeamChangeReply::Message { team: task, message } => {
            (after_message(task, by), vec![ui::message_change_line(task, message)])
        }
        TeamChangeReply::Task { team: task } => {
            (next_for(task, by, own), ui::team_change_lines(context.ui.paint, task, &reply))
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

/// The reply to a change. The reply to a change of a message can be as short as the team's head.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum TeamChangeReply {
    Message { team: TeamHeadRow, message: Box<TeamMessageRow> },
    Task { team: Box<TeamRow> },
}

/// Returns the next command after a message: a member takes its next message, and any other caller
/// lists all messages.
fn after_message(task: &TeamHeadRow, by: Option<&str>) -> Vec<String> {
    let (id, by_whom) = (ui::short_id(&task.id), as_member(by));
    let then = match by {
        Some(_) => format!("provost team next -t {id}{by_whom}"),
        None => format!("provost team inbox ls -t {id}"),
    };
    vec![then, format!("provost team show {id}{by_whom}")]
}

/// Returns the member that the caller acts as, identified by name or, for an agent, by session.
pub(super) fn acting_member<'r>(
    row: &'r TeamRow,
    by: Option<&str>,
    session: Option<&str>,
) -> Option<&'r MemberRow> {
    let acts = |member: &&MemberRow| {
        Some(member.name.as_str()) == by
            || (session.is_some() && member.session.as_deref() == session)
    };
    row.members.iter().filter(|member| !member.left).find(acts)
}

/// Returns the next commands for the caller. If the caller does not manage the team, these are only
/// commands that the caller may run.
fn next_for(row: &TeamRow, by: Option<&str>, session: Option<&str>) -> Vec<String> {
    let member = acting_member(row, by, session);
    match member.filter(|member| member.role != "manager" && !row.terminal) {
        None => next_commands(row, by),
        Some(member) => {
            let (id, by) = (ui::short_id(&row.id), as_member(Some(&member.name)));
            let mut next = vec![format!("provost team show {id}{by}")];
            if !member.communication.can_push {
                next.push(format!("provost team next -t {id}{by}"));
            }
            next
        }
    }
}

/// Returns the commands that make sense in a team's current state, for the operator or for a member.
pub(crate) fn next_commands(row: &TeamRow, by: Option<&str>) -> Vec<String> {
    let (id, by) = (ui::short_id(&row.id), as_member(by));
    let mut next = vec![format!("provost team show {id}{by}")];
    if row.terminal {
        let merges =
            if row.state == TeamStateName::Done { merge_commands(row) } else { Vec::new() };
        next.splice(..0, merges);
        next.push(format!("provost audit {id}"));
        return next;
    }
    if row.members.is_empty() {
        next.push(format!("provost team bind {id} NAME --role worker"));
    } else if row.being_audited {
        next.push(format!("provost team done {id} --because TEXT{by}"));
    } else if row.blockers.is_empty() {
        next.push(match failed_worker(row) {
            Some(session) => format!("provost status {} --why", ui::short_id(session)),
            None => format!("provost team done {id} --because TEXT{by}"),
        });
    } else {
        let help = row.blockers.iter().find_map(|blocker| blocker.hint.clone());
        next.push(help.unwrap_or_else(|| format!("provost team inbox ls -t {id}{by}")));
    }
    next
}

/// Returns the commands that merge the branches of a team's workers.
fn merge_commands(row: &TeamRow) -> Vec<String> {
    let workers = row.members.iter().filter(|one| one.role == "worker");
    let branches = workers.filter_map(|one| one.branch.as_deref()).take(MAX_MERGES);
    branches.map(|branch| format!("git merge {}", shell_quote(branch))).collect()
}

/// Returns the session of a failed worker. In this case nothing blocks the team, but it would be wrong to suggest that
/// the user finish the team.
fn failed_worker(row: &TeamRow) -> Option<&str> {
    let workers = row.members.iter().filter(|one| one.role == "worker" && !one.left);
    let mut failed = workers.filter(|one| one.state.as_deref() == Some("failed"));
    failed.find_map(|one| one.session.as_deref())
}

/// Returns the option that specifies the member, or an empty text for the operator. Without this
/// option, the suggested command would run as the operator although the user acts for a member.
fn as_member(by: Option<&str>) -> String {
    // A name that begins with a dash would look like another option.
    let form = |name: &str| if name.starts_with('-') { '=' } else { ' ' };
    by.map(|name| format!(" --as{}{}", form(name), shell_quote(name))).unwrap_or_default()
}
