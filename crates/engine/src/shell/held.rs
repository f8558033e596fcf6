//! Runs an outside command under a holder to its end, exactly once per directory.
//!
//! Absent → start; alive → wait; ended → take the record. Only the death of the holder or the machine
//! leaves it uncertain whether the command did its work. A directory that is gone and a holder that does not
//! answer are no end: such a command is ended, and [`NoneLeft`] is the proof that it was.

use std::{
    ffi::OsString,
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    pin::{Pin, pin},
    process::Child,
    sync::{Arc, Mutex},
    time::Duration,
};

use provost_core::{session, shortage::Shortage};
use provost_holder::{
    End, ExitRecord, Held, HoldSpec, Identity, Looked, client, launch_dir, look,
    tree::{self, Traces},
    wire::{Limited, Message, Notice, Op, Request},
};
use provost_sys::{
    origin::Boundary,
    register::{Launched, Register},
};
use rustix::fs::{Mode, OFlags};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    sync::Semaphore,
};

pub(crate) use super::blocking::blocking;
use super::start_record::StartRecord;

/// How many holders are started at the same time.
const STARTS_AT_ONCE: usize = 8;

/// How often a holder that is just starting is looked at again.
const STARTING_LOOK: Duration = Duration::from_millis(20);

/// How often a launch that cannot be looked at for lack of a resource is looked at again.
const SHORT_LOOK: Duration = Duration::from_millis(500);

/// How long a holder may take to say that its command runs, before its launch counts as broken.
const STARTING_LIMIT_MS: u64 = 10_000;

/// So many looks take as long as that, at the least.
const STARTING_LOOKS: u64 = STARTING_LIMIT_MS / STARTING_LOOK.as_millis() as u64;

/// After so many looks a holder that is starting is woken: its command may have stopped it.
const WAKING_LOOKS: u64 = STARTING_LOOKS / 10;

/// How often it is looked whether a holder that recorded the end of its tree has left.
const LEAVING_LOOKS: u64 = 250;

/// How long survivors of a dead holder have between TERM and KILL.
pub(crate) const SURVIVOR_GRACE: Duration = Duration::from_secs(2);

/// How long a holder may take for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// How long a holder may take beyond the time that it needs to end its command, before it counts as stuck.
const OVERDUE: Duration = Duration::from_secs(15);

/// Starts holders and reaps them.
#[derive(Clone, Debug)]
pub struct Holders {
    program: Arc<[OsString]>,
    starts: Arc<Semaphore>,
    children: Arc<Mutex<Vec<HolderChild>>>,
    boundary: Option<Boundary>,
    register: Arc<Mutex<Register>>,
}

/// A holder that this daemon started.
#[derive(Debug)]
struct HolderChild {
    key: String,
    process: Child,
}

/// What happens to a command when the disk takes no more of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFullDisk {
    /// It waits for room, and none of its output is lost.
    Wait,
    /// It is ended: it may be what fills the disk.
    End,
}

/// How long a command is waited for.
#[derive(Clone, Copy, Debug)]
struct Patience {
    limit: Option<Duration>,
    on_full_disk: OnFullDisk,
}

/// Why a command was ended that does not wait for room.
const NO_ROOM: &str = "the disk took no more of its output: No space left on device";

/// How a held command ended.
#[derive(Debug)]
pub(crate) enum Finished {
    Ended {
        exit: ExitRecord,
    },
    /// It may have run; nobody saw how it ended.
    Uncertain(String),
}

/// Why a command under a holder could not be brought to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not start it: {0}")]
    Start(String),
    #[error("could not record its start: {0}")]
    Record(String),
    #[error("could not look at {}: {source}", path.display())]
    Look { path: PathBuf, source: launch_dir::Error },
    #[error("could not speak with its holder: {0}")]
    Talk(String),
    #[error("{0} of its processes could not be ended")]
    Remain(usize),
    #[error("{dead} of {live} launches look dead at once, which is not believed of any of them")]
    Doubted { dead: usize, live: usize },
}

