//! Commands that change the members of a team: `provost team bind`, `retire`, `rotate` and `label`

use clap::Args;
use provost_api::ApiError;
use provost_core::{
    ids::SessionId,
    team::{MemberLabels, MemberRole, TeamCommand},
};

use super::args::TeamTarget;
use crate::{
    cli::CliResult,
    commands::{input, mutation::KeyArgs, spawn::label},
    context::Context,
    error::usage,
    target,
};

/// Bind a session or an external member to a team
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team bind limits hand --role worker --session 1a2b3c4d\n  provost team bind limits boss --role manager\n  provost team bind limits app --role worker --thread THREAD --title 'Limits'"
)]
pub(super) struct BindArgs {
    /// Team ID or name
    #[arg(value_parser = input::parse_name)]
    team: String,
    /// Name of the member, which is unique in the team and never reused
    #[arg(value_parser = label)]
    name: String,
    /// Role of the member
    #[arg(long, value_parser = input::one_of(&MemberRole::ALL, MemberRole::as_str))]
    role: MemberRole,
    /// Session of the member; a member without a session pulls its messages with `provost team
    /// next`
    #[arg(long, value_name = "SESSION", value_parser = input::parse_name)]
    session: Option<String>,
    #[command(flatten)]
    labels: LabelFlags,
    #[command(flatten)]
    key: KeyArgs,
}

/// Labels that help users to find an external member
#[derive(Debug, Args)]
pub(super) struct LabelFlags {
    /// ID of an external member's conversation, in its application
    #[arg(long, value_parser = label)]
    thread: Option<String>,
    /// Title of an external member's conversation
    #[arg(long, value_parser = label)]
    title: Option<String>,
}

impl LabelFlags {
    pub(super) fn labels(&self) -> MemberLabels {
        MemberLabels { thread: self.thread.clone(), title: self.title.clone() }
    }
}

/// Remove a member from a team
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team retire limits hand --because 'its part is done'\n  provost team retire limits hand --to hand-2 --because 'its part is done'"
)]
pub(super) struct RetireArgs {
    /// Team ID or name
    #[arg(value_parser = input::parse_name)]
    team: String,
    /// Member to remove
    #[arg(value_parser = label)]
    name: String,
    /// Reason
    #[arg(long, value_name = "TEXT")]
    because: String,
    /// Member that takes over the open messages of the removed member
    #[arg(long, value_name = "MEMBER", value_parser = label, conflicts_with = "dead_letter")]
    to: Option<String>,
    /// Dead-letter the open messages of the removed member, and notify their senders and the
    /// managers
    #[arg(long)]
    dead_letter: bool,
    #[command(flatten)]
    key: KeyArgs,
}

/// Replace a member, with a handover
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team rotate limits hand hand-2 --session 5e6f7a8b --handover 'The tests are written, the limit is not.'"
)]
pub(super) struct RotateArgs {
    /// Team ID or name
    #[arg(value_parser = input::parse_name)]
    team: String,
    /// Member to replace, if it is still bound
    #[arg(value_parser = label)]
    from: String,
    /// Name of the successor; must be unused in the team
    #[arg(value_parser = label)]
    to: String,
    /// Session of the successor
    #[arg(long, value_name = "SESSION", value_parser = input::parse_name)]
    session: Option<String>,
    /// Handover text for the successor; `-` reads standard input
    #[arg(long, value_name = "TEXT")]
    handover: String,
    #[command(flatten)]
    key: KeyArgs,
}

/// Record where to find an external member
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost team label limits hand --title 'Limits'")]
pub(super) struct LabelArgs {
    /// Team ID or name
    #[arg(value_parser = input::parse_name)]
    team: String,
    /// Member to label
    #[arg(value_parser = label)]
    name: String,
    #[command(flatten)]
    labels: LabelFlags,
    #[command(flatten)]
    key: KeyArgs,
}

/// Finds the given session, if there is one.
fn session(context: &Context, named: Option<&str>) -> Result<Option<SessionId>, ApiError> {
    let Some(named) = named else { return Ok(None) };
    let row = target::find_session(&context.daemon()?, named)?;
    row.id.parse().map(Some).map_err(|why: provost_core::ids::ParseIdError| usage(why.to_string()))
}

pub(super) fn bind(context: &Context, args: &BindArgs) -> CliResult {
    let command = TeamCommand::Bind {
        name: args.name.clone(),
        role: args.role,
        session: session(context, args.session.as_deref())?,
        labels: args.labels.labels(),
    };
    TeamTarget::new(&args.team).change(context, &command, &args.key)
}

pub(super) fn retire(context: &Context, args: &RetireArgs) -> CliResult {
    let command = TeamCommand::Retire {
        name: args.name.clone(),
        because: args.because.clone(),
        to: args.to.clone(),
        dead_letter: args.dead_letter,
    };
    TeamTarget::new(&args.team).change(context, &command, &args.key)
}

pub(super) fn rotate(context: &Context, args: &RotateArgs) -> CliResult {
    let command = TeamCommand::Rotate {
        from: args.from.clone(),
        to: args.to.clone(),
        session: session(context, args.session.as_deref())?,
        handover: input::read_text("the hand-over (--handover)", &args.handover)?,
    };
    TeamTarget::new(&args.team).change(context, &command, &args.key)
}

pub(super) fn relabel(context: &Context, args: &LabelArgs) -> CliResult {
    let command = TeamCommand::Label { name: args.name.clone(), labels: args.labels.labels() };
    TeamTarget::new(&args.team).change(context, &command, &args.key)
}
