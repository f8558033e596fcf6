//! Text from outside made safe to print.

/// Returns the text with control and direction-changing characters escaped;
/// line feeds and tabs stay.
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for c in String::from_utf8_lossy(bytes).chars() {
        match c {
            '\n' | '\t' => text.push(c),
            c if is_deceptive(c) => text.extend(c.escape_unicode()),
            c => text.push(c),
        }
    }
    text
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

fn is_deceptive(c: char) -> bool {
    // Zero-width and bidirectional controls can make a name read as another.
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_what_could_drive_a_terminal() {
        assert_eq!(printable(b"a\x1b[31mb\r\n"), "a\\u{1b}[31mb\\u{d}\n");
        assert_eq!(printable("x\u{202e}y".as_bytes()), "x\\u{202e}y");
        assert_eq!(printable_line(b"a\nb\tc\xff"), "a\\nb\\tc\u{fffd}");
    }

    #[test]
    fn keeps_only_the_last_lines() {
        assert_eq!(last_lines(b"one\ntwo\nthree\n", 2), "two\nthree");
        assert_eq!(last_lines(b"one", 5), "one");
    }
}
