//! Runs an external command under a holder to completion, exactly once per directory.
//!
//! An absent launch is started, a live one is waited for, and the record of an ended one is used. Only if the holder or
//! the machine dies is it uncertain whether the command did its work. A missing directory or a holder that does not
//! respond does not mean that the command has ended, so the command is ended explicitly, and [`NoProcessLeft`] proves
//! that no process of the command is left.

mod connection;
mod launch_state;

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    pin::{Pin, pin},
    process::Child,
    sync::{Arc, Mutex},
    time::Duration,
};

use provost_core::shortage::Shortage;
use provost_holder::{
    ExitRecord, HoldSpec, LaunchState, ProcessInstance, client, launch_dir, tree::LaunchTraces,
    wire::HolderOp,
};
use provost_sys::{
    error_chain,
    origin::Boundary,
    register::{LaunchRegister, RegisteredLaunch},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use tokio::sync::Semaphore;

pub(crate) use self::connection::{HolderConnection, request, request_within};
pub(crate) use self::launch_state::{
    NoProcessLeft, describe_stuck_start, end_all_processes, end_survivors, holder_has_exited,
    launch_mark, read_launch, to_holder_identity, traces, wait_until_started,
};
use self::launch_state::{has_start_record, verify_record, wait_for_holder_exit};
use super::start_record::StartRecord;

pub(crate) use super::blocking::blocking;

/// The maximum number of holders to start at the same time.
const STARTS_AT_ONCE: usize = 8;

/// How often to read the directory of a holder that is starting.
const START_POLL: Duration = Duration::from_millis(20);

/// How often to retry reading a launch that cannot be read because of a shortage.
const SHORTAGE_POLL: Duration = Duration::from_millis(500);

/// How long a holder may take to report that its command is running before its launch is considered broken.
const STARTING_LIMIT_MS: u64 = 10_000;

/// The number of reads that take at least `STARTING_LIMIT_MS`.
const START_POLLS: u64 = STARTING_LIMIT_MS / START_POLL.as_millis() as u64;

/// After this many reads, a starting holder is woken, because its command may have suspended it.
const WAKE_AFTER_POLLS: u64 = START_POLLS / 10;

/// How many times to probe a holder that has recorded the end of its process tree until it exits.
const EXIT_POLLS: u64 = 250;

/// How long the survivors of a dead holder have between TERM and KILL.
pub(crate) const SURVIVOR_GRACE: Duration = Duration::from_secs(2);

/// How long a holder may take to respond.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How much longer than the time to end its command a holder may take before it is considered stuck.
const OVERDUE: Duration = Duration::from_secs(15);

/// How long the last threads of a holder may take to end after its first one.
const EXIT_WAIT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

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

/// What happens to a command when the disk is too full for more of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFullDisk {
    /// The command waits for space, and no output is lost.
    Wait,
    /// The command is ended, because it may be the one that fills the disk.
    End,
}

/// How long to wait for a command.
#[derive(Clone, Copy, Debug)]
struct WaitLimits {
    limit: Option<Duration>,
    on_full_disk: OnFullDisk,
}

/// The reason recorded for a command that was ended because the disk was full.
const DISK_FULL: &str = "the disk is full: No space left on device";

/// The result of a command under a holder.
#[derive(Debug)]
pub(crate) enum CommandEnd {
    Ended {
        exit: ExitRecord,
    },
    /// The command may have run, but its exit status is unknown.
    Uncertain(String),
}

/// Why a command under a holder could not be completed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not start the command: {0}")]
    Start(String),
    /// The command ran for a moment, so it must not be started again.
    #[error("could not start the command: {0}")]
    StartUndone(String),
    #[error("could not record the start of the command: {0}")]
    Record(String),
    #[error("could not read {}: {source}", path.display())]
    Read { path: PathBuf, source: launch_dir::Error },
    #[error("could not communicate with the holder: {0}")]
    Communicate(String),
    #[error("{0} processes of the command could not be ended")]
    Survivors(usize),
    #[error("{dead} of {live} launches look dead at once, which is implausible")]
    Implausible { dead: usize, live: usize },
}

impl Error {
    /// Whether the cause is a shortage that may pass.
    pub(crate) fn is_shortage(&self) -> bool {
        Shortage::from_text(&error_chain(self)).is_some()
    }
}

impl Holders {
    /// Creates the starter of holders. `program` is the command line that becomes a holder when a
    /// directory is appended to it.
    pub fn new(program: Vec<OsString>) -> Holders {
        Holders {
            program: program.into(),
            starts: Arc::new(Semaphore::new(STARTS_AT_ONCE)),
            children: Arc::default(),
            boundary: None,
            register: Arc::default(),
        }
    }

    /// Makes holders accept connections only from the daemon of this home and its operator.
    /// Launches of earlier daemons that may have lost their holders are read from the home's
    /// register. If the register cannot be read, a new one is started.
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

    /// Returns the launches whose processes may still be alive.
    pub fn register(&self) -> LaunchRegister {
        self.reap();
        self.register.lock().expect("no holder of the lock panics").clone()
    }

    /// Changes the register and its file. This daemon uses the copy in memory even if the file
    /// cannot be written.
    fn update_register(&self, change: impl FnOnce(&mut LaunchRegister)) -> io::Result<()> {
        let mut register = self.register.lock().expect("no holder of the lock panics");
        change(&mut register);
        match &self.boundary {
            Some(boundary) => register.write(&boundary.register),
            None => Ok(()),
        }
    }

