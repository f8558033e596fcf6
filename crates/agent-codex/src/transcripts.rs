//! Provides Codex's rollouts as the transcripts that the engine follows.

use std::{
    io,
    path::{Path, PathBuf},
};

use provost_agent::processes::open_files;
use provost_agent::transcript::{
    ConversationMeta, ConversationPlace, ConversationSearch, TranscriptBatch, TranscriptFile,
    TranscriptReader, TranscriptStore, TranscriptWatch, WatchTranscripts,
};
use provost_core::session::RecordSignal;
use provost_sys::stat::process_state;

use crate::{
    ThreadId, launch,
    record_signals::from_rollout,
    rollout::{
        AccountLimits, CodexHomes, FileStatus, NextLine, Rollout, RolloutEvent, RolloutFileWatch,
        RolloutFold, RolloutTail, read_meta,
    },
};

/// The number of conversations in a home to examine, starting with the newest one.
const NEWEST: usize = 20;

/// The maximum number of records in one batch.
const BATCH: usize = 500;

/// A batch ends once its relevant lines reach this many bytes, which limits the memory needed for
/// large files.
const BATCH_BYTES: u64 = 2 << 20;

/// The rollouts of Codex.
pub(crate) struct Rollouts;

/// Reads one rollout.
struct RolloutReader {
    tail: RolloutTail,
    fold: RolloutFold,
    limits: Option<AccountLimits>,
}

impl TranscriptStore for Rollouts {
    fn home(&self, dir: &Path) -> PathBuf {
        launch::codex_home(dir)
    }

    fn find_other(
        &self,
        place: &ConversationPlace,
        since_ms: u64,
        known: &[String],
    ) -> ConversationSearch {
        let Ok(mut all) = open_rollouts(place) else { return ConversationSearch::Nothing };
        // An older conversation may also belong to the user, but the user did not start it just
        // now.
        let new = |thread: &ThreadId| thread.created_at_ms().is_some_and(|made| made >= since_ms);
        let is_known = |thread: &ThreadId| known.iter().any(|known| known == thread.as_str());
        all.retain(|one| new(&one.thread) && !is_known(&one.thread));
        all.sort_by_key(|one| one.thread.created_at_ms());
        let mut unclear = false;
        for rollout in all.into_iter().rev() {
            match read_meta(&rollout.path) {
                Ok(Some(meta)) if !meta.hidden && meta.thread == rollout.thread => {
                    return ConversationSearch::Another(rollout.into());
                }
                Ok(Some(_)) | Err(_) => {}
                Ok(None) => unclear = true,
            }
        }
        if unclear { ConversationSearch::Unclear } else { ConversationSearch::Nothing }
    }

    fn find(
        &self,
        place: &ConversationPlace,
        beside: &Path,
        thread: &str,
    ) -> Option<TranscriptFile> {
        let thread = ThreadId::parse(thread)?;
        let open =
            open_rollouts(place).unwrap_or_default().into_iter().find(|one| one.thread == thread);
        let stored = || {
            let homes = sessions_directory(beside).and_then(Path::parent).map(Path::to_owned);
            CodexHomes::new(homes.into_iter().collect()).find(&thread).rollouts.pop()
        };
        open.or_else(stored).map(TranscriptFile::from)
    }

    fn user_homes(&self, variable: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
        let own = variable("CODEX_HOME").map(PathBuf::from);
        let usual = variable("HOME").map(|home| Path::new(&home).join(".codex"));
        own.into_iter().chain(usual).collect()
    }

    fn is_thread(&self, text: &str) -> bool {
        ThreadId::parse(text).is_some()
    }

    fn files_of(&self, homes: &[PathBuf], thread: &str) -> Vec<TranscriptFile> {
        let Some(thread) = ThreadId::parse(thread) else { return Vec::new() };
        let found = CodexHomes::new(homes.to_vec()).find(&thread).rollouts;
        found.into_iter().map(TranscriptFile::from).collect()
    }

    fn newest(&self, homes: &[PathBuf], max: usize) -> Vec<TranscriptFile> {
        let found = CodexHomes::new(homes.to_vec()).newest(max).rollouts;
        found.into_iter().map(TranscriptFile::from).collect()
    }

    fn read_meta(&self, file: &Path) -> io::Result<Option<ConversationMeta>> {
        Ok(read_meta(file)?.map(|meta| ConversationMeta {
            thread: meta.thread.to_string(),
            cwd: meta.cwd,
            version: meta.cli_version,
            hidden: meta.hidden,
        }))
    }

