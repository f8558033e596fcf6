//! Options that can be switched off explicitly.

use serde_json::{Value as Json, json};

use crate::node::{NodeValue, ValueNode};
use crate::problem::{ProblemKind, ValueFault};
use crate::shape::ValueShape;
use crate::value::{ConfigValue, wrong_type};

/// An option that is on, off, or unset. Off hides the values of lower layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Switchable<T> {
    Unset,
    Off,
    On(T),
}

impl<T> Switchable<T> {
    /// The value, if the option is on.
    pub fn on(&self) -> Option<&T> {
        match self {
            Self::On(value) => Some(value),
            Self::Off | Self::Unset => None,
        }
    }
}

impl<T: ConfigValue> ConfigValue for Switchable<T> {
    fn shape() -> ValueShape {
        ValueShape::OrOff(Box::new(T::shape()))
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        if is_off(node) {
            return Ok(Self::Off);
        }
        T::read(node).map(Self::On).map_err(|faults| mention_off::<T>(node, faults))
    }

    fn show(&self) -> Json {
        match self {
            Self::Unset => Json::Null,
            Self::Off => json!(false),
            Self::On(value) => value.show(),
        }
    }

    fn bounded_amount(&self) -> Option<u64> {
        self.on().and_then(ConfigValue::bounded_amount)
    }

    fn unset() -> Option<Self> {
        Some(Self::Unset)
    }
}

/// Mentions off in the error message for a value whose type is completely wrong.
fn mention_off<T: ConfigValue>(node: &ValueNode, faults: Vec<ValueFault>) -> Vec<ValueFault> {
    let altogether =
        |fault: &ValueFault| fault.kind == ProblemKind::WrongType && fault.span == node.span;
    if faults.iter().any(altogether) { wrong_type::<Switchable<T>>(node) } else { faults }
}

fn is_off(node: &ValueNode) -> bool {
    match &node.item {
        NodeValue::Switch(on) => !on,
        NodeValue::Text(text) => text == "off",
        NodeValue::Plain(text) => text == "off" || text == "false",
        NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::List(_)
        | NodeValue::Table(_)
        | NodeValue::Other(_) => false,
    }
}
