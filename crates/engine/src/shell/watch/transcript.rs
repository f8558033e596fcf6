//! Follows an agent's transcript file from the last position that was read.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use provost_agent::transcript::{
    ConversationPlace, ConversationSearch, TranscriptFile, TranscriptReader, TranscriptStore,
    TranscriptWatch,
};
use provost_core::{
    ids::LaunchId,
    session::{RecordSignal, RecordSource, Session, SessionCommand},
};
use provost_sys::process::ProcessInstance;
use tokio::{
    io::unix::AsyncFd,
    sync::{Notify, broadcast},
};

use super::super::{
    clock::Clock,
    handle::{EngineHandle, ObservationSender, PublishedEvents},
    supervised_command,
};
use super::{poll_fd::poll_fd, thread_switch::ThreadSwitches};

/// How long to wait before retrying to read a file.
const READ_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The event that reports an agent's conversation.
const NAMING_EVENT: &str = "stream.ready";

/// How often to check whether a process has started to write a conversation.
const APPEAR_POLL: Duration = Duration::from_millis(1_000);

/// How long to wait before rereading a file that does not contain its owner yet, and the maximum
/// number of reads.
const UNCLEAR_RETRY: (Duration, u32) = (Duration::from_millis(200), 25);

/// The location of a transcript, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) enum TranscriptSource {
    /// This file, and the process that writes it, if known.
    File(PathBuf, Option<ProcessInstance>),
    /// The file that this process will start to write.
    WrittenBy(ProcessInstance),
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

/// Follows the transcript of one launch.
pub(crate) struct TranscriptWatcher {
    launch: LaunchId,
    store: Arc<dyn TranscriptStore>,
    source: TranscriptSource,
    read_start: ReadStart,
    /// The conversation being read, and the conversations before it.
    thread: Option<String>,
    left_threads: Vec<String>,
    /// The conversation to which the user switched but that is not being read yet.
    switched_to: Option<String>,
    /// Conversations created at or after this time were created while the agent was being watched.
    since_ms: u64,
    bell: Arc<Notify>,
    handle: EngineHandle,
    observations: ObservationSender,
    clock: Clock,
}

/// An open transcript. `more` is set if the last batch ended before the end of the file.
struct OpenTranscript {
    reader: Box<dyn TranscriptReader>,
    more: bool,
}

/// The parts of the engine that a watcher of a transcript needs.
pub(crate) struct TranscriptContext<'a> {
    pub(crate) store: Arc<dyn TranscriptStore>,
    pub(crate) moves: &'a ThreadSwitches,
    pub(crate) handle: EngineHandle,
    pub(crate) observations: ObservationSender,
    pub(crate) clock: Clock,
}

