//! Makes a program redraw its screen. The holder does not store the screen, and only a resize makes
//! a program redraw it. So the terminal is made one row shorter and, a moment later, set to its
//! real size. If the two resizes arrived together, the program would see only the size it already
//! has, and would not redraw.

use crate::spec::Tty;

/// The minimum time that the terminal stays shorter, so that the program notices.
const MIN_SHORTENED_MS: u64 = 100;
/// The maximum time that the terminal stays shorter, in case the program draws nothing.
const MAX_SHORTENED_MS: u64 = 1000;

/// The state of a redraw.
#[derive(Debug, Default)]
pub(super) enum Redraw {
    #[default]
    Done,
    Shortened {
        size: Tty,
        since: u64,
        painted: bool,
    },
}

impl Redraw {
    /// Begins a redraw and returns the temporary size. Returns `None` if the viewport has no size
    /// of its own, which leaves the command's size unchanged.
    pub(super) fn begin(&mut self, size: Option<Tty>, now: u64) -> Option<Tty> {
        let size = size?;
        if !matches!(self, Self::Done) {
            return None;
        }
        *self = Self::Shortened { size, since: now, painted: false };
        let rows = if size.rows == 1 { 2 } else { size.rows - 1 };
        Some(Tty { rows, ..size })
    }

    /// Records that the program has drawn something.
    pub(super) fn painted(&mut self) {
        if let Self::Shortened { painted, .. } = self {
            *painted = true;
        }
    }

    /// Handles a new size of the user's terminal. Returns the size to set now, if any.
    pub(super) fn resized(&mut self, new: Option<Tty>) -> Option<Tty> {
        match (self, new) {
            (Self::Shortened { size, .. }, Some(new)) => {
                *size = new;
                None
            }
            (Self::Done, new) => new,
            (Self::Shortened { .. }, None) => None,
        }
    }

    /// Returns the time at which the next step is due.
    pub(super) fn due_at(&self) -> Option<u64> {
        match self {
            Self::Done => None,
            Self::Shortened { since, painted: true, .. } => Some(since + MIN_SHORTENED_MS),
            Self::Shortened { since, painted: false, .. } => Some(since + MAX_SHORTENED_MS),
        }
    }

    /// Finishes the redraw if its last step is due. Returns the size to set.
    pub(super) fn due(&mut self, now: u64) -> Option<Tty> {
        if self.due_at().is_none_or(|at| now < at) {
            return None;
        }
        match std::mem::take(self) {
            Self::Shortened { size, .. } => Some(size),
            Self::Done => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Tty = Tty { columns: 80, rows: 24 };

    #[test]
    fn redraw_sets_short_then_real_size() {
        let mut redraw = Redraw::default();
        assert_eq!(redraw.begin(Some(SIZE), 0), Some(Tty { rows: 23, ..SIZE }));
        assert_eq!(redraw.begin(Some(SIZE), 0), None, "it is under way");
        redraw.painted();
        assert_eq!(redraw.due(MIN_SHORTENED_MS - 1), None);
        assert_eq!(redraw.due(MIN_SHORTENED_MS), Some(SIZE));
        assert_eq!((redraw.due(u64::MAX), redraw.due_at()), (None, None));
    }

    #[test]
    fn redraw_ends_though_nothing_is_drawn() {
        let mut redraw = Redraw::default();
        redraw.begin(Some(Tty { columns: 80, rows: 1 }), 5);
        assert_eq!(redraw.due(5 + MIN_SHORTENED_MS), None);
        assert_eq!(redraw.due(5 + MAX_SHORTENED_MS), Some(Tty { columns: 80, rows: 1 }));
    }

    #[test]
    fn resize_during_redraw_wins() {
        let new = Tty { columns: 100, rows: 30 };
        let mut redraw = Redraw::default();
        assert_eq!(redraw.resized(Some(new)), Some(new));
        redraw.begin(Some(SIZE), 0);
        assert_eq!(redraw.resized(Some(new)), None);
        assert_eq!(redraw.due(MAX_SHORTENED_MS), Some(new));
        assert_eq!(redraw.begin(None, 0), None, "there is no size to set");
    }
}
