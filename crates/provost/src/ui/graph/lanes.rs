//! The lines of a graph: which lane each task stands in, and what goes past it.
//!
//! A task has a lane below it until the last one that waits for it is drawn. That one goes on in the lane;
//! all others branch off it. Lines that only pass are drawn behind the lanes that they cross.

/// Tasks in the order in which they are drawn, with the strokes on their lines.
#[derive(Debug)]
pub(super) struct Lanes {
    pub(super) lines: Vec<Line>,
    /// The columns that the widest line takes.
    pub(super) width: usize,
}

/// One task on its line: strokes, the mark of the task, strokes.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) task: usize,
    pub(super) before: String,
    pub(super) behind: String,
}

/// Draws the tasks, each after those that `after` names by their numbers; none if that takes more columns than
/// there is room for.
pub(super) fn draw(after: &[Vec<usize>], room: usize) -> Option<Lanes> {
    let mut lanes = Taken { lanes: Vec::new(), waiting: waiting(after) };
    let fits = |line: &Line| line.width() <= room;
    let lines: Option<Vec<Line>> = in_depth(after)
        .into_iter()
        .map(|task| Some(lanes.line(task, &after[task])).filter(fits))
        .collect();
    let lines = lines?;
    let width = lines.iter().map(Line::width).max().unwrap_or(0);
    Some(Lanes { lines, width })
}

impl Line {
    /// Gives the columns that it takes.
    pub(super) fn width(&self) -> usize {
        self.before.chars().count() + 1 + self.behind.chars().count()
    }
}

/// Gives how many wait for each task.
fn waiting(after: &[Vec<usize>]) -> Vec<usize> {
    let mut waiting = vec![0; after.len()];
    after.iter().flatten().for_each(|on| waiting[*on] += 1);
    waiting
}

/// Gives an order in which a task stands behind all that it is after, and as near as can be to the last of them.
fn in_depth(after: &[Vec<usize>]) -> Vec<usize> {
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

/// The lanes while a graph is drawn.
struct Taken {
    /// Whose each lane is, if anyone's.
    lanes: Vec<Option<usize>>,
    /// How many that wait for each task are not drawn yet.
    waiting: Vec<usize>,
}

impl Taken {
    fn line(&mut self, task: usize, after: &[usize]) -> Line {
        let joined: Vec<usize> =
            (0..self.lanes.len()).filter(|lane| self.is_of(*lane, after)).collect();
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

    fn is_of(&self, lane: usize, tasks: &[usize]) -> bool {
        self.lanes[lane].is_some_and(|of| tasks.contains(&of))
    }

    /// Draws two columns for each lane: the lane itself, and what lies between it and the next.
    fn strokes(&self, task: usize, own: usize, joined: &[usize], ended: &[usize]) -> Line {
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
        Line { task, before, behind: behind.trim_end().to_owned() }
    }
}

/// Where a line goes from the middle of a column.
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
