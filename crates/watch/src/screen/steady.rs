//! Two agreeing frames: a screen that is being drawn shows many things that are not there.

use super::{Approval, Reading, Shown};

/// Believes what two frames in a row show.
#[derive(Debug, Default)]
pub struct Steady {
    last: Option<Reading>,
    told: Option<(Shown, Option<Approval>)>,
}

impl Steady {
    /// Takes the next frame. Tells what is shown now if the frame before showed the same, and it was not told
    /// already. An approval of something else is another one, though it stands in the same place.
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

    /// Believes a frame at once, for whoever cannot wait for a second one.
    pub fn believe(&mut self, reading: &Reading) {
        self.last = Some(reading.clone());
        self.told = Some((reading.shown, reading.approval()));
    }

    /// Believes nothing any more: what is shown is told again when two frames have shown it.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether a reading shows what is believed.
    pub fn agrees(&self, reading: &Reading) -> bool {
        self.told.as_ref() == Some(&(reading.shown, reading.approval()))
    }

    /// What is believed to be shown.
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
