//! Presets: named sets of keys, for `run --preset NAME`.
//!
//! The keys of a preset are named `presets.NAME.KEY`. Each of these keys has the same meaning as the `KEY` that it
//! sets. Using a preset is equivalent to passing all its keys as flags, but explicit flags take precedence.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::agent_section;
use crate::document::{self, DocumentReading};
use crate::key::{ConfigKey, Fallback};
use crate::pattern::{self, PathMatch};
use crate::problem::{Problem, ProblemKind, ValueFault};
use crate::resolve::LayerValue;
use crate::shape::one_of;
use crate::source::ValueSource;
use crate::table;

/// The prefix of all preset keys.
pub(crate) const SECTION: &str = "presets";

/// The keys of the table that a preset may set. The keys of agents follow the limits.
const PRESET_KEYS: [&str; 20] = [
    "run.land",
    "run.triage",
    "run.plan",
    "run.approve_plan",
    "run.questions",
    "review.plan",
    "review.task",
    "review.final",
    "review.cycles",
    "verify.checks",
    "verify.protected",
    "skills.roots",
    "budget.tokens",
    "budget.turns",
    "session.time_limit",
    "prompts.triage",
    "prompts.work",
    "prompts.review",
    "prompts.repair",
    "prompts.resume",
];

/// The built-in presets. A file can override individual keys of these presets.
pub(crate) const BUILT_IN: &str = r#"
[presets.quick]
run.triage = false
review.task = "off"

[presets.careful]
review.task = "repair"
review.final = "report"
"#;

/// The number of keys in [`PRESET_KEYS`] that come before the keys of agents.
const BEFORE_AGENTS: usize = 15;

/// Returns the preset keys, which are derived from the keys that they set.
pub(crate) fn keys() -> impl Iterator<Item = &'static ConfigKey> {
    static KEYS: LazyLock<Vec<ConfigKey>> = LazyLock::new(|| PRESET_KEYS.map(key_of).into());
    let (before, after) = KEYS.split_at(BEFORE_AGENTS);
    before.iter().chain(agent_section::preset_keys()).chain(after)
}

/// Returns the names of the keys that a preset may set.
pub(crate) fn settable() -> impl Iterator<Item = &'static str> {
    let prefix = "presets.*.".len();
    keys().map(move |key| &key.name[prefix..])
}

fn key_of(name: &str) -> ConfigKey {
    let base = table::OPTION_KEYS.iter().find(|key| key.name == name);
    key_for(base.expect("a preset sets keys of the table"))
}

/// Returns the preset key that sets another key.
pub(crate) fn key_for(base: &ConfigKey) -> ConfigKey {
    ConfigKey {
        // Each name is leaked only once per process.
        name: Box::leak(format!("{SECTION}.*.{}", base.name).into_boxed_str()),
        doc: base.doc,
        fallback: Fallback::Unset,
        limits: base.limits,
        shape: base.shape,
        check: base.check,
    }
}

/// Whether a preset can set any keys in a section.
pub(crate) fn sets_keys_in(section: &str) -> bool {
    settable().any(|name| name.rsplit_once('.').is_some_and(|(parent, _)| parent == section))
}

/// Reads the built-in presets.
pub(crate) fn built_in() -> DocumentReading {
    document::read("built-in", BUILT_IN, |_| ValueSource::Default)
}

/// Splits a preset key into the name of the preset and the key that it sets.
pub(crate) fn split(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(SECTION)?.strip_prefix('.')?.split_once('.')
}

/// Returns the values that a preset sets. `given` contains the values of all layers, lowest first.
pub(crate) fn apply<'g>(
    preset: &str,
    given: impl Iterator<Item = &'g LayerValue>,
) -> Result<Vec<LayerValue>, Problem> {
    let mut names: Vec<String> = Vec::new();
    let mut set: BTreeMap<&str, &LayerValue> = BTreeMap::new();
    for given in given {
        let Some((name, key)) = split(&given.name) else { continue };
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
        if name == preset {
            set.insert(key, given);
        }
    }
    if set.is_empty() {
        let flag = ValueSource::Flag { flag: "--preset".to_owned() };
        let detail = format!("no such preset, expected {}", one_of(&names));
        let fault = ValueFault::new(ProblemKind::Invalid, &(0..0), detail);
        return Err(fault.into_problem(&format!("{SECTION}.{preset}"), flag));
    }
    Ok(set.into_iter().filter_map(|(key, given)| apply_value(preset, key, given)).collect())
}

fn apply_value(preset: &str, name: &str, given: &LayerValue) -> Option<LayerValue> {
    let path: Vec<String> = name.split('.').map(str::to_owned).collect();
    let PathMatch::Key(key) = pattern::find(&path) else { return None };
    let source =
        ValueSource::Preset { preset: preset.to_owned(), set: Box::new(given.source.clone()) };
    let (node, shown) = (given.node.clone(), given.shown.clone());
    Some(LayerValue { key, name: name.to_owned(), source, node, shown })
}
