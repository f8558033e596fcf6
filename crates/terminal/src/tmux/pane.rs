//! Panes, as tmux lists them.

use std::fmt;
use std::path::PathBuf;

/// The id of a pane, such as `%3`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PaneId(String);

/// The id of a session, such as `$0`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TmuxSessionId(String);

impl PaneId {
    pub fn parse(text: &str) -> Option<Self> {
        is_id(text, '%').then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TmuxSessionId {
    pub fn parse(text: &str) -> Option<Self> {
        is_id(text, '$').then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for TmuxSessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_id(text: &str, sign: char) -> bool {
    let number = text.strip_prefix(sign).unwrap_or_default();
    !number.is_empty() && number.len() < 10 && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// A pane. For a dead pane, tmux does not reliably report how its program exited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaneListing {
    pub id: PaneId,
    pub session: TmuxSessionId,
    pub session_name: String,
    /// The pid of the server. A later server on the same socket reuses the ids for other panes.
    pub server: u32,
    /// The process that tmux started in the pane, usually a shell.
    pub pid: u32,
    /// The terminal of the pane's program.
    pub tty: PathBuf,
    pub dead: bool,
    pub dead_status: Option<i32>,
    /// Whether the user is in copy mode or in a menu, so that keys do not reach the program.
    pub in_mode: bool,
    /// The number of clients that are attached to the pane's session.
    pub clients: u32,
    pub rows: u16,
    pub columns: u16,
    pub title: String,
}

impl PaneListing {
    /// The fields to request from tmux. The fields with arbitrary content come last.
    pub(super) const FORMAT: &str = "#{pane_id}\t#{session_id}\t#{pane_pid}\t#{pane_dead}\t#{pane_dead_status}\t\
        #{pane_in_mode}\t#{session_attached}\t#{pane_height}\t#{pane_width}\t#{pid}\t#{pane_tty}\t#{session_name}\t#{pane_title}";

    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(13, '\t');
        let mut next = || fields.next();
        Some(Self {
            id: PaneId::parse(next()?)?,
            session: TmuxSessionId::parse(next()?)?,
            pid: next()?.parse().ok()?,
            dead: next()? == "1",
            dead_status: next()?.parse().ok(),
            in_mode: !matches!(next()?, "" | "0"),
            clients: next()?.parse().ok()?,
            rows: next()?.parse().ok()?,
            columns: next()?.parse().ok()?,
            server: next()?.parse().ok()?,
            tty: PathBuf::from(next()?),
            session_name: next()?.to_owned(),
            title: next()?.chars().filter(|char| !char.is_control()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_are_targets() {
        assert_eq!(PaneId::parse("%12").unwrap().as_str(), "%12");
        for text in ["", "%", "12", "%1a", "%-1", "$1", "% 1", "%1234567890"] {
            assert_eq!(PaneId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_hostile_title_does_not_shift_the_fields() {
        let line = "%3\t$1\t77\t0\t\t1\t2\t40\t110\t55\t/dev/pts/3\tname\ta\tb\u{9b}c";
        let pane = PaneListing::parse(line).unwrap();
        assert_eq!((pane.id.as_str(), pane.session.as_str(), pane.pid), ("%3", "$1", 77));
        assert_eq!(
            (pane.dead, pane.dead_status, pane.in_mode, pane.clients),
            (false, None, true, 2)
        );
        assert_eq!((pane.session_name.as_str(), pane.title.as_str()), ("name", "abc"));
        assert_eq!((pane.server, pane.tty.to_str()), (55, Some("/dev/pts/3")));
        assert_eq!(PaneListing::parse("%3\t$1\tx"), None);
    }
}
