//! A small blocking HTTP client over a Unix socket.
//!
//! Each connection carries one request. A reply has a length or is chunked, so a truncated reply is
//! an error and cannot be mistaken for a shorter one.

use std::{
    fmt,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with,
    sockopt::{Timeout, set_socket_timeout},
};
use serde::de::DeserializeOwned;

use crate::{ApiError, ErrorBody, ErrorCode, Hint, IDEMPOTENCY_KEY, body::Body};

/// Maximum length of the head of a reply.
const MAX_HEAD: usize = 64 << 10;

/// Timeout for accepting a connection, for starting a reply, and between two parts of a reply. Once
/// a stream has started, it has no timeout.
const REPLY_TIME: Duration = Duration::from_secs(120);

/// Maximum number of times the daemon is restarted for one request.
const MAX_REVIVALS: u32 = 5;

/// A client for the daemon that listens on a socket.
#[derive(Clone)]
pub struct Client {
    socket: PathBuf,
    deadline: Duration,
    revive: Option<RestartFn>,
}

/// Restarts a stopped daemon, or returns the reason why the request must not be retried.
type RestartFn = Arc<dyn Fn(DaemonLoss) -> Result<(), ApiError> + Send + Sync>;

/// The way in which the connection was lost before the daemon replied. A request can be retried,
/// because its idempotency key prevents the daemon from applying it twice.
#[derive(Clone, Debug)]
pub enum DaemonLoss {
    /// No process is listening.
    NotListening,
    /// The process with this pid accepted the connection and closed it without a reply.
    ClosedWithoutReply { pid: u32, error: ApiError },
}

/// The reason why a request has no reply.
enum RequestFailure {
    Lost(DaemonLoss, Box<ApiError>),
    Broken(ApiError),
}

impl From<RequestFailure> for ApiError {
    fn from(failed: RequestFailure) -> ApiError {
        match failed {
            RequestFailure::Lost(_, error) => *error,
            RequestFailure::Broken(error) => error,
        }
    }
}

/// A complete reply.
#[derive(Debug)]
pub struct HttpReply {
    pub status: u16,
    pub body: Vec<u8>,
}

/// A streaming reply.
#[derive(Debug)]
pub struct StreamReply {
    reader: BufReader<ReplyBody>,
}

type ReplyBody = Body<BufReader<UnixStream>>;

impl fmt::Debug for Client {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Client").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Client {
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Client { socket: socket.into(), deadline: REPLY_TIME, revive: None }
    }

    /// Returns a client that uses this timeout for its requests.
    #[must_use]
    pub fn with_timeout(self, deadline: Duration) -> Self {
        Client { deadline, ..self }
    }

    /// Returns a client that restarts the daemon with this function, and retries the request, if
    /// the daemon stops before it replies.
    #[must_use]
    pub fn with_restart(
        mut self,
        revive: impl Fn(DaemonLoss) -> Result<(), ApiError> + Send + Sync + 'static,
    ) -> Self {
        self.revive = Some(Arc::new(revive));
        self
    }

    /// Sends a GET request and parses the JSON reply.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.call("GET", path, None, None)?.json()
    }

    /// Sends a request that changes something. The idempotency key ensures that it is applied only
    /// once.
    pub fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl serde::Serialize,
        key: &str,
    ) -> Result<T, ApiError> {
        let body = serde_json::to_vec(body).map_err(|why| {
            ApiError::new(ErrorCode::Internal, format!("cannot serialize the request: {why}"))
        })?;
        self.call("POST", path, Some(&body), Some(key))?.json()
    }

    /// Sends a request and reads the complete reply.
    pub fn call(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
        key: Option<&str>,
    ) -> Result<HttpReply, ApiError> {
        let (status, mut reader) = self.with_retries(|| {
            let (stream, pid) = self.send(method, path, body, key, &[])?;
            read_head(stream).map_err(|why| self.connection_lost(pid, &why))
        })?;
        let mut body = Vec::new();
        reader.read_to_end(&mut body).map_err(|why| self.connection_error(&why))?;
        Ok(HttpReply { status, body })
    }

    /// Opens a stream of lines. With `last_event_id`, an event stream resumes exactly after that
    /// event.
    pub fn stream(&self, path: &str, last_event_id: Option<u64>) -> Result<StreamReply, ApiError> {
        let header = last_event_id.map(|id| ("last-event-id", id.to_string()));
        let (status, mut reader) = self.with_retries(|| {
            let (stream, pid) = self.send("GET", path, None, None, header.as_slice())?;
            let patient = stream.try_clone().map_err(|why| self.connection_lost(pid, &why))?;
            let read = read_head(stream).map_err(|why| self.connection_lost(pid, &why))?;
            // The next data on a stream may arrive at any time.
            patient.set_read_timeout(None).map_err(|why| self.connection_lost(pid, &why))?;
            Ok(read)
        })?;
        if status == 200 {
            return Ok(StreamReply { reader: BufReader::new(reader) });
        }
        let mut body = Vec::new();
        reader.read_to_end(&mut body).map_err(|why| self.connection_error(&why))?;
        Err(HttpReply { status, body }.error())
    }

    /// Retries until the daemon replies, if the daemon can be restarted.
    fn with_retries<T>(&self, ask: impl Fn() -> Result<T, RequestFailure>) -> Result<T, ApiError> {
        for _ in 0..MAX_REVIVALS {
            match (ask(), &self.revive) {
                (Err(RequestFailure::Lost(lost, _)), Some(revive)) => revive(lost)?,
                (asked, _) => return Ok(asked?),
            }
        }
        Ok(ask()?)
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
        key: Option<&str>,
        headers: &[(&str, String)],
    ) -> Result<(UnixStream, Option<u32>), RequestFailure> {
        let mut stream = connect(&self.socket, self.deadline).map_err(|why| {
            if is_timeout(&why) {
                return RequestFailure::Broken(self.timeout_error());
            }
            RequestFailure::Lost(DaemonLoss::NotListening, Box::new(self.unreachable(&why)))
        })?;
        let pid = peer_pid(&stream);
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
        // Send everything in one write, because a server may reply before it has read the whole
        // request, and a second write would then fail.
        let mut request = head.into_bytes();
        request.extend_from_slice(body.unwrap_or_default());
        stream.write_all(&request).map_err(|why| self.connection_lost(pid, &why))?;
        Ok((stream, pid))
    }

    /// Classifies a broken connection. When a daemon stops, it closes the connections that it has
    /// not handled yet without replying.
    fn connection_lost(&self, pid: Option<u32>, why: &io::Error) -> RequestFailure {
        let error = self.connection_error(why);
        let closed = matches!(
            why.kind(),
            io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof
        );
        match pid {
            Some(pid) if closed => RequestFailure::Lost(
                DaemonLoss::ClosedWithoutReply { pid, error: error.clone() },
                Box::new(error),
            ),
            _ => RequestFailure::Broken(error),
        }
    }

    fn unreachable(&self, why: &io::Error) -> ApiError {
        let message = format!("no daemon is reachable at {}: {why}", self.socket.display());
        ApiError::new(ErrorCode::Unreachable, message).next(Hint::DaemonStatus)
    }

    fn connection_error(&self, why: &io::Error) -> ApiError {
        if is_timeout(why) {
            return self.timeout_error();
        }
        let message = format!("the connection to the daemon broke: {why}");
        ApiError::new(ErrorCode::Unreachable, message).next(Hint::DaemonStatus)
    }

    fn timeout_error(&self) -> ApiError {
        let seconds = self.deadline.as_secs();
        let message =
            format!("the daemon at {} did not respond within {seconds} s", self.socket.display());
        ApiError::new(ErrorCode::TimedOut, message).next(Hint::StopDaemon)
    }
}

