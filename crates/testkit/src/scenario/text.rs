//! Placeholders in a scenario's texts: `{{name}}`.

use std::collections::BTreeMap;

/// The names that the agent itself replaces while it runs. All others come from `--vars`.
pub const RUNTIME_NAMES: &[&str] = &["input", "input_key", "launch_no", "pid", "n"];

/// Replaces `{{name}}` with its value. Names without a value are kept.
pub fn render(text: &str, values: &BTreeMap<String, String>) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, name, after)) = next_placeholder(rest) {
        out.push_str(before);
        match values.get(name) {
            Some(value) => out.push_str(value),
            None => out.push_str(&format!("{{{{{name}}}}}")),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Returns the names of all placeholders in a text.
pub(super) fn placeholders(text: &str) -> Vec<&str> {
    let (mut names, mut rest) = (Vec::new(), text);
    while let Some((_, name, after)) = next_placeholder(rest) {
        names.push(name);
        rest = after;
    }
    names
}

/// Splits at the first `{{name}}`. Braces around other text are ordinary text.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(start) = text[from..].find("{{").map(|at| from + at) {
        let inside = &text[start + 2..];
        let end = inside.find("}}")?;
        if is_name(&inside[..end]) {
            return Some((&text[..start], &inside[..end], &inside[end + 2..]));
        }
        // The search continues one brace further, not two, because `{{{name}}}` is a placeholder in
        // braces.
        from = start + 1;
    }
    None
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_and_other_braces_are_text() {
        let values = BTreeMap::from([("a".to_owned(), "{{b}}".to_owned())]);
        assert_eq!(
            render("x {{a}} {{b}} {{ a }} {{{a}}} {{", &values),
            "x {{b}} {{b}} {{ a }} {{{b}}} {{"
        );
        assert_eq!(placeholders("{{a}}{{\"k\":1}}{{b}}"), ["a", "b"]);
    }
}
