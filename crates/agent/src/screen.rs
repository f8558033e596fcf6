//! Signals that an agent's screen shows. A screen can request the user's attention, but it never ends
//! a turn.

use provost_core::{
    request::{AgentRequest, BlockingMode, RequestKind},
    session::ScreenHint,
};
use provost_terminal::StyledLine;

/// Interprets the screens of one kind of agent.
pub trait ScreenReader: Send + Sync {
    /// Interprets a screen, ignoring unsent text at the prompt. If the agent's version is unknown,
    /// the rules of all versions apply.
    fn read(&self, screen: &[StyledLine], version: Option<&str>) -> ScreenReading;

    /// Returns the unsent text at the agent's prompt. `None` without a prompt.
    fn draft(&self, screen: &[StyledLine]) -> Option<String>;

    /// Whether the displayed draft is exactly this text, regardless of line breaks.
    fn is_draft_of(&self, draft: &str, text: &str) -> bool;

    /// Interprets a screen, and reports unsent text at the prompt.
    fn read_with_draft(&self, screen: &[StyledLine], version: Option<&str>) -> ScreenReading {
        let reading = self.read(screen, version);
        let may_draft = matches!(reading.kind, ScreenKind::Prompt | ScreenKind::Unknown);
        if may_draft && self.draft(screen).is_some_and(|draft| !draft.is_empty()) {
            ScreenReading::new(ScreenKind::Draft, ScreenHint::UnsentText)
        } else {
            reading
        }
    }
}

/// The content of one frame of a screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenReading {
    pub kind: ScreenKind,
    /// The signal of the screen, once it is stable.
    pub hint: Option<ScreenHint>,
    /// A text that distinguishes this screen from others of the same kind. Frames that only differ
    /// in other details count as equal.
    pub subject: String,
}

/// The kind of screen that an agent shows. It determines whether text can be typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScreenKind {
    /// The agent asks for an approval, which keys can answer.
    Approval,
    /// The agent waits for the user to make a choice other than an approval.
    Dialog,
    /// A turn is active, but the model cannot be reached.
    Retrying,
    Working,
    /// The prompt is visible, with no sign of an active turn. This also happens while a turn is
    /// starting or waiting, so it does not prove that the agent is idle.
    Prompt,
    /// The prompt is visible and contains unsent text.
    Draft,
    /// No rule matches: the agent is starting, another program is using the terminal, or no program
    /// is.
    Unknown,
}

impl ScreenReading {
    /// Returns the reading of a screen without a subject.
    pub fn new(kind: ScreenKind, hint: ScreenHint) -> ScreenReading {
        ScreenReading { kind, hint: Some(hint), subject: String::new() }
    }

    fn shows_the_same(&self, other: &ScreenReading) -> bool {
        self.kind == other.kind && self.subject == other.subject
    }
}

/// Returns a request without a native id, because only its appearance is known.
pub fn inferred_request(kind: RequestKind, title: &str) -> AgentRequest {
    AgentRequest {
        native: String::new(),
        kind,
        waiting: BlockingMode::Blocking,
        title: title.to_owned(),
        questions: Vec::new(),
        subject: None,
    }
}

/// Accepts a reading once two consecutive frames agree, because a screen that is just being drawn
/// shows transient content.
#[derive(Debug, Default)]
pub struct FrameDebouncer {
    last: Option<ScreenReading>,
    accepted: Option<ScreenReading>,
}

impl FrameDebouncer {
    /// Takes the next frame. Returns the reading if it equals that of the previous frame and was
    /// not returned before. A different subject counts as new.
    pub fn frame(&mut self, reading: ScreenReading) -> Option<ScreenReading> {
        let agrees = self.last.as_ref().is_some_and(|last| last.shows_the_same(&reading));
        self.last = Some(reading.clone());
        if !agrees || self.is_accepted(&reading) {
            return None;
        }
        self.accepted = Some(reading.clone());
        Some(reading)
    }

    /// Accepts a frame immediately, for callers that cannot wait for a second one.
    pub fn accept(&mut self, reading: &ScreenReading) {
        self.last = Some(reading.clone());
        self.accepted = Some(reading.clone());
    }

    /// Forgets the accepted reading, so that it is returned again after two more frames.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether a reading equals the accepted one.
    pub fn is_accepted(&self, reading: &ScreenReading) -> bool {
        self.accepted.as_ref().is_some_and(|accepted| accepted.shows_the_same(reading))
    }

    /// Returns the kind of the accepted screen.
    pub fn accepted_kind(&self) -> Option<ScreenKind> {
        self.accepted.as_ref().map(|accepted| accepted.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: ScreenKind) -> ScreenReading {
        ScreenReading { kind, hint: None, subject: String::new() }
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
            ScreenKind::Prompt,
        ];
        let accepted: Vec<_> = shown
            .into_iter()
            .map(|shown| steady.frame(frame(shown)).map(|accepted| accepted.kind))
            .collect();
        assert_eq!(accepted, [None, None, None, Some(ScreenKind::Working), None, None]);
        assert_eq!(steady.frame(frame(ScreenKind::Prompt)), Some(frame(ScreenKind::Prompt)));
        assert_eq!(steady.accepted_kind(), Some(ScreenKind::Prompt));
        steady.forget();
        assert_eq!(steady.frame(frame(ScreenKind::Prompt)), None);
        assert_eq!(steady.frame(frame(ScreenKind::Prompt)), Some(frame(ScreenKind::Prompt)));
    }
}
