//! The script of a tour, which consists of narration and of commands with their expected exit codes.
//!
//! Lines that start with `#` are narration, and consecutive ones belong together. `$ COMMAND` must
//! exit with 0, and `4$ COMMAND` with 4.

/// One step of a tour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TourStep {
    Narration(String),
    Command { command: String, exits: u8 },
}

/// Parses a tour. All other lines separate paragraphs.
pub(super) fn parse(text: &str) -> impl Iterator<Item = TourStep> {
    let mut lines = Vec::<TourStep>::new();
    let mut goes_on = false;
    for line in text.lines() {
        let said = line.strip_prefix("# ");
        match (said, lines.last_mut()) {
            (Some(said), Some(TourStep::Narration(before))) if goes_on => {
                before.push('\n');
                before.push_str(said);
            }
            (Some(said), _) => lines.push(TourStep::Narration(said.to_owned())),
            (None, _) => lines.extend(parse_command(line)),
        }
        goes_on = said.is_some();
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
        let told: Vec<TourStep> = parse("# One\n# two.\n$ ls\n4$ rm x\n\n# Three.\n").collect();
        let typed = |command: &str, exits| TourStep::Command { command: command.to_owned(), exits };
        let said = |text: &str| TourStep::Narration(text.to_owned());
        assert_eq!(told, [said("One\ntwo."), typed("ls", 0), typed("rm x", 4), said("Three.")]);
    }
}
