//! The transcripts of the toy agent: `CONVERSATION.talk` in its home, with one event per line.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Seek as _, SeekFrom},
    mem::MaybeUninit,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
};

use provost_agent::transcript::{
    ConversationMeta, ConversationPlace, ConversationSearch, TranscriptBatch, TranscriptFile,
    TranscriptReader, TranscriptStore, TranscriptWatch, WatchTranscripts,
};
use provost_core::session::{RecordSignal, TurnEnd};
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};

use crate::{HOME_VARIABLE, TRANSCRIPT_END, adapter};

/// The maximum length of a line. A longer one is not a transcript of this agent.
const MAX_LINE: u64 = 4096;

/// The number of lines in one batch.
const BATCH: usize = 100;

/// The transcripts of one home or of the user. A home has a single conversation.
pub(crate) struct Talks;

impl TranscriptStore for Talks {
    fn home(&self, dir: &Path) -> PathBuf {
        adapter::home(dir)
    }

    fn find_other(
        &self,
        _place: &ConversationPlace,
        _since_ms: u64,
        _known: &[String],
    ) -> ConversationSearch {
        ConversationSearch::Nothing
    }

    fn find(
        &self,
        _place: &ConversationPlace,
        beside: &Path,
        thread: &str,
    ) -> Option<TranscriptFile> {
        self.find_in_home(beside.parent()?, Some(thread))
    }

    fn user_homes(&self, variable: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
        variable(HOME_VARIABLE).map(PathBuf::from).into_iter().collect()
    }

    fn is_thread(&self, text: &str) -> bool {
        text.starts_with("toy-")
    }

    fn files_of(&self, homes: &[PathBuf], thread: &str) -> Vec<TranscriptFile> {
        homes.iter().filter_map(|home| self.find_in_home(home, Some(thread))).collect()
    }

    fn newest(&self, homes: &[PathBuf], max: usize) -> Vec<TranscriptFile> {
        homes.iter().flat_map(|home| files_in(self, home)).take(max).collect()
    }

    fn read_meta(&self, file: &Path) -> io::Result<Option<ConversationMeta>> {
        let Some(thread) = self.thread_of_file(file) else { return Ok(None) };
        fs::metadata(file)?;
        Ok(Some(ConversationMeta { thread, cwd: None, version: None, hidden: false }))
    }

    fn find_in_home(&self, home: &Path, thread: Option<&str>) -> Option<TranscriptFile> {
        files_in(self, home).into_iter().find(|file| thread.is_none_or(|one| one == file.thread))
    }

    fn thread_of_file(&self, file: &Path) -> Option<String> {
        let thread = file.file_name()?.to_str()?.strip_suffix(TRANSCRIPT_END)?;
        self.is_thread(thread).then(|| thread.to_owned())
    }

    fn is_user_thread(&self, home: &Path, thread: &str) -> bool {
        self.find_in_home(home, Some(thread)).is_some()
    }

    fn created_at_ms(&self, _thread: &str) -> Option<u64> {
        None
    }

    fn watch_home(&self, home: &Path) -> io::Result<TranscriptWatch> {
        DirectoryWatch::new(home).map(TranscriptWatch::new)
    }

    fn watch_file(&self, file: &Path) -> io::Result<TranscriptWatch> {
        self.watch_home(file.parent().unwrap_or(file))
    }

    fn open(
        &self,
        file: &Path,
        offset: u64,
        thread: Option<&str>,
    ) -> io::Result<Box<dyn TranscriptReader>> {
        let mut open = File::open(file)?;
        open.seek(SeekFrom::Start(offset))?;
        let thread = thread.map(str::to_owned).or_else(|| self.thread_of_file(file));
        Ok(Box::new(TalkReader { lines: BufReader::new(open), offset, thread }))
    }
}

fn files_in(store: &Talks, home: &Path) -> Vec<TranscriptFile> {
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let known = paths.filter_map(|path| {
        let thread = store.thread_of_file(&path)?;
        Some(TranscriptFile { thread, path })
    });
    known.collect()
}

/// Reads a transcript from a position.
struct TalkReader {
    lines: BufReader<File>,
    offset: u64,
    thread: Option<String>,
}

impl TranscriptReader for TalkReader {
    fn read_more(&mut self) -> io::Result<TranscriptBatch> {
        let mut batch = TranscriptBatch::default();
        for _ in 0..BATCH {
            let mut line = Vec::new();
            let mut limited = io::Read::take(&mut self.lines, MAX_LINE);
            limited.read_until(b'\n', &mut line)?;
            if !line.ends_with(b"\n") {
                // The rest of the line may still be written.
                self.lines.seek(SeekFrom::Start(self.offset))?;
                return Ok(batch);
            }
            self.offset += line.len() as u64;
            batch.has_new_lines = true;
            batch.records.extend(signal(&line).map(|signal| (self.offset, signal)));
        }
        batch.more = true;
        Ok(batch)
    }

    fn offset(&self) -> u64 {
        self.offset
    }

    fn thread(&self) -> Option<String> {
        self.thread.clone()
    }

    fn current_state(&self) -> Vec<(u64, RecordSignal)> {
        let named = self.thread.clone().map(|thread| RecordSignal::ThreadNamed { thread });
        named.map(|named| (self.offset, named)).into_iter().collect()
    }

    fn was_replaced(&self) -> io::Result<bool> {
        Ok(false)
    }
}

/// Parses a line of a transcript.
fn signal(line: &[u8]) -> Option<RecordSignal> {
    let line = std::str::from_utf8(line).ok()?.trim_end();
    let (verb, rest) = line.split_once(' ')?;
    match verb {
        "hello" => Some(RecordSignal::ThreadNamed { thread: rest.to_owned() }),
        "begin" => Some(RecordSignal::TurnStarted { turn: Some(rest.to_owned()) }),
        "end" => {
            let (turn, says) = rest.split_once(' ')?;
            let (turn, says) = (Some(turn.to_owned()), Some(says.to_owned()));
            Some(RecordSignal::TurnEnded { turn, end: TurnEnd::Ok, says })
        }
        _ => None,
    }
}

/// Watches for changes in a directory.
struct DirectoryWatch {
    inotify: OwnedFd,
}

impl DirectoryWatch {
    fn new(directory: &Path) -> io::Result<DirectoryWatch> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let events = WatchFlags::CREATE | WatchFlags::MODIFY | WatchFlags::MOVED_TO;
        inotify::add_watch(&inotify, directory, events | WatchFlags::ONLYDIR)?;
        Ok(DirectoryWatch { inotify })
    }
}

impl WatchTranscripts for DirectoryWatch {
    fn drain_events(&mut self) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut changed = false;
        loop {
            match reader.next() {
                Ok(_) => changed = true,
                Err(rustix::io::Errno::AGAIN) => return Ok(changed),
                Err(why) => return Err(why.into()),
            }
        }
    }

    fn has_appeared(&mut self) -> bool {
        false
    }
}

impl AsRawFd for DirectoryWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.inotify.as_raw_fd()
    }
}
