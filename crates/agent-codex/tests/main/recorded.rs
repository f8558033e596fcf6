//! Recorded sessions of Codex, and their reader.

use std::{fs, path::PathBuf};

use serde_json::Value;

/// One recorded session.
pub(crate) struct Transcript {
    pub(crate) name: String,
    pub(crate) rows: Vec<RecordedLine>,
}

/// One recorded line.
pub(crate) struct RecordedLine {
    /// The connection, if there were several.
    pub(crate) client: Option<String>,
    pub(crate) dir: String,
    pub(crate) msg: Value,
}

/// Returns the sessions in one directory of the fixtures, in order.
pub(crate) fn all(dir: &str) -> Vec<Transcript> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/codex").join(dir);
    let files = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    assert!(!files.is_empty());
    files.iter().map(transcript).collect()
}

pub(crate) fn one(dir: &str, name: &str) -> Transcript {
    all(dir).into_iter().find(|transcript| transcript.name == name).unwrap()
}

/// Returns every line that an app-server sent, in all sessions of a directory.
pub(crate) fn received(dir: &str) -> Vec<Vec<u8>> {
    let rows = all(dir).into_iter().flat_map(|transcript| transcript.rows);
    rows.filter(|row| row.dir == "recv" || row.dir == "stdout").map(|row| row.line()).collect()
}

fn transcript(file: &PathBuf) -> Transcript {
    let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
    let text = fs::read_to_string(file).unwrap();
    Transcript { name, rows: text.lines().map(row).collect() }
}

fn row(line: &str) -> RecordedLine {
    let row: Value = serde_json::from_str(line).unwrap();
    RecordedLine {
        client: row.get("client").map(|client| client.as_str().unwrap_or("?").to_owned()),
        dir: row["dir"].as_str().unwrap().to_owned(),
        msg: row["msg"].clone(),
    }
}

impl RecordedLine {
    /// Returns the line as it was on the wire.
    pub(crate) fn line(&self) -> Vec<u8> {
        match self.msg.get("_raw").and_then(Value::as_str) {
            Some(raw) => raw.as_bytes().to_vec(),
            None => self.msg.to_string().into_bytes(),
        }
    }
}
