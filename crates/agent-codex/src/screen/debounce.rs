//! Debounces frames, because a screen that is still being drawn shows transient content.

use super::{ScreenApproval, ScreenKind, ScreenReading};

/// Accepts a reading once two consecutive frames agree.
#[derive(Debug, Default)]
pub struct FrameDebouncer {
    last: Option<ScreenReading>,
    accepted: Option<(ScreenKind, Option<ScreenApproval>)>,
}

impl FrameDebouncer {
    /// Takes the next frame. Returns the reading if it equals that of the previous frame and was
    /// not returned before. A different approval counts as new, even if it is in the same position.
    pub fn frame(&mut self, reading: ScreenReading) -> Option<ScreenReading> {
        let shows = |reading: &ScreenReading| (reading.kind, reading.approval());
        let now = shows(&reading);
        let agrees = self.last.as_ref().is_some_and(|last| shows(last) == now);
        self.last = Some(reading.clone());
        if !agrees || self.accepted.as_ref() == Some(&now) {
            return None;
        }
        self.accepted = Some(now);
        Some(reading)
    }

    /// Accepts a frame immediately, for callers that cannot wait for a second one.
    pub fn accept(&mut self, reading: &ScreenReading) {
        self.last = Some(reading.clone());
        self.accepted = Some((reading.kind, reading.approval()));
    }

    /// Forgets the accepted reading, so that it is returned again after two more frames.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether a reading equals the accepted one.
    pub fn is_accepted(&self, reading: &ScreenReading) -> bool {
        self.accepted.as_ref() == Some(&(reading.kind, reading.approval()))
    }

    /// Returns the kind of the accepted screen.
    pub fn accepted_kind(&self) -> Option<ScreenKind> {
        self.accepted.as_ref().map(|(shown, _)| *shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(shown: ScreenKind) -> ScreenReading {
        ScreenReading { kind: shown, lines: Vec::new() }
    }

    #[test]
    fn second_equal_frame_is_accepted_once() {
        let mut steady = FrameDebouncer::default();
        let shown = [
            ScreenKind::Working,
            ScreenKind::Approval,
            ScreenKind::Working,
            ScreenKind::Working,
            ScreenKind::Working,
            ScreenKind::Composer,
        ];
        let accepted: Vec<_> = shown
            .into_iter()
            .map(|shown| steady.frame(frame(shown)).map(|accepted| accepted.kind))
            .collect();
        assert_eq!(accepted, [None, None, None, Some(ScreenKind::Working), None, None]);
        assert_eq!(steady.frame(frame(ScreenKind::Composer)), Some(frame(ScreenKind::Composer)));
        assert_eq!(steady.accepted_kind(), Some(ScreenKind::Composer));
        steady.forget();
        assert_eq!(steady.frame(frame(ScreenKind::Composer)), None);
        assert_eq!(steady.frame(frame(ScreenKind::Composer)), Some(frame(ScreenKind::Composer)));
    }

    #[test]
    fn different_approval_is_reported() {
        let approval = |command: &str| {
            let text = format!(
                "  Would you like to run the following command?\n\n  $ {command}\n\n› 1. Yes (y)\n  2. No (esc)\n\n  \
                 Press enter to confirm or esc to cancel"
            );
            super::super::classify(&text.lines().map(str::to_owned).collect::<Vec<_>>(), None)
        };
        let mut steady = FrameDebouncer::default();
        let mut commands = Vec::new();
        for command in ["ls", "ls", "rm x", "rm x", "rm x"] {
            let read = steady.frame(approval(command)).and_then(|reading| reading.approval());
            commands.extend(read.and_then(|approval| approval.command));
        }
        assert_eq!(commands, ["ls", "rm x"]);
    }
}
