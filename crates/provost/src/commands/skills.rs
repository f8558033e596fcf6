//! `provost skills`

mod stubs;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use provost_agent::front_end::{SkillListing, SkillState};
use provost_api::{ApiError, ErrorCode};
use serde_json::{Value, json};

use self::stubs::{STUBS, Stub, StubAction};
use super::spawn::built_in::{BuiltInAgent, front_end_context};
use crate::{
    cli::CliResult,
    context::Context,
    error::usage,
    settings,
    ui::{ColumnFit, Screen, Table, Tone, escape_line},
};

/// List Codex's skills, and install those of Provost
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost skills list\n  provost skills install --dry-run\n  provost skills list --cwd ~/src/app --json"
)]
pub(crate) struct SkillsArgs {
    #[command(subcommand)]
    what: SkillsCommand,
}

#[derive(Debug, Subcommand)]
enum SkillsCommand {
    /// List all skills, and why some are skipped
    #[command(
        after_help = "Examples:\n  provost skills list\n  provost skills list --json | jq '.skills[] | select(.used | not)'"
    )]
    List(ListArgs),
    /// Install the skills for managing and reviewing with Provost
    ///
    /// Each skill is a stub that points the agent to `provost guide`. Files that Provost did not
    /// write are never overwritten.
    #[command(
        after_help = "Examples:\n  provost skills install\n  provost skills install --repo --dry-run\n  provost skills install --to ~/.codex/skills"
    )]
    Install(SkillsDirArgs),
    /// Remove the skills that `install` wrote
    #[command(
        after_help = "Examples:\n  provost skills remove\n  provost skills remove --repo --dry-run"
    )]
    Remove(SkillsDirArgs),
}

