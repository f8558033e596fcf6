//! Fuzzing with lines that no server ever sent. For any input, the decoder does not crash, uses
//! bounded memory, is deterministic, and can answer every request that it accepts.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use proptest::prelude::*;
use provost_agent::{Adapter, Adapters, AgentInput, ConversationOptions, Protocol, RequestAnswer};
use provost_agent_codex::{CodexAdapter, interface, protocol as codex};
use provost_core::{
    request::{AgentRequest, ApprovalScope, RequestKind, RequestReply},
    result::ResultForm,
    session::{AgentInterface, AgentMessageKind, AgentMode, StreamSignal},
};
use serde_json::{Value, json};

use super::{
    recorded,
    talk::{METHODS, ServerHarness, line, opening},
};

/// The number of lines that one protocol reads before a new one replaces it.
const LINES: usize = 400;

/// Default duration of the long run, in seconds.
const SECONDS: u64 = 2;

proptest! {
    #[test]
    fn arbitrary_bytes_are_read_and_shown(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let codex_adapter: Arc<dyn Adapter> = Arc::new(CodexAdapter);
        let adapters = Adapters::new([codex_adapter]);
        for interface in every_interface() {
            let options = ConversationOptions::default();
            adapters.get(&interface).unwrap().protocol(&interface, options).read(&bytes);
            render(interface.mode, &bytes);
        }
        ServerHarness::opened().protocol.read(&bytes);
        codex::classify_line(&bytes);
    }

    #[test]
    fn messages_of_any_shape_are_read(method in prop::sample::select(methods()), params in value()) {
        let mut talk = ServerHarness::opened();
        let signal = talk.receive(json!({"id": 1, "method": method, "params": params}));
        assert_answerable(signal.as_ref());
        talk.note(&method, params);
    }
}

#[test]
fn mutated_recordings_are_survived() {
    let corpora = [
        (AgentMode::Headless, corpus(&["app-server", "versions"])),
        (AgentMode::Once, corpus(&["exec"])),
    ];
    let deadline = started() + Duration::from_secs(seconds());
    let mut chance = TestRng(0x2545_f491_4f6c_dd1d);
    let mut lines = 0_u64;
    while started() < deadline {
        for (mode, corpus) in &corpora {
            let lines_now: Vec<Vec<u8>> = (0..LINES).map(|_| chance.line(corpus)).collect();
            assert_eq!(fold(*mode, &lines_now), fold(*mode, &lines_now));
            lines += LINES as u64;
        }
    }
    println!("{lines} lines were read twice");
}

fn every_interface() -> impl Iterator<Item = AgentInterface> {
    let neutral = [
        AgentInterface::command(),
        AgentInterface::terminal_command(),
        AgentInterface::json_lines(),
    ];
    AgentMode::ALL.map(interface).into_iter().chain(neutral)
}

/// Renders a line as users see it, if it is a message in this mode.
fn render(mode: AgentMode, line: &[u8]) -> Option<String> {
    CodexAdapter.renderer(mode).and_then(|render| render(line))
}

/// Reads lines and returns every signal and write.
fn fold(mode: AgentMode, lines: &[Vec<u8>]) -> Vec<(Option<StreamSignal>, Vec<String>)> {
    let mut protocol = match mode {
        AgentMode::Headless => ServerHarness::opened().protocol,
        AgentMode::Once | AgentMode::Terminal => CodexAdapter.protocol(&interface(mode), opening()),
    };
    let mut read = |line: &Vec<u8>| {
        render(mode, line);
        let signal = protocol.read(line);
        assert_answerable(signal.as_ref());
        (signal, written(protocol.as_mut()))
    };
    lines.iter().map(&mut read).collect()
}

/// Asserts that a line causes at most one write, which is complete and has a valid key.
fn written(protocol: &mut dyn Protocol) -> Vec<String> {
    let writes = protocol.pending_writes();
    assert!(writes.len() <= 2, "{writes:?}");
    for write in &writes {
        line(&write.line);
        assert!(write.key.len() <= 200 && !write.key.is_empty());
        protocol.acknowledge_write(&write.key);
    }
    assert_eq!(protocol.pending_writes(), []);
    writes.into_iter().map(|write| write.key).collect()
}

/// Checks that every request can be answered, to the process that asked and to a later one.
fn assert_answerable(signal: Option<&StreamSignal>) {
    let Some(StreamSignal::RequestOpened(asked)) = signal else { return };
    for reply in valid_replies(asked) {
        assert_eq!(asked.check_reply(&reply), Ok(()));
        for live in [true, false] {
            let answer = RequestAnswer { asked, reply: &reply, live };
            let kind = AgentMessageKind::Answer;
            let message = AgentInput::Message {
                key: "k",
                kind,
                text: "",
                thread: Some("t"),
                answer: Some(answer),
                form: ResultForm::Plain,
            };
            let message = CodexAdapter
                .encode(&interface(AgentMode::Headless), &message)
                .unwrap_or_else(|| panic!("{asked:?} {reply:?}"));
            line(&message);
        }
    }
}

