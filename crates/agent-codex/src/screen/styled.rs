//! Screens with character attributes. The attributes matter because only they distinguish the dim
//! placeholder in an empty composer from typed text.

use provost_terminal::StyledLine;

use super::layout::{bare_composer, composer, input_rows};

/// Returns the unsent text in Codex's composer, or `None` without a composer.
pub fn draft_text(painted: &[StyledLine]) -> Option<String> {
    let plain: Vec<String> = painted.iter().map(text).collect();
    let row = composer(&plain).or_else(|| bare_composer(&plain))?;
    let rows = &painted[row..row + input_rows(&plain, row)];
    let bright = |line: &StyledLine| {
        line.iter().skip(1).filter(|(_, dim)| !dim).map(|(char, _)| *char).collect::<String>()
    };
    Some(rows.iter().map(bright).collect::<Vec<_>>().join("\n").trim().to_owned())
}

/// Whether the displayed draft is exactly this text, regardless of line breaks.
pub fn is_draft_of(written: &str, text: &str) -> bool {
    let solid = |text: &str| text.chars().filter(|char| !char.is_whitespace()).collect::<String>();
    // Codex shows only the length of a long paste.
    let long = format!("[Pasted Content {} chars]", text.chars().count());
    let shown = solid(written);
    !shown.is_empty() && (shown == solid(text) || shown == solid(&long))
}

/// Returns the characters of a line, without trailing spaces.
pub(super) fn text(line: &StyledLine) -> String {
    line.iter().map(|(char, _)| *char).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use provost_terminal::parse_styles;

    use super::*;

    fn screen(composer: &str) -> Vec<String> {
        [composer, "\u{1b}[0m\u{1b}[39m", "  \u{1b}[1m?\u{1b}[0m for shortcuts"]
            .map(str::to_owned)
            .to_vec()
    }

    fn drafted(captured: &[String]) -> bool {
        draft_text(&parse_styles(captured)).is_some_and(|written| !written.is_empty())
    }

    #[test]
    fn placeholder_is_not_a_draft() {
        let empty = screen("\u{1b}[1m›\u{1b}[0m\u{1b}[39m \u{1b}[2mAsk Codex to do anything");
        assert!(!drafted(&empty));
        assert_eq!(text(&parse_styles(&empty)[0]), "› Ask Codex to do anything");
        assert!(drafted(&screen("\u{1b}[1m›\u{1b}[0m\u{1b}[39m my draft")));
        let bright = "\u{1b}[1m›\u{1b}[0m \u{1b}[38;5;2mgreen";
        assert!(drafted(&screen(bright)), "the number of a colour makes nothing dim");
    }

    #[test]
    fn second_line_is_part_of_draft() {
        let mut two = screen("\u{1b}[1m›\u{1b}[0m \u{1b}[2mAsk");
        two.insert(1, "  more".to_owned());
        assert!(drafted(&two));
        assert!(!drafted(&["$ ls".to_owned()]));
    }

    #[test]
    fn multi_line_draft_is_read() {
        let mut long = screen("\u{1b}[1m›\u{1b}[0m Do it,");
        for (at, line) in ["  all of", "", "  it."].iter().enumerate() {
            long.insert(1 + at, (*line).to_owned());
        }
        let found = draft_text(&parse_styles(&long)).unwrap();
        assert!(is_draft_of(&found, "Do it, all\nof\n\nit."), "{found:?}");
        assert!(!is_draft_of(&found, "Do it, all\nof\n\nit. And more"), "{found:?}");
        let paste = draft_text(&parse_styles(&screen("› [Pasted Content 1200 chars]"))).unwrap();
        assert!(is_draft_of(&paste, &"a ".repeat(600)) && !is_draft_of(&paste, "a"));
        assert!(!is_draft_of("", ""), "nothing is written there");
    }

    #[test]
    fn bare_composer_has_draft_dialog_has_none() {
        let lines = ["› hello", "", "• Done.", ""].map(str::to_owned);
        assert_eq!(draft_text(&parse_styles(&lines)), None);
        let drafted = [&lines[..], &["› half a".to_owned(), "  thought".to_owned()]].concat();
        assert_eq!(draft_text(&parse_styles(&drafted)).as_deref(), Some("half a\n thought"));
        let choice = ["Trust?", "", "› 1. Yes", "  2. No", "", "  Press enter to confirm"];
        assert_eq!(draft_text(&parse_styles(&choice.map(str::to_owned))), None);
    }
}
