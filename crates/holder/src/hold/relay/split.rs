//! The reading and writing halves of the connection, which serve as the command's output and input.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use super::connect::random;
use super::frames::{DecodeResult, FrameDecoder, OutgoingFrame, encode};

/// The reading half.
pub(in crate::hold) struct RelayReceiver {
    stream: UnixStream,
    decoder: FrameDecoder,
}

/// The writing half. Frames are sent one after another, so a pong never splits a message.
pub(in crate::hold) struct RelaySender {
    stream: UnixStream,
    /// The rest of the frame being sent.
    unsent: Vec<u8>,
    sent: usize,
    /// The response to the last ping, if it has not been sent yet.
    pong: Option<Vec<u8>>,
}

impl RelayReceiver {
    pub(in crate::hold) fn new(stream: UnixStream) -> Self {
        Self { stream, decoder: FrameDecoder::default() }
    }

    pub(in crate::hold) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }

    /// Decodes the bytes that were read into lines.
    pub(in crate::hold) fn decode(&mut self, bytes: &[u8], text: &mut Vec<u8>) -> DecodeResult {
        self.decoder.decode(bytes, text)
    }
}

impl AsFd for RelayReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl RelaySender {
    pub(in crate::hold) fn new(stream: UnixStream) -> Self {
        Self { stream, unsent: Vec::new(), sent: 0, pong: None }
    }

    /// Whether there is anything left to send.
    pub(in crate::hold) fn is_unsent(&self) -> bool {
        !self.unsent.is_empty() || self.pong.is_some()
    }

    /// Schedules the response to a ping. It replaces an older one that has not been sent yet.
    pub(in crate::hold) fn queue_pong(&mut self, payload: Vec<u8>) {
        self.pong = Some(payload);
    }

    /// Begins a message. The previous frame must have been sent completely.
    pub(in crate::hold) fn begin(&mut self, text: &[u8]) -> io::Result<()> {
        self.begin_frame(OutgoingFrame::Text(text))
    }

    /// Sends the pending bytes. Fails with `WouldBlock` if the socket does not accept all of them.
    pub(in crate::hold) fn flush(&mut self) -> io::Result<()> {
        self.send()?;
        if let Some(pong) = self.pong.take() {
            self.begin_frame(OutgoingFrame::Pong(&pong))?;
            self.send()?;
        }
        Ok(())
    }

    /// Sends a close frame unless another frame is being sent. The server does not have to receive
    /// it.
    pub(in crate::hold) fn send_close(&mut self) {
        if self.unsent.is_empty() && self.begin_frame(OutgoingFrame::Close).is_ok() {
            self.send().ok();
        }
    }

    fn begin_frame(&mut self, saying: OutgoingFrame<'_>) -> io::Result<()> {
        (self.unsent, self.sent) = (encode(saying, random()?), 0);
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        while self.sent < self.unsent.len() {
            match self.stream.write(&self.unsent[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => self.sent += taken,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // Free the buffer of a long message, because most of the time nothing is being sent.
        (self.unsent, self.sent) = (Vec::new(), 0);
        Ok(())
    }
}

impl AsFd for RelaySender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
