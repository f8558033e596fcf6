//! The journal of a launch: its input and its output, as recorded by the holder.

use provost_holder::journal::{
    Channel, Cursor, Envelope, Flags, Frame, JOURNAL_FILE, Line, Lines, Opened, Reader,
};
use serde_json::Value;

use crate::kit::Stage;

/// Input and output of one launch.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// The keys of the messages written to the agent, in order, each with the text of its first frame.
    pub(crate) told: Vec<(String, String)>,
    /// The agent's messages, in order.
    pub(crate) said: Vec<Value>,
}

impl Journal {
    /// Reads the journal of a launch; empty if the launch never started.
    #[track_caller]
    pub(crate) fn of(stage: &Stage, id: &str, launch: usize) -> Journal {
        let dir = stage.path().join("launches").join(format!("{id}.l{launch}"));
        let Ok(Opened::At(frames)) = Reader::open(&dir.join(JOURNAL_FILE), 0) else {
            return Journal::default();
        };
        let mut journal = Journal::default();
        let mut lines = Lines::resume(Channel::Stdout, Cursor { offset: 0, skip: 0 });
        for frame in frames.map(Result::unwrap) {
            journal.told.extend(told(&frame));
            let said = lines.feed(&frame).into_iter().filter_map(|line| message(&line.line));
            journal.said.extend(said);
        }
        journal
    }

    /// Returns the keys of all messages whose text contains `text`.
    pub(crate) fn keys_with(&self, text: &str) -> Vec<&str> {
        let meant = self.told.iter().filter(|(_, said)| said.contains(text));
        meant.map(|(key, _)| key.as_str()).collect()
    }
}

fn told(frame: &Frame) -> Option<(String, String)> {
    if frame.channel != Channel::Stdin || frame.flags.contains(Flags::CONTINUED) {
        return None;
    }
    let (envelope, bytes) = Envelope::split(&frame.payload)?;
    Some((envelope.key, String::from_utf8_lossy(bytes).into_owned()))
}

fn message(line: &Line) -> Option<Value> {
    match line {
        Line::Whole(bytes) => serde_json::from_slice(bytes).ok(),
        Line::Oversized { .. } => None,
    }
}
