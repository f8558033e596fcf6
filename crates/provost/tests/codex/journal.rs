//! The journal of a launch: its input and its output, as recorded by the holder.

use provost_holder::journal::{
    FrameFlags, InputEnvelope, JOURNAL_FILE, JournalChannel, JournalCursor, JournalFrame,
    JournalLine, JournalReader, LineAssembler, OpenedJournal,
};
use serde_json::Value;

use crate::codex_env::CodexEnv;

/// Input and output of one launch.
#[derive(Debug, Default)]
pub(crate) struct LaunchJournal {
    /// The keys of the messages written to the agent, in order, each with the text of its first frame.
    pub(crate) input: Vec<(String, String)>,
    /// The agent's messages, in order.
    pub(crate) output: Vec<Value>,
}

impl LaunchJournal {
    /// Reads the journal of a launch. Returns an empty journal if the launch never started.
    #[track_caller]
    pub(crate) fn read(stage: &CodexEnv, id: &str, launch: usize) -> LaunchJournal {
        let dir = stage.path().join("launches").join(format!("{id}.l{launch}"));
        let Ok(OpenedJournal::Ready(frames)) = JournalReader::open(&dir.join(JOURNAL_FILE), 0)
        else {
            return LaunchJournal::default();
        };
        let mut journal = LaunchJournal::default();
        let mut lines =
            LineAssembler::resume(JournalChannel::Stdout, JournalCursor { offset: 0, skip: 0 });
        for frame in frames.map(Result::unwrap) {
            journal.input.extend(input_message(&frame));
            let messages =
                lines.feed(&frame).into_iter().filter_map(|line| parse_message(&line.line));
            journal.output.extend(messages);
        }
        journal
    }

    /// Returns the keys of all messages whose text contains `text`.
    pub(crate) fn keys_containing(&self, text: &str) -> Vec<&str> {
        let matching = self.input.iter().filter(|(_, written)| written.contains(text));
        matching.map(|(key, _)| key.as_str()).collect()
    }
}

fn input_message(frame: &JournalFrame) -> Option<(String, String)> {
    if frame.channel != JournalChannel::Stdin || frame.flags.contains(FrameFlags::CONTINUED) {
        return None;
    }
    let (envelope, bytes) = InputEnvelope::split(&frame.payload)?;
    Some((envelope.key, String::from_utf8_lossy(bytes).into_owned()))
}

fn parse_message(line: &JournalLine) -> Option<Value> {
    match line {
        JournalLine::Whole(bytes) => serde_json::from_slice(bytes).ok(),
        JournalLine::Oversized { .. } => None,
    }
}
