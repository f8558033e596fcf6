//! Runs an outside command under a holder to its end, exactly once per directory.
//!
//! Absent → start; alive → wait; ended → take the record. Only the death of the holder or the
//! machine leaves it uncertain whether the command did its work. A missing directory and a holder
//! that does not answer are not an end: such a command is ended, and [`NoneLeft`] is the proof that
//! it was.

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

/// The maximum number of holders that are started at the same time.
const STARTS_AT_ONCE: usize = 8;

/// The interval between reads of a holder that is starting.
const STARTING_LOOK: Duration = Duration::from_millis(20);

/// The interval between reads of a launch that cannot be read for lack of a resource.
const SHORT_LOOK: Duration = Duration::from_millis(500);

/// How long a holder may take to report that its command runs, before its launch counts as broken.
const STARTING_LIMIT_MS: u64 = 10_000;

/// This many reads take at least that long.
const STARTING_LOOKS: u64 = STARTING_LIMIT_MS / STARTING_LOOK.as_millis() as u64;

/// After this many reads a starting holder is woken: its command may have stopped it.
const WAKING_LOOKS: u64 = STARTING_LOOKS / 10;

/// How often a holder that recorded the end of its tree is probed until it has exited.
const LEAVING_LOOKS: u64 = 250;

/// The grace period of a dead holder's survivors between TERM and KILL.
pub(crate) const SURVIVOR_GRACE: Duration = Duration::from_secs(2);

/// How long a holder may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// How long a holder may take beyond the time to end its command, before it counts as stuck.
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

/// The fate of a command when the disk takes no more of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFullDisk {
    /// It waits for space, and none of its output is lost.
    Wait,
    /// It is ended: it may be what fills the disk.
    End,
}

/// How long to wait for a command.
#[derive(Clone, Copy, Debug)]
struct Patience {
    limit: Option<Duration>,
    on_full_disk: OnFullDisk,
}

/// Why a command was ended that does not wait for space.
const NO_ROOM: &str = "the disk is full: No space left on device";

/// The result of a command under a holder.
#[derive(Debug)]
pub(crate) enum Finished {
    Ended {
        exit: ExitRecord,
    },
    /// It may have run; its exit status is unknown.
    Uncertain(String),
}

/// Why a command under a holder could not be completed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not start it: {0}")]
    Start(String),
    #[error("could not record its start: {0}")]
    Record(String),
    #[error("could not read {}: {source}", path.display())]
    Look { path: PathBuf, source: launch_dir::Error },
    #[error("could not communicate with its holder: {0}")]
    Talk(String),
    #[error("{0} of its processes could not be ended")]
    Remain(usize),
    #[error("{dead} of {live} launches look dead at once, which is implausible")]
    Doubted { dead: usize, live: usize },
}

impl Error {
    /// Whether the cause is a lack of a resource that may come back.
    pub(crate) fn is_shortage(&self) -> bool {
        Shortage::from_text(&chain(self)).is_some()
    }
}

/// Whether a holder recorded the start of its command. An end without that belongs to a start that
/// was withdrawn.
fn holds(found: &Looked) -> bool {
    match found {
        Looked::Alive { .. } => true,
        Looked::Ended { held, .. }
        | Looked::HolderDied { held, .. }
        | Looked::OtherBoot { held, .. } => held.is_some(),
        Looked::Absent | Looked::Starting { .. } => false,
    }
}

/// Proof that no process of a launch lives: the process table was searched. Without it nothing may
/// be reported as an end.
#[derive(Debug)]
pub(crate) struct NoneLeft {
    ended: usize,
}

impl NoneLeft {
    /// Whether there was anything to end, besides a holder.
    pub(crate) fn ran(&self) -> bool {
        self.ended > 0
    }
}

/// Ends the remains of a launch. It is an error if some of it is still there.
pub(crate) async fn none_left(traces: &Traces, grace: Duration) -> Result<NoneLeft, Error> {
    let traces = traces.clone();
    let ended = blocking(move || tree::end_all(&traces, grace)).await.map_err(talk)?;
    if ended.verified() {
        Ok(NoneLeft { ended: ended.found })
    } else {
        Err(Error::Remain(ended.remaining.len()))
    }
}

