//! Amounts written as digits followed by a unit, such as sizes and token counts.

use crate::value::digits;

const TOO_LARGE: &str = "it is too large";

/// Parses digits and at most one unit, without spaces or fractions. `example` is a valid amount for
/// error messages, and `scale_of` returns the size of a unit.
pub(super) fn parse(
    text: &str,
    example: &str,
    scale_of: impl Fn(&str) -> Result<u64, String>,
) -> Result<u64, String> {
    let number_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    if number.is_empty() {
        return Err(format!("expected a number such as {example}"));
    }
    let amount = digits(number).ok_or(TOO_LARGE)?;
    let scale = if unit.is_empty() { 1 } else { scale_of(unit)? };
    amount.checked_mul(scale).ok_or_else(|| TOO_LARGE.into())
}

/// Formats an amount in the first of the units that yields a whole number, or else without a unit.
pub(super) fn format(amount: u64, units: &[(&str, u64)], without: &str) -> String {
    let unit = units.iter().find(|(_, scale)| amount >= *scale && amount.is_multiple_of(*scale));
    let (name, scale) = unit.copied().unwrap_or((without, 1));
    format!("{}{name}", amount / scale)
}
