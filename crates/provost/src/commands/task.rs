//! `provost task`

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand, ValueEnum};
use provost_api::{ApiError, Client, OpenTeamRequest, TeamRow};
use provost_core::{
    ids::SessionId,
    team::{
        ConsentTerms, ManagerConfig, MemberLabels, MemberRole, ProposalChoice, TeamCommand,
        TeamLimits, TeamSpec,
    },
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    input, loop_templates,
    mutation::KeyArgs,
    spawn::{label, policy, spec::directory},
    task_args::{self, NamedTeamArgs, TeamArgs, TeamTarget, next_commands},
};
use crate::{
    cli::CliResult,
    clock,
    context::Context,
    error::usage,
    settings, target,
    trust::TrustPrompt,
    ui::{self, Screen},
};

/// Manage teams: open, bind members, pause and end them
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost task new limits --goal 'Limit how often each caller may call' --check 'cargo test'\n  provost task bind limits hand --role worker\n  provost task show limits\n  provost task ls"
)]
pub(crate) struct TaskArgs {
    #[command(subcommand)]
    what: TeamSubcommand,
}

#[derive(Debug, Subcommand)]
enum TeamSubcommand {
    New(TeamNewArgs),
    Ls(TeamLsArgs),
    Show(TeamShowArgs),
    Bind(BindArgs),
    Retire(RetireArgs),
    Rotate(RotateArgs),
    Label(LabelArgs),
    Rename(TeamRenameArgs),
    Pause(BecauseArgs),
    GoOn(TeamResumeArgs),
    Fail(FailArgs),
    Cancel(TeamCancelArgs),
    Propose(ProposeArgs),
    Choose(ChooseArgs),
}

/// Open a team without members
///
/// `provost pair` opens a team together with its members.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost task new limits --goal 'Limit how often each caller may call'\n  provost task new limits --goal - --check 'cargo test' < goal.md"
)]
struct TeamNewArgs {
    /// Name; unique among open teams
    #[arg(value_parser = label)]
    name: String,
    /// Goal; `-` reads standard input
    #[arg(long)]
    goal: String,
    /// Goal in one line, for lists
    #[arg(long)]
    summary: Option<String>,
    /// Command that must pass on the finished work (repeatable)
    #[arg(long, value_name = "COMMAND")]
    check: Vec<String>,
    /// Manage it by this policy from the configuration instead of an agent
    #[arg(long, value_name = "NAME", value_parser = input::parse_name)]
    policy: Option<String>,
    /// Directory of the work [default: current directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    #[command(flatten)]
    windows: WindowArgs,
    #[command(flatten)]
    key: KeyArgs,
}

/// The time limits of messages
#[derive(Debug, Args)]
pub(crate) struct WindowArgs {
    /// How long an offered message is reserved for the member that took the offer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = input::parse_age)]
    offer: u64,
    /// How long a member may take to acknowledge an accepted message before it is offered again
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = input::parse_age)]
    lease: u64,
}

impl WindowArgs {
    pub(crate) fn bounds(&self) -> TeamLimits {
        TeamLimits { offer_ms: self.offer, lease_ms: self.lease, ..TeamLimits::default() }
    }
}

/// List open teams, and the newest closed ones
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost task ls\n  provost task ls --json | jq '.tasks[].state'"
)]
struct TeamLsArgs {
    /// Maximum number of closed teams
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
}

/// Show a team's members, criteria, messages and blockers
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost task show limits\n  provost task show --json")]
struct TeamShowArgs {
    #[command(flatten)]
    task: NamedTeamArgs,
}

/// The role of a member.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RoleArg {
    Worker,
    Manager,
    Reviewer,
}

impl From<RoleArg> for MemberRole {
    fn from(role: RoleArg) -> MemberRole {
        match role {
            RoleArg::Worker => MemberRole::Worker,
            RoleArg::Manager => MemberRole::Manager,
            RoleArg::Reviewer => MemberRole::Reviewer,
        }
    }
}

/// Bind a session or an external member to a team
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost task bind limits hand --role worker --session 1a2b3c4d\n  provost task bind limits boss --role manager\n  provost task bind limits app --role worker --thread THREAD --title 'Limits'"
)]
struct BindArgs {
    /// Team ID (a unique part is enough) or name
    #[arg(value_parser = input::parse_name)]
    task: String,
    /// Name of the member; unique in the team and never reused
    #[arg(value_parser = label)]
    name: String,
    /// Role of the member
    #[arg(long, value_enum)]
    role: RoleArg,
    /// Session of the member; without one it pulls its messages with `provost inbox next`
    #[arg(long, value_name = "SESSION", value_parser = input::parse_name)]
    session: Option<String>,
    #[command(flatten)]
    labels: LabelFlags,
    #[command(flatten)]
    key: KeyArgs,
}