    /// Older versions of Codex do not report their conversation, so it may be unknown.
    fn find_in_home(&self, home: &Path, thread: Option<&str>) -> Option<TranscriptFile> {
        let homes = CodexHomes::new(vec![home.to_owned()]);
        let found = match thread {
            Some(thread) => homes.find(&ThreadId::parse(thread)?).rollouts.pop(),
            None => {
                let mut newest = homes.newest(2).rollouts;
                let only = newest.pop();
                if newest.is_empty() { only } else { None }
            }
        };
        found.map(TranscriptFile::from)
    }

    fn thread_of_file(&self, file: &Path) -> Option<String> {
        Rollout::from_path(file, false).map(|rollout| rollout.thread.to_string())
    }

    fn is_user_thread(&self, home: &Path, thread: &str) -> bool {
        let Some(thread) = ThreadId::parse(thread) else { return false };
        let newest = CodexHomes::new(vec![home.to_owned()]).find(&thread).rollouts.pop();
        let read = newest.and_then(|rollout| read_meta(&rollout.path).ok().flatten());
        read.is_some_and(|meta| !meta.hidden && meta.thread == thread)
    }

    fn created_at_ms(&self, thread: &str) -> Option<u64> {
        ThreadId::parse(thread)?.created_at_ms()
    }

    fn watch_home(&self, home: &Path) -> io::Result<TranscriptWatch> {
        RolloutFileWatch::sessions(&home.join("sessions")).map(TranscriptWatch::new)
    }

    fn watch_file(&self, file: &Path) -> io::Result<TranscriptWatch> {
        let beside = sessions_directory(file).unwrap_or(file);
        RolloutFileWatch::watch_file_and_sessions(file, beside).map(TranscriptWatch::new)
    }

    fn open(
        &self,
        file: &Path,
        offset: u64,
        thread: Option<&str>,
    ) -> io::Result<Box<dyn TranscriptReader>> {
        let thread = thread.and_then(ThreadId::parse);
        let known = if offset == 0 { RolloutFold::for_thread } else { RolloutFold::resume };
        let fold = thread.map_or_else(RolloutFold::new, known);
        Ok(Box::new(RolloutReader { tail: RolloutTail::open(file, offset)?, fold, limits: None }))
    }
}

impl TranscriptReader for RolloutReader {
    fn read_more(&mut self) -> io::Result<TranscriptBatch> {
        let mut batch = TranscriptBatch::default();
        let mut bytes = 0;
        while batch.records.len() < BATCH && bytes < BATCH_BYTES {
            let NextLine::Line(line) = self.tail.next_line()? else { return Ok(batch) };
            let (after, length) = (line.after, line.bytes.len() as u64);
            batch.has_new_lines = true;
            let (limits, records) = (&mut self.limits, &mut batch.records);
            self.fold.line(&line, |event| {
                if let Some(signal) = from_rollout(&event, limits.as_ref()) {
                    records.push((after, signal));
                    bytes += length;
                }
                if let RolloutEvent::Limits(reported) = event {
                    *limits = Some(reported);
                }
            });
        }
        batch.more = true;
        Ok(batch)
    }

    fn offset(&self) -> u64 {
        self.tail.offset()
    }

    fn thread(&self) -> Option<String> {
        self.fold.thread().map(ToString::to_string)
    }

    fn current_state(&self) -> Vec<(u64, RecordSignal)> {
        let named = self.thread().map(|thread| RecordSignal::ThreadNamed { thread });
        let turn = self.fold.turn().map(str::to_owned);
        let open = turn.map(|turn| RecordSignal::TurnStarted { turn: Some(turn) });
        // Each position is reported only once, so the signals of one report get consecutive
        // positions.
        let signals: Vec<RecordSignal> = named.into_iter().chain(open).collect();
        let before = self.offset().saturating_sub(signals.len().saturating_sub(1) as u64);
        (before..).zip(signals).collect()
    }

    fn was_replaced(&self) -> io::Result<bool> {
        Ok(match self.tail.file_status()? {
            FileStatus::Same | FileStatus::Gone => false,
            FileStatus::Replaced | FileStatus::Shorter { .. } => true,
        })
    }
}

impl From<Rollout> for TranscriptFile {
    fn from(rollout: Rollout) -> TranscriptFile {
        TranscriptFile { thread: rollout.thread.to_string(), path: rollout.path }
    }
}

impl WatchTranscripts for RolloutFileWatch {
    fn drain_events(&mut self) -> io::Result<bool> {
        RolloutFileWatch::drain_events(self)
    }

    fn has_appeared(&mut self) -> bool {
        RolloutFileWatch::has_appeared(self)
    }
}

