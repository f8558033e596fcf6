//! Text from outside made safe and short enough to show.

/// How many characters of a program's words are shown.
const SHOWN_CHARS: usize = 400;

/// Returns the text trimmed, its control and direction-changing characters
/// escaped (line feeds stay), and cut when it is long.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let mut text = String::new();
    for c in String::from_utf8_lossy(bytes).trim().chars().take(SHOWN_CHARS) {
        match c {
            '\n' => text.push(c),
            c if is_deceptive(c) => text.extend(c.escape_unicode()),
            c => text.push(c),
        }
    }
    text
}

fn is_deceptive(c: char) -> bool {
    // Zero-width and bidirectional controls can make a text read as another.
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_what_could_drive_a_terminal_and_cuts() {
        assert_eq!(shown(b" a\x1b[31mb\nc \n"), "a\\u{1b}[31mb\nc");
        assert_eq!(shown(&[b'x'; 1000]).len(), SHOWN_CHARS);
    }
}
