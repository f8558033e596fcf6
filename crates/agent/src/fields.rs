//! Lenient access to the fields of a JSON message.

pub use provost_core::text::shortened as bounded;
use serde_json::Value;

/// Returns the string at a key.
pub fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// Returns the elements of the list at a key. A missing list counts as empty.
pub fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_at_char_boundary() {
        assert_eq!(bounded("abc", 3), "abc");
        assert_eq!(bounded("añb", 2), "a… (3 more bytes)");
    }
}