fn open_rollouts(place: &ConversationPlace) -> io::Result<Vec<Rollout>> {
    match place {
        ConversationPlace::Home(home) => {
            Ok(CodexHomes::new(vec![home.clone()]).newest(NEWEST).rollouts)
        }
        ConversationPlace::Process(process) => {
            let open = open_files(process.pid, Rollout::from_any_path)?;
            // The pid may have been reused, so the files count only if it still belongs to the same
            // process.
            Ok(if process_state(process)?.is_some() { open } else { Vec::new() })
        }
        ConversationPlace::Nowhere => Ok(Vec::new()),
    }
}

/// Returns the directory in which the files of new conversations appear next to this one.
fn sessions_directory(file: &Path) -> Option<&Path> {
    let named = file.ancestors().find(|above| above.file_name().is_some_and(|n| n == "sessions"));
    named.or_else(|| file.parent())
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write as _};

    use super::*;

    /// Ids that contain their creation time, in ascending order.
    const FIRST: &str = "01a1e08b-614a-7c61-a49a-d6ec86726bf8";
    const SECOND: &str = "01a1e08c-614a-7c61-a49a-d6ec86726bf8";
    const THIRD: &str = "01a1e08d-614a-7c61-a49a-d6ec86726bf8";

    fn write(home: &Path, thread: &str, more: &str) {
        let directory = home.join("sessions/2026/11/16");
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join(format!("rollout-2026-11-16T10-00-00-{thread}.jsonl"));
        let meta = format!(r#"{{"id":"{thread}","source":"cli"{more}}}"#);
        let line = format!(r#"{{"timestamp":"T","type":"session_meta","payload":{meta}}}"#);
        std::fs::write(path, if more == "-" { String::new() } else { line + "\n" }).unwrap();
    }

    fn found(home: &Path, since: &str, known: &[&str]) -> Option<String> {
        let known: Vec<String> = known.iter().map(|one| (*one).to_owned()).collect();
        let since = Rollouts.created_at_ms(since).unwrap();
        match Rollouts.find_other(&ConversationPlace::Home(home.to_owned()), since, &known) {
            ConversationSearch::Another(file) => Some(file.thread),
            ConversationSearch::Unclear => Some("unclear".to_owned()),
            ConversationSearch::Nothing => None,
        }
    }

    #[test]
    fn t08_user_thread_is_found_and_sub_agent_is_not() {
        let home = tempfile::tempdir().unwrap();
        write(home.path(), FIRST, "");
        assert_eq!(found(home.path(), FIRST, &[FIRST]), None);
        write(home.path(), THIRD, r#","thread_source":"subagent""#);
        assert_eq!(found(home.path(), FIRST, &[FIRST]), None);
        write(home.path(), THIRD, &format!(r#","parent_thread_id":"{FIRST}""#));
        assert_eq!(found(home.path(), FIRST, &[FIRST]), None);
        write(home.path(), SECOND, r#","thread_source":"user""#);
        assert_eq!(found(home.path(), FIRST, &[FIRST]).as_deref(), Some(SECOND));
        assert_eq!(found(home.path(), FIRST, &[FIRST, SECOND]), None, "it was left");
        assert_eq!(found(home.path(), THIRD, &[]), None, "it was there before");
    }

    #[test]
    fn empty_rollout_file_is_unclear() {
        let home = tempfile::tempdir().unwrap();
        write(home.path(), SECOND, "-");
        assert_eq!(found(home.path(), FIRST, &[]).as_deref(), Some("unclear"));
    }

    #[test]
    fn sessions_directory_of_a_rollout_file() {
        let file = Path::new("/h/sessions/2026/11/16/rollout.jsonl");
        assert_eq!(sessions_directory(file), Some(Path::new("/h/sessions")));
        assert_eq!(
            sessions_directory(Path::new("/elsewhere/rollout.jsonl")),
            Some(Path::new("/elsewhere"))
        );
    }

    #[test]
    fn long_messages_are_batched_and_reported_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rollout.jsonl");
        let mut file = File::create(&path).unwrap();
        let text = "a".repeat(500_000);
        for no in 0..20 {
            let payload = format!(r#"{{"type":"user_message","message":"{no} {text}"}}"#);
            writeln!(file, r#"{{"timestamp":"T","type":"event_msg","payload":{payload}}}"#)
                .unwrap();
        }
        let mut reader = Rollouts.open(&path, 0, None).unwrap();
        let mut places = Vec::new();
        loop {
            let batch = reader.read_more().unwrap();
            let found = batch.records;
            assert!(found.len() as u64 * 500_000 < 2 * BATCH_BYTES, "{}", found.len());
            places.extend(found.into_iter().map(|(place, _)| place));
            if !batch.more {
                break;
            }
        }
        assert_eq!(places.len(), 20);
        assert!(places.is_sorted_by(|one, other| one < other), "{places:?}");
    }
}
