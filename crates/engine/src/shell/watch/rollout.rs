//! Follows an agent's transcript file from the last position that was read.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use provost_agent_codex::processes::PidIdentity;
use provost_agent_codex::{
    ThreadId,
    rollout::{
        AccountLimits, CodexHomes, FileStatus, NextLine, Rollout, RolloutEvent, RolloutFileWatch,
        RolloutFold, RolloutTail,
    },
};
use provost_core::{
    ids::LaunchId,
    session::{RecordSignal, RecordSource, Session, SessionCommand},
};
use tokio::{
    io::unix::AsyncFd,
    sync::{Notify, broadcast},
};

use super::super::{
    clock::Clock,
    handle::{EngineHandle, EngineRequest, ObservationSender, PublishedEvents},
    supervised_command,
};
use super::{
    poll_fd::poll_fd,
    records::from_rollout,
    thread_switch::{self, ConversationPlace, ConversationSearch, ThreadSwitches},
};

/// How long to wait before retrying to read a file.
const READ_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The event that reports an agent's conversation.
const NAMING_EVENT: &str = "stream.ready";

/// The maximum number of records in one batch.
const BATCH: usize = 500;

/// A batch ends once its relevant lines reach this many bytes, which limits the memory needed for
/// large files.
const BATCH_BYTES: u64 = 2 << 20;

/// How often to check whether a process has started to write a conversation.
const APPEAR_POLL: Duration = Duration::from_millis(1_000);

/// How long to wait before rereading a file that does not contain its owner yet, and the maximum
/// number of reads.
const UNCLEAR_RETRY: (Duration, u32) = (Duration::from_millis(200), 25);

/// Where a transcript is, as far as known.
#[derive(Clone, Debug)]
pub(crate) enum RolloutSource {
    /// This file, and the process that writes it, if known.
    File(PathBuf, Option<PidIdentity>),
    /// The file that this process will start to write.
    WrittenBy(PidIdentity),
    /// The file of the session's conversation, inside one of the agent's homes.
    InHome(PathBuf),
}

/// Where reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadStart {
    At(u64),
    /// At the current state, because events from before the watch belong to no attempt.
    Now,
}

/// Follows the rollout of one launch.
pub(crate) struct RolloutWatch {
    launch: LaunchId,
    source: RolloutSource,
    read_start: ReadStart,
    /// The conversation being read, and the conversations before it.
    thread: Option<String>,
    left_threads: Vec<String>,
    /// The conversation that the user has switched to but that is not being read yet.
    switched_to: Option<ThreadId>,
    /// Conversations created at or after this time were created while the agent was being watched.
    since_ms: u64,
    bell: Arc<Notify>,
    handle: EngineHandle,
    observations: ObservationSender,
    clock: Clock,
}

/// The result of one pass over the new lines of a file.
struct RolloutPass {
    tail: RolloutTail,
    fold: RolloutFold,
    limits: Option<AccountLimits>,
    records: Vec<(u64, RecordSignal)>,
    has_new_lines: bool,
    more: bool,
}

impl RolloutWatch {
    pub(crate) fn new(
        session: &Session,
        launch: LaunchId,
        wanted: RolloutSource,
        moves: &ThreadSwitches,
        handle: EngineHandle,
        observations: ObservationSender,
        clock: Clock,
    ) -> RolloutWatch {
        let places =
            session.launches.iter().filter_map(|l| l.watch.records.get(&RecordSource::Rollout));
        let read = places.map(|seen| seen.place).max();
        // A resumed conversation already has a file, and everything in that file is known.
        let first = session.launches.first().is_some_and(|first| first.id == launch);
        let continues = session.spec.adopted.is_some() || !first;
        let recorded = session.launch(launch);
        let since = recorded.map_or(0, |launch| launch.requested_at.wall_ms);
        let since_ms = u64::try_from(since).unwrap_or(0);
        let thread = session.thread.clone();
        let moved = recorded.is_some_and(|launch| launch.watch.behind);
        let begin = match (read, continues) {
            (Some(place), _) => ReadStart::At(place),
            (None, _) if moved => read_start_of(thread.as_deref(), since_ms),
            (None, true) => ReadStart::Now,
            (None, false) => ReadStart::At(0),
        };
        let left = recorded.map(|launch| launch.watch.previous_threads.clone()).unwrap_or_default();
        let bell = moves.bell(launch);
        RolloutWatch {
            launch,
            source: wanted,
            read_start: begin,
            thread,
            left_threads: left,
            switched_to: None,
            since_ms,
            bell,
            handle,
            observations,
            clock,
        }
    }

