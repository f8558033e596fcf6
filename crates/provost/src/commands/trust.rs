//! `provost trust`

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use provost_api::{ApiError, ErrorCode};
use provost_trust::{TrustContent, TrustDigest};
use serde_json::{Value, json};

use crate::{
    cli::CliResult,
    context::Context,
    error::Error,
    trust::{self, TrustSubject},
    ui::escape_line,
};

/// Trust the commands that a repository's files configure
///
/// Some files of a repository run programs or extend the permissions of agents: provost.toml,
/// WORKFLOW.md, .codex, .claude/settings.json and .mcp.json. They take effect only after you have
/// trusted their exact content; every change needs a new decision. Files that another user owns or
/// can write to never take effect.
///
/// Agents read these files in each directory from the repository's top down to PATH, and trust
/// covers all of them. A worktree gets the files of the checked-out commit. If they differ from the
/// checkout's files, both versions are shown and trusted.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost trust\n  provost trust ~/src/app --yes\n  provost trust --print --json | jq -r .digest\n  provost trust --trust DIGEST\n  provost trust docs/WORKFLOW.md\n  provost trust --list\n  provost trust --revoke ~/src/app"
)]
pub(crate) struct TrustArgs {
    /// Project, or a workflow file outside a project's top directory [default: current directory]
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// Trust without a prompt
    #[arg(long, conflicts_with_all = ["print", "trust", "list", "revoke"])]
    yes: bool,
    /// Show the content to trust and its digest, without changing anything
    #[arg(long, conflicts_with_all = ["trust", "list", "revoke"])]
    print: bool,
    /// Trust only if the content has exactly this digest (for CI)
    #[arg(long, value_name = "DIGEST", conflicts_with_all = ["list", "revoke"])]
    trust: Option<TrustDigest>,
    /// List trusted projects
    #[arg(long, conflicts_with_all = ["path", "revoke"])]
    list: bool,
    /// Stop trusting the project
    #[arg(long)]
    revoke: bool,
}

pub(crate) fn run(context: &Context, args: &TrustArgs) -> CliResult {
    if args.list {
        return list(context);
    }
    let path = args.path.clone().map_or_else(|| context.environment.current_dir(), Ok)?;
    if args.revoke {
        return revoke(context, path);
    }
    let subject = trust::trust_subject(context, &path)?;
    if args.print {
        return print(context, &subject);
    }
    trust::must_be_operator(context)?;
    trust_subject(context, args, &subject)
}

fn trust_subject(context: &Context, args: &TrustArgs, subject: &TrustSubject) -> CliResult {
    let digest = subject.digest();
    if let Some(wanted) = args.trust.filter(|wanted| *wanted != digest) {
        let message = format!(
            "{} has digest {digest}, not {wanted}; nothing was trusted",
            escape_line(&subject.path.display().to_string())
        );
        return Err(ApiError::new(ErrorCode::Refused, message)
            .next(command(subject, "--print "))
            .into());
    }
    if trust::is_trusted(&context.environment, subject)? {
        return show_trusted(context, subject);
    }
    if !args.yes && args.trust.is_none() {
        if !trust::can_ask(context) {
            let message = format!(
                "{} is not trusted, and there is no terminal for a prompt",
                escape_line(&subject.path.display().to_string())
            );
            return Err(ApiError::new(ErrorCode::Refused, message)
                .next(command(subject, "--print "))
                .next(command(subject, "--yes "))
                .into());
        }
        if !trust::ask(context, subject)? {
            let message = "nothing was trusted";
            return Err(ApiError::new(ErrorCode::Refused, message)
                .next(command(subject, ""))
                .into());
        }
    } else if !context.ui.json {
        let before = trust::last_trusted(&context.environment, subject);
        context.ui.lines(&trust::describe(subject, &before))?;
    }
    trust::record(&context.environment, subject)?;
    show_trusted(context, subject)
}

fn command(subject: &TrustSubject, flag: &str) -> String {
    format!("provost trust {flag}{}", subject.argument())
}

