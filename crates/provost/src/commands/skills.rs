//! `provost skills`

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use provost_agents::skills::{Delivery, RootKind, Skill, Standing};
use serde_json::{Value, json};

use crate::{
    cli::Outcome,
    codex::Setup,
    context::Context,
    error::usage,
    settings,
    ui::{Fit, Screen, Table, Tone, clean},
};

/// Show the skills that Codex gets
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost skills list\n  provost skills list --cwd ~/src/app --json"
)]
pub(crate) struct SkillsArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List every skill that was found: those that a session gets, and those that it does not, with the reason
    #[command(
        after_help = "Examples:\n  provost skills list\n  provost skills list --json | jq '.skills[] | select(.used | not)'"
    )]
    List(ListArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Where the session would work
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

pub(crate) fn run(context: &Context, args: &SkillsArgs) -> Outcome {
    let What::List(args) = &args.what;
    let cwd = args.cwd.clone().map_or_else(|| context.environment.here(), Ok)?;
    let cwd = std::fs::canonicalize(&cwd)
        .map_err(|why| usage(format!("cannot go to {}: {why}", cwd.display())))?;
    let config = settings::load(&context.environment, &cwd, Vec::new())?;
    let skills = Setup::new(&context.environment, &config)?.skills(&cwd)?;
    show(context, &skills)
}

fn show(context: &Context, skills: &[Skill]) -> Outcome {
    let used = skills.iter().filter(|skill| skill.is_used()).count();
    let (listed, skipped) = (skills.len(), skills.len() - used);
    if context.ui.json {
        let told: Vec<Value> = skills.iter().map(told).collect();
        let value =
            json!({"ok": true, "listed": listed, "used": used, "skipped": skipped, "skills": told});
        context.ui.result(value, &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    if !skills.is_empty() {
        context.ui.lines(&table(context, skills))?;
    }
    context.ui.talk(&format!("{used} used and {skipped} skipped, of {listed}"));
    Ok(ExitCode::SUCCESS)
}

fn told(skill: &Skill) -> Value {
    let (delivery, reason) = match &skill.standing {
        Standing::Used(delivery) => (Some(delivered(delivery)), None),
        Standing::Skipped(reason) => (None, Some(reason.to_string())),
    };
    json!({
        "name": skill.name,
        "description": skill.description,
        "path": skill.path.display().to_string(),
        "root": {"path": skill.root.path.display().to_string(), "kind": kind(skill.root.kind)},
        "used": skill.is_used(),
        "delivery": delivery,
        "reason": reason,
    })
}

fn kind(kind: RootKind) -> &'static str {
    match kind {
        RootKind::Native => "native",
        RootKind::CodexHome => "codex_home",
        RootKind::Extra => "extra",
    }
}

fn delivered(delivery: &Delivery) -> &'static str {
    match delivery {
        Delivery::Native => "native",
        Delivery::Linked => "linked",
        Delivery::Within(_) => "within",
    }
}

fn table(context: &Context, skills: &[Skill]) -> Vec<String> {
    let columns = [("SKILL", Fit::Whole), ("STANDING", Fit::Start), ("PATH", Fit::End)];
    let mut table = Table::new(&columns);
    for skill in skills {
        let (tone, standing) = match &skill.standing {
            Standing::Used(Delivery::Native) => (Tone::Good, "used".to_owned()),
            Standing::Used(Delivery::Linked) => (Tone::Good, "used, by a link".to_owned()),
            Standing::Used(Delivery::Within(outer)) => {
                (Tone::Good, format!("used, within {}", outer.display()))
            }
            Standing::Skipped(reason) => (Tone::Warn, format!("skipped: {reason}")),
        };
        table.row([
            (Tone::Bold, clean(&skill.name)),
            (tone, clean(&standing)),
            (Tone::Dim, clean(&skill.path.display().to_string())),
        ]);
    }
    table.lines(context.ui.paint, Screen::output())
}
