//! Makes external text safe and short enough to show.

/// Maximum number of characters shown of a program's output.
const SHOWN_CHARS: usize = 400;

/// Returns the text trimmed, with deceptive characters escaped (line feeds stay), and truncated.
pub(crate) fn shown(bytes: &[u8]) -> String {
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
            let shown = shown(format!("a{letter}b").as_bytes());
            assert!(!shown.chars().any(provost_text::is_deceptive), "{shown:?}");
        }
    }

    #[test]
    fn escapes_what_could_drive_a_terminal_and_cuts() {
        assert_eq!(shown(b" a\x1b[31mb\nc \n"), "a\\u{1b}[31mb\nc");
        assert_eq!(shown(&[b'x'; 1000]).len(), SHOWN_CHARS);
    }
}
