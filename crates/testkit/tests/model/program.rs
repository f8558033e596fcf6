//! The server as a separate program, and its control over HTTP.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use provost_testkit::eventually;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_scripted-model");

const SCENARIO: &str = r#"
[[thread]]
turn = [{ response = [{ items = [{ hold = "front door" }, { message = "open" }] }] }]
"#;

/// The program with a scenario. It exits when its stdin is closed.
struct ModelProgram {
    child: Child,
    port: u16,
}

impl ModelProgram {
    fn start(dir: &Path, scenario: &str) -> Self {
        let (file, port) = (dir.join("scenario.toml"), dir.join("port"));
        std::fs::write(&file, scenario).expect("the scenario can be written");
        let mut command = Command::new(PROGRAM);
        command.arg(&file).arg("--port-file").arg(&port).arg("--until-eof");
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("the program starts");
        let port = eventually("the port", || std::fs::read_to_string(&port));
        Self { child, port: port.parse().expect("a port is a number") }
    }

    /// Sends a request and returns the status line and the body.
    fn ask(&self, method: &str, path: &str, body: &str) -> (String, String) {
        let mut stream = self.send(method, path, body);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the answer ends");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
        (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
    }

    fn send(&self, method: &str, path: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the program listens");
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nthread-id: t\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .expect("the request can be sent");
        stream
    }

    fn state(&self) -> Value {
        serde_json::from_str(&self.ask("GET", "/control/state", "").1).expect("the state is JSON")
    }

    fn end(mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        eventually("the program's end", || self.child.try_wait().expect("the program can be asked"))
            .code()
    }
}

#[test]
fn program_serves_scenario_and_control_api() {
    let dir = tempfile::tempdir().unwrap();
    let program = ModelProgram::start(dir.path(), SCENARIO);
    assert_eq!(program.state()["left_over"], json!(["thread 1: taken 0 of 1 times"]));
    let mut stream = program.send("POST", "/v1/responses", r#"{"model":"m","input":[]}"#);
    eventually("the hold", || (program.state()["held"] == json!(["front door"])).then_some(()));
    program.ask("POST", "/control/release/front%20door", "");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("response.completed"),
        "{answer}"
    );
    let asked: Value =
        serde_json::from_str(&program.ask("GET", "/control/requests", "").1).unwrap();
    assert_eq!((&asked[0]["thread"], &asked[0]["outcome"]), (&json!("t"), &json!("Answered")));
    assert_eq!(program.state()["left_over"], json!([]));
    assert_eq!(program.end(), Some(0));
}

#[test]
fn unknown_paths_are_refused_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let program = ModelProgram::start(dir.path(), "");
    assert_eq!(program.ask("GET", "/v1/models", "").0, "HTTP/1.1 200 Scripted");
    assert_eq!(program.ask("POST", "/v1/nothing", "{}").0, "HTTP/1.1 404 Scripted");
    assert_eq!(program.ask("POST", "/v1/responses", "not json").0, "HTTP/1.1 404 Scripted");
    let (status, body) = program.ask("POST", "/v1/responses", "{}");
    assert_eq!(status, "HTTP/1.1 500 Scripted");
    assert!(body.contains("not scripted: no thread is scripted"), "{body}");
    assert_eq!(program.state()["unexpected"].as_array().map(Vec::len), Some(3));
    assert_eq!(program.end(), Some(0));
}

#[test]
fn bad_usage_and_scenarios_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let bad = dir.path().join("bad.toml");
    std::fs::write(&bad, "[[thread]]\nturns = []").unwrap();
    let run = |args: &[&str]| Command::new(PROGRAM).args(args).output().unwrap();
    let code_and_stderr =
        |output: Output| (output.status.code(), String::from_utf8(output.stderr).unwrap());
    for (args, why) in [
        (&[][..], "a scenario is missing"),
        (&["x", "--prot", "1"], "unknown option `--prot`"),
        (&["x", "--port", "y"], "--port needs a number"),
        (&["/nonexistent.toml"], "read the scenario /nonexistent.toml"),
        (&[bad.to_str().unwrap()], "unknown key `turns`; did you mean `turn`?"),
    ] {
        let (code, stderr) = code_and_stderr(run(args));
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains(why), "no {why:?} in {stderr}");
    }
}
