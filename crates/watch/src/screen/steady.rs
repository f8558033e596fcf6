//! Debounces frames: a screen that is being drawn shows transient content.

use super::{Approval, Reading, Shown};

/// Accepts a reading after two equal frames in a row.
#[derive(Debug, Default)]
pub struct Steady {
    last: Option<Reading>,
    told: Option<(Shown, Option<Approval>)>,
}

impl Steady {
    /// Takes the next frame. Returns the reading if the previous frame showed the same and it was
    /// not returned before. A different approval counts as new, even in the same position.
    pub fn frame(&mut self, reading: Reading) -> Option<Reading> {
        let shows = |reading: &Reading| (reading.shown, reading.approval());
        let now = shows(&reading);
        let agrees = self.last.as_ref().is_some_and(|last| shows(last) == now);
        self.last = Some(reading.clone());
        if !agrees || self.told.as_ref() == Some(&now) {
            return None;
        }
        self.told = Some(now);
        Some(reading)
    }

    /// Accepts a frame at once, for callers that cannot wait for a second one.
    pub fn believe(&mut self, reading: &Reading) {
        self.last = Some(reading.clone());
        self.told = Some((reading.shown, reading.approval()));
    }

    /// Forgets the accepted reading: it is returned again after two further frames.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether a reading equals the accepted one.
    pub fn agrees(&self, reading: &Reading) -> bool {
        self.told.as_ref() == Some(&(reading.shown, reading.approval()))
    }

    /// The accepted class of the screen.
    pub fn shown(&self) -> Option<Shown> {
        self.told.as_ref().map(|(shown, _)| *shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(shown: Shown) -> Reading {
        Reading { shown, lines: Vec::new() }
    }

    #[test]
    fn one_frame_is_not_believed_and_the_second_is_told_once() {
        let mut steady = Steady::default();
        let shown = [
            Shown::Working,
            Shown::Approval,
            Shown::Working,
            Shown::Working,
            Shown::Working,
            Shown::Composer,
        ];
        let told: Vec<_> = shown
            .into_iter()
            .map(|shown| steady.frame(frame(shown)).map(|told| told.shown))
            .collect();
        assert_eq!(told, [None, None, None, Some(Shown::Working), None, None]);
        assert_eq!(steady.frame(frame(Shown::Composer)), Some(frame(Shown::Composer)));
        assert_eq!(steady.shown(), Some(Shown::Composer));
        steady.forget();
        assert_eq!(steady.frame(frame(Shown::Composer)), None);
        assert_eq!(steady.frame(frame(Shown::Composer)), Some(frame(Shown::Composer)));
    }

    #[test]
    fn another_approval_in_the_same_place_is_told() {
        let approval = |command: &str| {
            let text = format!(
                "  Would you like to run the following command?\n\n  $ {command}\n\n› 1. Yes (y)\n  2. No (esc)\n\n  \
                 Press enter to confirm or esc to cancel"
            );
            super::super::read(&text.lines().map(str::to_owned).collect::<Vec<_>>(), None)
        };
        let mut steady = Steady::default();
        let mut told = Vec::new();
        for command in ["ls", "ls", "rm x", "rm x", "rm x"] {
            let read = steady.frame(approval(command)).and_then(|reading| reading.approval());
            told.extend(read.and_then(|approval| approval.command));
        }
        assert_eq!(told, ["ls", "rm x"]);
    }
}
