//! Runs an outside command under a holder to its end, exactly once per directory.
//!
//! Absent → start; alive → wait; ended → take the record. Only the death of the holder or the machine
//! leaves it uncertain whether the command did its work.

use std::{
    ffi::OsString,
    fs, io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::Child,
    sync::{Arc, Mutex},
    time::Duration,
};

use provost_holder::{
    ExitRecord, Gone, Held, HoldSpec, Looked, client, launch_dir, look,
    wire::{Message, Notice, Op, Request},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    sync::Semaphore,
};

/// How many holders are started at the same time.
const STARTS_AT_ONCE: usize = 8;

/// How often a holder that is just starting is looked at again.
const STARTING_LOOK: Duration = Duration::from_millis(20);

/// How long a holder without a name may take to appear before its launch counts as lost.
pub(crate) const STARTING_LIMIT_MS: u64 = 10_000;

/// How long survivors of a dead holder have between TERM and KILL.
pub(crate) const SURVIVOR_GRACE: Duration = Duration::from_secs(2);

/// Starts holders and reaps them.
#[derive(Clone, Debug)]
pub struct Holders {
    program: Arc<[OsString]>,
    starts: Arc<Semaphore>,
    children: Arc<Mutex<Vec<Child>>>,
}

/// How a held command ended.
#[derive(Debug)]
pub enum Finished {
    Ended {
        exit: ExitRecord,
        gone: Option<Gone>,
    },
    /// It may have run; nobody saw how it ended.
    Uncertain(String),
}

/// Why a command under a holder could not be brought to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not start it: {0}")]
    Start(String),
    #[error("could not look at {}: {source}", path.display())]
    Look { path: PathBuf, source: launch_dir::Error },
    #[error("could not speak with its holder: {0}")]
    Talk(String),
}

impl Holders {
    /// `program` is the command line that becomes a holder when a directory is added to it.
    pub fn new(program: Vec<OsString>) -> Holders {
        Holders {
            program: program.into(),
            starts: Arc::new(Semaphore::new(STARTS_AT_ONCE)),
            children: Arc::default(),
        }
    }

    /// Starts a launch, or finds that it was started before.
    pub async fn start(&self, dir: &Path, spec: HoldSpec) -> Result<(), Error> {
        let permit = self.starts.clone().acquire_owned().await;
        let (program, path) = (self.program.clone(), dir.to_owned());
        let started = blocking(move || {
            let started = client::start(&program, &path, &spec);
            drop(permit);
            started
        })
        .await;
        match started {
            Ok(started) => {
                self.keep(started.holder);
                Ok(())
            }
            Err(client::Error::Already) => Ok(()),
            Err(why) => Err(Error::Start(chain(&why))),
        }
    }

