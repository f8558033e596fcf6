//! `provost attach`

mod terminal;

use std::{
    ffi::OsString,
    io::{IsTerminal as _, stdin, stdout},
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

use clap::Args;
use provost_agent::front_end::{AgentFrontEnd, NativeScreen, ScreenRequest};
use provost_api::{ApiError, Client, ErrorCode, LaunchPhaseName, SessionRow};
use provost_core::{ids::LaunchId, lifecycle::Flag, session::AgentMode, text::shell_quote};
use provost_engine::shell;
use provost_holder::{
    LaunchState,
    client::viewport::{ProgramViewEnd, ViewportExit},
    inspect,
};
use rustix::process::{ioctl_tiocsctty, setsid};
use serde_json::json;

use super::{input, mutation::next_commands};
use crate::{
    adapters::adapters,
    cli::CliResult,
    context::Context,
    daemon::must_be_operator,
    error::{chain, usage},
    follow::{self, EventFilter},
    home::ProvostHome,
    target, ui,
    viewport::{CurrentWindow, IN_WINDOW, TmuxViewport},
};

/// Open the live screen of an agent
///
/// Works for all agents that run in a terminal (`spawn --tty`), and for Codex 0.140 or newer. Press
/// Ctrl-\ to detach; the agent keeps running. Provost continues to supervise the session: you can
/// answer requests here or with other commands, and the first answer counts. While you are
/// attached, Provost neither asks the agent for a result nor closes the agent. If you interrupt a
/// turn here, the session waits for your next instruction.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost attach 1a2b3c4d\n  provost attach 1a2b3c4d --tmux\n  provost attach 1a2b3c4d --print\n  tmux new-window \"$(provost attach 1a2b3c4d --print)\""
)]
pub(crate) struct AttachArgs {
    /// Session ID or name
    #[arg(value_parser = input::parse_name, required_unless_present = "tmux")]
    id: Option<String>,
    /// Open the screen in a window of Provost's own tmux server, which is started if necessary.
    /// Without an ID, show the existing windows. Press Ctrl-B D to detach
    #[arg(long)]
    tmux: bool,
    /// Print the shell command instead of running it
    #[arg(long)]
    print: bool,
    /// Mark this process as running inside a window of Provost's own tmux server
    #[arg(long = IN_WINDOW, hide = true)]
    in_window: bool,
}

