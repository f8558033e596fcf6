//! The records that a holder leaves in its launch directory. They are append-only formats: fields are
//! added, never changed, and none of them holds the environment.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Identity;

/// The only version of the records so far.
pub const RECORD_VERSION: u32 = 1;

pub(crate) const HOLDER_FILE: &str = "holder.json";
pub(crate) const HELD_FILE: &str = "held.json";
pub(crate) const EXIT_FILE: &str = "exit.json";
pub(crate) const GONE_FILE: &str = "gone.json";

/// `holder.json`: who took the launch, written before anything is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    pub version: u32,
    pub key: String,
    pub holder: Identity,
}

/// `held.json`: the command runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub version: u32,
    pub key: String,
    pub holder: Identity,
    pub child: Identity,
    pub argv: Vec<String>,
    pub cwd: PathBuf,
    pub started_wall_ms: u64,
    pub started_mono_ms: u64,
}

/// `exit.json`: the command's own process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    pub version: u32,
    pub end: End,
    pub ended_by: EndedBy,
    pub wall_ms: u64,
    pub mono_ms: u64,
    /// The journal up to here has all that the leader itself wrote.
    pub journal_end: u64,
}

/// How the command's own process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Exited { code: i32 },
    Signalled { signal: i32 },
    NotStarted { error: String },
}

/// On whose account the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    Itself,
    Stop,
    TimeLimit,
    OutputLimit,
    /// The holder could not record the start, and so took it back.
    HolderFault,
}

/// `gone.json`: the whole process tree ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gone {
    pub version: u32,
    /// Descendants that outlived the leader and its settle time, or the grace of an ordered end, and
    /// had to be ended.
    pub leftovers: u32,
    /// Whether the process table showed none of them any more.
    pub verified: bool,
    /// The end of the journal for ever.
    pub journal_end: u64,
}
