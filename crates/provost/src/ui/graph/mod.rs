//! Draws a graph of tasks in the terminal. Lines connect each task with its dependents. If there
//! would be too many lines to read, the tasks are listed instead.

mod fold;
mod lanes;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    paint::{Paint, Tone},
    screen::Screen,
    table::{ColumnFit, Table},
    text::escape_line,
};

/// The maximum width of the lines if the terminal's width is unknown.
const MAX_LINES_WIDTH: usize = 40;

/// The lines can take up at most the terminal's width divided by this number.
const LINES_DIVISOR: usize = 3;

/// A graph with more tasks than this number is drawn only if the connecting lines take up few columns.
const LONG_GRAPH: usize = 30;

/// The maximum width of the lines in a long graph.
const MAX_LONG_LINES_WIDTH: usize = 16;

/// The maximum number of dependencies to mention for a listed task.
const MAX_NAMED: usize = 4;

/// In a graph with more tasks than this, transitive dependencies are not removed.
const MAX_REDUCED: usize = 1_000;

/// A task to draw. Its texts are untrusted.
#[derive(Clone, Debug)]
pub(crate) struct GraphTaskRow {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) after: Vec<String>,
    /// The state of the task, as a single word.
    pub(crate) state: String,
    pub(crate) note: String,
}

/// How much of a graph to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GraphExtent {
    Whole,
    /// In a large graph, finished tasks and tasks with long dependency chains are only counted.
    Folded,
}

/// Draws a graph from its tasks, which are in plan order. Transitive dependencies are not drawn.
pub(crate) fn graph_lines(
    paint: Paint,
    screen: Screen,
    rows: &[GraphTaskRow],
    extent: GraphExtent,
) -> Vec<String> {
    let after = dependency_links(rows);
    let shown = match extent {
        GraphExtent::Whole => {
            fold::VisibleTasks { tasks: (0..rows.len()).collect(), done: 0, waiting: 0 }
        }
        GraphExtent::Folded => fold::fold(&rows.iter().map(classify).collect::<Vec<_>>(), &after),
    };
    let rows: Vec<&GraphTaskRow> = shown.tasks.iter().map(|task| &rows[*task]).collect();
    let after = remove_transitive(&subset_links(&after, &shown.tasks));
    let room = screen.columns().map_or(MAX_LINES_WIDTH, |columns| columns / LINES_DIVISOR);
    let room = if rows.len() > LONG_GRAPH { room.min(MAX_LONG_LINES_WIDTH) } else { room };
    let drawn = match lanes::draw(&after, room) {
        Some(lanes) => draw_lines(paint, screen, &rows, &lanes),
        None => list_lines(paint, screen, &rows, &after),
    };
    let count = |kind: TaskMark, count: usize, what: &str| {
        let text = format!("{} {count} {what}", paint.drawing(kind.mark()));
        (count > 0).then(|| paint.paint(kind.tone(), &text))
    };
    let done = count(TaskMark::Done, shown.done, "done");
    done.into_iter()
        .chain(drawn)
        .chain(count(TaskMark::Waiting, shown.waiting, "more waiting"))
        .collect()
}

/// The meaning of a state in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskMark {
    Waiting,
    Live,
    /// The task needs the user, or has a problem that can be fixed.
    NeedsUser,
    Done,
    Failed,
    Dropped,
}

impl TaskMark {
    fn mark(self) -> char {
        match self {
            TaskMark::Waiting => '○',
            TaskMark::Live => '●',
            TaskMark::NeedsUser => '?',
            TaskMark::Done => '✓',
            TaskMark::Failed => '✗',
            TaskMark::Dropped => '×',
        }
    }

    fn tone(self) -> Tone {
        match self {
            TaskMark::Waiting | TaskMark::Dropped => Tone::Dim,
            TaskMark::Live => Tone::Live,
            TaskMark::NeedsUser => Tone::Warn,
            TaskMark::Done => Tone::Good,
            TaskMark::Failed => Tone::Bad,
        }
    }
}

/// Classifies a state. An unknown state counts as active, so that it is shown.
fn classify(row: &GraphTaskRow) -> TaskMark {
    match row.state.as_str() {
        "" | "planned" | "waiting" | "ready" => TaskMark::Waiting,
        "needs_input" | "stalled" | "lost" | "exited_without_claim" => TaskMark::NeedsUser,
        "succeeded" | "completed" | "accepted" | "done" | "merged" => TaskMark::Done,
        "failed" | "disputed" => TaskMark::Failed,
        "cancelled" | "superseded" | "skipped" | "stopped" => TaskMark::Dropped,
        _ => TaskMark::Live,
    }
}

/// Returns the indexes of each task's dependencies. Unknown tasks and later tasks are left out,
/// because plans are validated elsewhere.
fn dependency_links(rows: &[GraphTaskRow]) -> Vec<Vec<usize>> {
    let mut seen = BTreeMap::new();
    let of = |(no, row): (usize, &GraphTaskRow)| {
        let after: BTreeSet<usize> =
            row.after.iter().filter_map(|on| seen.get(on.as_str()).copied()).collect();
        seen.insert(row.id.clone(), no);
        after.into_iter().collect()
    };
    rows.iter().enumerate().map(of).collect()
}

/// Returns the links between the tasks that are kept, using their new indexes.
fn subset_links(after: &[Vec<usize>], kept: &[usize]) -> Vec<Vec<usize>> {
    let places: BTreeMap<usize, usize> =
        kept.iter().enumerate().map(|(no, task)| (*task, no)).collect();
    let known =
        |task: &usize| after[*task].iter().filter_map(|on| places.get(on).copied()).collect();
    kept.iter().map(known).collect()
}

