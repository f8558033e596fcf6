//! Assembles journal frames into whole lines and prints them.

use std::collections::BTreeMap;

use provost_core::session::Driver;
use provost_drivers::render;
use provost_holder::{
    journal::{Channel, Cursor, Envelope, Flags, Frame, Line, Lines, Note},
    wire::plain_key,
};
use serde_json::json;

use super::source::Source;
use crate::{
    error::Error,
    ui::{Paint, Tone, Ui, clean, size},
};

/// A longer line is shown in pieces, so that memory stays bounded.
const MAX_LINE: usize = 256 << 10;

/// The key prefix of writes that a protocol makes for itself, without a user's request.
const PROTOCOL_KEY: &str = "p:";

/// The channels to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channels {
    All,
    Stdout,
    Stderr,
}

/// The format of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    People,
    Json,
    Raw,
}

/// Prints frames and buffers incomplete lines.
pub(super) struct Shown {
    channels: Channels,
    style: Style,
    partial: BTreeMap<Channel, Partial>,
    /// Assembles an agent's messages; None if its output is shown verbatim.
    messages: Option<Messages>,
}

/// The messages of an agent's protocol, which are shown whole or not at all.
struct Messages {
    driver: Driver,
    lines: Lines,
}

#[derive(Default)]
struct Partial {
    bytes: Vec<u8>,
    /// The time of its first byte.
    at_ms: Option<i64>,
    label: String,
}

impl Shown {
    pub(super) fn new(channels: Channels, style: Style) -> Self {
        Shown { channels, style, partial: BTreeMap::new(), messages: None }
    }

    /// Starts the output of a launch or of another command. Users see the agent's messages; the raw protocol is for
    /// programs.
    pub(super) fn begin(&mut self, driver: Driver) {
        let speaks = matches!(driver, Driver::Codex | Driver::CodexExec);
        self.messages = (speaks && self.style == Style::People).then(|| Messages::of(driver));
    }

    pub(super) fn frame(
        &mut self,
        ui: &Ui,
        source: &mut Source,
        frame: &Frame,
    ) -> Result<(), Error> {
        if !self.wants(frame.channel) {
            return Ok(());
        }
        match frame.channel {
            Channel::Stdout | Channel::Stderr if self.style == Style::Raw => ui.raw(&frame.payload),
            Channel::Stdout if self.messages.is_some() => self.said(ui, frame),
            Channel::Stdout | Channel::Stderr => self.output(ui, source, frame),
            Channel::Stdin if self.messages.is_some() && is_protocol(frame) => Ok(()),
            Channel::Stdin | Channel::Note => match mark(frame) {
                Some(text) if self.style != Style::Raw => {
                    let (at_ms, label) = (source.at_ms(frame), source.label.clone());
                    self.print(ui, frame.channel, at_ms, &label, &text)
                }
                Some(_) | None => Ok(()),
            },
        }
    }

    /// Prints the incomplete last line.
    pub(super) fn flush(&mut self, ui: &Ui) -> Result<(), Error> {
        for (channel, partial) in std::mem::take(&mut self.partial) {
            if !partial.bytes.is_empty() {
                let text = String::from_utf8_lossy(&partial.bytes);
                self.print(ui, channel, partial.at_ms, &partial.label, &text)?;
            }
        }
        let last = self.messages.as_mut().and_then(Messages::finish);
        last.map_or(Ok(()), |text| ui.lines(&said_lines(ui.paint, &text)))
    }

    fn wants(&self, channel: Channel) -> bool {
        match self.channels {
            Channels::All => true,
            Channels::Stdout => channel == Channel::Stdout,
            Channels::Stderr => channel == Channel::Stderr,
        }
    }

    fn output(&mut self, ui: &Ui, source: &mut Source, frame: &Frame) -> Result<(), Error> {
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

    fn said(&mut self, ui: &Ui, frame: &Frame) -> Result<(), Error> {
        let texts = self.messages.as_mut().map(|messages| messages.feed(frame)).unwrap_or_default();
        texts.iter().try_for_each(|text| ui.lines(&said_lines(ui.paint, text)))
    }

    fn print(
        &self,
        ui: &Ui,
        channel: Channel,
        at_ms: Option<i64>,
        label: &str,
        text: &str,
    ) -> Result<(), Error> {
        match self.style {
            Style::Json => ui.value(&json!({
                "at_ms": at_ms, "channel": word(channel), "text": text, "launch": label,
            })),
            Style::People | Style::Raw => ui.line(&people(ui.paint, channel, text)),
        }
    }
}

impl Messages {
    fn of(driver: Driver) -> Self {
        Messages { driver, lines: Lines::resume(Channel::Stdout, Cursor::default()) }
    }

