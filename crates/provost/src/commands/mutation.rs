//! Helpers for all commands that change a session or run: send the request, show the result, and
//! suggest next commands.

use std::process::ExitCode;

use clap::Args;
use provost_api::{CheckResultName, ProcessName, RequestRow, SessionRow, SetupResultName};
use provost_core::lifecycle::{Cause, Flag, State};
use serde::Serialize;
use serde_json::Value;

use super::{run, spawn::built_in::BuiltInAgent};
use crate::{
    cli::CliResult,
    context::Context,
    error::Error,
    target::{self, SessionOrRun},
    ui::{self, Paint},
};

/// The idempotency key of a change
#[derive(Debug, Default, Args)]
pub(crate) struct KeyArgs {
    /// Idempotency key: repeating the command has no further effect [default: a new one]
    #[arg(long, value_name = "KEY", value_parser = parse_key)]
    key: Option<String>,
}

/// The maximum length of an idempotency key.
const MAX_KEY: usize = 200;

impl KeyArgs {
    pub(crate) fn get(&self, context: &Context) -> String {
        context.idempotency_key(self.key.as_deref())
    }

    /// Whether the user passed a key. If so, the change may be a repetition.
    pub(crate) fn is_given(&self) -> bool {
        self.key.is_some()
    }
}

/// Permission for an imported session or run to run here
#[derive(Debug, Args)]
pub(crate) struct TakeOverArgs {
    /// Allow a session or run that was imported from another home to run its programs here
    #[arg(long)]
    take_over: bool,
}

impl TakeOverArgs {
    /// Takes over the given session, or the given run with all its sessions.
    pub(crate) fn apply(&self, context: &Context, id: &str) -> Result<(), Error> {
        if !self.take_over {
            return Ok(());
        }
        let found = context.find_session_or_run(id)?;
        let (client, body) = (context.daemon()?, serde_json::json!({}));
        let post =
            |path: String| client.post::<Value>(&path, &body, &context.idempotency_key(None));
        match found {
            SessionOrRun::Session(row) => {
                post(target::session_action_path(&row.id, TAKE_OVER)).map(drop)?
            }
            SessionOrRun::Run(row) => {
                for session in &row.sessions {
                    post(target::session_action_path(&session.id, TAKE_OVER))?;
                }
                post(target::run_action_path(&row.id, TAKE_OVER)).map(drop)?;
            }
        }
        Ok(())
    }
}

const TAKE_OVER: &str = "take-over";

/// Requests a change to a session, and shows its new state.
pub(crate) fn change(
    context: &Context,
    id: &str,
    action: &str,
    body: &impl Serialize,
    key: &KeyArgs,
) -> CliResult {
    let (client, key) = (context.daemon()?, key.get(context));
    let reply = client.post(&target::session_action_path(id, action), body, &key);
    show(context, reply.map_err(|error| target::explain_run_target(&client, id, action, error))?)
}

/// Requests a change to a session or run that was looked up, and shows its new state.
pub(crate) fn change_found(
    context: &Context,
    found: SessionOrRun,
    action: &str,
    body: &impl Serialize,
    run_action: &str,
    run_body: &impl Serialize,
    key: &KeyArgs,
) -> CliResult {
    let (client, key) = (context.daemon()?, key.get(context));
    match found {
        SessionOrRun::Session(row) => {
            show(context, client.post(&target::session_action_path(&row.id, action), body, &key)?)
        }
        SessionOrRun::Run(row) => show_run(
            context,
            client.post(&target::run_action_path(&row.id, run_action), run_body, &key)?,
        ),
    }
}

/// Requests a change to a run, and shows its new state.
pub(crate) fn change_run(
    context: &Context,
    id: &str,
    action: &str,
    body: &impl Serialize,
    key: &KeyArgs,
) -> CliResult {
    let (client, key) = (context.daemon()?, key.get(context));
    show_run(context, client.post(&target::run_action_path(id, action), body, &key)?)
}

