//! The behavior of an agent with a screen besides drawing: it writes its rollout where Codex does,
//! runs hooks, and reads keys.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::{self, BufRead as _, Read as _, Write as _},
    path::PathBuf,
    process::{Command, Stdio},
};

use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use serde_json::{Map, Value, json};

use super::{Error, files, output::filled_in, report::provost};
use crate::scenario::RolloutStep;

/// The thread id of the agent's own conversation.
pub const THREAD: &str = "01a1e08b-614a-7c61-a49a-d6ec86726bf8";

/// The Codex version whose file formats are used.
pub const VERSION: &str = "0.166.0";

const PASTE_BEGINS: &str = "\x1b[200~";
const PASTE_ENDS: &str = "\x1b[201~";

/// Appends a line to the rollout of a conversation, which starts with its metadata.
pub(super) fn record(record: &RolloutStep, known: &BTreeMap<String, String>) -> Result<(), Error> {
    let thread = record.thread.as_deref().unwrap_or(THREAD);
    let path = rollout(thread);
    let mut text = String::new();
    // A rollout may start with its own metadata, for example in a hidden conversation.
    if !path.exists() && record.kind != "session_meta" {
        let payload = json!({"id": thread, "cwd": "/", "cli_version": VERSION});
        text.push_str(&line("session_meta", &payload));
    }
    let payload = filled_in(&Value::Object(record.payload.clone()), known);
    text.push_str(&line(&record.kind, &payload));
    files::append(&path.to_string_lossy(), &text)
}

fn line(kind: &str, payload: &Value) -> String {
    let at = "2026-11-16T10:00:00.000Z";
    // The keys are in the same order as in Codex's own files.
    format!("{{\"timestamp\":\"{at}\",\"type\":\"{kind}\",\"payload\":{payload}}}\n")
}

/// Passes the input of a Codex hook to the program that the hook would run.
pub(super) fn hook(
    input: &Map<String, Value>,
    known: &BTreeMap<String, String>,
) -> Result<(), Error> {
    let mut input = filled_in(&Value::Object(input.clone()), known);
    if input.get("session_id").is_none() {
        input["session_id"] = THREAD.into();
    }
    let mut command = Command::new(provost());
    command.arg("agent-hook").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(Error::io("run provost"))?;
    let mut stdin = child.stdin.take().expect("the standard input is a pipe");
    stdin.write_all(input.to_string().as_bytes()).map_err(Error::io("write to a hook"))?;
    drop(stdin);
    child.wait().map(drop).map_err(Error::io("run provost"))
}

/// Puts the terminal into raw mode: each key arrives immediately, without echo.
pub(super) fn enter_raw_mode() -> Result<(), Error> {
    let stdin = io::stdin();
    let failed =
        |error: rustix::io::Errno| Error::io("take the keys of its terminal")(error.into());
    let mut terminal = tcgetattr(&stdin).map_err(failed)?;
    terminal.make_raw();
    tcsetattr(&stdin, OptionalActions::Now, &terminal).map_err(failed)
}

/// Reads keys up to Enter. Pasted text is returned without its markers, and a single Escape
/// unchanged.
pub(super) fn read_keys() -> Result<Option<String>, Error> {
    let (mut keys, mut stdin) = (String::new(), io::stdin().lock());
    loop {
        let more = stdin.fill_buf().map_err(Error::io("read keys"))?;
        if more.is_empty() {
            return Ok(None);
        }
        let length = more.len();
        keys.push_str(&String::from_utf8_lossy(more));
        stdin.by_ref().consume(length);
        let pasting = keys.contains(PASTE_BEGINS) && !keys.contains(PASTE_ENDS);
        if keys == "\x1b" || (!pasting && keys.ends_with('\r')) {
            let text = keys.replace(PASTE_BEGINS, "").replace(PASTE_ENDS, "");
            return Ok(Some(text.trim_end_matches('\r').to_owned()));
        }
    }
}

fn rollout(thread: &str) -> PathBuf {
    let name = format!("rollout-2026-11-16T10-00-00-{thread}.jsonl");
    PathBuf::from(codex_home()).join("sessions/2026/11/16").join(name)
}

#[expect(clippy::disallowed_methods, reason = "the agent reads the environment that Provost set")]
fn codex_home() -> OsString {
    std::env::var_os("CODEX_HOME").unwrap_or_else(|| ".".into())
}