    fn feed(&mut self, frame: &Frame) -> Vec<String> {
        let whole = self.lines.feed(frame);
        whole.iter().filter_map(|found| shown(self.driver, &found.line)).collect()
    }

    fn finish(&mut self) -> Option<String> {
        self.lines.finish().and_then(|found| shown(self.driver, &found.line))
    }
}

fn shown(driver: Driver, line: &Line) -> Option<String> {
    match line {
        Line::Whole(line) => render(driver, line),
        Line::Oversized { len } => Some(format!("— message of {} omitted —", size(*len))),
    }
}

/// Returns an agent's message, line by line.
fn said_lines(paint: Paint, text: &str) -> Vec<String> {
    text.lines().map(|line| people(paint, Channel::Stdout, line)).collect()
}

/// Takes the whole lines out of a buffer, and a piece of a line that has grown too long.
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

fn people(paint: Paint, channel: Channel, text: &str) -> String {
    let text = clean(text.strip_suffix('\r').unwrap_or(text)).replace('␉', "\t");
    match channel {
        Channel::Stdout => text,
        Channel::Stderr => format!("{} {text}", paint.paint(Tone::Dim, "err│")),
        Channel::Stdin | Channel::Note => paint.paint(Tone::Dim, &text),
    }
}

/// Describes a write or a note without its content, which may be secret.
fn mark(frame: &Frame) -> Option<String> {
    match frame.channel {
        Channel::Stdin if frame.flags.contains(Flags::CONTINUED) => None,
        Channel::Stdin => {
            let (envelope, _) = Envelope::split(&frame.payload)?;
            Some(format!("→ {} ({} bytes)", plain_key(&envelope.key), envelope.len))
        }
        Channel::Note => serde_json::from_slice(&frame.payload).ok().and_then(noted),
        Channel::Stdout | Channel::Stderr => None,
    }
}

fn is_protocol(frame: &Frame) -> bool {
    let envelope = Envelope::split(&frame.payload);
    envelope.is_some_and(|(envelope, _)| envelope.key.starts_with(PROTOCOL_KEY))
}

fn noted(note: Note) -> Option<String> {
    match note {
        Note::OutputLimit { limit } => Some(format!("— output limit of {} reached —", size(limit))),
        Note::LimitRaised { limit } => Some(format!("— output limit raised to {} —", size(limit))),
        Note::Suspended => Some("— stopped by a signal —".to_owned()),
        Note::Continued => Some("— continued —".to_owned()),
        Note::Resized { .. } => None,
        Note::StdoutClosed | Note::StderrClosed => None,
    }
}

fn word(channel: Channel) -> &'static str {
    match channel {
        Channel::Stdout => "stdout",
        Channel::Stderr => "stderr",
        Channel::Stdin => "stdin",
        Channel::Note => "note",
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use provost_holder::journal::Writer;

    use super::*;

    #[test]
    fn lines_are_whole_whatever_the_pieces() {
        let mut bytes = b"one\ntw".to_vec();
        assert_eq!(take_lines(&mut bytes), [b"one".to_vec()]);
        bytes.extend_from_slice(b"o\n\nx");
        assert_eq!(take_lines(&mut bytes), [b"two".to_vec(), b"".to_vec()]);
        assert_eq!(bytes, b"x");
    }

    #[test]
    fn an_endless_line_does_not_fill_the_memory() {
        let mut bytes = vec![b'x'; MAX_LINE + 1];
        assert_eq!(take_lines(&mut bytes).len(), 1);
        assert!(bytes.is_empty());
    }

    #[test]
    fn output_cannot_drive_the_terminal() {
        assert_eq!(people(Paint::OFF, Channel::Stdout, "a\u{1b}[2J\tb\r"), "a␛[2J\tb");
        assert_eq!(people(Paint::OFF, Channel::Stderr, "x"), "err│ x");
    }

    /// Feeds a journal of these frames to the messages of a driver.
    fn messages(driver: Driver, frames: &[(Channel, &[u8])]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::new(File::create(dir.path().join("journal")).unwrap());
        for (channel, bytes) in frames {
            writer.append(*channel, 5, bytes).unwrap();
        }
        let mut source = Source::new(dir.path(), "l1".to_owned());
        let mut messages = Messages::of(driver);
        let mut texts = Vec::new();
        while let Some(frame) = source.next().unwrap() {
            texts.extend(messages.feed(&frame));
        }
        texts.extend(messages.finish());
        texts.iter().flat_map(|text| said_lines(Paint::OFF, text)).collect()
    }

    #[test]
    fn an_agents_messages_are_read_as_what_they_say() {
        let said = br#"{"method":"item/completed","params":{"threadId":"t","turnId":"u","item":{"type":"agentMessage","id":"i","text":"one\n\u001b[2Jtwo\tx"}}}"#;
        let delta = br#"{"method":"item/agentMessage/delta","params":{"threadId":"t","turnId":"u","itemId":"i","delta":"on"}}"#;
        let (front, back) = said.split_at(40);
        let lines = messages(
            Driver::Codex,
            &[
                (Channel::Stdout, delta),
                (Channel::Stdout, b"\n"),
                (Channel::Stdout, front),
                (Channel::Stderr, b"in between\n"),
                (Channel::Stdout, back),
                (Channel::Stdout, b"\nnot a message"),
            ],
        );
        assert_eq!(lines, ["one", "␛[2Jtwo\tx", "not a message"]);
    }

    #[test]
    fn a_message_longer_than_a_shown_line_is_still_one() {
        let long = "x".repeat(MAX_LINE);
        let line = format!(
            r#"{{"type":"item.completed","item":{{"type":"agent_message","text":"hi","more":"{long}"}}}}"#
        );
        let pieces: Vec<(Channel, &[u8])> =
            line.as_bytes().chunks(64 << 10).map(|piece| (Channel::Stdout, piece)).collect();
        assert_eq!(messages(Driver::CodexExec, &pieces), ["hi"]);
        let oversized = shown(Driver::Codex, &Line::Oversized { len: 17 << 20 }).unwrap();
        assert_eq!(oversized, "— message of 17.0 MiB omitted —");
    }

    #[test]
    fn only_people_are_told_in_other_words() {
        let rendered = |style, driver| {
            let mut shown = Shown::new(Channels::All, style);
            shown.begin(driver);
            shown.messages.is_some()
        };
        assert!(rendered(Style::People, Driver::Codex));
        assert!(rendered(Style::People, Driver::CodexExec));
        assert!(!rendered(Style::People, Driver::Jsonl));
        assert!(!rendered(Style::Json, Driver::Codex));
        assert!(!rendered(Style::Raw, Driver::Codex));
    }

    #[test]
    fn input_is_shown_by_key_and_size_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::new(File::create(dir.path().join("journal")).unwrap());
        let envelope = br#"{"key":"k1","len":7,"secret":false,"kept":true}"#;
        let payload = [envelope.as_slice(), b"\nhunter2"].concat();
        writer.append(Channel::Stdin, 5, &payload).unwrap();
        let handshake = br#"{"key":"p:hello","len":2,"secret":false,"kept":true}"#;
        writer.append(Channel::Stdin, 5, &[handshake.as_slice(), b"\n{}"].concat()).unwrap();
        writer.append(Channel::Stdout, 6, b"said").unwrap();
        let mut source = Source::new(dir.path(), "l1".to_owned());
        let frame = source.next().unwrap().unwrap();
        assert_eq!(mark(&frame).unwrap(), "→ k1 (7 bytes)");
        assert!(!is_protocol(&frame));
        assert!(is_protocol(&source.next().unwrap().unwrap()));
        assert_eq!(source.next().unwrap().unwrap().payload, b"said");
        assert!(source.next().unwrap().is_none());
    }

    #[test]
    fn no_journal_is_no_output() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Source::new(&dir.path().join("absent"), String::new()).next().unwrap().is_none());
    }
}
