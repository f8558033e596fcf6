//! Merges five layers into one configuration, and records the source of every value.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use serde_json::Value as Json;

use crate::agent_section::has_section;
use crate::document;
use crate::environment::{self, VariableWarning};
use crate::key::{ConfigKey, Fallback, keys};
use crate::load::ConfigFile;
use crate::node::{NodeValue, ValueNode};
use crate::pattern::{self, PathMatch};
use crate::preset;
use crate::problem::{Error, Problem, ProblemKind, ValueFault};
use crate::source::ValueSource;
use crate::suggest;
use crate::table::{
    Agent, ApprovalRules, Budget, Environment, Event, GitPrograms, HookDefaults, LoopTemplate,
    ManagerPolicy, Monitor, Prices, Prompts, Reaction, Review, Run, Session, Skills, Terminal, Ui,
    Verifier, Verify, Workflow, Worktree,
};
use crate::trust;
use crate::types::{Hook, HookSpec, Switchable};
use crate::value::{ConfigField, EffectiveValues};
use crate::workflow;

/// Everything that a configuration is resolved from. The inputs may contain secrets, so this type does not implement
/// `Debug`.
#[derive(Clone, Default)]
pub struct Inputs {
    pub user: Option<ConfigFile>,
    pub project: Option<ConfigFile>,
    /// Whether the user trusts the project's file. Otherwise, keys that run something or widen permissions are ignored;
    /// see [`crate::trust`].
    pub project_is_trusted: bool,
    /// The whole environment. Only variables that start with `PROVOST_` are read.
    pub environment: BTreeMap<String, String>,
    /// A later flag overrides an earlier one.
    pub flags: Vec<FlagSetting>,
    /// The preset to use. Its values rank just below explicit flags.
    pub preset: Option<String>,
}

/// A key set on the command line.
#[derive(Clone)]
pub struct FlagSetting {
    /// The flag as typed, for messages and provenance: `--check`.
    pub flag: String,
    pub key: String,
    pub value: FlagValue,
}

/// The value of a flag. An empty list clears the list of a lower layer.
#[derive(Clone)]
pub enum FlagValue {
    Text(String),
    List(Vec<String>),
}

/// The effective configuration.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub session: Session,
    pub verify: Verify,
    pub run: Run,
    pub review: Review,
    pub prices: Prices,
    pub prompts: Prompts,
    pub worktree: Worktree,
    pub git: GitPrograms,
    pub terminal: Terminal,
    pub budget: Budget,
    pub approvals: ApprovalRules,
    pub skills: Skills,
    pub hook_defaults: HookDefaults,
    /// The enabled hooks, each with its effective limits.
    pub hooks: BTreeMap<Event, Hook>,
    /// The agents declared in the files, excluding those that have their own sections.
    pub agents: BTreeMap<String, Agent>,
    pub monitor: Monitor,
    pub reactions: BTreeMap<String, Reaction>,
    /// The verifiers declared in the files, excluding the built-in ones.
    pub verifiers: BTreeMap<String, Verifier>,
    pub workflows: BTreeMap<String, Workflow>,
    /// The loops declared or changed in the files, excluding the built-in ones.
    pub loops: BTreeMap<String, LoopTemplate>,
    pub policies: BTreeMap<String, ManagerPolicy>,
    pub environment: Environment,
    pub ui: Ui,
    /// The source of each key's value. If no layer set a key, its source is
    /// [`ValueSource::Default`].
    pub provenance: BTreeMap<String, ValueSource>,
    pub warnings: Vec<VariableWarning>,
    entries: Vec<ConfigEntry>,
    agent_values: EffectiveValues,
}

/// A key, its value and source, and the values that it hides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigEntry {
    pub key: String,
    /// `null` if unset, `false` if an option other than a boolean is off. Secrets are masked.
    pub value: Json,
    pub source: ValueSource,
    /// Highest layer first.
    pub shadowed: Vec<ShadowedValue>,
    /// For a list that accumulates over several layers: its parts, highest layer first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<ShadowedValue>,
    /// Values from the project's file that are ignored until the user trusts it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untrusted: Vec<ShadowedValue>,
}

/// A value hidden by a higher layer, or one part of a list that accumulates over layers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShadowedValue {
    pub source: ValueSource,
    pub value: Json,
}

/// Lists that accumulate over all layers instead of replacing each other, so that no layer can allow what another layer
/// denies.
const ADDITIVE_LISTS: [&str; 1] = ["approvals.deny"];

/// Keys allowed only in the user's own file, because a repository must not grant these permissions.
const USER_ONLY: [&str; 1] = ["git.filters"];