impl Error {
    /// Whether it is for lack of a resource that may come back.
    pub(crate) fn is_shortage(&self) -> bool {
        Shortage::from_text(&chain(self)).is_some()
    }
}

/// Whether a holder recorded that its command was started. An end without that is of a start that was taken back.
fn holds(found: &Looked) -> bool {
    match found {
        Looked::Alive { .. } => true,
        Looked::Ended { held, .. }
        | Looked::HolderDied { held, .. }
        | Looked::OtherBoot { held, .. } => held.is_some(),
        Looked::Absent | Looked::Starting { .. } => false,
    }
}

/// Proof that no process of a launch lives: the process table was searched. Without it nothing may be told
/// that counts as an end.
#[derive(Debug)]
pub(crate) struct NoneLeft {
    ended: usize,
}

impl NoneLeft {
    /// Says whether there was anything to end, besides a holder.
    pub(crate) fn ran(&self) -> bool {
        self.ended > 0
    }
}

/// Ends all that is left of a launch. It is an error if some of it is still there.
pub(crate) async fn none_left(traces: &Traces, grace: Duration) -> Result<NoneLeft, Error> {
    let traces = traces.clone();
    let ended = blocking(move || tree::end_all(&traces, grace)).await.map_err(talk)?;
    match ended.verified() {
        true => Ok(NoneLeft { ended: ended.found }),
        false => Err(Error::Remain(ended.remaining.len())),
    }
}

impl Holders {
    /// `program` is the command line that becomes a holder when a directory is added to it.
    pub fn new(program: Vec<OsString>) -> Holders {
        Holders {
            program: program.into(),
            starts: Arc::new(Semaphore::new(STARTS_AT_ONCE)),
            children: Arc::default(),
            boundary: None,
            register: Arc::default(),
        }
    }

    /// Has the holders serve only the daemon of a home and its operator. Launches of earlier daemons that may have lost
    /// their holders are known from the home's register; one that cannot be read is begun anew.
    #[must_use]
    pub fn within(mut self, boundary: Boundary) -> Holders {
        let register = Register::read(&boundary.register).unwrap_or_default();
        self.register = Arc::new(Mutex::new(register.of_this_boot()));
        self.boundary = Some(boundary);
        self
    }

    pub fn boundary(&self) -> Option<&Boundary> {
        self.boundary.as_ref()
    }

    /// The launches whose processes may live, by what is known now.
    pub fn register(&self) -> Register {
        self.reap();
        self.register.lock().expect("no holder of the lock panics").clone()
    }

    /// Changes the register and its file. What is in memory counts for this daemon even if the file cannot be written.
    fn registered(&self, change: impl FnOnce(&mut Register)) -> io::Result<()> {
        let mut register = self.register.lock().expect("no holder of the lock panics");
        change(&mut register);
        match &self.boundary {
            Some(boundary) => register.write(&boundary.register),
            None => Ok(()),
        }
    }

    /// Takes note that a holder told of the end of its whole tree. Only the holder itself is believed.
    pub(crate) fn ended(&self, link: &Link) {
        let Some(holder) = &link.server else { return };
        if !link.told_gone {
            return;
        }
        let change = |register: &mut Register| {
            if let Some(key) = register.key_of(holder).map(str::to_owned) {
                register.remove(&key);
            }
        };
        self.registered(change).ok();
    }

