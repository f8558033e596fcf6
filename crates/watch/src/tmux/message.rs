//! What tmux says in control mode, line by line.

use super::pane::PaneId;

/// A line with more bytes than this is dropped; tmux cuts what a pane writes into smaller pieces.
const LONGEST: usize = 1 << 20;
/// More lines of a reply than this are not kept.
const MOST_LINES: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// What a program wrote to its pane.
    Output {
        pane: PaneId,
        bytes: Vec<u8>,
        /// How many milliseconds it has waited for us, if tmux tells.
        behind: Option<u64>,
    },
    /// We were too slow: nothing more of this pane comes until it is asked for, and what came meanwhile is lost to us.
    Paused(PaneId),
    Continued(PaneId),
    /// The answer to a command.
    Reply {
        ok: bool,
        /// Whether the command came from this client, and not from the line that started it.
        asked: bool,
        lines: Vec<String>,
    },
    /// Somebody began to look back in a pane, or ended that.
    ModeChanged(PaneId),
    /// The client is at its end; the panes may well go on.
    Exit {
        reason: Option<String>,
    },
    /// A line that was too long.
    TooLong,
    /// Something else happened: a window was added, a session renamed.
    Other {
        name: String,
    },
}

/// Makes messages of the stream, however it is cut.
#[derive(Debug, Default)]
pub struct Messages {
    line: Vec<u8>,
    too_long: bool,
    reply: Option<Reply>,
}

/// A reply that is being told.
#[derive(Debug)]
struct Reply {
    asked: bool,
    lines: Vec<String>,
}

impl Messages {
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Message> {
        let mut found = Vec::new();
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.keep(&rest[..end]);
            found.extend(self.end_of_line());
            rest = &rest[end + 1..];
        }
        self.keep(rest);
        found
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.line.len() + bytes.len() > LONGEST {
            self.too_long = true;
            self.line = Vec::new();
        }
        if !self.too_long {
            self.line.extend_from_slice(bytes);
        }
    }

    fn end_of_line(&mut self) -> Option<Message> {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.too_long) {
            return Some(Message::TooLong);
        }
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        match self.reply.take() {
            Some(reply) => self.in_reply(reply, line),
            None if line.starts_with(b"%begin ") => {
                self.reply = Some(Reply { asked: line.ends_with(b" 1"), lines: Vec::new() });
                None
            }
            None => message(line),
        }
    }

    fn in_reply(&mut self, mut reply: Reply, line: &[u8]) -> Option<Message> {
        let ok = line.starts_with(b"%end ");
        if ok || line.starts_with(b"%error ") {
            return Some(Message::Reply { ok, asked: reply.asked, lines: reply.lines });
        }
        // tmux says that a pane goes on before it ends its answer to the command that asked for it.
        if line.starts_with(b"%continue ") || line.starts_with(b"%pause ") {
            self.reply = Some(reply);
            return message(line);
        }
        if reply.lines.len() < MOST_LINES {
            reply.lines.push(String::from_utf8_lossy(line).into_owned());
        }
        self.reply = Some(reply);
        None
    }
}

fn message(line: &[u8]) -> Option<Message> {
    // The stream may begin with the sequence that tells terminals of control mode.
    let line = line.strip_prefix(b"\x1bP1000p").unwrap_or(line);
    let (name, rest) = split(line.strip_prefix(b"%")?);
    let other = || Message::Other { name: String::from_utf8_lossy(name).into_owned() };
    let known = match name {
        b"output" => output(rest),
        b"extended-output" => extended_output(rest),
        b"pause" => pane(rest).map(Message::Paused),
        b"continue" => pane(rest).map(Message::Continued),
        b"pane-mode-changed" => pane(rest).map(Message::ModeChanged),
        b"exit" => {
            let reason = String::from_utf8_lossy(rest).into_owned();
            Some(Message::Exit { reason: Some(reason).filter(|reason| !reason.is_empty()) })
        }
        b"begin" => None,
        _ => Some(other()),
    };
    Some(known.unwrap_or_else(other))
}

/// `%3 text`.
fn output(rest: &[u8]) -> Option<Message> {
    let (id, text) = split(rest);
    Some(Message::Output { pane: pane(id)?, bytes: unescape(text), behind: None })
}