impl TranscriptWatcher {
    pub(crate) fn new(
        session: &Session,
        launch: LaunchId,
        source: TranscriptSource,
        context: TranscriptContext<'_>,
    ) -> TranscriptWatcher {
        let TranscriptContext { store, moves, handle, observations, clock } = context;
        let places =
            session.launches.iter().filter_map(|l| l.watch.records.get(&RecordSource::Rollout));
        let read = places.map(|seen| seen.place).max();
        // A resumed conversation already has a file, and everything in that file is known.
        let first = session.launches.first().is_some_and(|first| first.id == launch);
        let continues = session.spec.adopted.is_some() || !first;
        let recorded = session.launch(launch);
        let since = recorded.map_or(0, |launch| launch.requested_at.wall_ms);
        let since_ms = u64::try_from(since).unwrap_or(0);
        let thread = session.conversation.thread.clone();
        let moved = recorded.is_some_and(|launch| launch.watch.behind);
        let begin = match (read, continues) {
            (Some(place), _) => ReadStart::At(place),
            (None, _) if moved => read_start_of(&*store, thread.as_deref(), since_ms),
            (None, true) => ReadStart::Now,
            (None, false) => ReadStart::At(0),
        };
        let left = recorded.map(|launch| launch.watch.previous_threads.clone()).unwrap_or_default();
        let bell = moves.bell(launch);
        TranscriptWatcher {
            launch,
            store,
            source,
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

    /// Follows the file for as long as the future is polled. A failed read is repeated and does not end the launch.
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
        while let TranscriptSource::WrittenBy(process) = &self.source {
            let (store, place) = (self.store.clone(), ConversationPlace::Process(process.clone()));
            if let ConversationSearch::Another(found) =
                supervised_command::blocking(move || store.find_other(&place, 0, &[])).await
            {
                self.source = TranscriptSource::File(found.path, Some(process.clone()));
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
        self.thread = thread.clone().or(self.thread.take());
        // If the user switches to another conversation, the file of that conversation appears next to this file.
        let mut watch = poll_fd(self.store.watch_file(&path)?)?;
        let bell = self.bell.clone();
        let mut file = self.open_file(&path, thread).await?;
        let mut look = true;
        loop {
            file = self.read_batch(file).await?;
            if file.more {
                continue;
            }
            self.thread = file.reader.thread().or(self.thread.take());
            if std::mem::take(&mut look) && self.follow_thread_switch().await {
                return Ok(());
            }
            if file.reader.was_replaced()? {
                // Continue with the current state.
                self.read_start = ReadStart::Now;
                return Ok(());
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

    /// Checks whether the user switched to another conversation, and follows it. If no hook has reported the switch to
    /// the session yet, this function reports it.
    async fn follow_thread_switch(&mut self) -> bool {
        let Some(own) = self.thread.clone() else { return false };
        let (wait, times) = UNCLEAR_RETRY;
        for _ in 0..times {
            if let Some(thread) = self.known_thread().await.filter(|thread| *thread != own) {
                self.switch_to(&thread, None);
                return true;
            }
            let (store, place) = (self.store.clone(), self.conversation_place());
            let known: Vec<String> = self.left_threads.iter().chain([&own]).cloned().collect();
            let since_ms = self.since_ms;
            match supervised_command::blocking(move || store.find_other(&place, since_ms, &known))
                .await
            {
                ConversationSearch::Nothing => return false,
                ConversationSearch::Unclear => supervised_command::sleep(wait).await,
                ConversationSearch::Another(found) => {
                    let what = RecordSignal::ThreadSwitched { thread: found.thread.clone() };
                    self.report(vec![(0, what)]).await;
                    self.switch_to(&found.thread, Some(found.path));
                    return true;
                }
            }
        }
        false
    }

    fn switch_to(&mut self, thread: &str, path: Option<PathBuf>) {
        self.read_start = read_start_of(&*self.store, Some(thread), self.since_ms);
        self.left_threads.retain(|left| left != thread);
        self.left_threads.extend(self.thread.replace(thread.to_owned()));
        self.switched_to = Some(thread.to_owned());
        if let (TranscriptSource::File(file, _), Some(path)) = (&mut self.source, path) {
            *file = path;
        }
    }

    fn conversation_place(&self) -> ConversationPlace {
        match &self.source {
            TranscriptSource::InHome(home) => ConversationPlace::Home(home.clone()),
            TranscriptSource::File(_, Some(process)) | TranscriptSource::WrittenBy(process) => {
                ConversationPlace::Process(process.clone())
            }
            TranscriptSource::File(_, None) => ConversationPlace::Nowhere,
        }
    }

    /// Returns the file to read: the given one, or that of the conversation to which the user has
    /// switched since.
    async fn current_file(&self, file: PathBuf) -> (PathBuf, Option<String>) {
        let own = self.store.thread_of_file(&file);
        let Some(thread) = self.thread.clone() else { return (file, None) };
        if own.is_none_or(|own| own == thread) {
            return (file, None);
        }
        let (store, place) = (self.store.clone(), self.conversation_place());
        let (beside, wanted) = (file.clone(), thread.clone());
        let found =
            supervised_command::blocking(move || store.find(&place, &beside, &wanted)).await;
        found.map_or((file, None), |found| (found.path, Some(thread)))
    }

    /// Waits until the file exists.
    async fn find_file(&self) -> io::Result<(PathBuf, Option<String>)> {
        let home = match &self.source {
            TranscriptSource::File(path, _) => return Ok(self.current_file(path.clone()).await),
            TranscriptSource::InHome(home) => home.clone(),
            // A file is followed only after it has appeared.
            TranscriptSource::WrittenBy(_) => return Err(io::ErrorKind::NotFound.into()),
        };
        let mut watch = poll_fd(self.store.watch_home(&home)?)?;
        let mut events = self.handle.subscribe();
        loop {
            // The session may not have recorded the last report yet.
            let named = match &self.switched_to {
                Some(turned) => Some(turned.clone()),
                None => self.known_thread().await,
            };
            let (store, home) = (self.store.clone(), home.clone());
            let found =
                supervised_command::blocking(move || store.find_in_home(&home, named.as_deref()));
            if let Some(TranscriptFile { thread, path }) = found.await {
                return Ok((path, Some(thread)));
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
    async fn known_thread(&self) -> Option<String> {
        let session = self.launch.session.to_string();
        self.handle.session(session).await.ok()?.session.thread
    }

    /// Opens the file at the last position that was read. Without such a position, reads the entire file and reports
    /// only the current state.
    async fn open_file(
        &mut self,
        path: &Path,
        thread: Option<String>,
    ) -> io::Result<OpenTranscript> {
        let (store, path, start) = (self.store.clone(), path.to_owned(), self.read_start);
        let file = supervised_command::blocking(move || {
            let offset = match start {
                ReadStart::At(offset) => offset,
                ReadStart::Now => 0,
            };
            let mut reader = store.open(&path, offset, thread.as_deref())?;
            // Everything that was written before the watch began only leads to the current state.
            while start == ReadStart::Now && reader.read_more()?.more {}
            Ok::<_, io::Error>(OpenTranscript { reader, more: false })
        })
        .await?;
        if start == ReadStart::Now {
            self.read_start = ReadStart::At(file.reader.offset());
            self.report(file.reader.current_state()).await;
        }
        Ok(file)
    }

    async fn read_batch(&mut self, mut file: OpenTranscript) -> io::Result<OpenTranscript> {
        let (file, batch) = supervised_command::blocking(move || {
            let batch = file.reader.read_more()?;
            Ok::<_, io::Error>((OpenTranscript { more: batch.more, ..file }, batch))
        })
        .await?;
        if batch.has_new_lines {
            self.observations.note_heard(self.launch, self.clock.now().mono_ms);
        }
        self.read_start = ReadStart::At(file.reader.offset());
        self.report(batch.records).await;
        Ok(file)
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

/// Returns where to start reading a conversation to which the user switched. A new conversation is
/// read completely, but for an older one only the current state is used.
fn read_start_of(store: &dyn TranscriptStore, thread: Option<&str>, since_ms: u64) -> ReadStart {
    let made = thread.and_then(|thread| store.created_at_ms(thread));
    if made.is_some_and(|made| made >= since_ms) { ReadStart::At(0) } else { ReadStart::Now }
}

/// Waits until there is a reason to read again.
async fn wait_for_change(watch: &mut AsyncFd<TranscriptWatch>) -> io::Result<()> {
    loop {
        let mut guard = watch.readable_mut().await?;
        let seen = guard.get_inner_mut().drain_events()?;
        guard.clear_ready();
        if seen {
            return Ok(());
        }
    }
}