pub(crate) fn run(context: &Context, args: &AttachArgs) -> CliResult {
    let home = context.trusted_home()?;
    let client = context.daemon()?;
    // Agents cannot attach to a screen, because an agent could then approve its own requests.
    must_be_operator(&client)?;
    let row = args.id.as_deref().map(|id| target::find_session(&client, id)).transpose()?;
    let place = shell::Home::new(&home.path);
    if args.tmux {
        return in_tmux(context, &home, row.as_ref(), args.print);
    }
    // clap guarantees that a session is given here.
    let Some(row) = row else { return Err(usage("no session given").into()) };
    if has_terminal(&row) {
        let row = wait_until_started(context, &client, row)?;
        let window =
            args.in_window.then(|| CurrentWindow::from_environment(&home, &context.environment));
        return attach_terminal(context, &place, &row, args.print, window);
    }
    let attached = attachable(&row)?;
    check_listening(&place, &row, attached.launch)?;
    let screen = native_screen(&place, &row, &attached)?;
    if context.ui.json {
        let NativeScreen { argv, env, unset } = &screen;
        context.ui.result(json!({"argv": argv, "env": env, "unset": unset}), &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.print {
        context.ui.line(&for_shell(&screen))?;
        return Ok(ExitCode::SUCCESS);
    }
    must_be_terminal(&row)?;
    match run_screen(&screen, &place, attached.launch, || context.ui.notice(DETACH_HINT))? {
        // The program's exit status only means that its screen was closed.
        ProgramViewEnd::Detached | ProgramViewEnd::Exited(_) => {
            report_detached(context, &client, &row.id)
        }
        ProgramViewEnd::Over => Err(ended(&attached.launch.session.short()).into()),
    }
}

/// The message that is printed when a user attaches.
const DETACH_HINT: &str = "attached: press Ctrl-\\ to detach; the agent keeps running";

/// Reports the state of the session after the user has detached.
fn report_detached(context: &Context, client: &Client, id: &str) -> CliResult {
    let row = target::find_session(client, id)?;
    let (notice, next) = match (row.terminal, ui::is_interrupted(&row)) {
        (true, _) => ("detached; the session has ended", next_commands(&row)),
        (false, true) => (
            "detached; the turn was interrupted, and the session is waiting for your next instruction",
            next_commands(&row),
        ),
        (false, false) => {
            let short = ui::short_id(id);
            let next = [format!("provost status {short}"), format!("provost attach {short}")];
            ("detached; the agent keeps running", next.to_vec())
        }
    };
    context.ui.notice(notice);
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

fn has_terminal(row: &SessionRow) -> bool {
    row.mode == AgentMode::Terminal
}

/// Shows the agent's own terminal.
fn attach_terminal(
    context: &Context,
    place: &shell::Home,
    row: &SessionRow,
    print: bool,
    window: Option<CurrentWindow>,
) -> CliResult {
    let id = ui::short_id(&row.id);
    refuse_adopted(row, &id)?;
    let launch = running_launch(row, &id)?;
    let command = attach_command(context, &row.id)?;
    if context.ui.json {
        context.ui.result(json!({"command": command}), &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    if print {
        context.ui.line(&command)?;
        return Ok(ExitCode::SUCCESS);
    }
    must_be_terminal(row)?;
    let hint = || context.ui.notice(DETACH_HINT);
    match terminal::show(&place.launch(launch), window, hint)? {
        ViewportExit::Detached => context.ui.notice("detached; the agent keeps running"),
        ViewportExit::Ended => context.ui.notice(&format!("session {id}'s terminal has ended")),
    }
    context.ui.next(&[format!("provost status {id}")]);
    Ok(ExitCode::SUCCESS)
}

/// Returns the command that shows a terminal. The command does not depend on the shell's home or
/// current directory.
fn attach_command(context: &Context, id: &str) -> Result<String, ApiError> {
    let home = context.home()?.path.display().to_string();
    let program = std::env::current_exe().map_err(|why| {
        ApiError::new(ErrorCode::Internal, format!("cannot find the path of this program: {why}"))
    })?;
    let (home, program) = (shell_quote(&home), shell_quote(&program.display().to_string()));
    Ok(format!("env PROVOST_HOME={home} {program} attach {id}"))
}

/// Waits until a starting agent is running.
fn wait_until_started(
    context: &Context,
    client: &Client,
    row: SessionRow,
) -> Result<SessionRow, ApiError> {
    let starts = |row: &SessionRow| {
        let phase = row.launches.last().map(|launch| launch.phase.as_str());
        matches!(phase, None | Some("pending")) && !row.terminal
    };
    if !starts(&row) {
        return Ok(row);
    }
    // The row is read after this sequence number, so the row includes all events up to it.
    let since = follow::newest(context)?;
    let events = follow::follow_in_background(EventFilter::Session(row.id.clone()), since)?;
    loop {
        let row = target::find_session(client, &row.id)?;
        if !starts(&row) {
            return Ok(row);
        }
        let ended = || ApiError::new(ErrorCode::Unreachable, "the event stream has ended");
        events.recv().map_err(|_| ended())??;
    }
}

/// Shows a session in Provost's own tmux server, or all sessions that have a window there.
fn in_tmux(
    context: &Context,
    home: &ProvostHome,
    row: Option<&SessionRow>,
    print: bool,
) -> CliResult {
    let viewport = TmuxViewport::prepare(context)?;
    let window = match row {
        None => None,
        Some(row) => {
            check_showable(row)?;
            Some(viewport.open_window(&row.id, &row.name)?)
        }
    };
    let words = viewport.attach_command(window.as_ref());
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    if context.ui.json {
        context.ui.result(json!({"argv": words, "cwd": home.path}), &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    if print {
        let words: Vec<String> = words.iter().map(|word| shell_quote(word)).collect();
        context.ui.line(&words.join(" "))?;
        return Ok(ExitCode::SUCCESS);
    }
    Err(viewport.attach(window.as_ref(), row.map(|row| ui::short_id(&row.id)).as_deref()).into())
}

/// Checks that the session has a screen. If the agent is still starting, the command in the window
/// waits for it.
fn check_showable(row: &SessionRow) -> Result<(), ApiError> {
    let id = ui::short_id(&row.id);
    refuse_adopted(row, &id)?;
    match running_launch(row, &id) {
        Ok(_) => Ok(()),
        Err(_) if !row.terminal && row.launches.len() < 2 => Ok(()),
        Err(why) => Err(why),
    }
}

fn refuse_adopted(row: &SessionRow, id: &str) -> Result<(), ApiError> {
    if row.has_flag(Flag::Adopted) {
        let message = format!(
            "session {id} runs outside Provost; its screen is in the terminal where it was started"
        );
        let there = if row.terminal { None } else { row.screen.clone() };
        let next = there.unwrap_or_else(|| format!("provost status {id}"));
        return Err(ApiError::new(ErrorCode::Refused, message).next(next));
    }
    Ok(())
}

/// The launch and the conversation to which the user attaches.
struct AttachTarget {
    launch: LaunchId,
    thread: String,
    front_end: &'static dyn AgentFrontEnd,
}

/// Returns the live conversation of a session, or an error that explains why the user cannot attach
/// to it.
fn attachable(row: &SessionRow) -> Result<AttachTarget, ApiError> {
    let id = ui::short_id(&row.id);
    let refused = |message: String| ApiError::new(ErrorCode::Refused, message);
    let logs = format!("provost logs {id} -f");
    if row.mode == AgentMode::Once {
        let message = format!("session {id} runs a single instruction and has no screen");
        return Err(refused(message).next(logs));
    }
    let adapter = if row.can_attach { adapters().with_id(&row.adapter).ok() } else { None };
    let Some(front_end) = adapter.and_then(|adapter| adapter.front_end()) else {
        let message =
            format!("session {id} cannot be attached to: {} has no screen of its own", row.agent);
        return Err(refused(message).next(logs));
    };
    if let Some(obstacle) = front_end.attach_obstacle(row.version.as_deref()) {
        return Err(refused(format!("session {id} {obstacle}")).next(logs));
    }
    let launch = running_launch(row, &id)?;
    // Some agents save a conversation only when its first turn starts. Before that, the conversation cannot be opened.
    let thread = if row.turns > 0 { row.thread.clone() } else { None };
    let thread = thread.ok_or_else(|| {
        refused(format!("session {id} has not started a turn yet; try again in a moment"))
            .next(format!("provost status {id}"))
    })?;
    Ok(AttachTarget { launch, thread, front_end })
}

/// Returns the running launch of a session, or an error that explains why there is none.
fn running_launch(row: &SessionRow, id: &str) -> Result<LaunchId, ApiError> {
    let refused = |message: String| ApiError::new(ErrorCode::Refused, message);
    let status = format!("provost status {id}");
    let newest = row.launches.last();
    match newest.map(|launch| (launch.phase.known(), launch)) {
        Some((Some(LaunchPhaseName::Running), launch)) => launch.id.parse().map_err(|why| {
            ApiError::new(ErrorCode::Internal, format!("cannot parse the launch id: {why}"))
        }),
        None | Some((Some(LaunchPhaseName::Pending), _)) if !row.terminal => {
            let message = format!("session {id} is being started; try again in a moment");
            Err(refused(message).next(status))
        }
        Some((Some(LaunchPhaseName::Unobserved), _)) => {
            Err(refused(format!("session {id} cannot be observed at the moment")).next(status))
        }
        None | Some(_) => Err(ended(id)),
    }
}

fn ended(id: &str) -> ApiError {
    let message = format!("session {id} has ended; resume it before you attach");
    ApiError::new(ErrorCode::Refused, message)
        .next(format!("provost resume {id}"))
        .next(format!("provost send {id} TEXT"))
}

fn must_be_terminal(row: &SessionRow) -> Result<(), ApiError> {
    if stdin().is_terminal() && stdout().is_terminal() {
        return Ok(());
    }
    let message =
        "attaching needs a terminal; print the command with --print, and run it in a terminal";
    Err(usage(message).next(format!("provost attach {} --print", ui::short_id(&row.id))))
}

/// Checks that the agent is listening. It starts listening shortly after launch, and stops shortly
/// before it exits.
fn check_listening(
    place: &shell::Home,
    row: &SessionRow,
    launch: LaunchId,
) -> Result<(), ApiError> {
    let (id, socket) = (ui::short_id(&row.id), place.attach_socket(launch));
    match (socket.exists(), row.terminal) {
        (true, _) => Ok(()),
        (false, true) => Err(ended(&id)),
        (false, false) => {
            let message = format!("session {id} is not listening on {}", socket.display());
            Err(ApiError::new(ErrorCode::Refused, message).next(format!("provost status {id}")))
        }
    }
}

/// Returns the agent's own screen on the conversation.
fn native_screen(
    place: &shell::Home,
    row: &SessionRow,
    attached: &AttachTarget,
) -> Result<NativeScreen, ApiError> {
    let path = env_path();
    let request = ScreenRequest {
        argv: &row.argv,
        thread: &attached.thread,
        socket: &place.attach_socket(attached.launch),
        dir: &place.agent(attached.launch.session),
        path: path.as_deref(),
    };
    attached.front_end.native_screen(&request).map_err(|why| {
        let id = ui::short_id(&row.id);
        ApiError::new(ErrorCode::Refused, format!("session {id} {why}"))
            .next(format!("provost logs {id} -f"))
    })
}

/// Returns a single line that every POSIX shell parses in the same way.
fn for_shell(screen: &NativeScreen) -> String {
    let unset = screen.unset.iter().flat_map(|name| ["-u".to_owned(), (*name).to_owned()]);
    let set = screen.env.iter().map(|(name, value)| format!("{name}={}", shell_quote(value)));
    let words = screen.argv.iter().map(|word| shell_quote(word));
    let all = std::iter::once("env".to_owned()).chain(unset).chain(set).chain(words);
    all.collect::<Vec<_>>().join(" ")
}

/// Runs the program until the user detaches, the program exits or the launch ends. Calls `ready` as
/// soon as the user can detach.
fn run_screen(
    screen: &NativeScreen,
    place: &shell::Home,
    launch: LaunchId,
    ready: impl FnOnce(),
) -> Result<ProgramViewEnd, ApiError> {
    let cannot = |why: &dyn std::error::Error| {
        let what = format!("cannot run {}", screen.argv.first().map_or("", String::as_str));
        chain(ErrorCode::Refused, &what, why).next("provost doctor")
    };
    let program = std::env::current_exe().map_err(|why| cannot(&why))?;
    let mut command = Command::new(program);
    command.arg(LEAD_TERMINAL).args(&screen.argv).envs(&screen.env);
    screen.unset.iter().for_each(|name| {
        command.env_remove(name);
    });
    let dir = place.launch(launch);
    let is_over = || {
        !matches!(
            inspect(&dir),
            Ok(LaunchState::Alive { .. } | LaunchState::Starting { .. }) | Err(_)
        )
    };
    terminal::show_program(command, is_over, ready).map_err(|why| cannot(&why))
}

/// The first argument that makes this program take standard input as its controlling terminal and
/// exec another program.
pub(crate) const LEAD_TERMINAL: &str = "lead-terminal";

/// Starts a new session on the terminal at standard input, and execs a program. Returns only if this fails.
pub(crate) fn exec_as_terminal_leader(argv: &[OsString]) -> CliResult {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(usage("no program given").into());
    };
    let led = setsid().and_then(|_| ioctl_tiocsctty(stdin())).map_err(std::io::Error::from);
    let why = match led {
        Ok(()) => Command::new(program).args(arguments).exec(),
        Err(why) => why,
    };
    let message = format!("cannot run {}: {why}", program.display());
    Err(ApiError::new(ErrorCode::Refused, message).next("provost doctor").into())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the program may be a script that needs its interpreter"
)]
fn env_path() -> Option<std::ffi::OsString> {
    std::env::var_os("PATH")
}

#[cfg(test)]
#[cfg(feature = "codex")]
mod tests {
    use std::{collections::BTreeMap, process::Stdio};

    use provost_api::Extensible;

    use super::*;

    const THREAD: &str = "01a1e1cd-51fa-72c1-bd3a-4c2216676dd9";

    fn codex_row() -> SessionRow {
        SessionRow {
            adapter: "codex".to_owned(),
            can_attach: true,
            agent: "codex".to_owned(),
            argv: vec!["/opt/it's codex".to_owned(), "-c".to_owned(), "model=\"m\"".to_owned()],
            version: Some("0.166.0".to_owned()),
            thread: Some(THREAD.to_owned()),
            turns: 1,
            ..ui::test_session("fixer", "working")
        }
    }

    fn with_phase(phase: &str) -> SessionRow {
        let mut row = codex_row();
        row.launches[0].phase = Extensible::from_name(phase);
        row
    }

    fn refusal(row: &SessionRow) -> String {
        let error = attachable(row).err().unwrap();
        assert_eq!(error.code, ErrorCode::Refused);
        let next: Vec<String> = error.next.iter().map(ToString::to_string).collect();
        format!("{}; next: {}", error.message, next.join(" | "))
    }

    #[test]
    fn screen_uses_newest_launch_and_thread() {
        let mut row = codex_row();
        let mut second = row.launches[0].clone();
        row.launches[0].phase = Extensible::from_name("ended");
        second.id = second.id.replace(".l1", ".l2");
        row.launches.push(second);
        let attached = attachable(&row).unwrap();
        assert_eq!(attached.thread, THREAD);
        assert!(attached.launch.to_string().ends_with(".l2"), "{}", attached.launch);
    }

    #[test]
    fn printed_line_round_trips_through_shell() {
        let dir = tempfile::tempdir().unwrap();
        let awkward = "it's $HOME; `x` \"y\" *";
        let show = "printf '%s\\n' \"$CODEX_HOME\" \"${CODEX_SQLITE_HOME-unset}\" \"$@\"";
        let screen = NativeScreen {
            argv: ["sh", "-c", show, "sh", awkward, ""].map(str::to_owned).to_vec(),
            env: BTreeMap::from([("CODEX_HOME".to_owned(), awkward.to_owned())]),
            unset: vec!["CODEX_SQLITE_HOME"],
        };
        let ran = Command::new("sh")
            .args(["-c", &for_shell(&screen)])
            .env("CODEX_SQLITE_HOME", dir.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let expected = format!("{awkward}\nunset\n{awkward}\n\n");
        assert_eq!(String::from_utf8(ran.stdout).unwrap(), expected);
    }

    #[test]
    fn session_without_screen_is_rejected() {
        let exec = SessionRow { mode: Extensible::from_name("once"), ..codex_row() };
        assert!(refusal(&exec).contains("single instruction"), "{}", refusal(&exec));
        let plain = ui::test_session("x", "working");
        insta::assert_snapshot!(refusal(&plain), @"session deadbeef cannot be attached to: command has no screen of its own; next: provost logs deadbeef -f");
    }

    #[test]
    fn old_agent_is_rejected_with_version() {
        let old = SessionRow { version: Some("0.107.0".to_owned()), ..codex_row() };
        insta::assert_snapshot!(refusal(&old), @"session deadbeef runs Codex 0.107.0, which does not support attaching; use Codex 0.140.0 or newer; next: provost logs deadbeef -f");
    }

    #[test]
    fn ended_or_starting_session_is_rejected() {
        insta::assert_snapshot!(refusal(&with_phase("ended")), @"session deadbeef has ended; resume it before you attach; next: provost resume deadbeef | provost send deadbeef TEXT");
        let cancelled = SessionRow { terminal: true, launches: Vec::new(), ..codex_row() };
        assert!(refusal(&cancelled).contains("has ended"), "{}", refusal(&cancelled));
        assert!(refusal(&with_phase("pending")).contains("being started"));
        assert!(refusal(&with_phase("unobserved")).contains("cannot be observed"));
        let unbegun = SessionRow { turns: 0, ..codex_row() };
        assert!(refusal(&unbegun).contains("not started a turn yet"), "{}", refusal(&unbegun));
    }

    #[test]
    fn missing_socket_reports_end_or_not_listening() {
        let dir = tempfile::tempdir().unwrap();
        let (place, row) = (shell::Home::new(dir.path()), codex_row());
        let launch = attachable(&row).unwrap().launch;
        let message = |row: &SessionRow| check_listening(&place, row, launch).unwrap_err().message;
        assert!(message(&row).contains("is not listening on"), "{}", message(&row));
        let over = SessionRow { terminal: true, ..row };
        assert!(message(&over).contains("has ended"), "{}", message(&over));
        let socket = place.attach_socket(launch);
        std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
        std::fs::write(socket, "").unwrap();
        check_listening(&place, &over, launch).unwrap();
    }

    #[test]
    fn invalid_thread_id_is_rejected() {
        let row = SessionRow { thread: Some("--last".to_owned()), ..codex_row() };
        let attached = attachable(&row).unwrap();
        let why = native_screen(&shell::Home::new("/p"), &row, &attached).unwrap_err();
        assert!(why.message.contains("invalid Codex thread id"), "{why:?}");
    }
}
