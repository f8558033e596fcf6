//! `provost daemon`

use std::{process::ExitCode, time::Duration};

use clap::{Args, Subcommand};
use provost_api::{ApiError, Code, DaemonInfo, ErrorBody};
use provost_holder::{Identity, spec::MARK};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::change::KeyArgs;
use crate::{
    cli::Outcome,
    clock,
    context::{Context, ledger_warning},
    daemon::{
        self,
        keeper::{Keeper, unheard},
    },
    home::Home,
    ui,
};

/// How often it is looked whether a daemon that was asked, or sent a signal, is gone: for 5 s.
const STOP_TRIES: u32 = 500;

/// How often it is looked whether a daemon is gone that waits for a landing.
const LANDING_TRIES: u32 =
    STOP_TRIES + (daemon::LANDING_PATIENCE.as_millis() / STOP_PAUSE.as_millis()) as u32;

/// How long a daemon may take to answer before it is ended by a signal.
const STOP_ANSWER: Duration = Duration::from_secs(3);

/// How often a daemon that has the ledger and does not answer is asked before it is ended by a signal. The one that
/// was asked first may have left meanwhile, and the next be starting.
const ASKING_TRIES: u32 = 2;

/// How long it is waited between two looks.
const STOP_PAUSE: Duration = Duration::from_millis(10);

/// Run, stop or look at the daemon
///
/// Commands that need the daemon start it by themselves.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost daemon status\n  provost daemon run\n  provost daemon stop"
)]
pub(crate) struct DaemonArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Be the daemon, in the foreground, as under systemd
    #[command(
        after_help = "Examples:\n  provost daemon run\n  systemd-run --user provost daemon run"
    )]
    Run(RunArgs),
    /// Have the daemon leave; agents go on and are found again by the next one
    #[command(after_help = "Examples:\n  provost daemon stop")]
    Stop(StopArgs),
    /// Say whether the daemon runs, and which one
    #[command(
        after_help = "Examples:\n  provost daemon status\n  provost daemon status --json | jq .pid"
    )]
    Status,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// Was started by a command, which waits for it
    #[arg(long, hide = true)]
    detached: bool,
}

#[derive(Debug, Args)]
struct StopArgs {
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &DaemonArgs) -> Outcome {
    match &args.what {
        What::Run(args) => be(context, args),
        What::Stop(args) => stop(context, args),
        What::Status => status(context),
    }
}

