//! Follows the transcript file of an agent, from the last position that was read.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use provost_core::{
    ids::LaunchId,
    session::{Command, Record, Recorded, Session},
};
use provost_watch::{
    ThreadId,
    process::Identity,
    rollout::{Fold, Limits, Next, Places, Rollout, Standing, Tail, Told, Watch},
};
use tokio::{
    io::unix::AsyncFd,
    sync::{Notify, broadcast},
};

use super::super::{
    clock::Clock,
    handle::{Ask, Handle, Published, Teller},
    held,
};
use super::{
    others::{self, Found, Moves, Place},
    polled::polled,
    records::of_rollout,
};

/// The wait before a file that could not be read is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The event that names an agent's conversation.
const NAMED: &str = "stream.ready";

/// The maximum number of records in one batch.
const BATCH: usize = 500;

/// Relevant lines of this many bytes end a batch: a large file is read in little memory, whatever
/// its messages.
const BATCH_BYTES: u64 = 2 << 20;

/// The interval of checks whether a process has started to write a conversation.
const APPEARS: Duration = Duration::from_millis(1_000);

/// The wait before a file that does not name its owner yet is read again, and the maximum number of
/// reads.
const LOOK_AGAIN: (Duration, u32) = (Duration::from_millis(200), 25);

/// The location of a transcript, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// This file, and the process that writes it if that is known.
    File(PathBuf, Option<Identity>),
    /// The file that this process starts to write.
    Written(Identity),
    /// The file of the session's conversation, below a home of the agent.
    InHome(PathBuf),
}

/// Where reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    At(u64),
    /// With the current state: events before it was watched belong to no attempt.
    Now,
}

/// Follows the rollout of one launch.
pub(crate) struct RolloutWatch {
    launch: LaunchId,
    wanted: Wanted,
    begin: Begin,
    /// The conversation that is read, and those that were left for it.
    thread: Option<String>,
    left: Vec<String>,
    /// The conversation that was switched to and is not read yet.
    turned: Option<ThreadId>,
    /// Conversations created from this time on were created while the agent was watched.
    since_ms: u64,
    bell: Arc<Notify>,
    handle: Handle,
    teller: Teller,
    clock: Clock,
}

/// The result of one pass over the new lines of a file.
struct Pass {
    tail: Tail,
    fold: Fold,
    limits: Option<Limits>,
    found: Vec<(u64, Recorded)>,
    moved: bool,
    more: bool,
}

impl RolloutWatch {
    pub(crate) fn new(
        session: &Session,
        launch: LaunchId,
        wanted: Wanted,
        moves: &Moves,
        handle: Handle,
        teller: Teller,
        clock: Clock,
    ) -> RolloutWatch {
        let places = session.launches.iter().filter_map(|l| l.watch.records.get(&Record::Rollout));
        let read = places.map(|seen| seen.place).max();
        // A resumed conversation already has a file, of which everything is known.
        let first = session.launches.first().is_some_and(|first| first.id == launch);
        let goes_on = session.spec.adopted.is_some() || !first;
        let recorded = session.launch(launch);
        let since = recorded.map_or(0, |launch| launch.owed_at.wall_ms);
        let since_ms = u64::try_from(since).unwrap_or(0);
        let thread = session.thread.clone();
        let moved = recorded.is_some_and(|launch| launch.watch.behind);
        let begin = match (read, goes_on) {
            (Some(place), _) => Begin::At(place),
            (None, _) if moved => begin_of(thread.as_deref(), since_ms),
            (None, true) => Begin::Now,
            (None, false) => Begin::At(0),
        };
        let left = recorded.map(|launch| launch.watch.left.clone()).unwrap_or_default();
        let bell = moves.bell(launch);
        RolloutWatch {
            launch,
            wanted,
            begin,
            thread,
            left,
            turned: None,
            since_ms,
            bell,
            handle,
            teller,
            clock,
        }
    }

