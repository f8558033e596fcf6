//! The string literals of a Rust file, for rules about their wording.

use std::{iter::Peekable, str::CharIndices};

/// A string literal without its quotes, joined where its lines end with a backslash.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StringLiteral {
    /// The line where the literal begins, counted from 1.
    pub(super) line: usize,
    pub(super) text: String,
}

/// Returns the string literals of a file, without those of its test module.
pub(super) fn string_literals(source: &str) -> Vec<StringLiteral> {
    let attributes = source.match_indices("#[cfg(test)]\n");
    let mut items = attributes.map(|(at, attribute)| (at, &source[at + attribute.len()..]));
    let tests =
        items.find(|(_, item)| item.lines().next().is_some_and(|line| line.contains("mod ")));
    let end = tests.map_or(source.len(), |(at, _)| at);
    let mut reader = Reader { chars: source[..end].char_indices().peekable(), line: 1 };
    let mut found = Vec::new();
    let mut before = ' ';
    while let Some(letter) = reader.next() {
        match letter {
            '/' if reader.follows('/') => reader.skip_line(),
            '"' => found.push(reader.string()),
            'r' if !before.is_alphanumeric() && before != '_' => found.extend(reader.raw_string()),
            '\'' => reader.skip_char_literal(),
            _ => {}
        }
        before = letter;
    }
    found
}

struct Reader<'a> {
    chars: Peekable<CharIndices<'a>>,
    line: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let (_, letter) = self.chars.next()?;
        if letter == '\n' {
            self.line += 1;
        }
        Some(letter)
    }

    fn follows(&mut self, letter: char) -> bool {
        self.chars.peek().is_some_and(|(_, next)| *next == letter)
    }

    fn skip_line(&mut self) {
        while !self.follows('\n') && self.next().is_some() {}
    }

    /// Reads the rest of a string whose opening quote has been read.
    fn string(&mut self) -> StringLiteral {
        let (line, mut text) = (self.line, String::new());
        while let Some(letter) = self.next() {
            match letter {
                '"' => break,
                '\\' => self.escape(&mut text),
                _ => text.push(letter),
            }
        }
        StringLiteral { line, text }
    }

    fn escape(&mut self, text: &mut String) {
        match self.next() {
            Some('\n') => {
                while self.chars.peek().is_some_and(|(_, next)| next.is_whitespace()) {
                    self.next();
                }
            }
            Some('n') => text.push('\n'),
            Some(letter @ ('"' | '\'' | '\\')) => text.push(letter),
            _ => text.push(' '),
        }
    }

    /// Reads a raw string whose `r` has been read, if there is one.
    fn raw_string(&mut self) -> Option<StringLiteral> {
        // Look ahead first, because `r` may also begin a name.
        let mut ahead = self.chars.clone().map(|(_, letter)| letter);
        let hashes = ahead.by_ref().take_while(|letter| *letter == '#').count();
        let mut opening = self.chars.clone().skip(hashes);
        if opening.next().is_none_or(|(_, letter)| letter != '"') {
            return None;
        }
        for _ in 0..=hashes {
            self.next();
        }
        let (line, mut text) = (self.line, String::new());
        let end = format!("\"{}", "#".repeat(hashes));
        while let Some(letter) = self.next() {
            text.push(letter);
            if text.ends_with(&end) {
                text.truncate(text.len() - end.len());
                break;
            }
        }
        Some(StringLiteral { line, text })
    }

    /// Skips a character literal whose opening quote has been read. Does not skip a lifetime.
    fn skip_char_literal(&mut self) {
        let mut ahead = self.chars.clone().map(|(_, letter)| letter);
        match (ahead.next(), ahead.next()) {
            (Some('\\'), _) => {
                self.next();
                self.next();
                while self.next().is_some_and(|letter| letter != '\'') {}
            }
            (Some(_), Some('\'')) => {
                self.next();
                self.next();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        string_literals(source).into_iter().map(|literal| literal.text).collect()
    }

    #[test]
    fn literals_are_read_as_the_program_sees_them() {
        assert_eq!(texts(r#"let a = "one"; // "no" "#), ["one"]);
        assert_eq!(texts(r#"x("a \"b\" c\n", 'z', '"', '\'', "d")"#), ["a \"b\" c\n", "d"]);
        assert_eq!(texts("\"a \\\n      b\""), ["a b"]);
        assert_eq!(texts("fn f<'a>(word: &'a str) { \"x\" }"), ["x"]);
    }

    #[test]
    fn raw_literals_are_read() {
        assert_eq!(texts(r##"r"a\" + r#"b "c""# + for"d""##), ["a\\", "b \"c\"", "d"]);
    }

    #[test]
    fn literals_have_the_line_where_they_begin() {
        let lines: Vec<usize> =
            string_literals("\n\"a\nb\"\n\"c\"").iter().map(|one| one.line).collect();
        assert_eq!(lines, [2, 4]);
    }

    #[test]
    fn literals_of_tests_are_left_out() {
        assert_eq!(texts("\"a\"\n#[cfg(test)]\nmod tests {\n\"b\"\n}\n"), ["a"]);
    }
}
