//! `provost team`, with one file per topic.

pub(super) mod args;
mod binding;
mod contract;
mod criterion;
mod done;
mod handoff;
mod inbox;
mod lifecycle;
mod loop_command;
pub(super) mod loop_templates;
mod members;
mod new;
mod next;
mod overview;
mod ping;
mod proposals;
mod prove;
mod send;
pub(super) mod show;
mod start;
mod wait;
mod wait_command;

use clap::{Args, Subcommand};

use crate::{cli::CliResult, context::Context};

/// Work with a team: workers, a manager, messages and evidence
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team start 'Add rate limits' --name limits --worker codex\n  provost team show limits\n  provost team wait limits\n  provost team send --next 'Now the second caller.' -t limits\n  provost team done limits --because 'all criteria hold'"
)]
pub(crate) struct TeamArgs {
    #[command(subcommand)]
    command: TeamSubcommand,
}

#[derive(Debug, Subcommand)]
enum TeamSubcommand {
    Start(Box<start::StartArgs>),
    New(new::TeamNewArgs),
    Ls(show::TeamLsArgs),
    Show(show::TeamShowArgs),
    Overview(overview::OverviewArgs),
    Next(next::NextArgs),
    Send(send::TeamSendArgs),
    Prove(prove::ProveArgs),
    Wait(wait_command::TeamWaitArgs),
    Done(done::DoneArgs),
    Bind(binding::BindArgs),
    Retire(binding::RetireArgs),
    Rotate(binding::RotateArgs),
    Label(binding::LabelArgs),
    Handoff(handoff::HandoffArgs),
    Ping(ping::PingArgs),
    Criterion(criterion::CriterionArgs),
    Inbox(inbox::InboxArgs),
    Loop(loop_command::LoopArgs),
    Contract(contract::ContractArgs),
    Propose(proposals::ProposeArgs),
    Choose(proposals::ChooseArgs),
    Rename(lifecycle::TeamRenameArgs),
    Pause(lifecycle::PauseArgs),
    Resume(lifecycle::TeamResumeArgs),
    Fail(lifecycle::FailArgs),
    Cancel(lifecycle::TeamCancelArgs),
}

pub(crate) fn run(context: &Context, args: &TeamArgs) -> CliResult {
    match &args.command {
        TeamSubcommand::Start(args) => start::run(context, args),
        TeamSubcommand::New(args) => new::run(context, args),
        TeamSubcommand::Ls(args) => show::ls(context, args),
        TeamSubcommand::Show(args) => show::show(context, args),
        TeamSubcommand::Overview(args) => overview::run(context, args),
        TeamSubcommand::Next(args) => next::run(context, args),
        TeamSubcommand::Send(args) => send::run(context, args),
        TeamSubcommand::Prove(args) => prove::run(context, args),
        TeamSubcommand::Wait(args) => wait_command::run(context, args),
        TeamSubcommand::Done(args) => done::run(context, args),
        TeamSubcommand::Bind(args) => binding::bind(context, args),
        TeamSubcommand::Retire(args) => binding::retire(context, args),
        TeamSubcommand::Rotate(args) => binding::rotate(context, args),
        TeamSubcommand::Label(args) => binding::relabel(context, args),
        TeamSubcommand::Handoff(args) => handoff::run(context, args),
        TeamSubcommand::Ping(args) => ping::run(context, args),
        TeamSubcommand::Criterion(args) => criterion::run(context, args),
        TeamSubcommand::Inbox(args) => inbox::run(context, args),
        TeamSubcommand::Loop(args) => loop_command::run(context, args),
        TeamSubcommand::Contract(args) => contract::run(context, args),
        TeamSubcommand::Propose(args) => proposals::propose(context, args),
        TeamSubcommand::Choose(args) => proposals::choose(context, args),
        TeamSubcommand::Rename(args) => lifecycle::rename(context, args),
        TeamSubcommand::Pause(args) => lifecycle::pause(context, args),
        TeamSubcommand::Resume(args) => lifecycle::resume(context, args),
        TeamSubcommand::Fail(args) => lifecycle::fail(context, args),
        TeamSubcommand::Cancel(args) => lifecycle::cancel(context, args),
    }
}