    /// Follows the file as long as it is polled. A failed read is repeated and ends nothing.
    pub(crate) async fn run(mut self) {
        loop {
            if self.follow().await.is_err() {
                held::pause(TRY_AGAIN).await;
            }
        }
    }

    /// Waits until the process writes a conversation. No event reports that, because its home may
    /// be anywhere.
    async fn appear(&mut self) {
        let mut begin = self.begin;
        while let Wanted::Written(process) = &self.wanted {
            let place = Place::Process(process.clone());
            if let Found::Another(found) =
                held::blocking(move || others::look(&place, 0, &[])).await
            {
                self.wanted = Wanted::File(found.path, Some(process.clone()));
                self.begin = begin;
                return;
            }
            // A file that did not exist at the first check is completely new.
            begin = if begin == Begin::Now { Begin::At(0) } else { begin };
            held::pause(APPEARS).await;
        }
    }

    async fn follow(&mut self) -> io::Result<()> {
        self.appear().await;
        let (path, thread) = self.find().await?;
        self.turned = None;
        self.thread = thread.as_ref().map(ToString::to_string).or(self.thread.take());
        // The file of a conversation that the user switches to appears beside it.
        let beside = others::sessions_of(&path).unwrap_or(&path);
        let mut watch = polled(Watch::file_and_sessions(&path, beside)?)?;
        let bell = self.bell.clone();
        let mut pass = self.begin(&path, thread).await?;
        let mut look = true;
        loop {
            pass = self.read(pass).await?;
            if pass.more {
                continue;
            }
            self.thread = pass.fold.thread().map(ToString::to_string).or(self.thread.take());
            if std::mem::take(&mut look) && self.went_elsewhere().await {
                return Ok(());
            }
            match pass.tail.standing()? {
                Standing::Same | Standing::Gone => {}
                // Another file has its name, or its history was rewritten: reading starts with its
                // current state.
                Standing::Replaced | Standing::Shorter { .. } => {
                    self.begin = Begin::Now;
                    return Ok(());
                }
            }
            tokio::select! {
                woken = woken(&mut watch) => {
                    woken?;
                    look = watch.get_mut().has_appeared();
                }
                () = bell.notified() => look = true,
            }
        }
    }

    /// Checks whether the user switched to another conversation, and follows it. The session may
    /// know that already, by a hook; otherwise it is reported.
    async fn went_elsewhere(&mut self) -> bool {
        let Some(own) = self.thread.clone() else { return false };
        let (wait, times) = LOOK_AGAIN;
        for _ in 0..times {
            if let Some(thread) = self.thread().await.filter(|thread| thread.as_str() != own) {
                self.turn_to(&thread, None);
                return true;
            }
            let place = self.place();
            let known: Vec<String> = self.left.iter().chain([&own]).cloned().collect();
            let since_ms = self.since_ms;
            match held::blocking(move || others::look(&place, since_ms, &known)).await {
                Found::Nothing => return false,
                Found::Unclear => held::pause(wait).await,
                Found::Another(rollout) => {
                    let what = Recorded::Moved { thread: rollout.thread.to_string() };
                    self.tell(vec![(0, what)]).await;
                    self.turn_to(&rollout.thread, Some(rollout.path));
                    return true;
                }
            }
        }
        false
    }

    fn turn_to(&mut self, thread: &ThreadId, path: Option<PathBuf>) {
        let to = thread.to_string();
        self.begin = begin_of(Some(&to), self.since_ms);
        self.left.retain(|left| *left != to);
        self.left.extend(self.thread.replace(to));
        self.turned = Some(thread.clone());
        if let (Wanted::File(file, _), Some(path)) = (&mut self.wanted, path) {
            *file = path;
        }
    }

    fn place(&self) -> Place {
        match &self.wanted {
            Wanted::InHome(home) => Place::Home(home.clone()),
            Wanted::File(_, Some(process)) | Wanted::Written(process) => {
                Place::Process(process.clone())
            }
            Wanted::File(_, None) => Place::Nowhere,
        }
    }

