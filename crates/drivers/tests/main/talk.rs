//! A conversation with the app-server driver, in which the test is the server.

use provost_core::{
    request::{Asked, Reply},
    result::ResultForm,
    session::{Driver, MessageKind, Settings, Signal},
};
use provost_drivers::{Answer, Opening, Protocol, Saying, protocol, say};
use serde_json::{Value, json};

/// The answer of a 0.166.0 server to the probe, shortened.
pub(crate) const METHODS: &str = "Invalid request: unknown variant `provost/probe`, expected one of `initialize`, \
     `thread/start`, `thread/resume`, `turn/start`, `turn/interrupt`, `thread/backgroundTerminals/clean`";

pub(crate) const THREAD: &str = "thread-1";

pub(crate) struct Talk {
    pub(crate) protocol: Box<dyn Protocol>,
}

impl Talk {
    /// Starts a conversation without any messages.
    pub(crate) fn new(opening: Opening) -> Talk {
        Talk { protocol: protocol(Driver::Codex, opening) }
    }

    /// Starts a conversation with an open thread.
    pub(crate) fn opened() -> Talk {
        let mut talk = Talk::new(opening());
        assert_eq!(talk.shake("0.166.0", METHODS), None);
        let ready = talk.hears(json!({"id": "p:thread", "result": {"thread": {"id": THREAD}}}));
        assert_eq!(ready, Some(Signal::Ready { thread: Some(THREAD.to_owned()) }));
        assert!(talk.writes().iter().any(|(key, _)| key == "p:thread"));
        talk
    }

    /// Performs the handshake and returns the resulting signal.
    pub(crate) fn shake(&mut self, version: &str, methods: &str) -> Option<Signal> {
        assert_eq!(self.writes()[0].0, "p:hello");
        let agent = format!("provost/{version} (Debian; x86_64)");
        let greeted = self.hears(json!({"id": "p:hello", "result": {"userAgent": agent}}));
        if greeted.is_some() {
            return greeted;
        }
        let keys: Vec<String> = self.writes().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["p:ready", "p:probe"]);
        self.hears(json!({"id": "p:probe", "error": {"code": -32600, "message": methods}}))
    }

    pub(crate) fn hears(&mut self, line: Value) -> Option<Signal> {
        self.protocol.read(line.to_string().as_bytes())
    }

    pub(crate) fn note(&mut self, method: &str, params: Value) -> Option<Signal> {
        self.hears(json!({"method": method, "params": params}))
    }

    /// Sends a request of the server in the open turn.
    pub(crate) fn asks(&mut self, id: Value, method: &str, mut params: Value) -> Option<Signal> {
        params["threadId"] = json!(THREAD);
        params["turnId"] = json!("turn-1");
        self.hears(json!({"id": id, "method": method, "params": params}))
    }

    /// Sends a request of the server that has to become a request of the session.
    pub(crate) fn asked(&mut self, id: Value, method: &str, params: Value) -> Asked {
        match self.asks(id, method, params) {
            Some(Signal::Asked(asked)) => asked,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn turn_starts(&mut self) -> Option<Signal> {
        self.note("turn/started", json!({"threadId": THREAD, "turn": {"id": "turn-1"}}))
    }

    pub(crate) fn turn_ends(&mut self, status: &str) -> Option<Signal> {
        let turn = json!({"id": "turn-1", "status": status, "error": null});
        let told = self.note("turn/completed", json!({"threadId": THREAD, "turn": turn}));
        let early = matches!(told, Some(Signal::TurnEnded { .. }));
        assert!(!early, "what it left running is ended first");
        self.cleans()
    }

    /// Answers the cleanup request.
    pub(crate) fn cleans(&mut self) -> Option<Signal> {
        let owed = self.protocol.owed().into_iter();
        let clean = owed.rev().find(|write| write.key.starts_with("p:clean-"))?;
        assert_eq!(line(&clean.line)["method"], "thread/backgroundTerminals/clean");
        assert!(self.protocol.wrote(&clean.key), "it is no message of the session");
        self.hears(json!({"id": clean.key, "result": {}}))
    }

    /// Returns the pending lines, and marks them as written.
    pub(crate) fn writes(&mut self) -> Vec<(String, Value)> {
        let owed = self.protocol.owed();
        for write in &owed {
            assert!(self.protocol.wrote(&write.key), "it was owed");
            assert!(!self.protocol.wrote(&write.key), "it is owed once");
        }
        owed.into_iter().map(|write| (write.key, line(&write.line))).collect()
    }

    /// Returns the only pending line.
    pub(crate) fn write(&mut self) -> Value {
        match <[_; 1]>::try_from(self.writes()) {
            Ok([(_, line)]) => line,
            Err(all) => panic!("{all:?}"),
        }
    }
}

pub(crate) fn opening() -> Opening {
    let settings = Settings { questions: true, ..Settings::default() };
    Opening { cwd: "/repo".to_owned(), settings, ..Opening::default() }
}

/// Returns the encoded message, which has to be one line.
pub(crate) fn said(what: &Saying<'_>) -> Option<Value> {
    say(Driver::Codex, what).map(|bytes| line(&bytes))
}

pub(crate) fn message(kind: MessageKind, text: &str) -> Option<Value> {
    said(&Saying::Message {
        key: "key-1",
        kind,
        text,
        thread: Some(THREAD),
        answer: None,
        form: ResultForm::Plain,
    })
}

/// Returns the answer to a request, for the process that asked or for a later one.
pub(crate) fn answer(asked: &Asked, reply: &Reply, live: bool) -> Option<Value> {
    said(&Saying::Message {
        key: "answer-1-1",
        kind: MessageKind::Answer,
        text: "",
        thread: Some(THREAD),
        answer: Some(Answer { asked, reply, live }),
        form: ResultForm::Plain,
    })
}

pub(crate) fn line(bytes: &[u8]) -> Value {
    let (last, line) = bytes.split_last().unwrap();
    assert_eq!(*last, b'\n');
    assert!(!line.contains(&b'\n'));
    serde_json::from_slice(line).unwrap()
}
