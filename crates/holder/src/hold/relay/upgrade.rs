//! The handshake that upgrades a new connection to a WebSocket (RFC 6455, section 4).

use std::io::{self, Read};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

/// The maximum length of a server's response.
const MAX_ANSWER: usize = 8 << 10;
/// The maximum length of a quotation from a rejection.
const MAX_QUOTED: usize = 100;
/// The constant that the protocol appends to a key before hashing it.
const MAGIC: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A handshake in progress. The request was sent, and part of the response may have been read.
pub(super) struct Upgrade {
    key: String,
    answer: Vec<u8>,
}

impl Upgrade {
    pub(super) fn new(random: [u8; 16]) -> Self {
        Self { key: STANDARD.encode(random), answer: Vec::new() }
    }

    pub(super) fn request(&self) -> String {
        let key = &self.key;
        format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
    }

    /// Reads the response byte by byte, so that the bytes after it remain in the socket. Returns
    /// true once the response is complete. Fails if the server did not accept the upgrade.
    pub(super) fn read(&mut self, mut stream: impl Read) -> io::Result<bool> {
        while !self.answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            match stream.read(&mut byte) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => self.answer.push(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.answer.len() > MAX_ANSWER {
                return Err(io::Error::other("the response is too long"));
            }
        }
        self.check().map(|()| true)
    }

    fn check(&self) -> io::Result<()> {
        let text = String::from_utf8_lossy(&self.answer);
        let mut lines = text.split("\r\n");
        let status = lines.next().unwrap_or_default();
        if status.split(' ').nth(1) != Some("101") {
            let status: String = status.chars().take(MAX_QUOTED).collect();
            return Err(io::Error::other(format!("the response is {status:?}")));
        }
        let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
        let value = |name: &str| {
            let found = headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.trim())
        };
        let upgraded = value("upgrade").is_some_and(|to| to.eq_ignore_ascii_case("websocket"));
        if !upgraded || value("sec-websocket-accept") != Some(&accept(&self.key)) {
            return Err(io::Error::other("the response is not a WebSocket upgrade"));
        }
        Ok(())
    }
}

/// Returns the value that a server must send to accept this key.
fn accept(key: &str) -> String {
    STANDARD.encode(Sha1::digest(format!("{key}{MAGIC}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example from the RFC.
    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
    const GOOD: &str = "HTTP/1.1 101 Switching Protocols\r\nUPGRADE: WebSocket\r\nconnection: Upgrade\r\n\
         sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

    fn read(answer: &str) -> (io::Result<bool>, usize) {
        let mut upgrade = Upgrade { key: KEY.into(), answer: Vec::new() };
        let mut rest = answer.as_bytes();
        (upgrade.read(&mut rest), rest.len())
    }

    #[test]
    fn rfc_answer_is_accepted_and_read_exactly() {
        let (result, rest) = read(&format!("{GOOD}next"));
        assert!(result.unwrap());
        assert_eq!(rest, 4);
    }

    #[test]
    fn other_answers_are_refused_with_reason() {
        let refused = |answer: &str, why: &str| {
            let error = read(answer).0.unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        refused(&GOOD.replace("101 Switching", "403 Forbidden"), "HTTP/1.1 403 Forbidden");
        refused(&GOOD.replace("s3pPL", "S3pPL"), "not a WebSocket upgrade");
        refused(&GOOD.replace("WebSocket", "h2c"), "not a WebSocket upgrade");
        refused(&GOOD.replace("\r\n\r\n", ""), "unexpected end of file");
        refused(&"x".repeat(MAX_ANSWER + 1), "is too long");
    }
}
