//! `provost spawn`

pub(super) mod agents;
pub(super) mod built_in;
pub(super) mod ctrl_c;
pub(super) mod policy;
pub(super) mod reactions;
pub(super) mod spec;
pub(super) mod spec_from_config;
pub(super) mod variables;
pub(crate) mod wait;
pub(crate) mod worktree;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, FromArgMatches};
use provost_api::{ApiError, Client, DaemonInfo, OpenSessionRequest, SessionReply};
use provost_core::{
    lifecycle::Flag,
    session::{AgentSpec, SessionSpec},
};
use serde_json::{Value, json};
use uuid::Uuid;

use self::{
    built_in::{AgentArgs, BuiltInAgent},
    variables::VariableArgs,
};
use super::mutation::{KeyArgs, next_commands};
use crate::{cli::CliResult, clock, context::Context, error::usage, ui, viewport::TmuxViewport};

/// Start an agent or any command, and supervise it
///
/// Prints the session's ID first. If there are checks, Provost commits the agent's work and runs
/// the checks itself in a clean checkout. The outcome is `succeeded` only if all checks pass.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost spawn -- make test\n  provost spawn --wait -- ./build.sh\n  provost spawn --agent codex 'Fix the failing test' --worktree --check 'cargo test'\n  provost spawn --agent codex - < instruction.md\n  provost spawn --agent codex --once --budget 500k --wait 'Explain the build'\n  provost spawn --tty --agent codex\n  provost spawn --tty --tmux --agent codex 'Fix the failing test'"
)]
pub(crate) struct SpawnArgs {
    /// Instruction for the agent; `-` reads standard input
    #[arg(requires = "agent")]
    instruction: Option<String>,
    /// Command to run, or further arguments for the agent
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Name of the session [default: derived from the command and the ID]
    #[arg(long, value_parser = label)]
    name: Option<String>,
    /// Role of the session, used to filter lists [default: none]
    #[arg(long, value_parser = label)]
    role: Option<String>,
    /// Agent: `codex`, `demo`, or the name of an `[agents.NAME]` table in the configuration
    /// [default: none, for a plain command]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    #[command(flatten)]
    settings: AgentArgs,
    /// Run Codex once and exit, without questions or approvals (`codex exec`)
    #[arg(long, conflicts_with_all = ["keep", "stdin", "approvals"])]
    once: bool,
    /// Run the program in a terminal that you can open with `provost attach`; the terminal stays
    /// open when the work is done
    #[arg(long, conflicts_with_all = ["once", "stdin"])]
    tty: bool,
    /// With --tty: let the agent's program trust this directory, instead of asking on its screen
    #[arg(long, value_name = "DIR", requires = "tty")]
    accept_trust: Vec<PathBuf>,
    /// With --tty: also open a window in Provost's own tmux; see `provost attach --tmux`
    #[arg(long, requires = "tty")]
    tmux: bool,
    /// Keep stdin open for `provost send` [default: closed]
    #[arg(long)]
    stdin: bool,
    /// Keep the process running when the work is done
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    variables: VariableArgs,
    /// Directory to work in [default: current directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Work in a separate git worktree, on a new branch
    #[arg(long, overrides_with = "no_worktree")]
    worktree: bool,
    /// Work in the directory itself, even if the configuration asks for a worktree
    #[arg(long, overrides_with = "worktree")]
    no_worktree: bool,
    /// Ignore the project's provost.toml, and do not let Codex trust the project's files
    #[arg(long)]
    ignore_project_config: bool,
    /// Command that must succeed on the result (repeatable)
    #[arg(long, value_name = "COMMAND", conflicts_with = "no_check")]
    check: Vec<String>,
    /// Run no checks, even if the configuration contains some
    #[arg(long)]
    no_check: bool,
    /// Accept a result even if it contains no changes
    #[arg(long)]
    allow_empty_diff: bool,
    /// Treat exit status 0 as a claim that the work is done [default: only for plain commands]
    #[arg(long, overrides_with = "no_exit_zero_completes")]
    exit_zero_completes: bool,
    /// Do not treat exit status 0 as a claim; for a command that calls `provost report`
    #[arg(long, overrides_with = "exit_zero_completes")]
    no_exit_zero_completes: bool,
    /// Maximum number of tokens, such as 2M or 500k [default: no limit]
    #[arg(long, value_name = "TOKENS")]
    budget: Option<String>,
    /// Maximum number of turns [default: no limit]
    #[arg(long, value_name = "N")]
    turns: Option<String>,
    /// Maximum working time, such as 90m; time spent waiting for you does not count [default: no limit]
    #[arg(long, value_name = "DURATION")]
    time_limit: Option<String>,
    /// Duration of silence after which an open turn counts as stalled
    #[arg(long, value_name = "DURATION")]
    stale_after: Option<String>,
    /// Grace period before an outcome becomes final
    #[arg(long, value_name = "DURATION")]
    settle: Option<String>,
    /// Wait for the outcome; the exit code is 0 if the work is done and 1 if it is not. A session
    /// that needs input also ends the wait: the question is printed, and the exit code is 7. Ctrl-C
    /// ends only the wait, with exit code 130
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    key: KeyArgs,
}

/// The maximum length of a name or role.
const MAX_LABEL: usize = 100;

