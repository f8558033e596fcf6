//! The two halves of the connection, for those who know them as the command's output and input.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use super::arriving::random;
use super::frames::{Decoder, Heard, Saying, encode};

/// The half that reads.
pub(in crate::hold) struct Receiver {
    stream: UnixStream,
    decoder: Decoder,
}

/// The half that writes. Frames go out one after the other, so a pong never parts a message.
pub(in crate::hold) struct Sender {
    stream: UnixStream,
    /// What is left of the frame that is on its way.
    unsent: Vec<u8>,
    sent: usize,
    /// The answer to the last ping, for which its turn has not come.
    pong: Option<Vec<u8>>,
}

impl Receiver {
    pub(in crate::hold) fn new(stream: UnixStream) -> Self {
        Self { stream, decoder: Decoder::default() }
    }

    pub(in crate::hold) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }

    /// Makes lines of what was read.
    pub(in crate::hold) fn decode(&mut self, bytes: &[u8], text: &mut Vec<u8>) -> Heard {
        self.decoder.decode(bytes, text)
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Sender {
    pub(in crate::hold) fn new(stream: UnixStream) -> Self {
        Self { stream, unsent: Vec::new(), sent: 0, pong: None }
    }

    /// Whether something waits for the socket to take it.
    pub(in crate::hold) fn is_unsent(&self) -> bool {
        !self.unsent.is_empty() || self.pong.is_some()
    }

    /// Owes the answer to a ping, in place of one that is owed and no longer wanted.
    pub(in crate::hold) fn owe_pong(&mut self, payload: Vec<u8>) {
        self.pong = Some(payload);
    }

    /// Begins a message; nothing may be unsent.
    pub(in crate::hold) fn begin(&mut self, text: &[u8]) -> io::Result<()> {
        self.begin_frame(Saying::Text(text))
    }

    /// Sends what is unsent, as far as the socket takes it; `WouldBlock` if it does not take all.
    pub(in crate::hold) fn flush(&mut self) -> io::Result<()> {
        self.send()?;
        if let Some(pong) = self.pong.take() {
            self.begin_frame(Saying::Pong(&pong))?;
            self.send()?;
        }
        Ok(())
    }

    /// Takes leave of the server if a frame of its own can say so. Whether it hears that is its affair.
    pub(in crate::hold) fn take_leave(&mut self) {
        if self.unsent.is_empty() && self.begin_frame(Saying::Close).is_ok() {
            self.send().ok();
        }
    }

    fn begin_frame(&mut self, saying: Saying<'_>) -> io::Result<()> {
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
        // A long message leaves no buffer behind: most of the time nothing is sent.
        (self.unsent, self.sent) = (Vec::new(), 0);
        Ok(())
    }
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