/// Merges the layers, or reports all problems found in any of them.
pub fn resolve(inputs: &Inputs) -> Result<Resolved, Error> {
    let layers = LayerStack::read(inputs);
    Error::from_problems(layers.problems)?;
    let mut keys = by_key(layers.defaults.into_iter().chain(layers.given));
    let mut sums = sum_lists(&mut keys);
    let chosen = choose_values(&keys);
    let entries: Vec<ConfigEntry> =
        keys.into_iter().map(|((_, _, key), given)| entry(key, given, &mut sums)).collect();
    let mut resolved = resolved(&chosen, entries, layers.warnings);
    show_untrusted(&mut resolved.entries, layers.untrusted);
    Ok(resolved)
}

impl Resolved {
    /// Returns every key with its value and source, in table order.
    pub fn explain(&self) -> &[ConfigEntry] {
        &self.entries
    }

    /// Returns the directory of the file that set a key. Relative paths in the value are resolved
    /// against it.
    pub fn directory_of(&self, key: &str) -> Option<&Path> {
        let source = self.provenance.get(key)?;
        let set = if let ValueSource::Preset { set, .. } = source { set } else { source };
        match set {
            ValueSource::User(place) | ValueSource::Project(place) => {
                Path::new(&place.file).parent()
            }
            ValueSource::Default
            | ValueSource::Environment { .. }
            | ValueSource::Preset { .. }
            | ValueSource::Flag { .. } => None,
        }
    }

    /// Returns the values of the sections that adapters declare.
    pub(crate) fn agent_values(&self) -> &EffectiveValues {
        &self.agent_values
    }

    /// Returns the names of all presets.
    pub fn presets(&self) -> BTreeSet<&str> {
        let set = self.entries.iter().filter(|entry| entry.is_effective());
        let named = set.filter_map(|entry| preset::split(&entry.key));
        named.map(|(name, _)| name).collect()
    }

    /// Returns the entries of the keys that a preset can set.
    pub fn preset_entries(&self) -> impl Iterator<Item = &ConfigEntry> {
        self.entries.iter().filter(|entry| preset::settable().any(|key| key == entry.key))
    }
}

impl ConfigEntry {
    /// Whether the key has a default or is set by a layer that takes effect, not only by an untrusted file.
    fn is_effective(&self) -> bool {
        self.untrusted.is_empty() || self.source != ValueSource::Default || !self.value.is_null()
    }
}

/// A validated value that one layer sets for one key.
#[derive(Debug)]
pub(crate) struct LayerValue {
    pub(crate) key: &'static ConfigKey,
    /// The key's name, with user-chosen names in place of the stars.
    pub(crate) name: String,
    pub(crate) source: ValueSource,
    pub(crate) node: ValueNode,
    pub(crate) shown: Json,
}

impl LayerValue {
    /// Validates a value. `locate` returns the source of a problem inside the value.
    pub(crate) fn check(
        key: &'static ConfigKey,
        name: String,
        source: ValueSource,
        node: ValueNode,
        locate: impl Fn(&ValueFault) -> ValueSource,
    ) -> Result<Self, Vec<Problem>> {
        match (key.check)(&node, key.limits) {
            Ok(shown) => Ok(Self { key, name, source, node, shown }),
            Err(faults) => {
                Err(faults.into_iter().map(|fault| located(fault, &name, &locate)).collect())
            }
        }
    }
}

fn located(fault: ValueFault, name: &str, locate: impl Fn(&ValueFault) -> ValueSource) -> Problem {
    let source = locate(&fault);
    fault.into_problem(name, source)
}

/// The values of all layers, lowest layer first.
#[derive(Default)]
struct LayerStack {
    defaults: Vec<LayerValue>,
    given: Vec<LayerValue>,
    /// The values from the project's file that are ignored.
    untrusted: Vec<LayerValue>,
    problems: Vec<Problem>,
    warnings: Vec<VariableWarning>,
}

impl LayerStack {
    fn read(inputs: &Inputs) -> Self {
        let mut layers = Self::default();
        layers.file(inputs.user.as_ref(), ValueSource::User);
        layers.file(inputs.project.as_ref(), ValueSource::Project);
        layers.reject_user_only_keys();
        if !inputs.project_is_trusted {
            layers.remove_untrusted();
        }
        layers.environment(&inputs.environment);
        layers.presets(inputs.preset.as_deref());
        inputs.flags.iter().for_each(|flag| layers.flag(flag));
        layers.complete();
        layers.add_defaults();
        layers
    }

