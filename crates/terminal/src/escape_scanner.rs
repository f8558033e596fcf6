//! Finds status sequences of agents in a byte stream, no matter how the stream is split into
//! chunks.

use memchr::memchr2;

const BEL: u8 = 0x07;
const CANCEL: u8 = 0x18;
const SUBSTITUTE: u8 = 0x1a;
const ESCAPE: u8 = 0x1b;

/// The maximum length of a sequence, in bytes. A longer one is dropped.
const MAX_SEQUENCE: usize = 4096;

/// A sequence, and the offset in the stream after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScannedSignal {
    pub signal: TerminalSignal,
    pub after: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalSignal {
    /// OSC 7501, which the agent uses to report its state.
    Agent {
        state: AgentState,
        app: Option<String>,
    },
    /// OSC 0 or 2, which sets the title.
    Title(String),
    /// OSC 9, a notification.
    Notification(String),
    Bell,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentState {
    Idle,
    Working,
    Blocked(BlockedReason),
    Done,
    Error,
    /// The agent has left the terminal and withdraws its state.
    Clear,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockedReason {
    Permission,
    Question,
    /// A reason other than the ones above, or no reason.
    Other(Option<String>),
}

/// Scans a stream. It keeps at most 4096 bytes of an unfinished sequence.
#[derive(Debug, Default)]
pub struct Scanner {
    state: ScanState,
    body: Vec<u8>,
    offset: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ScanState {
    #[default]
    Ground,
    Escape,
    /// The scanner is inside an operating system command, whose bytes are collected.
    Command,
    /// The scanner is inside an operating system command that exceeds the limit.
    TooLong,
    /// The scanner is inside another string, which is skipped.
    Skipped,
    /// The scanner is after an escape character inside a string.
    Ending(StringKind),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StringKind {
    Command,
    TooLong,
    Skipped,
}

impl Scanner {
    /// Returns a scanner for a stream that starts or continues at an offset. Earlier bytes are
    /// unknown, so the remainder of a sequence at the start is treated as text.
    pub fn at(place: u64) -> Self {
        Self { offset: place, ..Self::default() }
    }

    /// Scans the next bytes of the stream.
    pub fn feed(&mut self, bytes: &[u8], mut hear: impl FnMut(ScannedSignal)) {
        let mut at = 0;
        while at < bytes.len() {
            if self.state == ScanState::Ground {
                let Some(next) = memchr2(ESCAPE, BEL, &bytes[at..]) else { break };
                at += next;
            }
            let signal = self.step(bytes[at]);
            at += 1;
            if let Some(signal) = signal {
                hear(ScannedSignal { signal, after: self.offset + at as u64 });
            }
        }
        self.offset += bytes.len() as u64;
    }

    fn step(&mut self, byte: u8) -> Option<TerminalSignal> {
        match (self.state, byte) {
            (ScanState::Ground, BEL) => return Some(TerminalSignal::Bell),
            (ScanState::Ground, ESCAPE) => self.state = ScanState::Escape,
            (ScanState::Ground, _) => {}
            (ScanState::Escape, _) => self.begin(byte),
            (_, CANCEL | SUBSTITUTE) => self.state = ScanState::Ground,
            (ScanState::Command, BEL) => return self.command(),
            (ScanState::TooLong, BEL) => self.state = ScanState::Ground,
            (ScanState::Command, ESCAPE) => self.state = ScanState::Ending(StringKind::Command),
            (ScanState::TooLong, ESCAPE) => self.state = ScanState::Ending(StringKind::TooLong),
            (ScanState::Skipped, ESCAPE) => self.state = ScanState::Ending(StringKind::Skipped),
            (ScanState::Command, _) => self.keep(byte),
            (ScanState::TooLong | ScanState::Skipped, _) => {}
            (ScanState::Ending(StringKind::Command), b'\\') => return self.command(),
            (ScanState::Ending(_), b'\\') => self.state = ScanState::Ground,
            // Any other escape sequence aborts the string.
            (ScanState::Ending(_), _) => self.begin(byte),
        }
        None
    }

    fn begin(&mut self, byte: u8) {
        self.body.clear();
        self.state = match byte {
            b']' => ScanState::Command,
            b'P' | b'X' | b'^' | b'_' => ScanState::Skipped,
            ESCAPE => ScanState::Escape,
            _ => ScanState::Ground,
        };
    }

    fn keep(&mut self, byte: u8) {
        if self.body.len() < MAX_SEQUENCE {
            self.body.push(byte);
        } else {
            self.state = ScanState::TooLong;
        }
    }

    fn command(&mut self) -> Option<TerminalSignal> {
        self.state = ScanState::Ground;
        let text = String::from_utf8_lossy(&self.body);
        let (number, body) = text.split_once(';')?;
        match number {
            "0" | "2" => Some(TerminalSignal::Title(strip_controls(body))),
            // Some terminals show 9;4 as a progress bar.
            "9" if body == "4" || body.starts_with("4;") => None,
            "9" => Some(TerminalSignal::Notification(strip_controls(body))),
            "7501" => parse_agent_state(body),
            _ => None,
        }
    }
}

/// Removes control characters, which could for example move the cursor.
fn strip_controls(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).collect()
}

/// Parses `state=blocked:app=agent:kind=permission`. Returns `None` for an unknown state.
fn parse_agent_state(body: &str) -> Option<TerminalSignal> {
    let field = |name: &str| {
        let mut fields = body.split(':').filter_map(|field| field.split_once('='));
        fields.find(|(key, _)| *key == name).map(|(_, value)| strip_controls(value))
    };
    let state = match field("state")?.as_str() {
        "idle" => AgentState::Idle,
        "working" => AgentState::Working,
        "blocked" => AgentState::Blocked(match field("kind") {
            Some(kind) if kind == "permission" => BlockedReason::Permission,
            Some(kind) if kind == "question" => BlockedReason::Question,
            kind => BlockedReason::Other(kind),
        }),
        "done" => AgentState::Done,
        "error" => AgentState::Error,
        "clear" => AgentState::Clear,
        _ => return None,
    };
    Some(TerminalSignal::Agent { state, app: field("app") })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn heard(chunks: &[&[u8]]) -> Vec<ScannedSignal> {
        let mut scanner = Scanner::default();
        let mut found = Vec::new();
        for chunk in chunks {
            scanner.feed(chunk, |heard| found.push(heard));
        }
        found
    }

    fn signals(text: &str) -> Vec<TerminalSignal> {
        heard(&[text.as_bytes()]).into_iter().map(|heard| heard.signal).collect()
    }

    fn agent(state: AgentState) -> TerminalSignal {
        TerminalSignal::Agent { state, app: Some("agent".into()) }
    }

    #[test]
    fn agent_state_sequence_has_offset() {
        let text = "ab\x1b]7501;state=working:app=agent\x1b\\c\x1b]7501;state=blocked:app=agent:kind=permission\x07";
        let found = heard(&[text.as_bytes()]);
        let blocked = agent(AgentState::Blocked(BlockedReason::Permission));
        assert_eq!(found[0], ScannedSignal { signal: agent(AgentState::Working), after: 34 });
        assert_eq!(found[1], ScannedSignal { signal: blocked, after: text.len() as u64 });
        let clear = TerminalSignal::Agent { state: AgentState::Clear, app: None };
        assert_eq!(signals("\x1b]7501;state=clear\x07"), [clear]);
    }

    #[test]
    fn titles_notifications_bells_are_distinct() {
        let found = signals(
            "\x07\x1b]0;⠸ d1\x07\x1b]2;d1\x1b\\\x1b]9;Approval requested\x07\x1b]9;4;1;50\x07\x1b]1;icon\x07",
        );
        let expected = [
            TerminalSignal::Bell,
            TerminalSignal::Title("⠸ d1".into()),
            TerminalSignal::Title("d1".into()),
            TerminalSignal::Notification("Approval requested".into()),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn unknown_sequences_are_ignored() {
        for text in [
            "\x1b]7501;state=sleeping\x07",
            "\x1b]7501;app=agent\x07",
            "\x1b]7501\x07",
            "\x1bPq\x07\x1b]0;a\x18\x1b\\",
        ] {
            assert_eq!(signals(text), [], "{text:?}");
        }
    }

    #[test]
    fn oversized_sequence_is_dropped() {
        let mut scanner = Scanner::default();
        let mut found = Vec::new();
        scanner.feed(b"\x1b]0;", |heard| found.push(heard));
        for _ in 0..1000 {
            scanner.feed(&[b'a'; 1000], |heard| found.push(heard));
            assert!(scanner.body.capacity() <= 2 * MAX_SEQUENCE);
        }
        scanner.feed(b"\x07\x1b]0;b\x07", |heard| found.push(heard));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].signal, TerminalSignal::Title("b".into()));
    }

    #[test]
    fn aborted_string_does_not_hide_next() {
        assert_eq!(signals("\x1b]0;a\x1b]0;b\x07"), [TerminalSignal::Title("b".into())]);
        assert_eq!(signals("\x1b]0;a\x1b[0m\x07"), [TerminalSignal::Bell]);
        assert_eq!(signals("\x1b\x1b]0;b\x07"), [TerminalSignal::Title("b".into())]);
    }

    #[test]
    fn control_characters_are_removed() {
        assert_eq!(signals("\x1b]0;a\x08\u{9b}b\n\x07"), [TerminalSignal::Title("ab".into())]);
    }

    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let known = [
            "\x1b",
            "]",
            "\x07",
            "\\",
            "0;",
            "9;",
            "7501;",
            "state=idle",
            ":app=agent",
            "\x18",
            "P",
            "é",
            "a",
        ];
        let known = known.map(|text| text.as_bytes().to_vec());
        prop_oneof![4 => prop::sample::select(known.to_vec()), 1 => prop::collection::vec(any::<u8>(), 0..4)]
    }

    proptest! {
        #[test]
        fn chunking_does_not_change_result(pieces in prop::collection::vec(piece(), 0..60), cuts in prop::collection::vec(1usize..9, 1..40)) {
            let bytes = pieces.concat();
            let mut chunks: Vec<&[u8]> = Vec::new();
            let mut rest = bytes.as_slice();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, after) = rest.split_at((*cut).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            prop_assert_eq!(heard(&chunks), heard(&[&bytes]));
        }
    }
}