    /// Starts a launch that is not there. A holder that died on its way left its directory, which tells
    /// more than the error does.
    pub(crate) async fn start_at(&self, dir: &Path, spec: HoldSpec) -> Result<(), Error> {
        match self.start(dir, spec).await {
            Err(why) if looked(dir).await? == Looked::Absent => Err(why),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Runs a command to its end, whatever was done of that before. `cancel` ends it.
    pub async fn run(
        &self,
        dir: &Path,
        spec: impl FnOnce() -> HoldSpec,
        cancel: &mut tokio::sync::watch::Receiver<bool>,
    ) -> Result<Finished, Error> {
        if let Looked::Absent = looked(dir).await? {
            self.start_at(dir, spec()).await?;
        }
        loop {
            match looked(dir).await? {
                Looked::Absent => {
                    return Ok(Finished::Uncertain("its directory is gone".to_owned()));
                }
                Looked::Starting { age_ms, holder: None } if age_ms > STARTING_LIMIT_MS => {
                    return Ok(Finished::Uncertain("its holder never appeared".to_owned()));
                }
                Looked::Starting { .. } => pause(STARTING_LOOK).await,
                Looked::Ended { held, exit, gone: None } if has_left(held.as_ref()) => {
                    end_survivors(&mark(dir)).await?;
                    return Ok(Finished::Ended { exit, gone: None });
                }
                Looked::Alive { .. } | Looked::Ended { gone: None, .. } => {
                    self.wait(dir, cancel).await?;
                }
                Looked::Ended { exit, gone, .. } => return Ok(Finished::Ended { exit, gone }),
                Looked::HolderDied { .. } => {
                    end_survivors(&mark(dir)).await?;
                    return Ok(Finished::Uncertain("its holder was killed".to_owned()));
                }
                Looked::OtherBoot { .. } => {
                    return Ok(Finished::Uncertain("the machine was started anew".to_owned()));
                }
            }
        }
    }

    /// Waits until the holder has nothing more to say, or asks it to end the command.
    async fn wait(
        &self,
        dir: &Path,
        cancel: &mut tokio::sync::watch::Receiver<bool>,
    ) -> Result<(), Error> {
        let Ok(mut link) = Link::follow(dir).await else {
            // The holder is leaving, or is dead: the next look tells which.
            pause(STARTING_LOOK).await;
            return Ok(());
        };
        let mut asked = false;
        loop {
            tokio::select! {
                notice = link.notice() => match notice {
                    Some(Notice::Gone) | None => break,
                    Some(
                        Notice::Journal { .. }
                        | Notice::Limit { .. }
                        | Notice::Visits { .. }
                        | Notice::Exited,
                    ) => {}
                },
                changed = cancel.changed(), if !asked => {
                    if changed.is_err() || *cancel.borrow() {
                        asked = true;
                        link.send(Op::Stop { grace_ms: 1_000 }).await.map_err(talk)?;
                    }
                }
            }
        }
        self.reap();
        Ok(())
    }

    fn keep(&self, holder: Child) {
        self.reap();
        self.children.lock().expect("no holder of the lock panics").push(holder);
    }

    /// Takes the exit status of holders that left, so that none stays a zombie.
    pub fn reap(&self) {
        let mut children = self.children.lock().expect("no holder of the lock panics");
        children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }
}

/// A connection to a living holder that tells what happens.
#[derive(Debug)]
pub(crate) struct Link {
    lines: tokio::io::Lines<BufReader<tokio::net::unix::OwnedReadHalf>>,
    writer: tokio::net::unix::OwnedWriteHalf,
    next_id: u64,
}

impl Link {
    /// Connects and asks for notices.
    pub(crate) async fn follow(dir: &Path) -> io::Result<Link> {
        // Through the directory, for its path may be longer than a socket's address.
        let handle = fs::File::open(dir)?;
        let path = format!("/proc/self/fd/{}/{}", handle.as_raw_fd(), launch_dir::SOCKET_FILE);
        let (reader, writer) = UnixStream::connect(path).await?.into_split();
        let mut link = Link { lines: BufReader::new(reader).lines(), writer, next_id: 1 };
        link.send(Op::Follow).await?;
        Ok(link)
    }

    pub(crate) async fn send(&mut self, op: Op) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Request::new(self.next_id, op))?;
        self.next_id += 1;
        line.push(b'\n');
        self.writer.write_all(&line).await
    }

    /// Waits for the next notice; none when the holder is gone.
    pub(crate) async fn notice(&mut self) -> Option<Notice> {
        loop {
            // A broken connection and a closed one mean the same here: look at the directory.
            let line = self.lines.next_line().await.ok().flatten()?;
            match Message::parse(line.as_bytes()) {
                Ok(Message::Notice(notice)) => return Some(notice),
                Ok(Message::Reply(_)) | Err(_) => {}
            }
        }
    }
}

/// Asks a living holder for one thing and waits for its answer.
pub(crate) async fn request(dir: &Path, op: Op) -> Result<(), client::Error> {
    let dir = dir.to_owned();
    blocking(move || {
        let mut link = client::Link::connect(&dir)?;
        link.set_timeout(Duration::from_secs(10))?;
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

/// Ends every process that carries a launch's mark.
pub(crate) async fn end_survivors(mark: &str) -> Result<provost_holder::tree::Ended, Error> {
    let mark = mark.to_owned();
    blocking(move || provost_holder::tree::end_survivors(&mark, SURVIVOR_GRACE)).await.map_err(talk)
}

/// Says whether the holder died after it recorded the end, so that nobody is left to end the rest of the tree.
/// A holder that cannot be looked at is asked again.
pub(crate) fn has_left(held: Option<&Held>) -> bool {
    held.is_some_and(|held| matches!(held.holder.is_alive(), Ok(false)))
}

/// A launch's mark is its key, which names its directory.
pub(crate) fn mark(dir: &Path) -> String {
    dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Runs something that may block on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let done = tokio::task::spawn_blocking(work).await;
    done.expect("blocking work neither panics nor is cancelled")
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
