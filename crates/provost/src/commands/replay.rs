//! `provost replay`

use std::process::ExitCode;

use clap::Args;
use provost_api::ReplayReply;
use provost_engine::history::ReplayForm;
use serde_json::json;

use super::{input, team::args as team_args};
use crate::{
    cli::CliResult,
    context::Context,
    target,
    ui::{self, Screen},
};

/// Replay the events of a team and its sessions
///
/// Texts are hidden unless --content is given. Rejected actions are included. A message has the
/// same number and correlation in the team and in the session that received it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost replay limits\n  provost replay limits --as timeline\n  provost replay limits --as transcript --content\n  provost replay limits --as timeline --json | jq '.rows[] | select(.refused)'"
)]
pub(crate) struct ReplayArgs {
    /// Team ID or name
    #[arg(value_name = "TEAM", value_parser = input::parse_name)]
    team: String,
    /// Format: compact (a line per message, criterion and session), timeline (a line per event) or transcript
    /// (messages)
    #[arg(long = "as", value_name = "FORM", default_value = "compact", value_parser = input::one_of(&ReplayForm::ALL, ReplayForm::as_str))]
    form: ReplayForm,
    /// Also show the text of the events
    #[arg(long)]
    content: bool,
}

pub(crate) fn run(context: &Context, args: &ReplayArgs) -> CliResult {
    let path = target::with_query(
        &target::team_action_path(&args.team, "replay"),
        &[
            ("as", Some(args.form.as_str().to_owned())),
            ("content", args.content.then(|| "1".to_owned())),
        ],
    );
    let reply: ReplayReply = team_args::client(context)?.get(&path)?;
    let id = ui::short_id(&reply.team.id);
    let mut next = vec![format!("provost audit {id}")];
    match args.form {
        ReplayForm::Compact => next.push(format!("provost replay {id} --as timeline")),
        ReplayForm::Timeline | ReplayForm::Transcript => {}
    }
    if context.ui.json {
        context.ui.result(json!(reply), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (paint, screen) = (context.ui.paint, Screen::stdout());
    context.ui.lines(&ui::history_header(paint, screen, &reply.team, &reply.sessions))?;
    context.ui.lines(&ui::history_lines(paint, screen, &reply.rows))?;
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}