/// Where to find a member opened elsewhere; for information only
#[derive(Debug, Args)]
pub(crate) struct LabelFlags {
    /// ID of the conversation of a member opened elsewhere, in its application
    #[arg(long, value_parser = label)]
    thread: Option<String>,
    /// Title of that conversation
    #[arg(long, value_parser = label)]
    title: Option<String>,
}

impl LabelFlags {
    pub(crate) fn labels(&self) -> MemberLabels {
        MemberLabels { thread: self.thread.clone(), title: self.title.clone() }
    }
}

/// Remove a member from a team
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost task retire limits hand --because 'its part is done'\n  provost task retire limits hand --to hand-2 --because 'its part is done'"
)]
struct RetireArgs {
    /// Team ID (a unique part is enough) or name
    #[arg(value_parser = input::parse_name)]
    task: String,
    /// Member that leaves
    #[arg(value_parser = label)]
    name: String,
    /// Reason
    #[arg(long)]
    because: String,
    /// Reassign its open messages to this member
    #[arg(long, value_name = "MEMBER", value_parser = label, conflicts_with = "dead_letter")]
    to: Option<String>,
    /// Dead-letter its open messages and notify senders and managers
    #[arg(long)]
    dead_letter: bool,
    #[command(flatten)]
    key: KeyArgs,
}

/// Replace a member, with a handover
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost task rotate limits hand hand-2 --session 5e6f7a8b --handover 'The tests are written, the limit is not.'"
)]
struct RotateArgs {
    /// Team ID (a unique part is enough) or name
    #[arg(value_parser = input::parse_name)]
    task: String,
    /// Member that leaves, if it is still bound
    #[arg(value_parser = label)]
    from: String,
    /// Name of the successor; must be unused in the team
    #[arg(value_parser = label)]
    to: String,
    /// Session of the successor
    #[arg(long, value_name = "SESSION", value_parser = input::parse_name)]
    session: Option<String>,
    /// Handover text for the successor; `-` reads standard input
    #[arg(long)]
    handover: String,
    #[command(flatten)]
    key: KeyArgs,
}

/// Record where a member opened elsewhere can be found
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost task label limits hand --title 'Limits'")]
struct LabelArgs {
    /// Team ID (a unique part is enough) or name
    #[arg(value_parser = input::parse_name)]
    task: String,
    /// Member to label
    #[arg(value_parser = label)]
    name: String,
    #[command(flatten)]
    labels: LabelFlags,
    #[command(flatten)]
    key: KeyArgs,
}

/// Rename a team
///
/// Its ID and references to it stay the same. A closed team keeps its name.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost task rename limits call-limits\n  provost task rename 1a2b3c4d call-limits --json"
)]
struct TeamRenameArgs {
    /// Team ID (a unique part is enough) or name
    #[arg(value_parser = input::parse_name)]
    task: String,
    /// New name; unique among open teams
    #[arg(value_parser = label)]
    name: String,
    #[command(flatten)]
    key: KeyArgs,
}

/// Pause a team: nothing is delivered until it resumes
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost task pause limits --because 'until Monday'")]
struct BecauseArgs {
    #[command(flatten)]
    task: NamedTeamArgs,
    /// Reason
    #[arg(long)]
    because: String,
    #[command(flatten)]
    key: KeyArgs,
}

/// Resume a paused team
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost task go-on limits")]
struct TeamResumeArgs {
    #[command(flatten)]
    task: NamedTeamArgs,
    #[command(flatten)]
    key: KeyArgs,
}

/// End a team as failed, and stop its sessions
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost task fail limits --because 'the library cannot do it'"
)]
struct FailArgs {
    #[command(flatten)]
    rest: BecauseArgs,
}

/// End a team as cancelled, and stop its sessions
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost task cancel limits --because 'nobody needs it'")]
struct TeamCancelArgs {
    #[command(flatten)]
    rest: BecauseArgs,
}

/// Propose the next step, blind to the other's proposal
///
/// The worker proposes first, then the manager. When both have, the reviewer gets both proposals and chooses with
/// `provost task choose`; without a reviewer you do.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost task propose 'Now the second caller, with a test that fails first.' --task limits --as hand\n  provost task propose - --task limits --as boss < next.md"
)]
struct ProposeArgs {
    /// Proposed next step; `-` reads standard input
    text: String,
    #[command(flatten)]
    task: TeamArgs,
    #[command(flatten)]
    key: KeyArgs,
}

