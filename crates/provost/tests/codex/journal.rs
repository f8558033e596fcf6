//! What a launch was told and what it said, as its holder wrote it down.

use provost_holder::journal::{
    Channel, Cursor, Envelope, Flags, Frame, JOURNAL_FILE, Line, Lines, Opened, Reader,
};
use serde_json::Value;

use crate::kit::Stage;

/// Both directions of one launch.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// The keys of what was written to the agent, in order, each with as much of it as its first frame has.
    pub(crate) told: Vec<(String, String)>,
    /// The messages of the agent, in order.
    pub(crate) said: Vec<Value>,
}

impl Journal {
    /// Reads what there is of a launch; of one that did not begin there is nothing.
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

    /// The keys of all that was written whose text has this in it.
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