pub(crate) fn run(context: &Context, args: &SpawnArgs) -> CliResult {
    let id = clock::new_id();
    let mut spec = spec::build(context, args, id)?;
    let viewport = viewport(context, args)?;
    let client = context.daemon()?;
    expand(context, &client, &mut spec.agent, &mut spec.warnings)?;
    let warnings = spec.warnings.clone();
    let spec = serde_json::to_value(&spec)
        .map_err(|why| usage(format!("cannot encode the session: {why}")))?;
    let request = OpenSessionRequest { id: Some(id.to_string()), spec };
    let mut reply: Value = client.post("/v1/sessions", &request, &args.key.get(context))?;
    if let Some(listed) = reply.get_mut("warnings").and_then(Value::as_array_mut) {
        listed.extend(warnings.into_iter().map(Value::String));
    }
    if let Some(viewport) = viewport {
        show(context, &viewport, &reply);
    }
    if args.wait { wait::run(context, &reply) } else { show_opened(context, reply) }
}

/// Finds the tmux server for the session's window. A failure is an error only if --tmux was given.
fn viewport(context: &Context, args: &SpawnArgs) -> Result<Option<TmuxViewport>, ApiError> {
    if !args.tty || !spec::wants_window(context, args)? {
        return Ok(None);
    }
    match TmuxViewport::prepare(context) {
        Ok(viewport) => Ok(Some(viewport)),
        Err(why) if args.tmux => Err(why),
        Err(why) => {
            context.ui.warn(&why.message);
            Ok(None)
        }
    }
}

/// Opens a window for an existing session. If this fails, the session is not affected.
fn show(context: &Context, viewport: &TmuxViewport, reply: &Value) {
    let row = serde_json::from_value::<SessionReply>(reply.clone()).map(|reply| reply.session);
    if let Some(Err(why)) = row.ok().map(|row| viewport.open_window(&row.id, &row.name)) {
        context.ui.warn(&why.message);
    }
}

/// Expands patterns to the variables in the daemon's environment. Adds a warning if that
/// environment lacks a variable that a built-in agent gets by default, such as the API key for its model.
pub(super) fn expand(
    context: &Context,
    client: &Client,
    agent: &mut AgentSpec,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let built_in = BuiltInAgent::of_adapter(agent);
    if built_in.is_none() && !agent.pass_env.iter().any(|name| name.ends_with('*')) {
        return Ok(());
    }
    let there = client.get::<DaemonInfo>("/v1/daemon")?.environment;
    if let Some(built_in) = built_in {
        let title = built_in.front_end.title();
        let here = context.environment.variables();
        let wanted = [agent.pass_env.as_slice(), &agent.own_env].concat();
        let lacking = variables::missing_in_daemon(&wanted, here, &there);
        warnings.extend(lacking.iter().map(|name| missing_variable_warning(name, title)));
    }
    agent.pass_env = variables::expand(&agent.pass_env, &there);
    Ok(())
}

fn missing_variable_warning(name: &str, agent: &str) -> String {
    format!(
        "{name} is set here but not in the daemon, so {agent} does not get it; run `provost daemon \
         stop`, and the next command starts a daemon that has it"
    )
}

/// Builds the spec of a session for another command, from the arguments that a user would type to
/// start it.
pub(super) fn build_spec(
    context: &Context,
    client: &Client,
    words: &[String],
    id: Uuid,
) -> Result<SessionSpec, ApiError> {
    let command = SpawnArgs::augment_args(clap::Command::new("spawn").no_binary_name(true));
    let read = command.try_get_matches_from(words);
    let args = read.and_then(|matches| SpawnArgs::from_arg_matches(&matches));
    let args = args.map_err(|why| usage(why.to_string()))?;
    let mut spec = spec::build(context, &args, id)?;
    expand(context, client, &mut spec.agent, &mut spec.warnings)?;
    Ok(spec)
}

pub(super) fn show_opened(context: &Context, mut reply: Value) -> CliResult {
    let row = serde_json::from_value::<SessionReply>(reply.clone()).ok().map(|reply| reply.session);
    let adopted = row.as_ref().filter(|row| row.has_flag(Flag::Adopted));
    if let Some(row) = adopted {
        // All warnings about an adopted agent concern facts that cannot be observed.
        reply["warnings"] = json!(row.warnings);
    }
    let next = row.as_ref().map(next_commands).unwrap_or_default();
    if context.ui.json {
        context.ui.result(reply, &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    context.ui.line(id_of(&reply))?;
    warn(context, &reply);
    if let Some(row) = &row {
        let name = ui::escape_line(&row.name);
        let (tone, words) = ui::describe_state(row);
        let words = context.ui.notice_paint.paint(tone, &words);
        // The state of an adopted agent has not been observed yet.
        let notice = if adopted.is_some() {
            format!("adopted {name}")
        } else {
            format!("{name} is {words}")
        };
        context.ui.notice(&notice);
    }
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

pub(super) fn id_of(reply: &Value) -> &str {
    reply.get("id").and_then(Value::as_str).unwrap_or_default()
}

fn warn(context: &Context, reply: &Value) {
    let warnings = reply.get("warnings").and_then(Value::as_array).into_iter().flatten();
    warnings.filter_map(Value::as_str).for_each(|warning| context.ui.warn(warning));
}

/// Parses a name or role, which is a short text without control characters.
pub(super) fn label(text: &str) -> Result<String, String> {
    if text.trim().is_empty() || text.chars().count() > MAX_LABEL {
        return Err(format!("expected 1 to {MAX_LABEL} characters"));
    }
    if ui::escape_line(text) == text {
        Ok(text.to_owned())
    } else {
        Err(format!("{:?} has invisible characters", ui::escape_line(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_short_and_visible() {
        assert_eq!(label("fix login"), Ok("fix login".to_owned()));
        for bad in ["", "  ", "a\nb", "\u{1b}[2J", "x\u{202e}y", &"x".repeat(101)] {
            assert!(label(bad).is_err(), "{bad:?}");
        }
    }
}
