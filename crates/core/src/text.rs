//! Untrusted text, made safe to show: invisible characters are escaped, and shell arguments are quoted.

pub use provost_text::is_deceptive;

/// Returns the beginning of a text, and the number of bytes left out.
pub fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}… ({} more bytes)", &text[..end], text.len() - end)
}

/// Returns a text in which every character is visible: deceptive characters are escaped. Line breaks and
/// tabs stay.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => shown.push(letter),
            '\r' => {}
            letter if is_deceptive(letter) => push_escaped(&mut shown, letter),
            letter => shown.push(letter),
        }
    }
    shown
}

/// Quotes a text line by line. All of it is visible, and nothing in it can look like the end of the
/// quotation.
pub fn quote_lines(text: &str) -> String {
    let shown = visible(text);
    let lines = shown.split('\n').map(|line| format!("> {line}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Formats a name for use in a sentence: unchanged if it is one plain word, otherwise quoted and
/// escaped.
pub fn quote_name(name: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.');
    if !name.is_empty() && name.chars().all(plain) { name.to_owned() } else { quote_text(name) }
}

/// Quotes and escapes a single-line text.
pub fn quote_text(text: &str) -> String {
    let mut shown = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => shown.extend(['\\', letter]),
            letter if is_deceptive(letter) => push_escaped(&mut shown, letter),
            letter => shown.push(letter),
        }
    }
    shown.push('"');
    shown
}

fn push_escaped(shown: &mut String, letter: char) {
    shown.push_str(&format!("\\u{{{:x}}}", u32::from(letter)));
}

/// Quotes any text as one word of a POSIX shell. Plain words stay unquoted.
pub fn shell_quote(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:,@%+".contains(letter);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
