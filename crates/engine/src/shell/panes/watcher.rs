//! Watches the pane of one adopted launch: what it lets guess, and whether it is a place to type into.

use std::{sync::Arc, time::Duration};

use provost_core::{
    ids::LaunchId,
    session::{Command, PaneSight, Session},
};
use provost_watch::tmux::SessionId;
use tokio::sync::{Notify, broadcast, mpsc};

use super::{
    super::{
        clock::Clock,
        handle::{Handle, Published, Teller},
        held,
        watch::{Guess, Hints},
    },
    control::Feed,
    hub::Panes,
    place::{Found, Looked, Place},
};

/// How long to wait before control mode is tried again; it doubles up to the second.
const REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(60);

/// How long after a change a pane is looked at, and again to see whether that stands.
const LOOK_MS: u64 = 150;

/// How often a pane is looked at that is no place to type into.
const LOOK_AGAIN_MS: u64 = 2_000;

/// The size of a screen until it is known.
const UNKNOWN_SIZE: (u16, u16) = (24, 80);

pub(crate) struct PaneWatch {
    launch: LaunchId,
    place: Place,
    hints: Hints,
    panes: Panes,
    bell: Arc<Notify>,
    handle: Handle,
    teller: Teller,
    clock: Clock,
    told: Option<PaneSight>,
    /// The tmux session that it was seen in last.
    session: Option<SessionId>,
    /// When the pane is to be looked at.
    look_ms: Option<u64>,
}

impl PaneWatch {
    pub(crate) fn new(
        session: &Session,
        launch: LaunchId,
        panes: Panes,
        handle: Handle,
        teller: Teller,
        clock: Clock,
    ) -> Option<PaneWatch> {
        let place = Place::of(session)?;
        let watch = &session.launch(launch)?.watch;
        // A place of its stream that no earlier daemon told of.
        let shown = watch.hints.values().map(|seen| seen.place).max().unwrap_or(0);
        Some(PaneWatch {
            launch,
            place,
            hints: Hints::after(session, UNKNOWN_SIZE, shown),
            bell: panes.bell(launch),
            panes,
            handle,
            teller,
            clock,
            told: watch.pane,
            session: None,
            look_ms: None,
        })
    }

    /// Watches for as long as it is polled. That the pane or its server is gone ends nothing else.
    pub(crate) async fn run(mut self) {
        let mut rest = REST;
        loop {
            match self.look().await {
                Looked::Never => return std::future::pending().await,
                Looked::Unseen => {}
                Looked::There(found) => {
                    let calm = self.hints.knows_its_screen();
                    let feed = self.panes.watch(&self.place, &found.pane.session, calm).await;
                    if self.listen(feed).await {
                        rest = REST;
                    }
                }
            }
            self.look_on_news(rest).await;
            rest = (rest * 2).min(LONGEST_REST);
        }
    }

    /// Takes what the pane writes until nobody tells it any more, and says whether anything came. A pane that was moved to
    /// another tmux session is told of there.
    async fn listen(&mut self, mut feed: mpsc::Receiver<Feed>) -> bool {
        let mut came = false;
        let session = self.session.clone();
        while self.session == session {
            let wait = self.wait();
            let bell = self.bell.clone();
            tokio::select! {
                fed = feed.recv() => match fed {
                    Some(fed) => {
                        came = true;
                        self.fed(fed).await;
                    }
                    None => return came,
                },
                () = bell.notified() => self.look_soon(),
                () = wait => self.look_if_due().await,
            }
        }
        came
    }

    /// Without control mode the pane is looked at when the agent's own record, or somebody, says something.
    async fn look_on_news(&mut self, rest: Duration) {
        let mut news = self.handle.subscribe();
        let session = self.launch.session.to_string();
        let mut over = Box::pin(held::pause(rest));
        loop {
            let wait = self.wait();
            let bell = self.bell.clone();
            tokio::select! {
                () = &mut over => return,
                () = heard(&mut news, &session) => self.look_soon(),
                () = bell.notified() => self.look_soon(),
                () = wait => self.look_if_due().await,
            }
        }
    }

    /// Waits until something is to be looked at.
    fn wait(&self) -> impl Future<Output = ()> + use<> {
        let due = self.hints.due_ms().into_iter().chain(self.look_ms).min();
        let left = due.map(|due| due.saturating_sub(self.clock.now().mono_ms));
        async move {
            match left {
                Some(left) => held::pause(Duration::from_millis(left)).await,
                None => std::future::pending().await,
            }
        }
    }

    async fn fed(&mut self, fed: Feed) {
        let now = self.clock.now().mono_ms;
        match fed {
            Feed::Output(bytes) => {
                for guess in self.hints.feed(&bytes, now) {
                    self.guess(guess).await;
                }
            }
            Feed::Picture(measures, lines) => {
                if let Some(guess) = self.hints.picture(&measures, &lines, now) {
                    self.guess(guess).await;
                }
            }
            Feed::Changed => self.look_soon(),
        }
    }

    fn look_soon(&mut self) {
        let soon = self.clock.now().mono_ms + LOOK_MS;
        self.look_ms = Some(self.look_ms.map_or(soon, |due| due.min(soon)));
    }

    async fn look_if_due(&mut self) {
        let now = self.clock.now().mono_ms;
        if let Some(guess) = self.hints.look(now) {
            self.guess(guess).await;
        }
        if self.look_ms.is_some_and(|due| due <= now) {
            self.look().await;
        }
    }

    /// Looks at the pane itself, and says when to look again.
    async fn look(&mut self) -> Looked {
        let place = self.place.clone();
        let looked = held::blocking(move || place.look()).await;
        let now = self.clock.now().mono_ms;
        self.look_ms = None;
        let sight = match &looked {
            Looked::There(found) => {
                self.frame(found, now).await;
                self.session = Some(found.pane.session.clone());
                found.sight
            }
            Looked::Unseen | Looked::Never => PaneSight::Gone,
        };
        if sight != PaneSight::Open {
            self.look_ms.get_or_insert(now + LOOK_AGAIN_MS);
        }
        if self.told.replace(sight) != Some(sight) {
            let launch = self.launch;
            self.teller.tell(launch.session, Command::PaneSeen { launch, sight }).await;
        }
        looked
    }

    /// Takes what the pane itself shows. It is believed when it was seen twice.
    async fn frame(&mut self, found: &Found, now: u64) {
        let Some(reading) = found.reading.clone() else { return };
        let shown = reading.shown;
        if let Some(guess) = self.hints.frame(reading) {
            self.guess(guess).await;
        }
        if self.hints.believes() != Some(shown) {
            self.look_ms = Some(now + LOOK_MS);
        }
    }

    async fn guess(&self, Guess { by, place, what }: Guess) {
        let launch = self.launch;
        self.teller.tell(launch.session, Command::Hinted { launch, by, place, what }).await;
    }
}

/// Waits until something is recorded of a session that is no news of its pane.
async fn heard(news: &mut broadcast::Receiver<Published>, session: &str) {
    let tells = |kind: &str| kind != "pane.seen" && kind != "signal.hinted";
    loop {
        match news.recv().await {
            Ok(rows) => {
                if rows.iter().any(|row| row.session == session && tells(&row.kind)) {
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
