//! The records that a holder leaves in its launch directory. Their formats are append-only: fields
//! are added, never changed. No record contains the environment.

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::ProcessInstance;

/// The only version of the records so far.
pub const RECORD_VERSION: u32 = 1;

pub(crate) const HOLDER_FILE: &str = "holder.json";
pub(crate) const HELD_FILE: &str = "held.json";
pub(crate) const EXIT_FILE: &str = "exit.json";
pub(crate) const GONE_FILE: &str = "gone.json";

/// `holder.json`: the holder that took the launch. It is written before anything is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderRecord {
    pub version: u32,
    pub key: String,
    pub holder: ProcessInstance,
}

/// `held.json`: the command is running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldRecord {
    pub version: u32,
    pub key: String,
    pub holder: ProcessInstance,
    pub child: ProcessInstance,
    pub argv: Vec<String>,
    pub cwd: PathBuf,
    pub started_wall_ms: u64,
    pub started_mono_ms: u64,
}

/// `exit.json`: the command's own process has exited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    pub version: u32,
    pub end: ProcessEnd,
    pub ended_by: EndCause,
    pub wall_ms: u64,
    pub mono_ms: u64,
    /// The journal up to this offset contains everything that the leader itself wrote.
    pub journal_end: u64,
}

/// The way the command's own process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessEnd {
    Exited { code: i32 },
    Signalled { signal: i32 },
    NotStarted { error: String },
}

/// The reason why the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    Itself,
    Stop,
    TimeLimit,
    OutputLimit,
    /// The holder could not record the start, so it ended the command.
    HolderFault,
}

impl fmt::Display for ExitRecord {
    /// Describes the end of the command. Adds the cause, unless the command exited on its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.ended_by {
            EndCause::Itself => "",
            EndCause::Stop => ", it was stopped",
            EndCause::TimeLimit => ", ended at its time limit",
            EndCause::OutputLimit => ", ended at its output limit",
            EndCause::HolderFault => ", its start could not be recorded",
        };
        match &self.end {
            ProcessEnd::Exited { code } => write!(f, "exit {code}{why}"),
            ProcessEnd::Signalled { signal } => write!(f, "signal {signal}{why}"),
            ProcessEnd::NotStarted { error } => write!(f, "it could not be started: {error}"),
        }
    }
}

/// `gone.json`: the whole process tree has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoneRecord {
    pub version: u32,
    /// The number of descendants that had to be killed because they outlived the settle time after
    /// the leader's exit, or the grace period of a requested stop.
    pub leftovers: u32,
    /// Whether the process table showed that none of the processes is left.
    pub verified: bool,
    /// The final end of the journal.
    pub journal_end: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_record_displays_as_text() {
        let shown = |end, ended_by| {
            let (version, wall_ms, mono_ms, journal_end) = (RECORD_VERSION, 0, 0, 0);
            ExitRecord { version, end, ended_by, wall_ms, mono_ms, journal_end }.to_string()
        };
        assert_eq!(shown(ProcessEnd::Exited { code: 3 }, EndCause::Itself), "exit 3");
        let limit = shown(ProcessEnd::Signalled { signal: 15 }, EndCause::TimeLimit);
        assert_eq!(limit, "signal 15, ended at its time limit");
        let missing = ProcessEnd::NotStarted { error: "no such file".to_owned() };
        assert_eq!(shown(missing, EndCause::Itself), "it could not be started: no such file");
    }
}
