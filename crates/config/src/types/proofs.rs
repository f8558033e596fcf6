//! The evidence that iterations of a loop require, by name. The loops themselves interpret each
//! text.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::choice::Choice;
use crate::node::Node;
use crate::problem::Fault;
use crate::shape::{Limits, Shape, Wording};
use crate::value::{Chosen, Setting, Value, invalid, text};

/// Maximum length of a requirement.
const MAX_PROOF: usize = 4000;

/// The required evidence, by name; off removes an inherited requirement.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proofs(BTreeMap<String, Choice<String>>);

/// One requirement.
struct Proof(String);

impl Proofs {
    /// Returns each name with its text, or None if it was switched off.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().map(|(name, proof)| (name.as_str(), proof.on().map(String::as_str)))
    }
}

impl Value for Proof {
    fn shape() -> Shape {
        Shape::Text(Wording { one: "proof", many: "proofs" })
    }

    fn read(node: &Node) -> Result<Self, Vec<Fault>> {
        let text = text::<Self>(node)?;
        let fits = (1..=MAX_PROOF).contains(&text.len()) && !text.contains(char::is_control);
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(invalid(
                node,
                format!(
                    "expected 1 to {MAX_PROOF} bytes without line breaks and other control characters"
                ),
            ))
        }
    }

    fn show(&self) -> Json {
        json!(self.0)
    }
}

impl Setting for Proofs {
    fn shape() -> Shape {
        <Choice<Proof> as Value>::shape()
    }

    fn check(node: &Node, limits: Limits) -> Result<Json, Vec<Fault>> {
        <Choice<Proof> as Setting>::check(node, limits)
    }

    fn take(chosen: &Chosen, name: &str) -> Self {
        let read = |node| match Choice::<Proof>::read(node) {
            Ok(Choice::On(Proof(text))) => Choice::On(text),
            Ok(Choice::Off | Choice::Unset) => Choice::Off,
            Err(_) => unreachable!("every chosen value was checked"),
        };
        Self(chosen.below(name).map(|(name, node)| (name.to_owned(), read(node))).collect())
    }
}