    /// Follows the file for as long as the future is polled. A failed read is retried and does not
    /// end the watch.
    pub(crate) async fn run(mut self) {
        loop {
            if self.follow().await.is_err() {
                supervised_command::sleep(READ_RETRY_DELAY).await;
            }
        }
    }

    /// Waits until the process writes a conversation. No event reports this, because the process's
    /// home may be anywhere.
    async fn wait_for_file(&mut self) {
        let mut begin = self.read_start;
        while let RolloutSource::WrittenBy(process) = &self.source {
            let place = ConversationPlace::Process(process.clone());
            if let ConversationSearch::Another(found) =
                supervised_command::blocking(move || thread_switch::find_other(&place, 0, &[]))
                    .await
            {
                self.source = RolloutSource::File(found.path, Some(process.clone()));
                self.read_start = begin;
                return;
            }
            // If the file did not exist at the first check, all of it is new.
            begin = if begin == ReadStart::Now { ReadStart::At(0) } else { begin };
            supervised_command::sleep(APPEAR_POLL).await;
        }
    }

    async fn follow(&mut self) -> io::Result<()> {
        self.wait_for_file().await;
        let (path, thread) = self.find_file().await?;
        self.switched_to = None;
        self.thread = thread.as_ref().map(ToString::to_string).or(self.thread.take());
        // If the user switches to another conversation, its file appears next to this one.
        let beside = thread_switch::sessions_directory(&path).unwrap_or(&path);
        let mut watch = poll_fd(RolloutFileWatch::watch_file_and_sessions(&path, beside)?)?;
        let bell = self.bell.clone();
        let mut pass = self.open_file(&path, thread).await?;
        let mut look = true;
        loop {
            pass = self.read_pass(pass).await?;
            if pass.more {
                continue;
            }
            self.thread = pass.fold.thread().map(ToString::to_string).or(self.thread.take());
            if std::mem::take(&mut look) && self.follow_thread_switch().await {
                return Ok(());
            }
            match pass.tail.file_status()? {
                FileStatus::Same | FileStatus::Gone => {}
                // Another file now has this name, or the history was rewritten. Continue with the
                // current state.
                FileStatus::Replaced | FileStatus::Shorter { .. } => {
                    self.read_start = ReadStart::Now;
                    return Ok(());
                }
            }
            tokio::select! {
                woken = wait_for_change(&mut watch) => {
                    woken?;
                    look = watch.get_mut().has_appeared();
                }
                () = bell.notified() => look = true,
            }
        }
    }

    /// Checks whether the user switched to another conversation, and follows it. The session may
    /// already know this from a hook; otherwise, it is reported.
    async fn follow_thread_switch(&mut self) -> bool {
        let Some(own) = self.thread.clone() else { return false };
        let (wait, times) = UNCLEAR_RETRY;
        for _ in 0..times {
            if let Some(thread) = self.known_thread().await.filter(|thread| thread.as_str() != own)
            {
                self.switch_to(&thread, None);
                return true;
            }
            let place = self.conversation_place();
            let known: Vec<String> = self.left_threads.iter().chain([&own]).cloned().collect();
            let since_ms = self.since_ms;
            match supervised_command::blocking(move || {
                thread_switch::find_other(&place, since_ms, &known)
            })
            .await
            {
                ConversationSearch::Nothing => return false,
                ConversationSearch::Unclear => supervised_command::sleep(wait).await,
                ConversationSearch::Another(rollout) => {
                    let what = RecordSignal::ThreadSwitched { thread: rollout.thread.to_string() };
                    self.report(vec![(0, what)]).await;
                    self.switch_to(&rollout.thread, Some(rollout.path));
                    return true;
                }
            }
        }
        false
    }

    fn switch_to(&mut self, thread: &ThreadId, path: Option<PathBuf>) {
        let to = thread.to_string();
        self.read_start = read_start_of(Some(&to), self.since_ms);
        self.left_threads.retain(|left| *left != to);
        self.left_threads.extend(self.thread.replace(to));
        self.switched_to = Some(thread.clone());
        if let (RolloutSource::File(file, _), Some(path)) = (&mut self.source, path) {
            *file = path;
        }
    }

    fn conversation_place(&self) -> ConversationPlace {
        match &self.source {
            RolloutSource::InHome(home) => ConversationPlace::Home(home.clone()),
            RolloutSource::File(_, Some(process)) | RolloutSource::WrittenBy(process) => {
                ConversationPlace::Process(process.clone())
            }
            RolloutSource::File(_, None) => ConversationPlace::Nowhere,
        }
    }

