//! Merges five layers into one configuration that records the source of every value.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use serde_json::Value as Json;

use crate::document;
use crate::environment::{self, Warning};
use crate::key::{Fallback, Key, keys};
use crate::load::File;
use crate::node::{Item, Node};
use crate::pattern::{self, BUILT_IN, Match};
use crate::preset;
use crate::problem::{Error, Fault, Problem, ProblemKind};
use crate::source::Source;
use crate::suggest;
use crate::table::{
    Agent, ApprovalRules, Budget, Codex, Environment, Event, GitPrograms, HookDefaults,
    LoopTemplate, ManagerPolicy, Monitor, Prices, Prompts, Reaction, Review, Run, Session, Skills,
    Terminal, Ui, Verifier, Verify, Workflow, Worktree,
};
use crate::trust;
use crate::types::{Choice, Hook, HookSpec};
use crate::value::{Chosen, Setting};
use crate::workflow;

/// All inputs of a configuration. They may contain secrets, so they cannot be printed.
#[derive(Clone, Default)]
pub struct Inputs {
    pub user: Option<File>,
    pub project: Option<File>,
    /// Whether the user trusts the project's file. Otherwise its keys that run something or widen
    /// rights are ignored: see [`crate::trust`].
    pub project_is_trusted: bool,
    /// The whole environment; only Provost's own variables are read.
    pub environment: BTreeMap<String, String>,
    /// A later flag overrides an earlier one.
    pub flags: Vec<Flag>,
    /// The preset to use: it counts like flags, and flags override it.
    pub preset: Option<String>,
}

/// A key set on the command line.
#[derive(Clone)]
pub struct Flag {
    /// The flag as typed, for messages and provenance: `--check`.
    pub flag: String,
    pub key: String,
    pub value: FlagValue,
}

/// The value of a flag; an empty list switches a list off.
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
    /// The enabled hooks, with the limits that apply to them.
    pub hooks: BTreeMap<Event, Hook>,
    /// The agents that the files declare, without the built-in one.
    pub agents: BTreeMap<String, Agent>,
    pub codex: Codex,
    pub monitor: Monitor,
    pub reactions: BTreeMap<String, Reaction>,
    /// The verifiers that the files declare, without the built-in ones.
    pub verifiers: BTreeMap<String, Verifier>,
    pub workflows: BTreeMap<String, Workflow>,
    /// The loops that the files declare or change, without the built-in ones.
    pub loops: BTreeMap<String, LoopTemplate>,
    pub policies: BTreeMap<String, ManagerPolicy>,
    pub environment: Environment,
    pub ui: Ui,
    /// The source of each key's value; a key that no layer set has [`Source::Default`].
    pub provenance: BTreeMap<String, Source>,
    pub warnings: Vec<Warning>,
    entries: Vec<Entry>,
}

/// A key with its value, its source and the values that it hides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    pub key: String,
    /// `null` if unset, `false` if an option other than a switch is off; secrets are masked.
    pub value: Json,
    pub source: Source,
    /// Highest layer first.
    pub shadowed: Vec<Shadowed>,
    /// The parts of a list that adds up over several layers; highest layer first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<Shadowed>,
    /// A value of the project that is ignored until the user trusts it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untrusted: Vec<Shadowed>,
}

/// A value that a higher layer hides, or a part of a list that adds up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shadowed {
    pub source: Source,
    pub value: Json,
}

/// Lists that add up over the layers instead of replacing each other: what one layer forbids, no
/// other can allow.
const ADD_UP: [&str; 1] = ["approvals.deny"];

/// Keys that are allowed in the user's own file only: a repository must not grant these rights.
const USER_ONLY: [&str; 1] = ["git.filters"];

/// Merges the layers, or reports all problems of all of them.
pub fn resolve(inputs: &Inputs) -> Result<Resolved, Error> {
    let layers = Layers::read(inputs);
    Error::of(layers.problems)?;
    let mut keys = by_key(layers.defaults.into_iter().chain(layers.given));
    let mut sums = add_up(&mut keys);
    let chosen = choose(&keys);
    let entries: Vec<Entry> =
        keys.into_iter().map(|((_, _, key), given)| entry(key, given, &mut sums)).collect();
    let mut resolved = resolved(&chosen, entries, layers.warnings);
    show_untrusted(&mut resolved.entries, layers.untrusted);
    Ok(resolved)
}

