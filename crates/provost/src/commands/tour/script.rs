//! The script of a tour: narration, and commands with their expected exit codes.
//!
//! Lines that begin with `#` are narration; successive ones belong together. `$ COMMAND` must exit with 0,
//! `4$ COMMAND` with 4.

/// One step of a tour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Said(String),
    Typed { command: String, exits: u8 },
}

/// Parses a tour. All other lines separate paragraphs.
pub(super) fn parse(text: &str) -> impl Iterator<Item = Line> {
    let mut lines = Vec::<Line>::new();
    let mut goes_on = false;
    for line in text.lines() {
        let said = line.strip_prefix("# ");
        match (said, lines.last_mut()) {
            (Some(said), Some(Line::Said(before))) if goes_on => {
                before.push('\n');
                before.push_str(said);
            }
            (Some(said), _) => lines.push(Line::Said(said.to_owned())),
            (None, _) => lines.extend(typed(line)),
        }
        goes_on = said.is_some();
    }
    lines.into_iter()
}

fn typed(line: &str) -> Option<Line> {
    let (exits, command) = line.split_once("$ ")?;
    let exits = if exits.is_empty() { Some(0) } else { exits.parse().ok() };
    exits.map(|exits| Line::Typed { command: command.to_owned(), exits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_and_what_is_typed_are_told_apart() {
        let told: Vec<Line> = parse("# One\n# two.\n$ ls\n4$ rm x\n\n# Three.\n").collect();
        let typed = |command: &str, exits| Line::Typed { command: command.to_owned(), exits };
        let said = |text: &str| Line::Said(text.to_owned());
        assert_eq!(told, [said("One\ntwo."), typed("ls", 0), typed("rm x", 4), said("Three.")]);
    }
}
