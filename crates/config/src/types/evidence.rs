//! The evidence that iterations of a loop require, by name. This crate does not interpret the texts, because the loops
//! parse them.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::choice::Switchable;
use crate::node::ValueNode;
use crate::problem::ValueFault;
use crate::shape::{TextLabel, ValueLimits, ValueShape};
use crate::value::{ConfigField, ConfigValue, EffectiveValues, invalid, text};

/// Maximum length of the text of a requirement.
const MAX_PROOF: usize = 4000;

/// The required evidence by name. Off removes an inherited requirement.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EvidenceTexts(BTreeMap<String, Switchable<String>>);

/// The text of one requirement.
struct EvidenceText(String);

impl EvidenceTexts {
    /// Returns each name with its text, or `None` if the requirement is switched off.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().map(|(name, proof)| (name.as_str(), proof.on().map(String::as_str)))
    }
}

impl ConfigValue for EvidenceText {
    fn shape() -> ValueShape {
        ValueShape::Text(TextLabel { one: "proof", many: "proofs" })
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
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

impl ConfigField for EvidenceTexts {
    fn shape() -> ValueShape {
        <Switchable<EvidenceText> as ConfigValue>::shape()
    }

    fn check(node: &ValueNode, limits: ValueLimits) -> Result<Json, Vec<ValueFault>> {
        <Switchable<EvidenceText> as ConfigField>::check(node, limits)
    }

    fn take(chosen: &EffectiveValues, name: &str) -> Self {
        let read = |node| match Switchable::<EvidenceText>::read(node) {
            Ok(Switchable::On(EvidenceText(text))) => Switchable::On(text),
            Ok(Switchable::Off | Switchable::Unset) => Switchable::Off,
            Err(_) => unreachable!("every chosen value was checked"),
        };
        Self(chosen.below(name).map(|(name, node)| (name.to_owned(), read(node))).collect())
    }
}
