//! Token counts: `"2M"`, `"500k"`, or a whole number.

use serde_json::{Value as Json, json};

use super::units;
use crate::node::{NodeValue, ValueNode};
use crate::problem::{ValueFault, quote};
use crate::shape::ValueShape;
use crate::value::{ConfigValue, invalid, text};

/// A number of model tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenAmount(u64);

/// The units and their sizes. [`format`] uses the first one that divides the number evenly.
const UNITS: [(&str, u64); 3] = [("G", 1_000_000_000), ("M", 1_000_000), ("k", 1000)];

impl TokenAmount {
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl ConfigValue for TokenAmount {
    fn shape() -> ValueShape {
        ValueShape::Tokens
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        if let NodeValue::Integer(tokens) = node.item {
            return u64::try_from(tokens)
                .map(Self)
                .map_err(|_| invalid(node, "a number of tokens cannot be negative"));
        }
        let text = text::<Self>(node)?;
        parse(text).map(Self).map_err(|why| {
            invalid(node, format!("{} is not a number of tokens: {why}", quote(text)))
        })
    }

    fn show(&self) -> Json {
        json!(format(self.0))
    }

    fn bounded_amount(&self) -> Option<u64> {
        Some(self.0)
    }
}

fn parse(text: &str) -> Result<u64, String> {
    units::parse(text, "500k", scale_of)
}

fn scale_of(unit: &str) -> Result<u64, String> {
    if let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) {
        return Ok(*scale);
    }
    let suggestion = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    Err(match suggestion {
        Some((name, _)) => format!("unknown unit {}, did you mean {name:?}?", quote(unit)),
        None => format!("unknown unit {}, expected k, M or G", quote(unit)),
    })
}

/// Formats a number in the largest unit that yields a whole number.
pub(crate) fn format(tokens: u64) -> String {
    units::format(tokens, &UNITS, "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_read_strictly() {
        let ok =
            [("0", 0), ("17", 17), ("500k", 500_000), ("2M", 2_000_000), ("1G", 1_000_000_000)];
        for (text, tokens) in ok {
            assert_eq!(parse(text), Ok(tokens), "{text}");
        }
        for text in
            ["", "M", "-1", "1.5M", "2 M", "2m", "2MM", "99999999999999999999", "99999999999999G"]
        {
            assert!(parse(text).is_err(), "{text:?} was taken");
        }
        assert_eq!(parse("2m").unwrap_err(), r#"unknown unit "m", did you mean "M"?"#);
        assert_eq!(parse("2x").unwrap_err(), r#"unknown unit "x", expected k, M or G"#);
    }

    proptest! {
        #[test]
        fn a_written_number_reads_back(tokens in any::<u64>()) {
            prop_assert_eq!(parse(&format(tokens)), Ok(tokens));
        }
    }
}
