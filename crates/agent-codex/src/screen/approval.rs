//! Reads the subject of an approval from the screen.

use super::{CodexReading, CodexScreenKind, layout::choice};

/// The question of an approval for a command.
const COMMAND_QUESTION: &str = "Would you like to run the following command?";
/// The start of the question of every approval.
const QUESTION_START: &str = "Would you like to ";
const REASON: &str = "Reason: ";
const COMMAND: &str = "$ ";

/// An approval, as far as it is visible on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenApproval {
    /// The question.
    pub asks: String,
    /// The command, line by line as shown. A line that is too long for the screen continues on the
    /// next one.
    pub command: Option<String>,
    pub reason: Option<String>,
}

impl CodexReading {
    /// Reads the subject of an approval. If the subject could begin at several places, the first
    /// one is used. Text in the command, or earlier output of the agent, can thus make the result
    /// longer than the command, but can never hide a part of it.
    pub fn approval(&self) -> Option<ScreenApproval> {
        if self.kind != CodexScreenKind::Approval {
            return None;
        }
        let first = self.lines.iter().rposition(|l| choice(l).is_some_and(|(no, _)| no == 1))?;
        let above = &self.lines[..first];
        let begins =
            |words: &str| above.iter().position(|line| line.trim_start().starts_with(words));
        let body = begins(COMMAND_QUESTION).map(|at| &above[at + 1..]).unwrap_or_default();
        let asks = begins(COMMAND_QUESTION)
            .or_else(|| begins(QUESTION_START))
            .map(|at| above[at].trim().to_owned());
        Some(ScreenApproval { asks: asks?, command: command(body), reason: reason(body) })
    }
}

fn command(body: &[String]) -> Option<String> {
    let at = body.iter().position(|line| line.trim_start().starts_with(COMMAND))?;
    let indent = body[at].len() - body[at].trim_start().len();
    let cut = |line: &String| line.get(indent..).unwrap_or(line.trim_start()).to_owned();
    let text = body[at..].iter().map(cut).collect::<Vec<_>>().join("\n");
    Some(text[COMMAND.len()..].trim().to_owned()).filter(|text| !text.is_empty())
}

fn reason(body: &[String]) -> Option<String> {
    let at = body.iter().position(|line| line.trim_start().starts_with(REASON))?;
    let lines = body[at..].iter().map(|line| line.trim()).take_while(|line| !line.is_empty());
    let text = lines.collect::<Vec<_>>().join(" ");
    text.strip_prefix(REASON).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Option<ScreenApproval> {
        let rest =
            "\n\n› 1. Yes, proceed (y)\n  2. No (esc)\n\n  Press enter to confirm or esc to cancel";
        let lines: Vec<String> = format!("{body}{rest}").lines().map(str::to_owned).collect();
        super::super::classify(&lines, None).approval()
    }

    #[test]
    fn approval_command_and_reason_are_read() {
        let read = read(
            "  Would you like to run the following command?\n\n  Environment: local\n\n  Reason: May I write,\n  \
             and for how long?\n\n  $ cat > x <<EOF\n  1. one\n    two\n\n  $ three\n  EOF",
        );
        let read = read.unwrap();
        assert_eq!(read.command.as_deref(), Some("cat > x <<EOF\n1. one\n  two\n\n$ three\nEOF"));
        assert_eq!(read.reason.as_deref(), Some("May I write, and for how long?"));
        assert_eq!(read.asks, COMMAND_QUESTION);
    }

    #[test]
    fn command_cannot_hide_part_of_itself() {
        let title = "  Would you like to run the following command?";
        let read = read(&format!("{title}\n\n  $ rm -rf all #\n{title}\n\n  $ ls")).unwrap();
        assert!(read.command.unwrap().starts_with("rm -rf all"));
    }

    #[test]
    fn edit_approval_has_no_command() {
        let edits = read("  Would you like to make the following edits?\n\n  $ x").unwrap();
        assert_eq!((edits.command, edits.reason), (None, None));
        assert!(edits.asks.ends_with("edits?"));
        assert_eq!(read("  the rest of a long command"), None);
    }
}