/// Choose between two proposals for the next step, or stop
///
/// Only the reviewer, or you, can choose; a proposer cannot. `stop` pauses the team, and so does a reviewer that fails.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost task choose worker --because 'it is smaller, and shows more' --task limits --as eye\n  provost task choose stop --because 'neither says how it is tested' --task limits --as eye"
)]
struct ChooseArgs {
    #[arg(value_enum)]
    choice: ChoiceArg,
    /// Reason
    #[arg(long)]
    because: String,
    #[command(flatten)]
    task: TeamArgs,
    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ChoiceArg {
    /// The worker's proposal
    Worker,
    /// The manager's proposal
    Manager,
    /// Neither
    Stop,
}

impl From<ChoiceArg> for ProposalChoice {
    fn from(choice: ChoiceArg) -> ProposalChoice {
        match choice {
            ChoiceArg::Worker => ProposalChoice::Worker,
            ChoiceArg::Manager => ProposalChoice::Manager,
            ChoiceArg::Stop => ProposalChoice::Stop,
        }
    }
}

pub(crate) fn run(context: &Context, args: &TaskArgs) -> CliResult {
    match &args.what {
        TeamSubcommand::New(args) => new(context, args),
        TeamSubcommand::Ls(args) => ls(context, args),
        TeamSubcommand::Show(args) => show(context, args.task.target()),
        TeamSubcommand::Bind(args) => bind(context, args),
        TeamSubcommand::Retire(args) => {
            let command = TeamCommand::Retire {
                name: args.name.clone(),
                because: args.because.clone(),
                to: args.to.clone(),
                dead_letter: args.dead_letter,
            };
            TeamTarget::new(&args.task).change(context, &command, &args.key)
        }
        TeamSubcommand::Rotate(args) => rotate(context, args),
        TeamSubcommand::Label(args) => {
            let command =
                TeamCommand::Label { name: args.name.clone(), labels: args.labels.labels() };
            TeamTarget::new(&args.task).change(context, &command, &args.key)
        }
        TeamSubcommand::Rename(args) => {
            let command = TeamCommand::Rename { name: args.name.clone() };
            TeamTarget::new(&args.task).change(context, &command, &args.key)
        }
        TeamSubcommand::Pause(args) => {
            change_with_reason(context, args, |because| TeamCommand::Pause { because })
        }
        TeamSubcommand::GoOn(args) => {
            args.task.target().change(context, &TeamCommand::GoOn, &args.key)
        }
        TeamSubcommand::Fail(args) => {
            change_with_reason(context, &args.rest, |because| TeamCommand::Fail { because })
        }
        TeamSubcommand::Cancel(args) => {
            change_with_reason(context, &args.rest, |because| TeamCommand::Cancel { because })
        }
        TeamSubcommand::Propose(args) => {
            let command = TeamCommand::ProposeNext { text: input::read_text(&args.text)? };
            args.task.target().change(context, &command, &args.key)
        }
        TeamSubcommand::Choose(args) => {
            let (choice, because) = (args.choice.into(), input::read_text(&args.because)?);
            let command = TeamCommand::ChooseNext { choice, because };
            args.task.target().change(context, &command, &args.key)
        }
    }
}

fn change_with_reason(
    context: &Context,
    args: &BecauseArgs,
    of: impl Fn(String) -> TeamCommand,
) -> CliResult {
    args.task.target().change(context, &of(input::read_text(&args.because)?), &args.key)
}

/// Builds the spec of a team.
pub(crate) fn spec(
    context: &Context,
    name: &str,
    goal: String,
    summary: Option<String>,
    checks: &[String],
    cwd: Option<&Path>,
    bounds: TeamLimits,
) -> Result<TeamSpec, ApiError> {
    let cwd = directory(context, cwd)?;
    let text = |path: &Path| -> Result<String, ApiError> {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| usage(format!("{} is not UTF-8", path.display())))
    };
    let project = settings::project_top(&cwd).as_deref().map(text).transpose()?;
    let config = settings::load(&context.environment, &cwd, Vec::new())?;
    let consent = ConsentTerms {
        rules: policy::build(context, &config, &cwd)?,
        named: loop_templates::commands(&config),
    };
    Ok(TeamSpec {
        name: name.to_owned(),
        goal,
        summary,
        project,
        cwd: text(&cwd)?,
        checks: checks.to_vec(),
        consent,
        config: ManagerConfig::default(),
        policy: None,
        bounds,
    })
}

fn new(context: &Context, args: &TeamNewArgs) -> CliResult {
    let (goal, summary) = (input::read_text(&args.goal)?, args.summary.clone());
    let (cwd, bounds) = (args.cwd.as_deref(), args.windows.bounds());
    let mut spec = spec(context, &args.name, goal, summary, &args.check, cwd, bounds)?;
    if let Some(name) = &args.policy {
        let (cwd, wanted) = (Path::new(&spec.cwd), settings::ConfigInputs::default());
        let config = settings::load_to_start(context, cwd, wanted, TrustPrompt::AtTerminal)?;
        spec.policy = Some(loop_templates::policy(&config, name)?);
    }
    let spec = serde_json::to_value(&spec)
        .map_err(|why| usage(format!("cannot encode the team: {why}")))?;
    let request = OpenTeamRequest { id: clock::new_id().to_string(), spec };
    let reply: Value = context.daemon()?.post("/v1/tasks", &request, &args.key.get(context))?;
    show_opened(context, reply)
}

