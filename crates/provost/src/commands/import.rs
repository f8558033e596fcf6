//! `provost import`

use std::path::PathBuf;

use clap::Args;
use provost_ledger::Bundle;
use serde_json::json;

use super::{
    export::{IMPORT, bundle_error},
    ledger,
};
use crate::{cli::CliResult, context::Context, ui};

/// Import a bundle into an empty home
///
/// If the bundle does not match its manifest, nothing is imported. The import does not start any
/// processes. It closes each open session, run and team, and records an event for each.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost import limits-bundle --dry-run\n  PROVOST_HOME=/new/home provost import limits-bundle"
)]
pub(crate) struct ImportArgs {
    /// Directory that `provost export` wrote
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
    /// Verify the bundle and show its content, without importing it
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(context: &Context, args: &ImportArgs) -> CliResult {
    let bundle = Bundle::open(&args.directory).map_err(|why| bundle_error(&why))?;
    let manifest = &bundle.manifest;
    let holds = format!(
        "{} and {} sessions, {} events",
        manifest.subject,
        manifest.streams.len().saturating_sub(1),
        manifest.records
    );
    let id = ui::short_id(manifest.subject.key());
    if args.dry_run {
        let value = json!({"ok": true, "manifest": manifest});
        return ledger::show_done(
            context,
            value,
            &format!("the bundle is intact: {holds}"),
            &[IMPORT],
        );
    }
    let mut input = bundle.streams().map_err(|why| bundle_error(&why))?;
    let (imported, mut value) = ledger::import_into_empty(context, &mut input, false)
        .map_err(|why| why.into_api_error(IMPORT))?;
    value["manifest"] = json!(manifest);
    let closed = match imported.closed {
        0 => String::new(),
        closed => format!("; {closed} open streams were closed"),
    };
    let next = [format!("provost replay {id}"), format!("provost audit {id}")];
    let next: Vec<&str> = next.iter().map(String::as_str).collect();
    ledger::show_done(context, value, &format!("imported {holds}{closed}"), &next)
}
