//! The screen of the toy agent, with a prompt, or a question of the form `May I …? [y/n]`.

use provost_agent::screen::{ScreenKind, ScreenReader, ScreenReading, inferred_request};
use provost_core::{request::RequestKind, session::ScreenHint};

/// The line at which the agent waits for input.
const PROMPT: &str = "toy>";

/// The end of a line that asks for an approval.
const CHOICE: &str = " [y/n]";

pub(crate) struct ToyScreen;

/// A line of a screen, with its style.
type Line = Vec<(char, bool)>;

impl ScreenReader for ToyScreen {
    fn read(&self, screen: &[Line], _version: Option<&str>) -> ScreenReading {
        let last = last_line(screen);
        if let Some(title) = last.strip_suffix(CHOICE) {
            let hint = ScreenHint::ShowsRequest(inferred_request(RequestKind::Approval, title));
            let subject = title.to_owned();
            return ScreenReading { kind: ScreenKind::Approval, hint: Some(hint), subject };
        }
        if last.starts_with(PROMPT) {
            return ScreenReading::new(ScreenKind::Prompt, ScreenHint::AtPrompt);
        }
        ScreenReading { kind: ScreenKind::Unknown, hint: None, subject: String::new() }
    }

    fn draft(&self, screen: &[Line]) -> Option<String> {
        last_line(screen).strip_prefix(PROMPT).map(|draft| draft.trim().to_owned())
    }

    fn is_draft_of(&self, draft: &str, text: &str) -> bool {
        draft == text.trim()
    }
}

/// Returns the last line that is not empty.
fn last_line(screen: &[Line]) -> String {
    let lines = screen.iter().map(|line| line.iter().map(|(char, _)| *char).collect::<String>());
    let mut filled = lines.map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty());
    filled.next_back().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(lines: &[&str]) -> ScreenKind {
        let line = |text: &&str| text.chars().map(|char| (char, false)).collect();
        ToyScreen.read(&lines.iter().map(line).collect::<Vec<Line>>(), None).kind
    }

    #[test]
    fn only_the_last_line_counts() {
        assert_eq!(kind(&["toy>", "May I paint? [y/n]", ""]), ScreenKind::Approval);
        assert_eq!(kind(&["May I paint? [y/n]", "toy> "]), ScreenKind::Prompt);
        assert_eq!(kind(&["toy>", "painting"]), ScreenKind::Unknown);
        assert_eq!(kind(&[]), ScreenKind::Unknown);
    }
}
