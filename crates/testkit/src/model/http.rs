//! The subset of HTTP that Codex needs: one request per connection, and responses that close it.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

/// Maximum size of a request head.
const MAX_HEAD: usize = 256 * 1024;
/// Maximum size of a request body. A long conversation with images has several megabytes.
const MAX_BODY: usize = 64 * 1024 * 1024;
/// Maximum number of headers of a request.
const MAX_HEADERS: usize = 100;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("read the request")]
    Io(#[from] io::Error),
    #[error("not HTTP")]
    Http(#[from] httparse::Error),
    #[error("the request is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the connection ended within the request")]
    Ended,
    #[error("the body's length is missing or not a number")]
    Length,
}

/// A received request.
#[derive(Debug, PartialEq)]
pub(super) struct HttpRequest {
    pub(super) method: String,
    pub(super) path: String,
    /// The headers, keyed by lower-case names.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Vec<u8>,
}

/// Reads one complete request.
pub(super) fn read(from: &mut impl Read) -> Result<HttpRequest, Error> {
    let mut buffer = Vec::new();
    let (mut message, head) = loop {
        if let Some(parsed) = head(&buffer)? {
            break parsed;
        }
        more(from, &mut buffer, MAX_HEAD)?;
    };
    let mut rest = buffer.split_off(head);
    let chunked =
        message.headers.get("transfer-encoding").is_some_and(|coding| coding.contains("chunked"));
    message.body = if chunked {
        read_chunks(from, rest)?
    } else {
        let length = length(&message)?;
        while rest.len() < length {
            more(from, &mut rest, MAX_BODY)?;
        }
        rest.truncate(length);
        rest
    };
    Ok(message)
}

/// Writes the head of an answer, after which the connection is closed.
pub(super) fn write_head(
    to: &mut impl Write,
    status: u16,
    headers: &BTreeMap<String, String>,
) -> io::Result<()> {
    let mut text = format!("HTTP/1.1 {status} Scripted\r\nconnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    to.write_all(text.as_bytes())?;
    to.flush()
}

/// Decodes percent-encoding in a part of a path. Returns `None` if the result is not text.
pub(super) fn percent_decode(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        bytes.push(match first {
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                rest = after;
                hex(digits)?
            }
            byte => *byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn hex(digits: &[u8]) -> Option<u8> {
    let value = |digit: &u8| char::from(*digit).to_digit(16);
    let number = digits.iter().try_fold(0, |number, digit| Some(number * 16 + value(digit)?))?;
    u8::try_from(number).ok()
}

fn head(buffer: &[u8]) -> Result<Option<(HttpRequest, usize)>, Error> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = request.parse(buffer)? else { return Ok(None) };
    let headers = request.headers.iter().map(|header| {
        (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).into_owned())
    });
    let message = HttpRequest {
        method: request.method.unwrap_or_default().to_owned(),
        path: request.path.unwrap_or_default().to_owned(),
        headers: headers.collect(),
        body: Vec::new(),
    };
    Ok(Some((message, length)))
}

fn length(message: &HttpRequest) -> Result<usize, Error> {
    let Some(length) = message.headers.get("content-length") else { return Ok(0) };
    let length = length.trim().parse().map_err(|_| Error::Length)?;
    if length > MAX_BODY { Err(Error::TooLarge(MAX_BODY)) } else { Ok(length) }
}

fn read_chunks(from: &mut impl Read, mut rest: Vec<u8>) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    loop {
        let httparse::Status::Complete((start, size)) =
            httparse::parse_chunk_size(&rest).map_err(|_| Error::Length)?
        else {
            more(from, &mut rest, MAX_BODY)?;
            continue;
        };
        let size = usize::try_from(size).map_err(|_| Error::TooLarge(MAX_BODY))?;
        // Each chunk, including the empty last one, is followed by a line break.
        let end = start.saturating_add(size).saturating_add(2);
        while rest.len() < end {
            more(from, &mut rest, MAX_BODY)?;
        }
        if size == 0 {
            return Ok(body);
        }
        body.extend_from_slice(&rest[start..start + size]);
        rest.drain(..end);
        if body.len() > MAX_BODY {
            return Err(Error::TooLarge(MAX_BODY));
        }
    }
}

fn more(from: &mut impl Read, buffer: &mut Vec<u8>, limit: usize) -> Result<(), Error> {
    if buffer.len() > limit {
        return Err(Error::TooLarge(limit));
    }
    let mut piece = [0; 16 * 1024];
    match from.read(&mut piece)? {
        0 => Err(Error::Ended),
        length => {
            buffer.extend_from_slice(&piece[..length]);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns a few bytes at a time, like a network.
    struct Slowly<'a>(&'a [u8]);

    impl Read for Slowly<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.0.len().min(3);
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    #[test]
    fn body_is_read_by_length_or_chunks() {
        for text in [
            "POST /v1/responses HTTP/1.1\r\nThread-Id: t\r\nContent-Length: 5\r\n\r\nhello",
            "POST /v1/responses HTTP/1.1\r\nThread-Id: t\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        ] {
            let message = read(&mut Slowly(text.as_bytes())).unwrap();
            assert_eq!((message.method.as_str(), message.path.as_str()), ("POST", "/v1/responses"));
            assert_eq!(message.headers["thread-id"], "t");
            assert_eq!(message.body, b"hello");
        }
    }

    #[test]
    fn truncated_invalid_and_large_requests_fail() {
        let refused = |text: &str| read(&mut Slowly(text.as_bytes())).unwrap_err().to_string();
        assert_eq!(
            refused("POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nhel"),
            Error::Ended.to_string()
        );
        assert_eq!(refused("\u{1}\r\n\r\n"), "not HTTP");
        assert_eq!(
            refused("POST / HTTP/1.1\r\ncontent-length: 999999999\r\n\r\n"),
            Error::TooLarge(MAX_BODY).to_string()
        );
        assert_eq!(
            refused("POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n"),
            Error::Length.to_string()
        );
    }

    #[test]
    fn path_segment_is_percent_decoded() {
        let read = |part| percent_decode(part);
        assert_eq!(read("the%20front%2Fdoor").as_deref(), Some("the front/door"));
        assert_eq!(read("t%C3%BCr").as_deref(), Some("t\u{fc}r"));
        for wrong in ["%", "%2", "%zz", "%+1", "%FF"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn answer_closes_the_connection() {
        let mut out = Vec::new();
        write_head(&mut out, 429, &BTreeMap::from([("a".to_owned(), "b".to_owned())])).unwrap();
        assert_eq!(out, b"HTTP/1.1 429 Scripted\r\nconnection: close\r\na: b\r\n\r\n");
    }
}
