//! Tables, aligned by display width and no wider than the terminal.

use super::{
    paint::{Paint, Tone},
    screen::Screen,
    text::{self, clip, clip_start, width},
};

/// The width between two cells.
const GAP: usize = 2;

/// The minimum width of a shortened column.
const MIN_WIDTH: usize = 8;

/// Which part of a cell is kept in a narrow terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Everything, for ids, states and numbers.
    Whole,
    /// The start.
    Start,
    /// The end, for paths.
    End,
}

/// Rows of cells with a header. Cells must be escaped.
#[derive(Debug)]
pub(crate) struct Table {
    head: Vec<(&'static str, Fit)>,
    /// The columns that may be left out, in this order.
    spare: &'static [&'static str],
    rows: Vec<Vec<(Tone, String)>>,
}

impl Table {
    pub(crate) fn new(head: &[(&'static str, Fit)]) -> Self {
        Table { head: head.to_vec(), spare: &[], rows: Vec::new() }
    }

    /// Sets the columns that a narrow terminal may leave out, in this order.
    pub(crate) fn sparing(self, titles: &'static [&'static str]) -> Self {
        Table { spare: titles, ..self }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = (Tone, String)>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn lines(&self, paint: Paint, screen: Screen) -> Vec<String> {
        let head: Vec<_> =
            self.head.iter().map(|(title, _)| (Tone::Dim, (*title).to_owned())).collect();
        let columns = self.columns(screen);
        let rows = std::iter::once(&head).chain(&self.rows);
        rows.map(|row| line(row, &columns, paint)).collect()
    }

    /// Returns the columns to show, shortened or left out so that they fit on the screen if possible.
    fn columns(&self, screen: Screen) -> Vec<Column> {
        let mut columns: Vec<Column> = (0..self.head.len()).map(|at| self.column(at)).collect();
        let Some(room) = screen.columns() else { return columns };
        for title in self.spare {
            if least(&columns) <= room {
                break;
            }
            columns.retain(|column| self.head[column.at].0 != *title);
        }
        narrow(&mut columns, room);
        columns
    }

    fn column(&self, at: usize) -> Column {
        let (title, fit) = self.head[at];
        let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|(_, text)| width(text));
        let width = cells.max().unwrap_or(0).max(text::width(title));
        let least = match fit {
            Fit::Whole => width,
            Fit::Start | Fit::End => width.min(MIN_WIDTH.max(text::width(title))),
        };
        Column { at, fit, width, least }
    }
}

/// A displayed column.
#[derive(Debug)]
struct Column {
    /// Its index in the header and in the rows.
    at: usize,
    fit: Fit,
    width: usize,
    /// The minimum width.
    least: usize,
}

impl Column {
    fn cut(&self, text: &str) -> String {
        match self.fit {
            Fit::Whole => text.to_owned(),
            Fit::Start => clip(text, self.width),
            Fit::End => clip_start(text, self.width),
        }
    }
}

/// Returns the total width with all columns at their minimum.
fn least(columns: &[Column]) -> usize {
    columns.iter().map(|column| column.least).sum::<usize>() + gaps(columns)
}

fn gaps(columns: &[Column]) -> usize {
    GAP * columns.len().saturating_sub(1)
}

/// Shortens the widest column that can be shortened, until all fit or none can.
fn narrow(columns: &mut [Column], room: usize) {
    let room = room.saturating_sub(gaps(columns));
    while columns.iter().map(|column| column.width).sum::<usize>() > room {
        let free = columns.iter_mut().filter(|column| column.width > column.least);
        let Some(widest) = free.max_by_key(|column| column.width) else { return };
        widest.width -= 1;
    }
}

/// Formats a row. The last cell is not padded, so that no line ends in blanks.
fn line(row: &[(Tone, String)], columns: &[Column], paint: Paint) -> String {
    let shown: Vec<_> =
        columns.iter().filter_map(|column| Some((column, row.get(column.at)?))).collect();
    let last = shown.iter().rposition(|(_, (_, text))| !text.is_empty()).unwrap_or(0);
    let mut line = String::new();
    for (no, (column, (tone, text))) in shown.into_iter().enumerate().take(last + 1) {
        let text = column.cut(text);
        line.push_str(&paint.paint(*tone, &text));
        if no < last {
            let room = column.width + GAP;
            line.push_str(&" ".repeat(room.saturating_sub(width(&text))));
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

    #[test]
    fn what_cannot_be_shortened_enough_is_left_out_in_order() {
        let head =
            [("ID", Fit::Whole), ("NAME", Fit::Start), ("AGE", Fit::Whole), ("NOTE", Fit::Start)];
        let mut table = Table::new(&head).sparing(&["AGE", "NAME"]);
        table.row([plain("deadbeef"), plain("a-longer-name"), plain("1m"), plain("what was said")]);
        let shown = |columns| table.lines(Paint::OFF, Screen::of(columns))[1].clone();
        assert_eq!(shown(80), "deadbeef  a-longer-name  1m   what was said");
        assert_eq!(
            shown(33),
            "deadbeef  a-longe…  1m   what wa…",
            "all are shortened before one is left out"
        );
        assert_eq!(shown(32), "deadbeef  a-longer-…  what was …");
        assert_eq!(shown(20), "deadbeef  what was …");
    }
}
