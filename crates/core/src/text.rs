//! Texts of others, made safe to read: what is not seen is written out, and what goes to a shell is one word there.

pub use provost_text::is_deceptive;

/// Gives the beginning of a text, with how much of it is left out.
pub fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}… ({} more bytes)", &text[..end], text.len() - end)
}

/// Gives a text in which every character can be seen: what could deceive is written out. Line ends and tabs stay.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => shown.push(letter),
            '\r' => {}
            letter if is_deceptive(letter) => write_out(&mut shown, letter),
            letter => shown.push(letter),
        }
    }
    shown
}

/// Quotes a text line by line; everything in it can be seen, and nothing in it can look like the end of the quotation.
pub fn quoted(text: &str) -> String {
    let shown = visible(text);
    let lines = shown.split('\n').map(|line| format!("> {line}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Gives a name for the middle of a sentence: as it is if it is one plain word, else in quotes that nothing in it ends.
pub fn named(name: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.');
    match !name.is_empty() && name.chars().all(plain) {
        true => name.to_owned(),
        false => in_quotes(name),
    }
}

/// Gives a text of one line in quotes that nothing in it ends.
pub fn in_quotes(text: &str) -> String {
    let mut shown = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => shown.extend(['\\', letter]),
            letter if is_deceptive(letter) => write_out(&mut shown, letter),
            letter => shown.push(letter),
        }
    }
    shown.push('"');
    shown
}

fn write_out(shown: &mut String, letter: char) {
    shown.push_str(&format!("\\u{{{:x}}}", u32::from(letter)));
}

/// Gives a text as one word of a POSIX shell, whatever is in it; plain where that means the same.
pub fn shell_word(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:,@%+".contains(letter);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}