    fn file(
        &mut self,
        file: Option<&ConfigFile>,
        source: fn(crate::source::SourceSpan) -> ValueSource,
    ) {
        if let Some(file) = file {
            let reading = document::read(&file.name, &file.text, source);
            self.given.extend(reading.given);
            self.problems.extend(reading.problems);
        }
    }

    /// Rejects keys that a project's file is not permitted to set.
    fn reject_user_only_keys(&mut self) {
        for given in &self.given {
            let of_project = matches!(given.source, ValueSource::Project(_));
            if of_project && USER_ONLY.contains(&given.name.as_str()) {
                let detail = "it is allowed only in your own provost.toml; remove it here";
                let fault = ValueFault::new(ProblemKind::Invalid, &(0..0), detail);
                self.problems.push(fault.into_problem(&given.name, given.source.clone()));
            }
        }
    }

    /// Removes untrusted values that the project's file sets. Must be called while that file is the
    /// highest layer read so far.
    fn remove_untrusted(&mut self) {
        let is_untrusted = |given: &mut LayerValue| {
            matches!(given.source, ValueSource::Project(_)) && trust::needs_trust(&given.name)
        };
        self.untrusted = self.given.extract_if(.., is_untrusted).collect();
    }

    fn environment(&mut self, variables: &BTreeMap<String, String>) {
        let reading = environment::read(variables);
        self.given.extend(reading.given);
        self.problems.extend(reading.problems);
        self.warnings = reading.warnings;
    }

    fn presets(&mut self, named: Option<&str>) {
        let reading = preset::built_in();
        self.problems.extend(reading.problems);
        self.defaults = reading.given;
        self.defaults.extend(workflow::built_in().given);
        let Some(named) = named else { return };
        match preset::apply(named, self.defaults.iter().chain(&self.given)) {
            Ok(given) => self.given.extend(given),
            Err(problem) => self.problems.push(problem),
        }
    }

    fn flag(&mut self, flag: &FlagSetting) {
        match flag_value(flag) {
            Ok(given) => self.given.push(given),
            Err(problems) => self.problems.extend(problems),
        }
    }

    /// Adds defaults to every agent, verifier, workflow and so on that any layer mentions, and
    /// reports missing required keys.
    fn complete(&mut self) {
        for section in NAMED_SECTIONS {
            for (owner, source) in &self.first_mentions(section) {
                self.complete_one(section, owner, source);
            }
        }
    }

    fn complete_one(&mut self, section: &str, owner: &str, source: &ValueSource) {
        for key in keys_of(section) {
            let name = key.name.replacen('*', owner, 1);
            let built_in = self.defaults.iter().any(|given| given.name == name);
            match key.default_node() {
                _ if built_in => {}
                Some(node) => self.add_default(key, name, node),
                None => self.require(key, &name, source),
            }
        }
    }

    fn require(&mut self, key: &ConfigKey, name: &str, source: &ValueSource) {
        let given = self.given.iter().any(|given| given.name == name);
        let reported = self.problems.iter().any(|problem| problem.key.as_deref() == Some(name));
        if key.fallback == Fallback::Required && !given && !reported {
            let fault = ValueFault::new(
                ProblemKind::Missing,
                &(0..0),
                format!("expected {}", (key.shape)().expected()),
            );
            self.problems.push(fault.into_problem(name, source.clone()));
        }
    }

    fn first_mentions(&self, section: &str) -> BTreeMap<String, ValueSource> {
        let mut named = BTreeMap::new();
        for given in self.given.iter().chain(&self.defaults) {
            let by_user = |name: &&str| section != "agents" || !has_section(name);
            if let Some(name) = name_in(section, &given.name).filter(by_user) {
                named.entry(name.to_owned()).or_insert_with(|| given.source.clone());
            }
        }
        named
    }

    fn add_defaults(&mut self) {
        for key in keys().filter(|key| !key.name.contains('*')) {
            if let Some(node) = key.default_node() {
                self.add_default(key, key.name.to_owned(), node);
            }
        }
    }

    fn add_default(&mut self, key: &'static ConfigKey, name: String, node: ValueNode) {
        let given =
            LayerValue::check(key, name, ValueSource::Default, node, |_| ValueSource::Default);
        self.defaults.push(given.expect("defaults are valid"));
    }
}

