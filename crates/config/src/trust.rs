//! Decides which keys in a project's file need the user's trust: those that run something or widen permissions.

use serde_json::Value as Json;

use crate::agent_section::trust_effect;
use crate::document;
use crate::node::{NodeValue, ValueNode};
use crate::preset;
use crate::problem::Error;
use crate::source::ValueSource;

/// Keys that need no trust, with the reason.
struct HarmlessKeys {
    #[cfg_attr(not(test), expect(dead_code, reason = "the reason is for readers and the tests"))]
    why: &'static str,
    /// The keys. A star matches any one name, and a pattern matches all keys below it.
    keys: &'static [&'static str],
}

/// Keys that do not name a program, read a file or widen permissions. All other keys need trust, including new keys
/// until they are listed here. Adapters decide whether the keys in their sections need trust. The test
/// `every_key_is_decided_once` lists the keys that need trust.
const HARMLESS: &[HarmlessKeys] = &[
    HarmlessKeys {
        why: "they can only deny: the lists of all layers are combined, and an expired approval is denied",
        keys: &["approvals.deny", "approvals.expire_after", "approvals.version"],
    },
    HarmlessKeys {
        why: "they bound time, output or repetition; budgets, which need trust, bound the cost",
        keys: &[
            "hooks.output_limit",
            "hooks.time_limit",
            "loops.*.max",
            "loops.*.plateau",
            "run.batch",
            "run.parallel",
            "run.pull_checks",
            "run.pull_every",
            "run.retries",
            "session.drain",
            "session.limit_jitter",
            "session.limit_spacing",
            "session.output_limit",
            "session.rework",
            "session.settle",
            "session.stale_after",
            "session.stop_grace",
            "session.time_limit",
            "verify.output_limit",
            "verify.time_limit",
        ],
    },
    HarmlessKeys {
        why: "they are texts for agents, which also read the repository's own files",
        keys: &["loops.*.tools", "prompts"],
    },
    HarmlessKeys {
        why: "they only choose among Provost's own steps; what may land is decided elsewhere",
        keys: &[
            "loops.*.clean_up",
            "loops.*.from",
            "review",
            "run.plan",
            "run.questions",
            "run.triage",
        ],
    },
    HarmlessKeys {
        why: "they decide what counts as a claim; a check still has to succeed",
        keys: &["session.allow_empty_diff", "session.exit_zero_completes"],
    },
    HarmlessKeys {
        why: "they change only what is shown, or a name below refs/heads",
        keys: &["monitor", "prices", "terminal.tmux", "ui.color", "worktree.branch_prefix"],
    },
];

/// Whether a project's value for this key is ignored until the user trusts it. A preset's key is
/// treated like the key that it sets.
pub fn needs_trust(key: &str) -> bool {
    let key = preset::split(key).map_or(key, |(_, set)| set);
    if let Some(effect) = trust_effect(key) {
        return effect.is_some();
    }
    !HARMLESS.iter().flat_map(|group| group.keys).any(|pattern| is_below(key, pattern))
}

/// Returns every key in a file that needs trust with its value as written, sorted by key.
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

/// Converts a value to JSON as it was written, without masking anything.
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

    /// Patterns for keys that need trust, because they run something, read files, or widen
    /// permissions.
    const NEED_TRUST: &[&str] = &[
        // Programs, and their environment and permissions.
        "agents.*.command",
        "agents.*.adapter",
        "agents.*.env",
        "agents.*.pass_env",
        "approvals.allow",
        "approvals.ask",
        "environment.allow",
        "git.filters",
        "hooks.run",
        "hooks.session",
        "loops.*.evidence",
        "verifiers",
        "verify.checks",
        "worktree.setup",
        // A workflow selects which of the user's verifiers runs, and which agents are recommended.
        "workflows",
        // Files: skills for agents, ignored files such as `.env`, files that stay in a checkout from one check to the
        // next, and files whose changes need approval.
        "skills.roots",
        "verify.keep",
        "verify.protected",
        "worktree.copy",
        // Where agents work, and which work lands without a user's approval.
        "policies",
        "reactions",
        "run.approve_plan",
        "run.comments_from",
        "run.land",
        "worktree.enabled",
        // Limits that the user set for the cost, or for the whole machine.
        "budget",
        "loops.*.tokens",
        "run.machine_parallel",
    ];

    /// A new key fails this test until it is listed in [`HARMLESS`] or [`NEED_TRUST`].
    #[test]
    fn every_key_is_decided_once() {
        let harmless = || HARMLESS.iter().flat_map(|group| group.keys).copied();
        for key in keys().filter(|key| preset::split(key.name).is_none()) {
            let decisions: Vec<&str> = harmless()
                .chain(NEED_TRUST.iter().copied())
                .filter(|pattern| is_below(key.name, pattern))
                .collect();
            assert_eq!(decisions.len(), 1, "{}: {decisions:?}", key.name);
            assert_eq!(needs_trust(key.name), NEED_TRUST.contains(&decisions[0]), "{}", key.name);
        }
        for pattern in harmless().chain(NEED_TRUST.iter().copied()) {
            assert!(keys().any(|key| is_below(key.name, pattern)), "{pattern} names no key");
        }
        for group in HARMLESS {
            assert!(group.why.starts_with("they "), "{:?} has no reason", group.keys);
        }
    }

    #[test]
    fn keys_that_run_or_widen_need_trust() {
        for key in [
            "agents.helper.command",
            "agents.helper.adapter",
            "agents.helper.env.PATH",
            "agents.helper.pass_env",
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
            "workflows.create.verifier",
            "worktree.copy",
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
