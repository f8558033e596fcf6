//! Recorded sessions, and the signals that the protocols derive from them.

use std::collections::{BTreeMap, BTreeSet};

use provost_agent::{Adapter as _, ConversationOptions, Protocol};
use provost_agent_codex::{
    CodexAdapter, interface,
    protocol::{LineClass, classify_line},
};
use provost_core::session::AgentMode;
use serde_json::{Value, json};

use super::recorded::{self, RecordedLine, Transcript};

#[test]
fn recorded_app_server_lines_are_classified() {
    let mut left = BTreeSet::new();
    for line in ["app-server", "versions"].into_iter().flat_map(recorded::received) {
        let shown = || String::from_utf8_lossy(&line).into_owned();
        match classify_line(&line) {
            LineClass::Known => {}
            LineClass::Ignored => {
                let method: Value = serde_json::from_slice(&line).unwrap();
                left.insert(method["method"].as_str().unwrap().to_owned());
            }
            LineClass::Malformed | LineClass::Output => panic!("{}", shown()),
        }
    }
    insta::assert_snapshot!(left.into_iter().collect::<Vec<_>>().join("\n"));
}

#[test]
fn recorded_app_server_sessions_yield_signals() {
    for dir in ["app-server", "versions"] {
        for transcript in recorded::all(dir) {
            for (client, rows) in connections(&transcript) {
                let name = format!("{dir}-{}{client}", transcript.name);
                insta::assert_snapshot!(name, Replay::of(&rows));
            }
        }
    }
}

#[test]
fn recorded_exec_runs_yield_signals() {
    for transcript in recorded::all("exec") {
        let mut exec =
            CodexAdapter.protocol(&interface(AgentMode::Once), ConversationOptions::default());
        let lines =
            transcript.rows.iter().filter(|row| row.dir == "stdout").map(RecordedLine::line);
        let signals: Vec<String> =
            lines.filter_map(|line| exec.read(&line)).map(|signal| format!("{signal:?}")).collect();
        insta::assert_snapshot!(format!("exec-{}", transcript.name), signals.join("\n"));
    }
}

/// Returns the rows of each connection with a handshake.
fn connections(transcript: &Transcript) -> Vec<(String, Vec<&RecordedLine>)> {
    let mut of: BTreeMap<String, Vec<&RecordedLine>> = BTreeMap::new();
    for row in &transcript.rows {
        let client = row.client.as_ref().map(|client| format!("-{client}")).unwrap_or_default();
        of.entry(client).or_default().push(row);
    }
    let greeted = |rows: &[&RecordedLine]| rows.iter().any(|row| row.msg["method"] == "initialize");
    of.into_iter().filter(|(_, rows)| greeted(rows)).collect()
}

/// Replays a recorded session to the protocol. The recorder used its own ids and sent no probe.
/// Therefore its ids are replaced by Provost's, and the probe is answered like a server of that
/// version does.
struct Replay {
    protocol: Box<dyn Protocol>,
    /// Provost's ids by the recorder's ids.
    ids: BTreeMap<String, String>,
    greeted: bool,
    opened: bool,
    output: Vec<String>,
}

impl Replay {
    fn of(rows: &[&RecordedLine]) -> String {
        let mut replay = Replay {
            protocol: CodexAdapter.protocol(&interface(AgentMode::Headless), opening(rows)),
            ids: BTreeMap::new(),
            greeted: false,
            opened: false,
            output: Vec::new(),
        };
        for row in rows {
            match row.dir.as_str() {
                "send" => replay.sent(&row.msg),
                "recv" => replay.received(&row.msg),
                _ => {}
            }
        }
        replay.output.join("\n")
    }

    fn sent(&mut self, msg: &Value) {
        let (Some(method), Some(id)) = (msg["method"].as_str(), msg.get("id")) else { return };
        let ours = match method {
            "initialize" if !std::mem::replace(&mut self.greeted, true) => "p:hello".to_owned(),
            "thread/start" | "thread/resume"
                if self.greeted && !std::mem::replace(&mut self.opened, true) =>
            {
                "p:thread".to_owned()
            }
            "turn/start" if msg["params"]["outputSchema"].is_object() => format!("r:{id}"),
            "turn/start" => format!("m:{id}"),
            "turn/interrupt" => format!("i:{id}"),
            _ => return,
        };
        self.ids.insert(id.to_string(), ours);
    }

    fn received(&mut self, msg: &Value) {
        let mut msg = msg.clone();
        let ours = msg.get("id").and_then(|id| self.ids.get(&id.to_string())).cloned();
        if let (Some(ours), None) = (&ours, msg.get("method")) {
            msg["id"] = json!(ours);
        }
        self.read(&msg);
        if let Some(version) = self.probed_as(ours.as_deref(), &msg) {
            self.read(&json!({"id": "p:probe", "error": {"message": methods_of(&version)}}));
        }
    }

    fn probed_as(&self, id: Option<&str>, msg: &Value) -> Option<String> {
        let hello = id.filter(|id| *id == "p:hello").and(msg["result"]["userAgent"].as_str())?;
        let version = hello.split(['/', ' ']).nth(1)?;
        Some(version.to_owned())
    }

    fn read(&mut self, msg: &Value) {
        let signal = self.protocol.read(msg.to_string().as_bytes());
        self.output.extend(signal.map(|signal| format!("{signal:?}")));
        for write in self.protocol.pending_writes() {
            self.protocol.acknowledge_write(&write.key);
            if write.key.starts_with("p:clean-turn-") {
                self.cleaned(&write.key);
                continue;
            }
            // The lines of the handshake are long, and other tests cover them.
            let ours = ["p:hello", "p:ready", "p:probe", "p:thread"].contains(&write.key.as_str());
            let line = if ours { "…".into() } else { String::from_utf8_lossy(&write.line) };
            self.output.push(format!("  writes {}: {}", write.key, line.trim_end()));
        }
    }
}

impl Replay {
    /// The recorder never cleaned up, so the server's answer is synthetic.
    fn cleaned(&mut self, key: &str) {
        let answer = json!({"id": key, "result": {}});
        let signal = self.protocol.read(answer.to_string().as_bytes());
        self.output.extend(signal.map(|signal| format!("{signal:?}")));
    }
}

fn opening(rows: &[&RecordedLine]) -> ConversationOptions {
    let opens = |row: &&&RecordedLine| {
        row.dir == "send" && matches!(row.msg["method"].as_str(), Some("thread/resume"))
    };
    let thread = if first_open_is_resume(rows) { rows.iter().find(opens) } else { None };
    let thread = thread.and_then(|row| row.msg["params"]["threadId"].as_str()).map(str::to_owned);
    ConversationOptions { thread, ..ConversationOptions::default() }
}

fn first_open_is_resume(rows: &[&RecordedLine]) -> bool {
    let methods =
        rows.iter().filter(|row| row.dir == "send").filter_map(|row| row.msg["method"].as_str());
    let mut opens = methods.filter(|method| matches!(*method, "thread/start" | "thread/resume"));
    opens.next() == Some("thread/resume")
}

/// Returns the recorded answer of a server of this version to an unknown method.
fn methods_of(version: &str) -> String {
    let transcript = match version {
        "0.166.0" => recorded::one("app-server", "01-handshake-and-errors"),
        version => recorded::one("versions", version),
    };
    let messages = transcript.rows.iter().filter_map(|row| row.msg["error"]["message"].as_str());
    let mut lists = messages.filter(|message| message.contains("expected one of `initialize`"));
    lists.next().unwrap_or_default().to_owned()
}
