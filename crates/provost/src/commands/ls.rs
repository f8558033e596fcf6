//! `provost ls`

use std::{path::Path, process::ExitCode};

use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use provost_api::{ApiError, Client, ErrorCode, RunRow, SessionRow, SessionsReply, TeamRow};
use provost_core::lifecycle::State;
use serde_json::{Value, json};

use super::team::show::open_teams;
use crate::{
    cli::CliResult,
    clock,
    context::Context,
    settings, target,
    ui::{self, Screen},
};

/// List runs, sessions and open teams, problems first
///
/// `provost team ls` also lists closed teams. With --json, the output has no teams.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost ls\n  provost ls --state needs_input\n  provost ls --runs\n  provost ls --project . --all\n  provost ls --json | jq '.sessions[].state'"
)]
pub(crate) struct LsArgs {
    /// Only sessions with this role
    #[arg(long)]
    role: Option<String>,
    /// Only sessions and runs in this state
    #[arg(long, value_parser = state_parser())]
    state: Option<String>,
    /// Only sessions and runs of the repository that contains this directory
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
    /// Only runs
    #[arg(long, conflicts_with = "role")]
    runs: bool,
    /// Show all sessions and runs ever recorded
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Maximum number of runs, and of sessions, live ones first [default: all live ones and 50
    /// others]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: Option<u32>,
}

/// Parses a state: as in JSON (`needs_input`), as the list shows it (`needs input`), or with hyphens.
fn state_parser() -> impl TypedValueParser<Value = String> {
    let values = State::ALL.iter().map(|state| {
        let value = PossibleValue::new(state.as_str());
        match state.as_str() {
            "needs_input" => value.aliases(["needs input", "needs-input"]),
            "exited_without_claim" => {
                value.aliases(["exited without claim", "exited-without-claim"])
            }
            _ => value,
        }
    });
    PossibleValuesParser::new(values).map(|text| text.replace([' ', '-'], "_"))
}

/// Adds lost events of the ledger and unknown processes to the printed value, if there are any.
pub(super) fn add_condition(reply: &SessionsReply, value: &mut Value) {
    if let Some(loss) = &reply.ledger_loss {
        value["ledger_loss"] = json!(loss);
    }
    if !reply.unknown_holders.is_empty() {
        value["unknown_holders"] = json!(reply.unknown_holders);
    }
}

pub(crate) fn run(context: &Context, args: &LsArgs) -> CliResult {
    let path = path(args);
    let client = context.daemon()?;
    if let Some(given) = args.project.as_deref().filter(|given| !is_directory(given)) {
        check_known_project(&client, given)?;
    }
    if context.ui.json && !args.runs {
        context.ui.copy(&mut client.stream(&path, None)?.into_reader())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut reply: SessionsReply = client.get(&path)?;
    if args.runs {
        reply.sessions.clear();
    }
    if context.ui.json {
        let mut value = json!({
            "ok": true,
            "runs": reply.runs,
            "shortages": reply.shortages,
            "more": reply.more,
        });
        add_condition(&reply, &mut value);
        context.ui.value(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_filtered = args.role.is_some() || args.state.is_some() || args.project.is_some();
    let teams = if is_filtered || args.runs { Vec::new() } else { open_teams(&client)? };
    show(context, reply, &teams)
}

fn show(context: &Context, reply: SessionsReply, teams: &[TeamRow]) -> CliResult {
    let (paint, screen, now) = (context.ui.paint, Screen::stdout(), clock::now_ms());
    let SessionsReply { sessions, runs, shortages, more, unknown_holders, .. } = reply;
    context.ui.lines(&ui::shortage_lines(paint, &shortages))?;
    if sessions.is_empty() && runs.is_empty() && teams.is_empty() {
        context.ui.lines(&ui::unknown_lines(paint, &unknown_holders))?;
        context.ui.notice("no sessions, runs or teams");
        let next = ["provost run GOAL", "provost spawn -- COMMAND", "provost ls --all"];
        context.ui.next(&next.map(str::to_owned));
        return Ok(ExitCode::SUCCESS);
    }
    let next = next_commands(&sessions, &runs, teams, more);
    let mut lines = Vec::new();
    if !runs.is_empty() {
        lines.extend(ui::run_lines(paint, screen, now, runs));
    }
    if !lines.is_empty() && !sessions.is_empty() {
        lines.push(String::new());
    }
    if !sessions.is_empty() {
        lines.extend(ui::session_lines(paint, screen, now, sessions));
    }
    if !teams.is_empty() {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(ui::team_lines(paint, screen, now, teams));
    }
    if !unknown_holders.is_empty() {
        lines.push(String::new());
        lines.extend(ui::unknown_lines(paint, &unknown_holders));
    }
    context.ui.lines(&lines)?;
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

/// Suggests commands for the first row of the list.
fn next_commands(
    sessions: &[SessionRow],
    runs: &[RunRow],
    teams: &[TeamRow],
    more: bool,
) -> Vec<String> {
    let run = ui::first_run(runs).map(|row| row.id.as_str());
    let session = ui::first_session(sessions).map(|row| row.id.as_str());
    let mut next = Vec::new();
    if more {
        next.push("provost ls --all".to_owned());
    }
    if let Some(id) = run.or(session) {
        next.push(format!("provost status {}", ui::short_id(id)));
        next.push(format!("provost logs {}", ui::short_id(id)));
    } else if let Some(team) = teams.first() {
        next.push(format!("provost team show {}", ui::short_id(&team.id)));
    }
    next
}

fn path(args: &LsArgs) -> String {
    target::with_query(
        "/v1/sessions",
        &[
            ("limit", args.limit.map(|limit| limit.to_string())),
            ("all", args.all.then(|| "1".to_owned())),
            ("role", args.role.clone()),
            ("state", args.state.clone()),
            ("project", args.project.as_deref().map(project)),
        ],
    )
}

/// Converts the value of `--project` to the path that sessions store: the top directory of the
/// repository. If the given directory no longer exists, the value is used unchanged.
fn project(given: &str) -> String {
    let found = std::fs::canonicalize(given).ok().filter(|found| found.is_dir());
    let top = found.map(|dir| settings::project_top(&dir).unwrap_or(dir));
    top.map_or_else(|| given.to_owned(), |top| top.display().to_string())
}

fn is_directory(given: &str) -> bool {
    Path::new(given).is_dir()
}

/// Fails if a directory does not exist and no session ever ran in it. Sessions may outlive their repository.
fn check_known_project(client: &Client, given: &str) -> Result<(), ApiError> {
    let one = [("project", Some(given.to_owned())), ("limit", Some("1".to_owned()))];
    let reply: SessionsReply = client.get(&target::with_query("/v1/sessions", &one))?;
    if !reply.sessions.is_empty() {
        return Ok(());
    }
    let message = format!("there is no directory {given:?}, and no session ever ran in it");
    Err(ApiError::new(ErrorCode::NotFound, message).next("provost ls --all"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_accepted_as_the_list_shows_it() {
        let state = |text: &str| {
            let command = LsArgs::augment_args(clap::Command::new("ls"));
            let matches = command.try_get_matches_from(["ls", "--state", text]).ok()?;
            matches.get_one::<String>("state").cloned()
        };
        for known in State::ALL {
            assert_eq!(state(known.as_str()).as_deref(), Some(known.as_str()));
            for separator in [" ", "-"] {
                let typed = known.as_str().replace('_', separator);
                assert_eq!(state(&typed).as_deref(), Some(known.as_str()));
            }
        }
        assert_eq!(state("asleep"), None);
    }

    #[test]
    fn subdirectory_resolves_to_repository() {
        let dir = tempfile::tempdir().unwrap();
        let top = std::fs::canonicalize(dir.path()).unwrap();
        std::fs::create_dir_all(top.join("src")).unwrap();
        for name in [".git/objects", ".git/refs"] {
            std::fs::create_dir_all(top.join(name)).unwrap();
        }
        std::fs::write(top.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        assert_eq!(project(&top.join("src").display().to_string()), top.display().to_string());
        assert_eq!(project("/gone/for/good"), "/gone/for/good");
    }
}
