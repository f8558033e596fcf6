//! The journal: one append-only file with both directions of a launch in order.
//!
//! Offsets are byte positions in this file. The file is not synced after each frame, so after a
//! power loss an offset may be beyond the end. That is a value ([`Opened::Lost`]), not an error.

mod frame;
mod lines;
mod reader;
mod writer;

pub use frame::{
    Channel, Envelope, Flags, Frame, HEADER_LEN, MAX_PAYLOAD, Note, RelayNote, TYPED_KEY,
};
pub use lines::{Cursor, Delivered, Line, Lines, MAX_LINE};
pub use reader::{Error, Opened, Reader};
pub use writer::Writer;

/// The journal's name in its launch directory.
pub const JOURNAL_FILE: &str = "journal";