/// Whoever started a detached daemon reads from its output why it did not start.
fn be(context: &Context, args: &RunArgs) -> Outcome {
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

/// A daemon that does not run is as stopped as was asked for. One that is on its way in or out is waited for;
/// one that cannot be asked is told by a signal.
fn stop(context: &Context, args: &StopArgs) -> Outcome {
    let home = context.trusted_home()?;
    let mut unheard_of = None;
    for _ in 0..ASKING_TRIES {
        match ask_to_leave(context, &home, args) {
            Err(error) if matches!(error.code, Code::Unreachable | Code::TimedOut) => {
                match Keeper::of(&home)? {
                    Keeper::Daemon(daemon) => unheard_of = Some(daemon),
                    Keeper::Nobody | Keeper::Other => {
                        let reply = json!({"ok": true, "running": false});
                        return stopped(context, reply, "no daemon runs");
                    }
                }
                if error.code == Code::TimedOut {
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
    dismiss(context, &home, &daemon)
}

/// Says that the daemon is gone, and what is not.
fn describe(left: &Left) -> String {
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

/// A daemon that left, and what it left running.
struct Left {
    reply: Value,
    running_agents: usize,
    landing_continues: bool,
}

/// Asks the daemon to leave and waits for that.
fn ask_to_leave(context: &Context, home: &Home, args: &StopArgs) -> Result<Left, ApiError> {
    let client = daemon::connect_within(home, STOP_ANSWER)?;
    let info: DaemonInfo = client.get("/v1/daemon")?;
    let process = Identity::of(info.pid).ok().flatten();
    let reply: Value = client.post("/v1/daemon/stop", &json!({}), &args.key.get(context))?;
    let left = |reply, landing_continues| Left {
        reply,
        running_agents: info.running_agents,
        landing_continues,
    };
    if reply["landing"] != true {
        wait_for_the_end(info.pid, process.as_ref(), STOP_TRIES)?;
        return Ok(left(reply, false));
    }
    context.ui.talk("waiting for a landing to finish");
    let looks = wait_for_the_end(info.pid, process.as_ref(), LANDING_TRIES)?;
    Ok(left(reply, STOP_PAUSE * looks >= daemon::LANDING_PATIENCE))
}

/// Ends a daemon that does not answer: by TERM, then by KILL. What runs inside a launch may not, as it may not ask it
/// either.
fn dismiss(context: &Context, home: &Home, daemon: &Identity) -> Outcome {
    if context.environment.get(MARK).is_some() {
        return Err(unheard(home, daemon).into());
    }
    let send = |signal| {
        Keeper::signal(daemon, signal).map_err(|why| {
            let message = format!("the daemon (pid {}) cannot be sent a signal: {why}", daemon.pid);
            ApiError::new(Code::Unreachable, message).next("provost doctor")
        })
    };
    let was_there = send(Signal::TERM)?;
    let mut how = "the daemon left; it did not answer";
    if wait_for_the_end(daemon.pid, Some(daemon), STOP_TRIES).is_err() {
        how = "the daemon did not answer and did not end on TERM; it was killed";
        send(Signal::KILL)?;
        wait_for_the_end(daemon.pid, Some(daemon), STOP_TRIES)?;
    }
    stopped(context, json!({"ok": true, "running": was_there}), how)
}

fn stopped(context: &Context, reply: Value, text: &str) -> Outcome {
    match context.ui.json {
        true => context.ui.result(reply, &["provost daemon status".to_owned()])?,
        false => context.ui.talk(text),
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits until the process is gone, so that what comes next meets no daemon half gone. Returns after how many looks.
fn wait_for_the_end(pid: u32, process: Option<&Identity>, tries: u32) -> Result<u32, ApiError> {
    for look in 0..tries {
        // A process that cannot be looked at is not waited for.
        if !process.is_some_and(|process| process.is_alive().unwrap_or(false)) {
            return Ok(look);
        }
        clock::pause(STOP_PAUSE);
    }
    let message = format!("the daemon (pid {pid}) was asked to leave and is still there");
    Err(ApiError::new(Code::TimedOut, message).next("provost daemon status"))
}

/// Whoever asks whether a daemon runs is not told to ask that: what needs one starts it.
fn not_there(error: ApiError) -> ApiError {
    match error.code {
        Code::Unreachable => ApiError { next: Vec::new(), ..error }.next("provost ls"),
        Code::Failed
        | Code::BadRequest
        | Code::NotFound
        | Code::Refused
        | Code::Forbidden
        | Code::TimedOut
        | Code::InputNeeded
        | Code::ReadOnly
        | Code::Storage
        | Code::Internal => error,
    }
}

fn status(context: &Context) -> Outcome {
    let asked = daemon::connect_only(&context.trusted_home()?);
    let info: DaemonInfo = asked.and_then(|client| client.get("/v1/daemon")).map_err(not_there)?;
    let next = ["provost ls".to_owned(), "provost doctor".to_owned()];
    if context.ui.json {
        context.ui.result(json!(info), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    let read_only = info.read_only.as_ref().map(|why| format!("read-only   {}", ui::clean(why)));
    let lines = [
        Some(format!("pid         {}", info.pid)),
        Some(format!("version     {} (protocol {})", ui::clean(&info.version), info.protocol)),
        Some(format!("socket      {}", ui::clean(&info.socket))),
        Some(format!("home        {}", ui::clean(&info.home))),
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
