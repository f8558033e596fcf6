//! `provost config`

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use provost_agent::front_end::EffectiveSetting;
use provost_config::Resolved;
use serde_json::json;

use super::spawn::{
    agents,
    built_in::{BuiltInAgent, read_only_context},
    reactions,
};
use crate::{
    cli::CliResult,
    context::Context,
    error::usage,
    settings, trust,
    ui::{self, Screen},
};

/// Show the configuration and where each value came from
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost config show\n  provost config schema > provost.schema.json"
)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    what: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Show every key with its value, source and overridden values
    #[command(
        after_help = "Examples:\n  provost config show\n  provost config show --cwd ~/src/app --json"
    )]
    Show(ConfigShowArgs),
    /// Print the JSON Schema of provost.toml, for editors
    ///
    /// An editor with a TOML language server, such as Taplo, completes and checks the keys if the
    /// first line of provost.toml is `#:schema ./provost.schema.json`.
    #[command(after_help = "Examples:\n  provost config schema > provost.schema.json")]
    Schema,
}

#[derive(Debug, Args)]
struct ConfigShowArgs {
    /// Directory whose configuration is used [default: current directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

pub(crate) fn run(context: &Context, args: &ConfigArgs) -> CliResult {
    match &args.what {
        ConfigCommand::Show(args) => show(context, args),
        ConfigCommand::Schema => {
            let schema = provost_config::schema();
            let text = if context.ui.json { schema.to_string() } else { format!("{schema:#}") };
            context.ui.line(&text)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn show(context: &Context, args: &ConfigShowArgs) -> CliResult {
    let cwd = args.cwd.clone().map_or_else(|| context.environment.current_dir(), Ok)?;
    let cwd = std::fs::canonicalize(&cwd)
        .map_err(|why| usage(format!("cannot resolve {}: {why}", cwd.display())))?;
    let resolved = settings::load(&context.environment, &cwd, Vec::new())?;
    let warnings = resolved.warnings.iter().map(ToString::to_string);
    let warnings: Vec<String> = warnings
        .chain(ignored_project_file(&cwd, settings::project_top(&cwd).as_deref()))
        .chain(trust::warning(&context.environment, &cwd).map(|warning| warning.sentence()))
        .chain(invalid_settings(&resolved))
        .collect();
    let found = effective_settings(context, &resolved, &cwd);
    let next = vec!["provost config schema".to_owned()];
    if context.ui.json {
        let found: serde_json::Map<String, serde_json::Value> = found
            .iter()
            .map(|found| (found.key.clone(), json!({"value": found.on, "source": found.source})))
            .collect();
        let value = json!({"ok": true, "entries": resolved.explain(), "resolved": found, "warnings": warnings});
        context.ui.result(value, &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    warnings.iter().for_each(|warning| context.ui.warn(warning));
    context.ui.lines(&ui::config_table(context.ui.paint, Screen::stdout(), resolved.explain()))?;
    for EffectiveSetting { key, on, source } in found {
        let on = if on { "on" } else { "off" };
        context.ui.line(&format!("\n{key} is {on} (from {source})."))?;
    }
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

/// Returns an error for each setting that can be parsed but would be rejected when it is used.
fn invalid_settings(resolved: &Resolved) -> Vec<String> {
    let reactions = reactions::invalid_reactions(resolved).into_iter();
    let reactions = reactions.map(|why| format!("{why}; sessions cannot start with this setting"));
    let fallbacks = resolved.workflows.iter().flat_map(|(name, workflow)| {
        let agents = workflow.fallback.iter();
        let unknown = agents.filter_map(|one| agents::find_outline(one.as_str(), resolved).err());
        unknown.map(move |why| format!("workflows.{name}.fallback: {}", why.message))
    });
    reactions.chain(fallbacks).collect()
}

/// Returns the effective values of settings that agents decide if the configuration does not.
fn effective_settings(context: &Context, resolved: &Resolved, cwd: &Path) -> Vec<EffectiveSetting> {
    let Ok(front) = read_only_context(context, resolved, cwd) else { return Vec::new() };
    BuiltInAgent::all().flat_map(|agent| agent.front_end.effective_settings(&front)).collect()
}

/// Warns about a `provost.toml` that is ignored because it is not in a repository. The file can
/// contain commands to run, and anyone may write to a directory such as `/tmp`.
pub(crate) fn ignored_project_file(cwd: &Path, project: Option<&Path>) -> Option<String> {
    let file = cwd.join("provost.toml");
    let there = file.symlink_metadata().is_ok();
    (there && project.is_none()).then(|| {
        format!(
            "{} is not read: it is not in a git repository; run `git init` to create one",
            file.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_outside_repository_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(ignored_project_file(dir.path(), None), None);
        std::fs::write(dir.path().join("provost.toml"), "").unwrap();
        assert!(
            ignored_project_file(dir.path(), None).unwrap().contains("provost.toml is not read")
        );
        assert_eq!(ignored_project_file(dir.path(), Some(dir.path())), None);
    }
}
