//! Reads an agent's state from the title of its terminal.

/// The characters of the spinner, which are Braille patterns.
const SPINNER: std::ops::RangeInclusive<char> = '\u{2801}'..='\u{28ff}';

/// The state that a title shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TitleState {
    Idle,
    Working,
    ActionRequired,
    /// A name without a status. An idle agent may have such a title, but many other programs have
    /// one too.
    Unmarked,
}

/// Parses a title that begins with the part `activity` or `run-state`. A session that is waiting
/// for the user shows `Working` if its title has no `activity`.
pub fn title_state(title: &str) -> TitleState {
    let title = title.trim();
    let first = title.split('|').next().unwrap_or_default().trim();
    let is_spinning = title.chars().next().is_some_and(|char| SPINNER.contains(&char));
    match first {
        _ if asks_for_action(first) => TitleState::ActionRequired,
        _ if is_spinning => TitleState::Working,
        "Working" | "Thinking" | "Starting" | "Waiting" | "Undoing" => TitleState::Working,
        "Ready" => TitleState::Idle,
        _ => TitleState::Unmarked,
    }
}

/// Matches `[ ! ] Action Required`. The sign in the brackets blinks.
fn asks_for_action(part: &str) -> bool {
    let sign = part.strip_suffix("Action Required").map(str::trim);
    matches!(sign, Some("[ ! ]" | "[ . ]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observed_titles_are_parsed() {
        let seen = [
            ("d1", TitleState::Unmarked),
            ("", TitleState::Unmarked),
            ("⠸ d1", TitleState::Working),
            ("⠏ d1", TitleState::Working),
            ("[ ! ] Action Required | d1", TitleState::ActionRequired),
            ("[ . ] Action Required | d1", TitleState::ActionRequired),
            ("Ready", TitleState::Idle),
            ("Ready | 01a1e08b-614a-7c61-a49a-d6ec8...", TitleState::Idle),
            ("Working | 01a1e08b-614a-7c61-a49a-d6ec8...", TitleState::Working),
            ("vim: Action Required.md", TitleState::Unmarked),
            ("Ready to go", TitleState::Unmarked),
        ];
        for (title, state) in seen {
            assert_eq!(title_state(title), state, "{title}");
        }
    }
}