fn flag_value(flag: &FlagSetting) -> Result<LayerValue, Vec<Problem>> {
    let path: Vec<String> = flag.key.split('.').map(str::to_owned).collect();
    let source = || ValueSource::Flag { flag: flag.flag.clone() };
    let refuse = |kind, detail| {
        vec![ValueFault::new(kind, &(0..0), detail).into_problem(&flag.key, source())]
    };
    let wrong_name = (1..=path.len()).find_map(|length| pattern::name_fault(&path[..length]));
    if let Some(why) = wrong_name {
        return Err(refuse(ProblemKind::BadName, why));
    }
    let PathMatch::Key(key) = pattern::find(&path) else {
        return Err(refuse(ProblemKind::UnknownKey, suggest::suggest_for_path(&path)));
    };
    let node = match &flag.value {
        FlagValue::Text(text) => ValueNode::written(text),
        FlagValue::List(texts) => ValueNode::written_list(texts),
    };
    LayerValue::check(key, flag.key.clone(), source(), node, |_| source())
}

/// The sections whose entries have user-chosen names.
const NAMED_SECTIONS: [&str; 6] =
    ["agents", "reactions", "verifiers", "workflows", "loops", "policies"];

fn keys_of(section: &str) -> impl Iterator<Item = &'static ConfigKey> {
    keys().filter(move |key| {
        key.name.strip_prefix(section).is_some_and(|rest| rest.starts_with(".*."))
    })
}

/// Returns the name of the agent, reaction, verifier, workflow, loop, policy or preset that a key belongs to.
fn owner_of(name: &str) -> Option<&str> {
    let named = NAMED_SECTIONS.iter().find_map(|section| name_in(section, name));
    named.or_else(|| preset::split(name).map(|(name, _)| name))
}

fn name_in<'n>(section: &str, name: &'n str) -> Option<&'n str> {
    name.strip_prefix(section)?.strip_prefix('.')?.split('.').next()
}

/// The position of an entry in a listing, by section, owner and key.
type EntryRank = (usize, String, String);

/// Groups values by key in table order. Within a group, the highest layer comes last.
fn by_key(given: impl Iterator<Item = LayerValue>) -> Vec<(EntryRank, Vec<LayerValue>)> {
    let mut groups: BTreeMap<(usize, String, usize, String), Vec<LayerValue>> = BTreeMap::new();
    for (index, key) in keys().enumerate().filter(|(_, key)| !key.name.contains('*')) {
        let agent = owner_of(key.name).unwrap_or_default().to_owned();
        groups.insert((section_rank(key), agent, index, key.name.to_owned()), Vec::new());
    }
    for given in given {
        let agent = owner_of(&given.name).unwrap_or_default().to_owned();
        let index = keys().position(|key| key.name == given.key.name).unwrap_or_default();
        groups
            .entry((section_rank(given.key), agent, index, given.name.clone()))
            .or_default()
            .push(given);
    }
    groups
        .into_iter()
        .map(|((section, agent, _, name), given)| ((section, agent, name), given))
        .collect()
}

fn section_rank(key: &ConfigKey) -> usize {
    let section = key.segments().next();
    keys().position(|other| other.segments().next() == section).unwrap_or_default()
}

/// Puts the combined value of each accumulating list into its highest layer, and returns the parts
/// of each list.
fn sum_lists(groups: &mut [(EntryRank, Vec<LayerValue>)]) -> BTreeMap<String, Vec<ShadowedValue>> {
    let adds_up = |name: &str| ADDITIVE_LISTS.contains(&name);
    let groups = groups.iter_mut().filter(|((_, _, name), _)| adds_up(name));
    groups.map(|((_, _, name), given)| (name.clone(), sum_layers(given))).collect()
}

fn sum_layers(given: &mut Vec<LayerValue>) -> Vec<ShadowedValue> {
    let says_something =
        |given: &LayerValue| given.shown.as_array().is_some_and(|all| !all.is_empty());
    if !given.iter().any(says_something) {
        return Vec::new();
    }
    given.retain(says_something);
    let parts: Vec<ShadowedValue> = given
        .iter()
        .rev()
        .map(|given| ShadowedValue { source: given.source.clone(), value: given.shown.clone() })
        .collect();
    let (mut nodes, mut shown) = (Vec::new(), Vec::new());
    for one in given.iter() {
        let NodeValue::List(listed) = &one.node.item else { continue };
        for (node, text) in listed.iter().zip(one.shown.as_array().into_iter().flatten()) {
            if !shown.contains(text) {
                nodes.push(node.clone());
                shown.push(text.clone());
            }
        }
    }
    if let Some(highest) = given.last_mut() {
        highest.node = ValueNode { span: 0..0, item: NodeValue::List(nodes) };
        highest.shown = Json::Array(shown);
    }
    parts
}