    /// Returns the file to read: the given file, or the file of the conversation that the user has
    /// switched to since.
    async fn current_file(&self, file: PathBuf) -> (PathBuf, Option<ThreadId>) {
        let own = Rollout::from_path(&file, false).map(|rollout| rollout.thread);
        let thread = self.thread.as_deref().and_then(ThreadId::parse);
        match thread {
            Some(thread) if own.as_ref().is_some_and(|own| *own != thread) => {
                let (place, beside, wanted) =
                    (self.conversation_place(), file.clone(), thread.clone());
                let found = supervised_command::blocking(move || {
                    thread_switch::find_rollout(&place, &beside, &wanted)
                })
                .await;
                found.map_or((file, None), |rollout| (rollout.path, Some(thread)))
            }
            Some(_) | None => (file, None),
        }
    }

    /// Waits until the file exists.
    async fn find_file(&self) -> io::Result<(PathBuf, Option<ThreadId>)> {
        let home = match &self.source {
            RolloutSource::File(path, _) => return Ok(self.current_file(path.clone()).await),
            RolloutSource::InHome(home) => home.clone(),
            // A file is followed only after it has appeared.
            RolloutSource::WrittenBy(_) => return Err(io::ErrorKind::NotFound.into()),
        };
        let mut watch = poll_fd(RolloutFileWatch::sessions(&home.join("sessions"))?)?;
        let mut events = self.handle.subscribe();
        loop {
            // The session may not have recorded the last report yet.
            let named = match &self.switched_to {
                Some(turned) => Some(turned.clone()),
                None => self.known_thread().await,
            };
            let places = CodexHomes::new(vec![home.clone()]);
            if let Some(found) =
                supervised_command::blocking(move || find_conversation(&places, named)).await
            {
                return Ok((found.path, Some(found.thread)));
            }
            tokio::select! {
                woken = wait_for_change(&mut watch) => woken?,
                () = self.wait_for_name(&mut events) => {}
            }
        }
    }