/// Shows an opened team: its ID first.
pub(crate) fn show_opened(context: &Context, reply: Value) -> CliResult {
    let row: Option<TeamRow> =
        reply.get("task").cloned().and_then(|row| serde_json::from_value(row).ok());
    let next = row.as_ref().map(|row| next_commands(row, None)).unwrap_or_default();
    if context.ui.json {
        context.ui.result(reply, &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(row) = &row {
        context.ui.line(&row.id)?;
        context.ui.notice(&format!("{} is {}", ui::escape_line(&row.name), row.state));
    }
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Deserialize)]
struct TeamListReply {
    tasks: Vec<TeamRow>,
    more: bool,
}

fn ls(context: &Context, args: &TeamLsArgs) -> CliResult {
    let path = target::with_query("/v1/tasks", &[("limit", Some(args.limit.to_string()))]);
    let reply: TeamListReply = task_args::client(context)?.get(&path)?;
    if context.ui.json {
        context.ui.result(json!({"tasks": reply.tasks, "more": reply.more}), &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    if reply.tasks.is_empty() {
        context.ui.notice("no teams");
        context.ui.next(&["provost pair GOAL --worker codex".to_owned()]);
        return Ok(ExitCode::SUCCESS);
    }
    let (paint, screen) = (context.ui.paint, Screen::stdout());
    context.ui.lines(&ui::team_lines(paint, screen, clock::now_ms(), &reply.tasks))?;
    if reply.more {
        context.ui.notice("there are more closed ones: provost task ls --limit N");
    }
    let waiting = reply.tasks.iter().find(|row| row.for_operator > 0);
    let mut next: Vec<String> = waiting.map(take_message_command).into_iter().collect();
    next.push("provost task show TASK".to_owned());
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

/// Returns the open teams.
pub(crate) fn open_tasks(client: &Client) -> Result<Vec<TeamRow>, ApiError> {
    let path = target::with_query("/v1/tasks", &[("limit", Some("0".to_owned()))]);
    let reply: TeamListReply = client.get(&path)?;
    Ok(reply.tasks.into_iter().filter(|row| !row.terminal).collect())
}

/// Returns the teams with messages that the operator has not handled yet.
pub(crate) fn for_operator(client: &Client) -> Result<Vec<TeamRow>, ApiError> {
    let mut rows = open_tasks(client)?;
    rows.retain(|row| row.for_operator > 0);
    Ok(rows)
}

/// Returns the command that takes the operator's next message of a team.
pub(crate) fn take_message_command(row: &TeamRow) -> String {
    format!("provost inbox next --as operator --task {}", ui::short_id(&row.id))
}

/// Shows a team in detail.
pub(crate) fn show(context: &Context, meant: TeamTarget<'_>) -> CliResult {
    let row = meant.find(context)?;
    let mut next = next_commands(&row, meant.by().as_deref());
    // The user just ran this command.
    next.retain(|command| !command.starts_with("provost task show"));
    if context.ui.json {
        context.ui.result(json!({"task": row}), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (paint, screen) = (context.ui.paint, Screen::stdout());
    context.ui.lines(&ui::team_detail(paint, screen, clock::now_ms(), &row))?;
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

/// Finds the named session.
pub(crate) fn session(
    context: &Context,
    named: Option<&str>,
) -> Result<Option<SessionId>, ApiError> {
    let Some(named) = named else { return Ok(None) };
    let row = target::find_session(&context.daemon()?, named)?;
    row.id.parse().map(Some).map_err(|why: provost_core::ids::ParseIdError| usage(why.to_string()))
}

fn bind(context: &Context, args: &BindArgs) -> CliResult {
    let command = TeamCommand::Bind {
        name: args.name.clone(),
        role: args.role.into(),
        session: session(context, args.session.as_deref())?,
        labels: args.labels.labels(),
    };
    TeamTarget::new(&args.task).change(context, &command, &args.key)
}

fn rotate(context: &Context, args: &RotateArgs) -> CliResult {
    let command = TeamCommand::Rotate {
        from: args.from.clone(),
        to: args.to.clone(),
        session: session(context, args.session.as_deref())?,
        handover: input::read_text(&args.handover)?,
    };
    TeamTarget::new(&args.task).change(context, &command, &args.key)
}