/// Shows the reply to a change to a run, which is the run's state in one line.
pub(crate) fn show_run(context: &Context, reply: Value) -> CliResult {
    let run = reply.get("run").cloned().and_then(|row| serde_json::from_value(row).ok());
    let next = run.as_ref().map(run::next_commands).unwrap_or_default();
    if context.ui.json {
        context.ui.result(reply, &next)?;
    } else if let Some(row) = &run {
        context.ui.line(&ui::run_line(context.ui.paint, row))?;
        context.ui.next(&next);
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows the reply to a change, which is the session's state in one line.
pub(crate) fn show(context: &Context, reply: Value) -> CliResult {
    let session = reply.get("session").cloned().and_then(|row| serde_json::from_value(row).ok());
    let next = session.as_ref().map(next_commands).unwrap_or_default();
    if context.ui.json {
        context.ui.result(reply, &next)?;
    } else if let Some(row) = &session {
        print_line(context, row)?;
        context.ui.next(&next);
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a session on one line.
pub(crate) fn print_line(context: &Context, row: &SessionRow) -> Result<(), Error> {
    context.ui.line(&line(context.ui.paint, row))
}

/// Describes a session on one line. If its agent could not be started, the line includes the
/// reason.
fn line(paint: Paint, row: &SessionRow) -> String {
    let (tone, words) = ui::describe_state(row);
    let words = match launch_failure(row) {
        Some(why) => format!("{}: {}", paint.paint(tone, "failed"), ui::join_lines(&why)),
        None => paint.paint(tone, &words),
    };
    format!("{} {} {words}", ui::short_id(&row.id), ui::escape_line(&row.name))
}

/// Returns the reason why the session's agent could not be started.
pub(crate) fn launch_failure(row: &SessionRow) -> Option<String> {
    (row.state == State::Failed && row.cause == Some(Cause::Launch.into()))
        .then(|| ui::reason(row))
        .flatten()
}

/// Returns advice on what to correct if the program of the session's agent cannot be run.
pub(crate) fn launch_advice(row: &SessionRow) -> Option<String> {
    let cannot_run = launch_failure(row)?.starts_with("cannot run ");
    if !cannot_run {
        return None;
    }
    if row.is_plain_command() {
        return Some("correct the command, then start it again".to_owned());
    }
    let built_in = BuiltInAgent::find(&row.agent);
    let key = built_in.map_or("command", |agent| agent.front_end.program_key());
    let agent = ui::escape_line(&row.agent);
    Some(format!("correct agents.{agent}.{key} in provost.toml, then start it again"))
}

/// Returns the commands that make sense in a session's current state.
pub(crate) fn next_commands(row: &SessionRow) -> Vec<String> {
    let id = ui::short_id(&row.id);
    let stopping = row.has_flag(Flag::Stopping);
    if stopping && !row.terminal {
        return vec![format!("provost status {id}"), format!("provost logs {id}")];
    }
    // Requests stay open until the outcome is sealed, but an agent that has exited needs no answer.
    let asked = if row.terminal { None } else { row.requests.first() };
    let mut next: Vec<String> = asked.map(RequestRow::answer_command).into_iter().collect();
    if row.has_flag(Flag::OutputLimit) {
        next.push(format!("provost limit {id} --output SIZE"));
    }
    let adopted = row.has_flag(Flag::Adopted);
    match (row.terminal, row.state.known()) {
        // The output of an adopted agent is in its own terminal and not in the logs.
        (false, _) if adopted => next.push(format!("provost status {id}")),
        (true, _) => next.extend(ended_commands(row, &id)),
        (false, Some(State::NeedsInput)) => next.extend(input_commands(row, &id)),
        (false, _) if ui::is_interrupted(row) => next.extend(interrupted_commands(row, &id)),
        (false, _) => next.push(format!("provost logs {id} -f")),
    }
    // An adopted agent is only watched and cannot be stopped by Provost.
    match (row.terminal, has_live_process(row) && !adopted) {
        (true, true) if !stopping => next.push(format!("provost stop {id}")),
        (true, _) => {}
        (false, true) => next.push(format!("provost stop {id}")),
        (false, false) => next.push(cancel(&id)),
    }
    next.dedup();
    next
}

/// Returns the commands for a session that needs input but has no open request.
///
/// A plain command does not accept messages. The operator performs the manual step and then resolves the session.
pub(super) fn input_commands(row: &SessionRow, id: &str) -> Vec<String> {
    match (row.requests.is_empty(), row.is_plain_command()) {
        (false, _) => vec![format!("provost logs {id}")],
        (true, true) => vec![format!("provost logs {id}"), accept(id), cancel(id)],
        (true, false) => vec![format!("provost send {id} TEXT"), format!("provost logs {id}")],
    }
}

/// Returns the commands to continue after an interrupted turn.
fn interrupted_commands(row: &SessionRow, id: &str) -> Vec<String> {
    let attach = row.can_attach.then(|| format!("provost attach {id}"));
    let go_on = [format!("provost resume {id}"), format!("provost send {id} TEXT")];
    go_on.into_iter().chain(attach).collect()
}

fn ended_commands(row: &SessionRow, id: &str) -> Vec<String> {
    let failed_check = row
        .checks
        .iter()
        .position(|check| check.result != CheckResultName::Passed && check.output.is_some());
    let logs = match failed_check {
        _ if setup_failed(row) => format!("provost logs {id} --setup"),
        Some(at) => format!("provost logs {id} --check {}", at + 1),
        None => format!("provost logs {id}"),
    };
    let adopted = row.has_flag(Flag::Adopted);
    let logs = if adopted { format!("provost events {id}") } else { logs };
    if row.is_good() {
        return vec![logs];
    }
    // The agent never started, so there is no work to accept.
    if launch_failure(row).is_some_and(|why| why.starts_with("cannot run ")) {
        let config = (!row.is_plain_command()).then(|| "provost config show".to_owned());
        return config.into_iter().chain([format!("provost status {id} --why")]).collect();
    }
    let judge = vec![format!("provost status {id} --why"), accept(id)];
    [vec![logs], resume_commands(row, id), judge].concat()
}

/// Returns the commands that resume a conversation that ended too early.
fn resume_commands(row: &SessionRow, id: &str) -> Vec<String> {
    if row.has_flag(Flag::Adopted) {
        // The user has to restart an adopted agent in its own terminal, and can then adopt the agent again.
        return vec!["provost discover".to_owned()];
    }
    let conversation = row.can_resume && row.thread.is_some();
    let used_up = row.cause == Some(Cause::Budget.into());
    let more = match (row.budget.tokens, row.budget.turns) {
        (Some(_), _) => "--tokens MORE",
        (None, _) => "--turns MORE",
    };
    let raise = used_up.then(|| format!("provost limit {id} {more}"));
    raise.into_iter().chain(conversation.then(|| format!("provost resume {id}"))).collect()
}

/// Whether the setup command failed. In that case, no agent was started, so the setup command's
/// output is the only output.
pub(super) fn setup_failed(row: &SessionRow) -> bool {
    row.setup.as_ref().is_some_and(|setup| setup.result == SetupResultName::Failed)
}

/// Whether a process of the session can be stopped. Once the session has ended, a process in an
/// unknown state is assumed to have exited.
fn has_live_process(row: &SessionRow) -> bool {
    let lives =
        row.process == ProcessName::Alive || (row.process == ProcessName::Unknown && !row.terminal);
    lives && row.exit.is_none()
}

fn accept(id: &str) -> String {
    format!("provost resolve {id} --as accepted --because TEXT")
}

fn cancel(id: &str) -> String {
    format!("provost cancel {id}")
}

/// Parses a key. A key must consist of visible ASCII characters, because it is sent in a header.
fn parse_key(text: &str) -> Result<String, String> {
    let plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    if plain && (1..=MAX_KEY).contains(&text.len()) {
        Ok(text.to_owned())
    } else {
        Err(format!("a key must have 1 to {MAX_KEY} visible ASCII characters and no spaces"))
    }
}

#[cfg(test)]
mod tests {
    use provost_api::Extensible;

    use super::*;

    #[test]
    fn key_rejects_header_injection() {
        assert!(parse_key("a-1").is_ok());
        for bad in ["", "a b", "a\r\nx: y", "é", &"x".repeat(201)] {
            assert!(parse_key(bad).is_err(), "{bad:?}");
        }
    }

    fn waiting_command() -> SessionRow {
        ui::test_session("x", "needs_input")
    }

    fn waiting_in_terminal() -> SessionRow {
        SessionRow { mode: Extensible::from_name("terminal"), ..waiting_command() }
    }

    fn waiting_conversation() -> SessionRow {
        SessionRow { has_conversation: true, ..waiting_command() }
    }

    #[test]
    fn waiting_plain_command_suggests_resolve() {
        let ended = SessionRow { process: Extensible::from_name("exit0"), ..waiting_command() };
        let expected = [
            "provost logs deadbeef",
            "provost resolve deadbeef --as accepted --because TEXT",
            "provost cancel deadbeef",
        ];
        assert_eq!(next_commands(&ended), expected);
        let next = next_commands(&waiting_command());
        assert_eq!(next[..3], expected);
        assert_eq!(next[3], "provost stop deadbeef", "a live session can also be stopped");
        assert_eq!(next_commands(&waiting_conversation())[0], "provost send deadbeef TEXT");
    }

    #[test]
    fn adopted_session_suggests_no_resume() {
        let row = SessionRow {
            terminal: true,
            state: Extensible::from_name("exited_without_claim"),
            thread: Some("t".to_owned()),
            can_resume: true,
            ..waiting_conversation()
        };
        let resumes = |row: &SessionRow| next_commands(row).iter().any(|n| n.contains("resume"));
        assert!(resumes(&row));
        let adopted = SessionRow { flags: vec![Extensible::from_name("adopted")], ..row };
        assert!(!resumes(&adopted));
        assert!(next_commands(&adopted).contains(&"provost discover".to_owned()));
    }

    #[test]
    fn program_that_cannot_run_suggests_its_key() {
        let why = "cannot run \"my-agent\" in \"/w\": No such file or directory (os error 2)";
        let row = SessionRow {
            terminal: true,
            state: Extensible::from_name("failed"),
            cause: Some(Extensible::from_name("launch")),
            reason: Some(why.to_owned()),
            agent: "mine".to_owned(),
            process: Extensible::from_name("not_started"),
            ..waiting_conversation()
        };
        assert_eq!(line(Paint::OFF, &row), format!("deadbeef x failed: {why}"));
        assert_eq!(
            launch_advice(&row).unwrap(),
            "correct agents.mine.command in provost.toml, then start it again"
        );
        let next = next_commands(&row);
        assert_eq!(next, ["provost config show", "provost status deadbeef --why"]);
        let plain = SessionRow { has_conversation: false, ..row };
        assert_eq!(next_commands(&plain), ["provost status deadbeef --why"]);
        assert_eq!(launch_advice(&plain).unwrap(), "correct the command, then start it again");
        let other = SessionRow { reason: Some("its worktree was removed".to_owned()), ..plain };
        assert_eq!(launch_advice(&other), None);
    }

    #[test]
    fn screen_request_suggests_attach() {
        let mut asking = ui::test_asking();
        asking.requests[0].kind = Extensible::from_name("dialog");
        assert!(asking.requests[0].can_be_denied());
        asking.requests[0].commands = vec!["provost attach deadbeef".to_owned()];
        assert_eq!(next_commands(&asking)[0], "provost attach deadbeef");
        assert!(!asking.requests[0].can_be_denied());
    }

    #[test]
    fn ended_session_suggests_no_answer() {
        let asking = ui::test_asking();
        assert!(next_commands(&asking)[0].starts_with("provost answer deadbeef.q1"));
        let cancelled =
            SessionRow { terminal: true, state: Extensible::from_name("cancelled"), ..asking };
        let next = next_commands(&cancelled);
        assert!(!next.iter().any(|command| command.contains("answer")), "{next:?}");
    }

    #[test]
    fn stop_is_suggested_only_for_own_live_process() {
        let over = SessionRow {
            terminal: true,
            state: Extensible::from_name("completed"),
            ..waiting_in_terminal()
        };
        let stop = "provost stop deadbeef".to_owned();
        assert!(next_commands(&over).contains(&stop));
        let flagged = |flag: &str, row: &SessionRow| {
            let row = SessionRow { flags: vec![Extensible::from_name(flag)], ..row.clone() };
            next_commands(&row)
        };
        for flag in ["adopted", "stopping"] {
            assert!(!flagged(flag, &over).contains(&stop), "{flag}");
        }
        let next = flagged("stopping", &waiting_in_terminal());
        assert!(!next.contains(&stop), "it is being stopped already: {next:?}");
        let next = flagged("adopted", &waiting_in_terminal());
        assert_eq!(next.last().unwrap(), "provost cancel deadbeef");
        let ended = SessionRow { process: Extensible::from_name("exit0"), ..over };
        assert!(!next_commands(&ended).contains(&stop));
    }

    #[test]
    fn ended_process_suggests_no_stop() {
        let row = SessionRow { process: Extensible::from_name("exit0"), ..waiting_conversation() };
        let next = next_commands(&row);
        assert!(next.contains(&"provost cancel deadbeef".to_owned()), "{next:?}");
        assert!(!next.iter().any(|command| command.contains("stop")), "{next:?}");
    }
}
