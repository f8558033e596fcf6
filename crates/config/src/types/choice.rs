//! Options that can be switched off explicitly.

use serde_json::{Value as Json, json};

use crate::node::{Item, Node};
use crate::problem::{Fault, ProblemKind};
use crate::shape::Shape;
use crate::value::{Value, wrong_type};

/// An option that is on, off, or unset; off hides the value of a lower layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice<T> {
    Unset,
    Off,
    On(T),
}

impl<T> Choice<T> {
    /// The value, if the option is on.
    pub fn on(&self) -> Option<&T> {
        match self {
            Self::On(value) => Some(value),
            Self::Off | Self::Unset => None,
        }
    }
}

impl<T: Value> Value for Choice<T> {
    fn shape() -> Shape {
        Shape::OrOff(Box::new(T::shape()))
    }

    fn read(node: &Node) -> Result<Self, Vec<Fault>> {
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

    fn amount(&self) -> Option<u64> {
        self.on().and_then(Value::amount)
    }

    fn unset() -> Option<Self> {
        Some(Self::Unset)
    }
}

/// Mentions off in the error for a value of an entirely wrong type.
fn mention_off<T: Value>(node: &Node, faults: Vec<Fault>) -> Vec<Fault> {
    let altogether =
        |fault: &Fault| fault.kind == ProblemKind::WrongType && fault.span == node.span;
    if faults.iter().any(altogether) { wrong_type::<Choice<T>>(node) } else { faults }
}

fn is_off(node: &Node) -> bool {
    match &node.item {
        Item::Switch(on) => !on,
        Item::Text(text) => text == "off",
        Item::Written(text) => text == "off" || text == "false",
        Item::Integer(_) | Item::Float(_) | Item::List(_) | Item::Table(_) | Item::Other(_) => {
            false
        }
    }
}
