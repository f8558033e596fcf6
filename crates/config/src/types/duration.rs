//! Durations: `"250ms"`, `"2s"`, `"1h30m"`, or whole seconds.

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::node::{NodeValue, ValueNode};
use crate::problem::{ValueFault, quote};
use crate::shape::ValueShape;
use crate::value::{ConfigValue, digits, invalid, text, wrong_type};

/// The units and their lengths in milliseconds, largest first. A duration must use the units in this order.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

impl ConfigValue for Duration {
    fn shape() -> ValueShape {
        ValueShape::Duration
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        if let NodeValue::Integer(seconds) = node.item {
            let seconds = u64::try_from(seconds)
                .map_err(|_| invalid(node, "a duration cannot be negative"))?;
            return whole_seconds(seconds).map_err(|why| invalid(node, why));
        }
        if matches!(node.item, NodeValue::Float(_)) {
            return Err(wrong_type::<Self>(node));
        }
        let text = text::<Self>(node)?;
        parse(text)
            .map_err(|why| invalid(node, format!("{} is not a duration: {why}", quote(text))))
    }

    fn show(&self) -> Json {
        json!(format(*self))
    }

    fn bounded_amount(&self) -> Option<u64> {
        Some(u64::try_from(self.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Parses a duration: units in descending order, each at most once, without spaces or fractions.
fn parse(text: &str) -> Result<Duration, String> {
    if let Some(seconds) = digits(text) {
        return whole_seconds(seconds);
    }
    let (mut rest, mut total, mut next_unit) = (text, 0_u64, 0);
    while !rest.is_empty() {
        let (amount, unit, after) = split_part(rest)?;
        let position = position_of(unit)?;
        if position < next_unit {
            return Err("units must go from large to small, each at most once".into());
        }
        let millis = amount.checked_mul(UNITS[position].1).ok_or(TOO_LONG)?;
        total = total.checked_add(millis).ok_or(TOO_LONG)?;
        (rest, next_unit) = (after, position + 1);
    }
    if text.is_empty() { Err("it is empty".into()) } else { Ok(Duration::from_millis(total)) }
}

const TOO_LONG: &str = "it is too long";

fn whole_seconds(seconds: u64) -> Result<Duration, String> {
    let millis = seconds.checked_mul(1000).ok_or(TOO_LONG)?;
    Ok(Duration::from_millis(millis))
}

/// Splits `"30m10s"` into 30, `"m"` and `"10s"`.
fn split_part(text: &str) -> Result<(u64, &str, &str), String> {
    let number_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(number_end);
    let unit_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, after) = rest.split_at(unit_end);
    if number.is_empty() {
        return Err(format!("expected digits before {}", quote(unit)));
    }
    let amount = digits(number).ok_or(TOO_LONG)?;
    Ok((amount, unit, after))
}

fn position_of(unit: &str) -> Result<usize, String> {
    UNITS.iter().position(|(name, _)| *name == unit).ok_or_else(|| {
        if unit.is_empty() {
            "the last unit is missing".into()
        } else {
            format!("unknown unit {}, expected d, h, m, s or ms", quote(unit))
        }
    })
}

/// Formats a duration so that parsing the result returns the same duration.
pub(crate) fn format(duration: Duration) -> String {
    let mut millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, size) in UNITS {
        if millis >= size {
            text.push_str(&format!("{}{unit}", millis / size));
            millis %= size;
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_strictly() {
        let ok = [
            ("250ms", 250),
            ("2s", 2000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("7", 7000),
            ("1d", 86_400_000),
        ];
        for (text, millis) in ok {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        let bad = [
            "", " 2s", "2s ", "-2s", "+2s", "2 s", "1.5s", "s", "2x", "2S", "2sec", "1m1h", "1s1s",
            "1h30", "٣s",
        ];
        for text in bad {
            assert!(parse(text).is_err(), "{text:?} was taken");
        }
        let huge = [
            "99999999999999999999",
            "18446744073709551615",
            "18446744073709551615d",
            "18446744073709551615ms1ms",
        ];
        for text in huge {
            assert!(parse(text).is_err(), "{text:?} was taken");
        }
    }

    proptest! {
        #[test]
        fn a_written_duration_reads_back(millis in 0..u64::MAX / 2) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }

        #[test]
        fn no_text_panics(text in ".{0,24}") {
            if let Ok(duration) = parse(&text) {
                prop_assert_eq!(parse(&format(duration)), Ok(duration));
            }
        }
    }
}