    /// Records that a holder reported the end of its entire process tree. Only the holder itself is
    /// trusted to report this.
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

    /// Starts a launch, unless it was already started.
    pub async fn start(&self, dir: &Path, mut spec: HoldSpec) -> Result<(), Error> {
        let key = launch_mark(dir);
        spec.boundary.clone_from(&self.boundary);
        let known = self.register.lock().expect("no holder of the lock panics").has(&key);
        // This happens before the holder starts, so that if this daemon is killed, the next one
        // knows that there may be processes.
        RegisteredLaunch::starting_now(&key)
            .and_then(|launch| self.update_register(|register| register.enter(launch)))
            .map_err(|why| Error::Start(format!("the launch cannot be registered: {why}")))?;
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
                let text = error_chain(&why);
                match why {
                    client::Error::StartUndone { holder, .. } => {
                        self.track_child(&key, holder);
                        return Err(Error::StartUndone(text));
                    }
                    client::Error::AnswerTimeout { holder } => self.track_child(&key, holder),
                    client::Error::Died(_) => {
                        self.update_register(|register| register.mark_lost(&key)).ok();
                    }
                    client::Error::Spawn(_) | client::Error::Refused(_) => drop(forget()),
                    // The holder may have started a process, so the launch counts as starting for
                    // as long as this daemon runs.
                    client::Error::AlreadyTaken
                    | client::Error::Io(_)
                    | client::Error::Malformed(_)
                    | client::Error::Closed
                    | client::Error::Fault(_) => {}
                }
                Err(Error::Start(text))
            }
        }
    }

    /// Returns the traces of a launch for which only the intended start was recorded.
    pub(crate) fn traces(&self, dir: &Path) -> LaunchTraces {
        let line = self.program.iter().skip(1).cloned().chain([dir.as_os_str().to_owned()]);
        LaunchTraces { holder_line: line.collect(), ..LaunchTraces::with_mark(&launch_mark(dir)) }
    }

    /// Starts a launch that is absent. If the holder dies while starting, the directory that it created describes the
    /// failure better than the error does.
    pub(crate) async fn start_at(&self, dir: &Path, spec: HoldSpec) -> Result<(), Error> {
        match self.start(dir, spec).await {
            Err(why) if read_launch(dir).await? == LaunchState::Absent => Err(why),
            // The holder started nothing, and its directory does not contain the reason.
            Err(why @ Error::Start(_))
                if why.is_shortage() && !has_start_record(&read_launch(dir).await?) =>
            {
                Err(why)
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Runs a command to completion. Its start must have been recorded. If it was already started,
    /// continues from there. `cancel` ends the command.
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

    /// Waits until a command that was already started has finished. Does not start anything.
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

    /// Waits until a started command has finished. The error explains why the holder will not report an end.
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
                    // A holder exits right after it writes its last record. If the record appears
                    // while the holder keeps running, it may be forged.
                    return if wait_for_holder_exit(held.as_ref()).await {
                        Ok(CommandEnd::Ended { exit })
                    } else {
                        Err("its holder kept running after it recorded the end".to_owned())
                    };
                }
                LaunchState::HolderDied { .. } => return Err("its holder was killed".to_owned()),
                LaunchState::OtherBoot { .. } => {
                    return Err("the machine was restarted".to_owned());
                }
            }
        }
    }

    /// Waits until the holder is done, or asks it to end the command. Fails if the holder does
    /// neither in time.
    async fn wait_for_holder(
        &self,
        dir: &Path,
        on_full_disk: OnFullDisk,
        cancel: &mut tokio::sync::watch::Receiver<bool>,
        mut overdue: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), String> {
        let unanswered = || Err("its holder did not answer".to_owned());
        let Ok(mut link) = HolderConnection::follow(dir).await else {
            // The holder is exiting or dead. The next read of its directory shows which of the two is the case.
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

    /// Collects the exit status of holders that have exited, so that none remains a zombie. A
    /// holder that exits successfully has ended every process of its launch. The status comes from
    /// the kernel, so it cannot be forged.
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
        // The lock is still held: another thread must not find the child reaped and its launch
        // registered, because such a launch counts as lost.
        if !gone.is_empty() {
            self.update_register(|register| gone.iter().for_each(|key| register.remove(key))).ok();
        }
    }

    /// Waits until a holder that has ended can be reaped. A process counts as ended when its first
    /// thread has ended, but its exit status exists only after its last one.
    pub fn wait_for_exit(&self, key: &str) {
        let pid = {
            let children = self.children.lock().expect("no holder of the lock panics");
            children
                .iter()
                .find(|child| child.key == key)
                .map(|child| Pid::from_child(&child.process))
        };
        let Some(handle) = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
            return;
        };
        // If the wait fails or is too long, the launch counts as lost.
        poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&EXIT_WAIT)).ok();
    }

    /// Whether this process is a holder that this daemon started and has not reaped.
    pub fn has_child(&self, pid: u32) -> bool {
        let children = self.children.lock().expect("no holder of the lock panics");
        children.iter().any(|child| child.process.id() == pid)
    }
}

/// Waits until an effect is cancelled.
pub(crate) async fn wait_for_cancel(cancel: &mut tokio::sync::watch::Receiver<bool>) {
    // A dropped sender also counts as a cancellation.
    cancel.wait_for(|cancelled| *cancelled).await.ok();
}

/// Waits for some time to pass, for cases without an event to wait for.
pub(crate) async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

fn communication_error(why: io::Error) -> Error {
    Error::Communicate(why.to_string())
}
