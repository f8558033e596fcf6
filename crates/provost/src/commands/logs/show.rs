//! Assembles journal frames into complete lines, and prints them.

use std::collections::BTreeMap;

use provost_agent::MessageRenderer;
use provost_holder::{
    journal::{
        FrameFlags, InputEnvelope, JournalChannel, JournalCursor, JournalFrame, JournalLine,
        JournalNote, LineAssembler,
    },
    wire::plain_key,
};
use serde_json::json;

use super::{
    sink::{LineSink, ShownLine, is_agent_noise, strip_colors},
    source::JournalSource,
};
use crate::{
    error::Error,
    ui::{Paint, Tone, Ui, escape_line, format_size},
};

/// The maximum length of a line in bytes. To limit memory, longer lines are printed in pieces.
const MAX_LINE: usize = 256 << 10;

/// The key prefix of writes that are part of the agent's protocol and that no user requested.
const PROTOCOL_KEY: &str = "p:";

/// The channels to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChannelFilter {
    All,
    Stdout,
    Stderr,
}

/// The format in which lines are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineStyle {
    People,
    Json,
    Raw,
}

/// Prints frames, and buffers incomplete lines.
pub(super) struct LinePrinter {
    channels: ChannelFilter,
    style: LineStyle,
    pub(super) sink: LineSink,
    partial: BTreeMap<JournalChannel, PartialLine>,
    /// Assembles the agent's messages. `None` if the agent's output is shown verbatim.
    messages: Option<MessageAssembler>,
}

/// Assembles the messages of an agent's protocol. Each message is shown completely or not at all.
struct MessageAssembler {
    render: MessageRenderer,
    lines: LineAssembler,
}

#[derive(Default)]
struct PartialLine {
    bytes: Vec<u8>,
    /// The time at which the first byte of the message was written.
    at_ms: Option<i64>,
    label: String,
}

impl LinePrinter {
    pub(super) fn new(channels: ChannelFilter, style: LineStyle, sink: LineSink) -> Self {
        LinePrinter { channels, style, sink, partial: BTreeMap::new(), messages: None }
    }

    /// Starts the output of a launch or other command. Text output shows the agent's messages,
    /// while JSON output shows the raw protocol.
    pub(super) fn begin(&mut self, renderer: Option<MessageRenderer>) {
        let renderer = if self.style == LineStyle::People { renderer } else { None };
        self.messages = renderer.map(MessageAssembler::new);
    }

    pub(super) fn frame(
        &mut self,
        ui: &Ui,
        source: &mut JournalSource,
        frame: &JournalFrame,
    ) -> Result<(), Error> {
        if !self.wants(frame.channel) {
            return Ok(());
        }
        match frame.channel {
            JournalChannel::Stdout | JournalChannel::Stderr if self.style == LineStyle::Raw => {
                if self.sink.admits(source.at_ms(frame)) {
                    ui.raw(&frame.payload)
                } else {
                    Ok(())
                }
            }
            JournalChannel::Stdout if self.messages.is_some() => {
                self.print_messages(ui, source.at_ms(frame), frame)
            }
            JournalChannel::Stdout | JournalChannel::Stderr => self.output(ui, source, frame),
            JournalChannel::Stdin if self.messages.is_some() && is_protocol(frame) => Ok(()),
            JournalChannel::Stdin | JournalChannel::Note => match describe_write(frame) {
                Some(text) if self.style != LineStyle::Raw => {
                    let (at_ms, label) = (source.at_ms(frame), source.label.clone());
                    self.print(ui, frame.channel, at_ms, &label, &text)
                }
                Some(_) | None => Ok(()),
            },
        }
    }

    /// Prints the last line if it is incomplete.
    pub(super) fn flush(&mut self, ui: &Ui) -> Result<(), Error> {
        for (channel, partial) in std::mem::take(&mut self.partial) {
            if !partial.bytes.is_empty() {
                let text = String::from_utf8_lossy(&partial.bytes);
                self.print(ui, channel, partial.at_ms, &partial.label, &text)?;
            }
        }
        let last = self.messages.as_mut().and_then(MessageAssembler::finish);
        last.map_or(Ok(()), |text| self.print_message(ui, None, &text))
    }

