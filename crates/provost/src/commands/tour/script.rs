//! The script of a tour, which consists of narration and of commands with their expected exit codes.
//!
//! Lines that start with `#` are narration, and consecutive narration lines form a paragraph. The command in `$
//! COMMAND` must exit with 0, and the command in `4$ COMMAND` with 4.

/// One step of a tour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TourStep {
    Narration(String),
    Command { command: String, exits: u8 },
}

/// Parses a tour. All other lines separate paragraphs.
pub(super) fn parse(text: &str) -> impl Iterator<Item = TourStep> {
    let mut lines = Vec::<TourStep>::new();
    let mut continues = false;
    for line in text.lines() {
        let narration = line.strip_prefix("# ");
        match (narration, lines.last_mut()) {
            (Some(narration), Some(TourStep::Narration(before))) if continues => {
                before.push('\n');
                before.push_str(narration);
            }
            (Some(narration), _) => lines.push(TourStep::Narration(narration.to_owned())),
            (None, _) => lines.extend(parse_command(line)),
        }
        continues = narration.is_some();
    }
    lines.into_iter()
}

fn parse_command(line: &str) -> Option<TourStep> {
    let (exits, command) = line.split_once("$ ")?;
    let exits = if exits.is_empty() { Some(0) } else { exits.parse().ok() };
    exits.map(|exits| TourStep::Command { command: command.to_owned(), exits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_separates_narration_and_commands() {
        let steps: Vec<TourStep> = parse("# One\n# two.\n$ ls\n4$ rm x\n\n# Three.\n").collect();
        let typed = |command: &str, exits| TourStep::Command { command: command.to_owned(), exits };
        let narrated = |text: &str| TourStep::Narration(text.to_owned());
        assert_eq!(
            steps,
            [narrated("One\ntwo."), typed("ls", 0), typed("rm x", 4), narrated("Three.")]
        );
    }
}
