//! `provost export`

use std::path::PathBuf;

use clap::Args;
use provost_api::{ApiError, Code};
use provost_core::text::shell_word;
use provost_engine::{look, shell, stream::TASK};
use provost_ledger::{BundleError, StreamId};
use provost_sys::{
    origin::Origin,
    peer::{self, Pinning},
    register::Register,
};
use serde_json::json;

use super::{input, ledger};
use crate::{
    cli::Outcome,
    context::Context,
    daemon::{self, must_be_operator},
    error::chain,
    ui,
};

/// Export a team as a bundle of events and digests
///
/// The bundle has the events of the team and of its sessions, and a manifest of digests; `provost import` reads it. It
/// contains everything that was written, including proposals that members cannot see yet, but nothing outside the
/// ledger: no output of agents or checks. Agents may not export. `provost ledger export` exports the whole ledger.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost export limits --to limits-bundle\n  provost export limits --to now --snapshot"
)]
pub(crate) struct ExportArgs {
    /// Team ID (a unique part is enough) or name
    #[arg(value_name = "TASK", value_parser = input::parse_name)]
    task: String,
    /// Directory to create
    #[arg(long, value_name = "DIRECTORY")]
    to: PathBuf,
    /// Export the current state even if the team or one of its sessions is open; the import closes it
    #[arg(long)]
    snapshot: bool,
}

/// Refuses agents: a bundle has text that is hidden from members, such as a blind proposal of another member. A running
/// daemon identifies the caller. Without one the origin is determined here in the same way; then the operator must be
/// able to export even if they cannot prove that they never ran below a holder that was killed.
pub(super) fn refuse_agents(context: &Context) -> Result<(), ApiError> {
    let home = context.trusted_home()?;
    if let Ok(daemon) = daemon::connect_only(&home) {
        return must_be_operator(&daemon).map_err(|why| {
            if why.code == Code::Forbidden { not_for_agents(&why.message) } else { why }
        });
    }
    let boundary = shell::Home::new(&home.path).boundary(Pinning::Best);
    let origin = Register::read(&boundary.register)
        .map_err(peer::Error::from)
        .and_then(|register| boundary.judge(&peer::Peer::own()?, &register))
        .map_err(|why| daemon::peer::unidentified(&why))?;
    match origin {
        Origin::Operator | Origin::Unproven { .. } | Origin::Daemon => Ok(()),
        Origin::Held { dir, .. } => {
            Err(not_for_agents(&format!("this process belongs to {}", dir.display())))
        }
        Origin::Marked { key } => Err(not_for_agents(&format!("this process belongs to {key}"))),
        Origin::Helper => Err(not_for_agents("this process is below the daemon")),
    }
}

fn not_for_agents(why: &str) -> ApiError {
    let message =
        format!("an agent may not export: a bundle has text that is hidden from members; {why}");
    ApiError::new(Code::Forbidden, message).next("provost replay TASK")
}

pub(crate) fn run(context: &Context, args: &ExportArgs) -> Outcome {
    refuse_agents(context)?;
    let reader = ledger::reader(context)?;
    let id = look::resolve_task(&reader, &args.task)?;
    let (streams, open) = look::streams_of(&reader, id)?;
    if !open.is_empty() && !args.snapshot {
        return Err(still_open(&open, &args.task).into());
    }
    let subject = provost_engine::stream::task_stream_id(id);
    let manifest =
        provost_ledger::write_bundle(&reader, &subject, &streams, !open.is_empty(), &args.to)
            .map_err(|why| bundle_error(&why))?;
    let directory = args.to.display().to_string();
    let text = format!(
        "{directory} holds {} streams, {} events",
        manifest.streams.len(),
        manifest.records
    );
    let value = json!({"ok": true, "directory": directory, "manifest": manifest});
    ledger::done(context, value, &text, &[IMPORT])
}

/// The command that reads a bundle; it needs an empty home.
pub(super) const IMPORT: &str = "PROVOST_HOME=EMPTY_DIRECTORY provost import DIRECTORY";

fn still_open(open: &[StreamId], task: &str) -> ApiError {
    let named: Vec<String> = open
        .iter()
        .map(|stream| format!("{} {}", stream.kind(), ui::short(stream.key())))
        .collect();
    let message =
        format!("still open: {}; export the current state with --snapshot", named.join(", "));
    let ends = open.iter().take(3).map(|stream| match stream.kind() {
        TASK => format!("provost finish {} --because TEXT", ui::short(stream.key())),
        _ => format!("provost stop {}", ui::short(stream.key())),
    });
    let snapshot = format!("provost export {} --to DIRECTORY --snapshot", shell_word(task));
    let next = ends.chain([snapshot]);
    next.fold(ApiError::new(Code::Refused, message), ApiError::next)
}

pub(super) fn bundle_error(why: &BundleError) -> ApiError {
    let code = match why {
        BundleError::Exists { .. } => Code::Refused,
        BundleError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Code::NotFound
        }
        BundleError::Io { .. } | BundleError::Export(_) => Code::Storage,
        BundleError::NoFile { .. }
        | BundleError::NoManifest { .. }
        | BundleError::Version { .. }
        | BundleError::Altered { .. }
        | BundleError::Line { .. } => Code::BadRequest,
    };
    chain(code, "cannot read or write the bundle", why)
}
