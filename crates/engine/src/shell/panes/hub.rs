//! State that the pane watchers share: writes to terminals, a bell for each launch, and the
//! messages that this daemon typed.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use provost_core::ids::LaunchId;
use provost_terminal::{WriteQueue, WriteTicket};
use tokio::sync::{Notify, oneshot};

use super::super::watch::poll_fd;

/// The listeners for the next write to each terminal.
type WriteListeners = Arc<Mutex<BTreeMap<WriteTicket, Vec<oneshot::Sender<()>>>>>;

/// Listens for writes to terminals, and remembers what this daemon typed. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PaneRegistry {
    /// `None` if the kernel has no more inotify queues for this user.
    writes: Option<Arc<WriteQueue>>,
    waiting: WriteListeners,
    bells: Arc<Mutex<BTreeMap<LaunchId, Arc<Notify>>>>,
    typed: Arc<Mutex<BTreeSet<(LaunchId, String)>>>,
}

/// Distributes the kernel's notifications. All panes share one queue, because each user may have
/// only a few queues.
pub(crate) struct WriteDispatcher {
    writes: Option<Arc<WriteQueue>>,
    waiting: WriteListeners,
}

impl PaneRegistry {
    pub(crate) fn new() -> (PaneRegistry, WriteDispatcher) {
        let writes = WriteQueue::new().ok().map(Arc::new);
        let waiting = WriteListeners::default();
        let hub = WriteDispatcher { writes: writes.clone(), waiting: waiting.clone() };
        (PaneRegistry { writes, waiting, bells: Arc::default(), typed: Arc::default() }, hub)
    }

    /// Listens for the next write to a terminal from now on. `None` if the kernel cannot report writes.
    pub(super) fn next_write(&self, terminal: &Path) -> Option<oneshot::Receiver<()>> {
        let writes = self.writes.as_ref()?;
        // If a notification arrives in the meantime, its handler waits for the lock and then finds the listener.
        let mut waiting = lock(&self.waiting);
        let ticket = writes.watch_next_write(terminal).ok()?;
        let (notifier, notified) = oneshot::channel();
        let listeners = waiting.entry(ticket).or_default();
        listeners.retain(|one| !one.is_closed());
        listeners.push(notifier);
        Some(notified)
    }

    /// Returns the bell that wakes a launch's watcher to read its pane.
    pub(super) fn bell(&self, launch: LaunchId) -> Arc<Notify> {
        lock(&self.bells).entry(launch).or_default().clone()
    }

    /// Remembers that this daemon typed a message.
    pub(super) fn remember(&self, launch: LaunchId, key: &str) {
        lock(&self.typed).insert((launch, key.to_owned()));
    }

    pub(super) fn remembers(&self, launch: LaunchId, key: &str) -> bool {
        lock(&self.typed).contains(&(launch, key.to_owned()))
    }

    /// Forgets a launch that is no longer watched.
    pub(crate) fn forget(&self, launch: LaunchId) {
        lock(&self.bells).remove(&launch);
        lock(&self.typed).retain(|(of, _)| *of != launch);
    }
}

impl WriteDispatcher {
    /// Distributes notifications for as long as the future is polled.
    pub(crate) async fn run(self) {
        let Some(Ok(queue)) = self.writes.map(poll_fd) else { return };
        while let Ok(mut guard) = queue.readable().await {
            let tickets = match guard.try_io(|queue| queue.get_ref().take_tickets()) {
                Ok(Ok(tickets)) => tickets,
                Ok(Err(_)) => return,
                Err(_) => continue,
            };
            let mut waiting = lock(&self.waiting);
            for listener in tickets.iter().filter_map(|ticket| waiting.remove(ticket)).flatten() {
                // The receiver may have been dropped.
                listener.send(()).ok();
            }
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
