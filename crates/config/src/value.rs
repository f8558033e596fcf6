//! Converts untyped values into typed ones: the interface between the table and the types.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::node::{Item, Node};
use crate::problem::{Fault, ProblemKind, quote};
use crate::shape::{Limits, Shape};

/// A type of a single configuration value.
pub(crate) trait Value: Sized {
    fn shape() -> Shape;

    fn read(node: &Node) -> Result<Self, Vec<Fault>>;

    /// The value as `config show` prints it; secrets are masked here.
    fn show(&self) -> Json;

    /// The amount that limits apply to.
    fn amount(&self) -> Option<u64> {
        None
    }

    /// The value of an option that no layer set.
    fn unset() -> Option<Self> {
        None
    }
}

/// A type of a section's field: usually one value, sometimes a map of them.
pub(crate) trait Setting: Sized {
    fn shape() -> Shape;

    /// Checks one value and returns how to show it.
    fn check(node: &Node, limits: Limits) -> Result<Json, Vec<Fault>>;

    /// Reads the field from values that were all checked before.
    fn take(chosen: &Chosen, name: &str) -> Self;
}

/// The effective value of every key that any layer set.
#[derive(Debug, Default)]
pub(crate) struct Chosen(BTreeMap<String, Node>);

impl<V: Value> Setting for V {
    fn shape() -> Shape {
        V::shape()
    }

    fn check(node: &Node, limits: Limits) -> Result<Json, Vec<Fault>> {
        bounded::<V>(node, limits).map(|value| value.show())
    }

    fn take(chosen: &Chosen, name: &str) -> Self {
        match chosen.0.get(name) {
            Some(node) => V::read(node).expect("every chosen value was checked"),
            None => V::unset().expect("required keys and defaults were checked"),
        }
    }
}

impl Chosen {
    pub(crate) fn insert(&mut self, name: String, node: Node) {
        self.0.insert(name, node);
    }

    /// Returns the last segments of the names right below a prefix, with their values.
    pub(crate) fn below<'a>(&'a self, prefix: &str) -> impl Iterator<Item = (&'a str, &'a Node)> {
        let prefix = format!("{prefix}.");
        let within = self.0.range(prefix.clone()..).take_while({
            let prefix = prefix.clone();
            move |(name, _)| name.starts_with(&prefix)
        });
        within.map(move |(name, node)| (&name[prefix.len()..], node))
    }
}

/// Reads a value and checks its limits.
pub(crate) fn bounded<V: Value>(node: &Node, limits: Limits) -> Result<V, Vec<Fault>> {
    let value = V::read(node)?;
    match value.amount() {
        Some(amount) if !limits.contains(amount) => {
            Err(vec![out_of_range(node, &V::shape(), amount, limits)])
        }
        Some(_) | None => Ok(value),
    }
}

fn out_of_range(node: &Node, shape: &Shape, amount: u64, limits: Limits) -> Fault {
    let (min, max, found) =
        (shape.amount(limits.min), shape.amount(limits.max), shape.amount(amount));
    Fault::new(
        ProblemKind::OutOfRange,
        &node.span,
        format!("expected {min} to {max}, found {found}"),
    )
}

/// Returns the text of a string, or a fault that states what was expected.
pub(crate) fn text<V: Value>(node: &Node) -> Result<&str, Vec<Fault>> {
    match &node.item {
        Item::Text(text) | Item::Written(text) => Ok(text),
        Item::Switch(_)
        | Item::Integer(_)
        | Item::Float(_)
        | Item::List(_)
        | Item::Table(_)
        | Item::Other(_) => Err(wrong_type::<V>(node)),
    }
}

pub(crate) fn wrong_type<V: Value>(node: &Node) -> Vec<Fault> {
    let detail = format!("expected {}, found {}", V::shape().expected(), node.describe());
    vec![Fault::new(ProblemKind::WrongType, &node.span, detail)]
}

pub(crate) fn invalid(node: &Node, detail: impl Into<String>) -> Vec<Fault> {
    vec![Fault::new(ProblemKind::Invalid, &node.span, detail)]
}

impl Value for bool {
    fn shape() -> Shape {
        Shape::Switch
    }

    fn read(node: &Node) -> Result<Self, Vec<Fault>> {
        match &node.item {
            Item::Switch(on) => Ok(*on),
            Item::Written(text) => written_switch(node, text),
            Item::Integer(_)
            | Item::Float(_)
            | Item::Text(_)
            | Item::List(_)
            | Item::Table(_)
            | Item::Other(_) => Err(wrong_type::<Self>(node)),
        }
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

/// A switch that is unset unless a layer sets it on or off.
impl Value for Option<bool> {
    fn shape() -> Shape {
        Shape::Switch
    }

    fn read(node: &Node) -> Result<Self, Vec<Fault>> {
        bool::read(node).map(Some)
    }

    fn show(&self) -> Json {
        json!(self)
    }

    fn unset() -> Option<Self> {
        Some(None)
    }
}

impl Value for u32 {
    fn shape() -> Shape {
        Shape::Count
    }

    fn read(node: &Node) -> Result<Self, Vec<Fault>> {
        let number = match &node.item {
            Item::Integer(number) => Self::try_from(*number).ok(),
            Item::Written(text) => digits(text).and_then(|number| Self::try_from(number).ok()),
            Item::Switch(_)
            | Item::Float(_)
            | Item::Text(_)
            | Item::List(_)
            | Item::Table(_)
            | Item::Other(_) => {
                return Err(wrong_type::<Self>(node));
            }
        };
        number.ok_or_else(|| invalid(node, "it is negative, too large or not a number"))
    }

    fn show(&self) -> Json {
        json!(self)
    }

    fn amount(&self) -> Option<u64> {
        Some(u64::from(*self))
    }
}

impl<V: Value> Value for Vec<V> {
    fn shape() -> Shape {
        Shape::List(Box::new(V::shape()))
    }

    fn read(node: &Node) -> Result<Self, Vec<Fault>> {
        let Item::List(nodes) = &node.item else {
            return Err(wrong_type::<Self>(node));
        };
        collect(nodes.iter().map(V::read))
    }

    fn show(&self) -> Json {
        self.iter().map(Value::show).collect()
    }
}

/// Collects all values, or all faults.
fn collect<V>(results: impl Iterator<Item = Result<V, Vec<Fault>>>) -> Result<Vec<V>, Vec<Fault>> {
    let (mut values, mut faults) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(value) => values.push(value),
            Err(more) => faults.extend(more),
        }
    }
    if faults.is_empty() { Ok(values) } else { Err(faults) }
}

fn written_switch(node: &Node, text: &str) -> Result<bool, Vec<Fault>> {
    match text {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        other => Err(invalid(node, format!("expected true or false, found {}", quote(other)))),
    }
}

/// Parses decimal digits only: no sign, no blanks, no separators.
pub(crate) fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}
