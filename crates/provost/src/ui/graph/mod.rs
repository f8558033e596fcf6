//! A graph of tasks in the terminal: lines from each task to its dependents, or a list if there are
//! too many lines to follow by eye.

mod fold;
mod lanes;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    paint::{Paint, Tone},
    screen::Screen,
    table::{Fit, Table},
    text::clean,
};

/// The maximum width of the lines if the terminal's width is unknown.
const MAX_LINES: usize = 40;

/// The lines take at most one part in this many of the terminal's width.
const PART_FOR_LINES: usize = 3;

/// A graph with more tasks than this is drawn only if its lines are narrow.
const LONG: usize = 30;

/// The maximum width of the lines of a long graph.
const MAX_LINES_OF_LONG: usize = 16;

/// How many dependencies of a listed task are named.
const MAX_NAMED: usize = 4;

/// The largest graph in which transitive dependencies are removed.
const MAX_REDUCED: usize = 1_000;

/// A drawn task. Its texts are untrusted.
#[derive(Clone, Debug)]
pub(crate) struct GraphRow {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) after: Vec<String>,
    /// Its state, as one word.
    pub(crate) state: String,
    pub(crate) note: String,
}

/// How much of a graph is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    /// In a large graph, finished tasks and those that wait longest are only counted.
    Folded,
}

/// Draws a graph from its tasks in the order of the plan. Transitive dependencies are not drawn.
pub(crate) fn graph_lines(
    paint: Paint,
    screen: Screen,
    rows: &[GraphRow],
    extent: Extent,
) -> Vec<String> {
    let after = links(rows);
    let shown = match extent {
        Extent::Whole => fold::Shown { tasks: (0..rows.len()).collect(), done: 0, waiting: 0 },
        Extent::Folded => fold::folded(&rows.iter().map(kind).collect::<Vec<_>>(), &after),
    };
    let rows: Vec<&GraphRow> = shown.tasks.iter().map(|task| &rows[*task]).collect();
    let after = reduced(&among(&after, &shown.tasks));
    let room = screen.columns().map_or(MAX_LINES, |columns| columns / PART_FOR_LINES);
    let room = if rows.len() > LONG { room.min(MAX_LINES_OF_LONG) } else { room };
    let drawn = match lanes::draw(&after, room) {
        Some(lanes) => drawn(paint, screen, &rows, &lanes),
        None => listed(paint, screen, &rows, &after),
    };
    let count = |kind: Kind, count: usize, what: &str| {
        let text = format!("{} {count} {what}", kind.mark());
        (count > 0).then(|| paint.paint(kind.tone(), &text))
    };
    let done = count(Kind::Done, shown.done, "done");
    done.into_iter()
        .chain(drawn)
        .chain(count(Kind::Waiting, shown.waiting, "more waiting"))
        .collect()
}

/// The meaning of a state in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Waiting,
    Live,
    /// It needs the user, or has a problem that can be fixed.
    Asks,
    Done,
    Failed,
    Dropped,
}

impl Kind {
    fn mark(self) -> char {
        match self {
            Kind::Waiting => '○',
            Kind::Live => '●',
            Kind::Asks => '?',
            Kind::Done => '✓',
            Kind::Failed => '✗',
            Kind::Dropped => '×',
        }
    }

    fn tone(self) -> Tone {
        match self {
            Kind::Waiting | Kind::Dropped => Tone::Dim,
            Kind::Live => Tone::Live,
            Kind::Asks => Tone::Warn,
            Kind::Done => Tone::Good,
            Kind::Failed => Tone::Bad,
        }
    }
}

/// Classifies a state. An unknown state counts as active, so that it is shown and not folded.
fn kind(row: &GraphRow) -> Kind {
    match row.state.as_str() {
        "" | "planned" | "waiting" | "ready" => Kind::Waiting,
        "needs_input" | "stalled" | "lost" | "ended_unclaimed" => Kind::Asks,
        "succeeded" | "completed" | "accepted" | "done" | "merged" => Kind::Done,
        "failed" | "disputed" => Kind::Failed,
        "cancelled" | "superseded" | "skipped" | "stopped" => Kind::Dropped,
        _ => Kind::Live,
    }
}

/// Returns the indexes of each task's dependencies. Unknown and later tasks are left out, because
/// validating a plan is not the drawing's job.
fn links(rows: &[GraphRow]) -> Vec<Vec<usize>> {
    let mut seen = BTreeMap::new();
    let of = |(no, row): (usize, &GraphRow)| {
        let after: BTreeSet<usize> =
            row.after.iter().filter_map(|on| seen.get(on.as_str()).copied()).collect();
        seen.insert(row.id.clone(), no);
        after.into_iter().collect()
    };
    rows.iter().enumerate().map(of).collect()
}

