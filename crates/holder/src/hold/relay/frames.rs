//! WebSocket frames (RFC 6455, section 5). They are decoded incrementally with bounded memory, and
//! encoded as a whole.

/// The maximum payload length of a control frame.
const MAX_CONTROL: usize = 125;
/// The maximum header length of a frame that a server sends.
const MAX_HEADER: usize = 10;

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// The content of a frame to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutgoingFrame<'a> {
    Text(&'a [u8]),
    Pong(&'a [u8]),
    Close,
}

/// Encodes a frame and masks it, as is required of clients.
pub(super) fn encode(saying: OutgoingFrame<'_>, mask: [u8; 4]) -> Vec<u8> {
    let (opcode, payload) = match saying {
        OutgoingFrame::Text(text) => (TEXT, text),
        OutgoingFrame::Pong(payload) => (PONG, payload),
        OutgoingFrame::Close => (CLOSE, &1000_u16.to_be_bytes()[..]),
    };
    let mut frame = Vec::with_capacity(MAX_HEADER + mask.len() + payload.len());
    frame.push(FINAL | opcode);
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(len @ ..126), _) => frame.push(MASKED | len),
        (_, Ok(len)) => {
            frame.push(MASKED | 126);
            frame.extend_from_slice(&len.to_be_bytes());
        }
        _ => {
            frame.push(MASKED | 127);
            frame.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// The result of decoding the bytes of one read, apart from the text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::hold) struct DecodeResult {
    /// The last ping, which is the only one to which a server expects a response.
    pub(in crate::hold) ping: Option<Vec<u8>>,
    /// The length of the connection's first binary message, if it was in this read.
    pub(in crate::hold) binary: Option<u64>,
    /// The reason why the connection was closed, if it was.
    pub(in crate::hold) closed: Option<String>,
}

/// A decoder for a server's frames.
#[derive(Debug, Default)]
pub(super) struct FrameDecoder {
    header: Vec<u8>,
    /// The frame whose payload is being read.
    frame: Option<OpenFrame>,
    /// The message whose last frame has not been read yet.
    message: Option<OpenMessage>,
    control: Vec<u8>,
    binary_seen: bool,
}

#[derive(Debug, Clone, Copy)]
struct OpenFrame {
    kind: FrameKind,
    is_final: bool,
    left: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameKind {
    Data,
    Close,
    Ping,
    Pong,
}

#[derive(Debug, Clone, Copy)]
enum OpenMessage {
    Text,
    Binary { len: u64 },
}

impl FrameDecoder {
    /// Decodes bytes as they arrive and appends their text messages to `text`, one line each. A
    /// line feed within a message, which JSON allows only between tokens, becomes a space.
    ///
    /// As with a pipe, readers must check whether the text is UTF-8.
    pub(super) fn decode(&mut self, mut bytes: &[u8], text: &mut Vec<u8>) -> DecodeResult {
        let mut heard = DecodeResult::default();
        while heard.closed.is_none() && !bytes.is_empty() {
            match self.frame {
                None => match self.read_header(&mut bytes) {
                    Ok(frame) => self.frame = frame,
                    Err(why) => heard.closed = Some(why),
                },
                Some(frame) => self.frame = Some(self.read_payload(frame, &mut bytes, text)),
            }
            self.end_frame(text, &mut heard);
        }
        heard
    }

    fn read_header(&mut self, bytes: &mut &[u8]) -> Result<Option<OpenFrame>, String> {
        while let Some((first, rest)) = bytes.split_first() {
            self.header.push(*first);
            *bytes = rest;
            if self.header.len() == header_len(&self.header) {
                let header = std::mem::take(&mut self.header);
                return self.begin(&header).map(Some).map_err(str::to_owned);
            }
        }
        Ok(None)
    }

    /// Validates a header and opens its message.
    fn begin(&mut self, header: &[u8]) -> Result<OpenFrame, &'static str> {
        let (first, second) = (header[0], header[1]);
        let (is_final, opcode) = (first & FINAL != 0, first & !FINAL & !RESERVED);
        let left = payload_len(header);
        if first & RESERVED != 0 || second & MASKED != 0 || left > i64::MAX as u64 {
            return Err("the server sent a malformed frame");
        }
        let kind = match (opcode, self.message) {
            (CONTINUATION, Some(_)) => FrameKind::Data,
            (TEXT, None) => self.open(OpenMessage::Text),
            (BINARY, None) => self.open(OpenMessage::Binary { len: 0 }),
            (CLOSE, _) => FrameKind::Close,
            (PING, _) => FrameKind::Ping,
            (PONG, _) => FrameKind::Pong,
            _ => return Err("the server sent a frame of unknown type or out of order"),
        };
        if kind != FrameKind::Data && (!is_final || left > MAX_CONTROL as u64) {
            return Err("the server sent a control frame that is too long or fragmented");
        }
        Ok(OpenFrame { kind, is_final, left })
    }

    fn open(&mut self, message: OpenMessage) -> FrameKind {
        self.message = Some(message);
        FrameKind::Data
    }

    fn read_payload(
        &mut self,
        frame: OpenFrame,
        bytes: &mut &[u8],
        text: &mut Vec<u8>,
    ) -> OpenFrame {
        let length = usize::try_from(frame.left).unwrap_or(usize::MAX).min(bytes.len());
        let (payload, rest) = bytes.split_at(length);
        *bytes = rest;
        match (frame.kind, &mut self.message) {
            (FrameKind::Data, Some(OpenMessage::Binary { len })) => *len += length as u64,
            (FrameKind::Data, _) => {
                text.extend(payload.iter().map(|byte| without_line_feed(*byte)))
            }
            (FrameKind::Close | FrameKind::Ping | FrameKind::Pong, _) => {
                self.control.extend_from_slice(payload)
            }
        }
        OpenFrame { left: frame.left - length as u64, ..frame }
    }

    /// Closes the frame if it has been read completely, and its message after the last frame.
    fn end_frame(&mut self, text: &mut Vec<u8>, heard: &mut DecodeResult) {
        let Some(frame) = self.frame.take_if(|frame| frame.left == 0) else { return };
        let control = std::mem::take(&mut self.control);
        match frame.kind {
            FrameKind::Data if frame.is_final => self.end_message(text, heard),
            FrameKind::Data | FrameKind::Pong => {}
            FrameKind::Ping => heard.ping = Some(control),
            FrameKind::Close => heard.closed = Some(close_reason(&control)),
        }
    }

    fn end_message(&mut self, text: &mut Vec<u8>, heard: &mut DecodeResult) {
        match self.message.take() {
            Some(OpenMessage::Binary { len }) if !self.binary_seen => {
                self.binary_seen = true;
                heard.binary = Some(len);
            }
            Some(OpenMessage::Text) => text.push(b'\n'),
            Some(OpenMessage::Binary { .. }) | None => {}
        }
    }
}

/// Returns the length of the header, as far as the bytes received so far determine it. The result
/// is at least two.
fn header_len(header: &[u8]) -> usize {
    match header.get(1).map(|byte| byte & !MASKED) {
        Some(126) => 4,
        Some(127) => MAX_HEADER,
        Some(_) | None => 2,
    }
}

fn payload_len(header: &[u8]) -> u64 {
    match &header[2..] {
        [] => u64::from(header[1] & !MASKED),
        long => long.iter().fold(0, |length, byte| length << 8 | u64::from(*byte)),
    }
}

fn without_line_feed(byte: u8) -> u8 {
    if byte == b'\n' { b' ' } else { byte }
}

fn close_reason(payload: &[u8]) -> String {
    match payload.split_first_chunk::<2>() {
        None => "the server closed the connection".into(),
        Some((code, reason)) => {
            let (code, reason) = (u16::from_be_bytes(*code), String::from_utf8_lossy(reason));
            format!("the server closed the connection: {code} {reason}").trim_end().to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a server's frame, which is not masked.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![first];
        match payload.len() {
            len @ ..126 => bytes.push(len as u8),
            len @ ..65536 => {
                bytes.push(126);
                bytes.extend_from_slice(&(len as u16).to_be_bytes());
            }
            len => {
                bytes.push(127);
                bytes.extend_from_slice(&(len as u64).to_be_bytes());
            }
        }
        bytes.extend_from_slice(payload);
        bytes
    }

    fn decode(bytes: &[u8]) -> (String, DecodeResult) {
        let mut text = Vec::new();
        let heard = FrameDecoder::default().decode(bytes, &mut text);
        (String::from_utf8(text).unwrap(), heard)
    }

    #[test]
    fn ping_between_fragments_keeps_the_message() {
        let bytes = [
            frame(TEXT, b"one,"),
            frame(FINAL | PING, b"are you there"),
            frame(CONTINUATION, b""),
            frame(FINAL | CONTINUATION, b"two\nthree"),
            frame(FINAL | PONG, b"unasked"),
            frame(FINAL | TEXT, b""),
        ];
        let (text, heard) = decode(&bytes.concat());
        assert_eq!(text, "one,two three\n\n");
        assert_eq!(
            heard,
            DecodeResult { ping: Some(b"are you there".to_vec()), ..DecodeResult::default() }
        );
    }

    #[test]
    fn binary_messages_are_skipped_and_first_reported() {
        let bytes = [
            frame(BINARY, &[0; 300]),
            frame(FINAL | CONTINUATION, &[10; 70_000]),
            frame(FINAL | BINARY, b"more"),
            frame(FINAL | TEXT, b"text"),
        ];
        let (text, heard) = decode(&bytes.concat());
        assert_eq!((text.as_str(), heard.binary), ("text\n", Some(70_300)));
    }

    #[test]
    fn nothing_is_decoded_after_close() {
        let close = |payload: &[u8]| {
            decode(&[frame(FINAL | CLOSE, payload), frame(FINAL | TEXT, b"x")].concat())
        };
        assert_eq!(close(b"").0, "");
        assert_eq!(close(b"").1.closed.unwrap(), "the server closed the connection");
        let reason = close(b"\x03\xe9going away").1.closed.unwrap();
        assert_eq!(reason, "the server closed the connection: 1001 going away");
    }

    #[test]
    fn protocol_violation_ends_the_connection() {
        let long = frame(FINAL | PING, &[0; 126]);
        let bad: [&[u8]; 8] = [
            &[FINAL | 0x40 | TEXT, 0],
            &[FINAL | TEXT, MASKED | 1, 0, 0, 0, 0, b'x'],
            &[FINAL | CONTINUATION, 0],
            &[TEXT, 0, FINAL | TEXT, 0],
            &[PING, 0],
            &long,
            &[FINAL | 3, 0],
            &[FINAL | TEXT, 127, 255, 0, 0, 0, 0, 0, 0, 0],
        ];
        for bytes in bad {
            let (text, heard) = decode(bytes);
            assert!(text.is_empty() && heard.closed.is_some(), "{bytes:?}");
        }
    }

    #[test]
    fn sent_frames_are_masked_and_shortest() {
        let rfc = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        assert_eq!(encode(OutgoingFrame::Text(b"Hello"), [0x37, 0xfa, 0x21, 0x3d]), rfc);
        let head =
            |length: usize| encode(OutgoingFrame::Text(&vec![0; length]), [0; 4])[1..10].to_vec();
        assert_eq!(head(125)[0], MASKED | 125);
        assert_eq!(head(126)[..3], [MASKED | 126, 0, 126]);
        assert_eq!(head(65_535)[..3], [MASKED | 126, 255, 255]);
        assert_eq!(head(65_536), [MASKED | 127, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(encode(OutgoingFrame::Close, [0; 4]), [0x88, 0x82, 0, 0, 0, 0, 3, 232]);
    }

    proptest! {
        /// The decoded text does not depend on how the stream is split into reads, and is not
        /// longer than the input.
        #[test]
        fn lines_do_not_depend_on_read_boundaries(
            messages in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..4), 0..6),
            cuts in prop::collection::vec(1usize..40, 1..20),
        ) {
            let mut bytes = Vec::new();
            let mut expected = Vec::new();
            for parts in &messages {
                for (at, part) in parts.iter().enumerate() {
                    let first = if at == 0 { TEXT } else { CONTINUATION };
                    let last = if at + 1 == parts.len() { FINAL } else { 0 };
                    bytes.extend(frame(first | last, part));
                    expected.extend(part.iter().map(|byte| without_line_feed(*byte)));
                }
                expected.push(b'\n');
            }
            let (mut decoder, mut text, mut read, mut rest) = (FrameDecoder::default(), Vec::new(), 0, &bytes[..]);
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                prop_assert_eq!(decoder.decode(now, &mut text), DecodeResult::default());
                (read, rest) = (read + now.len(), later);
                prop_assert!(text.len() <= read);
                if rest.is_empty() { break }
            }
            prop_assert_eq!(text, expected);
        }
    }
}
