//! Follows the file in which an agent writes down its conversation, from where it was read last.

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

/// How long to wait before a file that could not be read is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The event by which an agent's conversation is known.
const NAMED: &str = "stream.ready";

/// So many things are told together.
const BATCH: usize = 500;

/// Lines of so many bytes that said something are enough to be told at once: a large file is read in little memory,
/// whatever people said in it.
const BATCH_BYTES: u64 = 2 << 20;

/// How long to wait before it is looked again whether a process has begun to write down a conversation.
const APPEARS: Duration = Duration::from_millis(1_000);

/// How long to wait before a file that does not say yet whose it is is looked at again, and how often.
const LOOK_AGAIN: (Duration, u32) = (Duration::from_millis(200), 25);

/// Where a file is, as far as that is known.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// This one, and the process that writes it if that is known.
    File(PathBuf, Option<Identity>),
    /// The one that this process begins to write.
    Written(Identity),
    /// The one of the session's conversation, below a home of the agent.
    InHome(PathBuf),
}

/// Where reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    At(u64),
    /// With how things stand now: what happened before it was watched is nobody's turn.
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
    /// The one that was turned to and is not read yet.
    turned: Option<ThreadId>,
    /// From when on conversations were made while the agent was watched.
    since_ms: u64,
    bell: Arc<Notify>,
    handle: Handle,
    teller: Teller,
    clock: Clock,
}

/// What a pass over the new lines of a file found.
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
        // A conversation that is gone on with has a file already, of which all is known.
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

    /// Follows the file for as long as it is polled. What cannot be read is tried again and ends nothing.
    pub(crate) async fn run(mut self) {
        loop {
            if self.follow().await.is_err() {
                held::pause(TRY_AGAIN).await;
            }
        }
    }

    /// Waits until the process writes down a conversation. No event tells of that: its home may be anywhere.
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
            // What was not there at the first look is all news.
            begin = if begin == Begin::Now { Begin::At(0) } else { begin };
            held::pause(APPEARS).await;
        }
    }

    async fn follow(&mut self) -> io::Result<()> {
        self.appear().await;
        let (path, thread) = self.find().await?;
        self.turned = None;
        self.thread = thread.as_ref().map(ToString::to_string).or(self.thread.take());
        // Beside it the file of the conversation appears that a person goes on in.
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
                // Another file has its name, or its history was taken back: it is read as it stands.
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

    /// Looks whether the person at the screen goes on in another conversation, and turns to it. The session may know that
    /// already, by a hook; otherwise it is told.
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

    /// Gives the file that is read: the one that was named, or that of the conversation that was turned to since.
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

    /// Waits until the file is there.
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
            // What was told to the session it may not know yet.
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

    /// Waits until the agent names its conversation, which may be after it began to write it down.
    async fn named(&self, events: &mut broadcast::Receiver<Published>) {
        let session = self.launch.session.to_string();
        loop {
            match events.recv().await {
                Ok(rows) => {
                    if rows.iter().any(|row| row.session == session && row.kind == NAMED) {
                        return;
                    }
                }
                // Some were missed, so that it has to be looked.
                Err(broadcast::error::RecvError::Lagged(_)) => return,
                // The daemon is stopping.
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Gives the conversation that the session is known to have.
    async fn thread(&self) -> Option<ThreadId> {
        let session = self.launch.session.to_string();
        let row = self.handle.ask_json(Ask::Row { session }).await.ok()?;
        ThreadId::parse(row["session"]["thread"].as_str()?)
    }

    /// Opens the file where it was read last. Without such a place all of it is read, and only how it stands is told.
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

    /// Reads on to the end, or until there is enough to tell.
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

    /// Reads all that was written before anybody watched, and keeps nothing of it but how it stands.
    fn up_to_its_end(mut self) -> io::Result<Pass> {
        loop {
            self = self.on()?;
            self.found.clear();
            if !self.more {
                return Ok(self);
            }
        }
    }

    /// Gives how the conversation stands at the place that was read last.
    fn as_it_stands(&self) -> Vec<(u64, Recorded)> {
        let place = self.tail.place();
        let named = self.fold.thread().map(|thread| Recorded::Named { thread: thread.to_string() });
        let turn = self.fold.turn().map(str::to_owned);
        let open = turn.map(|turn| Recorded::TurnStarted { turn: Some(turn) });
        // Each place is told once, so what is told together has places one after the other.
        let told: Vec<Recorded> = named.into_iter().chain(open).collect();
        let before = place.saturating_sub(told.len().saturating_sub(1) as u64);
        (before..).zip(told).collect()
    }
}

/// Says where to begin to read a conversation that was turned to: what was made since is all news, and of an older one only
/// how it stands.
fn begin_of(thread: Option<&str>, since_ms: u64) -> Begin {
    let made = thread.and_then(ThreadId::parse).and_then(|thread| thread.made_at_ms());
    if made.is_some_and(|made| made >= since_ms) { Begin::At(0) } else { Begin::Now }
}

/// Gives the file of the conversation that was named. Older versions of Codex name none; in a home of its own the only
/// conversation there is, is the agent's.
fn conversation(places: &Places, named: Option<ThreadId>) -> Option<Rollout> {
    match named {
        Some(thread) => places.find(&thread).rollouts.pop(),
        None => {
            let mut newest = places.newest(2).rollouts;
            newest.pop().filter(|_| newest.is_empty())
        }
    }
}

/// Waits until there is a reason to look again.
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
