//! The list of characters that can deceive a reader. There is only one such list, and this crate
//! has no dependencies, so that every other crate can use the list.

/// Whether a character controls a terminal, changes the text direction, or is invisible. This
/// includes line feeds and tabs, so a caller that wants to keep them must exclude them explicitly.
pub fn is_deceptive(letter: char) -> bool {
    letter.is_control() || is_hidden(letter)
}

/// Whether a character that is not a control character is invisible, or changes how other
/// characters are displayed.
fn is_hidden(letter: char) -> bool {
    matches!(letter,
        // Soft hyphen, joiners, direction marks, and fillers that are invisible or look like
        // blanks.
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        // Variation selectors. Any number of them can follow a letter and encode hidden bytes. The
        // two that choose between text and emoji style are excluded, because they are common in
        // normal text.
        | '\u{fe00}'..='\u{fe0d}'
        // Tags and further variation selectors, which form a whole alphabet of invisible
        // characters.
        | '\u{e0000}'..='\u{e0fff}')
}

/// Returns every character in the list, for tests of code that displays text.
pub fn deceptive() -> impl Iterator<Item = char> {
    ('\0'..=char::MAX).filter(|letter| is_deceptive(*letter))
}

/// Returns the text with every deceptive character, except those in `kept`, written as `\u{…}`.
pub fn escape(text: &str, kept: &[char]) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_deceptive(letter) && !kept.contains(&letter) {
            shown.extend(letter.escape_unicode());
        } else {
            shown.push(letter);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_deceptive_character_is_escaped() {
        let all: String = deceptive().collect();
        assert!(all.contains('\u{202e}') && all.contains('\u{e0041}') && all.contains('\u{9b}'));
        assert!(!escape(&all, &[]).chars().any(is_deceptive));
        assert_eq!(escape("a\tb\n\u{ad}é", &['\t']), "a\tb\\u{a}\\u{ad}é");
    }
}
