//! The screen that results from a stream of terminal output, as lines of text.

use std::num::NonZeroU16;

/// A line of a screen. Each character has a flag that is true if the character is dim.
pub type StyledLine = Vec<(char, bool)>;

/// The largest supported screen.
pub const MAX_ROWS: u16 = 500;
pub const MAX_COLUMNS: u16 = 1000;

/// A screen of bounded size, without scrollback.
pub struct TerminalScreen {
    parser: vt100::Parser,
}

impl TerminalScreen {
    /// Returns an empty screen. Sizes that are too large are reduced to the maximum.
    pub fn new(rows: u16, columns: u16) -> Self {
        let (rows, columns) = bounded(rows, columns);
        Self { parser: vt100::Parser::new(rows, columns, 0) }
    }

    /// Draws the next bytes of the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.parser.process(bytes);
    }

    pub fn resize(&mut self, rows: u16, columns: u16) {
        let (rows, columns) = bounded(rows, columns);
        self.parser.set_size(rows, columns);
    }

    /// Returns the lines from top to bottom, without trailing spaces. Dim characters are included.
    pub fn lines(&self) -> Vec<String> {
        let screen = self.parser.screen();
        let (_, columns) = screen.size();
        screen.rows(0, columns.into()).map(|row| row.trim_end().to_owned()).collect()
    }

    /// Returns the lines with the attributes of their characters.
    pub fn styled_lines(&self) -> Vec<StyledLine> {
        let screen = self.parser.screen();
        let (rows, columns) = screen.size();
        (0..rows.get()).map(|row| painted(screen, row, columns.get())).collect()
    }

    /// Whether the program accepts bracketed paste.
    pub fn accepts_paste(&self) -> bool {
        self.parser.screen().bracketed_paste()
    }

    /// Returns the row and column of the cursor, or `None` if it is hidden.
    pub fn cursor(&self) -> Option<(u16, u16)> {
        let screen = self.parser.screen();
        (!screen.hide_cursor()).then(|| screen.cursor_position())
    }
}

impl std::fmt::Debug for TerminalScreen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("lines", &self.lines()).finish()
    }
}

/// Returns the characters of one line. A wide character is returned once, for the first of its two
/// cells.
fn painted(screen: &vt100::Screen, row: u16, columns: u16) -> StyledLine {
    let mut line = StyledLine::with_capacity(columns.into());
    let cells = (0..columns).filter_map(|column| screen.cell(row, column));
    for cell in cells.filter(|cell| !cell.is_wide_continuation()) {
        match cell.contents() {
            "" => line.push((' ', false)),
            text => line.extend(text.chars().map(|char| (char, cell.dim()))),
        }
    }
    line
}

fn bounded(rows: u16, columns: u16) -> (NonZeroU16, NonZeroU16) {
    let bounded = |size: u16, most: u16| NonZeroU16::new(size.min(most)).unwrap_or(NonZeroU16::MIN);
    (bounded(rows, MAX_ROWS), bounded(columns, MAX_COLUMNS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn box_characters_are_kept() {
        let mut screen = TerminalScreen::new(4, 20);
        screen.feed("╭──────╮\r\n│ text │ a│b\r\n╰──────╯ ─── end".as_bytes());
        assert_eq!(screen.lines(), ["╭──────╮", "│ text │ a│b", "╰──────╯ ─── end", ""]);
    }

    #[test]
    fn dim_text_is_marked() {
        let mut screen = TerminalScreen::new(1, 6);
        screen.feed("\u{1b}[1m›\u{1b}[0m \u{1b}[2mA\u{1b}[22m漢".as_bytes());
        let dim: Vec<(char, bool)> = screen.styled_lines().remove(0);
        assert_eq!(dim[..4], [('›', false), (' ', false), ('A', true), ('漢', false)]);
    }

    #[test]
    fn screen_size_is_bounded() {
        let mut screen = TerminalScreen::new(u16::MAX, 0);
        screen.feed("a\r\n".repeat(5000).as_bytes());
        assert_eq!(screen.lines().len(), usize::from(MAX_ROWS));
        screen.resize(2, u16::MAX);
        screen.feed(b"\x1b[8;9999;9999t\x1b[2J\x1b[H\x1b[?2004hb");
        assert_eq!(screen.lines(), ["b", ""]);
        assert!(screen.accepts_paste());
        assert_eq!(screen.cursor(), Some((0, 1)));
    }
}
