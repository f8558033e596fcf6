//! Who watches which pane: one client in control mode for each session of a tmux server, for all who want it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use provost_core::ids::LaunchId;
use provost_watch::tmux::{Server, SessionId};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
};

use super::{
    control::{self, Feed, Subscribed},
    place::Place,
};

/// How many watchers may wait for the hub.
const WAITING: usize = 64;

/// How much of a pane may wait for its watcher, in pieces of some kilobytes. With more the pane is paused.
const PIECES: usize = 64;

/// Asks for panes to be watched, and knows what this daemon typed. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Panes {
    asks: mpsc::Sender<Wanted>,
    bells: Arc<Mutex<BTreeMap<LaunchId, Arc<Notify>>>>,
    typed: Arc<Mutex<BTreeSet<(LaunchId, String)>>>,
}

struct Wanted {
    server: Server,
    session: SessionId,
    watch: Subscribed,
}

/// Keeps the clients.
pub(crate) struct Hub {
    asked: mpsc::Receiver<Wanted>,
    clients: BTreeMap<(PathBuf, SessionId), mpsc::Sender<Subscribed>>,
    tasks: JoinSet<()>,
}

impl Panes {
    pub(crate) fn new() -> (Panes, Hub) {
        let (asks, asked) = mpsc::channel(WAITING);
        let panes = Panes { asks, bells: Arc::default(), typed: Arc::default() };
        (panes, Hub { asked, clients: BTreeMap::new(), tasks: JoinSet::new() })
    }

    /// Asks for what a pane writes, or for how it looks now and then while it writes on and on, if that is enough. It is at
    /// its end when nobody can be told more: the client died, or none can be had.
    pub(super) async fn watch(
        &self,
        place: &Place,
        session: &SessionId,
        now_and_then: bool,
    ) -> mpsc::Receiver<Feed> {
        let (feed, fed) = mpsc::channel(PIECES);
        let watch = Subscribed { pane: place.id.clone(), feed, now_and_then };
        let wanted = Wanted { server: place.server.clone(), session: session.clone(), watch };
        // Without a hub there is nothing to be told, and the end of the stream says so.
        self.asks.send(wanted).await.ok();
        fed
    }

    /// Gives the bell at which the watcher of a launch looks at its pane.
    pub(super) fn bell(&self, launch: LaunchId) -> Arc<Notify> {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        bells.entry(launch).or_default().clone()
    }

    /// Remembers that this very daemon typed a message.
    pub(super) fn remember(&self, launch: LaunchId, key: &str) {
        let mut typed = self.typed.lock().unwrap_or_else(PoisonError::into_inner);
        typed.insert((launch, key.to_owned()));
    }

    pub(super) fn remembers(&self, launch: LaunchId, key: &str) -> bool {
        let typed = self.typed.lock().unwrap_or_else(PoisonError::into_inner);
        typed.contains(&(launch, key.to_owned()))
    }

    /// Forgets a launch that is watched no more.
    pub(crate) fn forget(&self, launch: LaunchId) {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner).remove(&launch);
        let mut typed = self.typed.lock().unwrap_or_else(PoisonError::into_inner);
        typed.retain(|(of, _)| *of != launch);
    }
}

impl Hub {
    /// Serves for as long as anybody may ask.
    pub(crate) async fn run(mut self) {
        loop {
            tokio::select! {
                wanted = self.asked.recv() => match wanted {
                    Some(wanted) => self.serve(wanted).await,
                    None => return,
                },
                // Whoever watched is told by the end of what it was fed with.
                Some(_) = self.tasks.join_next() => self.clients.retain(|_, c| !c.is_closed()),
            }
        }
    }

    async fn serve(&mut self, wanted: Wanted) {
        let key = (wanted.server.socket().to_owned(), wanted.session.clone());
        let mut watch = wanted.watch;
        if let Some(client) = self.clients.get(&key) {
            match client.send(watch).await {
                Ok(()) => return,
                Err(back) => watch = back.0,
            }
        }
        let (client, orders) = mpsc::channel(WAITING);
        // There is room in a queue that is new.
        client.send(watch).await.ok();
        self.clients.insert(key, client);
        self.tasks.spawn(control::run(wanted.server, wanted.session, orders));
    }
}
