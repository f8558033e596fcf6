//! A conversation with the app-server protocol, in which the test is the server.

use provost_agent::{Adapter as _, AgentInput, ConversationOptions, Protocol, RequestAnswer};
use provost_agent_codex::{CodexAdapter, interface};
use provost_core::{
    request::{AgentRequest, RequestReply},
    result::ResultForm,
    session::{AgentMessageKind, AgentMode, AgentSettings, StreamSignal},
};
use serde_json::{Value, json};

/// The answer of a 0.166.0 server to the probe, shortened.
pub(crate) const METHODS: &str = "Invalid request: unknown variant `provost/probe`, expected one of `initialize`, \
     `thread/start`, `thread/resume`, `turn/start`, `turn/interrupt`, `thread/backgroundTerminals/clean`";

pub(crate) const THREAD: &str = "thread-1";

pub(crate) struct ServerHarness {
    pub(crate) protocol: Box<dyn Protocol>,
}

impl ServerHarness {
    /// Starts a conversation without any messages.
    pub(crate) fn new(opening: ConversationOptions) -> ServerHarness {
        ServerHarness { protocol: CodexAdapter.protocol(&interface(AgentMode::Headless), opening) }
    }

    /// Starts a conversation with an open thread.
    pub(crate) fn opened() -> ServerHarness {
        let mut talk = ServerHarness::new(opening());
        assert_eq!(talk.handshake("0.166.0", METHODS), None);
        let ready = talk.receive(json!({"id": "p:thread", "result": {"thread": {"id": THREAD}}}));
        assert_eq!(ready, Some(StreamSignal::Ready { thread: Some(THREAD.to_owned()) }));
        assert!(talk.take_writes().iter().any(|(key, _)| key == "p:thread"));
        talk
    }

    /// Performs the handshake and returns the resulting signal.
    pub(crate) fn handshake(&mut self, version: &str, methods: &str) -> Option<StreamSignal> {
        assert_eq!(self.take_writes()[0].0, "p:hello");
        let agent = format!("provost/{version} (Debian; x86_64)");
        let greeted = self.receive(json!({"id": "p:hello", "result": {"userAgent": agent}}));
        if greeted.is_some() {
            return greeted;
        }
        let keys: Vec<String> = self.take_writes().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["p:ready", "p:probe"]);
        self.receive(json!({"id": "p:probe", "error": {"code": -32600, "message": methods}}))
    }

    pub(crate) fn receive(&mut self, line: Value) -> Option<StreamSignal> {
        self.protocol.read(line.to_string().as_bytes())
    }

    pub(crate) fn note(&mut self, method: &str, params: Value) -> Option<StreamSignal> {
        self.receive(json!({"method": method, "params": params}))
    }

    /// Sends a request of the server in the open turn.
    pub(crate) fn send_request(
        &mut self,
        id: Value,
        method: &str,
        mut params: Value,
    ) -> Option<StreamSignal> {
        params["threadId"] = json!(THREAD);
        params["turnId"] = json!("turn-1");
        self.receive(json!({"id": id, "method": method, "params": params}))
    }

    /// Sends a request of the server that has to become a request of the session.
    pub(crate) fn expect_request(
        &mut self,
        id: Value,
        method: &str,
        params: Value,
    ) -> AgentRequest {
        match self.send_request(id, method, params) {
            Some(StreamSignal::RequestOpened(asked)) => asked,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn turn_starts(&mut self) -> Option<StreamSignal> {
        self.note("turn/started", json!({"threadId": THREAD, "turn": {"id": "turn-1"}}))
    }

    pub(crate) fn turn_ends(&mut self, status: &str) -> Option<StreamSignal> {
        let turn = json!({"id": "turn-1", "status": status, "error": null});
        let signal = self.note("turn/completed", json!({"threadId": THREAD, "turn": turn}));
        let early = matches!(signal, Some(StreamSignal::TurnEnded { .. }));
        assert!(!early, "what it left running is ended first");
        self.answer_cleanup()
    }

    /// Answers the cleanup request.
    pub(crate) fn answer_cleanup(&mut self) -> Option<StreamSignal> {
        let writes = self.protocol.pending_writes().into_iter();
        let clean = writes.rev().find(|write| write.key.starts_with("p:clean-"))?;
        assert_eq!(line(&clean.line)["method"], "thread/backgroundTerminals/clean");
        assert!(self.protocol.acknowledge_write(&clean.key), "it is no message of the session");
        self.receive(json!({"id": clean.key, "result": {}}))
    }

    /// Returns the pending lines, and marks them as written.
    pub(crate) fn take_writes(&mut self) -> Vec<(String, Value)> {
        let writes = self.protocol.pending_writes();
        for write in &writes {
            assert!(self.protocol.acknowledge_write(&write.key), "the write was pending");
            assert!(!self.protocol.acknowledge_write(&write.key), "the write is pending only once");
        }
        writes.into_iter().map(|write| (write.key, line(&write.line))).collect()
    }

    /// Returns the only pending line.
    pub(crate) fn take_only_write(&mut self) -> Value {
        match <[_; 1]>::try_from(self.take_writes()) {
            Ok([(_, line)]) => line,
            Err(all) => panic!("{all:?}"),
        }
    }
}

pub(crate) fn opening() -> ConversationOptions {
    let settings = AgentSettings { questions: true, ..AgentSettings::default() };
    ConversationOptions { cwd: "/repo".to_owned(), settings, ..ConversationOptions::default() }
}

/// Returns the encoded message, which has to be one line.
pub(crate) fn encoded(what: &AgentInput<'_>) -> Option<Value> {
    CodexAdapter.encode(&interface(AgentMode::Headless), what).map(|bytes| line(&bytes))
}

pub(crate) fn message(kind: AgentMessageKind, text: &str) -> Option<Value> {
    encoded(&AgentInput::Message {
        key: "key-1",
        kind,
        text,
        thread: Some(THREAD),
        answer: None,
        form: ResultForm::Plain,
    })
}

/// Returns the answer to a request, for the process that asked or for a later one.
pub(crate) fn answer(asked: &AgentRequest, reply: &RequestReply, live: bool) -> Option<Value> {
    encoded(&AgentInput::Message {
        key: "answer-1-1",
        kind: AgentMessageKind::Answer,
        text: "",
        thread: Some(THREAD),
        answer: Some(RequestAnswer { asked, reply, live }),
        form: ResultForm::Plain,
    })
}

pub(crate) fn line(bytes: &[u8]) -> Value {
    let (last, line) = bytes.split_last().unwrap();
    assert_eq!(*last, b'\n');
    assert!(!line.contains(&b'\n'));
    serde_json::from_slice(line).unwrap()
}
