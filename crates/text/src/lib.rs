//! Untrusted text: making it safe to display and to pass to a shell, and finding front matter.
//!
//! The list of characters that can deceive a reader exists only here, and so do the quoting of a
//! shell word and the fences of front matter. This crate has no dependencies, so that every other
//! crate can use it.

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

/// Quotes any text as one word of a POSIX shell. Plain words stay unquoted.
pub fn shell_quote(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:,@%+".contains(letter);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The parts of a Markdown file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkdownParts<'a> {
    /// The lines between the fences at the start of the file. `None` if it has no front matter.
    pub front: Option<&'a str>,
    pub body: &'a str,
}

/// The error for front matter whose closing line is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnclosedFrontMatter;

/// Splits a Markdown file into its front matter, which is between two lines `---`, and its body.
pub fn split_front_matter(text: &str) -> Result<MarkdownParts<'_>, UnclosedFrontMatter> {
    const FENCE: &str = "---";
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| line.trim_end() == FENCE) else {
        return Ok(MarkdownParts { front: None, body: text });
    };
    let mut end = first.len();
    for line in lines {
        if line.trim_end() == FENCE {
            let (front, body) = (&text[first.len()..end], &text[end + line.len()..]);
            return Ok(MarkdownParts { front: Some(front), body });
        }
        end += line.len();
    }
    Err(UnclosedFrontMatter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_words_are_quoted_unless_plain() {
        assert_eq!(shell_quote("cargo"), "cargo");
        assert_eq!(shell_quote("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(shell_quote(""), "''");
        assert_eq!(shell_quote("A=b"), "'A=b'", "the shell would assign a variable");
    }

    #[test]
    fn front_matter_is_between_two_fences() {
        let parts = |front, body| Ok(MarkdownParts { front, body });
        assert_eq!(
            split_front_matter("---\na: 1\n---\n# Do\n---\n"),
            parts(Some("a: 1\n"), "# Do\n---\n")
        );
        assert_eq!(split_front_matter("\u{feff}---\r\n---"), parts(Some(""), ""));
        assert_eq!(split_front_matter("Do.\n---\n"), parts(None, "Do.\n---\n"));
        assert_eq!(split_front_matter("---\na: 1\n"), Err(UnclosedFrontMatter));
    }

    #[test]
    fn every_deceptive_character_is_escaped() {
        let all: String = deceptive().collect();
        assert!(all.contains('\u{202e}') && all.contains('\u{e0041}') && all.contains('\u{9b}'));
        assert!(!escape(&all, &[]).chars().any(is_deceptive));
        assert_eq!(escape("a\tb\n\u{ad}é", &['\t']), "a\tb\\u{a}\\u{ad}é");
    }
}