    /// Starts a launch, or finds that it was started before.
    pub async fn start(&self, dir: &Path, mut spec: HoldSpec) -> Result<(), Error> {
        let key = mark(dir);
        spec.boundary.clone_from(&self.boundary);
        let known = self.register.lock().expect("no holder of the lock panics").has(&key);
        // Before the holder starts: should this daemon be killed, the next one knows that there may be processes.
        Launched::now(&key)
            .and_then(|launch| self.registered(|register| register.enter(launch)))
            .map_err(|why| Error::Start(format!("it cannot be registered: {why}")))?;
        let permit = self.starts.clone().acquire_owned().await;
        let (program, path) = (self.program.clone(), dir.to_owned());
        let started = blocking(move || {
            let started = client::start(&program, &path, &spec);
            drop(permit);
            started
        })
        .await;
        let forget = || {
            self.registered(|register| {
                if !known {
                    register.remove(&key)
                }
            })
            .ok()
        };
        match started {
            Ok(started) => {
                self.keep(&key, started.holder);
                Ok(())
            }
            Err(client::Error::Already) => {
                forget();
                Ok(())
            }
            Err(why) => {
                let told = Error::Start(chain(&why));
                match why {
                    client::Error::Silent { holder } | client::Error::TakenBack { holder, .. } => {
                        self.keep(&key, holder);
                    }
                    client::Error::Died(_) => {
                        self.registered(|register| register.lose(&key)).ok();
                    }
                    client::Error::Spawn(_) | client::Error::Refused(_) => drop(forget()),
                    // It may have started something: it counts as starting for as long as this daemon lives.
                    client::Error::Already
                    | client::Error::Io(_)
                    | client::Error::Malformed(_)
                    | client::Error::Closed
                    | client::Error::Fault(_) => {}
                }
                Err(told)
            }
        }
    }

    /// Gives what a launch is known by, of which nobody recorded more than that it was to be started.
    pub(crate) fn traces(&self, dir: &Path) -> Traces {
        let line = self.program.iter().skip(1).cloned().chain([dir.as_os_str().to_owned()]);
        Traces { holder_line: line.collect(), ..Traces::of(&mark(dir)) }
    }

