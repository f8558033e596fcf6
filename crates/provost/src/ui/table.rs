//! Tables, aligned by what a terminal shows and no wider than it.

use super::{
    paint::{Paint, Tone},
    screen::Screen,
    text::{clip, clip_start, width},
};

/// The columns between two cells.
const GAP: usize = 2;

/// What a column that may be shortened keeps at least.
const MIN_WIDTH: usize = 8;

/// What may be left out of a column's cells where the terminal is too narrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Nothing, for it is an id, a state or a number.
    Whole,
    /// The end.
    Start,
    /// The beginning, as of a path.
    End,
}

/// Rows of cells under a head. Cells must be clean.
#[derive(Debug)]
pub(crate) struct Table {
    head: Vec<(&'static str, Fit)>,
    rows: Vec<Vec<(Tone, String)>>,
}

impl Table {
    pub(crate) fn new(head: &[(&'static str, Fit)]) -> Self {
        Table { head: head.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = (Tone, String)>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn lines(&self, paint: Paint, screen: Screen) -> Vec<String> {
        let head = self.head.iter().map(|(title, _)| (Tone::Dim, (*title).to_owned())).collect();
        let mut widths = self.widths();
        if let Some(columns) = screen.columns() {
            self.narrow(&mut widths, columns);
        }
        let rows = std::iter::once(&head).chain(&self.rows);
        rows.map(|row| line(&self.cut(row, &widths), &widths, paint)).collect()
    }

    fn widths(&self) -> Vec<usize> {
        let column = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|(_, text)| width(text));
            cells.max().unwrap_or(0).max(width(self.head[at].0))
        };
        (0..self.head.len()).map(column).collect()
    }

    /// Takes from the widest column that may be shortened, until all fit or nothing is left to take.
    fn narrow(&self, widths: &mut [usize], columns: usize) {
        let gaps = GAP * self.head.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > columns {
            let free = |at: &usize| self.head[*at].1 != Fit::Whole && widths[*at] > self.least(*at);
            let widest = (0..widths.len()).filter(free).max_by_key(|at| widths[*at]);
            let Some(widest) = widest else { return };
            widths[widest] -= 1;
        }
    }

    fn least(&self, at: usize) -> usize {
        MIN_WIDTH.max(width(self.head[at].0))
    }

    fn cut(&self, row: &[(Tone, String)], widths: &[usize]) -> Vec<(Tone, String)> {
        let cut = |(at, (tone, text)): (usize, &(Tone, String))| {
            let text = match self.head[at].1 {
                Fit::Whole => text.clone(),
                Fit::Start => clip(text, widths[at]),
                Fit::End => clip_start(text, widths[at]),
            };
            (*tone, text)
        };
        row.iter().take(widths.len()).enumerate().map(cut).collect()
    }
}

/// The last cell is not padded, so that no line ends in blanks.
fn line(row: &[(Tone, String)], widths: &[usize], paint: Paint) -> String {
    let last = row.iter().rposition(|(_, text)| !text.is_empty()).unwrap_or(0);
    let mut line = String::new();
    for (at, (tone, text)) in row.iter().enumerate().take(last + 1) {
        line.push_str(&paint.paint(*tone, text));
        if at < last {
            let room = widths.get(at).copied().unwrap_or(0) + GAP;
            line.push_str(&" ".repeat(room.saturating_sub(width(text))));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> (Tone, String) {
        (Tone::Plain, text.to_owned())
    }

    #[test]
    fn columns_align_by_display_width() {
        let head = [("NAME", Fit::Start), ("STATE", Fit::Whole), ("NOTE", Fit::Start)];
        let mut table = Table::new(&head);
        table.row([plain("日本"), plain("working"), plain("")]);
        table.row([plain("a-longer-name"), plain("idle"), plain("x")]);
        insta::assert_snapshot!(table.lines(Paint::OFF, Screen::ENDLESS).join("\n"), @r"
        NAME           STATE    NOTE
        日本           working
        a-longer-name  idle     x
        ");
    }

    #[test]
    fn a_narrow_terminal_shortens_texts_but_neither_ids_nor_states() {
        let head =
            [("ID", Fit::Whole), ("NAME", Fit::Start), ("STATE", Fit::Whole), ("FILE", Fit::End)];
        let mut table = Table::new(&head);
        table.row([
            plain("deadbeef"),
            plain("a name that is longer than any"),
            plain("failed (verification)"),
            plain("/home/u/body/work/provost.toml:2"),
        ]);
        insta::assert_snapshot!(table.lines(Paint::OFF, Screen::of(70)).join("\n"), @"
        ID        NAME                STATE                  FILE
        deadbeef  a name that is lo…  failed (verification)  …k/provost.toml:2
        ");
        let narrow = table.lines(Paint::OFF, Screen::of(10));
        assert!(narrow[1].starts_with("deadbeef  a name …"), "{narrow:?}");
        assert!(narrow[1].contains("failed (verification)"), "{narrow:?}");
    }
}
