//! `provost presets`

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use provost_config::ConfigEntry;
use serde_json::json;

use super::spawn::spec::directory;
use crate::{
    cli::CliResult,
    context::Context,
    settings,
    ui::{self, Screen},
};

/// Show each preset with its settings and their sources
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost presets\n  provost presets careful\n  provost run 'Fix the login' --preset careful"
)]
pub(crate) struct PresetsArgs {
    /// Only this preset
    name: Option<String>,
    /// Directory whose configuration is used [default: current directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

pub(crate) fn run(context: &Context, args: &PresetsArgs) -> CliResult {
    let cwd = directory(context, args.cwd.as_deref())?;
    let load = |preset| {
        let wanted = settings::ConfigInputs { preset, ..Default::default() };
        settings::load_with(&context.environment, &cwd, wanted)
    };
    let all = load(None)?;
    let names = match &args.name {
        Some(name) => vec![name.as_str()],
        None => all.presets().into_iter().collect(),
    };
    let mut found: Vec<(&str, Vec<ConfigEntry>)> = Vec::new();
    for name in names {
        let resolved = load(Some(name))?;
        found.push((name, resolved.preset_entries().cloned().collect()));
    }
    let next = ["provost run GOAL --preset NAME".to_owned()];
    if context.ui.json {
        let presets: serde_json::Map<_, _> =
            found.iter().map(|(name, entries)| ((*name).to_owned(), json!(entries))).collect();
        context.ui.result(json!({"ok": true, "presets": presets}), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    for (at, (name, entries)) in found.iter().enumerate() {
        if at > 0 {
            context.ui.line("")?;
        }
        context.ui.line(&context.ui.paint.paint(ui::Tone::Bold, &ui::escape_line(name)))?;
        context.ui.lines(&ui::config_table(context.ui.paint, Screen::stdout(), entries))?;
    }
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}
