//! Tables, aligned by what a terminal shows.

use super::{
    paint::{Paint, Tone},
    text::width,
};

/// The columns between two cells.
const GAP: usize = 2;

/// Rows of cells under a head. Cells must be clean.
#[derive(Debug)]
pub(crate) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<(Tone, String)>>,
}

impl Table {
    pub(crate) fn new(head: &[&'static str]) -> Self {
        Table { head: head.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = (Tone, String)>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn lines(&self, paint: Paint) -> Vec<String> {
        let head = self.head.iter().map(|title| (Tone::Dim, (*title).to_owned())).collect();
        let widths = self.widths();
        std::iter::once(&head).chain(&self.rows).map(|row| line(row, &widths, paint)).collect()
    }

    fn widths(&self) -> Vec<usize> {
        let column = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|(_, text)| width(text));
            cells.max().unwrap_or(0).max(width(self.head[at]))
        };
        (0..self.head.len()).map(column).collect()
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

    #[test]
    fn columns_align_by_display_width() {
        let mut table = Table::new(&["NAME", "STATE", "NOTE"]);
        let plain = |text: &str| (Tone::Plain, text.to_owned());
        table.row([plain("日本"), plain("working"), plain("")]);
        table.row([plain("a-longer-name"), plain("idle"), plain("x")]);
        insta::assert_snapshot!(table.lines(Paint::OFF).join("\n"), @r"
        NAME           STATE    NOTE
        日本           working
        a-longer-name  idle     x
        ");
    }
}