/// `%3 120 : text`, with room for more before the colon.
fn extended_output(rest: &[u8]) -> Option<Message> {
    let (id, rest) = split(rest);
    let at = memchr::memmem::find(rest, b" : ")?;
    let behind = std::str::from_utf8(split(&rest[..at]).0).ok()?.parse().ok();
    Some(Message::Output { pane: pane(id)?, bytes: unescape(&rest[at + 3..]), behind })
}

fn pane(id: &[u8]) -> Option<PaneId> {
    PaneId::parse(std::str::from_utf8(id).ok()?)
}

fn split(text: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b' ', text) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, b""),
    }
}

/// Takes back what tmux did to control characters and backslashes: `\033`.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut found = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        found.extend_from_slice(&rest[..at]);
        let (byte, taken) = octal(&rest[at + 1..]).map_or((b'\\', 1), |byte| (byte, 4));
        found.push(byte);
        rest = &rest[at + taken..];
    }
    found.extend_from_slice(rest);
    found
}

fn octal(text: &[u8]) -> Option<u8> {
    let digits = text.get(..3)?;
    let is_octal = digits.iter().all(|digit| (b'0'..=b'7').contains(digit));
    let number =
        digits.iter().fold(0_u16, |number, digit| number * 8 + u16::from(digit.wrapping_sub(b'0')));
    is_octal.then(|| u8::try_from(number).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages(text: &str) -> Vec<Message> {
        Messages::default().feed(text.as_bytes())
    }

    fn id(text: &str) -> PaneId {
        PaneId::parse(text).unwrap()
    }

    #[test]
    fn output_is_what_the_program_wrote() {
        let text = "%output %3 a\\033]0;t\\007\\134 \\\\x\n%extended-output %12 250 : b : c\n";
        let first = Message::Output {
            pane: id("%3"),
            bytes: b"a\x1b]0;t\x07\\ \\\\x".to_vec(),
            behind: None,
        };
        let second =
            Message::Output { pane: id("%12"), bytes: b"b : c".to_vec(), behind: Some(250) };
        assert_eq!(messages(text), [first, second]);
    }

    #[test]
    fn flow_control_and_the_end_are_told() {
        let text = "%pause %3\n%continue %3\n%exit server exited\n%exit\n";
        let expected = [
            Message::Paused(id("%3")),
            Message::Continued(id("%3")),
            Message::Exit { reason: Some("server exited".into()) },
            Message::Exit { reason: None },
        ];
        assert_eq!(messages(text), expected);
    }

    #[test]
    fn a_reply_is_kept_together_whatever_its_lines_look_like() {
        let text = "%begin 1 2 1\n%exit\nline\n%end 1 2 1\n%begin 1 3 0\nno such pane\n%error 1 3 0\n%window-add @1\n";
        let expected = [
            Message::Reply { ok: true, asked: true, lines: vec!["%exit".into(), "line".into()] },
            Message::Reply { ok: false, asked: false, lines: vec!["no such pane".into()] },
            Message::Other { name: "window-add".into() },
        ];
        assert_eq!(messages(text), expected);
    }

    #[test]
    fn a_pane_goes_on_inside_of_the_reply() {
        let found = messages("%begin 1 2 1\n%continue %3\n%end 1 2 1\n");
        assert_eq!(
            found,
            [
                Message::Continued(id("%3")),
                Message::Reply { ok: true, asked: true, lines: Vec::new() }
            ]
        );
    }

    #[test]
    fn strange_and_too_long_lines_do_no_harm() {
        assert_eq!(messages("garbage\n%output x y\n"), [Message::Other { name: "output".into() }]);
        let mut long = Messages::default();
        for _ in 0..100 {
            assert_eq!(long.feed(&[b'a'; LONGEST / 10]), []);
            assert!(long.line.capacity() <= 2 * LONGEST);
        }
        assert_eq!(long.feed(b"\n%pause %1\n"), [Message::TooLong, Message::Paused(id("%1"))]);
    }

    proptest! {
        #[test]
        fn what_tmux_escapes_comes_back_and_any_split_gives_the_same(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 1usize..20) {
            let mut line = b"%output %1 ".to_vec();
            for byte in &bytes {
                if *byte < b' ' || *byte == b'\\' {
                    line.extend(format!("\\{byte:03o}").into_bytes());
                } else {
                    line.push(*byte);
                }
            }
            line.push(b'\n');
            let mut messages = Messages::default();
            let found: Vec<Message> = line.chunks(cut).flat_map(|chunk| messages.feed(chunk)).collect();
            prop_assert_eq!(found, [Message::Output { pane: id("%1"), bytes, behind: None }]);
        }
    }
}
