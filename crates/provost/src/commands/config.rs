//! `provost config`

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use serde_json::json;

use crate::{cli::Outcome, context::Context, error::usage, settings, ui};

/// Show the configuration and where each value came from
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost config show\n  provost config schema > provost.schema.json"
)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show every key with its value, its source and the values that it hides
    #[command(
        after_help = "Examples:\n  provost config show\n  provost config show --cwd ~/src/app --json"
    )]
    Show(ShowArgs),
    /// Print the JSON Schema of provost.toml, for editors
    #[command(after_help = "Examples:\n  provost config schema > provost.schema.json")]
    Schema,
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// The directory that it is shown for
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

pub(crate) fn run(context: &Context, args: &ConfigArgs) -> Outcome {
    match &args.what {
        What::Show(args) => show(context, args),
        What::Schema => {
            let schema = provost_config::schema();
            let text = if context.ui.json { schema.to_string() } else { format!("{schema:#}") };
            context.ui.line(&text)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn show(context: &Context, args: &ShowArgs) -> Outcome {
    let cwd = args.cwd.clone().map_or_else(|| context.environment.here(), Ok)?;
    let cwd = std::fs::canonicalize(&cwd)
        .map_err(|why| usage(format!("cannot go to {}: {why}", cwd.display())))?;
    let resolved = settings::load(&context.environment, &cwd, Vec::new())?;
    let warnings: Vec<String> = resolved.warnings.iter().map(ToString::to_string).collect();
    let next = vec!["provost config schema".to_owned()];
    if context.ui.json {
        let value = json!({"ok": true, "entries": resolved.explain(), "warnings": warnings});
        context.ui.result(value, &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    warnings.iter().for_each(|warning| context.ui.warn(warning));
    context.ui.lines(&ui::config_table(context.ui.paint, resolved.explain()))?;
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}
