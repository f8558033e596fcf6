//! Tables that are aligned by display width and no wider than the terminal.

use super::{
    paint::{Paint, Tone},
    screen::Screen,
    text::{self, clip, clip_start, width},
};

/// The space between two cells.
const GAP: usize = 2;

/// The minimum width that a column can be shortened to.
const MIN_WIDTH: usize = 8;

/// Which part of a cell to keep in a narrow terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnFit {
    /// The whole cell, for ids, states and numbers.
    Whole,
    /// The start of the cell.
    Start,
    /// The end of the cell, for paths.
    End,
}

/// Rows of cells with a header. The text in the cells must already be escaped.
#[derive(Debug)]
pub(crate) struct Table {
    head: Vec<(&'static str, ColumnFit)>,
    /// Columns that can be left out, in this order.
    optional: &'static [&'static str],
    rows: Vec<Vec<(Tone, String)>>,
}

impl Table {
    pub(crate) fn new(head: &[(&'static str, ColumnFit)]) -> Self {
        Table { head: head.to_vec(), optional: &[], rows: Vec::new() }
    }

    /// Sets which columns can be left out in a narrow terminal, in this order.
    pub(crate) fn with_optional(self, titles: &'static [&'static str]) -> Self {
        Table { optional: titles, ..self }
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

    /// Returns the columns to show. If necessary and possible, columns are shortened or left out so
    /// that they fit on the screen.
    fn columns(&self, screen: Screen) -> Vec<TableColumn> {
        let mut columns: Vec<TableColumn> =
            (0..self.head.len()).map(|at| self.column(at)).collect();
        let Some(room) = screen.columns() else { return columns };
        for title in self.optional {
            if min_total_width(&columns) <= room {
                break;
            }
            columns.retain(|column| self.head[column.index].0 != *title);
        }
        shrink(&mut columns, room);
        columns
    }

    fn column(&self, at: usize) -> TableColumn {
        let (title, fit) = self.head[at];
        let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|(_, text)| width(text));
        let width = cells.max().unwrap_or(0).max(text::width(title));
        let least = match fit {
            ColumnFit::Whole => width,
            ColumnFit::Start | ColumnFit::End => width.min(MIN_WIDTH.max(text::width(title))),
        };
        TableColumn { index: at, fit, width, min_width: least }
    }
}

/// A displayed column.
#[derive(Debug)]
struct TableColumn {
    /// The index of the column in the header and in the rows.
    index: usize,
    fit: ColumnFit,
    width: usize,
    /// The minimum width.
    min_width: usize,
}

impl TableColumn {
    fn clip_cell(&self, text: &str) -> String {
        match self.fit {
            ColumnFit::Whole => text.to_owned(),
            ColumnFit::Start => clip(text, self.width),
            ColumnFit::End => clip_start(text, self.width),
        }
    }
}

/// Returns the total width if all columns have their minimum width.
fn min_total_width(columns: &[TableColumn]) -> usize {
    columns.iter().map(|column| column.min_width).sum::<usize>() + gap_width(columns)
}

fn gap_width(columns: &[TableColumn]) -> usize {
    GAP * columns.len().saturating_sub(1)
}

/// Repeatedly shortens the widest column that can be shortened, until all columns fit or no column
/// can be shortened any further.
fn shrink(columns: &mut [TableColumn], room: usize) {
    let room = room.saturating_sub(gap_width(columns));
    while columns.iter().map(|column| column.width).sum::<usize>() > room {
        let free = columns.iter_mut().filter(|column| column.width > column.min_width);
        let Some(widest) = free.max_by_key(|column| column.width) else { return };
        widest.width -= 1;
    }
}

/// Formats a row. The last cell is not padded, so that no line ends with spaces.
fn line(row: &[(Tone, String)], columns: &[TableColumn], paint: Paint) -> String {
    let shown: Vec<_> =
        columns.iter().filter_map(|column| Some((column, row.get(column.index)?))).collect();
    let last = shown.iter().rposition(|(_, (_, text))| !text.is_empty()).unwrap_or(0);
    let mut line = String::new();
    for (no, (column, (tone, text))) in shown.into_iter().enumerate().take(last + 1) {
        let text = column.clip_cell(text);
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
        let head =
            [("NAME", ColumnFit::Start), ("STATE", ColumnFit::Whole), ("NOTE", ColumnFit::Start)];
        let mut table = Table::new(&head);
        table.row([plain("日本"), plain("working"), plain("")]);
        table.row([plain("a-longer-name"), plain("idle"), plain("x")]);
        insta::assert_snapshot!(table.lines(Paint::OFF, Screen::UNLIMITED).join("\n"), @r"
        NAME           STATE    NOTE
        日本           working
        a-longer-name  idle     x
        ");
    }

    #[test]
    fn narrow_terminal_keeps_ids_and_states() {
        let head = [
            ("ID", ColumnFit::Whole),
            ("NAME", ColumnFit::Start),
            ("STATE", ColumnFit::Whole),
            ("FILE", ColumnFit::End),
        ];
        let mut table = Table::new(&head);
        table.row([
            plain("deadbeef"),
            plain("a name that is longer than any"),
            plain("failed (verification)"),
            plain("/home/u/body/work/provost.toml:2"),
        ]);
        insta::assert_snapshot!(table.lines(Paint::OFF, Screen::with_columns(70)).join("\n"), @"
        ID        NAME                STATE                  FILE
        deadbeef  a name that is lo…  failed (verification)  …k/provost.toml:2
        ");
        let narrow = table.lines(Paint::OFF, Screen::with_columns(10));
        assert!(narrow[1].starts_with("deadbeef  a name …"), "{narrow:?}");
        assert!(narrow[1].contains("failed (verification)"), "{narrow:?}");
    }

    #[test]
    fn columns_are_left_out_in_order() {
        let head = [
            ("ID", ColumnFit::Whole),
            ("NAME", ColumnFit::Start),
            ("AGE", ColumnFit::Whole),
            ("NOTE", ColumnFit::Start),
        ];
        let mut table = Table::new(&head).with_optional(&["AGE", "NAME"]);
        table.row([plain("deadbeef"), plain("a-longer-name"), plain("1m"), plain("what was said")]);
        let shown = |columns| table.lines(Paint::OFF, Screen::with_columns(columns))[1].clone();
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