/// Shows the content that is currently trusted.
fn show_trusted(context: &Context, subject: &TrustSubject) -> CliResult {
    let next = vec![command(subject, "--revoke ")];
    if context.ui.json {
        context.ui.result(shown(context, subject, true), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = escape_line(&subject.path.display().to_string());
    if subject.is_empty() {
        context.ui.line(&format!("nothing in {path} needs trust"))?;
    } else {
        context.ui.line(&format!("trusted {path}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(context: &Context, subject: &TrustSubject) -> CliResult {
    let is_trusted = trust::is_trusted(&context.environment, subject)?;
    if context.ui.json {
        let next = if is_trusted { Vec::new() } else { vec![command(subject, "")] };
        context.ui.result(shown(context, subject, is_trusted), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    let status = match (subject.is_empty(), is_trusted) {
        (true, _) => "nothing needs trust",
        (false, true) => "trusted",
        (false, false) => "not trusted",
    };
    context.ui.line(&format!("{}: {status}", escape_line(&subject.path.display().to_string())))?;
    context.ui.line(&format!("digest {}", subject.digest()))?;
    let before = if is_trusted {
        subject.content.clone()
    } else {
        trust::last_trusted(&context.environment, subject)
    };
    context.ui.lines(&trust::describe(subject, &before))?;
    Ok(ExitCode::SUCCESS)
}

fn shown(context: &Context, subject: &TrustSubject, is_trusted: bool) -> Value {
    let before = trust::last_trusted(&context.environment, subject);
    let changes = if is_trusted { Vec::new() } else { subject.content.changes(&before) };
    let committed = subject
        .committed
        .as_ref()
        .map(|committed| json!({"commit": committed.commit, "files": files(&committed.content)}));
    json!({
        "ok": true,
        "path": subject.path,
        "digest": subject.digest(),
        "needed": !subject.is_empty(),
        "trusted": is_trusted,
        "files": files(&subject.content),
        "committed": committed,
        "changes": changes,
    })
}

fn files(content: &TrustContent) -> Vec<Value> {
    let parts = content.parts.iter().map(|part| {
        let entries = part.entries.iter().map(|entry| {
            let meaning = trust::describe_effect(&part.file, entry.key.as_deref());
            json!({"key": entry.key, "value": entry.value, "meaning": meaning})
        });
        json!({"file": part.file, "entries": entries.collect::<Vec<_>>()})
    });
    parts.collect()
}

fn list(context: &Context) -> CliResult {
    let all = trust::store(&context.environment)?.list().map_err(trust::store_error)?;
    if context.ui.json {
        let projects = all.iter().map(|one| {
            let digests: Vec<String> =
                one.contents.iter().map(|agreed| agreed.digest.to_string()).collect();
            json!({"path": one.path, "digests": digests})
        });
        let value = json!({"ok": true, "projects": projects.collect::<Vec<_>>()});
        context.ui.result(value, &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    let lines: Vec<String> =
        all.iter().map(|one| escape_line(&one.path.display().to_string())).collect();
    context.ui.lines(&lines)?;
    Ok(ExitCode::SUCCESS)
}

/// Revokes trust. This also works for the path of a deleted project, as shown by `--list`.
fn revoke(context: &Context, path: PathBuf) -> CliResult {
    trust::must_be_operator(context)?;
    let real = std::fs::canonicalize(&path).unwrap_or(path);
    let top = if real.is_file() { None } else { provost_trust::find_top(&real) };
    let path = top.unwrap_or(real);
    let store = trust::store(&context.environment)?;
    if !store.revoke(&path).map_err(trust::store_error)? {
        let message = format!("{} is not trusted", escape_line(&path.display().to_string()));
        let error: Error =
            ApiError::new(ErrorCode::NotFound, message).next("provost trust --list").into();
        return Err(error);
    }
    if context.ui.json {
        context.ui.result(json!({"ok": true, "path": path, "trusted": false}), &[])?;
    } else {
        context
            .ui
            .line(&format!("{} is no longer trusted", escape_line(&path.display().to_string())))?;
    }
    Ok(ExitCode::SUCCESS)
}
