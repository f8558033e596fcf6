//! Makes untrusted text safe to display: escapes invisible characters and quotes shell arguments.

pub use provost_text::{is_deceptive, shell_quote};

/// Returns the start of a text, followed by the number of bytes that were omitted.
pub fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}… ({} more bytes)", &text[..end], text.len() - end)
}

/// Returns a text in which every character is visible. Deceptive characters are escaped, but line
/// breaks and tabs are kept.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => shown.push(letter),
            '\r' => {}
            letter if is_deceptive(letter) => shown.extend(letter.escape_unicode()),
            letter => shown.push(letter),
        }
    }
    shown
}

/// Quotes a text line by line. Every character is visible, and nothing in the text can look like
/// the end of the quotation.
pub fn quote_lines(text: &str) -> String {
    let shown = visible(text);
    let lines = shown.split('\n').map(|line| format!("> {line}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Names that would be read as pronouns in a sentence: `--manager me` names a member "me".
const PRONOUNS: [&str; 8] = ["i", "me", "myself", "you", "yourself", "we", "us", "it"];

/// Formats a name for use in a sentence. A single plain word stays unchanged, unless it is a
/// pronoun. Anything else is quoted and escaped.
pub fn quote_name(name: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let is_pronoun = PRONOUNS.iter().any(|pronoun| name.eq_ignore_ascii_case(pronoun));
    if !name.is_empty() && name.chars().all(plain) && !is_pronoun {
        name.to_owned()
    } else {
        quote_text(name)
    }
}

/// Quotes and escapes a single-line text.
pub fn quote_text(text: &str) -> String {
    let mut shown = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => shown.extend(['\\', letter]),
            letter if is_deceptive(letter) => shown.extend(letter.escape_unicode()),
            letter => shown.push(letter),
        }
    }
    shown.push('"');
    shown
}