impl Resolved {
    /// Returns every key with its value and source, in the order of the table.
    pub fn explain(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the directory of the file that set a key: relative paths in its value start there.
    pub fn directory_of(&self, key: &str) -> Option<&Path> {
        let source = self.provenance.get(key)?;
        let set = if let Source::Preset { set, .. } = source { set } else { source };
        match set {
            Source::User(place) | Source::Project(place) => Path::new(&place.file).parent(),
            Source::Default
            | Source::Environment { .. }
            | Source::Preset { .. }
            | Source::Flag { .. } => None,
        }
    }

    /// Returns the names of all presets.
    pub fn presets(&self) -> BTreeSet<&str> {
        let set = self.entries.iter().filter(|entry| entry.counts());
        let named = set.filter_map(|entry| preset::split(&entry.key));
        named.map(|(name, _)| name).collect()
    }

    /// Returns the values of the keys that a preset may set.
    pub fn preset_entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| preset::MAY_SET.contains(&entry.key.as_str()))
    }
}

impl Entry {
    /// Whether any effective layer, or a default, sets the key; otherwise only an untrusted file
    /// names it.
    fn counts(&self) -> bool {
        self.untrusted.is_empty() || self.source != Source::Default || !self.value.is_null()
    }
}

/// A checked value that one layer gives one key.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) key: &'static Key,
    /// The key with names instead of stars.
    pub(crate) name: String,
    pub(crate) source: Source,
    pub(crate) node: Node,
    pub(crate) shown: Json,
}

impl Given {
    /// Checks a value; `locate` returns the source of a fault in it.
    pub(crate) fn check(
        key: &'static Key,
        name: String,
        source: Source,
        node: Node,
        locate: impl Fn(&Fault) -> Source,
    ) -> Result<Self, Vec<Problem>> {
        match (key.check)(&node, key.limits) {
            Ok(shown) => Ok(Self { key, name, source, node, shown }),
            Err(faults) => {
                Err(faults.into_iter().map(|fault| located(fault, &name, &locate)).collect())
            }
        }
    }
}

fn located(fault: Fault, name: &str, locate: impl Fn(&Fault) -> Source) -> Problem {
    let source = locate(&fault);
    fault.into_problem(name, source)
}

/// The values of all layers, lowest first.
#[derive(Default)]
struct Layers {
    defaults: Vec<Given>,
    given: Vec<Given>,
    /// The ignored values of the project's file.
    untrusted: Vec<Given>,
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
}

impl Layers {
    fn read(inputs: &Inputs) -> Self {
        let mut layers = Self::default();
        layers.file(inputs.user.as_ref(), Source::User);
        layers.file(inputs.project.as_ref(), Source::Project);
        layers.refuse_of_project();
        if !inputs.project_is_trusted {
            layers.set_untrusted_apart();
        }
        layers.environment(&inputs.environment);
        layers.presets(inputs.preset.as_deref());
        inputs.flags.iter().for_each(|flag| layers.flag(flag));
        layers.complete();
        layers.add_defaults();
        layers
    }

    fn file(&mut self, file: Option<&File>, source: fn(crate::source::Place) -> Source) {
        if let Some(file) = file {
            let reading = document::read(&file.name, &file.text, source);
            self.given.extend(reading.given);
            self.problems.extend(reading.problems);
        }
    }

    /// Rejects keys that the project's file must not set.
    fn refuse_of_project(&mut self) {
        for given in &self.given {
            let of_project = matches!(given.source, Source::Project(_));
            if of_project && USER_ONLY.contains(&given.name.as_str()) {
                let detail = "it is allowed in your own provost.toml only; remove it here";
                let fault = Fault::new(ProblemKind::Invalid, &(0..0), detail);
                self.problems.push(fault.into_problem(&given.name, given.source.clone()));
            }
        }
    }

