//! Decides which keys of a project's file need the user's trust: those that run something or widen
//! rights.

use serde_json::Value as Json;

use crate::document;
use crate::node::{NodeValue, ValueNode};
use crate::preset;
use crate::problem::Error;
use crate::source::ValueSource;

/// Keys that name no program and widen no rights; a star matches any one name, and a pattern
/// matches all keys below it. Every other key needs trust, and so does a new key until it is listed
/// here.
const HARMLESS: [&str; 51] = [
    "agents.codex.effort",
    "agents.codex.model",
    "agents.codex.multi_agent",
    "agents.codex.questions",
    "approvals.deny",
    "approvals.expire_after",
    "approvals.version",
    "hooks.output_limit",
    "hooks.time_limit",
    "loops.*.clean_up",
    "loops.*.from",
    "loops.*.max",
    "loops.*.plateau",
    "loops.*.tools",
    "monitor",
    "prices",
    "prompts",
    "review",
    "run.batch",
    "run.machine_parallel",
    "run.parallel",
    "run.plan",
    "run.pull_checks",
    "run.pull_every",
    "run.questions",
    "run.retries",
    "run.triage",
    "session.drain",
    "session.exit0_is_done",
    "session.limit_jitter",
    "session.limit_spacing",
    "session.no_change_ok",
    "session.output_limit",
    "session.rework",
    "session.settle",
    "session.stale_after",
    "session.stop_grace",
    "session.time_limit",
    "terminal.tmux",
    "ui.color",
    "verify.keep",
    "verify.output_limit",
    "verify.time_limit",
    "workflows.*.defer_on_plateau",
    "workflows.*.escalate",
    "workflows.*.fallback",
    "workflows.*.retries",
    "workflows.*.verifier",
    "worktree.branch_prefix",
    "worktree.copy",
    "worktree.enabled",
];

/// Whether a project's value of this key is ignored until the user trusts it. A preset's key is
/// treated like the key that it sets.
pub fn needs_trust(key: &str) -> bool {
    let key = preset::split(key).map_or(key, |(_, set)| set);
    !HARMLESS.iter().any(|pattern| is_below(key, pattern))
}

/// Returns every key of a file that needs trust, with its value as it was written, sorted by key.
pub fn entries(text: &str) -> Result<Vec<(String, Json)>, Error> {
    let reading = document::read("provost.toml", text, ValueSource::Project);
    Error::from_problems(reading.problems)?;
    let relevant = reading.given.into_iter().filter(|given| needs_trust(&given.name));
    let mut entries: Vec<(String, Json)> =
        relevant.map(|given| (given.name, written(&given.node))).collect();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(entries)
}

fn is_below(key: &str, pattern: &str) -> bool {
    let mut parts = key.split('.');
    pattern
        .split('.')
        .all(|wanted| parts.next().is_some_and(|part| wanted == "*" || wanted == part))
}

/// Returns a value as written; nothing in it is masked.
fn written(node: &ValueNode) -> Json {
    match &node.item {
        NodeValue::Switch(on) => Json::from(*on),
        NodeValue::Integer(number) => Json::from(*number),
        NodeValue::Float(text) | NodeValue::Text(text) | NodeValue::Plain(text) => {
            Json::from(text.as_str())
        }
        NodeValue::List(nodes) => nodes.iter().map(written).collect(),
        NodeValue::Table(entries) => Json::Object(
            entries.iter().map(|(name, node)| (name.text.clone(), written(node))).collect(),
        ),
        NodeValue::Other(name) => Json::from(*name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::keys;

    #[test]
    fn every_harmless_pattern_names_a_key() {
        for pattern in HARMLESS {
            assert!(keys().any(|key| is_below(key.name, pattern)), "{pattern} names no key");
        }
    }

    #[test]
    fn keys_that_run_or_widen_need_trust() {
        for key in [
            "agents.helper.command",
            "agents.helper.driver",
            "agents.helper.env.PATH",
            "agents.helper.pass_env",
            "agents.codex.path",
            "agents.codex.home",
            "agents.codex.env.X",
            "agents.codex.sandbox",
            "agents.codex.network",
            "agents.codex.approvals",
            "approvals.allow",
            "approvals.ask",
            "budget.tokens",
            "environment.allow",
            "hooks.session.opened",
            "loops.mine.evidence.tests",
            "policies.boss.accept",
            "presets.mine.verify.checks",
            "presets.mine.skills.roots",
            "reactions.r.do",
            "run.approve_plan",
            "run.land",
            "skills.roots",
            "verifiers.v.command",
            "verify.checks",
            "verify.protected",
            "worktree.setup",
            "a.key.of.tomorrow",
        ] {
            assert!(needs_trust(key), "{key}");
        }
        for key in ["session.settle", "ui.color", "prompts.work", "presets.mine.review.task"] {
            assert!(!needs_trust(key), "{key}");
        }
    }

    #[test]
    fn trust_entries_keep_written_values() {
        let text =
            "agents.a.env.TOKEN = \"secret\"\nagents.a.command = [\"x\"]\nui.color = \"never\"\n";
        let entries = entries(text).unwrap();
        let keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["agents.a.command", "agents.a.env.TOKEN"]);
        assert_eq!(entries[1].1, "secret");
        assert!(super::entries("nonsense").is_err());
    }
}
