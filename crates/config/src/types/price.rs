//! Prices: `2`, `1.25`, or a string with such a number. Prices are stored in millionths, so sums are exact.

use serde_json::{Value as Json, json};

use crate::node::{NodeValue, ValueNode};
use crate::problem::{ValueFault, quote};
use crate::shape::ValueShape;
use crate::value::{ConfigValue, digits, invalid, text};

/// A price, in millionths of the currency unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Price(u64);

/// The number of decimal places.
const PLACES: usize = 6;
const SCALE: u64 = 1_000_000;

impl Price {
    /// The price in millionths.
    pub const fn millionths(self) -> u64 {
        self.0
    }
}

impl ConfigValue for Price {
    fn shape() -> ValueShape {
        ValueShape::Price
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        let written = match &node.item {
            NodeValue::Integer(whole) => whole.to_string(),
            NodeValue::Float(number) => number.clone(),
            NodeValue::Switch(_)
            | NodeValue::Text(_)
            | NodeValue::List(_)
            | NodeValue::Table(_)
            | NodeValue::Plain(_)
            | NodeValue::Other(_) => text::<Self>(node)?.to_owned(),
        };
        let expected = "expected a non-negative number with at most six decimal places";
        parse(&written)
            .map(Self)
            .ok_or_else(|| invalid(node, format!("{} is not a price: {expected}", quote(&written))))
    }

    fn show(&self) -> Json {
        json!(format(self.0))
    }

    fn bounded_amount(&self) -> Option<u64> {
        Some(self.0)
    }
}

fn parse(text: &str) -> Option<u64> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    if rest.len() > PLACES {
        return None;
    }
    if rest.is_empty() {
        return None;
    }
    let rest = digits(&format!("{rest:0<PLACES$}"))?;
    digits(whole)?.checked_mul(SCALE)?.checked_add(rest)
}

/// Formats a price without trailing zeros.
pub(crate) fn format(millionths: u64) -> String {
    let (whole, rest) = (millionths / SCALE, millionths % SCALE);
    let rest = format!("{rest:0PLACES$}");
    match rest.trim_end_matches('0') {
        "" => whole.to_string(),
        rest => format!("{whole}.{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_exact_and_reads_back() {
        for (written, millionths, shown) in
            [("2", 2_000_000, "2"), ("1.25", 1_250_000, "1.25"), ("0.000001", 1, "0.000001")]
        {
            assert_eq!(parse(written), Some(millionths), "{written}");
            assert_eq!(format(millionths), shown);
        }
        for bad in
            ["", ".", "1.", ".5", "-1", "1e3", "1.1234567", "nan", "1,5", "99999999999999999999"]
        {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
