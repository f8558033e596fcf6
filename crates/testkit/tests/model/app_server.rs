//! A small client of `codex app-server` on stdio, for behavior that `exec` cannot show.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use provost_testkit::model::CodexHome;
use serde_json::{Value, json};

/// Time limit for an incoming message.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct TestAppServer {
    child: Child,
    stdin: ChildStdin,
    messages: Receiver<Value>,
    /// Messages that arrived while the client waited for another one, because responses and
    /// requests have no fixed order.
    unread: Vec<Value>,
    sent: u64,
    pub(crate) thread: String,
}

impl TestAppServer {
    /// Starts a server and a thread with these parameters.
    pub(crate) fn start(home: &CodexHome, codex: &Path, thread: Value) -> Self {
        let mut command = home.command(codex, &["app-server"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("Codex starts");
        let stdout = BufReader::new(child.stdout.take().expect("stdout was piped"));
        let (sender, messages) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let Ok(message) = serde_json::from_str(&line) else { continue };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take().expect("stdin was piped");
        let mut server =
            Self { child, stdin, messages, unread: Vec::new(), sent: 0, thread: String::new() };
        server.begin(thread);
        server
    }

    fn begin(&mut self, thread: Value) {
        let info = json!({"name": "testkit", "title": "Test kit", "version": "0"});
        let capabilities = json!({"experimentalApi": true});
        self.ask("initialize", json!({"clientInfo": info, "capabilities": capabilities}));
        self.send(&json!({"method": "initialized"}));
        let started = self.ask("thread/start", thread);
        self.thread = started["thread"]["id"].as_str().expect("a thread has an id").to_owned();
    }

    /// Starts a turn with this text. `extra` is added to its parameters.
    pub(crate) fn turn(&mut self, text: &str, extra: Value) {
        let mut params =
            json!({"threadId": self.thread, "input": [{"type": "text", "text": text}]});
        params
            .as_object_mut()
            .expect("it was made as an object")
            .extend(extra.as_object().cloned().unwrap_or_default());
        self.ask("turn/start", params);
    }

    /// Sends a request and waits for its result.
    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.sent += 1;
        let id = format!("t{}", self.sent);
        self.send(&json!({"id": id, "method": method, "params": params}));
        let answer = self.wait(&format!("the answer to {method}"), |message| message["id"] == id);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Waits for a request of the server, and returns its id and parameters.
    #[track_caller]
    pub(crate) fn asked(&mut self, method: &str) -> (Value, Value) {
        let message = self.wait(method, |message| message["method"] == method);
        (message["id"].clone(), message["params"].clone())
    }

    pub(crate) fn answer(&mut self, id: &Value, result: Value) {
        self.send(&json!({"id": id, "result": result}));
    }

    /// Waits for the end of the turn and returns its last message.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> String {
        let ended = self.wait("the turn's end", |message| message["method"] == "turn/completed");
        let turn = &ended["params"]["turn"];
        assert_eq!(turn["status"], "completed", "{turn}");
        turn["items"][0]["text"].as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    pub(crate) fn wait(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.unread.iter().position(&wanted) {
            return self.unread.remove(at);
        }
        loop {
            let message = self.messages.recv_timeout(TIMEOUT);
            let message =
                message.unwrap_or_else(|_| panic!("{what} did not arrive, but {:#?}", self.unread));
            if wanted(&message) {
                return message;
            }
            self.unread.push(message);
        }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").expect("Codex reads its input");
    }
}

impl Drop for TestAppServer {
    fn drop(&mut self) {
        self.child.kill().expect("Codex can be killed");
        self.child.wait().expect("Codex has ended");
    }
}
