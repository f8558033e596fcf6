//! The files in which an agent records its conversations.

use std::{
    io,
    os::fd::{AsRawFd, RawFd},
    path::{Path, PathBuf},
};

use provost_core::session::RecordSignal;
use provost_sys::process::ProcessInstance;

/// Finds and reads the transcripts of one kind of agent. Every function blocks.
pub trait TranscriptStore: Send + Sync {
    /// Returns the home in which a session's agent stores its conversations. The argument is the
    /// directory that belongs to the session's agent.
    fn home(&self, dir: &Path) -> PathBuf;

    /// Searches for a conversation that the user started after a time and that is not among the
    /// known ones.
    fn find_other(
        &self,
        place: &ConversationPlace,
        since_ms: u64,
        known: &[String],
    ) -> ConversationSearch;

    /// Finds the file of a conversation, which may be next to another file of the same agent.
    fn find(
        &self,
        place: &ConversationPlace,
        beside: &Path,
        thread: &str,
    ) -> Option<TranscriptFile>;

    /// Returns the homes in which the user's own agents store their conversations. `variable`
    /// returns variables of the user's environment.
    fn user_homes(&self, variable: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf>;

    /// Whether a text has the form of a conversation's id.
    fn is_thread(&self, text: &str) -> bool;

    /// Returns the files of a conversation in these homes, oldest first.
    fn files_of(&self, homes: &[PathBuf], thread: &str) -> Vec<TranscriptFile>;

    /// Returns the newest files of all conversations in these homes, oldest first.
    fn newest(&self, homes: &[PathBuf], max: usize) -> Vec<TranscriptFile>;

    /// Reads what a file says about its conversation. Returns `None` if the file is not a transcript,
    /// or contains nothing yet.
    fn read_meta(&self, file: &Path) -> io::Result<Option<ConversationMeta>>;

    /// Finds the file of a conversation in a home that only one agent uses. Without an id, this is
    /// the only conversation in that home.
    fn find_in_home(&self, home: &Path, thread: Option<&str>) -> Option<TranscriptFile>;

    /// Returns the conversation that a file records, according to the name of the file.
    fn thread_of_file(&self, file: &Path) -> Option<String>;

    /// Whether a conversation in this home was started by a user, and not by the agent.
    fn is_user_thread(&self, home: &Path, thread: &str) -> bool;

    /// Returns the creation time of a conversation, if its id contains the time.
    fn created_at_ms(&self, thread: &str) -> Option<u64>;

    /// Watches for conversations that appear in a home.
    fn watch_home(&self, home: &Path) -> io::Result<TranscriptWatch>;

    /// Watches a file, and for conversations that appear next to it.
    fn watch_file(&self, file: &Path) -> io::Result<TranscriptWatch>;

    /// Opens a file at a position. `thread` is the conversation that the file records, if that is
    /// known.
    fn open(
        &self,
        file: &Path,
        offset: u64,
        thread: Option<&str>,
    ) -> io::Result<Box<dyn TranscriptReader>>;
}

/// A transcript, and the conversation that it records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptFile {
    pub thread: String,
    pub path: PathBuf,
}

/// The facts about a conversation in its transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationMeta {
    pub thread: String,
    pub cwd: Option<PathBuf>,
    /// The version of the agent.
    pub version: Option<String>,
    /// Whether the agent created the conversation for internal use, so that users never see it.
    pub hidden: bool,
}

/// The place where an agent's conversations are recorded.
#[derive(Clone, Debug)]
pub enum ConversationPlace {
    /// A home that only this agent uses.
    Home(PathBuf),
    /// The files that this process writes, in a home that other agents may use as well.
    Process(ProcessInstance),
    Nowhere,
}

/// The result of a search for another conversation.
#[derive(Debug, PartialEq, Eq)]
pub enum ConversationSearch {
    Nothing,
    /// A file exists whose owner has not been recorded in it yet.
    Unclear,
    Another(TranscriptFile),
}

/// Reads one transcript from a position to its end.
pub trait TranscriptReader: Send {
    /// Reads to the end of the file, or until the batch is full.
    fn read_more(&mut self) -> io::Result<TranscriptBatch>;

    /// Returns the position after the last line that was read.
    fn offset(&self) -> u64;

    /// Returns the conversation of the file, as far as it was read.
    fn thread(&self) -> Option<String>;

    /// Returns the current state of the conversation, at the last position that was read.
    fn current_state(&self) -> Vec<(u64, RecordSignal)>;

    /// Whether another file has taken this file's name, or the file was rewritten.
    fn was_replaced(&self) -> io::Result<bool>;
}

/// The result of one pass over the new lines of a transcript.
#[derive(Debug, Default)]
pub struct TranscriptBatch {
    /// The signals, each with the position after its line.
    pub records: Vec<(u64, RecordSignal)>,
    pub has_new_lines: bool,
    /// Whether the batch was full before the end of the file.
    pub more: bool,
}

/// Watches for the creation or growth of transcripts. Its descriptor is readable when something may
/// have changed.
pub struct TranscriptWatch(Box<dyn WatchTranscripts>);

/// A mechanism that detects when transcripts are created or grow.
pub trait WatchTranscripts: AsRawFd + Send + Sync {
    /// Drains pending events. Returns true if something may have changed.
    fn drain_events(&mut self) -> io::Result<bool>;

    /// Whether a file has appeared since the last call.
    fn has_appeared(&mut self) -> bool;
}

impl TranscriptWatch {
    pub fn new(watch: impl WatchTranscripts + 'static) -> TranscriptWatch {
        TranscriptWatch(Box::new(watch))
    }

    pub fn drain_events(&mut self) -> io::Result<bool> {
        self.0.drain_events()
    }

    pub fn has_appeared(&mut self) -> bool {
        self.0.has_appeared()
    }
}

impl AsRawFd for TranscriptWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
