//! Makes untrusted text safe to print.

/// Returns the text with deceptive characters escaped. Line feeds and tabs are kept.
pub fn printable(bytes: &[u8]) -> String {
    provost_text::escape(&String::from_utf8_lossy(bytes), &['\n', '\t'])
}

/// Returns the text as [`printable`] does, with line feeds and tabs escaped too.
pub(crate) fn printable_line(bytes: &[u8]) -> String {
    printable(bytes).replace('\n', "\\n").replace('\t', "\\t")
}

/// Returns the last `count` lines, made printable.
pub(crate) fn last_lines(bytes: &[u8], count: usize) -> String {
    let text = printable(bytes);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_characters_are_escaped() {
        assert_eq!(printable(b"a\x1b[31mb\r\n"), "a\\u{1b}[31mb\\u{d}\n");
        assert_eq!(printable("x\u{202e}y".as_bytes()), "x\\u{202e}y");
        assert_eq!(printable_line(b"a\nb\tc\xff"), "a\\nb\\tc\u{fffd}");
    }

    #[test]
    fn every_deceptive_character_is_escaped() {
        let all: String = provost_text::deceptive().collect();
        assert!(!printable_line(all.as_bytes()).chars().any(provost_text::is_deceptive));
    }

    #[test]
    fn keeps_only_the_last_lines() {
        assert_eq!(last_lines(b"one\ntwo\nthree\n", 2), "two\nthree");
        assert_eq!(last_lines(b"one", 5), "one");
    }
}
