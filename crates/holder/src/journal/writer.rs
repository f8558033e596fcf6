//! Appends frames to a journal. Bytes that the disk refuses are kept in order until it accepts
//! them.

use std::fs::File;
use std::io::{self, Write};

use super::frame::{
    FrameFlags, FrameHeader, InputEnvelope, JournalChannel, JournalNote, MAX_PAYLOAD, RelayNote,
};

/// The only writer of a journal.
#[derive(Debug)]
pub struct JournalWriter {
    file: File,
    /// Bytes that are not on disk yet. Usually empty.
    pending: Vec<u8>,
    on_disk: u64,
    /// The last position known to be the end of a frame.
    whole: u64,
}

impl JournalWriter {
    /// Creates a writer for a new, empty file that is opened for appending.
    pub fn new(file: File) -> Self {
        Self { file, pending: Vec::new(), on_disk: 0, whole: 0 }
    }

    /// Returns the end of the last complete frame on disk.
    pub fn end(&self) -> u64 {
        self.whole
    }

    /// Whether the disk has refused bytes. The caller must then stop producing more and call
    /// [`Self::retry`].
    pub fn is_stuck(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Appends bytes of a channel. If the call fails, the bytes are kept in memory, but are not on
    /// disk yet.
    pub fn append(
        &mut self,
        channel: JournalChannel,
        mono_ms: u64,
        payload: &[u8],
    ) -> io::Result<()> {
        self.append_flagged(channel, FrameFlags::default(), mono_ms, payload)
    }

    /// Appends one of the holder's notes.
    pub fn note(&mut self, mono_ms: u64, note: JournalNote) -> io::Result<()> {
        self.append(JournalChannel::Note, mono_ms, &serde_json::to_vec(&note)?)
    }

    /// Appends a note about the connection to a listening command.
    pub fn relay_note(&mut self, mono_ms: u64, note: &RelayNote) -> io::Result<()> {
        self.append(JournalChannel::Note, mono_ms, &serde_json::to_vec(note)?)
    }

    /// Appends an input's envelope, and its bytes if they are to be kept.
    pub fn input(
        &mut self,
        mono_ms: u64,
        envelope: &InputEnvelope,
        bytes: &[u8],
    ) -> io::Result<()> {
        let mut first = serde_json::to_vec(envelope)?;
        first.push(b'\n');
        let kept = if envelope.kept { bytes } else { &[] };
        let (with_envelope, rest) = kept.split_at(kept.len().min(MAX_PAYLOAD - first.len()));
        first.extend_from_slice(with_envelope);
        let flags = if envelope.secret { FrameFlags::SECRET } else { FrameFlags::default() };
        let mut result = self.append_flagged(JournalChannel::Stdin, flags, mono_ms, &first);
        for chunk in rest.chunks(MAX_PAYLOAD) {
            result =
                self.append_flagged(JournalChannel::Stdin, FrameFlags::CONTINUED, mono_ms, chunk);
        }
        result
    }

    /// Retries writing the bytes that the disk refused.
    pub fn retry(&mut self) -> io::Result<()> {
        while !self.pending.is_empty() {
            let taken = match self.file.write(&self.pending) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => taken,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.on_disk += taken as u64;
            self.pending.drain(..taken);
        }
        self.whole = self.on_disk;
        self.pending.shrink_to(2 * MAX_PAYLOAD);
        Ok(())
    }

    fn append_flagged(
        &mut self,
        channel: JournalChannel,
        flags: FrameFlags,
        mono_ms: u64,
        payload: &[u8],
    ) -> io::Result<()> {
        debug_assert!(payload.len() <= MAX_PAYLOAD, "callers must split longer payloads");
        let header = FrameHeader { channel, flags, len: payload.len() as u32, mono_ms };
        self.pending.extend_from_slice(&header.encode());
        self.pending.extend_from_slice(payload);
        self.retry()
    }
}