    /// Returns the file to read: the given one, or that of the conversation that was switched to
    /// since.
    async fn file(&self, file: PathBuf) -> (PathBuf, Option<ThreadId>) {
        let own = Rollout::named(&file, false).map(|rollout| rollout.thread);
        let thread = self.thread.as_deref().and_then(ThreadId::parse);
        match thread {
            Some(thread) if own.as_ref().is_some_and(|own| *own != thread) => {
                let (place, beside, wanted) = (self.place(), file.clone(), thread.clone());
                let found = held::blocking(move || others::find(&place, &beside, &wanted)).await;
                found.map_or((file, None), |rollout| (rollout.path, Some(thread)))
            }
            Some(_) | None => (file, None),
        }
    }

    /// Waits until the file exists.
    async fn find(&self) -> io::Result<(PathBuf, Option<ThreadId>)> {
        let home = match &self.wanted {
            Wanted::File(path, _) => return Ok(self.file(path.clone()).await),
            Wanted::InHome(home) => home.clone(),
            // It appears before it is followed.
            Wanted::Written(_) => return Err(io::ErrorKind::NotFound.into()),
        };
        let mut watch = polled(Watch::sessions(&home.join("sessions"))?)?;
        let mut events = self.handle.subscribe();
        loop {
            // The session may not know yet what was reported to it.
            let named = match &self.turned {
                Some(turned) => Some(turned.clone()),
                None => self.thread().await,
            };
            let places = Places::new(vec![home.clone()]);
            if let Some(found) = held::blocking(move || conversation(&places, named)).await {
                return Ok((found.path, Some(found.thread)));
            }
            tokio::select! {
                woken = woken(&mut watch) => woken?,
                () = self.named(&mut events) => {}
            }
        }
    }