/// Returns the links between the kept tasks, by their new indexes.
fn among(after: &[Vec<usize>], kept: &[usize]) -> Vec<Vec<usize>> {
    let places: BTreeMap<usize, usize> =
        kept.iter().enumerate().map(|(no, task)| (*task, no)).collect();
    let known =
        |task: &usize| after[*task].iter().filter_map(|on| places.get(on).copied()).collect();
    kept.iter().map(known).collect()
}

/// Removes transitive links: a task after `b`, which is after `a`, is after `a` anyway.
fn reduced(after: &[Vec<usize>]) -> Vec<Vec<usize>> {
    if after.len() > MAX_REDUCED {
        return after.to_vec();
    }
    // All direct and indirect dependencies of each task. A task comes after its dependencies.
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

/// Draws the lines, with the tasks in a table beside them.
fn drawn(paint: Paint, screen: Screen, rows: &[&GraphRow], lanes: &lanes::Lanes) -> Vec<String> {
    let gap = 1;
    let width = lanes.width + gap;
    let noted = rows.iter().any(|row| !row.note.is_empty());
    let mut head = vec![("TASK", Fit::Whole), ("STATE", Fit::Whole), ("TITLE", Fit::Start)];
    head.extend(noted.then_some(("NOTE", Fit::Start)));
    let mut table = Table::new(&head).sparing(&["TITLE", "NOTE"]);
    for line in &lanes.lines {
        let row = rows[line.task];
        table.row([named(row), stated(row), titled(row), noted_of(row)]);
    }
    let mut beside = table.lines(paint, screen.beside(width)).into_iter();
    let head = beside.next().map(|head| format!("{}{head}", " ".repeat(width)));
    let lines = lanes.lines.iter().zip(beside).map(|(line, text)| {
        let kind = kind(rows[line.task]);
        let before = strokes(paint, &line.before);
        let mark = paint.paint(kind.tone(), &kind.mark().to_string());
        let behind = strokes(paint, &line.behind);
        format!("{before}{mark}{behind}{}{text}", " ".repeat(width - line.width()))
    });
    head.into_iter().chain(lines).collect()
}

/// Lists the tasks by layers, with the names of their dependencies.
fn listed(paint: Paint, screen: Screen, rows: &[&GraphRow], after: &[Vec<usize>]) -> Vec<String> {
    let (mark_width, layers) = (2, layers(after));
    let head = [
        ("STEP", Fit::Whole),
        ("TASK", Fit::Whole),
        ("STATE", Fit::Whole),
        ("AFTER", Fit::Start),
        ("TITLE", Fit::Start),
        ("NOTE", Fit::Start),
    ];
    let noted = rows.iter().any(|row| !row.note.is_empty());
    let head = &head[..head.len() - usize::from(!noted)];
    let mut table = Table::new(head).sparing(&["TITLE", "NOTE", "STEP"]);
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|task| layers[*task]);
    for task in &order {
        let (row, step) = (rows[*task], (Tone::Dim, (layers[*task] + 1).to_string()));
        let after = (Tone::Dim, waits_for(rows, &after[*task]));
        table.row([step, named(row), stated(row), after, titled(row), noted_of(row)]);
    }
    let mut beside = table.lines(paint, screen.beside(mark_width)).into_iter();
    let head = beside.next().map(|head| format!("{}{head}", " ".repeat(mark_width)));
    let lines = order.iter().zip(beside).map(|(task, text)| {
        let kind = kind(rows[*task]);
        format!("{} {text}", paint.paint(kind.tone(), &kind.mark().to_string()))
    });
    head.into_iter().chain(lines).collect()
}

fn waits_for(rows: &[&GraphRow], after: &[usize]) -> String {
    let names = after.iter().take(MAX_NAMED).map(|on| clean(&rows[*on].id));
    let more = after.len().saturating_sub(MAX_NAMED);
    let more = (more > 0).then(|| format!("{more} more"));
    names.chain(more).collect::<Vec<_>>().join(", ")
}

fn named(row: &GraphRow) -> (Tone, String) {
    (Tone::Bold, clean(&row.id))
}

fn stated(row: &GraphRow) -> (Tone, String) {
    (kind(row).tone(), clean(&row.state.replace('_', " ")))
}

fn titled(row: &GraphRow) -> (Tone, String) {
    (Tone::Plain, clean(&row.title))
}

fn noted_of(row: &GraphRow) -> (Tone, String) {
    (Tone::Dim, clean(&row.note))
}

/// Paints strokes, but not blanks.
fn strokes(paint: Paint, text: &str) -> String {
    if text.trim().is_empty() { text.to_owned() } else { paint.paint(Tone::Dim, text) }
}

#[cfg(test)]
mod tests;
