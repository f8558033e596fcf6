//! `provost daemon`

use std::{process::ExitCode, time::Duration};

use clap::{Args, Subcommand};
use provost_api::{ApiError, DaemonInfo, ErrorBody, ErrorCode};
use provost_holder::{ProcessInstance, spec::MARK};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::mutation::KeyArgs;
use crate::{
    cli::CliResult,
    clock,
    context::{Context, ledger_warning},
    daemon::{
        self,
        ledger_lock::{LedgerOwner, unresponsive_error},
    },
    home::ProvostHome,
    ui,
};

/// The maximum number of checks whether a daemon has exited after a stop request or signal, within
/// 5 s in total.
const STOP_TRIES: u32 = 500;

/// The maximum number of checks whether a daemon has exited while it waits for a landing to finish.
const LANDING_TRIES: u32 =
    STOP_TRIES + (daemon::LANDING_TIMEOUT.as_millis() / STOP_PAUSE.as_millis()) as u32;

/// The maximum time that a daemon may take to respond to a stop request before it gets a signal.
const STOP_ANSWER: Duration = Duration::from_secs(3);

/// The number of stop requests to send to an unresponsive daemon before it gets a signal. A single request is not
/// enough, because the daemon that received the request may have exited while the next daemon is starting.
const MAX_STOP_REQUESTS: u32 = 2;

/// The pause between two checks whether a daemon has exited.
const STOP_PAUSE: Duration = Duration::from_millis(10);

/// Run, stop or inspect the daemon
///
/// Commands that need the daemon start it automatically.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost daemon status\n  provost daemon run\n  provost daemon stop"
)]
pub(crate) struct DaemonArgs {
    #[command(subcommand)]
    what: DaemonCommand,
}

#[derive(Debug, Subcommand)]
enum DaemonCommand {
    /// Run the daemon in the foreground (for systemd)
    #[command(
        after_help = "Examples:\n  provost daemon run\n  systemd-run --user provost daemon run"
    )]
    Run(DaemonRunArgs),
    /// Stop the daemon; agents keep running
    #[command(after_help = "Examples:\n  provost daemon stop")]
    Stop(DaemonStopArgs),
    /// Show whether the daemon is running, and its version
    #[command(
        after_help = "Examples:\n  provost daemon status\n  provost daemon status --json | jq .pid"
    )]
    Status,
}

#[derive(Debug, Args)]
struct DaemonRunArgs {
    /// Run in the background, for a command that waits until the daemon is ready
    #[arg(long, hide = true)]
    detached: bool,
}

#[derive(Debug, Args)]
struct DaemonStopArgs {
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &DaemonArgs) -> CliResult {
    match &args.what {
        DaemonCommand::Run(args) => run_daemon(context, args),
        DaemonCommand::Stop(args) => stop(context, args),
        DaemonCommand::Status => status(context),
    }
}

/// Runs the daemon. If it was started in the background, the command that started it reads its
/// output to learn why it failed to start.
fn run_daemon(context: &Context, args: &DaemonRunArgs) -> CliResult {
    let served = context.home().and_then(|home| {
        home.prepare()?;
        daemon::run(&home, args.detached)
    });
    match served {
        Err(error) if args.detached => {
            context.ui.value(&ErrorBody::from(error.clone()))?;
            Ok(ExitCode::from(error.code.exit_code()))
        }
        other => Ok(other.map(|()| ExitCode::SUCCESS)?),
    }
}

/// Stops the daemon, or succeeds immediately if none is running. Waits for a daemon that is starting or stopping, and
/// sends a signal to a daemon that does not respond.
fn stop(context: &Context, args: &DaemonStopArgs) -> CliResult {
    let home = context.trusted_home()?;
    let mut unheard_of = None;
    for _ in 0..MAX_STOP_REQUESTS {
        match request_stop(context, &home, args) {
            Err(error) if matches!(error.code, ErrorCode::Unreachable | ErrorCode::TimedOut) => {
                match LedgerOwner::read(&home)? {
                    LedgerOwner::Daemon(daemon) => unheard_of = Some(daemon),
                    LedgerOwner::Unowned | LedgerOwner::Other => {
                        let reply = json!({"ok": true, "running": false});
                        return stopped(context, reply, "the daemon is not running");
                    }
                }
                if error.code == ErrorCode::TimedOut {
                    break;
                }
            }
            asked => {
                let mut left = asked?;
                left.reply["running_agents"] = json!(left.running_agents);
                let text = describe(&left);
                return stopped(context, left.reply, &text);
            }
        }
    }
    let daemon = unheard_of.expect("every try found a daemon");
    kill_unresponsive(context, &home, &daemon)
}

/// Describes which work continues after the daemon has stopped.
fn describe(left: &StoppedDaemon) -> String {
    let agents = match left.running_agents {
        0 => String::new(),
        1 => "; 1 agent is still running (provost ls)".to_owned(),
        many => format!("; {many} agents are still running (provost ls)"),
    };
    let landing = if left.landing_continues {
        "; a landing continues, and the next daemon waits for it"
    } else {
        ""
    };
    format!("daemon stopped{agents}{landing}")
}

/// A daemon that has stopped, and the work that is still running.
struct StoppedDaemon {
    reply: Value,
    running_agents: usize,
    landing_continues: bool,
}