    /// Waits until the agent names its conversation, which may be after it started to write it.
    async fn named(&self, events: &mut broadcast::Receiver<Published>) {
        let session = self.launch.session.to_string();
        loop {
            match events.recv().await {
                Ok(rows) => {
                    if rows.iter().any(|row| row.session == session && row.kind == NAMED) {
                        return;
                    }
                }
                // Some events were missed, so the session has to be read.
                Err(broadcast::error::RecvError::Lagged(_)) => return,
                // The daemon is stopping.
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Returns the session's known conversation.
    async fn thread(&self) -> Option<ThreadId> {
        let session = self.launch.session.to_string();
        let row = self.handle.ask_json(Ask::Row { session }).await.ok()?;
        ThreadId::parse(row["session"]["thread"].as_str()?)
    }

    /// Opens the file at the last position that was read. Without one the whole file is read, and
    /// only its current state is reported.
    async fn begin(&mut self, path: &Path, thread: Option<ThreadId>) -> io::Result<Pass> {
        let (path, begin) = (path.to_owned(), self.begin);
        let opened = held::blocking(move || match begin {
            Begin::At(0) | Begin::Now => {
                let fold = thread.map_or_else(Fold::new, Fold::of);
                Ok::<_, io::Error>(Pass::new(Tail::open(&path, 0)?, fold))
            }
            Begin::At(place) => {
                let fold = thread.map_or_else(Fold::new, Fold::resume);
                Ok(Pass::new(Tail::open(&path, place)?, fold))
            }
        })
        .await?;
        if begin != Begin::Now {
            return Ok(opened);
        }
        let stands = held::blocking(move || opened.up_to_its_end()).await?;
        self.begin = Begin::At(stands.tail.place());
        self.tell(stands.as_it_stands()).await;
        Ok(stands)
    }

    async fn read(&mut self, pass: Pass) -> io::Result<Pass> {
        let mut pass = held::blocking(move || pass.on()).await?;
        if pass.moved {
            self.teller.heard(self.launch, self.clock.now().mono_ms);
        }
        self.begin = Begin::At(pass.tail.place());
        self.tell(std::mem::take(&mut pass.found)).await;
        Ok(pass)
    }

    async fn tell(&self, found: Vec<(u64, Recorded)>) {
        let (launch, by) = (self.launch, Record::Rollout);
        let found = found.into_iter();
        let commands: Vec<Command> =
            found.map(|(place, what)| Command::Recorded { launch, by, place, what }).collect();
        if !commands.is_empty() {
            self.teller.tell_all(launch.session, commands).await;
        }
    }
}

impl Pass {
    fn new(tail: Tail, fold: Fold) -> Pass {
        Pass { tail, fold, limits: None, found: Vec::new(), moved: false, more: false }
    }

    /// Reads on to the end, or until the batch is full.
    fn on(mut self) -> io::Result<Pass> {
        (self.moved, self.more) = (false, false);
        let mut bytes = 0;
        while self.found.len() < BATCH && bytes < BATCH_BYTES {
            let Next::Line(line) = self.tail.next_line()? else { return Ok(self) };
            let (after, length) = (line.after, line.bytes.len() as u64);
            self.moved = true;
            let (limits, found) = (&mut self.limits, &mut self.found);
            self.fold.line(&line, |told| {
                if let Some(recorded) = of_rollout(&told, limits.as_ref()) {
                    found.push((after, recorded));
                    bytes += length;
                }
                if let Told::Limits(told) = told {
                    *limits = Some(told);
                }
            });
        }
        self.more = true;
        Ok(self)
    }

    /// Reads everything that was written before it was watched, and keeps only the resulting state.
    fn up_to_its_end(mut self) -> io::Result<Pass> {
        loop {
            self = self.on()?;
            self.found.clear();
            if !self.more {
                return Ok(self);
            }
        }
    }

    /// Returns the current state of the conversation at the last position that was read.
    fn as_it_stands(&self) -> Vec<(u64, Recorded)> {
        let place = self.tail.place();
        let named = self.fold.thread().map(|thread| Recorded::Named { thread: thread.to_string() });
        let turn = self.fold.turn().map(str::to_owned);
        let open = turn.map(|turn| Recorded::TurnStarted { turn: Some(turn) });
        // Each position is reported once, so records of one report have consecutive positions.
        let told: Vec<Recorded> = named.into_iter().chain(open).collect();
        let before = place.saturating_sub(told.len().saturating_sub(1) as u64);
        (before..).zip(told).collect()
    }
}

/// Returns where to start reading a conversation that was switched to: a new one is read
/// completely, and of an older one only the current state.
fn begin_of(thread: Option<&str>, since_ms: u64) -> Begin {
    let made = thread.and_then(ThreadId::parse).and_then(|thread| thread.made_at_ms());
    if made.is_some_and(|made| made >= since_ms) { Begin::At(0) } else { Begin::Now }
}

/// Returns the file of the named conversation. Older versions of Codex name none; in a home of its
/// own the only conversation is the agent's.
fn conversation(places: &Places, named: Option<ThreadId>) -> Option<Rollout> {
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
async fn woken(watch: &mut AsyncFd<Watch>) -> io::Result<()> {
    loop {
        let mut guard = watch.readable_mut().await?;
        let seen = guard.get_inner_mut().seen()?;
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
    fn long_messages_are_told_a_few_at_a_time_and_each_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rollout.jsonl");
        let mut file = File::create(&path).unwrap();
        let text = "a".repeat(500_000);
        for no in 0..20 {
            let said = format!(r#"{{"type":"user_message","message":"{no} {text}"}}"#);
            writeln!(file, r#"{{"timestamp":"T","type":"event_msg","payload":{said}}}"#).unwrap();
        }
        let mut pass = Pass::new(Tail::open(&path, 0).unwrap(), Fold::new());
        let mut places = Vec::new();
        loop {
            pass = pass.on().unwrap();
            let found = std::mem::take(&mut pass.found);
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