fn valid_replies(asked: &AgentRequest) -> Vec<RequestReply> {
    let all = asked.questions.iter().map(|q| (q.id.clone(), vec!["x".to_owned()]));
    let all = RequestReply::Answers(all.collect::<BTreeMap<_, _>>());
    match (asked.kind, asked.questions.len()) {
        (RequestKind::Approval, _) => {
            vec![
                RequestReply::Approve(ApprovalScope::Once),
                RequestReply::Approve(ApprovalScope::Session),
                RequestReply::Deny,
            ]
        }
        (RequestKind::Question | RequestKind::Dialog, 1) => {
            vec![RequestReply::Text("{".to_owned()), all]
        }
        (RequestKind::Question | RequestKind::Dialog, _) => vec![all],
    }
}

fn corpus(dirs: &[&str]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = dirs.iter().flat_map(|dir| recorded::received(dir)).collect();
    lines.push(json!({"id": "p:probe", "error": {"message": METHODS}}).to_string().into_bytes());
    // Longer lines take more time without more coverage.
    lines.retain(|line| line.len() < 8 << 10);
    lines
}

fn methods() -> Vec<String> {
    let known = codex::SCHEMA_EXPECTATIONS.iter().map(|need| need.name.to_owned());
    known.chain(["no/such/method".to_owned()]).collect()
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z{}:\\\\\"\\n]{0,12}".prop_map(Value::from),
        Just(json!("thread-1")),
    ];
    leaf.prop_recursive(4, 64, 6, |inner| {
        let key = prop::sample::select(KEYS.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

const KEYS: &[&str] = &[
    "threadId",
    "turnId",
    "turn",
    "id",
    "item",
    "itemId",
    "type",
    "status",
    "error",
    "questions",
    "question",
    "options",
    "label",
    "permissions",
    "fileSystem",
    "network",
    "entries",
    "path",
    "tokenUsage",
    "total",
    "last",
    "inputTokens",
    "rateLimits",
    "primary",
    "usedPercent",
    "resetsAt",
    "requestId",
    "tool",
    "arguments",
    "mode",
    "requestedSchema",
    "properties",
    "_meta",
    "command",
    "changes",
    "kind",
    "delivery",
    "text",
    "willRetry",
];

/// A deterministic random source.
struct TestRng(u64);

impl TestRng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// Returns a recorded line, unchanged or mutated.
    fn line(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut line = corpus[self.below(corpus.len())].clone();
        match self.below(8) {
            0 | 1 => {}
            2 => self.damage(&mut line),
            3 => {
                let other = &corpus[self.below(corpus.len())];
                line.truncate(self.below(line.len()));
                line.extend_from_slice(&other[self.below(other.len())..]);
            }
            _ => {
                if let Ok(mut message) = serde_json::from_slice::<Value>(&line) {
                    for _ in 0..=self.below(3) {
                        self.change(&mut message, 0);
                    }
                    line = message.to_string().into_bytes();
                }
            }
        }
        line
    }

    fn damage(&mut self, line: &mut Vec<u8>) {
        for _ in 0..=self.below(6) {
            let at = self.below(line.len());
            match (self.below(3), line.get_mut(at)) {
                (0, Some(byte)) => *byte = self.next() as u8,
                (1, Some(_)) => {
                    line.remove(at);
                }
                _ => line.insert(at, b"{}[]\",:0\\\n"[self.below(10)]),
            }
        }
    }

    /// Changes a value somewhere in a message.
    fn change(&mut self, value: &mut Value, depth: usize) {
        let deeper = self.below(4) > 0 && depth < 6;
        let inner = match value {
            Value::Object(fields) if deeper && !fields.is_empty() => {
                let at = self.below(fields.len());
                fields.iter_mut().nth(at).map(|(_, inner)| inner)
            }
            Value::Array(elements) if deeper && !elements.is_empty() => {
                let at = self.below(elements.len());
                elements.get_mut(at)
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => return *value = self.value(value.clone()),
        };
        if let Some(inner) = inner {
            self.change(inner, depth + 1);
        }
    }

    fn value(&mut self, before: Value) -> Value {
        match self.below(10) {
            0 => Value::Null,
            1 => json!({}),
            2 => json!([before]),
            3 => json!("thread-1"),
            4 => json!(self.next()),
            5 => json!(-1),
            6 => json!("x".repeat(self.below(70_000))),
            7 => json!(["a", 1, null]),
            8 => json!({"id": before, "type": "fileChange"}),
            _ => json!("turn/completed"),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the run has a configured duration")]
fn started() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the edge that reads the duration of a test run")]
fn seconds() -> u64 {
    let seconds = std::env::var("PROVOST_FUZZ_SECONDS").ok();
    seconds.and_then(|seconds| seconds.parse().ok()).unwrap_or(SECONDS)
}
