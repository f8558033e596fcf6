//! A bare client for an app-server on a Unix socket, with only the WebSocket features that it needs
//! to receive the same messages as Provost.

use std::{
    io::{BufReader, Read, Write},
    net::Shutdown,
    os::{fd::AsRawFd, unix::net::UnixStream},
    path::Path,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// The FIN bit of a frame, and the opcodes.
const LAST: u8 = 0x80;
const MORE: u8 = 0x0;
const TEXT: u8 = 0x1;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;
/// Maximum size of a frame in bytes. The scenario's messages are smaller.
const MAX_FRAME: u64 = 16 << 20;

/// An open connection.
pub(crate) struct Socket {
    reader: BufReader<UnixStream>,
}

/// Closes a connection from another thread.
pub(crate) struct SocketCloser(UnixStream);

impl SocketCloser {
    pub(crate) fn close(&self) -> Result<()> {
        self.0.shutdown(Shutdown::Both).context("hang up")
    }
}

impl Socket {
    pub(crate) fn connect(path: &Path) -> Result<Socket> {
        let dir = std::fs::File::open(path.parent().context("the socket path has no directory")?)?;
        let name = path.file_name().context("the socket path has no file name")?;
        // The path uses the directory's descriptor, because it may exceed the length of a socket
        // address.
        let short = Path::new(&format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name);
        let mut socket = Socket { reader: BufReader::new(UnixStream::connect(short)?) };
        socket.upgrade()?;
        Ok(socket)
    }

    /// Returns a handle that closes the connection.
    pub(crate) fn closer(&self) -> Result<SocketCloser> {
        Ok(SocketCloser(self.reader.get_ref().try_clone()?))
    }

    /// Sends a request and waits for its response. Skips messages that arrive before it.
    pub(crate) fn call(&mut self, id: u64, method: &str, params: Value) -> Result<Value> {
        self.write(&json!({"id": id, "method": method, "params": params}))?;
        loop {
            let bytes = self.read()?.context("the app-server closed the connection")?;
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

    /// Reads the next message, or `None` at the end of the connection.
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
            bail!("not a WebSocket response: {}", String::from_utf8_lossy(&answer));
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
        ensure!(length <= MAX_FRAME, "frame too long: {length} bytes");
        let mut payload = Vec::new();
        (&mut self.reader).take(length).read_to_end(&mut payload)?;
        Ok(Some((head[0], payload)))
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Sends one message as a single frame. Clients must mask their frames; the zero mask does not
    /// change the payload.
    fn frame(&mut self, kind: u8, payload: &[u8]) -> Result<()> {
        let mut frame = vec![LAST | kind];
        match u16::try_from(payload.len()) {
            Ok(length @ ..126) => frame.push(0x80 | length.to_be_bytes()[1]),
            Ok(length) => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&length.to_be_bytes());
            }
            Err(_) => bail!("message too long: {} bytes", payload.len()),
        }
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(payload);
        self.reader.get_mut().write_all(&frame).context("the app-server closed the connection")
    }
}