/// Adds the ignored values to the entries. A key that has no effective value gets its own entry.
fn show_untrusted(entries: &mut Vec<ConfigEntry>, untrusted: Vec<LayerValue>) {
    for given in untrusted {
        let value = ShadowedValue { source: given.source, value: given.shown };
        match entries.iter_mut().find(|entry| entry.key == given.name) {
            Some(entry) => entry.untrusted.push(value),
            None => entries.push(ConfigEntry {
                key: given.name,
                value: Json::Null,
                source: ValueSource::Default,
                shadowed: Vec::new(),
                added: Vec::new(),
                untrusted: vec![value],
            }),
        }
    }
}

fn choose_values(groups: &[(EntryRank, Vec<LayerValue>)]) -> EffectiveValues {
    let mut chosen = EffectiveValues::default();
    for given in groups.iter().filter_map(|(_, given)| given.last()) {
        chosen.insert(given.name.clone(), given.node.clone());
    }
    chosen
}

fn entry(
    key: String,
    mut given: Vec<LayerValue>,
    sums: &mut BTreeMap<String, Vec<ShadowedValue>>,
) -> ConfigEntry {
    let winner = given.pop().map(|given| (given.shown, given.source));
    let (value, source) = winner.unwrap_or((Json::Null, ValueSource::Default));
    if let Some(parts) = sums.remove(&key) {
        // The parts are shown only if there are several.
        let added = if parts.len() > 1 { parts } else { Vec::new() };
        return ConfigEntry {
            key,
            value,
            source,
            shadowed: Vec::new(),
            added,
            untrusted: Vec::new(),
        };
    }
    let hidden = given.into_iter().rev();
    let shadowed =
        hidden.map(|given| ShadowedValue { source: given.source, value: given.shown }).collect();
    ConfigEntry { key, value, source, shadowed, added: Vec::new(), untrusted: Vec::new() }
}

fn resolved(
    chosen: &EffectiveValues,
    entries: Vec<ConfigEntry>,
    warnings: Vec<VariableWarning>,
) -> Resolved {
    let hook_defaults = HookDefaults::take(chosen, "hooks");
    Resolved {
        session: Session::take(chosen, "session"),
        verify: Verify::take(chosen, "verify"),
        run: Run::take(chosen, "run"),
        review: Review::take(chosen, "review"),
        prices: Prices::take(chosen, "prices"),
        prompts: Prompts::take(chosen, "prompts"),
        worktree: Worktree::take(chosen, "worktree"),
        git: GitPrograms::take(chosen, "git"),
        terminal: Terminal::take(chosen, "terminal"),
        budget: Budget::take(chosen, "budget"),
        approvals: ApprovalRules::take(chosen, "approvals"),
        skills: Skills::take(chosen, "skills"),
        hooks: hooks(chosen, &hook_defaults),
        hook_defaults,
        agents: read_named("agents", chosen, &entries, Agent::take),
        monitor: Monitor::take(chosen, "monitor"),
        reactions: read_named("reactions", chosen, &entries, Reaction::take),
        verifiers: read_named("verifiers", chosen, &entries, Verifier::take),
        workflows: read_named("workflows", chosen, &entries, Workflow::take),
        loops: read_named("loops", chosen, &entries, LoopTemplate::take),
        policies: read_named("policies", chosen, &entries, ManagerPolicy::take),
        environment: Environment::take(chosen, "environment"),
        ui: Ui::take(chosen, "ui"),
        provenance: entries.iter().map(|entry| (entry.key.clone(), entry.source.clone())).collect(),
        warnings,
        entries,
        agent_values: chosen.of_section("agents"),
    }
}

fn hooks(chosen: &EffectiveValues, defaults: &HookDefaults) -> BTreeMap<Event, Hook> {
    let mut hooks = BTreeMap::new();
    for event in Event::ALL {
        if let Switchable::On(spec) =
            <Switchable<HookSpec> as ConfigField>::take(chosen, event.key())
        {
            hooks.insert(*event, with_limits(spec, defaults));
        }
    }
    hooks
}

fn with_limits(spec: HookSpec, defaults: &HookDefaults) -> Hook {
    Hook {
        command: spec.command,
        time_limit: spec.time_limit.unwrap_or(defaults.time_limit),
        output_limit: spec.output_limit.unwrap_or(defaults.output_limit),
    }
}

/// Reads all entries of a section whose names users choose.
fn read_named<T>(
    section: &str,
    chosen: &EffectiveValues,
    entries: &[ConfigEntry],
    take: fn(&EffectiveValues, &str) -> T,
) -> BTreeMap<String, T> {
    let names: BTreeSet<&str> =
        entries.iter().filter_map(|entry| name_in(section, &entry.key)).collect();
    let configured = names.into_iter().filter(|name| section != "agents" || !has_section(name));
    configured.map(|name| (name.to_owned(), take(chosen, &format!("{section}.{name}")))).collect()
}
