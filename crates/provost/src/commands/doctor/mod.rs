//! `provost doctor`

mod daemon;
mod history;
mod home;
mod machine;
mod path;

use std::process::ExitCode;

use clap::Args;
use provost_agent::front_end::{DoctorFinding, FindingLevel};
use provost_config::Resolved;
use serde_json::json;

use crate::{
    cli::CliResult,
    commands::{
        config::ignored_project_file,
        spawn::built_in::{BuiltInAgent, read_only_context},
    },
    context::Context,
    settings,
    trust::{self, TrustWarning},
    ui,
};

/// Find problems with the setup, and how to fix them
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost doctor\n  provost doctor --json | jq '.findings[] | select(.level != \"ok\")'"
)]
pub(crate) struct DoctorArgs {}

pub(crate) fn run(context: &Context, _args: &DoctorArgs) -> CliResult {
    let findings = examine(context);
    let failed = findings.iter().any(|finding| finding.level == FindingLevel::Fail);
    if context.ui.json {
        let mut value = json!({"ok": !failed, "findings": findings});
        if failed {
            let what: Vec<_> = findings
                .iter()
                .filter(|found| found.level == FindingLevel::Fail)
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

fn examine(context: &Context) -> Vec<DoctorFinding> {
    let config = context
        .environment
        .current_dir()
        .and_then(|cwd| settings::load(&context.environment, &cwd, Vec::new()));
    let mut findings = Vec::new();
    match context.home() {
        Err(error) => findings.push(DoctorFinding::fail(
            "home",
            error.message,
            "export PROVOST_HOME=DIRECTORY",
        )),
        Ok(home) => {
            findings.extend(home::examine(&home));
            findings.extend(daemon::examine(&home, config.as_ref().ok(), &context.environment));
        }
    }
    findings.push(match &config {
        Ok(_) => DoctorFinding::ok("config", "valid"),
        Err(error) => DoctorFinding::fail(
            "config",
            error.message.clone(),
            "correct the file; `provost config schema` lists every key",
        ),
    });
    findings.extend(ignored_config(context));
    findings.extend(untrusted_project(context));
    findings.extend(path::examine(&context.environment, config.as_ref().ok()));
    findings.extend(machine::examine(&context.environment));
    findings.extend(match &config {
        Ok(config) => agents(context, config),
        Err(_) => BuiltInAgent::all().map(|agent| skipped(agent.name())).collect(),
    });
    findings
}

/// Checks the installation of every agent that an adapter supports.
fn agents(context: &Context, config: &Resolved) -> Vec<DoctorFinding> {
    let cwd = context.environment.current_dir();
    let front = cwd.and_then(|cwd| read_only_context(context, config, &cwd));
    let home = context.home().ok().map(|home| home.path);
    let examine = |agent: BuiltInAgent| match &front {
        Ok(front) => agent.front_end.examine(front, home.as_deref()),
        Err(error) => vec![DoctorFinding::warn(agent.name(), error.message.clone(), "cd ~")],
    };
    BuiltInAgent::all().flat_map(examine).collect()
}

/// Returns the finding for a check that needs the configuration while the configuration has errors.
fn skipped(what: &'static str) -> DoctorFinding {
    DoctorFinding::skipped(what, "not checked, because the configuration has errors")
}

/// Warns if the project is not trusted yet, because Provost starts nothing in such projects.
fn untrusted_project(context: &Context) -> Option<DoctorFinding> {
    let cwd = context.environment.current_dir().ok()?;
    let TrustWarning { problem, command } = trust::warning(&context.environment, &cwd)?;
    let fix = command.unwrap_or_else(|| "make the file readable, or remove it".to_owned());
    Some(DoctorFinding::warn("trust", problem, fix))
}

/// Warns about a `provost.toml` that is ignored because it is not in a repository.
fn ignored_config(context: &Context) -> Option<DoctorFinding> {
    let cwd = context.environment.current_dir().ok()?;
    let problem = ignored_project_file(&cwd, settings::project_top(&cwd).as_deref())?;
    Some(DoctorFinding::warn(
        "config",
        problem,
        "run `git init`, or move the settings to your own provost.toml",
    ))
}
