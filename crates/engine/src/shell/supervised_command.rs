//! Runs an outside command under a holder to its end, exactly once per directory.
//!
//! Absent → start; alive → wait; ended → take the record. Only the death of the holder or the
//! machine leaves it uncertain whether the command did its work. A missing directory and a holder
//! that does not answer are not an end: such a command is ended, and [`NoProcessLeft`] is the proof that
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
    ExitRecord, HeldRecord, HoldSpec, LaunchState, ProcessEnd, ProcessInstance, client, inspect,
    launch_dir,
    tree::{self, LaunchTraces},
    wire::{HolderMessage, HolderNotice, HolderOp, HolderRequest, OutputPause},
};
use provost_sys::{
    origin::Boundary,
    register::{LaunchRegister, RegisteredLaunch},
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
const START_POLL: Duration = Duration::from_millis(20);

/// The interval between reads of a launch that cannot be read for lack of a resource.
const SHORTAGE_POLL: Duration = Duration::from_millis(500);

/// How long a holder may take to report that its command runs, before its launch counts as broken.
const STARTING_LIMIT_MS: u64 = 10_000;

/// This many reads take at least that long.
const START_POLLS: u64 = STARTING_LIMIT_MS / START_POLL.as_millis() as u64;

/// After this many reads a starting holder is woken: its command may have stopped it.
const WAKE_AFTER_POLLS: u64 = START_POLLS / 10;

/// How often a holder that recorded the end of its tree is probed until it has exited.
const EXIT_POLLS: u64 = 250;

/// The grace period of a dead holder's survivors between TERM and KILL.
pub(crate) const SURVIVOR_GRACE: Duration = Duration::from_secs(2);

/// How long a holder may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a holder may take beyond the time to end its command, before it counts as stuck.
const OVERDUE: Duration = Duration::from_secs(15);

/// Starts holders and reaps them.
#[derive(Clone, Debug)]
pub struct Holders {
    program: Arc<[OsString]>,
    starts: Arc<Semaphore>,
    children: Arc<Mutex<Vec<HolderChild>>>,
    boundary: Option<Boundary>,
    register: Arc<Mutex<LaunchRegister>>,
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
struct WaitLimits {
    limit: Option<Duration>,
    on_full_disk: OnFullDisk,
}

/// Why a command was ended that does not wait for space.
const DISK_FULL: &str = "the disk is full: No space left on device";

/// The result of a command under a holder.
#[derive(Debug)]
pub(crate) enum CommandEnd {
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
    Read { path: PathBuf, source: launch_dir::Error },
    #[error("could not communicate with its holder: {0}")]
    Communicate(String),
    #[error("{0} of its processes could not be ended")]
    Survivors(usize),
    #[error("{dead} of {live} launches look dead at once, which is implausible")]
    Implausible { dead: usize, live: usize },
}

impl Error {
    /// Whether the cause is a lack of a resource that may come back.
    pub(crate) fn is_shortage(&self) -> bool {
        Shortage::from_text(&error_chain(self)).is_some()
    }
}

/// Whether a holder recorded the start of its command. An end without that belongs to a start that
/// was withdrawn.
fn has_start_record(found: &LaunchState) -> bool {
    match found {
        LaunchState::Alive { .. } => true,
        LaunchState::Ended { held, .. }
        | LaunchState::HolderDied { held, .. }
        | LaunchState::OtherBoot { held, .. } => held.is_some(),
        LaunchState::Absent | LaunchState::Starting { .. } => false,
    }
}

/// Proof that no process of a launch lives: the process table was searched. Without it nothing may
/// be reported as an end.
#[derive(Debug)]
pub(crate) struct NoProcessLeft {
    ended: usize,
}

impl NoProcessLeft {
    /// Whether there was anything to end, besides a holder.
    pub(crate) fn found_processes(&self) -> bool {
        self.ended > 0
    }
}

/// Ends the remains of a launch. It is an error if some of it is still there.
pub(crate) async fn end_all_processes(
    traces: &LaunchTraces,
    grace: Duration,
) -> Result<NoProcessLeft, Error> {
    let traces = traces.clone();
    let ended =
        blocking(move || tree::end_all(&traces, grace)).await.map_err(communication_error)?;
    if ended.verified() {
        Ok(NoProcessLeft { ended: ended.found })
    } else {
        Err(Error::Survivors(ended.remaining.len()))
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
    pub fn with_boundary(mut self, boundary: Boundary) -> Holders {
        let register = LaunchRegister::read(&boundary.register).unwrap_or_default();
        self.register = Arc::new(Mutex::new(register.of_this_boot()));
        self.boundary = Some(boundary);
        self
    }

    pub fn boundary(&self) -> Option<&Boundary> {
        self.boundary.as_ref()
    }

    /// Returns the launches whose processes may live.
    pub fn register(&self) -> LaunchRegister {
        self.reap();
        self.register.lock().expect("no holder of the lock panics").clone()
    }

    /// Changes the register and its file. The copy in memory counts for this daemon even if the
    /// file cannot be written.
    fn update_register(&self, change: impl FnOnce(&mut LaunchRegister)) -> io::Result<()> {
        let mut register = self.register.lock().expect("no holder of the lock panics");
        change(&mut register);
        match &self.boundary {
            Some(boundary) => register.write(&boundary.register),
            None => Ok(()),
        }
    }

    /// Records that a holder reported the end of its whole tree. Only the holder itself is
    /// believed.
    pub(crate) fn record_end(&self, link: &HolderConnection) {
        let Some(holder) = &link.server else { return };
        if !link.reported_gone {
            return;
        }
        let change = |register: &mut LaunchRegister| {
            if let Some(key) = register.key_of(holder).map(str::to_owned) {
                register.remove(&key);
            }
        };
        self.update_register(change).ok();
    }

    /// Starts a launch, or finds that it was started before.
    pub async fn start(&self, dir: &Path, mut spec: HoldSpec) -> Result<(), Error> {
        let key = launch_mark(dir);
        spec.boundary.clone_from(&self.boundary);
        let known = self.register.lock().expect("no holder of the lock panics").has(&key);
        // Before the holder starts: if this daemon is killed, the next one knows that there may be
        // processes.
        RegisteredLaunch::starting_now(&key)
            .and_then(|launch| self.update_register(|register| register.enter(launch)))
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
            self.update_register(|register| {
                if !known {
                    register.remove(&key)
                }
            })
            .ok()
        };
        match started {
            Ok(started) => {
                self.track_child(&key, started.holder);
                Ok(())
            }
            Err(client::Error::AlreadyTaken) => {
                forget();
                Ok(())
            }
            Err(why) => {
                let told = Error::Start(error_chain(&why));
                match why {
                    client::Error::AnswerTimeout { holder }
                    | client::Error::StartUndone { holder, .. } => {
                        self.track_child(&key, holder);
                    }
                    client::Error::Died(_) => {
                        self.update_register(|register| register.mark_lost(&key)).ok();
                    }
                    client::Error::Spawn(_) | client::Error::Refused(_) => drop(forget()),
                    // It may have started something: it counts as starting as long as this daemon
                    // lives.
                    client::Error::AlreadyTaken
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
    pub(crate) fn traces(&self, dir: &Path) -> LaunchTraces {
        let line = self.program.iter().skip(1).cloned().chain([dir.as_os_str().to_owned()]);
        LaunchTraces { holder_line: line.collect(), ..LaunchTraces::with_mark(&launch_mark(dir)) }
    }

    /// Starts a launch that is absent. A holder that died while starting left its directory, which
    /// is more precise than the error.
    pub(crate) async fn start_at(&self, dir: &Path, spec: HoldSpec) -> Result<(), Error> {
        match self.start(dir, spec).await {
            Err(why) if read_launch(dir).await? == LaunchState::Absent => Err(why),
            // It started nothing, and its directory does not contain the reason.
            Err(why) if why.is_shortage() && !has_start_record(&read_launch(dir).await?) => {
                Err(why)
            }
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
    ) -> Result<CommandEnd, Error> {
        let ending = Duration::from_millis(spec.grace_ms) + OVERDUE;
        let limit = spec.time_limit_ms.map(|ms| Duration::from_millis(ms).saturating_add(ending));
        if let LaunchState::Absent = read_launch(dir).await? {
            self.start_at(dir, spec).await?;
        }
        self.await_end(dir, start, WaitLimits { limit, on_full_disk }, cancel).await
    }

    /// Waits for the end of a command that was started, and starts none.
    pub(crate) async fn wait_for_end(
        &self,
        dir: &Path,
        start: &StartRecord,
        limit_ms: u64,
        on_full_disk: OnFullDisk,
    ) -> Result<CommandEnd, Error> {
        let (_never, mut cancel) = tokio::sync::watch::channel(false);
        let limit = Some(Duration::from_millis(limit_ms).saturating_add(OVERDUE));
        self.await_end(dir, start, WaitLimits { limit, on_full_disk }, &mut cancel).await
    }

    async fn await_end(
        &self,
        dir: &Path,
        start: &StartRecord,
        patience: WaitLimits,
        cancel: &mut tokio::sync::watch::Receiver<bool>,
    ) -> Result<CommandEnd, Error> {
        let WaitLimits { limit, on_full_disk } = patience;
        let overdue = pin!(async move {
            match limit {
                Some(limit) => sleep(limit).await,
                None => std::future::pending().await,
            }
        });
        let why = match self.wait_for_result(dir, start, on_full_disk, cancel, overdue).await {
            Ok(finished) => return Ok(finished),
            Err(why) => why,
        };
        Ok(CommandEnd::Uncertain(
            match end_all_processes(&self.traces(dir), SURVIVOR_GRACE).await {
                Ok(_) => why,
                Err(more) => format!("{why}; {more}"),
            },
        ))
    }

    /// Waits for the end of a started command. An error says why there will be none.
    async fn wait_for_result(
        &self,
        dir: &Path,
        start: &StartRecord,
        on_full_disk: OnFullDisk,
        cancel: &mut tokio::sync::watch::Receiver<bool>,
        mut overdue: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<CommandEnd, String> {
        loop {
            let found = wait_until_started(dir).await.map_err(|why| error_chain(&why))?;
            verify_record(&found, start)?;
            match found {
                LaunchState::Absent => return Err("its directory is gone".to_owned()),
                LaunchState::Starting { holder, .. } => {
                    return Err(describe_stuck_start(holder.is_some()));
                }
                LaunchState::Ended { held, exit, gone: None }
                    if holder_has_exited(held.as_ref()) =>
                {
                    let ended = end_all_processes(&self.traces(dir), SURVIVOR_GRACE).await;
                    ended.map_err(|why| error_chain(&why))?;
                    return Ok(CommandEnd::Ended { exit });
                }
                LaunchState::Alive { .. } | LaunchState::Ended { gone: None, .. } => {
                    self.wait_for_holder(dir, on_full_disk, cancel, overdue.as_mut()).await?;
                }
                LaunchState::Ended { held, exit, .. } => {
                    // A holder writes its last record and exits; a record that appears before may
                    // be forged.
                    return if wait_for_holder_exit(held.as_ref()).await {
                        Ok(CommandEnd::Ended { exit })
                    } else {
                        Err("its holder stayed after the end that its record shows".to_owned())
                    };
                }
                LaunchState::HolderDied { .. } => return Err("its holder was killed".to_owned()),
                LaunchState::OtherBoot { .. } => {
                    return Err("the machine was restarted".to_owned());
                }
            }
        }
    }

    /// Waits until the holder is done, or asks it to end the command. It is an error if the holder
    /// does neither in time.
    async fn wait_for_holder(
        &self,
        dir: &Path,
        on_full_disk: OnFullDisk,
        cancel: &mut tokio::sync::watch::Receiver<bool>,
        mut overdue: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), String> {
        let unanswered = || Err("its holder did not answer".to_owned());
        let Ok(mut link) = HolderConnection::follow(dir).await else {
            // The holder is exiting, or is dead: the next read shows which.
            return tokio::select! {
                () = sleep(START_POLL) => Ok(()),
                () = &mut overdue => unanswered(),
            };
        };
        tokio::select! {
            gone = link.wait_gone_or_full(on_full_disk) => {
                if !gone {
                    return Err(DISK_FULL.to_owned());
                }
            }
            () = wait_for_cancel(cancel) => {
                link.send(HolderOp::Stop { grace_ms: 1_000 }).await.map_err(|why| why.to_string())?;
                if tokio::time::timeout(OVERDUE, link.wait_gone()).await.is_err() {
                    return unanswered();
                }
            }
            () = &mut overdue => return unanswered(),
        }
        self.record_end(&link);
        self.reap();
        Ok(())
    }

    fn track_child(&self, key: &str, process: Child) {
        let identity = ProcessInstance::of_pid(process.id()).ok().flatten();
        self.update_register(|register| match identity {
            Some(holder) => register.set_holder(key, holder),
            None => register.mark_lost(key),
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
            self.update_register(|register| gone.iter().for_each(|key| register.remove(key))).ok();
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
pub(crate) struct HolderConnection {
    lines: tokio::io::Lines<BufReader<tokio::net::unix::OwnedReadHalf>>,
    writer: tokio::net::unix::OwnedWriteHalf,
    next_id: u64,
    /// The process that listens at the other end.
    server: Option<ProcessInstance>,
    /// Whether it reported the end of the whole tree.
    reported_gone: bool,
}

impl HolderConnection {
    /// Connects and asks for notices.
    pub(crate) async fn follow(dir: &Path) -> io::Result<HolderConnection> {
        // Through the directory, because its path may be longer than a socket's address.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(dir, flags, Mode::empty())?;
        let path = format!("/proc/self/fd/{}/{}", handle.as_raw_fd(), launch_dir::SOCKET_FILE);
        let stream = UnixStream::connect(path).await?;
        let listens = stream.peer_cred()?.pid().and_then(|pid| u32::try_from(pid).ok());
        let server = listens.and_then(|pid| ProcessInstance::of_pid(pid).ok().flatten());
        let (reader, writer) = stream.into_split();
        let lines = BufReader::new(reader).lines();
        let mut link = HolderConnection { lines, writer, next_id: 1, server, reported_gone: false };
        link.send(HolderOp::Follow).await?;
        Ok(link)
    }

    pub(crate) async fn send(&mut self, op: HolderOp) -> io::Result<()> {
        let mut line = serde_json::to_vec(&HolderRequest::new(self.next_id, op))?;
        self.next_id += 1;
        line.push(b'\n');
        self.writer.write_all(&line).await
    }

    /// Waits until the holder reports the end of its tree or disconnects.
    pub(super) async fn wait_gone(&mut self) {
        while !matches!(self.next_notice().await, None | Some(HolderNotice::Gone)) {}
    }

    /// Like [`HolderConnection::gone`]; returns false as soon as the disk is full, if that is to end the
    /// command.
    async fn wait_gone_or_full(&mut self, on_full_disk: OnFullDisk) -> bool {
        let full = HolderNotice::Limit { limited: OutputPause::DiskFull };
        while let Some(notice) = self.next_notice().await {
            if notice == HolderNotice::Gone {
                return true;
            }
            if notice == full && on_full_disk == OnFullDisk::End {
                return false;
            }
        }
        true
    }

    /// Waits for the next notice. `None` when the holder is gone.
    pub(crate) async fn next_notice(&mut self) -> Option<HolderNotice> {
        loop {
            // A broken connection and a closed one mean the same here: read the directory.
            let line = self.lines.next_line().await.ok().flatten()?;
            match HolderMessage::parse(line.as_bytes()) {
                Ok(HolderMessage::Notice(notice)) => {
                    self.reported_gone |= notice == HolderNotice::Gone;
                    return Some(notice);
                }
                Ok(HolderMessage::Reply(_) | HolderMessage::View(_)) | Err(_) => {}
            }
        }
    }
}

/// Sends a request to a living holder and waits for its answer.
pub(crate) async fn request(dir: &Path, op: HolderOp) -> Result<(), client::Error> {
    request_within(dir, op, ANSWER_TIMEOUT).await
}

/// Sends a request to a holder that may be stuck.
pub(crate) async fn request_within(
    dir: &Path,
    op: HolderOp,
    time: Duration,
) -> Result<(), client::Error> {
    let dir = dir.to_owned();
    blocking(move || {
        let mut link = client::HolderLink::connect(&dir)?;
        link.set_timeout(time)?;
        link.request(op).map(drop)
    })
    .await
}

/// Reads a launch directory without blocking the runtime.
pub(crate) async fn read_launch(dir: &Path) -> Result<LaunchState, Error> {
    let path = dir.to_owned();
    let found = blocking(move || inspect(&path)).await;
    found.map_err(|source| Error::Read { path: dir.to_owned(), source })
}

/// Reads a started launch until its holder reports the result, but not for ever. A launch that is
/// still starting after that, or could not be read all that time, will not report by itself.
pub(crate) async fn wait_until_started(dir: &Path) -> Result<LaunchState, Error> {
    let mut looks = 0;
    loop {
        let found = read_launch(dir).await;
        let age_ms = match &found {
            Ok(LaunchState::Starting { age_ms, holder: None }) => *age_ms,
            Ok(LaunchState::Starting { holder: Some(holder), .. }) => {
                if looks >= WAKE_AFTER_POLLS {
                    // One that cannot be woken counts as stuck in the end.
                    tree::resume_process(holder).ok();
                }
                0
            }
            // A shortage shows nothing about the launch.
            Err(why) if Shortage::from_text(&error_chain(why)).is_some() => {
                sleep(SHORTAGE_POLL).await;
                continue;
            }
            Err(_) => 0,
            Ok(_) => return found,
        };
        if looks >= START_POLLS || age_ms > STARTING_LIMIT_MS {
            return found;
        }
        looks += 1;
        sleep(START_POLL).await;
    }
}

/// Describes the fault of a holder that is starting for too long.
pub(crate) fn describe_stuck_start(taken: bool) -> String {
    let why = if taken {
        "its holder stopped answering while it started"
    } else {
        "its holder never appeared"
    };
    why.to_owned()
}

/// Waits until an effect is cancelled.
pub(crate) async fn wait_for_cancel(cancel: &mut tokio::sync::watch::Receiver<bool>) {
    // A dropped sender counts as a cancellation.
    cancel.wait_for(|cancelled| *cancelled).await.ok();
}

/// Returns the traces of a launch that was recorded as running.
pub(crate) fn traces(
    dir: &Path,
    holder: Option<&session::ProcessIdentity>,
    child: Option<&session::ProcessIdentity>,
) -> LaunchTraces {
    LaunchTraces {
        holder: holder.map(to_holder_identity),
        child: child.map(to_holder_identity),
        ..LaunchTraces::with_mark(&launch_mark(dir))
    }
}

/// Converts a recorded process identity to the holder's type.
pub(crate) fn to_holder_identity(
    found: &session::ProcessIdentity,
) -> provost_holder::ProcessInstance {
    provost_holder::ProcessInstance {
        pid: found.pid.unsigned_abs(),
        start_time: found.start_time,
        boot_id: found.boot_id.clone(),
    }
}

/// Ends the remains of a launch whose holder is dead, and returns the result.
pub(crate) async fn end_survivors(traces: &LaunchTraces) -> Result<tree::TreeEndResult, Error> {
    let traces = traces.clone();
    blocking(move || tree::end_all(&traces, SURVIVOR_GRACE)).await.map_err(communication_error)
}

/// Whether the holder died after it recorded the end, so that nothing ends the rest of the tree. A
/// holder that cannot be probed counts as alive.
pub(crate) fn holder_has_exited(held: Option<&HeldRecord>) -> bool {
    held.is_some_and(|held| matches!(held.holder.is_alive(), Ok(false)))
}

/// Rejects the record of a command that Provost did not start: a holder never leaves the end of a
/// command without the record of its start.
fn verify_record(found: &LaunchState, start: &StartRecord) -> Result<(), String> {
    let held = match found {
        LaunchState::Ended { held: None, exit, .. } => {
            return match exit.end {
                ProcessEnd::NotStarted { .. } => Ok(()),
                ProcessEnd::Exited { .. } | ProcessEnd::Signalled { .. } => {
                    Err("its record shows an end and no start, so it does not count".to_owned())
                }
            };
        }
        LaunchState::Alive { held } | LaunchState::Ended { held: Some(held), .. } => held,
        LaunchState::Absent
        | LaunchState::Starting { .. }
        | LaunchState::HolderDied { .. }
        | LaunchState::OtherBoot { .. } => return Ok(()),
    };
    if start.matches(held) {
        return Ok(());
    }
    Err("its record is of another command, so it does not count".to_owned())
}

/// Waits until a holder that recorded the end of its tree has exited. Returns whether it has.
async fn wait_for_holder_exit(held: Option<&HeldRecord>) -> bool {
    let Some(HeldRecord { holder, .. }) = held else { return true };
    for _ in 0..EXIT_POLLS {
        let rebooted = provost_sys::process::boot_id().is_ok_and(|boot| boot != holder.boot_id);
        if rebooted || matches!(holder.is_alive(), Ok(false)) {
            return true;
        }
        sleep(START_POLL).await;
    }
    false
}

/// Returns a launch's mark: its key, which names its directory.
pub(crate) fn launch_mark(dir: &Path) -> String {
    dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Waits for time to pass, where no event can be waited for.
pub(crate) async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Formats an error with all its causes.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}

fn communication_error(why: io::Error) -> Error {
    Error::Communicate(why.to_string())
}
