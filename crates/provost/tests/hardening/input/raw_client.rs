//! A client of the daemon's socket that can violate the protocol.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use provost_testkit::TestHome;
use serde_json::Value;

/// Timeout for a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

/// Opens a connection to the daemon.
pub(super) fn connect(home: &TestHome) -> UnixStream {
    let stream = UnixStream::connect(home.path().join("daemon.sock")).expect("the daemon listens");
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT)).expect("a connection takes a limit");
    stream.set_write_timeout(Some(RESPONSE_TIMEOUT)).expect("a connection takes a limit");
    stream
}

/// Sends bytes that are not a request, and returns everything received until the daemon closes the connection.
pub(super) fn send_raw(home: &TestHome, bytes: &[u8]) -> String {
    let mut stream = connect(home);
    // The daemon may respond and close before it has read everything.
    drop(stream.write_all(bytes));
    drop(stream.shutdown(std::net::Shutdown::Write));
    read_all(stream)
}

/// Sends a request with `connection: close` and returns the whole response.
pub(super) fn send_request(home: &TestHome, bytes: &[u8]) -> String {
    let mut stream = connect(home);
    // The daemon may respond and close before it has read everything.
    drop(stream.write_all(bytes));
    read_all(stream)
}

fn read_all(mut stream: UnixStream) -> String {
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    String::from_utf8_lossy(&answer).into_owned()
}

/// Posts a body and returns the status and body of the response.
pub(super) fn post(home: &TestHome, path: &str, body: &[u8]) -> (u16, Value) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let answer = send_request(home, &[head.as_bytes(), body].concat());
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    let json = serde_json::from_str(body).unwrap_or_else(|_| Value::String(answer.clone()));
    (status, json)
}
