//! Converts untyped values into typed values. This is the interface between the table and the types.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value as Json, json};

use crate::node::{NodeValue, ValueNode};
use crate::problem::{ProblemKind, ValueFault, quote};
use crate::shape::{ValueLimits, ValueShape};

/// The type of a single configuration value.
pub(crate) trait ConfigValue: Sized {
    fn shape() -> ValueShape;

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>>;

    /// The value as `config show` prints it, with secrets masked.
    fn show(&self) -> Json;

    /// The amount to check against the limits, if the type has one.
    fn bounded_amount(&self) -> Option<u64> {
        None
    }

    /// The value of an option that no layer sets, if the type allows that.
    fn unset() -> Option<Self> {
        None
    }
}

/// The type of a section's field: usually a single value, sometimes a map of values.
pub(crate) trait ConfigField: Sized {
    fn shape() -> ValueShape;

    /// Validates one value, and returns it in the form to show to users.
    fn check(node: &ValueNode, limits: ValueLimits) -> Result<Json, Vec<ValueFault>>;

    /// Reads the field from values that have already been validated.
    fn take(chosen: &EffectiveValues, name: &str) -> Self;
}

/// The effective value of every key that has been set. `Debug` omits the values, because they may be secret.
#[derive(Clone, Default)]
pub(crate) struct EffectiveValues(BTreeMap<String, ValueNode>);

impl<V: ConfigValue> ConfigField for V {
    fn shape() -> ValueShape {
        V::shape()
    }

    fn check(node: &ValueNode, limits: ValueLimits) -> Result<Json, Vec<ValueFault>> {
        bounded::<V>(node, limits).map(|value| value.show())
    }

    fn take(chosen: &EffectiveValues, name: &str) -> Self {
        match chosen.0.get(name) {
            Some(node) => V::read(node).expect("every chosen value was checked"),
            None => V::unset().expect("required keys and defaults were checked"),
        }
    }
}

impl fmt::Debug for EffectiveValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl EffectiveValues {
    /// Returns a copy of the values in a section.
    pub(crate) fn of_section(&self, section: &str) -> EffectiveValues {
        let values = self.below(section);
        let named = values.map(|(name, node)| (format!("{section}.{name}"), node.clone()));
        EffectiveValues(named.collect())
    }

    pub(crate) fn insert(&mut self, name: String, node: ValueNode) {
        self.0.insert(name, node);
    }

    /// Returns the names directly below a prefix, with their values.
    pub(crate) fn below<'a>(
        &'a self,
        prefix: &str,
    ) -> impl Iterator<Item = (&'a str, &'a ValueNode)> {
        let prefix = format!("{prefix}.");
        let within = self.0.range(prefix.clone()..).take_while({
            let prefix = prefix.clone();
            move |(name, _)| name.starts_with(&prefix)
        });
        within.map(move |(name, node)| (&name[prefix.len()..], node))
    }
}

/// Reads a value and checks it against the limits.
pub(crate) fn bounded<V: ConfigValue>(
    node: &ValueNode,
    limits: ValueLimits,
) -> Result<V, Vec<ValueFault>> {
    let value = V::read(node)?;
    match value.bounded_amount() {
        Some(amount) if !limits.contains(amount) => {
            Err(vec![out_of_range(node, &V::shape(), amount, limits)])
        }
        Some(_) | None => Ok(value),
    }
}

fn out_of_range(
    node: &ValueNode,
    shape: &ValueShape,
    amount: u64,
    limits: ValueLimits,
) -> ValueFault {
    let (min, max, found) =
        (shape.amount(limits.min), shape.amount(limits.max), shape.amount(amount));
    ValueFault::new(
        ProblemKind::OutOfRange,
        &node.span,
        format!("expected {min} to {max}, found {found}"),
    )
}

/// Returns the text of a string, or a fault that describes what was expected.
pub(crate) fn text<V: ConfigValue>(node: &ValueNode) -> Result<&str, Vec<ValueFault>> {
    match &node.item {
        NodeValue::Text(text) | NodeValue::Plain(text) => Ok(text),
        NodeValue::Switch(_)
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::List(_)
        | NodeValue::Table(_)
        | NodeValue::Other(_) => Err(wrong_type::<V>(node)),
    }
}

/// Returns one fault, in the list that [`ConfigValue::read`] returns.
pub(crate) fn wrong_type<V: ConfigValue>(node: &ValueNode) -> Vec<ValueFault> {
    let detail = format!("expected {}, found {}", V::shape().expected(), node.describe());
    vec![ValueFault::new(ProblemKind::WrongType, &node.span, detail)]
}

/// Returns one fault, in the list that [`ConfigValue::read`] returns.
pub(crate) fn invalid(node: &ValueNode, detail: impl Into<String>) -> Vec<ValueFault> {
    vec![ValueFault::new(ProblemKind::Invalid, &node.span, detail)]
}

impl ConfigValue for bool {
    fn shape() -> ValueShape {
        ValueShape::Switch
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        match &node.item {
            NodeValue::Switch(on) => Ok(*on),
            NodeValue::Plain(text) => written_switch(node, text),
            NodeValue::Integer(_)
            | NodeValue::Float(_)
            | NodeValue::Text(_)
            | NodeValue::List(_)
            | NodeValue::Table(_)
            | NodeValue::Other(_) => Err(wrong_type::<Self>(node)),
        }
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

/// A boolean that may be unset.
impl ConfigValue for Option<bool> {
    fn shape() -> ValueShape {
        ValueShape::Switch
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        bool::read(node).map(Some)
    }

    fn show(&self) -> Json {
        json!(self)
    }

    fn unset() -> Option<Self> {
        Some(None)
    }
}

impl ConfigValue for u32 {
    fn shape() -> ValueShape {
        ValueShape::Count
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        let number = match &node.item {
            NodeValue::Integer(number) => Self::try_from(*number).ok(),
            NodeValue::Plain(text) => digits(text).and_then(|number| Self::try_from(number).ok()),
            NodeValue::Switch(_)
            | NodeValue::Float(_)
            | NodeValue::Text(_)
            | NodeValue::List(_)
            | NodeValue::Table(_)
            | NodeValue::Other(_) => {
                return Err(wrong_type::<Self>(node));
            }
        };
        number.ok_or_else(|| invalid(node, "it is negative, too large or not a number"))
    }

    fn show(&self) -> Json {
        json!(self)
    }

    fn bounded_amount(&self) -> Option<u64> {
        Some(u64::from(*self))
    }
}

impl<V: ConfigValue> ConfigValue for Vec<V> {
    fn shape() -> ValueShape {
        ValueShape::List(Box::new(V::shape()))
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        let NodeValue::List(nodes) = &node.item else {
            return Err(wrong_type::<Self>(node));
        };
        collect(nodes.iter().map(V::read))
    }

    fn show(&self) -> Json {
        self.iter().map(ConfigValue::show).collect()
    }
}

/// Returns all values or, if any failed, all faults.
fn collect<V>(
    results: impl Iterator<Item = Result<V, Vec<ValueFault>>>,
) -> Result<Vec<V>, Vec<ValueFault>> {
    let (mut values, mut faults) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(value) => values.push(value),
            Err(more) => faults.extend(more),
        }
    }
    if faults.is_empty() { Ok(values) } else { Err(faults) }
}

fn written_switch(node: &ValueNode, text: &str) -> Result<bool, Vec<ValueFault>> {
    match text {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        other => Err(invalid(node, format!("expected true or false, found {}", quote(other)))),
    }
}

/// Parses decimal digits without signs, spaces or separators.
pub(crate) fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}