impl Holders {
    /// `program` is the command line that becomes a holder when a directory is appended to it.
    pub fn new(program: Vec<OsString>) -> Holders {
        Holders {
            program: program.into(),
            starts: Arc::new(Semaphore::new(STARTS_AT_ONCE)),
            children: Arc::default(),
            boundary: None,
            register: Arc::default(),
        }
    }

    /// Makes the holders serve only the daemon of a home and its operator. Launches of earlier
    /// daemons that may have lost their holders come from the home's register. One that cannot be
    /// read is started anew.
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

    /// Returns the launches whose processes may live.
    pub fn register(&self) -> Register {
        self.reap();
        self.register.lock().expect("no holder of the lock panics").clone()
    }

    /// Changes the register and its file. The copy in memory counts for this daemon even if the
    /// file cannot be written.
    fn registered(&self, change: impl FnOnce(&mut Register)) -> io::Result<()> {
        let mut register = self.register.lock().expect("no holder of the lock panics");
        change(&mut register);
        match &self.boundary {
            Some(boundary) => register.write(&boundary.register),
            None => Ok(()),
        }
    }

    /// Records that a holder reported the end of its whole tree. Only the holder itself is
    /// believed.
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
        // Before the holder starts: if this daemon is killed, the next one knows that there may be
        // processes.
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
                    // It may have started something: it counts as starting as long as this daemon
                    // lives.
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

    /// Returns the traces of a launch of which only the intended start was recorded.
    pub(crate) fn traces(&self, dir: &Path) -> Traces {
        let line = self.program.iter().skip(1).cloned().chain([dir.as_os_str().to_owned()]);
        Traces { holder_line: line.collect(), ..Traces::of(&mark(dir)) }
    }

