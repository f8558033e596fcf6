//! The journal: one append-only file that contains a launch's input and output in order.
//!
//! Offsets are byte positions in this file. The file is not synced after each frame, so after a
//! power loss an offset may be beyond its end. This is reported as a value
//! ([`OpenedJournal::Lost`]), not as an error.

mod frame;
mod lines;
mod reader;
mod writer;

pub use frame::{
    FrameFlags, HEADER_LEN, InputEnvelope, JournalChannel, JournalFrame, JournalNote, MAX_PAYLOAD,
    RelayNote, TYPED_KEY,
};
pub use lines::{DeliveredLine, JournalCursor, JournalLine, LineAssembler, MAX_LINE};
pub use reader::{Error, JournalReader, OpenedJournal};
pub use writer::JournalWriter;

/// The journal's name in its launch directory.
pub const JOURNAL_FILE: &str = "journal";
