//! `provost doctor`

mod codex;
mod daemon;
mod history;
mod home;
mod machine;
mod path;

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::{
    cli::Outcome,
    commands::config::unread,
    context::Context,
    settings, trust,
    ui::{self, Finding, Level},
};

/// Find problems with the setup, and how to fix them
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost doctor\n  provost doctor --json | jq '.findings[] | select(.level != \"ok\")'"
)]
pub(crate) struct DoctorArgs {}

pub(crate) fn run(context: &Context, _args: &DoctorArgs) -> Outcome {
    let findings = examine(context);
    let failed = findings.iter().any(|finding| finding.level == Level::Fail);
    if context.ui.json {
        let mut value = json!({"ok": !failed, "findings": findings});
        if failed {
            let what: Vec<_> = findings
                .iter()
                .filter(|found| found.level == Level::Fail)
                .map(|found| found.what)
                .collect();
            value["error"] = json!({"code": "failed", "message": format!("problems found: {}", what.join(", ")), "next": []});
        }
        context.ui.result(value, &[])?;
    } else {
        context.ui.lines(&ui::finding_lines(context.ui.paint, &findings))?;
    }
    Ok(ExitCode::from(u8::from(failed)))
}

fn examine(context: &Context) -> Vec<Finding> {
    let config = context
        .environment
        .here()
        .and_then(|cwd| settings::load(&context.environment, &cwd, Vec::new()));
    let mut findings = Vec::new();
    match context.home() {
        Err(error) => {
            findings.push(Finding::fail("home", error.message, "export PROVOST_HOME=DIRECTORY"))
        }
        Ok(home) => {
            findings.extend(home::examine(&home));
            findings.extend(daemon::examine(&home, config.as_ref().ok(), &context.environment));
        }
    }
    findings.push(match &config {
        Ok(_) => Finding::ok("config", "valid"),
        Err(error) => {
            Finding::fail("config", error.message.clone(), "correct it; provost config schema")
        }
    });
    findings.extend(ignored(context));
    findings.extend(project(context));
    findings.extend(path::examine(&context.environment, config.as_ref().ok()));
    findings.extend(machine::examine(&context.environment));
    findings.extend(config.iter().flat_map(|config| codex::examine(context, config)));
    findings
}

/// Warns about a project that is not trusted yet, so its files are ignored.
fn project(context: &Context) -> Option<Finding> {
    let cwd = context.environment.here().ok()?;
    let found = trust::warning(&context.environment, &cwd)?;
    Some(Finding::warn("trust", found, "provost trust"))
}

/// Warns about a `provost.toml` that is ignored because it is outside a repository.
fn ignored(context: &Context) -> Option<Finding> {
    let cwd = context.environment.here().ok()?;
    let told = unread(&cwd, settings::project_top(&cwd).as_deref())?;
    Some(Finding::warn(
        "config",
        told,
        "run git init, or move its settings to your own provost.toml",
    ))
}
