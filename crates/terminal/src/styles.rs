//! Parses the character attributes of a screen captured by tmux.

use crate::StyledLine;

/// Parses the attribute codes of a screen captured by tmux.
pub fn parse_styles(captured: &[String]) -> Vec<StyledLine> {
    captured.iter().map(|line| characters(line)).collect()
}

/// Parses the characters of a line, and whether each one is dim.
fn characters(line: &str) -> StyledLine {
    let (mut dim, mut found, mut chars) = (false, Vec::new(), line.chars());
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' => {
                let code: String = chars.by_ref().take_while(|char| !ends(*char)).collect();
                dim = is_dim_after(&code, dim);
            }
            char if char.is_control() => {}
            char => found.push((char, dim)),
        }
    }
    found
}

/// Whether the character ends a code. A capture contains only attribute codes, which end in a
/// letter.
fn ends(char: char) -> bool {
    char.is_ascii_alphabetic()
}

fn is_dim_after(code: &str, before: bool) -> bool {
    let numbers = code.trim_start_matches('[').split(';');
    let mut numbers = numbers.map(|number| number.parse::<u32>().unwrap_or(0));
    let mut dim = before;
    while let Some(number) = numbers.next() {
        match number {
            0 | 22 => dim = false,
            2 => dim = true,
            // Skip the parameters of a color.
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
