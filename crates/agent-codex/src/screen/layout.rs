//! Parses the lower part of a screen.

/// The maximum height of a dialog, in lines.
const MAX_DIALOG_LINES: usize = 30;
/// The maximum number of lines that the composer shows below the input.
const MAX_FOOTERS: usize = 3;
/// The number of lines above the composer in which to search for the turn's status line.
const MAX_DETAILS: usize = 6;

/// A list of choices with a key hint below it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dialog<'a> {
    /// The lines above the choices, from top to bottom.
    pub(super) above: Vec<&'a str>,
    pub(super) choices: Vec<&'a str>,
    pub(super) hint: &'a str,
    pub(super) lines: &'a [String],
}

/// Finds the dialog at the bottom of the screen. Its last line mentions keys, and above it are
/// numbered choices, one of which is marked.
pub(super) fn dialog(screen: &[String]) -> Option<Dialog<'_>> {
    let end = screen.iter().rposition(|line| !line.trim().is_empty())?;
    let hint = screen[end].trim();
    if !mentions_keys(hint) {
        return None;
    }
    let lines = &screen[(end + 1).saturating_sub(MAX_DIALOG_LINES)..=end];
    let body = &lines[..lines.len() - 1];
    let first =
        body.iter().rposition(|line| choice(line).is_some_and(|(number, _)| number == 1))?;
    let choices: Vec<_> = body[first..].iter().filter_map(|line| choice(line)).collect();
    let is_counted = choices.iter().enumerate().all(|(at, (number, _))| *number == at + 1);
    let is_marked =
        body[first..].iter().any(|line| choice(line).is_some() && marked(line).is_some());
    (choices.len() >= 2 && is_counted && is_marked).then(|| Dialog {
        above: body[..first]
            .iter()
            .map(|line| line.trim())
            .filter(|line| !line.is_empty())
            .collect(),
        choices: choices.into_iter().map(|(_, text)| text).collect(),
        hint,
        lines,
    })
}

/// Returns the input row if Codex's composer is at the bottom of the screen: the typed text, an
/// empty line, and then only the composer's own lines.
pub(super) fn composer(screen: &[String]) -> Option<usize> {
    let row = screen.iter().rposition(|line| line.starts_with('›'))?;
    let below = &screen[row + 1..];
    let last = below.iter().rposition(|line| !line.is_empty())?;
    let gap = below[..last].iter().rposition(String::is_empty)?;
    let footers = &below[gap + 1..=last];
    let is_own = |line: &String| line.is_empty() || line.starts_with("  ");
    let fits = footers.len() <= MAX_FOOTERS && below[..=last].iter().all(is_own);
    (fits && footers.iter().any(|line| is_footer(line))).then_some(row)
}

/// Returns the input row if it contains text and nothing is below it. Older versions hide the
/// composer's own lines while the input contains text.
pub(super) fn bare_composer(screen: &[String]) -> Option<usize> {
    let row = screen.iter().rposition(|line| line.starts_with('›'))?;
    let is_own = |line: &String| line.is_empty() || line.starts_with("  ");
    (dialog(screen).is_none() && screen[row + 1..].iter().all(is_own)).then_some(row)
}

/// Returns the number of input rows, from this row to the empty line above the composer's own
/// lines.
pub(super) fn input_rows(screen: &[String], row: usize) -> usize {
    let below = &screen[row + 1..];
    let Some(last) = below.iter().rposition(|line| !line.is_empty()) else { return 1 };
    let gap = below[..last].iter().rposition(String::is_empty);
    1 + gap.filter(|gap| is_footer_below(below, *gap)).unwrap_or(last + 1)
}

fn is_footer_below(below: &[String], gap: usize) -> bool {
    below[gap + 1..].iter().any(|line| is_footer(line))
}

/// Returns the status line above the composer, which consists of a bullet, a text, and the key that
/// interrupts the turn.
pub(super) fn turn(screen: &[String], composer: usize) -> Option<&str> {
    let above = screen[..composer].iter().rev().map(String::as_str).filter(|line| !line.is_empty());
    let mut near =
        above.take(MAX_DETAILS).take_while(|line| is_detail(line) || strip_bullet(line).is_some());
    near.find_map(strip_bullet).filter(|words| words.contains("esc to interrupt)"))
}

fn is_detail(line: &str) -> bool {
    line.starts_with("  ")
}

fn strip_bullet(line: &str) -> Option<&str> {
    line.strip_prefix("• ").or_else(|| line.strip_prefix("◦ "))
}

/// Matches `  GPT-5.5 default · /directory`, or the help that is shown in its place.
fn is_footer(line: &str) -> bool {
    let known = ["? for shortcuts", "context left", "esc again to", "ctrl + c again to"];
    line.contains(" · ") || known.iter().any(|words| line.contains(words))
}

fn mentions_keys(hint: &str) -> bool {
    let hint = hint.to_lowercase();
    hint.split(|char: char| !char.is_alphanumeric()).any(|word| word == "enter" || word == "esc")
}

/// Parses the number and text of a choice, such as `› 1. Yes` or `  2. No`.
pub(super) fn choice(line: &str) -> Option<(usize, &str)> {
    let text = marked(line).unwrap_or(line).trim_start();
    let (number, text) = text.split_once(". ")?;
    Some((number.parse().ok()?, text.trim()))
}

/// Returns the rest of a line after the selection mark.
fn marked(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("› ").or_else(|| line.strip_prefix("> "))
}
