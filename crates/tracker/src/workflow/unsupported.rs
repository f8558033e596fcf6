//! Settings of the workflow format that Provost handles differently. They are rejected with a hint,
//! never ignored.

use serde_json::Value;

use super::{Error, fields::Fields};

/// Unsupported keys, each with a description of the alternative.
const UNSUPPORTED: [(&str, &str, &str); 7] = [
    (
        "workspace",
        "root",
        "cannot be set: Provost creates a worktree for each session below its own home (PROVOST_HOME)",
    ),
    (
        "hooks",
        "before_run",
        "cannot be set: to prepare a worktree, use hooks.after_create here, or worktree.setup in provost.toml",
    ),
    (
        "hooks",
        "after_run",
        "cannot be set: use a hook of provost.toml, such as hooks.run.succeeded or hooks.run.failed",
    ),
    (
        "hooks",
        "before_remove",
        "cannot be set: Provost only removes worktrees without unsaved work, and runs nothing in them first",
    ),
    (
        "hooks",
        "timeout_ms",
        "cannot be set: hooks.after_create is bounded by verify.time_limit in provost.toml",
    ),
    (
        "codex",
        "turn_sandbox_policy",
        "cannot be set: use codex.thread_sandbox here, or agents.codex.sandbox and agents.codex.network in provost.toml",
    ),
    (
        "codex",
        "read_timeout_ms",
        "cannot be set: Provost sets the time that Codex may take to answer",
    ),
];

/// The only command with which Provost starts Codex.
const APP_SERVER: &str = "codex app-server";

/// Rejects unsupported keys in one section.
pub(super) fn reject_unsupported(part: &str, fields: &mut Fields) -> Result<(), Error> {
    for (_, key, why) in UNSUPPORTED.iter().filter(|(of, ..)| *of == part) {
        if fields.take(key).is_some() {
            return Err(Error::config(&fields.path(key), *why));
        }
    }
    Ok(())
}

/// Accepts the `command` setting only if it is the command that Provost uses anyway.
pub(super) fn command(codex: &mut Fields) -> Result<(), Error> {
    let given = codex.text("command")?;
    match given.as_deref().map(str::trim) {
        None | Some(APP_SERVER) => Ok(()),
        Some("") => Err(Error::config("codex.command", "is empty; remove the key")),
        Some(other) => Err(Error::config(
            "codex.command",
            format!(
                "is {other:?}; Provost starts Codex itself: remove the key, and set \
                 agents.codex.path, agents.codex.model or agents.codex.effort in provost.toml, \
                 or provost.agent here"
            ),
        )),
    }
}

/// Converts an approval policy to its name in provost.toml.
pub(super) fn approvals(value: Option<Value>) -> Result<Option<&'static str>, Error> {
    let Some(value) = value else { return Ok(None) };
    match value.as_str() {
        Some("untrusted") => Ok(Some("untrusted")),
        Some("on-request") => Ok(Some("on-request")),
        Some("never") => Ok(Some("never")),
        _ => Err(Error::config(
            "codex.approval_policy",
            format!(
                "is {value}; expected untrusted, on-request or never (rules for individual approvals belong in [approvals] in provost.toml)"
            ),
        )),
    }
}

/// Converts a sandbox to its name in provost.toml.
pub(super) fn sandbox(value: Option<Value>) -> Result<Option<&'static str>, Error> {
    let Some(value) = value else { return Ok(None) };
    match value.as_str() {
        Some("read-only") => Ok(Some("read-only")),
        Some("workspace-write") => Ok(Some("workspace-write")),
        Some("danger-full-access") => Ok(Some("full-access")),
        _ => Err(Error::config(
            "codex.thread_sandbox",
            format!("is {value}; expected read-only, workspace-write or danger-full-access"),
        )),
    }
}