    /// Removes untrusted values of the project's file. Called while that file is the newest layer.
    fn set_untrusted_apart(&mut self) {
        let is_untrusted = |given: &mut Given| {
            matches!(given.source, Source::Project(_)) && trust::needs_trust(&given.name)
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

    fn flag(&mut self, flag: &Flag) {
        match flag_value(flag) {
            Ok(given) => self.given.push(given),
            Err(problems) => self.problems.extend(problems),
        }
    }

    /// Completes every agent, verifier and workflow that any layer names with defaults, and reports
    /// missing keys.
    fn complete(&mut self) {
        for section in NAMED {
            for (owner, source) in &self.first_mentions(section) {
                self.complete_one(section, owner, source);
            }
        }
    }

    fn complete_one(&mut self, section: &str, owner: &str, source: &Source) {
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

    fn require(&mut self, key: &Key, name: &str, source: &Source) {
        let given = self.given.iter().any(|given| given.name == name);
        let reported = self.problems.iter().any(|problem| problem.key.as_deref() == Some(name));
        if key.fallback == Fallback::Required && !given && !reported {
            let fault = Fault::new(
                ProblemKind::Missing,
                &(0..0),
                format!("expected {}", (key.shape)().expected()),
            );
            self.problems.push(fault.into_problem(name, source.clone()));
        }
    }

    fn first_mentions(&self, section: &str) -> BTreeMap<String, Source> {
        let mut named = BTreeMap::new();
        for given in self.given.iter().chain(&self.defaults) {
            let own = |name: &&str| (section, *name) != ("agents", BUILT_IN);
            if let Some(name) = name_in(section, &given.name).filter(own) {
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

    fn add_default(&mut self, key: &'static Key, name: String, node: Node) {
        let given = Given::check(key, name, Source::Default, node, |_| Source::Default);
        self.defaults.push(given.expect("defaults are valid"));
    }
}

fn flag_value(flag: &Flag) -> Result<Given, Vec<Problem>> {
    let path: Vec<String> = flag.key.split('.').map(str::to_owned).collect();
    let source = || Source::Flag { flag: flag.flag.clone() };
    let refuse =
        |kind, detail| vec![Fault::new(kind, &(0..0), detail).into_problem(&flag.key, source())];
    let wrong_name = (1..=path.len()).find_map(|length| pattern::name_fault(&path[..length]));
    if let Some(why) = wrong_name {
        return Err(refuse(ProblemKind::BadName, why));
    }
    let Match::Key(key) = pattern::find(&path) else {
        return Err(refuse(ProblemKind::UnknownKey, suggest::for_path(&path)));
    };
    let node = match &flag.value {
        FlagValue::Text(text) => Node::written(text),
        FlagValue::List(texts) => Node::written_list(texts),
    };
    Given::check(key, flag.key.clone(), source(), node, |_| source())
}

/// The sections in which users choose names.
const NAMED: [&str; 6] = ["agents", "reactions", "verifiers", "workflows", "loops", "policies"];

fn keys_of(section: &str) -> impl Iterator<Item = &'static Key> {
    keys().filter(move |key| {
        key.name.strip_prefix(section).is_some_and(|rest| rest.starts_with(".*."))
    })
}

/// Returns the agent, reaction, verifier, workflow, loop, policy or preset of a key.
fn owner_of(name: &str) -> Option<&str> {
    let named = NAMED.iter().find_map(|section| name_in(section, name));
    named.or_else(|| preset::split(name).map(|(name, _)| name))
}

fn name_in<'n>(section: &str, name: &'n str) -> Option<&'n str> {
    name.strip_prefix(section)?.strip_prefix('.')?.split('.').next()
}

/// The position of an entry in a listing: section, owner, key.
type Rank = (usize, String, String);

/// Groups values by key, in the order of the table; the highest layer comes last.
fn by_key(given: impl Iterator<Item = Given>) -> Vec<(Rank, Vec<Given>)> {
    let mut groups: BTreeMap<(usize, String, usize, String), Vec<Given>> = BTreeMap::new();
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

fn section_rank(key: &Key) -> usize {
    let section = key.segments().next();
    keys().position(|other| other.segments().next() == section).unwrap_or_default()
}

/// Puts the sum of a list that adds up into its highest layer, and returns its parts.
fn add_up(groups: &mut [(Rank, Vec<Given>)]) -> BTreeMap<String, Vec<Shadowed>> {
    let adds_up = |name: &str| ADD_UP.contains(&name);
    let groups = groups.iter_mut().filter(|((_, _, name), _)| adds_up(name));
    groups.map(|((_, _, name), given)| (name.clone(), sum(given))).collect()
}

fn sum(given: &mut Vec<Given>) -> Vec<Shadowed> {
    let says_something = |given: &Given| given.shown.as_array().is_some_and(|all| !all.is_empty());
    if !given.iter().any(says_something) {
        return Vec::new();
    }
    given.retain(says_something);
    let parts: Vec<Shadowed> = given
        .iter()
        .rev()
        .map(|given| Shadowed { source: given.source.clone(), value: given.shown.clone() })
        .collect();
    let (mut nodes, mut shown) = (Vec::new(), Vec::new());
    for one in given.iter() {
        let Item::List(listed) = &one.node.item else { continue };
        for (node, text) in listed.iter().zip(one.shown.as_array().into_iter().flatten()) {
            if !shown.contains(text) {
                nodes.push(node.clone());
                shown.push(text.clone());
            }
        }
    }
    if let Some(highest) = given.last_mut() {
        highest.node = Node { span: 0..0, item: Item::List(nodes) };
        highest.shown = Json::Array(shown);
    }
    parts
}

/// Adds ignored values to the entries. A key without any effective value gets its own entry.
fn show_untrusted(entries: &mut Vec<Entry>, untrusted: Vec<Given>) {
    for given in untrusted {
        let value = Shadowed { source: given.source, value: given.shown };
        match entries.iter_mut().find(|entry| entry.key == given.name) {
            Some(entry) => entry.untrusted.push(value),
            None => entries.push(Entry {
                key: given.name,
                value: Json::Null,
                source: Source::Default,
                shadowed: Vec::new(),
                added: Vec::new(),
                untrusted: vec![value],
            }),
        }
    }
}

fn choose(groups: &[(Rank, Vec<Given>)]) -> Chosen {
    let mut chosen = Chosen::default();
    for given in groups.iter().filter_map(|(_, given)| given.last()) {
        chosen.insert(given.name.clone(), given.node.clone());
    }
    chosen
}

fn entry(key: String, mut given: Vec<Given>, sums: &mut BTreeMap<String, Vec<Shadowed>>) -> Entry {
    let winner = given.pop().map(|given| (given.shown, given.source));
    let (value, source) = winner.unwrap_or((Json::Null, Source::Default));
    if let Some(parts) = sums.remove(&key) {
        // A sum of one part is that part.
        let added = if parts.len() > 1 { parts } else { Vec::new() };
        return Entry { key, value, source, shadowed: Vec::new(), added, untrusted: Vec::new() };
    }
    let hidden = given.into_iter().rev();
    let shadowed =
        hidden.map(|given| Shadowed { source: given.source, value: given.shown }).collect();
    Entry { key, value, source, shadowed, added: Vec::new(), untrusted: Vec::new() }
}

fn resolved(chosen: &Chosen, entries: Vec<Entry>, warnings: Vec<Warning>) -> Resolved {
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
        agents: named("agents", chosen, &entries, Agent::take),
        codex: Codex::take(chosen, "agents.codex"),
        monitor: Monitor::take(chosen, "monitor"),
        reactions: named("reactions", chosen, &entries, Reaction::take),
        verifiers: named("verifiers", chosen, &entries, Verifier::take),
        workflows: named("workflows", chosen, &entries, Workflow::take),
        loops: named("loops", chosen, &entries, LoopTemplate::take),
        policies: named("policies", chosen, &entries, ManagerPolicy::take),
        environment: Environment::take(chosen, "environment"),
        ui: Ui::take(chosen, "ui"),
        provenance: entries.iter().map(|entry| (entry.key.clone(), entry.source.clone())).collect(),
        warnings,
        entries,
    }
}

fn hooks(chosen: &Chosen, defaults: &HookDefaults) -> BTreeMap<Event, Hook> {
    let mut hooks = BTreeMap::new();
    for event in Event::ALL {
        if let Choice::On(spec) = <Choice<HookSpec> as Setting>::take(chosen, event.key()) {
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

/// Reads everything that is named in a section.
fn named<T>(
    section: &str,
    chosen: &Chosen,
    entries: &[Entry],
    take: fn(&Chosen, &str) -> T,
) -> BTreeMap<String, T> {
    let names: BTreeSet<&str> =
        entries.iter().filter_map(|entry| name_in(section, &entry.key)).collect();
    let configured = names.into_iter().filter(|name| (section, *name) != ("agents", BUILT_IN));
    configured.map(|name| (name.to_owned(), take(chosen, &format!("{section}.{name}")))).collect()
}
