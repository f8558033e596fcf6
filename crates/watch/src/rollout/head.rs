//! Reads the beginning of a line without parsing the rest.
//!
//! Most lines of a rollout are long and only show that the agent is active. Their kind is at their
//! beginning. It is read as JSON, key by key, so that text inside strings is never taken for it.
//! Anything unexpected is left to the parser.

/// Maximum bytes of a line that are examined.
const LOOKED_AT: usize = 1024;
/// Maximum length of kinds and timestamps.
const LONGEST_WORD: usize = 48;

/// Fields from the beginning of a line; None if not reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Head<'a> {
    pub(crate) timestamp: Option<&'a str>,
    pub(crate) ordinal: Option<u64>,
    pub(crate) kind: Option<&'a str>,
    /// The kind of the payload.
    pub(crate) inner: Option<&'a str>,
    /// The kind of the payload's item.
    pub(crate) item: Option<&'a str>,
    /// The name of the called tool.
    pub(crate) name: Option<&'a str>,
    pub(crate) turn: Option<&'a str>,
    /// The message id that the sender assigned.
    pub(crate) client_id: Option<&'a str>,
}

impl<'a> Head<'a> {
    pub(crate) fn read(line: &'a [u8]) -> Self {
        let mut head = Self::default();
        let mut scan = Scan { bytes: &line[..line.len().min(LOOKED_AT)], at: 0 };
        // Fields after the end of the scan are unknown.
        scan.object(&mut head, Level::Line);
        head
    }

    fn take(&mut self, level: Level, key: &str, value: Scalar<'a>) {
        match (level, key, value) {
            (Level::Line, "timestamp", Scalar::Text(text)) => self.timestamp = Some(text),
            (Level::Line, "ordinal", Scalar::Number(number)) => self.ordinal = number,
            (Level::Line, "type", Scalar::Text(text)) => self.kind = Some(text),
            (Level::Payload, "type", Scalar::Text(text)) => self.inner = Some(text),
            (Level::Payload, "name", Scalar::Text(text)) => self.name = Some(text),
            (Level::Payload, "turn_id", Scalar::Text(text)) => self.turn = Some(text),
            (Level::Item, "type", Scalar::Text(text)) => self.item = Some(text),
            (Level::Item, "client_id", Scalar::Text(text)) => self.client_id = Some(text),
            _ => {}
        }
    }
}

/// A line that only shows that the agent is active, recognized by the exact beginning that Codex
/// writes. Nine of ten lines are of this kind, and checking them costs little more than finding
/// their ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Life<'a> {
    pub(crate) timestamp: &'a str,
    pub(crate) ordinal: Option<u64>,
}

impl<'a> Life<'a> {
    pub(crate) fn of(line: &'a [u8]) -> Option<Self> {
        let (timestamp, rest) = word(line.strip_prefix(b"{\"timestamp\":\"")?)?;
        let (ordinal, rest) = match rest.strip_prefix(b",\"ordinal\":") {
            Some(rest) => digits(rest)?,
            None => (None, rest),
        };
        let (kind, rest) = word(rest.strip_prefix(b",\"type\":\"")?)?;
        let is_life = match kind {
            b"response_item" => {
                let (inner, _) = word(rest.strip_prefix(b",\"payload\":{\"type\":\"")?)?;
                inner != b"function_call"
            }
            b"world_state" | b"turn_context" => true,
            _ => false,
        };
        let timestamp = std::str::from_utf8(timestamp).ok()?;
        is_life.then_some(Self { timestamp, ordinal })
    }
}

/// Returns the rest of a short string without escapes, and the bytes after it.
fn word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let near = &bytes[..bytes.len().min(LONGEST_WORD)];
    let end = near.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    (near[end] == b'"').then(|| (&bytes[..end], &bytes[end + 1..]))
}

fn digits(bytes: &[u8]) -> Option<(Option<u64>, &[u8])> {
    let end = bytes.iter().take(LONGEST_WORD).position(|byte| !byte.is_ascii_digit())?;
    let number = std::str::from_utf8(&bytes[..end]).ok()?.parse().ok()?;
    Some((Some(number), &bytes[end..]))
}

/// The object that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Line,
    Payload,
    Item,
}

