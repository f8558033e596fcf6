//! Reads the beginning of a line without parsing the rest.
//!
//! Most lines of a rollout are long and show only that the agent is active. The kind of a line is
//! at its beginning. The beginning is read as JSON, key by key, so that text inside strings is
//! never mistaken for the kind. Anything unexpected is left to the parser.

/// The maximum number of bytes of a line to examine.
const MAX_EXAMINED: usize = 1024;
/// The maximum length of kinds and timestamps.
const MAX_WORD: usize = 48;

/// Fields from the beginning of a line. A field is `None` if it was not reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LineHead<'a> {
    pub(crate) timestamp: Option<&'a str>,
    pub(crate) ordinal: Option<u64>,
    pub(crate) kind: Option<&'a str>,
    /// The kind of the payload.
    pub(crate) inner: Option<&'a str>,
    /// The kind of the payload's item.
    pub(crate) item: Option<&'a str>,
    /// The name of the tool that was called.
    pub(crate) name: Option<&'a str>,
    pub(crate) turn: Option<&'a str>,
    /// The message id that the sender assigned.
    pub(crate) client_id: Option<&'a str>,
}

impl<'a> LineHead<'a> {
    pub(crate) fn read(line: &'a [u8]) -> Self {
        let mut head = Self::default();
        let mut scan = HeadScanner { bytes: &line[..line.len().min(MAX_EXAMINED)], at: 0 };
        // Fields that the scan did not reach are unknown.
        scan.object(&mut head, HeadLevel::Line);
        head
    }

    fn take(&mut self, level: HeadLevel, key: &str, value: Scalar<'a>) {
        match (level, key, value) {
            (HeadLevel::Line, "timestamp", Scalar::Text(text)) => self.timestamp = Some(text),
            (HeadLevel::Line, "ordinal", Scalar::Number(number)) => self.ordinal = number,
            (HeadLevel::Line, "type", Scalar::Text(text)) => self.kind = Some(text),
            (HeadLevel::Payload, "type", Scalar::Text(text)) => self.inner = Some(text),
            (HeadLevel::Payload, "name", Scalar::Text(text)) => self.name = Some(text),
            (HeadLevel::Payload, "turn_id", Scalar::Text(text)) => self.turn = Some(text),
            (HeadLevel::Item, "type", Scalar::Text(text)) => self.item = Some(text),
            (HeadLevel::Item, "client_id", Scalar::Text(text)) => self.client_id = Some(text),
            _ => {}
        }
    }
}

/// A line that shows only that the agent is active. It is recognized by the exact beginning that
/// Codex writes. Nine out of ten lines are of this kind, and checking them takes little longer than
/// finding where they end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ActivityLine<'a> {
    pub(crate) timestamp: &'a str,
    pub(crate) ordinal: Option<u64>,
}

impl<'a> ActivityLine<'a> {
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
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

/// Returns the rest of a short string without escapes, and the bytes that follow it.
fn word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let near = &bytes[..bytes.len().min(MAX_WORD)];
    let end = near.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    (near[end] == b'"').then(|| (&bytes[..end], &bytes[end + 1..]))
}

fn digits(bytes: &[u8]) -> Option<(Option<u64>, &[u8])> {
    let end = bytes.iter().take(MAX_WORD).position(|byte| !byte.is_ascii_digit())?;
    let number = std::str::from_utf8(&bytes[..end]).ok()?.parse().ok()?;
    Some((Some(number), &bytes[end..]))
}

/// The object that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeadLevel {
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

struct HeadScanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> HeadScanner<'a> {
    /// Reads members as long as they are plain values. Returns `None` when the scan is over.
    fn object(&mut self, head: &mut LineHead<'a>, level: HeadLevel) -> Option<()> {
        self.expect(b'{')?;
        loop {
            let key = self.text()?;
            self.expect(b':')?;
            match (level, key, self.peek()?) {
                (HeadLevel::Line, "payload", b'{') => self.object(head, HeadLevel::Payload)?,
                (HeadLevel::Payload, "item", b'{') => self.object(head, HeadLevel::Item)?,
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

    /// Reads a string that contains no escapes.
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

    /// Skips white space and returns the next byte.
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
        let head = LineHead::read(line);
        assert_eq!((head.timestamp, head.ordinal), (Some("T"), Some(8)));
        assert_eq!(
            (head.kind, head.inner, head.item),
            (Some("event_msg"), Some("item_completed"), Some("UserMessage"))
        );
        assert_eq!((head.turn, head.client_id), (Some("t1"), Some("c")));
    }

    #[test]
    fn only_exact_prefixes_are_activity() {
        let life = |line: &str| ActivityLine::parse(line.as_bytes()).is_some();
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
    fn kinds_inside_strings_are_ignored() {
        let line = br#"{"note":"\",\"type\":\"compacted\"","type":"x"}"#;
        assert_eq!(LineHead::read(line), LineHead::default());
        let line = br#"{"payload":{"content":[{"type":"a"}],"type":"b"},"type":"c"}"#;
        assert_eq!(LineHead::read(line), LineHead::default());
    }

    #[test]
    fn whitespace_and_key_order_are_flexible() {
        let line = br#" { "payload" : { "type" : "message" , "n" : -1.5e3 , "b" : true } , "type" : "response_item" }"#;
        let head = LineHead::read(line);
        assert_eq!((head.kind, head.inner), (Some("response_item"), Some("message")));
    }

    #[test]
    fn truncated_line_never_yields_wrong_kind() {
        let line = br#"{"timestamp":"T","ordinal":8,"type":"event_msg","payload":{"type":"task_complete","turn_id":"t1"}}"#;
        for length in 0..line.len() {
            let head = LineHead::read(&line[..length]);
            assert!(head.kind.is_none_or(|kind| kind == "event_msg"), "{length}");
            assert!(head.inner.is_none_or(|kind| kind == "task_complete"), "{length}");
        }
    }
}
