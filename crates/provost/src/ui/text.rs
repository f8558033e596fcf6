//! Escapes, clips and measures untrusted text from agents and repositories.

use provost_core::text::is_deceptive;
use unicode_width::UnicodeWidthChar;

/// Escapes a text for a single line. All control characters become visible, including line breaks and tabs.
pub(crate) fn escape_line(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, c| {
        push_visible(&mut shown, c);
        shown
    })
}

/// Escapes a text that may have several lines. Line breaks and tabs are kept, and all other control
/// characters become visible.
pub(crate) fn escape_block(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, c| {
        match c {
            '\n' | '\t' => shown.push(c),
            c => push_visible(&mut shown, c),
        }
        shown
    })
}

/// Escapes a text for a single line, joining its lines with spaces. This is meant for messages from
/// programs such as git, whose line breaks are not significant.
pub(crate) fn join_lines(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(escape_line).collect::<Vec<_>>().join(" ")
}

/// Shortens an escaped text to a width, ending it with an ellipsis.
pub(crate) fn clip(text: &str, limit: usize) -> String {
    if width(text) <= limit {
        return text.to_owned();
    }
    let mut left = limit.saturating_sub(1);
    let fits = |c: &char| {
        let wide = char_width(*c);
        let fits = wide <= left;
        left = left.saturating_sub(wide);
        fits
    };
    let mut shown: String = text.chars().take_while(fits).collect();
    shown.push('…');
    shown
}

/// Shortens an escaped text at its start. This is meant for texts whose end matters more, such as paths.
pub(crate) fn clip_start(text: &str, limit: usize) -> String {
    if width(text) <= limit {
        return text.to_owned();
    }
    let mut left = limit.saturating_sub(1);
    let fits = |c: &char| {
        let wide = char_width(*c);
        let fits = wide <= left;
        left = left.saturating_sub(wide);
        fits
    };
    let kept: Vec<char> = text.chars().rev().take_while(fits).collect();
    std::iter::once('…').chain(kept.into_iter().rev()).collect()
}

/// Returns the display width of an escaped text.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Makes a character visible: ASCII control characters by their symbols, others by their code points.
fn push_visible(shown: &mut String, c: char) {
    match c {
        '\0'..='\x1f' => shown.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or('␦')),
        '\x7f' => shown.push('␡'),
        c if is_deceptive(c) => shown.push_str(&format!("<U+{:04X}>", u32::from(c))),
        c => shown.push(c),
    }
}

pub(super) fn char_width(c: char) -> usize {
    c.width().unwrap_or_default()
}

/// Escapes control characters, direction marks and invisible characters in JSON, so that it can be printed to
/// a terminal. The meaning does not change, because valid JSON contains such characters only inside strings.
pub(crate) fn escape_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || !is_deceptive(c) {
            escaped.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            escaped.push_str(&format!("\\u{unit:04x}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_lines_keep_escape_codes_visible() {
        let text = "error: overwritten:\n\ta.txt\n\n\tb\u{1b}[2J.txt\r\nAborting\n";
        assert_eq!(join_lines(text), "error: overwritten: a.txt b␛[2J.txt Aborting");
    }

    #[test]
    fn escaped_json_keeps_its_meaning() {
        let value = serde_json::json!({"a": "x\u{9b}31m\u{202e}\u{e0041}\u{7f}é\n"});
        let text = escape_json(&value.to_string());
        assert_eq!(text, r#"{"a":"x\u009b31m\u202e\udb40\udc41\u007fé\n"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn control_characters_are_escaped() {
        insta::assert_snapshot!(escape_line("a\u{1b}[31m\u{7}\r\n\tb\u{7f}"), @"a␛[31m␇␍␊␉b␡");
        insta::assert_snapshot!(escape_line("x\u{202e}y\u{9b}z\u{2066}\u{200b}"), @"x<U+202E>y<U+009B>z<U+2066><U+200B>");
        assert_eq!(escape_block("a\n\tb\u{1b}"), "a\n\tb␛");
        let hostile: String =
            ('\0'..='\u{ffff}').filter(|c| escape_line(&c.to_string()).contains(*c)).collect();
        assert!(!hostile.chars().any(char::is_control));
    }

    #[test]
    fn width_matches_the_terminal() {
        assert_eq!(width("abc"), 3);
        assert_eq!(width("日本"), 4);
        assert_eq!(width("e\u{301}"), 1);
    }

    #[test]
    fn clipped_text_fits() {
        assert_eq!(clip("abc", 3), "abc");
        assert_eq!(clip("abcd", 3), "ab…");
        assert_eq!(clip("日本語", 4), "日…");
        assert_eq!(clip("abc", 0), "…");
        assert_eq!(clip_start("abc", 3), "abc");
        assert_eq!(clip_start("/a/b.toml:2", 7), "…toml:2");
        assert_eq!(clip_start("日本語", 4), "…語");
    }
}