#[derive(Debug, Args)]
struct SkillsDirArgs {
    /// Use `.agents/skills` of the current repository instead of `~/.agents/skills`
    #[arg(long, conflicts_with = "to")]
    repo: bool,
    /// Use this directory instead of `~/.agents/skills`
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Show what would change, without changing it
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Directory in which the session would work [default: current directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

pub(crate) fn run(context: &Context, args: &SkillsArgs) -> CliResult {
    let args = match &args.what {
        SkillsCommand::List(args) => args,
        SkillsCommand::Install(args) => return install(context, args),
        SkillsCommand::Remove(args) => return remove(context, args),
    };
    let cwd = args.cwd.clone().map_or_else(|| context.environment.current_dir(), Ok)?;
    let cwd = std::fs::canonicalize(&cwd)
        .map_err(|why| usage(format!("cannot resolve {}: {why}", cwd.display())))?;
    let config = settings::load(&context.environment, &cwd, Vec::new())?;
    let front = front_end_context(context, &config)?;
    let mut skills = Vec::new();
    for agent in BuiltInAgent::all() {
        skills.extend(agent.front_end.skills(&front, &cwd)?.unwrap_or_default());
    }
    show(context, &skills)
}

/// Installs the stubs. If any of them cannot be installed, nothing is changed.
fn install(context: &Context, args: &SkillsDirArgs) -> CliResult {
    let root = skills_dir(context, args)?;
    let mut plans = Vec::new();
    for stub in &STUBS {
        let action = stub.plan_install(&root).map_err(|why| failed(stub, &root, &why))?;
        if let StubAction::Refuse(why) = action {
            let path = stub.directory(&root).display().to_string();
            let message = format!("cannot install {path}, nothing was changed: {why}");
            return Err(ApiError::new(ErrorCode::Refused, message).into());
        }
        plans.push((stub, action));
    }
    if !args.dry_run {
        for (stub, action) in &plans {
            stub.perform(*action, &root).map_err(|why| failed(stub, &root, &why))?;
        }
    }
    show_plans(context, &plans, &root, args.dry_run)
}

fn failed(stub: &Stub, root: &Path, why: &std::io::Error) -> ApiError {
    usage(format!("cannot change {}: {why}", stub.directory(root).display()))
}

/// Removes each stub separately. A stub that the user has changed is kept, but the others are still removed.
fn remove(context: &Context, args: &SkillsDirArgs) -> CliResult {
    let root = skills_dir(context, args)?;
    let (mut plans, mut kept) = (Vec::new(), Vec::new());
    for stub in &STUBS {
        match stub.plan_remove(&root).map_err(|why| failed(stub, &root, &why))? {
            StubAction::Refuse(why) => kept.push((stub, why)),
            action @ (StubAction::Write
            | StubAction::Replace
            | StubAction::Remove
            | StubAction::Nothing) => {
                plans.push((stub, action));
            }
        }
    }
    if !args.dry_run {
        for (stub, action) in &plans {
            stub.perform(*action, &root).map_err(|why| failed(stub, &root, &why))?;
        }
    }
    if kept.is_empty() {
        return show_plans(context, &plans, &root, args.dry_run);
    }
    let stay =
        |(stub, why): &(&Stub, &str)| format!("{} is kept: {why}", stub.directory(&root).display());
    let gone = plans.iter().filter(|(_, action)| *action == StubAction::Remove).map(|(stub, _)| {
        let would = if args.dry_run { "would be " } else { "" };
        format!("{} {would}removed", stub.directory(&root).display())
    });
    let reasons: Vec<String> = kept.iter().map(stay).chain(gone).collect();
    Err(ApiError::new(ErrorCode::Refused, reasons.join("; ")).into())
}

fn skills_dir(context: &Context, args: &SkillsDirArgs) -> Result<PathBuf, ApiError> {
    let skills = |above: &Path| above.join(".agents/skills");
    match (&args.to, args.repo) {
        (Some(directory), _) => Ok(context.environment.current_dir()?.join(directory)),
        (None, true) => {
            let here = context.environment.current_dir()?;
            let top = here.ancestors().find(|above| above.join(".git").exists());
            top.map(skills).ok_or_else(|| {
                usage(format!("{} is not in a git repository", here.display()))
                    .next("provost skills install --to DIR")
            })
        }
        (None, false) => context
            .environment
            .path("HOME")
            .map(|home| skills(&home))
            .ok_or_else(|| usage("HOME is not set").next("provost skills install --to DIR")),
    }
}

fn show_plans(
    context: &Context,
    plans: &[(&Stub, StubAction)],
    root: &Path,
    dry_run: bool,
) -> CliResult {
    let next = ["provost guide managing".to_owned()];
    if context.ui.json {
        let rows: Vec<Value> = plans
            .iter()
            .map(|(stub, action)| {
                let path = stub.directory(root).display().to_string();
                json!({"name": stub.name, "path": path, "done": action_name(*action)})
            })
            .collect();
        context.ui.result(json!({"ok": true, "dry_run": dry_run, "skills": rows}), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    let would = if dry_run { "would be " } else { "" };
    let lines: Vec<String> = plans
        .iter()
        .map(|(stub, action)| {
            let path = escape_line(&stub.directory(root).display().to_string());
            match action {
                StubAction::Nothing => format!("{path}: up to date"),
                StubAction::Write
                | StubAction::Replace
                | StubAction::Remove
                | StubAction::Refuse(_) => {
                    format!("{path}: {would}{}", action_name(*action))
                }
            }
        })
        .collect();
    context.ui.lines(&lines)?;
    Ok(ExitCode::SUCCESS)
}

fn action_name(action: StubAction) -> &'static str {
    match action {
        StubAction::Write => "installed",
        StubAction::Replace => "replaced",
        StubAction::Remove => "removed",
        StubAction::Nothing => "nothing",
        StubAction::Refuse(_) => "refused",
    }
}

fn show(context: &Context, skills: &[SkillListing]) -> CliResult {
    let used = skills.iter().filter(|skill| skill.is_used()).count();
    let (listed, skipped) = (skills.len(), skills.len() - used);
    if context.ui.json {
        let rows: Vec<Value> = skills.iter().map(skill_json).collect();
        let value =
            json!({"ok": true, "listed": listed, "used": used, "skipped": skipped, "skills": rows});
        context.ui.result(value, &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    if !skills.is_empty() {
        context.ui.lines(&table(context, skills))?;
    }
    context.ui.notice(&format!("{used} used and {skipped} skipped, of {listed}"));
    Ok(ExitCode::SUCCESS)
}

fn skill_json(skill: &SkillListing) -> Value {
    let (delivery, reason) = match &skill.state {
        SkillState::Used { delivery, .. } => (Some(delivery), None),
        SkillState::Skipped(reason) => (None, Some(reason)),
    };
    json!({
        "name": skill.name,
        "description": skill.description,
        "path": skill.path.display().to_string(),
        "root": {"path": skill.root.display().to_string(), "kind": skill.root_kind},
        "used": skill.is_used(),
        "delivery": delivery,
        "reason": reason,
    })
}

fn table(context: &Context, skills: &[SkillListing]) -> Vec<String> {
    let columns =
        [("SKILL", ColumnFit::Whole), ("STANDING", ColumnFit::Start), ("PATH", ColumnFit::End)];
    let mut table = Table::new(&columns);
    for skill in skills {
        let (tone, status) = match &skill.state {
            SkillState::Used { detail: None, .. } => (Tone::Good, "used".to_owned()),
            SkillState::Used { detail: Some(detail), .. } => {
                (Tone::Good, format!("used, {detail}"))
            }
            SkillState::Skipped(reason) => (Tone::Warn, format!("skipped: {reason}")),
        };
        table.row([
            (Tone::Bold, escape_line(&skill.name)),
            (tone, escape_line(&status)),
            (Tone::Dim, escape_line(&skill.path.display().to_string())),
        ]);
    }
    table.lines(context.ui.paint, Screen::stdout())
}
