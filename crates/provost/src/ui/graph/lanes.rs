//! The lines of a graph: the lane of each task, and the lines that pass the task.
//!
//! A task occupies a lane until its last dependent is drawn. That dependent continues in the same lane, while
//! all other dependents branch off. Lines that merely pass are drawn behind the lanes that they cross.

/// The tasks in drawing order, and the strokes on their lines.
#[derive(Debug)]
pub(super) struct Lanes {
    pub(super) lines: Vec<LaneLine>,
    /// The width of the widest line.
    pub(super) width: usize,
}

/// A task on its line, with the strokes before and after its mark.
#[derive(Debug)]
pub(super) struct LaneLine {
    pub(super) task: usize,
    pub(super) before: String,
    pub(super) after: String,
}

/// Draws the tasks, each after its dependencies. `after` contains the indexes of each task's
/// dependencies. Returns `None` if the drawing would be wider than `room` columns.
pub(super) fn draw(after: &[Vec<usize>], room: usize) -> Option<Lanes> {
    let mut lanes = LaneAllocator { lanes: Vec::new(), waiting: dependent_counts(after) };
    let fits = |line: &LaneLine| line.width() <= room;
    let lines: Option<Vec<LaneLine>> = depth_order(after)
        .into_iter()
        .map(|task| Some(lanes.line(task, &after[task])).filter(fits))
        .collect();
    let lines = lines?;
    let width = lines.iter().map(LaneLine::width).max().unwrap_or(0);
    Some(Lanes { lines, width })
}

impl LaneLine {
    /// Returns the width of the line.
    pub(super) fn width(&self) -> usize {
        self.before.chars().count() + 1 + self.after.chars().count()
    }
}

/// Returns the number of dependents of each task.
fn dependent_counts(after: &[Vec<usize>]) -> Vec<usize> {
    let mut waiting = vec![0; after.len()];
    after.iter().flatten().for_each(|on| waiting[*on] += 1);
    waiting
}

/// Returns a topological order in which each task is as close as possible to its last dependency.
fn depth_order(after: &[Vec<usize>]) -> Vec<usize> {
    let mut followers = vec![Vec::new(); after.len()];
    for (task, after) in after.iter().enumerate() {
        after.iter().for_each(|on| followers[*on].push(task));
    }
    let mut left: Vec<usize> = after.iter().map(Vec::len).collect();
    let mut free: Vec<usize> = (0..after.len()).rev().filter(|task| left[*task] == 0).collect();
    let mut order = Vec::with_capacity(after.len());
    while let Some(task) = free.pop() {
        order.push(task);
        for follower in followers[task].iter().rev() {
            left[*follower] -= 1;
            if left[*follower] == 0 {
                free.push(*follower);
            }
        }
    }
    order
}

/// The state of the lanes while a graph is being drawn.
struct LaneAllocator {
    /// The task that occupies each lane, if any.
    lanes: Vec<Option<usize>>,
    /// How many of each task's dependents have not been drawn yet.
    waiting: Vec<usize>,
}

impl LaneAllocator {
    fn line(&mut self, task: usize, after: &[usize]) -> LaneLine {
        let joined: Vec<usize> =
            (0..self.lanes.len()).filter(|lane| self.belongs_to(*lane, after)).collect();
        let ends = |lane: &usize| self.lanes[*lane].is_some_and(|of| self.waiting[of] == 1);
        let ended: Vec<usize> = joined.iter().copied().filter(ends).collect();
        let free = self.lanes.iter().position(Option::is_none).unwrap_or(self.lanes.len());
        let own = ended.first().copied().unwrap_or(free);
        if own == self.lanes.len() {
            self.lanes.push(None);
        }
        let line = self.strokes(task, own, &joined, &ended);
        after.iter().for_each(|on| self.waiting[*on] -= 1);
        ended.into_iter().for_each(|lane| self.lanes[lane] = None);
        self.lanes[own] = (self.waiting[task] > 0).then_some(task);
        while self.lanes.last().is_some_and(Option::is_none) {
            self.lanes.pop();
        }
        line
    }

    fn belongs_to(&self, lane: usize, tasks: &[usize]) -> bool {
        self.lanes[lane].is_some_and(|of| tasks.contains(&of))
    }

    /// Draws two columns for each lane: the lane itself, and the space before the next one.
    fn strokes(&self, task: usize, own: usize, joined: &[usize], ended: &[usize]) -> LaneLine {
        let first = joined.first().map_or(own, |lane| own.min(*lane));
        let last = joined.last().map_or(own, |lane| own.max(*lane));
        let (mut before, mut behind) = (String::new(), String::new());
        for lane in 0..self.lanes.len() {
            let part = if lane <= own { &mut before } else { &mut behind };
            let (left, right) = (first < lane && lane <= last, first <= lane && lane < last);
            let stroke = match self.lanes[lane] {
                _ if lane == own => Stroke {
                    up: ended.contains(&lane),
                    down: self.waiting[task] > 0,
                    left,
                    right: true,
                },
                _ if joined.contains(&lane) => {
                    Stroke { up: true, down: !ended.contains(&lane), left, right }
                }
                Some(_) => Stroke { up: true, down: true, left: false, right: false },
                None => Stroke { up: false, down: false, left, right },
            };
            part.push(stroke.shape());
            if lane != own {
                part.push(if right { '─' } else { ' ' });
            }
        }
        LaneLine { task, before, after: behind.trim_end().to_owned() }
    }
}

/// The directions in which a line leaves the middle of a column.
#[derive(Clone, Copy)]
struct Stroke {
    up: bool,
    down: bool,
    left: bool,
    right: bool,
}

impl Stroke {
    fn shape(self) -> char {
        match (self.up, self.down, self.left, self.right) {
            (false, false, false, _)
            | (true, false, false, false)
            | (false, true, false, false) => ' ',
            (false, false, true, _) => '─',
            (true, true, false, false) => '│',
            (true, true, false, true) => '├',
            (true, true, true, false) => '┤',
            (true, true, true, true) => '┼',
            (true, false, false, true) => '╰',
            (true, false, true, false) => '╯',
            (true, false, true, true) => '┴',
            (false, true, false, true) => '╭',
            (false, true, true, false) => '╮',
            (false, true, true, true) => '┬',
        }
    }
}