enum Scalar<'a> {
    Text(&'a str),
    Number(Option<u64>),
    /// `true`, `false` or `null`.
    Word,
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    /// Reads members until something is not plain; `None` means that the scan is over.
    fn object(&mut self, head: &mut Head<'a>, level: Level) -> Option<()> {
        self.expect(b'{')?;
        loop {
            let key = self.text()?;
            self.expect(b':')?;
            match (level, key, self.peek()?) {
                (Level::Line, "payload", b'{') => self.object(head, Level::Payload)?,
                (Level::Payload, "item", b'{') => self.object(head, Level::Item)?,
                _ => {
                    let value = self.scalar()?;
                    head.take(level, key, value);
                }
            }
            match self.next()? {
                b',' => {}
                b'}' => return Some(()),
                _ => return None,
            }
        }
    }

    fn scalar(&mut self) -> Option<Scalar<'a>> {
        match self.peek()? {
            b'"' => self.text().map(Scalar::Text),
            b'-' | b'0'..=b'9' => Some(Scalar::Number(self.run().parse().ok())),
            b't' | b'f' | b'n' => {
                self.run();
                Some(Scalar::Word)
            }
            _ => None,
        }
    }

    /// Reads a string without escapes.
    fn text(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let rest = &self.bytes[self.at..];
        let length = memchr::memchr2(b'"', b'\\', rest)?;
        if rest[length] == b'\\' {
            return None;
        }
        self.at += length + 1;
        std::str::from_utf8(&rest[..length]).ok()
    }

    fn run(&mut self) -> &'a str {
        let rest = &self.bytes[self.at..];
        let is_part = |byte: &u8| !(byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
        let length = rest.iter().position(is_part).unwrap_or(rest.len());
        self.at += length;
        std::str::from_utf8(&rest[..length]).unwrap_or_default()
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    /// Returns the next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while self.bytes.get(self.at)?.is_ascii_whitespace() {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_ids_are_read_from_the_beginning() {
        let line = br#"{"timestamp":"T","ordinal":8,"type":"event_msg","payload":{"type":"item_completed","thread_id":"x","turn_id":"t1","item":{"type":"UserMessage","id":"i","client_id":"c","content":[{"type":"text"#;
        let head = Head::read(line);
        assert_eq!((head.timestamp, head.ordinal), (Some("T"), Some(8)));
        assert_eq!(
            (head.kind, head.inner, head.item),
            (Some("event_msg"), Some("item_completed"), Some("UserMessage"))
        );
        assert_eq!((head.turn, head.client_id), (Some("t1"), Some("c")));
    }

    #[test]
    fn only_exact_beginnings_are_life() {
        let life = |line: &str| Life::of(line.as_bytes()).is_some();
        assert!(life(
            r#"{"timestamp":"T","ordinal":8,"type":"response_item","payload":{"type":"message","a":1}}"#
        ));
        assert!(life(r#"{"timestamp":"T","type":"world_state","payload":{}}"#));
        for line in [
            r#"{"timestamp":"T","type":"response_item","payload":{"type":"function_call","name":"update_plan"}}"#,
            r#"{"timestamp":"T","type":"event_msg","payload":{"type":"task_complete"}}"#,
            r#"{"timestamp":"\"T","type":"response_item","payload":{"type":"message"}}"#,
            r#"{"timestamp":"T","ordinal":-8,"type":"world_state"}"#,
            r#"{"timestamp":"T","a":1,"type":"world_state"}"#,
            r#"{"timestamp":"T","type":"world_stat"#,
        ] {
            assert!(!life(line), "{line}");
        }
    }

    #[test]
    fn what_stands_inside_of_texts_and_lists_is_no_kind() {
        let line = br#"{"note":"\",\"type\":\"compacted\"","type":"x"}"#;
        assert_eq!(Head::read(line), Head::default());
        let line = br#"{"payload":{"content":[{"type":"a"}],"type":"b"},"type":"c"}"#;
        assert_eq!(Head::read(line), Head::default());
    }

    #[test]
    fn white_space_and_other_orders_are_read_too() {
        let line = br#" { "payload" : { "type" : "message" , "n" : -1.5e3 , "b" : true } , "type" : "response_item" }"#;
        let head = Head::read(line);
        assert_eq!((head.kind, head.inner), (Some("response_item"), Some("message")));
    }

    #[test]
    fn any_cut_of_a_line_is_read_without_a_false_kind() {
        let line = br#"{"timestamp":"T","ordinal":8,"type":"event_msg","payload":{"type":"task_complete","turn_id":"t1"}}"#;
        for length in 0..line.len() {
            let head = Head::read(&line[..length]);
            assert!(head.kind.is_none_or(|kind| kind == "event_msg"), "{length}");
            assert!(head.inner.is_none_or(|kind| kind == "task_complete"), "{length}");
        }
    }
}
