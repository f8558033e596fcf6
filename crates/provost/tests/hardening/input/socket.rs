//! Requests that no Provost client sends.

use std::io::Write as _;
use std::os::unix::net::UnixStream;

use provost_testkit::TestHome;
use provost_testkit::harness::string_value;

use super::raw_client::{connect, post, send_raw, send_request};

/// Number of idle connections that must not keep other clients out.
const IDLE: usize = 1_000;

fn home_with_session() -> (TestHome, String) {
    let home = TestHome::with_short_windows();
    let id = home.spawn(&["--", "sleep", "600"]);
    home.wait_state(&id, |row| row["launches"][0]["phase"] == "running");
    (home, id)
}

#[test]
fn malformed_report_is_refused_and_not_recorded() {
    let (home, id) = home_with_session();
    let before = home.ledger_records().len();
    let session = format!("\"session\":\"{id}\"");
    for (body, expected) in [
        ("not json".to_owned(), "expected"),
        ("{".to_owned(), "expected"),
        ("[1]".to_owned(), "expected"),
        ("{}".to_owned(), "a claim, a fact with its value, or progress"),
        (format!("{{{session}}}"), "a claim, a fact with its value, or progress"),
        (format!("{{{session},\"claim\":7}}"), "expected a string"),
        (
            format!("{{{session},\"claim\":\"done\"}}"),
            "expected working, needs_input, completed or failed",
        ),
        (format!("{{{session},\"claim\":\"none\"}}"), "expected working"),
        (
            format!("{{{session},\"fact\":\"colour\",\"value\":\"red\"}}"),
            "expected branch, pr or artifact",
        ),
        (
            format!("{{{session},\"claim\":\"completed\",\"fact\":\"pr\",\"value\":\"x\"}}"),
            "a claim, a fact with its value, or progress",
        ),
        ("{\"claim\":\"completed\"}".to_owned(), "session"),
        ("{\"launch\":\"nonsense\",\"token\":\"t\",\"claim\":\"completed\"}".to_owned(), "launch"),
        (
            format!("{{{session},\"claim\":\"completed\",\"text\":\"{}\"}}", "x".repeat(600 << 10)),
            "the limit is",
        ),
        (
            format!("{{{session},\"claim\":\"completed\",\"text\":\"{}\"}}", "x".repeat(9 << 20)),
            "at most",
        ),
    ] {
        let (status, answer) = post(&home, "/v1/reports", body.as_bytes());
        let shown: String = body.chars().take(80).collect();
        assert_eq!(status, 400, "{shown}: {answer}");
        assert_eq!(answer["ok"], false, "{shown}: {answer}");
        assert_eq!(answer["error"]["code"], "bad_request", "{shown}");
        let message = string_value(&answer["error"]["message"]);
        assert!(message.contains(expected), "{shown}: {message}");
    }
    let launch = format!("{{\"launch\":\"{id}.l1\",\"token\":\"wrong\",\"claim\":\"completed\"}}");
    let (status, answer) = post(&home, "/v1/reports", launch.as_bytes());
    assert_eq!((status, &answer["error"]["code"]), (403, &"forbidden".into()), "{answer}");
    assert_eq!(home.ledger_records().len(), before, "nothing was recorded");
}

#[test]
fn invalid_utf8_in_a_body_is_refused() {
    let (home, id) = home_with_session();
    let body = [b"{\"session\":\"", id.as_bytes(), b"\",\"claim\":\"\xff\xfe\"}"].concat();
    let (status, answer) = post(&home, "/v1/reports", &body);
    assert_eq!((status, &answer["error"]["code"]), (400, &"bad_request".into()), "{answer}");
}

#[test]
fn unknown_paths_and_methods_are_errors() {
    let (home, _) = home_with_session();
    let (status, answer) = post(&home, "/v1/nothing", b"{}");
    assert_eq!((status, &answer["error"]["code"]), (404, &"not_found".into()), "{answer}");
    let answer = send_request(
        &home,
        b"DELETE /v1/sessions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    );
    assert!(answer.contains("\"ok\":false"), "{answer}");
    let answer = send_request(
        &home,
        b"GET /v1/sessions?limit=many HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    );
    assert!(answer.contains("\"ok\":false"), "{answer}");
}

#[test]
fn junk_instead_of_http_is_harmless() {
    let (home, id) = home_with_session();
    let noise: Vec<u8> =
        (0..1_000_000_u32).map(|no| no.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    for junk in [
        &b"\0\0\0\0"[..],
        b"hello\n",
        b"GET\r\n\r\n",
        b"POST /v1/reports HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n",
        b"POST /v1/reports HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/reports HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        &noise,
    ] {
        let answer = send_raw(&home, junk);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let long = [b"GET /".to_vec(), vec![b'a'; 4 << 20], b" HTTP/1.1\r\n\r\n".to_vec()].concat();
    let answer = send_raw(&home, &long);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    assert_answers(&home, &id);
}

#[test]
fn partial_and_idle_connections_block_no_client() {
    let (home, id) = home_with_session();
    let mut half = connect(&home);
    half.write_all(b"POST /v1/reports HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{\"cla")
        .expect("half a request can be sent");
    let idle: Vec<UnixStream> = (0..IDLE).map(|_| connect(&home)).collect();
    assert_answers(&home, &id);
    // The daemon stops cleanly although these connections are still open.
    home.provost(&["cancel", &id]).ok();
    home.wait_sealed(&id);
    home.daemon().stop();
    drop((half, idle));
    home.assert_ledger_verified();
}

#[track_caller]
fn assert_answers(home: &TestHome, id: &str) {
    assert_eq!(home.provost(&["status", id, "--json"]).ok().json()["id"], id);
    let log = std::fs::read_to_string(home.path().join("log/daemon.log")).unwrap_or_default();
    assert!(!log.contains("panicked"), "{log}");
}