    /// Starts a launch that is not there. A holder that died on its way left its directory, which tells
    /// more than the error does.
    pub(crate) async fn start_at(&self, dir: &Path, spec: HoldSpec) -> Result<(), Error> {
        match self.start(dir, spec).await {
            Err(why) if looked(dir).await? == Looked::Absent => Err(why),
            // It started nothing, and its directory says nothing of the reason.
            Err(why) if why.is_shortage() && !holds(&looked(dir).await?) => Err(why),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Runs a command to its end, whatever was done of that before. Its start was recorded. `cancel` ends it.
    pub(crate) async fn run(
        &self,
        dir: &Path,
        spec: HoldSpec,
        start: &StartRecord,
        on_full_disk: OnFullDisk,
        cancel: &mut tokio::sync::watch::Receiver<bool>,
    ) -> Result<Finished, Error> {
        let ending = Duration::from_millis(spec.grace_ms) + OVERDUE;
        let limit = spec.time_limit_ms.map(|ms| Duration::from_millis(ms).saturating_add(ending));
        if let Looked::Absent = looked(dir).await? {
            self.start_at(dir, spec).await?;
        }
        self.await_end(dir, start, Patience { limit, on_full_disk }, cancel).await
    }

    /// Waits for the end of a command that was started, and starts none.
    pub(crate) async fn outwait(
        &self,
        dir: &Path,
        start: &StartRecord,
        limit_ms: u64,
        on_full_disk: OnFullDisk,
    ) -> Result<Finished, Error> {
        let (_never, mut cancel) = tokio::sync::watch::channel(false);
        let limit = Some(Duration::from_millis(limit_ms).saturating_add(OVERDUE));
        self.await_end(dir, start, Patience { limit, on_full_disk }, &mut cancel).await
    }

    async fn await_end(
        &self,
        dir: &Path,
        start: &StartRecord,
        patience: Patience,
        cancel: &mut tokio::sync::watch::Receiver<bool>,
    ) -> Result<Finished, Error> {
        let Patience { limit, on_full_disk } = patience;
        let overdue = pin!(async move {
            match limit {
                Some(limit) => pause(limit).await,
                None => std::future::pending().await,
            }
        });
        let why = match self.finish(dir, start, on_full_disk, cancel, overdue).await {
            Ok(finished) => return Ok(finished),
            Err(why) => why,
        };
        Ok(Finished::Uncertain(match none_left(&self.traces(dir), SURVIVOR_GRACE).await {
            Ok(_) => why,
            Err(more) => format!("{why}; {more}"),
        }))
    }

    /// Waits for the end of what was started, or says why that will not come.
    async fn finish(
        &self,
        dir: &Path,
        start: &StartRecord,
        on_full_disk: OnFullDisk,
        cancel: &mut tokio::sync::watch::Receiver<bool>,
        mut overdue: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Finished, String> {
        loop {
            let found = begun(dir).await.map_err(|why| chain(&why))?;
            vet(&found, start)?;
            match found {
                Looked::Absent => return Err("its directory is gone".to_owned()),
                Looked::Starting { holder, .. } => return Err(stuck(holder.is_some())),
                Looked::Ended { held, exit, gone: None } if has_left(held.as_ref()) => {
                    let ended = none_left(&self.traces(dir), SURVIVOR_GRACE).await;
                    ended.map_err(|why| chain(&why))?;
                    return Ok(Finished::Ended { exit });
                }
                Looked::Alive { .. } | Looked::Ended { gone: None, .. } => {
                    self.wait(dir, on_full_disk, cancel, overdue.as_mut()).await?;
                }
                Looked::Ended { held, exit, .. } => {
                    // A holder writes its last record and leaves; what is there while it stays may be another's.
                    return match left(held.as_ref()).await {
                        true => Ok(Finished::Ended { exit }),
                        false => {
                            Err("its holder stayed after the end that its record shows".to_owned())
                        }
                    };
                }
                Looked::HolderDied { .. } => return Err("its holder was killed".to_owned()),
                Looked::OtherBoot { .. } => {
                    return Err("the machine was started anew".to_owned());
                }
            }
        }
    }

    /// Waits until the holder has nothing more to say, or asks it to end the command. It is an error if the
    /// holder does neither in time.
    async fn wait(
        &self,
        dir: &Path,
        on_full_disk: OnFullDisk,
        cancel: &mut tokio::sync::watch::Receiver<bool>,
        mut overdue: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), String> {
        let unanswered = || Err("its holder did not answer".to_owned());
        let Ok(mut link) = Link::follow(dir).await else {
            // The holder is leaving, or is dead: the next look tells which.
            return tokio::select! {
                () = pause(STARTING_LOOK) => Ok(()),
                () = &mut overdue => unanswered(),
            };
        };
        tokio::select! {
            gone = link.gone_or_full(on_full_disk) => {
                if !gone {
                    return Err(NO_ROOM.to_owned());
                }
            }
            () = cancelled(cancel) => {
                link.send(Op::Stop { grace_ms: 1_000 }).await.map_err(|why| why.to_string())?;
                if tokio::time::timeout(OVERDUE, link.gone()).await.is_err() {
                    return unanswered();
                }
            }
            () = &mut overdue => return unanswered(),
        }
        self.ended(&link);
        self.reap();
        Ok(())
    }

    fn keep(&self, key: &str, process: Child) {
        let identity = Identity::of(process.id()).ok().flatten();
        self.registered(|register| match identity {
            Some(holder) => register.set_holder(key, holder),
            None => register.lose(key),
        })
        .ok();
        let child = HolderChild { key: key.to_owned(), process };
        self.children.lock().expect("no holder of the lock panics").push(child);
        self.reap();
    }

    /// Takes the exit status of holders that left, so that none stays a zombie. A holder that ends with success left
    /// nothing of its launch; the kernel says so, not a file.
    pub fn reap(&self) {
        let mut gone = Vec::new();
        let mut children = self.children.lock().expect("no holder of the lock panics");
        children.retain_mut(|child| match child.process.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                if status.success() {
                    gone.push(child.key.clone());
                }
                false
            }
            Err(_) => false,
        });
        drop(children);
        if !gone.is_empty() {
            self.registered(|register| gone.iter().for_each(|key| register.remove(key))).ok();
        }
    }

    /// Whether this process is a holder that this daemon started and still waits for.
    pub fn has_child(&self, pid: u32) -> bool {
        let children = self.children.lock().expect("no holder of the lock panics");
        children.iter().any(|child| child.process.id() == pid)
    }
}

/// A connection to a living holder that tells what happens.
#[derive(Debug)]
pub(crate) struct Link {
    lines: tokio::io::Lines<BufReader<tokio::net::unix::OwnedReadHalf>>,
    writer: tokio::net::unix::OwnedWriteHalf,
    next_id: u64,
    /// The process that listens at the other end.
    server: Option<Identity>,
    /// Whether it told of the end of the whole tree.
    told_gone: bool,
}

impl Link {
    /// Connects and asks for notices.
    pub(crate) async fn follow(dir: &Path) -> io::Result<Link> {
        // Through the directory, for its path may be longer than a socket's address.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(dir, flags, Mode::empty())?;
        let path = format!("/proc/self/fd/{}/{}", handle.as_raw_fd(), launch_dir::SOCKET_FILE);
        let stream = UnixStream::connect(path).await?;
        let listens = stream.peer_cred()?.pid().and_then(|pid| u32::try_from(pid).ok());
        let server = listens.and_then(|pid| Identity::of(pid).ok().flatten());
        let (reader, writer) = stream.into_split();
        let lines = BufReader::new(reader).lines();
        let mut link = Link { lines, writer, next_id: 1, server, told_gone: false };
        link.send(Op::Follow).await?;
        Ok(link)
    }

