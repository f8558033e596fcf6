//! Reads a file's text as a layer: parsed, matched with the table and checked, with every problem
//! in it.

use toml::de::{DeTable, Error as TomlError};

use crate::key::Key;
use crate::node::{Item, Name, Node};
use crate::pattern::{self, Match};
use crate::problem::{Fault, MAX_PROBLEMS, Problem, ProblemKind, escape};
use crate::resolve::Given;
use crate::source::{Place, Source};
use crate::suggest;

/// The content of a file.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) given: Vec<Given>,
    pub(crate) problems: Vec<Problem>,
}

/// Reads a file's text; `source` converts a position into the layer's source.
pub(crate) fn read(file: &str, text: &str, source: fn(Place) -> Source) -> Reading {
    let walk = Walk {
        locate: &|offset| source(Place::at(file, text, offset)),
        reading: Reading::default(),
    };
    walk.document(text)
}

/// Parses a TOML value from the table itself.
pub(crate) fn literal(text: &str) -> Node {
    let document = format!("value = {text}");
    let table = DeTable::parse(&document).expect("the table's defaults are TOML");
    let value = table.get_ref().get("value").expect("the document has this one key");
    Node::from_toml(value)
}

struct Walk<'a> {
    locate: &'a dyn Fn(usize) -> Source,
    reading: Reading,
}

impl Walk<'_> {
    fn document(mut self, text: &str) -> Reading {
        match DeTable::parse(text) {
            Ok(table) => {
                let entries = table
                    .get_ref()
                    .iter()
                    .map(|(key, value)| (Name::from_toml(key), Node::from_toml(value)));
                self.table(&[], entries.collect());
            }
            Err(error) => self.syntax(&error),
        }
        self.reading.problems.sort_by_key(|problem| position(&problem.source));
        self.reading
    }

    /// Reports one syntax error only: later ones are mostly consequences of the first.
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

    /// Walks from top to bottom, so that the first problems are the ones reported.
    fn table(&mut self, path: &[String], mut entries: Vec<(Name, Node)>) {
        entries.sort_by_key(|(name, _)| name.span.start);
        for (name, node) in entries {
            self.entry(&extended(path, &name.text), &name, node);
        }
    }

    fn entry(&mut self, path: &[String], name: &Name, node: Node) {
        if let Some(why) = pattern::name_fault(path) {
            return self.problem(path, Fault::new(ProblemKind::BadName, &name.span, why));
        }
        match (pattern::find(path), node.item) {
            (Match::Key(key), item) => self.value(key, path, name, Node { item, span: node.span }),
            (Match::Table, Item::Table(entries)) => self.table(path, entries),
            (Match::Table, item) => {
                let found = Node { item, span: node.span };
                let detail = format!("expected a table, found {}", found.describe());
                self.problem(path, Fault::new(ProblemKind::WrongType, &found.span, detail));
            }
            (Match::Unknown, item) => {
                self.unknown(only_leaf(path.to_vec(), &item), name);
            }
        }
    }

    fn value(&mut self, key: &'static Key, path: &[String], name: &Name, node: Node) {
        let dotted = path.join(".");
        if self.reading.given.iter().any(|given| given.name == dotted) {
            let fault = Fault::new(
                ProblemKind::Repeated,
                &name.span,
                "it was already set in another notation",
            );
            return self.problem(path, fault);
        }
        let locate = self.locate;
        match Given::check(key, dotted, locate(name.span.start), node, |fault| {
            locate(fault.span.start)
        }) {
            Ok(given) => self.reading.given.push(given),
            Err(problems) => self.reading.problems.extend(problems),
        }
    }

    /// Reports an unknown key. The search for the nearest key is expensive, so it is skipped for
    /// problems that will not be reported.
    fn unknown(&mut self, path: Vec<String>, name: &Name) {
        let reported = self.reading.problems.len() < MAX_PROBLEMS;
        let hint = if reported { suggest::for_path(&path) } else { String::new() };
        self.problem(&path, Fault::new(ProblemKind::UnknownKey, &name.span, hint));
    }

    fn problem(&mut self, path: &[String], fault: Fault) {
        let source = (self.locate)(fault.span.start);
        self.reading.problems.push(fault.into_problem(&path.join("."), source));
    }
}

/// Returns a path with one more name. Events may be written as one quoted name: `"session.failed" =
/// "…"`.
fn extended(path: &[String], name: &str) -> Vec<String> {
    let in_hooks = path == ["hooks"];
    let mut longer = path.to_vec();
    if in_hooks {
        longer.extend(name.split('.').map(str::to_owned));
    } else {
        longer.push(name.to_owned());
    }
    longer
}

/// Follows an unknown table down to its only key, so that the message names what the user wrote.
fn only_leaf(mut path: Vec<String>, mut item: &Item) -> Vec<String> {
    while let Item::Table(entries) = item
        && let [(name, node)] = entries.as_slice()
    {
        path.push(name.text.clone());
        item = &node.item;
    }
    path
}

fn position(source: &Source) -> (usize, usize) {
    match source {
        Source::User(place) | Source::Project(place) => (place.line, place.column),
        Source::Default
        | Source::Environment { .. }
        | Source::Preset { .. }
        | Source::Flag { .. } => (0, 0),
    }
}
