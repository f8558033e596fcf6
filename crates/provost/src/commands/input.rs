//! Parses texts, counts and durations from the command line.

use std::io::Read;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use provost_api::ApiError;

use crate::error::usage;

/// The maximum length of a text from standard input or an argument, in bytes.
const MAX_TEXT: u64 = 512 << 10;

/// Returns the given text or, if the argument is `-`, the text from standard input. Errors refer to
/// the text as `what`.
pub(crate) fn read_text(what: &str, given: &str) -> Result<String, ApiError> {
    if given != "-" {
        return check_text(what, given.to_owned());
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .take(MAX_TEXT + 1)
        .read_to_end(&mut bytes)
        .map_err(|why| usage(format!("cannot read standard input: {why}")))?;
    let text = String::from_utf8(bytes).map_err(|_| usage("standard input is not UTF-8"))?;
    check_text(what, text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
}

fn check_text(what: &str, text: String) -> Result<String, ApiError> {
    if text.len() as u64 > MAX_TEXT {
        return Err(usage(format!("{what} is longer than {MAX_TEXT} bytes")));
    }
    if text.trim().is_empty() {
        return Err(usage(format!("{what} is empty")));
    }
    Ok(text)
}

/// Accepts the values of an enum by their names.
pub(crate) fn one_of<T: Copy + Send + Sync + 'static>(
    values: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let named = values.iter().map(|value| PossibleValue::new(name(*value)));
    let find = move |word: String| values.iter().copied().find(|value| name(*value) == word);
    PossibleValuesParser::new(named).try_map(move |word| find(word).ok_or("unknown value"))
}

/// Accepts the values of an enum by their names. The help describes each of them.
pub(crate) fn one_of_described<T: Copy + Send + Sync + 'static>(
    values: &'static [(T, &'static str)],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let named = values.iter().map(|(value, help)| PossibleValue::new(name(*value)).help(*help));
    let all = values.iter().map(|(value, _)| *value);
    let find = move |word: String| all.clone().find(|value| name(*value) == word);
    PossibleValuesParser::new(named).try_map(move |word| find(word).ok_or("unknown value"))
}

/// Parses the name of a session or request. An empty name is rejected.
pub(crate) fn parse_name(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        Err("the value is empty; expected an ID, part of an ID, or a name".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

/// Parses a count such as `1500`, `500k` or `2M`.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    let expected = || format!("invalid count {text:?}: expected a number such as 1500, 500k or 2M");
    let (number, scale) = match text.char_indices().last() {
        Some((at, 'k')) => (&text[..at], 1_000),
        Some((at, 'M')) => (&text[..at], 1_000_000),
        _ => (text, 1),
    };
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = digits.then(|| number.parse().ok()).flatten().ok_or_else(expected)?;
    number.checked_mul(scale).filter(|count| *count > 0).ok_or_else(expected)
}

/// Parses a time, in seconds or with a unit as in `90s` or `5m`, and returns it in seconds.
pub(crate) fn parse_seconds(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(seconds) => Ok(seconds),
        Err(_) => parse_age(text).map(|ms| ms.div_ceil(1000)),
    }
}

/// Parses an age such as `30d`, `12h`, `15m` or `0s`, and returns it in milliseconds.
pub(crate) fn parse_age(text: &str) -> Result<u64, String> {
    let expected =
        || format!("invalid age {text:?}: expected a number with d, h, m or s, such as 30d");
    let unit = text.chars().last().ok_or_else(expected)?;
    let scale = match unit {
        'd' => 86_400_000,
        'h' => 3_600_000,
        'm' => 60_000,
        's' => 1000,
        _ => return Err(expected()),
    };
    let number = &text[..text.len() - unit.len_utf8()];
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = digits.then(|| number.parse().ok()).flatten().ok_or_else(expected)?;
    // The daemon stores times as signed milliseconds, so the age must fit into that type.
    number.checked_mul(scale).filter(|ms| i64::try_from(*ms).is_ok()).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_requires_unit() {
        assert_eq!(parse_age("30d"), Ok(30 * 86_400_000));
        assert_eq!(parse_age("0s"), Ok(0));
        for text in [
            "",
            "d",
            "30",
            "-1d",
            "+1d",
            "1.5h",
            "1w",
            "99999999999999999999d",
            "200000000000d",
            "1é",
        ] {
            assert!(parse_age(text).is_err(), "{text}");
        }
    }

    #[test]
    fn wait_defaults_to_seconds() {
        assert_eq!((parse_seconds("8"), parse_seconds("2m")), (Ok(8), Ok(120)));
        assert!(parse_seconds("soon").is_err());
    }

    #[test]
    fn counts_accept_k_and_m_suffixes() {
        assert_eq!(parse_count("1500"), Ok(1_500));
        assert_eq!((parse_count("500k"), parse_count("2M")), (Ok(500_000), Ok(2_000_000)));
        for text in ["", "k", "0", "-1", "1.5M", "2m", "99999999999999999999", "2MM", "1é"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn empty_or_oversized_text_is_rejected() {
        assert!(read_text("it", " \n").is_err());
        assert!(read_text("it", &"x".repeat(MAX_TEXT as usize + 1)).is_err());
        assert_eq!(read_text("it", "x").unwrap(), "x");
    }
}
