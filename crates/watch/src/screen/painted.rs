//! A screen with the codes that say how each character looks, as tmux gives it.

use super::bottom::composer;

/// Takes the codes away.
pub fn plain(painted: &[String]) -> Vec<String> {
    let text = |line: &String| characters(line).map(|(char, _)| char).collect::<String>();
    painted.iter().map(|line| text(line).trim_end().to_owned()).collect()
}

/// Says whether somebody has begun to write in Codex's composer. What it says itself while it is empty is dim.
pub fn drafted(painted: &[String]) -> bool {
    let plain = plain(painted);
    let Some(row) = composer(&plain) else { return false };
    let below = plain[row + 1..].iter().take_while(|line| !line.is_empty());
    let written = characters(&painted[row]).skip(1).any(|(char, dim)| !dim && char != ' ');
    written || below.count() > 0
}

/// Gives the characters of a line, and whether each is dim.
fn characters(line: &str) -> impl Iterator<Item = (char, bool)> {
    let (mut dim, mut found, mut chars) = (false, Vec::new(), line.chars());
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' => {
                let code: String = chars.by_ref().take_while(|char| !ends(*char)).collect();
                dim = dimmed(&code, dim);
            }
            char if char.is_control() => {}
            char => found.push((char, dim)),
        }
    }
    found.into_iter()
}

/// Of the codes of a screen that was captured only those for looks are left, and they end with a letter.
fn ends(char: char) -> bool {
    char.is_ascii_alphabetic()
}

fn dimmed(code: &str, before: bool) -> bool {
    let numbers = code.trim_start_matches('[').split(';');
    let mut numbers = numbers.map(|number| number.parse::<u32>().unwrap_or(0));
    let mut dim = before;
    while let Some(number) = numbers.next() {
        match number {
            0 | 22 => dim = false,
            2 => dim = true,
            // A colour's own numbers mean nothing here.
            38 | 48 => match numbers.next() {
                Some(5) => drop(numbers.next()),
                Some(2) => drop(numbers.nth(2)),
                _ => {}
            },
            _ => {}
        }
    }
    dim
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(composer: &str) -> Vec<String> {
        [composer, "\u{1b}[0m\u{1b}[39m", "  \u{1b}[1m?\u{1b}[0m for shortcuts"]
            .map(str::to_owned)
            .to_vec()
    }

    #[test]
    fn what_an_empty_composer_says_is_no_draft() {
        let empty = screen("\u{1b}[1m›\u{1b}[0m\u{1b}[39m \u{1b}[2mAsk Codex to do anything");
        assert!(!drafted(&empty));
        assert_eq!(plain(&empty)[0], "› Ask Codex to do anything");
        assert!(drafted(&screen("\u{1b}[1m›\u{1b}[0m\u{1b}[39m my draft")));
        let bright = "\u{1b}[1m›\u{1b}[0m \u{1b}[38;5;2mgreen";
        assert!(drafted(&screen(bright)), "the number of a colour makes nothing dim");
    }

    #[test]
    fn a_second_line_is_a_draft_and_no_composer_has_none() {
        let mut two = screen("\u{1b}[1m›\u{1b}[0m \u{1b}[2mAsk");
        two.insert(1, "  more".to_owned());
        assert!(drafted(&two));
        assert!(!drafted(&["$ ls".to_owned()]));
    }
}
