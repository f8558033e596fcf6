//! The handshake with real servers. It needs no model.

use std::{
    fs,
    io::{BufRead, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use provost_agent::{Adapter as _, AgentInput, ConversationOptions, Protocol};
use provost_agent_codex::{CodexAdapter, interface};
use provost_core::result::ResultForm;
use provost_core::session::{AgentMessageKind, AgentMode, AgentSettings, StreamSignal, TurnEnd};

/// A timeout that is longer than the answer of any server takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The configuration of a server without a model, because no process listens on its port.
const CONFIG: &str = r#"
model = "gpt-5.5"
model_provider = "nobody"
check_for_update_on_startup = false
[model_providers.nobody]
name = "nobody"
base_url = "http://127.0.0.1:9/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
[otel]
metrics_exporter = "none"
[features]
plugins = false
shell_snapshot = false
unbounded_connection_retries = false
"#;

#[test]
fn e21_real_server_opens_thread() {
    let Some(codex) = codex("PROVOST_CODEX_FOR_TESTS") else { return };
    let mut server =
        LiveServer::start(&codex, AgentSettings { questions: true, ..AgentSettings::default() });
    let signals = server.until_opened();
    assert!(matches!(signals.as_slice(), [StreamSignal::Ready { thread: Some(_) }]), "{signals:?}");
    server.run_failing_turn(&signals);
}

#[test]
fn r20_old_server_opens_thread_with_warning() {
    let Some(codex) = codex("PROVOST_CODEX_OLD_FOR_TESTS") else { return };
    let mut server =
        LiveServer::start(&codex, AgentSettings { questions: true, ..AgentSettings::default() });
    let signals = server.until_opened();
    let [StreamSignal::Warned { text }, StreamSignal::Ready { thread: Some(_) }] =
        signals.as_slice()
    else {
        panic!("{signals:?}")
    };
    assert!(text.contains("keyed messages") && text.contains("unix socket"), "{text}");
    server.run_failing_turn(&signals);
}

#[test]
fn real_server_refuses_unknown_thread() {
    let Some(codex) = codex("PROVOST_CODEX_FOR_TESTS") else { return };
    let mut server = LiveServer::start(&codex, AgentSettings::default());
    let opening = ConversationOptions {
        cwd: server.home.path().display().to_string(),
        thread: Some("01a1e074-0000-7000-8000-000000000000".to_owned()),
        ..ConversationOptions::default()
    };
    server.protocol = CodexAdapter.protocol(&interface(AgentMode::Headless), opening);
    let signals = server.until_opened();
    let [StreamSignal::Refused { reason }] = signals.as_slice() else { panic!("{signals:?}") };
    assert!(reason.contains("thread/resume") && reason.contains("no rollout"), "{reason}");
}

/// A server, and the protocol that talks with it.
struct LiveServer {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    protocol: Box<dyn Protocol>,
    home: tempfile::TempDir,
}

impl LiveServer {
    fn start(codex: &Path, settings: AgentSettings) -> LiveServer {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::write(home.path().join("config.toml"), CONFIG).unwrap();
        let mut child = Command::new(codex)
            .arg("app-server")
            .env("CODEX_HOME", home.path())
            .current_dir(home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let cwd = home.path().display().to_string();
        let protocol = CodexAdapter.protocol(
            &interface(AgentMode::Headless),
            ConversationOptions { cwd, settings, ..ConversationOptions::default() },
        );
        let input = child.stdin.take();
        let lines = lines_of(child.stdout.take().unwrap());
        LiveServer { child, input, lines, protocol, home }
    }

    /// Writes pending lines and reads until the thread is open or refused.
    fn until_opened(&mut self) -> Vec<StreamSignal> {
        let over = |signal: &StreamSignal| {
            matches!(signal, StreamSignal::Ready { .. } | StreamSignal::Refused { .. })
        };
        self.until(over)
    }

    fn until(&mut self, over: impl Fn(&StreamSignal) -> bool) -> Vec<StreamSignal> {
        let mut signals = Vec::new();
        while !signals.last().is_some_and(&over) {
            self.write_pending();
            let line = match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("the server said nothing more after {signals:?}")
                }
            };
            signals.extend(self.protocol.read(&line));
        }
        signals
    }

    fn write_pending(&mut self) {
        for write in self.protocol.pending_writes() {
            self.write(&write.line);
            self.protocol.acknowledge_write(&write.key);
        }
    }

    fn write(&mut self, line: &[u8]) {
        self.input.as_mut().unwrap().write_all(line).unwrap();
    }

    /// Sends a message. The turn fails, because the server has no model.
    fn run_failing_turn(&mut self, opened: &[StreamSignal]) {
        let Some(StreamSignal::Ready { thread }) = opened.last() else { panic!() };
        let message = AgentInput::Message {
            key: "instruction-1",
            kind: AgentMessageKind::Instruction,
            text: "hello",
            thread: thread.as_deref(),
            answer: None,
            form: ResultForm::Plain,
        };
        self.write(&CodexAdapter.encode(&interface(AgentMode::Headless), &message).unwrap());
        let signals = self.until(|signal| matches!(signal, StreamSignal::TurnEnded { .. }));
        assert!(
            matches!(signals.first(), Some(StreamSignal::TurnStarted { turn: Some(_) })),
            "{signals:?}"
        );
        let Some(StreamSignal::TurnEnded { end, .. }) = signals.last() else { panic!() };
        assert!(matches!(end, TurnEnd::Error(_)), "{end:?}");
    }
}

impl Drop for LiveServer {
    /// Ends the server by closing its input, which also works through its launcher.
    fn drop(&mut self) {
        drop(self.input.take());
        let end = loop {
            if let Err(end) = self.lines.recv_timeout(PATIENCE) {
                break end;
            }
        };
        if end == RecvTimeoutError::Timeout {
            self.child.kill().unwrap();
        }
        self.child.wait().unwrap();
    }
}

fn lines_of(output: impl std::io::Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n') {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Returns the Codex that a variable names. Without its installer, tests that need it are skipped.
#[expect(clippy::disallowed_methods, reason = "the edge at which a test run names its programs")]
pub(crate) fn codex(variable: &str) -> Option<PathBuf> {
    let missing = std::env::var("PROVOST_TEST_MISSING").unwrap_or_default();
    match std::env::var_os(variable) {
        Some(path) => Some(PathBuf::from(path)),
        None if missing.split(',').any(|tool| tool == "npm") => None,
        None => panic!("{variable} names no codex: run the tests with `cargo xtask test`"),
    }
}
