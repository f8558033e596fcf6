//! Makes external text safe to show, and short enough.

/// The maximum number of characters of a program's output to show.
const SHOWN_CHARS: usize = 400;

/// Trims and truncates a text, and escapes deceptive characters. Line feeds are kept.
pub(crate) fn displayable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let beginning: String = text.trim().chars().take(SHOWN_CHARS).collect();
    provost_text::escape(&beginning, &['\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_deceptive_character_is_escaped() {
        for letter in provost_text::deceptive().filter(|letter| *letter != '\n') {
            let shown = displayable(format!("a{letter}b").as_bytes());
            assert!(!shown.chars().any(provost_text::is_deceptive), "{shown:?}");
        }
    }

    #[test]
    fn text_is_escaped_and_truncated() {
        assert_eq!(displayable(b" a\x1b[31mb\nc \n"), "a\\u{1b}[31mb\nc");
        assert_eq!(displayable(&[b'x'; 1000]).len(), SHOWN_CHARS);
    }
}