/// Removes transitive links: if a task depends on `b` and `b` depends on `a`, removes the link from
/// the task to `a`.
fn remove_transitive(after: &[Vec<usize>]) -> Vec<Vec<usize>> {
    if after.len() > MAX_REDUCED {
        return after.to_vec();
    }
    // All direct and indirect dependencies of each task. Tasks come after their dependencies in the list.
    let mut reached: Vec<BTreeSet<usize>> = Vec::with_capacity(after.len());
    let mut links = Vec::with_capacity(after.len());
    for on in after {
        let farther: BTreeSet<usize> =
            on.iter().flat_map(|on| reached[*on].iter().copied()).collect();
        links.push(on.iter().copied().filter(|on| !farther.contains(on)).collect());
        reached.push(farther.into_iter().chain(on.iter().copied()).collect());
    }
    links
}

/// Returns the length of the longest dependency chain before each task.
fn layers(after: &[Vec<usize>]) -> Vec<usize> {
    let mut layers: Vec<usize> = Vec::with_capacity(after.len());
    for on in after {
        layers.push(on.iter().map(|on| layers[*on] + 1).max().unwrap_or(0));
    }
    layers
}

/// Draws the lines, and the tasks in a table next to them.
fn draw_lines(
    paint: Paint,
    screen: Screen,
    rows: &[&GraphTaskRow],
    lanes: &lanes::Lanes,
) -> Vec<String> {
    let gap = 1;
    let width = lanes.width + gap;
    let noted = rows.iter().any(|row| !row.note.is_empty());
    let mut head =
        vec![("TASK", ColumnFit::Whole), ("STATE", ColumnFit::Whole), ("TITLE", ColumnFit::Start)];
    head.extend(noted.then_some(("NOTE", ColumnFit::Start)));
    let mut table = Table::new(&head).with_optional(&["TITLE", "NOTE"]);
    for line in &lanes.lines {
        let row = rows[line.task];
        table.row([id_cell(row), state_cell(row), title_cell(row), note_cell(row)]);
    }
    let mut beside = table.lines(paint, screen.narrowed_by(width)).into_iter();
    let head = beside.next().map(|head| format!("{}{head}", " ".repeat(width)));
    let lines = lanes.lines.iter().zip(beside).map(|(line, text)| {
        let kind = classify(rows[line.task]);
        let before = paint_strokes(paint, &line.before);
        let mark = paint.paint(kind.tone(), &paint.drawing(kind.mark()).to_string());
        let behind = paint_strokes(paint, &line.after);
        format!("{before}{mark}{behind}{}{text}", " ".repeat(width - line.width()))
    });
    head.into_iter().chain(lines).collect()
}

/// Lists the tasks in layers, with the names of their dependencies.
fn list_lines(
    paint: Paint,
    screen: Screen,
    rows: &[&GraphTaskRow],
    after: &[Vec<usize>],
) -> Vec<String> {
    let (mark_width, layers) = (2, layers(after));
    let head = [
        ("STEP", ColumnFit::Whole),
        ("TASK", ColumnFit::Whole),
        ("STATE", ColumnFit::Whole),
        ("AFTER", ColumnFit::Start),
        ("TITLE", ColumnFit::Start),
        ("NOTE", ColumnFit::Start),
    ];
    let noted = rows.iter().any(|row| !row.note.is_empty());
    let head = &head[..head.len() - usize::from(!noted)];
    let mut table = Table::new(head).with_optional(&["TITLE", "NOTE", "STEP"]);
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|task| layers[*task]);
    for task in &order {
        let (row, step) = (rows[*task], (Tone::Dim, (layers[*task] + 1).to_string()));
        let after = (Tone::Dim, dependency_names(rows, &after[*task]));
        table.row([step, id_cell(row), state_cell(row), after, title_cell(row), note_cell(row)]);
    }
    let mut beside = table.lines(paint, screen.narrowed_by(mark_width)).into_iter();
    let head = beside.next().map(|head| format!("{}{head}", " ".repeat(mark_width)));
    let lines = order.iter().zip(beside).map(|(task, text)| {
        let kind = classify(rows[*task]);
        format!("{} {text}", paint.paint(kind.tone(), &paint.drawing(kind.mark()).to_string()))
    });
    head.into_iter().chain(lines).collect()
}

fn dependency_names(rows: &[&GraphTaskRow], after: &[usize]) -> String {
    let names = after.iter().take(MAX_NAMED).map(|on| escape_line(&rows[*on].id));
    let more = after.len().saturating_sub(MAX_NAMED);
    let more = (more > 0).then(|| format!("{more} more"));
    names.chain(more).collect::<Vec<_>>().join(", ")
}

fn id_cell(row: &GraphTaskRow) -> (Tone, String) {
    (Tone::Bold, escape_line(&row.id))
}

fn state_cell(row: &GraphTaskRow) -> (Tone, String) {
    (classify(row).tone(), escape_line(&row.state.replace('_', " ")))
}

fn title_cell(row: &GraphTaskRow) -> (Tone, String) {
    (Tone::Plain, escape_line(&row.title))
}

fn note_cell(row: &GraphTaskRow) -> (Tone, String) {
    (Tone::Dim, escape_line(&row.note))
}

/// Paints a text with strokes, unless it is blank.
fn paint_strokes(paint: Paint, text: &str) -> String {
    if text.trim().is_empty() {
        return text.to_owned();
    }
    let drawn: String = text.chars().map(|stroke| paint.drawing(stroke)).collect();
    paint.paint(Tone::Dim, &drawn)
}

#[cfg(test)]
mod tests;