    fn wants(&self, channel: JournalChannel) -> bool {
        match self.channels {
            ChannelFilter::All => true,
            ChannelFilter::Stdout => channel == JournalChannel::Stdout,
            ChannelFilter::Stderr => channel == JournalChannel::Stderr,
        }
    }

    fn output(
        &mut self,
        ui: &Ui,
        source: &mut JournalSource,
        frame: &JournalFrame,
    ) -> Result<(), Error> {
        let at_ms = source.at_ms(frame);
        let partial = self.partial.entry(frame.channel).or_default();
        if partial.bytes.is_empty() {
            (partial.at_ms, partial.label) = (at_ms, source.label.clone());
        }
        partial.bytes.extend_from_slice(&frame.payload);
        let begun = partial.at_ms;
        let lines = take_lines(&mut partial.bytes);
        partial.at_ms = if lines.is_empty() { begun } else { at_ms };
        for (no, line) in lines.iter().enumerate() {
            let at_ms = if no == 0 { begun } else { at_ms };
            self.print(ui, frame.channel, at_ms, &source.label, &String::from_utf8_lossy(line))?;
        }
        Ok(())
    }

    fn print_messages(
        &mut self,
        ui: &Ui,
        at_ms: Option<i64>,
        frame: &JournalFrame,
    ) -> Result<(), Error> {
        let texts = self.messages.as_mut().map(|messages| messages.feed(frame)).unwrap_or_default();
        texts.iter().try_for_each(|text| self.print_message(ui, at_ms, text))
    }

    fn print_message(&mut self, ui: &Ui, at_ms: Option<i64>, text: &str) -> Result<(), Error> {
        let mut lines = message_lines(ui.paint, text).into_iter().map(ShownLine::Text);
        lines.try_for_each(|line| self.sink.line(ui, at_ms, line))
    }

    fn print(
        &mut self,
        ui: &Ui,
        channel: JournalChannel,
        at_ms: Option<i64>,
        label: &str,
        text: &str,
    ) -> Result<(), Error> {
        let line = match self.style {
            LineStyle::Json => ShownLine::Json(json!({
                "at_ms": at_ms, "channel": channel_name(channel), "text": text, "launch": label,
            })),
            LineStyle::People | LineStyle::Raw if self.is_noise(channel, text) => return Ok(()),
            LineStyle::People | LineStyle::Raw => {
                ShownLine::Text(render_line(ui.paint, channel, text))
            }
        };
        self.sink.line(ui, at_ms, line)
    }

    /// Whether a line is a routine log message of the agent, which is shown only with `--stderr`.
    fn is_noise(&self, channel: JournalChannel, text: &str) -> bool {
        channel == JournalChannel::Stderr
            && self.channels != ChannelFilter::Stderr
            && self.messages.is_some()
            && is_agent_noise(text)
    }
}

impl MessageAssembler {
    fn new(render: MessageRenderer) -> Self {
        MessageAssembler {
            render,
            lines: LineAssembler::resume(JournalChannel::Stdout, JournalCursor::default()),
        }
    }

    fn feed(&mut self, frame: &JournalFrame) -> Vec<String> {
        let whole = self.lines.feed(frame);
        whole.iter().filter_map(|found| self.render(&found.line)).collect()
    }

    fn finish(&mut self) -> Option<String> {
        self.lines.finish().and_then(|found| self.render(&found.line))
    }

    fn render(&self, line: &JournalLine) -> Option<String> {
        render_message(self.render, line)
    }
}

fn render_message(render: MessageRenderer, line: &JournalLine) -> Option<String> {
    match line {
        JournalLine::Whole(line) => render(line),
        JournalLine::Oversized { len } => {
            Some(format!("— message of {} omitted —", format_size(*len)))
        }
    }
}

/// Returns an agent's message as rendered lines.
fn message_lines(paint: Paint, text: &str) -> Vec<String> {
    text.lines().map(|line| render_line(paint, JournalChannel::Stdout, line)).collect()
}

