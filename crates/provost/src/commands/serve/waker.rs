//! Ends a pause early, when a file changes, a run ends or a signal arrives.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver, SyncSender},
    },
    thread,
    time::Duration,
};

use provost_api::{ApiError, ErrorCode};
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use tokio::{
    runtime::Builder,
    signal::unix::{Signal, SignalKind, signal},
};

use crate::{
    context::Context,
    error::chain,
    follow::{EventFilter, EventFollower},
};

/// The reason why a pause ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeReason {
    Poll,
    Stop,
}

/// A directory to watch for changes to one file or to any file in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WatchedPath {
    pub(super) dir: PathBuf,
    pub(super) file: Option<OsString>,
}

/// The capacity of the wake queue. It can be short, because one pass handles all earlier wake-ups.
const QUEUE: usize = 64;

/// The inotify events that trigger a pass.
const WATCH_EVENTS: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::DELETE);

/// The run events that may require an action or a report.
const WAKE_EVENT_KINDS: [&str; 3] = ["run.sealed", "run.request_observed", "run.cancelled"];

/// The exit code after a second interrupt. Shells use the same code for SIGINT.
const INTERRUPTED: i32 = 130;

/// Receives everything that can end a pause.
pub(super) struct Waker {
    wakes: Receiver<WakeReason>,
    /// The inotify instance, or `None` if inotify is not available. In that case, changes are noticed only by polling.
    files: Option<SharedFd>,
    watched: Arc<Mutex<WatchDescriptors>>,
}

type SharedFd = Arc<OwnedFd>;
type WatchDescriptors = BTreeMap<i32, WatchedPath>;

impl Waker {
    pub(super) fn start(context: &Context) -> Result<Waker, ApiError> {
        let (send, wakes) = mpsc::sync_channel(QUEUE);
        let error = |why: io::Error| chain(ErrorCode::Internal, "cannot listen for signals", &why);
        stop_on_signals(send.clone()).map_err(error)?;
        poll_on_events(context, send.clone())?;
        let watched = Arc::new(Mutex::new(WatchDescriptors::new()));
        let files = poll_on_changes(&watched, send).ok();
        Ok(Waker { wakes, files, watched })
    }

    /// Waits for the next wake-up, at most for the given time.
    pub(super) fn next(&self, time: Duration) -> Option<WakeReason> {
        self.wakes.recv_timeout(time).ok()
    }

    /// Starts watching these paths. Paths that do not exist yet are tried again in the next call.
    pub(super) fn watch(&mut self, places: &[WatchedPath]) {
        let (Some(files), Ok(mut watched)) = (&self.files, self.watched.lock()) else { return };
        for place in places {
            if let Ok(number) = inotify::add_watch(files.as_ref(), &place.dir, WATCH_EVENTS) {
                // inotify has one watch per directory, and watching all files includes any single file.
                let known = watched.entry(number).or_insert_with(|| place.clone());
                if place.file.is_none() {
                    known.file = None;
                }
            }
        }
    }
}

/// Stops on the first signal, and exits immediately on the second.
fn stop_on_signals(send: SyncSender<WakeReason>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate) = {
        let _entered = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(either(&mut interrupt, &mut terminate));
        // The receiver may no longer exist.
        let _ = send.send(WakeReason::Stop);
        runtime.block_on(either(&mut interrupt, &mut terminate));
        exit();
    })?;
    Ok(())
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

#[expect(clippy::disallowed_methods, reason = "a second interrupt must exit immediately")]
fn exit() -> ! {
    std::process::exit(INTERRUPTED)
}

/// Follows the daemon's events. Once this function has returned, no event is missed.
fn poll_on_events(context: &Context, send: SyncSender<WakeReason>) -> Result<(), ApiError> {
    let context = Context::with(context.environment.clone(), context.ui.clone());
    let (opened, is_open) = mpsc::sync_channel(1);
    let follow = move || {
        let mut events = EventFollower::new(&context, EventFilter::All, None);
        let open = context.daemon().and_then(|client| events.open(&client));
        let failed = open.is_err();
        // The receiver is waiting for this message, so the send cannot fail.
        drop(opened.send(open));
        while !failed && let Ok(event) = events.next() {
            // If the queue is full, a pass is going to happen anyway.
            if WAKE_EVENT_KINDS.contains(&event.kind.as_str()) {
                let _ = send.try_send(WakeReason::Poll);
            }
        }
    };
    let error =
        |why: io::Error| chain(ErrorCode::Internal, "cannot follow the daemon's events", &why);
    thread::Builder::new().name("events".to_owned()).spawn(follow).map_err(error)?;
    is_open.recv().unwrap_or(Ok(()))
}

fn poll_on_changes(
    watched: &Arc<Mutex<WatchDescriptors>>,
    send: SyncSender<WakeReason>,
) -> io::Result<SharedFd> {
    let files = Arc::new(inotify::init(CreateFlags::CLOEXEC)?);
    let (read, watched) = (Arc::clone(&files), Arc::clone(watched));
    thread::Builder::new().name("changes".to_owned()).spawn(move || {
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(read.as_ref(), &mut space);
        while let Ok(event) = reader.next() {
            let name = event.file_name().map(|name| name.to_bytes().to_owned());
            let worth = |place: &WatchedPath| match (&place.file, &name) {
                (Some(file), Some(name)) => file.as_bytes() == name,
                (None, _) | (Some(_), None) => true,
            };
            let looked =
                watched.lock().is_ok_and(|places| places.get(&event.wd()).is_some_and(worth));
            if looked {
                let _ = send.try_send(WakeReason::Poll);
            }
        }
    })?;
    Ok(files)
}
