//! Parses a configuration file into a layer, validates it against the table of keys, and collects
//! every problem found.

use toml::de::{DeTable, Error as TomlError};

use crate::key::ConfigKey;
use crate::node::{KeyName, NodeValue, ValueNode};
use crate::pattern::{self, PathMatch};
use crate::problem::{MAX_PROBLEMS, Problem, ProblemKind, ValueFault, escape};
use crate::resolve::LayerValue;
use crate::source::{SourceSpan, ValueSource};
use crate::suggest;
use crate::value::ConfigValue;

/// The version of the file's format. A file can specify the version with the key `version` at its top.
pub const CONFIG_VERSION: u32 = 1;

/// The key that specifies the version.
const VERSION_KEY: &str = "version";

/// The values and problems found in a file.
#[derive(Debug, Default)]
pub(crate) struct DocumentReading {
    pub(crate) given: Vec<LayerValue>,
    pub(crate) problems: Vec<Problem>,
}

/// Reads a file's text. `source` turns a position in the file into the source of a value.
pub(crate) fn read(
    file: &str,
    text: &str,
    source: fn(SourceSpan) -> ValueSource,
) -> DocumentReading {
    let walk = DocumentWalk {
        locate: &|offset| source(SourceSpan::at(file, text, offset)),
        reading: DocumentReading::default(),
    };
    walk.document(text)
}

/// Parses a TOML literal from the table of keys, such as a default value.
pub(crate) fn literal(text: &str) -> ValueNode {
    let document = format!("value = {text}");
    let table = DeTable::parse(&document).expect("the table's defaults are TOML");
    let value = table.get_ref().get("value").expect("the document has this one key");
    ValueNode::from_toml(value)
}

struct DocumentWalk<'a> {
    locate: &'a dyn Fn(usize) -> ValueSource,
    reading: DocumentReading,
}

impl DocumentWalk<'_> {
    fn document(mut self, text: &str) -> DocumentReading {
        match DeTable::parse(text) {
            Ok(table) => {
                let entries = table
                    .get_ref()
                    .iter()
                    .map(|(key, value)| (KeyName::from_toml(key), ValueNode::from_toml(value)));
                let (version, entries): (Vec<_>, Vec<_>) =
                    entries.partition(|(name, _)| name.text == VERSION_KEY);
                // In a file of another version, the keys may have other meanings.
                match version.iter().find_map(|(_, node)| version_fault(node)) {
                    Some(fault) => self.problem(&[VERSION_KEY.to_owned()], fault),
                    None => self.table(&[], entries),
                }
            }
            Err(error) => self.syntax(&error),
        }
        self.reading.problems.sort_by_key(|problem| position(&problem.source));
        self.reading
    }

    /// Reports only the first syntax error, because later ones are mostly consequences of it.
    fn syntax(&mut self, error: &TomlError) {
        let offset = error.span().map_or(0, |span| span.start);
        let (source, detail) = ((self.locate)(offset), escape(error.message()));
        self.reading.problems.push(Problem {
            kind: ProblemKind::Syntax,
            key: None,
            source,
            detail,
        });
    }

    /// Walks the entries from top to bottom, so that the first problems in the file are reported.
    fn table(&mut self, path: &[String], mut entries: Vec<(KeyName, ValueNode)>) {
        entries.sort_by_key(|(name, _)| name.span.start);
        for (name, node) in entries {
            self.entry(&extend_path(path, &name.text), &name, node);
        }
    }

    fn entry(&mut self, path: &[String], name: &KeyName, node: ValueNode) {
        if let Some(why) = pattern::name_fault(path) {
            return self.problem(path, ValueFault::new(ProblemKind::BadName, &name.span, why));
        }
        match (pattern::find(path), node.item) {
            (PathMatch::Key(key), item) => {
                self.value(key, path, name, ValueNode { item, span: node.span })
            }
            (PathMatch::Table, NodeValue::Table(entries)) => self.table(path, entries),
            (PathMatch::Table, item) => {
                let found = ValueNode { item, span: node.span };
                let detail = format!("expected a table, found {}", found.describe());
                self.problem(path, ValueFault::new(ProblemKind::WrongType, &found.span, detail));
            }
            (PathMatch::Unknown, item) => {
                self.unknown(descend_to_leaf(path.to_vec(), &item), name);
            }
        }
    }

    fn value(&mut self, key: &'static ConfigKey, path: &[String], name: &KeyName, node: ValueNode) {
        let dotted = path.join(".");
        if self.reading.given.iter().any(|given| given.name == dotted) {
            let fault = ValueFault::new(
                ProblemKind::Repeated,
                &name.span,
                "it was already set in another notation",
            );
            return self.problem(path, fault);
        }
        let locate = self.locate;
        match LayerValue::check(key, dotted, locate(name.span.start), node, |fault| {
            locate(fault.span.start)
        }) {
            Ok(given) => self.reading.given.push(given),
            Err(problems) => self.reading.problems.extend(problems),
        }
    }

    /// Reports an unknown key. The search for the most similar key is expensive, so the method does nothing once the
    /// limit of reported problems is reached.
    fn unknown(&mut self, path: Vec<String>, name: &KeyName) {
        let reported = self.reading.problems.len() < MAX_PROBLEMS;
        let hint = if reported { suggest::suggest_for_path(&path) } else { String::new() };
        self.problem(&path, ValueFault::new(ProblemKind::UnknownKey, &name.span, hint));
    }

    fn problem(&mut self, path: &[String], fault: ValueFault) {
        let source = (self.locate)(fault.span.start);
        self.reading.problems.push(fault.into_problem(&path.join("."), source));
    }
}

/// Returns why a file with this version is refused.
fn version_fault(node: &ValueNode) -> Option<ValueFault> {
    let refuse = |kind, detail| Some(ValueFault::new(kind, &node.span, detail));
    match u32::read(node) {
        Ok(CONFIG_VERSION) => None,
        Ok(_) => refuse(
            ProblemKind::Invalid,
            format!("this provost reads only version {CONFIG_VERSION} of the configuration"),
        ),
        Err(faults) => faults.into_iter().next(),
    }
}

/// Appends a name to a path. The name of an event may be written as one quoted key:
/// `"session.failed" = "…"`.
fn extend_path(path: &[String], name: &str) -> Vec<String> {
    let in_hooks = path == ["hooks"];
    let mut longer = path.to_vec();
    if in_hooks {
        longer.extend(name.split('.').map(str::to_owned));
    } else {
        longer.push(name.to_owned());
    }
    longer
}

/// Descends from an unknown table to its only key, so that the message shows the path the user wrote.
fn descend_to_leaf(mut path: Vec<String>, mut item: &NodeValue) -> Vec<String> {
    while let NodeValue::Table(entries) = item
        && let [(name, node)] = entries.as_slice()
    {
        path.push(name.text.clone());
        item = &node.item;
    }
    path
}

fn position(source: &ValueSource) -> (usize, usize) {
    match source {
        ValueSource::User(place) | ValueSource::Project(place) => (place.line, place.column),
        ValueSource::Default
        | ValueSource::Environment { .. }
        | ValueSource::Preset { .. }
        | ValueSource::Flag { .. } => (0, 0),
    }
}