/// Whether a socket operation timed out.
fn is_timeout(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Connects to a socket through its directory, because its path may exceed the kernel's length
/// limit. If the listener's queue is full, waits until the timeout.
fn connect(socket: &Path, deadline: Duration) -> io::Result<UnixStream> {
    let (Some(dir), Some(name)) = (socket.parent(), socket.file_name()) else {
        return UnixStream::connect(socket);
    };
    let dir = std::fs::File::open(dir)?;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&dir);
    let path = Path::new(&format!("/proc/self/fd/{fd}")).join(name);
    let own = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&own, Timeout::Send, Some(deadline))?;
    set_socket_timeout(&own, Timeout::Recv, Some(deadline))?;
    rustix::net::connect(&own, &SocketAddrUnix::new(&path)?)?;
    Ok(own.into())
}

/// Returns the pid of the listening process, as reported by the kernel.
fn peer_pid(stream: &UnixStream) -> Option<u32> {
    let found = rustix::net::sockopt::socket_peercred(stream).ok()?;
    u32::try_from(found.pid.as_raw_nonzero().get()).ok()
}

fn read_head(stream: UnixStream) -> io::Result<(u16, ReplyBody)> {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let before = head.len();
        reader.read_until(b'\n', &mut head)?;
        if head.len() == before || head.len() > MAX_HEAD {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the reply's head is incomplete",
            ));
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

impl HttpReply {
    /// Parses the reply as JSON, or returns the error that it contains.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        if self.status != 200 {
            return Err(self.error());
        }
        serde_json::from_slice(&self.body).map_err(|why| {
            let message = format!("cannot parse the daemon's reply: {why}");
            ApiError::new(ErrorCode::Internal, message).next(Hint::StopDaemon)
        })
    }

    fn error(&self) -> ApiError {
        match serde_json::from_slice::<ErrorBody>(&self.body) {
            Ok(body) => body.error,
            Err(_) => {
                let text = String::from_utf8_lossy(&self.body[..self.body.len().min(200)]);
                let message =
                    format!("the daemon replied with status {} and {text:?}", self.status);
                ApiError::new(ErrorCode::Internal, message)
            }
        }
    }
}

impl StreamReply {
    /// Reads the next line without its line ending, or returns `None` if the daemon closed the
    /// stream.
    pub fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        match self.reader.read_line(&mut line)? {
            0 => Ok(None),
            _ => Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned())),
        }
    }

    /// Returns a reader for the rest of the reply.
    pub fn into_reader(self) -> impl Read {
        self.reader
    }
}