/// Removes and returns the complete lines in a buffer. If an incomplete line is too long, also
/// removes its beginning.
fn take_lines(bytes: &mut Vec<u8>) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    let mut start = 0;
    while let Some(end) = bytes[start..].iter().position(|byte| *byte == b'\n') {
        lines.push(bytes[start..start + end].to_vec());
        start += end + 1;
    }
    bytes.drain(..start);
    if bytes.len() > MAX_LINE {
        lines.push(std::mem::take(bytes));
    }
    lines
}

fn render_line(paint: Paint, channel: JournalChannel, text: &str) -> String {
    let text = strip_colors(text.strip_suffix('\r').unwrap_or(text));
    let text = escape_line(&text).replace('␉', "\t");
    match channel {
        JournalChannel::Stdout => text,
        JournalChannel::Stderr => format!("{} {text}", paint.paint(Tone::Dim, "err│")),
        JournalChannel::Stdin | JournalChannel::Note => paint.paint(Tone::Dim, &text),
    }
}

/// Describes a write or a note without its content, because the content may be secret.
fn describe_write(frame: &JournalFrame) -> Option<String> {
    match frame.channel {
        JournalChannel::Stdin if frame.flags.contains(FrameFlags::CONTINUED) => None,
        JournalChannel::Stdin => {
            let (envelope, _) = InputEnvelope::split(&frame.payload)?;
            Some(format!("→ {} ({} bytes)", plain_key(&envelope.key), envelope.len))
        }
        JournalChannel::Note => serde_json::from_slice(&frame.payload).ok().and_then(describe_note),
        JournalChannel::Stdout | JournalChannel::Stderr => None,
    }
}

fn is_protocol(frame: &JournalFrame) -> bool {
    let envelope = InputEnvelope::split(&frame.payload);
    envelope.is_some_and(|(envelope, _)| envelope.key.starts_with(PROTOCOL_KEY))
}

fn describe_note(note: JournalNote) -> Option<String> {
    match note {
        JournalNote::OutputLimit { limit } => {
            Some(format!("— output limit of {} reached —", format_size(limit)))
        }
        JournalNote::LimitRaised { limit } => {
            Some(format!("— output limit raised to {} —", format_size(limit)))
        }
        JournalNote::Suspended => Some("— stopped by a signal —".to_owned()),
        JournalNote::Continued => Some("— continued —".to_owned()),
        JournalNote::Resized { .. } => None,
        JournalNote::StdoutClosed | JournalNote::StderrClosed => None,
    }
}

