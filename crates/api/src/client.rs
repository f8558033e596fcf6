//! A small blocking HTTP client over a Unix socket.
//!
//! One request per connection. A reply says how long it is or comes in chunks, so one that was cut off is
//! an error and never a shorter answer.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::de::DeserializeOwned;

use crate::{ApiError, Code, ErrorBody, IDEMPOTENCY_KEY, body::Body};

/// The longest head of a reply that is read.
const MAX_HEAD: usize = 64 << 10;

/// How long a reply that is no stream may take.
const REPLY_TIME: Duration = Duration::from_secs(120);

/// Talks with the daemon behind one socket.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
}

/// A whole reply.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub body: Vec<u8>,
}

/// A reply that is read as it comes.
#[derive(Debug)]
pub struct StreamReply {
    reader: BufReader<ReplyBody>,
}

type ReplyBody = Body<BufReader<UnixStream>>;

impl Client {
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Client { socket: socket.into() }
    }

    /// Asks for something and reads the JSON answer.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.call("GET", path, None, None)?.json()
    }

    /// Changes something. The key makes sure that it happens once.
    pub fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl serde::Serialize,
        key: &str,
    ) -> Result<T, ApiError> {
        let body = serde_json::to_vec(body).map_err(|why| {
            ApiError::new(Code::Internal, format!("cannot write the request: {why}"))
        })?;
        self.call("POST", path, Some(&body), Some(key))?.json()
    }

    /// Sends a request and reads the whole reply.
    pub fn call(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
        key: Option<&str>,
    ) -> Result<Reply, ApiError> {
        let stream = self.send(method, path, body, key, &[])?;
        stream.set_read_timeout(Some(REPLY_TIME)).map_err(|why| self.broken(&why))?;
        let (status, mut reader) = read_head(stream).map_err(|why| self.broken(&why))?;
        let mut body = Vec::new();
        reader.read_to_end(&mut body).map_err(|why| self.broken(&why))?;
        Ok(Reply { status, body })
    }

    /// Opens a stream of lines; `last_event_id` resumes an event stream exactly.
    pub fn stream(&self, path: &str, last_event_id: Option<u64>) -> Result<StreamReply, ApiError> {
        let header = last_event_id.map(|id| ("last-event-id", id.to_string()));
        let stream = self.send("GET", path, None, None, header.as_slice())?;
        let (status, mut reader) = read_head(stream).map_err(|why| self.broken(&why))?;
        if status == 200 {
            return Ok(StreamReply { reader: BufReader::new(reader) });
        }
        let mut body = Vec::new();
        reader.read_to_end(&mut body).map_err(|why| self.broken(&why))?;
        Err(Reply { status, body }.error())
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
        key: Option<&str>,
        headers: &[(&str, String)],
    ) -> Result<UnixStream, ApiError> {
        let mut stream = connect(&self.socket).map_err(|why| self.unreachable(&why))?;
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nhost: provost\r\nconnection: close\r\n");
        if let Some(key) = key {
            head.push_str(&format!("{IDEMPOTENCY_KEY}: {key}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = body {
            head.push_str("content-type: application/json\r\n");
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        // At once: a server that answers before it has read everything must not cut the request in two.
        let mut request = head.into_bytes();
        request.extend_from_slice(body.unwrap_or_default());
        stream.write_all(&request).map_err(|why| self.broken(&why))?;
        Ok(stream)
    }

    fn unreachable(&self, why: &io::Error) -> ApiError {
        let message = format!("no daemon answers at {}: {why}", self.socket.display());
        ApiError::new(Code::Unreachable, message).next("provost daemon status")
    }

    fn broken(&self, why: &dyn std::fmt::Display) -> ApiError {
        let message = format!("the daemon's connection broke: {why}");
        ApiError::new(Code::Unreachable, message).next("provost daemon status")
    }
}

/// Connects to a socket whose path may be longer than the kernel's limit, through its directory.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    let (Some(dir), Some(name)) = (socket.parent(), socket.file_name()) else {
        return UnixStream::connect(socket);
    };
    let dir = std::fs::File::open(dir)?;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&dir);
    UnixStream::connect(Path::new(&format!("/proc/self/fd/{fd}")).join(name))
}

fn read_head(stream: UnixStream) -> io::Result<(u16, ReplyBody)> {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let before = head.len();
        reader.read_until(b'\n', &mut head)?;
        if head.len() == before || head.len() > MAX_HEAD {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "no whole reply head"));
        }
    }
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut headers);
    response.parse(&head).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
    let status = response.code.unwrap_or(0);
    let length = response
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("content-length"))
        .and_then(|header| std::str::from_utf8(header.value).ok()?.parse().ok());
    let body = match length {
        Some(length) => Body::of_length(reader, length),
        None => Body::in_chunks(reader),
    };
    Ok((status, body))
}

impl Reply {
    /// Reads the answer, or the error that came instead.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        if self.status != 200 {
            return Err(self.error());
        }
        serde_json::from_slice(&self.body).map_err(|why| {
            let message = format!("the daemon's answer cannot be read: {why}");
            ApiError::new(Code::Internal, message).next("provost daemon stop")
        })
    }

    fn error(&self) -> ApiError {
        match serde_json::from_slice::<ErrorBody>(&self.body) {
            Ok(body) => body.error,
            Err(_) => {
                let text = String::from_utf8_lossy(&self.body[..self.body.len().min(200)]);
                let message = format!("the daemon answered {} {text:?}", self.status);
                ApiError::new(Code::Internal, message)
            }
        }
    }
}

impl StreamReply {
    /// Reads the next line without its end; `None` when the daemon closed the stream.
    pub fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        match self.reader.read_line(&mut line)? {
            0 => Ok(None),
            _ => Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned())),
        }
    }

    /// Gives the raw rest of the reply.
    pub fn into_reader(self) -> impl Read {
        self.reader
    }
}
