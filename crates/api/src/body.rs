//! The body of a reply. Its length is known, so a truncated body is an error and cannot be mistaken
//! for a shorter reply.

use std::io::{self, BufRead, Read};

/// Maximum length of the line that contains a chunk's size.
const MAX_SIZE_LINE: u64 = 64;

/// Reads a body of known length or a chunked body.
#[derive(Debug)]
pub(crate) struct Body<R> {
    reader: R,
    left: Remaining,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remaining {
    /// The number of bytes that remain until the end.
    Bytes(u64),
    /// The number of bytes that remain until the next chunk.
    InChunk(u64),
    BetweenChunks,
    Nothing,
}

impl<R: BufRead> Body<R> {
    /// Returns a body whose length is given in the head.
    pub(crate) fn of_length(reader: R, length: u64) -> Self {
        Body { reader, left: Remaining::Bytes(length) }
    }

    /// Returns a chunked body.
    pub(crate) fn in_chunks(reader: R) -> Self {
        Body { reader, left: Remaining::BetweenChunks }
    }

    fn next_chunk(&mut self) -> io::Result<()> {
        let size = self.size_line()?;
        self.left = match size {
            0 => {
                // There are no trailers, so a blank line ends the body.
                self.blank_line()?;
                Remaining::Nothing
            }
            size => Remaining::InChunk(size),
        };
        Ok(())
    }

    fn size_line(&mut self) -> io::Result<u64> {
        let mut line = String::new();
        self.reader.by_ref().take(MAX_SIZE_LINE).read_line(&mut line)?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let digits = line.split(';').next().unwrap_or_default().trim();
        u64::from_str_radix(digits, 16)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a chunk has no size"))
    }

    fn blank_line(&mut self) -> io::Result<()> {
        let mut end = [0; 2];
        self.reader.read_exact(&mut end)
    }

    /// Reads at most `piece` bytes. Returns the number of bytes read and the number left in the
    /// piece.
    fn read_piece(&mut self, buffer: &mut [u8], piece: u64) -> io::Result<(usize, u64)> {
        let most = usize::try_from(piece).unwrap_or(usize::MAX).min(buffer.len());
        match self.reader.read(&mut buffer[..most])? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the reply was truncated")),
            read => Ok((read, piece - read as u64)),
        }
    }
}

impl<R: BufRead> Read for Body<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while self.left == Remaining::BetweenChunks {
            self.next_chunk()?;
        }
        match self.left {
            Remaining::Nothing | Remaining::Bytes(0) => Ok(0),
            Remaining::Bytes(piece) => {
                let (read, left) = self.read_piece(buffer, piece)?;
                self.left = Remaining::Bytes(left);
                Ok(read)
            }
            Remaining::InChunk(piece) => {
                let (read, left) = self.read_piece(buffer, piece)?;
                self.left = Remaining::InChunk(left);
                if left == 0 {
                    self.blank_line()?;
                    self.left = Remaining::BetweenChunks;
                }
                Ok(read)
            }
            Remaining::BetweenChunks => unreachable!("the loop above left it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunked(text: &str) -> io::Result<String> {
        let mut body = String::new();
        Body::in_chunks(text.as_bytes()).read_to_string(&mut body).map(|_| body)
    }

    #[test]
    fn chunks_are_joined() {
        assert_eq!(
            chunked("5\r\nhello\r\n1;x=y\r\n \r\nA\r\n0123456789\r\n0\r\n\r\n").unwrap(),
            "hello 0123456789"
        );
        assert_eq!(chunked("0\r\n\r\n").unwrap(), "");
    }

    #[test]
    fn truncated_body_is_an_error() {
        let whole = "5\r\nhello\r\n0\r\n\r\n";
        for end in 0..whole.len() {
            assert!(chunked(&whole[..end]).is_err(), "{:?}", &whole[..end]);
        }
        assert!(chunked("zz\r\nhello\r\n0\r\n\r\n").is_err());
        let mut body = Vec::new();
        assert!(Body::of_length(&b"abc"[..], 4).read_to_end(&mut body).is_err());
    }

    #[test]
    fn body_stops_at_content_length() {
        let mut body = Vec::new();
        Body::of_length(&b"abcdef"[..], 4).read_to_end(&mut body).unwrap();
        assert_eq!(body, b"abcd");
    }
}