fn channel_name(channel: JournalChannel) -> &'static str {
    match channel {
        JournalChannel::Stdout => "stdout",
        JournalChannel::Stderr => "stderr",
        JournalChannel::Stdin => "stdin",
        JournalChannel::Note => "note",
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use jiff::tz::TimeZone;
    use provost_holder::journal::JournalWriter;

    use super::{super::sink::LineFilter, *};

    #[test]
    fn lines_are_assembled_from_pieces() {
        let mut bytes = b"one\ntw".to_vec();
        assert_eq!(take_lines(&mut bytes), [b"one".to_vec()]);
        bytes.extend_from_slice(b"o\n\nx");
        assert_eq!(take_lines(&mut bytes), [b"two".to_vec(), b"".to_vec()]);
        assert_eq!(bytes, b"x");
    }

    #[test]
    fn endless_line_is_split() {
        let mut bytes = vec![b'x'; MAX_LINE + 1];
        assert_eq!(take_lines(&mut bytes).len(), 1);
        assert!(bytes.is_empty());
    }

    #[test]
    fn output_is_escaped_for_terminal() {
        assert_eq!(render_line(Paint::OFF, JournalChannel::Stdout, "a\u{1b}[2J\tb\r"), "a␛[2J\tb");
        assert_eq!(
            render_line(Paint::OFF, JournalChannel::Stdout, "\u{1b}[31mred\u{1b}[0m"),
            "red"
        );
        assert_eq!(render_line(Paint::OFF, JournalChannel::Stderr, "x"), "err│ x");
    }

    /// Renders lines such as `say "hi"`, and hides those that start with `think`.
    fn render(line: &[u8]) -> Option<String> {
        let line = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
        match line.strip_prefix("say ") {
            Some(text) => serde_json::from_str(text).ok(),
            None => (!line.starts_with("think")).then_some(line),
        }
    }

    /// Writes these frames to a journal, and returns an agent's messages in it.
    fn messages(frames: &[(JournalChannel, &[u8])]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = JournalWriter::new(File::create(dir.path().join("journal")).unwrap());
        for (channel, bytes) in frames {
            writer.append(*channel, 5, bytes).unwrap();
        }
        let mut source = JournalSource::new(dir.path(), "l1".to_owned());
        let mut messages = MessageAssembler::new(render);
        let mut texts = Vec::new();
        while let Some(frame) = source.next().unwrap() {
            texts.extend(messages.feed(&frame));
        }
        texts.extend(messages.finish());
        texts.iter().flat_map(|text| message_lines(Paint::OFF, text)).collect()
    }

    #[test]
    fn agent_messages_are_rendered() {
        let line = br#"say "one\n\u001b[2Jtwo\tx""#;
        let (front, back) = line.split_at(10);
        let lines = messages(&[
            (JournalChannel::Stdout, b"think on"),
            (JournalChannel::Stdout, b"\n"),
            (JournalChannel::Stdout, front),
            (JournalChannel::Stderr, b"in between\n"),
            (JournalChannel::Stdout, back),
            (JournalChannel::Stdout, b"\nnot a message"),
        ]);
        assert_eq!(lines, ["one", "␛[2Jtwo\tx", "not a message"]);
    }

    #[test]
    fn long_message_is_kept_whole() {
        let line = format!("say \"{}\"", "x".repeat(MAX_LINE));
        let pieces: Vec<(JournalChannel, &[u8])> =
            line.as_bytes().chunks(64 << 10).map(|piece| (JournalChannel::Stdout, piece)).collect();
        let lines = messages(&pieces);
        assert_eq!(lines.iter().map(String::len).collect::<Vec<_>>(), [MAX_LINE]);
        let oversized = render_message(render, &JournalLine::Oversized { len: 17 << 20 }).unwrap();
        assert_eq!(oversized, "— message of 17.0 MiB omitted —");
    }

    #[test]
    fn only_text_style_renders_messages() {
        let rendered = |style, renderer| {
            let sink = LineSink::new(LineFilter::default(), TimeZone::UTC);
            let mut shown = LinePrinter::new(ChannelFilter::All, style, sink);
            shown.begin(renderer);
            shown.messages.is_some()
        };
        assert!(rendered(LineStyle::People, Some(render)));
        assert!(!rendered(LineStyle::People, None));
        assert!(!rendered(LineStyle::Json, Some(render)));
        assert!(!rendered(LineStyle::Raw, Some(render)));
    }

    #[test]
    fn input_shows_only_key_and_size() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = JournalWriter::new(File::create(dir.path().join("journal")).unwrap());
        let envelope = br#"{"key":"k1","len":7,"secret":false,"kept":true}"#;
        let payload = [envelope.as_slice(), b"\nhunter2"].concat();
        writer.append(JournalChannel::Stdin, 5, &payload).unwrap();
        let handshake = br#"{"key":"p:hello","len":2,"secret":false,"kept":true}"#;
        writer.append(JournalChannel::Stdin, 5, &[handshake.as_slice(), b"\n{}"].concat()).unwrap();
        writer.append(JournalChannel::Stdout, 6, b"said").unwrap();
        let mut source = JournalSource::new(dir.path(), "l1".to_owned());
        let frame = source.next().unwrap().unwrap();
        assert_eq!(describe_write(&frame).unwrap(), "→ k1 (7 bytes)");
        assert!(!is_protocol(&frame));
        assert!(is_protocol(&source.next().unwrap().unwrap()));
        assert_eq!(source.next().unwrap().unwrap().payload, b"said");
        assert!(source.next().unwrap().is_none());
    }

    #[test]
    fn missing_journal_has_no_output() {
        let dir = tempfile::tempdir().unwrap();
        assert!(
            JournalSource::new(&dir.path().join("absent"), String::new()).next().unwrap().is_none()
        );
    }
}
