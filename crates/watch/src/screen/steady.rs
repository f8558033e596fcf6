//! Two agreeing frames: a screen that is being drawn shows many things that are not there.

use super::{Reading, Shown};

/// Believes what two frames in a row show.
#[derive(Debug, Default)]
pub struct Steady {
    last: Option<Reading>,
    told: Option<Shown>,
}

impl Steady {
    /// Takes the next frame. Tells what is shown now if the frame before showed the same, and it was not told
    /// already.
    pub fn frame(&mut self, reading: Reading) -> Option<Reading> {
        let agrees = self.last.as_ref().is_some_and(|last| last.shown == reading.shown);
        self.last = Some(reading.clone());
        if !agrees || self.told == Some(reading.shown) {
            return None;
        }
        self.told = Some(reading.shown);
        Some(reading)
    }

    /// What is believed to be shown.
    pub fn shown(&self) -> Option<Shown> {
        self.told
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
    }
}