    /// Waits until the agent reports its conversation, which may happen after it has started to
    /// write the file.
    async fn wait_for_name(&self, events: &mut broadcast::Receiver<PublishedEvents>) {
        let session = self.launch.session.to_string();
        loop {
            match events.recv().await {
                Ok(rows) => {
                    if rows.iter().any(|row| row.session == session && row.kind == NAMING_EVENT) {
                        return;
                    }
                }
                // Some events were missed, so read the session instead.
                Err(broadcast::error::RecvError::Lagged(_)) => return,
                // The daemon is stopping.
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Returns the session's known conversation.
    async fn known_thread(&self) -> Option<ThreadId> {
        let session = self.launch.session.to_string();
        let row = self.handle.request_json(EngineRequest::SessionRow { session }).await.ok()?;
        ThreadId::parse(row["session"]["thread"].as_str()?)
    }

    /// Opens the file at the last position that was read. Without one, reads the entire file
    /// and reports only its current state.
    async fn open_file(
        &mut self,
        path: &Path,
        thread: Option<ThreadId>,
    ) -> io::Result<RolloutPass> {
        let (path, begin) = (path.to_owned(), self.read_start);
        let opened = supervised_command::blocking(move || match begin {
            ReadStart::At(0) | ReadStart::Now => {
                let fold = thread.map_or_else(RolloutFold::new, RolloutFold::for_thread);
                Ok::<_, io::Error>(RolloutPass::new(RolloutTail::open(&path, 0)?, fold))
            }
            ReadStart::At(place) => {
                let fold = thread.map_or_else(RolloutFold::new, RolloutFold::resume);
                Ok(RolloutPass::new(RolloutTail::open(&path, place)?, fold))
            }
        })
        .await?;
        if begin != ReadStart::Now {
            return Ok(opened);
        }
        let pass = supervised_command::blocking(move || opened.read_to_end()).await?;
        self.read_start = ReadStart::At(pass.tail.offset());
        self.report(pass.current_state()).await;
        Ok(pass)
    }

    async fn read_pass(&mut self, pass: RolloutPass) -> io::Result<RolloutPass> {
        let mut pass = supervised_command::blocking(move || pass.read_more()).await?;
        if pass.has_new_lines {
            self.observations.note_heard(self.launch, self.clock.now().mono_ms);
        }
        self.read_start = ReadStart::At(pass.tail.offset());
        self.report(std::mem::take(&mut pass.records)).await;
        Ok(pass)
    }

    async fn report(&self, found: Vec<(u64, RecordSignal)>) {
        let (launch, by) = (self.launch, RecordSource::Rollout);
        let found = found.into_iter();
        let commands: Vec<SessionCommand> = found
            .map(|(place, what)| SessionCommand::RecordRead { launch, by, place, what })
            .collect();
        if !commands.is_empty() {
            self.observations.send_all(launch.session, commands).await;
        }
    }
}

impl RolloutPass {
    fn new(tail: RolloutTail, fold: RolloutFold) -> RolloutPass {
        RolloutPass {
            tail,
            fold,
            limits: None,
            records: Vec::new(),
            has_new_lines: false,
            more: false,
        }
    }

    /// Reads to the end of the file, or until the batch is full.
    fn read_more(mut self) -> io::Result<RolloutPass> {
        (self.has_new_lines, self.more) = (false, false);
        let mut bytes = 0;
        while self.records.len() < BATCH && bytes < BATCH_BYTES {
            let NextLine::Line(line) = self.tail.next_line()? else { return Ok(self) };
            let (after, length) = (line.after, line.bytes.len() as u64);
            self.has_new_lines = true;
            let (limits, found) = (&mut self.limits, &mut self.records);
            self.fold.line(&line, |event| {
                if let Some(recorded) = from_rollout(&event, limits.as_ref()) {
                    found.push((after, recorded));
                    bytes += length;
                }
                if let RolloutEvent::Limits(reported) = event {
                    *limits = Some(reported);
                }
            });
        }
        self.more = true;
        Ok(self)
    }

    /// Reads everything that was written before the watch began, and keeps only the resulting state.
    fn read_to_end(mut self) -> io::Result<RolloutPass> {
        loop {
            self = self.read_more()?;
            self.records.clear();
            if !self.more {
                return Ok(self);
            }
        }
    }

    /// Returns the current state of the conversation, at the last position that was read.
    fn current_state(&self) -> Vec<(u64, RecordSignal)> {
        let place = self.tail.offset();
        let named = self
            .fold
            .thread()
            .map(|thread| RecordSignal::ThreadNamed { thread: thread.to_string() });
        let turn = self.fold.turn().map(str::to_owned);
        let open = turn.map(|turn| RecordSignal::TurnStarted { turn: Some(turn) });
        // Each position is reported only once, so the signals of one report get consecutive positions.
        let signals: Vec<RecordSignal> = named.into_iter().chain(open).collect();
        let before = place.saturating_sub(signals.len().saturating_sub(1) as u64);
        (before..).zip(signals).collect()
    }
}

/// Returns where to start reading a conversation that the user has switched to. A new conversation
/// is read completely, but for an older one only the current state is used.
fn read_start_of(thread: Option<&str>, since_ms: u64) -> ReadStart {
    let made = thread.and_then(ThreadId::parse).and_then(|thread| thread.created_at_ms());
    if made.is_some_and(|made| made >= since_ms) { ReadStart::At(0) } else { ReadStart::Now }
}

/// Returns the file of the given conversation. Older versions of Codex do not report one, but in a
/// home that only this agent uses, the only conversation is the agent's.
fn find_conversation(places: &CodexHomes, named: Option<ThreadId>) -> Option<Rollout> {
    match named {
        Some(thread) => places.find(&thread).rollouts.pop(),
        None => {
            let mut newest = places.newest(2).rollouts;
            let only = newest.pop();
            if newest.is_empty() { only } else { None }
        }
    }
}

/// Waits until there is a reason to read again.
async fn wait_for_change(watch: &mut AsyncFd<RolloutFileWatch>) -> io::Result<()> {
    loop {
        let mut guard = watch.readable_mut().await?;
        let seen = guard.get_inner_mut().drain_events()?;
        guard.clear_ready();
        if seen {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write as _};

    use super::*;

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
        let mut pass = RolloutPass::new(RolloutTail::open(&path, 0).unwrap(), RolloutFold::new());
        let mut places = Vec::new();
        loop {
            pass = pass.read_more().unwrap();
            let found = std::mem::take(&mut pass.records);
            assert!(found.len() as u64 * 500_000 < 2 * BATCH_BYTES, "{}", found.len());
            places.extend(found.into_iter().map(|(place, _)| place));
            if !pass.more {
                break;
            }
        }
        assert_eq!(places.len(), 20);
        assert!(places.is_sorted_by(|one, other| one < other), "{places:?}");
    }
}