/// Asks the daemon to stop, and waits until it has stopped.
fn request_stop(
    context: &Context,
    home: &ProvostHome,
    args: &DaemonStopArgs,
) -> Result<StoppedDaemon, ApiError> {
    let client = daemon::connect_within(home, STOP_ANSWER)?;
    let info: DaemonInfo = client.get("/v1/daemon")?;
    let process = ProcessInstance::of_pid(info.pid).ok().flatten();
    let reply: Value = client.post("/v1/daemon/stop", &json!({}), &args.key.get(context))?;
    let left = |reply, landing_continues| StoppedDaemon {
        reply,
        running_agents: info.running_agents,
        landing_continues,
    };
    if reply["landing"] != true {
        wait_for_exit(info.pid, process.as_ref(), STOP_TRIES)?;
        return Ok(left(reply, false));
    }
    context.ui.notice("waiting for a landing or a clean-up to finish");
    let looks = wait_for_exit(info.pid, process.as_ref(), LANDING_TRIES)?;
    Ok(left(reply, STOP_PAUSE * looks >= daemon::LANDING_TIMEOUT))
}

/// Terminates an unresponsive daemon with SIGTERM, then SIGKILL. Fails if the caller belongs to a
/// launch, because such processes are not allowed to stop the daemon.
fn kill_unresponsive(context: &Context, home: &ProvostHome, daemon: &ProcessInstance) -> CliResult {
    if context.environment.get(MARK).is_some() {
        return Err(unresponsive_error(home, daemon).into());
    }
    let send = |signal| {
        LedgerOwner::signal(daemon, signal).map_err(|why| {
            let message = format!("cannot signal the daemon (pid {}): {why}", daemon.pid);
            ApiError::new(ErrorCode::Unreachable, message).next("provost doctor")
        })
    };
    let was_there = send(Signal::TERM)?;
    let mut how = "daemon stopped with SIGTERM because it did not respond";
    if wait_for_exit(daemon.pid, Some(daemon), STOP_TRIES).is_err() {
        how = "daemon killed because it did not respond and ignored SIGTERM";
        send(Signal::KILL)?;
        wait_for_exit(daemon.pid, Some(daemon), STOP_TRIES)?;
    }
    stopped(context, json!({"ok": true, "running": was_there}), how)
}

fn stopped(context: &Context, reply: Value, text: &str) -> CliResult {
    if context.ui.json {
        context.ui.result(reply, &["provost daemon status".to_owned()])?;
    } else {
        context.ui.notice(text);
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits until the process has exited, so that the next command never connects to a daemon that is
/// exiting. Returns the number of checks performed.
fn wait_for_exit(pid: u32, process: Option<&ProcessInstance>, tries: u32) -> Result<u32, ApiError> {
    for look in 0..tries {
        // A process that cannot be inspected is assumed to have exited.
        if !process.is_some_and(|process| process.is_alive().unwrap_or(false)) {
            return Ok(look);
        }
        clock::sleep(STOP_PAUSE);
    }
    let message = format!("the daemon (pid {pid}) was asked to stop but is still running");
    Err(ApiError::new(ErrorCode::TimedOut, message).next("provost daemon status"))
}

/// If the daemon is unreachable, suggests `provost ls`, which starts a daemon. The hint replaces the suggestion of
/// `daemon status` in the error, because that command would fail again.
fn replace_status_hint(error: ApiError) -> ApiError {
    match error.code {
        ErrorCode::Unreachable => ApiError { next: Vec::new(), ..error }.next("provost ls"),
        ErrorCode::Failed
        | ErrorCode::BadRequest
        | ErrorCode::NotFound
        | ErrorCode::Refused
        | ErrorCode::Forbidden
        | ErrorCode::TimedOut
        | ErrorCode::InputNeeded
        | ErrorCode::ReadOnly
        | ErrorCode::Storage
        | ErrorCode::Internal => error,
    }
}

fn status(context: &Context) -> CliResult {
    let asked = daemon::connect_only(&context.trusted_home()?);
    let info: DaemonInfo =
        asked.and_then(|client| client.get("/v1/daemon")).map_err(replace_status_hint)?;
    let next = ["provost ls".to_owned(), "provost doctor".to_owned()];
    if context.ui.json {
        context.ui.result(json!(info), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    let read_only =
        info.read_only.as_ref().map(|why| format!("read-only   {}", ui::escape_line(why)));
    let lines = [
        Some(format!("pid         {}", info.pid)),
        Some(format!(
            "version     {} (protocol {})",
            ui::escape_line(&info.version),
            info.protocol
        )),
        Some(format!("socket      {}", ui::escape_line(&info.socket))),
        Some(format!("home        {}", ui::escape_line(&info.home))),
        Some(format!("sessions    {} live", info.live_sessions)),
        Some(format!("agents      {} running", info.running_agents)),
        read_only,
    ];
    context.ui.lines(&lines.into_iter().flatten().collect::<Vec<_>>())?;
    context.ui.lines(&ui::shortage_lines(context.ui.paint, &info.shortages))?;
    if !info.unknown_holders.is_empty() {
        context.ui.line("")?;
        context.ui.lines(&ui::unknown_lines(context.ui.paint, &info.unknown_holders))?;
    }
    if let Some(warning) = ledger_warning(&info) {
        context.ui.warn(&warning);
    }
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}
