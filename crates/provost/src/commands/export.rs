//! `provost export`

use std::path::PathBuf;

use clap::Args;
use provost_api::{ApiError, ErrorCode};
use provost_core::text::shell_quote;
use provost_engine::{history, shell, stream::TEAM};
use provost_ledger::{BundleError, StreamId};
use provost_sys::origin::ProcessOrigin;
use serde_json::json;

use super::{input, ledger};
use crate::{
    cli::CliResult,
    context::Context,
    daemon::{self, must_be_operator},
    error::{chain, from_causes},
    ui,
};

/// Export the events of a team as a bundle
///
/// A bundle consists of the events of the team and its sessions, and a manifest with their digests.
/// It includes all messages, even proposals that members cannot see yet, but not the output of
/// agents or checks. `provost import` imports a bundle. Agents are not allowed to export. To export
/// the events of all sessions, runs and teams, use `provost ledger export`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost export limits --to limits-bundle\n  provost export limits --to now --snapshot"
)]
pub(crate) struct ExportArgs {
    /// Team ID or name
    #[arg(value_name = "TEAM", value_parser = input::parse_name)]
    team: String,
    /// Directory to create
    #[arg(long, value_name = "DIRECTORY")]
    to: PathBuf,
    /// Export the current state even if the team or one of its sessions is still open; `provost
    /// import` closes the imported copy
    #[arg(long)]
    snapshot: bool,
}

/// Rejects agents, because a bundle contains text that is hidden from members, such as another member's blind proposal.
/// If a daemon is running, the daemon identifies the caller. Otherwise this process checks its own ancestry in the same
/// way, but accepts an unknown ancestry, so that the operator can always export.
pub(super) fn refuse_agents(context: &Context) -> Result<(), ApiError> {
    let home = context.trusted_home()?;
    if let Ok(daemon) = daemon::connect_only(&home) {
        return must_be_operator(&daemon).map_err(|why| {
            if why.code == ErrorCode::Forbidden { not_for_agents(&why.message) } else { why }
        });
    }
    match daemon::peer::own_origin(&shell::Home::new(&home.path))? {
        ProcessOrigin::Operator | ProcessOrigin::Unproven { .. } | ProcessOrigin::Daemon => Ok(()),
        ProcessOrigin::Supervised { dir, .. } => {
            Err(not_for_agents(&format!("this process belongs to {}", dir.display())))
        }
        ProcessOrigin::Marked { key } => {
            Err(not_for_agents(&format!("this process belongs to {key}")))
        }
        ProcessOrigin::Helper => Err(not_for_agents("this process was started by the daemon")),
    }
}

fn not_for_agents(why: &str) -> ApiError {
    let message = format!(
        "agents are not permitted to export, because a bundle contains text that is hidden from members; {why}"
    );
    ApiError::new(ErrorCode::Forbidden, message).next("provost replay TEAM")
}

pub(crate) fn run(context: &Context, args: &ExportArgs) -> CliResult {
    refuse_agents(context)?;
    let reader = ledger::reader(context)?;
    let id = history::resolve_task(&reader, &args.team)?;
    let (streams, open) = history::streams_of(&reader, id)?;
    if !open.is_empty() && !args.snapshot {
        return Err(still_open(&open, &args.team).into());
    }
    let subject = provost_engine::stream::stream_id(id);
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
    ledger::show_done(context, value, &text, &[IMPORT])
}

/// The command that imports a bundle, which requires an empty home.
pub(super) const IMPORT: &str = "PROVOST_HOME=EMPTY_DIRECTORY provost import DIRECTORY";

fn still_open(open: &[StreamId], task: &str) -> ApiError {
    let named: Vec<String> = open
        .iter()
        .map(|stream| format!("{} {}", stream.kind(), ui::short_id(stream.key())))
        .collect();
    let message = format!(
        "cannot export work that is still open: {}; export the current state with --snapshot",
        named.join(", ")
    );
    let ends = open.iter().take(3).map(|stream| match stream.kind() {
        TEAM => format!("provost team done {} --because TEXT", ui::short_id(stream.key())),
        _ => format!("provost stop {}", ui::short_id(stream.key())),
    });
    let snapshot = format!("provost export {} --to DIRECTORY --snapshot", shell_quote(task));
    let next = ends.chain([snapshot]);
    next.fold(ApiError::new(ErrorCode::Refused, message), ApiError::next)
}

pub(super) fn bundle_error(why: &BundleError) -> ApiError {
    let code = match why {
        BundleError::Exists { .. } => ErrorCode::Refused,
        BundleError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            ErrorCode::NotFound
        }
        BundleError::Io { .. } | BundleError::Export(_) => ErrorCode::Storage,
        BundleError::NotRegular { .. }
        | BundleError::InvalidManifest { .. }
        | BundleError::Version { .. }
        | BundleError::Altered { .. }
        | BundleError::Line { .. } => ErrorCode::BadRequest,
    };
    if matches!(why, BundleError::Exists { .. }) {
        return from_causes(code, why).next("provost export TEAM --to NEW_DIRECTORY");
    }
    chain(code, "cannot read or write the bundle", why)
}
