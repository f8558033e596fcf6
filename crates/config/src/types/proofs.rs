//! What the iterations of a loop have to show, by its name. What each text means is known where loops are made.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::choice::Choice;
use crate::node::Node;
use crate::problem::Fault;
use crate::shape::{Limits, Shape, Wording};
use crate::value::{Chosen, Setting, Value, invalid, text};

/// The longest text that says what has to be shown.
const MAX_PROOF: usize = 4000;

/// What has to be shown, by its name; off takes away what would have to be shown otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proofs(BTreeMap<String, Choice<String>>);

/// One text of them.
struct Proof(String);

impl Proofs {
    /// Gives each name with its text, or with none where it was switched off.
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
        match fits {
            true => Ok(Self(text.to_owned())),
            false => Err(invalid(
                node,
                format!(
                    "expected 1 to {MAX_PROOF} bytes without line breaks and other control characters"
                ),
            )),
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