    pub(crate) async fn send(&mut self, op: Op) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Request::new(self.next_id, op))?;
        self.next_id += 1;
        line.push(b'\n');
        self.writer.write_all(&line).await
    }

    /// Waits until the holder has nothing more to say.
    pub(super) async fn gone(&mut self) {
        while !matches!(self.notice().await, None | Some(Notice::Gone)) {}
    }

    /// The same; false as soon as the disk takes no more, if that is to end the command.
    async fn gone_or_full(&mut self, on_full_disk: OnFullDisk) -> bool {
        let full = Notice::Limit { limited: Limited::DiskFull };
        while let Some(notice) = self.notice().await {
            if notice == Notice::Gone {
                return true;
            }
            if notice == full && on_full_disk == OnFullDisk::End {
                return false;
            }
        }
        true
    }

    /// Waits for the next notice; none when the holder is gone.
    pub(crate) async fn notice(&mut self) -> Option<Notice> {
        loop {
            // A broken connection and a closed one mean the same here: look at the directory.
            let line = self.lines.next_line().await.ok().flatten()?;
            match Message::parse(line.as_bytes()) {
                Ok(Message::Notice(notice)) => {
                    self.told_gone |= notice == Notice::Gone;
                    return Some(notice);
                }
                Ok(Message::Reply(_) | Message::View(_)) | Err(_) => {}
            }
        }
    }
}

/// Asks a living holder for one thing and waits for its answer.
pub(crate) async fn request(dir: &Path, op: Op) -> Result<(), client::Error> {
    request_within(dir, op, ANSWER).await
}

/// Asks a holder that may be stuck.
pub(crate) async fn request_within(
    dir: &Path,
    op: Op,
    time: Duration,
) -> Result<(), client::Error> {
    let dir = dir.to_owned();
    blocking(move || {
        let mut link = client::Link::connect(&dir)?;
        link.set_timeout(time)?;
        link.request(op).map(drop)
    })
    .await
}

/// Looks at a launch directory without blocking the runtime.
pub(crate) async fn looked(dir: &Path) -> Result<Looked, Error> {
    let path = dir.to_owned();
    let found = blocking(move || look(&path)).await;
    found.map_err(|source| Error::Look { path: dir.to_owned(), source })
}

