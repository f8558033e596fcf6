//! Five layers become one configuration, and every value remembers where it came from.

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
use crate::types::{Choice, Hook, HookSpec};
use crate::value::{Chosen, Setting};
use crate::workflow;

/// All that a configuration is made of. It may hold secrets, so it cannot be printed.
#[derive(Clone, Default)]
pub struct Inputs {
    pub user: Option<File>,
    pub project: Option<File>,
    /// The whole environment; only Provost's own variables are looked at.
    pub environment: BTreeMap<String, String>,
    /// A later flag beats an earlier one.
    pub flags: Vec<Flag>,
    /// The preset that was named: it counts as flags do, and flags win over it.
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

/// What a flag says; an empty list switches a list off.
#[derive(Clone)]
pub enum FlagValue {
    Text(String),
    List(Vec<String>),
}

/// The configuration that holds.
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
    /// The hooks that are on, with the limits that apply to them.
    pub hooks: BTreeMap<Event, Hook>,
    /// The agents that the files name; the built-in one is not among them.
    pub agents: BTreeMap<String, Agent>,
    pub codex: Codex,
    pub monitor: Monitor,
    pub reactions: BTreeMap<String, Reaction>,
    /// The verifiers that the files declare; those that are built in are not among them.
    pub verifiers: BTreeMap<String, Verifier>,
    pub workflows: BTreeMap<String, Workflow>,
    /// The loops that the files declare or change; those that are built in are not among them.
    pub loops: BTreeMap<String, LoopTemplate>,
    pub policies: BTreeMap<String, ManagerPolicy>,
    pub environment: Environment,
    pub ui: Ui,
    /// Where each key's value came from; a key that nothing set has [`Source::Default`].
    pub provenance: BTreeMap<String, Source>,
    pub warnings: Vec<Warning>,
    entries: Vec<Entry>,
}

/// A key with its value, its source and the values that it hides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    pub key: String,
    /// `null` if unset, `false` if an option that takes more than a switch is off; secrets are masked.
    pub value: Json,
    pub source: Source,
    /// Highest layer first.
    pub shadowed: Vec<Shadowed>,
    /// What each layer gives of a list that adds up, if several do; highest layer first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<Shadowed>,
}

/// A value that a higher layer hides, or a part of one that adds up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shadowed {
    pub source: Source,
    pub value: Json,
}

/// Lists that add up over the layers, instead of one replacing the other: what one layer forbids, no other
/// allows again.
const ADD_UP: [&str; 1] = ["approvals.deny"];

/// Keys that count in the user's own file only: what they allow is not for a repository to say.
const USER_ONLY: [&str; 1] = ["git.filters"];

/// Puts the layers together, or reports all problems of all of them.
pub fn resolve(inputs: &Inputs) -> Result<Resolved, Error> {
    let layers = Layers::read(inputs);
    Error::of(layers.problems)?;
    let mut keys = by_key(layers.defaults.into_iter().chain(layers.given));
    let mut sums = add_up(&mut keys);
    let chosen = choose(&keys);
    let entries: Vec<Entry> =
        keys.into_iter().map(|((_, _, key), given)| entry(key, given, &mut sums)).collect();
    Ok(resolved(&chosen, entries, layers.warnings))
}

impl Resolved {
    /// Every key with its value and source, in the order of the table.
    pub fn explain(&self) -> &[Entry] {
        &self.entries
    }

    /// The directory of the file that set a key: relative paths in its value begin there.
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

    /// The names of all presets.
    pub fn presets(&self) -> BTreeSet<&str> {
        let named = self.entries.iter().filter_map(|entry| preset::split(&entry.key));
        named.map(|(name, _)| name).collect()
    }

    /// What is true of the keys that a preset may set.
    pub fn preset_entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| preset::MAY_SET.contains(&entry.key.as_str()))
    }
}

/// A value that one layer gives to one key, checked.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) key: &'static Key,
    /// The key with names in place of stars.
    pub(crate) name: String,
    pub(crate) source: Source,
    pub(crate) node: Node,
    pub(crate) shown: Json,
}

impl Given {
    /// Checks a value; `locate` finds where a fault in it stands.
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

/// What all layers give, lowest first.
#[derive(Default)]
struct Layers {
    defaults: Vec<Given>,
    given: Vec<Given>,
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
}

impl Layers {
    fn read(inputs: &Inputs) -> Self {
        let mut layers = Self::default();
        layers.file(inputs.user.as_ref(), Source::User);
        layers.file(inputs.project.as_ref(), Source::Project);
        layers.refuse_of_project();
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

    /// Refuses what the project's file must not set.
    fn refuse_of_project(&mut self) {
        for given in &self.given {
            let of_project = matches!(given.source, Source::Project(_));
            if of_project && USER_ONLY.contains(&given.name.as_str()) {
                let detail = "it counts in your own provost.toml only; remove it here";
                let fault = Fault::new(ProblemKind::Invalid, &(0..0), detail);
                self.problems.push(fault.into_problem(&given.name, given.source.clone()));
            }
        }
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

    /// Every agent, verifier and workflow that any layer names has all that it needs.
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

/// The sections in which users name things of their own.
const NAMED: [&str; 6] = ["agents", "reactions", "verifiers", "workflows", "loops", "policies"];

fn keys_of(section: &str) -> impl Iterator<Item = &'static Key> {
    keys().filter(move |key| {
        key.name.strip_prefix(section).is_some_and(|rest| rest.starts_with(".*."))
    })
}

/// The agent, reaction, verifier, workflow, loop, policy or preset that a key belongs to.
fn owner_of(name: &str) -> Option<&str> {
    let named = NAMED.iter().find_map(|section| name_in(section, name));
    named.or_else(|| preset::split(name).map(|(name, _)| name))
}

fn name_in<'n>(section: &str, name: &'n str) -> Option<&'n str> {
    name.strip_prefix(section)?.strip_prefix('.')?.split('.').next()
}

/// Where an entry stands in a listing: section, whose it is, key.
type Rank = (usize, String, String);

/// Groups what was given by key, in the order of the table; the highest layer comes last.
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

/// Puts the sum of a list that adds up into its highest layer, and gives its parts.
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
        return Entry { key, value, source, shadowed: Vec::new(), added };
    }
    let hidden = given.into_iter().rev();
    let shadowed =
        hidden.map(|given| Shadowed { source: given.source, value: given.shown }).collect();
    Entry { key, value, source, shadowed, added: Vec::new() }
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

/// Takes everything that is named in a section.
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
