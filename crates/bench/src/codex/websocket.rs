//! A bare client of an app-server that listens on a Unix socket: just enough of a WebSocket to be sent what
//! Provost is sent.

use std::{
    io::{BufReader, Read, Write},
    net::Shutdown,
    os::{fd::AsRawFd, unix::net::UnixStream},
    path::Path,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// The bit of the last frame of a message, and the kinds of frames.
const LAST: u8 = 0x80;
const MORE: u8 = 0x0;
const TEXT: u8 = 0x1;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;
/// No message of the scenario is longer.
const MAX_FRAME: u64 = 16 << 20;

/// A connection that stands.
pub(crate) struct Socket {
    reader: BufReader<UnixStream>,
}

/// Ends a connection from another thread.
pub(crate) struct Hangup(UnixStream);

impl Hangup {
    pub(crate) fn hang_up(&self) -> Result<()> {
        self.0.shutdown(Shutdown::Both).context("hang up")
    }
}

impl Socket {
    pub(crate) fn connect(path: &Path) -> Result<Socket> {
        let dir = std::fs::File::open(path.parent().context("a directory")?)?;
        let name = path.file_name().context("a name")?;
        // Through the directory, for its path may be longer than a socket's address.
        let short = Path::new(&format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name);
        let mut socket = Socket { reader: BufReader::new(UnixStream::connect(short)?) };
        socket.upgrade()?;
        Ok(socket)
    }

    /// Gives what ends the connection.
    pub(crate) fn hangup(&self) -> Result<Hangup> {
        Ok(Hangup(self.reader.get_ref().try_clone()?))
    }

    /// Asks for something and waits for the answer; what comes before it is passed over.
    pub(crate) fn call(&mut self, id: u64, method: &str, params: Value) -> Result<Value> {
        self.write(&json!({"id": id, "method": method, "params": params}))?;
        loop {
            let bytes = self.read()?.context("the app-server left")?;
            let message: Value = serde_json::from_slice(&bytes)?;
            if message["id"] == id && message["method"].is_null() {
                ensure!(message["error"].is_null(), "{method}: {message}");
                return Ok(message["result"].clone());
            }
        }
    }

    pub(crate) fn write(&mut self, message: &Value) -> Result<()> {
        self.frame(TEXT, message.to_string().as_bytes())
    }

    /// Reads the next message; none when the connection is at its end.
    pub(crate) fn read(&mut self) -> Result<Option<Vec<u8>>> {
        let mut message = Vec::new();
        loop {
            let Some((first, payload)) = self.read_frame()? else { return Ok(None) };
            match first & 0xf {
                MORE | TEXT => message.extend_from_slice(&payload),
                PING => self.frame(PONG, &payload)?,
                PONG => {}
                _ => return Ok(None),
            }
            if first & LAST != 0 && matches!(first & 0xf, MORE | TEXT) {
                return Ok(Some(message));
            }
        }
    }

    fn upgrade(&mut self) -> Result<()> {
        let request = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n";
        self.reader.get_mut().write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.reader.read_exact(&mut byte)?;
            answer.push(byte[0]);
        }
        if !answer.starts_with(b"HTTP/1.1 101") {
            bail!("no WebSocket: {}", String::from_utf8_lossy(&answer));
        }
        Ok(())
    }

    fn read_frame(&mut self) -> Result<Option<(u8, Vec<u8>)>> {
        let mut head = [0; 2];
        if self.reader.read_exact(&mut head).is_err() {
            return Ok(None);
        }
        let length = match head[1] & 0x7f {
            126 => u64::from(u16::from_be_bytes(self.bytes()?)),
            127 => u64::from_be_bytes(self.bytes()?),
            short => u64::from(short),
        };
        ensure!(length <= MAX_FRAME, "a frame of {length} bytes");
        let mut payload = Vec::new();
        (&mut self.reader).take(length).read_to_end(&mut payload)?;
        Ok(Some((head[0], payload)))
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Sends one whole message. A client has to mask what it sends; with nothing it stays as it is.
    fn frame(&mut self, kind: u8, payload: &[u8]) -> Result<()> {
        let mut frame = vec![LAST | kind];
        match u16::try_from(payload.len()) {
            Ok(length @ ..126) => frame.push(0x80 | length.to_be_bytes()[1]),
            Ok(length) => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&length.to_be_bytes());
            }
            Err(_) => bail!("a message of {} bytes", payload.len()),
        }
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(payload);
        self.reader.get_mut().write_all(&frame).context("the app-server left")
    }
}