/// Looks at a launch that was started until its holder says what came of that, but not for ever: what is
/// starting still, or could not be looked at all that time, will say nothing more by itself.
pub(crate) async fn begun(dir: &Path) -> Result<Looked, Error> {
    let mut looks = 0;
    loop {
        let found = looked(dir).await;
        let age_ms = match &found {
            Ok(Looked::Starting { age_ms, holder: None }) => *age_ms,
            Ok(Looked::Starting { holder: Some(holder), .. }) => {
                if looks >= WAKING_LOOKS {
                    // One that cannot be woken counts as stuck in the end.
                    tree::wake(holder).ok();
                }
                0
            }
            // A shortage says nothing about the launch.
            Err(why) if Shortage::from_text(&chain(why)).is_some() => {
                pause(SHORT_LOOK).await;
                continue;
            }
            Err(_) => 0,
            Ok(_) => return found,
        };
        if looks >= STARTING_LOOKS || age_ms > STARTING_LIMIT_MS {
            return found;
        }
        looks += 1;
        pause(STARTING_LOOK).await;
    }
}

/// Says in words what is wrong with a holder that is starting for too long.
pub(crate) fn stuck(taken: bool) -> String {
    match taken {
        true => "its holder stopped answering while it started",
        false => "its holder never appeared",
    }
    .to_owned()
}

/// Waits until something is no longer wanted.
pub(crate) async fn cancelled(cancel: &mut tokio::sync::watch::Receiver<bool>) {
    // Whoever can no longer say so does not want it either.
    cancel.wait_for(|cancelled| *cancelled).await.ok();
}

/// Gives what a launch is known by that was recorded as running.
pub(crate) fn traces(
    dir: &Path,
    holder: Option<&session::Identity>,
    child: Option<&session::Identity>,
) -> Traces {
    Traces { holder: holder.map(theirs), child: child.map(theirs), ..Traces::of(&mark(dir)) }
}

/// Gives a process that was recorded as its holder knows it.
pub(crate) fn theirs(found: &session::Identity) -> provost_holder::Identity {
    provost_holder::Identity {
        pid: found.pid.unsigned_abs(),
        start_time: found.start_time,
        boot_id: found.boot_id.clone(),
    }
}

/// Ends what is left of a launch whose holder is dead, and says what became of that.
pub(crate) async fn end_survivors(traces: &Traces) -> Result<tree::Ended, Error> {
    let traces = traces.clone();
    blocking(move || tree::end_all(&traces, SURVIVOR_GRACE)).await.map_err(talk)
}

/// Says whether the holder died after it recorded the end, so that nobody is left to end the rest of the tree.
/// A holder that cannot be looked at is asked again.
pub(crate) fn has_left(held: Option<&Held>) -> bool {
    held.is_some_and(|held| matches!(held.holder.is_alive(), Ok(false)))
}

/// Refuses the record of a command that Provost did not start: a holder never leaves the end of a command without the
/// record of its start.
fn vet(found: &Looked, start: &StartRecord) -> Result<(), String> {
    let held = match found {
        Looked::Ended { held: None, exit, .. } => {
            return match exit.end {
                End::NotStarted { .. } => Ok(()),
                End::Exited { .. } | End::Signalled { .. } => {
                    Err("its record shows an end and no start, so it does not count".to_owned())
                }
            };
        }
        Looked::Alive { held } | Looked::Ended { held: Some(held), .. } => held,
        Looked::Absent
        | Looked::Starting { .. }
        | Looked::HolderDied { .. }
        | Looked::OtherBoot { .. } => return Ok(()),
    };
    if start.matches(held) {
        return Ok(());
    }
    Err("its record is of another command, so it does not count".to_owned())
}

/// Waits until a holder that recorded the end of its tree has left; whether it has.
async fn left(held: Option<&Held>) -> bool {
    let Some(Held { holder, .. }) = held else { return true };
    for _ in 0..LEAVING_LOOKS {
        let rebooted = provost_sys::process::boot_id().is_ok_and(|boot| boot != holder.boot_id);
        if rebooted || matches!(holder.is_alive(), Ok(false)) {
            return true;
        }
        pause(STARTING_LOOK).await;
    }
    false
}

/// A launch's mark is its key, which names its directory.
pub(crate) fn mark(dir: &Path) -> String {
    dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Waits for time to pass, where there is no event to wait for.
pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Tells an error with all that caused it.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}

fn talk(why: io::Error) -> Error {
    Error::Talk(why.to_string())
}