    /// Starts a launch that is absent. A holder that died while starting left its directory, which
    /// is more precise than the error.
    pub(crate) async fn start_at(&self, dir: &Path, spec: HoldSpec) -> Result<(), Error> {
        match self.start(dir, spec).await {
            Err(why) if looked(dir).await? == Looked::Absent => Err(why),
            // It started nothing, and its directory does not contain the reason.
            Err(why) if why.is_shortage() && !holds(&looked(dir).await?) => Err(why),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Runs a command to its end, continuing any earlier start. Its start was recorded. `cancel`
    /// ends it.
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

    /// Waits for the end of a started command. An error says why there will be none.
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
                    // A holder writes its last record and exits; a record that appears before may
                    // be forged.
                    return if left(held.as_ref()).await {
                        Ok(Finished::Ended { exit })
                    } else {
                        Err("its holder stayed after the end that its record shows".to_owned())
                    };
                }
                Looked::HolderDied { .. } => return Err("its holder was killed".to_owned()),
                Looked::OtherBoot { .. } => {
                    return Err("the machine was restarted".to_owned());
                }
            }
        }
    }

    /// Waits until the holder is done, or asks it to end the command. It is an error if the holder
    /// does neither in time.
    async fn wait(
        &self,
        dir: &Path,
        on_full_disk: OnFullDisk,
        cancel: &mut tokio::sync::watch::Receiver<bool>,
        mut overdue: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), String> {
        let unanswered = || Err("its holder did not answer".to_owned());
        let Ok(mut link) = Link::follow(dir).await else {
            // The holder is exiting, or is dead: the next read shows which.
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

    /// Takes the exit status of holders that exited, so that none stays a zombie. A holder that
    /// exits with success left nothing of its launch. This comes from the kernel, not from a file.
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

    /// Whether this process is a holder that this daemon started and has not reaped.
    pub fn has_child(&self, pid: u32) -> bool {
        let children = self.children.lock().expect("no holder of the lock panics");
        children.iter().any(|child| child.process.id() == pid)
    }
}

/// A connection to a living holder that delivers notices.
#[derive(Debug)]
pub(crate) struct Link {
    lines: tokio::io::Lines<BufReader<tokio::net::unix::OwnedReadHalf>>,
    writer: tokio::net::unix::OwnedWriteHalf,
    next_id: u64,
    /// The process that listens at the other end.
    server: Option<Identity>,
    /// Whether it reported the end of the whole tree.
    told_gone: bool,
}

impl Link {
    /// Connects and asks for notices.
    pub(crate) async fn follow(dir: &Path) -> io::Result<Link> {
        // Through the directory, because its path may be longer than a socket's address.
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

    /// Waits until the holder reports the end of its tree or disconnects.
    pub(super) async fn gone(&mut self) {
        while !matches!(self.notice().await, None | Some(Notice::Gone)) {}
    }

    /// Like [`Link::gone`]; returns false as soon as the disk is full, if that is to end the
    /// command.
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

    /// Waits for the next notice. `None` when the holder is gone.
    pub(crate) async fn notice(&mut self) -> Option<Notice> {
        loop {
            // A broken connection and a closed one mean the same here: read the directory.
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

/// Sends a request to a living holder and waits for its answer.
pub(crate) async fn request(dir: &Path, op: Op) -> Result<(), client::Error> {
    request_within(dir, op, ANSWER).await
}

/// Sends a request to a holder that may be stuck.
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

/// Reads a launch directory without blocking the runtime.
pub(crate) async fn looked(dir: &Path) -> Result<Looked, Error> {
    let path = dir.to_owned();
    let found = blocking(move || look(&path)).await;
    found.map_err(|source| Error::Look { path: dir.to_owned(), source })
}

/// Reads a started launch until its holder reports the result, but not for ever. A launch that is
/// still starting after that, or could not be read all that time, will not report by itself.
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
            // A shortage shows nothing about the launch.
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

/// Describes the fault of a holder that is starting for too long.
pub(crate) fn stuck(taken: bool) -> String {
    let why = if taken {
        "its holder stopped answering while it started"
    } else {
        "its holder never appeared"
    };
    why.to_owned()
}

/// Waits until an effect is cancelled.
pub(crate) async fn cancelled(cancel: &mut tokio::sync::watch::Receiver<bool>) {
    // A dropped sender counts as a cancellation.
    cancel.wait_for(|cancelled| *cancelled).await.ok();
}

/// Returns the traces of a launch that was recorded as running.
pub(crate) fn traces(
    dir: &Path,
    holder: Option<&session::Identity>,
    child: Option<&session::Identity>,
) -> Traces {
    Traces { holder: holder.map(theirs), child: child.map(theirs), ..Traces::of(&mark(dir)) }
}

/// Converts a recorded process identity to the holder's type.
pub(crate) fn theirs(found: &session::Identity) -> provost_holder::Identity {
    provost_holder::Identity {
        pid: found.pid.unsigned_abs(),
        start_time: found.start_time,
        boot_id: found.boot_id.clone(),
    }
}

/// Ends the remains of a launch whose holder is dead, and returns the result.
pub(crate) async fn end_survivors(traces: &Traces) -> Result<tree::Ended, Error> {
    let traces = traces.clone();
    blocking(move || tree::end_all(&traces, SURVIVOR_GRACE)).await.map_err(talk)
}

/// Whether the holder died after it recorded the end, so that nothing ends the rest of the tree. A
/// holder that cannot be probed counts as alive.
pub(crate) fn has_left(held: Option<&Held>) -> bool {
    held.is_some_and(|held| matches!(held.holder.is_alive(), Ok(false)))
}

/// Rejects the record of a command that Provost did not start: a holder never leaves the end of a
/// command without the record of its start.
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

/// Waits until a holder that recorded the end of its tree has exited. Returns whether it has.
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

/// Returns a launch's mark: its key, which names its directory.
pub(crate) fn mark(dir: &Path) -> String {
    dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Waits for time to pass, where there is no event to wait for.
pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Formats an error with all its causes.
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
