//! `provost daemon`

use std::process::ExitCode;

use clap::{Args, Subcommand};
use provost_api::{Code, DaemonInfo, ErrorBody};
use serde_json::{Value, json};

use super::change::KeyArgs;
use crate::{cli::Outcome, context::Context, daemon, ui};

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

/// A daemon that does not run is as stopped as was asked for.
fn stop(context: &Context, args: &StopArgs) -> Outcome {
    let reply = match daemon::connect_only(&context.trusted_home()?) {
        Ok(client) => client.post("/v1/daemon/stop", &json!({}), &args.key.get(context))?,
        Err(error) if error.code == Code::Unreachable => json!({"ok": true, "running": false}),
        Err(error) => return Err(error.into()),
    };
    let was_running = reply.get("running") != Some(&Value::Bool(false));
    if context.ui.json {
        context.ui.result(reply, &["provost daemon status".to_owned()])?;
    } else {
        context.ui.talk(if was_running { "the daemon leaves" } else { "no daemon runs" });
    }
    Ok(ExitCode::SUCCESS)
}

fn status(context: &Context) -> Outcome {
    let info: DaemonInfo = daemon::connect_only(&context.trusted_home()?)?.get("/v1/daemon")?;
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
        read_only,
    ];
    context.ui.lines(&lines.into_iter().flatten().collect::<Vec<_>>())?;
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}
