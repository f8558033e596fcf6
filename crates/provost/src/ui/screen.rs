//! The size of the terminal, and fitting lines into it.

use std::os::fd::AsFd;

use super::text::{char_width, width};

/// The minimum width to wrap text to. In a narrower terminal, the terminal itself breaks the lines.
const MIN_WRAP_WIDTH: usize = 20;

/// The output to which lines are printed: a terminal, which has a size, or a file or pipe, which has no size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Screen {
    columns: Option<usize>,
    rows: Option<usize>,
}

impl Screen {
    /// A screen without limits, on which lines are never wrapped.
    #[cfg(test)]
    pub(crate) const UNLIMITED: Screen = Screen { columns: None, rows: None };

    #[cfg(test)]
    pub(crate) fn with_columns(columns: usize) -> Self {
        Screen { columns: Some(columns), rows: None }
    }

    /// Returns the screen of standard output.
    pub(crate) fn stdout() -> Self {
        Screen::from_fd(std::io::stdout())
    }

    /// Returns the screen of standard error.
    pub(crate) fn stderr() -> Self {
        Screen::from_fd(std::io::stderr())
    }

    /// Returns the number of columns, if it is limited.
    pub(crate) fn columns(self) -> Option<usize> {
        self.columns
    }

    /// Returns the part of the screen that is left next to a column of this width.
    pub(crate) fn narrowed_by(self, width: usize) -> Self {
        Screen { columns: self.columns.map(|columns| columns.saturating_sub(width)), ..self }
    }

    /// Wraps a line between words. Continuation lines are indented by `hang` columns.
    ///
    /// Colors have no width and continue across line breaks. A word that is too long is not split,
    /// so that a path can still be copied. Text from [`unbreakable`] is not split either.
    pub(crate) fn wrap(self, line: &str, hang: usize) -> Vec<String> {
        let lines = match self.columns.filter(|columns| hang + MIN_WRAP_WIDTH <= *columns) {
            Some(columns) if painted_width(line) > columns => wrap_line(line, hang, columns),
            Some(_) | None => vec![line.to_owned()],
        };
        lines.into_iter().map(|line| line.replace(NO_BREAK_SPACE, " ")).collect()
    }

    /// Asks the terminal for its size. Files and pipes have no size.
    fn from_fd(fd: impl AsFd) -> Self {
        let size = rustix::termios::tcgetwinsize(fd).ok();
        let known = |length: u16| Some(usize::from(length)).filter(|length| *length > 0);
        Screen {
            columns: size.and_then(|size| known(size.ws_col)),
            rows: size.and_then(|size| known(size.ws_row)),
        }
    }

    /// Returns the first lines that fit on the screen, and a line with the number of lines that were left out. The last
    /// row is left free for the cursor.
    pub(crate) fn fit_rows(self, mut lines: Vec<String>) -> Vec<String> {
        let Some(rows) = self.rows else { return lines };
        let high = |line: &String| match self.columns {
            Some(columns) => painted_width(line).div_ceil(columns).max(1),
            None => 1,
        };
        let room = rows.saturating_sub(1);
        let fits = |room: usize| {
            let sums = lines.iter().scan(0, |sum, line| {
                *sum += high(line);
                Some(*sum)
            });
            sums.take_while(|sum| *sum <= room).count()
        };
        if fits(room) < lines.len() {
            let shown = fits(room.saturating_sub(1));
            let more = lines.len() - shown;
            lines.truncate(shown);
            lines.push(format!("… {more} more lines"));
        }
        lines
    }
}

/// Keeps the words of a text on the same line. Use this only for text that is passed to [`Screen::wrap`].
pub(crate) fn unbreakable(text: &str) -> String {
    text.replace(' ', NO_BREAK_SPACE)
}

/// A space where a line is never broken.
const NO_BREAK_SPACE: &str = "\u{a0}";

fn wrap_line(line: &str, hang: usize, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut current, mut used) = (String::new(), 0);
    for (blanks, word) in split_words(line) {
        let wide = painted_width(word);
        let fits = used + blanks + wide <= columns;
        // Break the line only if the word then fits on the next line.
        let helps = used > hang && hang + wide <= columns;
        if !fits && helps {
            lines.push(std::mem::replace(&mut current, " ".repeat(hang)));
            used = hang;
        } else {
            current.push_str(&" ".repeat(blanks));
            used += blanks;
        }
        current.push_str(word);
        used += wide;
    }
    lines.push(current);
    lines
}

/// Returns each word, with the number of spaces before it.
fn split_words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let word = rest.trim_start_matches(' ');
        let blanks = rest.len() - word.len();
        if word.is_empty() {
            return None;
        }
        let end = word.find(' ').unwrap_or(word.len());
        let (word, after) = word.split_at(end);
        rest = after;
        Some((blanks, word))
    })
}

/// Returns the width of a text without its color sequences, which are the only escape sequences in it.
fn painted_width(text: &str) -> usize {
    if !text.contains('\u{1b}') {
        return width(text);
    }
    let (mut sum, mut in_colour) = (0, false);
    for c in text.chars() {
        match (in_colour, c) {
            (false, '\u{1b}') => in_colour = true,
            (true, 'm') => in_colour = false,
            (true, _) => {}
            (false, c) => sum += char_width(c),
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fit_cuts_lines_and_counts_the_rest() {
        let screen = Screen { columns: Some(10), rows: Some(4) };
        let lines = |count: usize| (0..count).map(|no| format!("line {no}")).collect::<Vec<_>>();
        assert_eq!(screen.fit_rows(lines(3)), lines(3));
        assert_eq!(screen.fit_rows(lines(4)), ["line 0", "line 1", "… 2 more lines"]);
        // A command that is not wrapped takes up two rows.
        let long = vec!["provost answer".to_owned(), "line 1".to_owned(), "line 2".to_owned()];
        assert_eq!(screen.fit_rows(long), ["provost answer", "… 2 more lines"]);
        assert_eq!(Screen::UNLIMITED.fit_rows(lines(99)), lines(99));
    }

    #[test]
    fn lines_wrap_between_words() {
        let line = "  state     failed because the checks did not pass";
        insta::assert_snapshot!(Screen::with_columns(32).wrap(line, 12).join("\n"), @r"
          state     failed because the
                    checks did not pass
        ");
        assert_eq!(Screen::UNLIMITED.wrap(line, 12), [line]);
        assert_eq!(Screen::with_columns(25).wrap(line, 12), [line], "too narrow to indent");
    }

    #[test]
    fn long_word_is_not_split() {
        let line = "  in        /a/path/that/is/longer/than/the/terminal and more";
        assert_eq!(
            Screen::with_columns(34).wrap(line, 12),
            ["  in        /a/path/that/is/longer/than/the/terminal", "            and more"]
        );
    }

    #[test]
    fn unbreakable_text_stays_together() {
        let line = format!("one two three four {}", unbreakable("five six"));
        assert_eq!(Screen::with_columns(24).wrap(&line, 2), ["one two three four", "  five six"]);
        assert_eq!(Screen::UNLIMITED.wrap(&line, 2), ["one two three four five six"]);
    }

    #[test]
    fn colors_have_no_width() {
        let line = "a \u{1b}[31mred word here and there\u{1b}[0m";
        assert_eq!(
            Screen::with_columns(22).wrap(line, 2),
            ["a \u{1b}[31mred word here and", "  there\u{1b}[0m"]
        );
        assert_eq!(Screen::with_columns(26).wrap(line, 2), [line]);
    }
}
