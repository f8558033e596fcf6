//! `provost import`

use std::path::PathBuf;

use clap::Args;
use provost_ledger::Bundle;
use serde_json::json;

use super::{
    export::{IMPORT, bundle_error},
    ledger,
};
use crate::{cli::Outcome, context::Context, ui};

/// Read a bundle of `provost export`: compare it with its manifest, and take it into an empty home
///
/// Whatever differs from the manifest is refused, and nothing is taken. What is taken in is over: nothing is owed and
/// nothing is started. What was still open in the bundle is closed, with an event that says so.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost import limits-bundle --only-look\n  PROVOST_HOME=/new/home provost import limits-bundle"
)]
pub(crate) struct ImportArgs {
    /// The directory that `provost export` wrote
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
    /// Compare it with its manifest and show what is in it; take nothing
    #[arg(long)]
    only_look: bool,
}

pub(crate) fn run(context: &Context, args: &ImportArgs) -> Outcome {
    let bundle = Bundle::open(&args.directory).map_err(|why| bundle_error(&why))?;
    let manifest = &bundle.manifest;
    let holds = format!(
        "{} and {} sessions, {} events",
        manifest.subject,
        manifest.streams.len().saturating_sub(1),
        manifest.records
    );
    let id = ui::short(manifest.subject.key());
    if args.only_look {
        let value = json!({"ok": true, "manifest": manifest});
        return ledger::done(context, value, &format!("it is whole: {holds}"), &[IMPORT]);
    }
    let mut input = bundle.streams().map_err(|why| bundle_error(&why))?;
    let (imported, mut value) =
        ledger::take_in(context, &mut input, false).map_err(|why| why.told(IMPORT))?;
    value["manifest"] = json!(manifest);
    let closed = match imported.closed {
        0 => String::new(),
        closed => format!("; {closed} that were open are closed here"),
    };
    let next = [format!("provost replay {id}"), format!("provost audit {id}")];
    let next: Vec<&str> = next.iter().map(String::as_str).collect();
    ledger::done(context, value, &format!("imported {holds}{closed}"), &next)
}
