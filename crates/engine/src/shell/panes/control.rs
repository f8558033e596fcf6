//! One client in control mode: hands out what each pane writes, and has tmux hold back what nobody can take now.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    time::Duration,
};

use provost_watch::tmux::{Client, Measures, Message, PaneId, Server, SessionId};
use tokio::{
    io::unix::AsyncFd,
    sync::mpsc::{self, error::TrySendError},
    time::{Instant, MissedTickBehavior, interval, interval_at},
};

use super::super::{held, watch::polled};

/// Of so many seconds of output tmux keeps all; then it pauses the pane by itself.
const PAUSE_AFTER: u32 = 1;

/// How often it is looked whether a pane that was paused can go on.
const REST: Duration = Duration::from_millis(100);

/// How long a pane rests that floods again and again; how long it rests doubles up to this.
const LONGEST_REST: Duration = Duration::from_secs(2);

/// A pane that was heard for so long without a pause does not flood any more.
const CALM: Duration = Duration::from_secs(3);

/// Pieces that come no later than this after each other are of one flow.
const PAUSE: Duration = Duration::from_millis(300);

/// How long a flow is told as it comes: what is drawn once is seen at once.
const AS_IT_COMES: Duration = Duration::from_millis(500);

/// How long a pane rests that writes on and on, as one with a spinner does.
const SPINNER_RESTS: Duration = Duration::from_millis(600);

/// How often it is looked whether anybody still watches.
const ROUND: Duration = Duration::from_secs(5);

/// What tmux calls changes after which panes may be of another size, elsewhere, or gone.
const CHANGES: [&str; 4] =
    ["layout-change", "window-close", "unlinked-window-close", "sessions-changed"];

/// What a watcher of a pane is told.
#[derive(Debug)]
pub(super) enum Feed {
    Output(Vec<u8>),
    /// What the pane shows, after all that was told before. Something before it may be missing.
    Picture(Measures, Vec<String>),
    /// The pane is to be looked at.
    Changed,
}

/// Somebody who watches a pane.
#[derive(Debug)]
pub(super) struct Subscribed {
    pub(super) pane: PaneId,
    pub(super) feed: mpsc::Sender<Feed>,
    /// While the pane writes on and on, it is enough to know how it looks now and then.
    pub(super) now_and_then: bool,
}

/// What an answer will be to.
enum Expected {
    Nothing,
    Measures,
    Lines(PaneId),
}

/// How long a pane is left alone.
struct Rest {
    until: Instant,
    time: Duration,
    why: Why,
}

/// Why a pane is left alone.
enum Why {
    /// It writes more than is taken, or nobody watches it.
    Floods,
    /// It writes on and on, and is looked at now and then until it shows the same twice. This is what it showed last.
    Spins(Option<Vec<String>>),
}

/// What a pane writes without a pause.
struct Flow {
    began: Instant,
    last: Instant,
}

struct Control {
    client: AsyncFd<Client>,
    watched: BTreeMap<PaneId, Vec<Subscribed>>,
    flows: BTreeMap<PaneId, Flow>,
    /// Panes of which nothing comes until they are asked for: nobody watches them, or not fast enough.
    paused: BTreeMap<PaneId, Rest>,
    /// When a pane that was paused went on, and how long it had rested.
    resumed: BTreeMap<PaneId, (Instant, Duration)>,
    expected: VecDeque<Expected>,
    measures: Option<Measures>,
}

/// Serves those who watch panes of a session until nobody does or the client dies.
pub(super) async fn run(
    server: Server,
    session: SessionId,
    mut orders: mpsc::Receiver<Subscribed>,
) {
    let attached = held::blocking(move || Client::attach(&server, &session, PAUSE_AFTER)).await;
    let Ok(Ok(client)) = attached.map(polled) else { return };
    let mut control = Control::new(client);
    let (mut rest, mut round) = (interval(REST), interval_at(Instant::now() + ROUND, ROUND));
    rest.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let goes_on = tokio::select! {
            order = orders.recv() => match order {
                Some(order) => control.watch(order),
                None => return,
            },
            read = control.read() => read.and_then(|messages| control.take_all(messages)),
            _ = rest.tick(), if control.holds() => control.resume(),
            _ = round.tick() => match control.forget_leavers() {
                true => Ok(()),
                // Whoever asked meanwhile finds the queue shut, and asks anew.
                false => return,
            },
        };
        if goes_on.is_err() {
            return;
        }
    }
}

impl Control {
    fn new(client: AsyncFd<Client>) -> Control {
        Control {
            client,
            watched: BTreeMap::new(),
            flows: BTreeMap::new(),
            paused: BTreeMap::new(),
            resumed: BTreeMap::new(),
            expected: VecDeque::new(),
            measures: None,
        }
    }

    async fn read(&mut self) -> io::Result<Vec<Message>> {
        loop {
            let mut guard = self.client.readable_mut().await?;
            if let Ok(read) = guard.try_io(|client| client.get_mut().take()) {
                return read;
            }
        }
    }

    fn watch(&mut self, order: Subscribed) -> io::Result<()> {
        let pane = order.pane.clone();
        self.watched.entry(pane.clone()).or_default().push(order);
        self.go_on(&pane)
    }

    fn forget_leavers(&mut self) -> bool {
        for watchers in self.watched.values_mut() {
            watchers.retain(|watcher| !watcher.feed.is_closed());
        }
        self.watched.retain(|_, watchers| !watchers.is_empty());
        self.flows.retain(|pane, _| self.watched.contains_key(pane));
        !self.watched.is_empty()
    }

    fn holds(&self) -> bool {
        self.paused.keys().any(|pane| self.watched.contains_key(pane))
    }

    /// Asks for the panes that have rested and whose watchers have caught up.
    fn resume(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let has_room =
            |watcher: &Subscribed| watcher.feed.capacity() * 2 >= watcher.feed.max_capacity();
        let caught_up = |pane: &&PaneId| {
            self.watched.get(*pane).is_some_and(|watchers| watchers.iter().all(has_room))
        };
        let rested = self.paused.iter().filter(|(_, rest)| rest.until <= now);
        let ready: Vec<PaneId> = rested.map(|(pane, _)| pane).filter(caught_up).cloned().collect();
        ready.iter().try_for_each(|pane| match self.paused.get_mut(pane) {
            Some(rest) if matches!(rest.why, Why::Spins(_)) => {
                rest.until = now + SPINNER_RESTS;
                self.picture(pane)
            }
            Some(_) | None => self.go_on(pane),
        })
    }

    /// Asks for what a pane writes from now on, and for what it shows.
    fn go_on(&mut self, pane: &PaneId) -> io::Result<()> {
        if let Some(rest) = self.paused.remove(pane) {
            let now = Instant::now();
            self.resumed.insert(pane.clone(), (now, rest.time));
            self.flows.remove(pane);
            self.client.get_mut().resume(pane)?;
            self.expected.push_back(Expected::Nothing);
        }
        self.picture(pane)
    }

    fn picture(&mut self, pane: &PaneId) -> io::Result<()> {
        self.client.get_mut().picture(pane)?;
        self.expected.extend([Expected::Measures, Expected::Lines(pane.clone())]);
        Ok(())
    }

    fn pause(&mut self, pane: PaneId, why: Why) -> io::Result<()> {
        if self.paused.contains_key(&pane) {
            return Ok(());
        }
        self.client.get_mut().pause(&pane)?;
        self.expected.push_back(Expected::Nothing);
        self.rest(pane, why);
        Ok(())
    }

    /// Leaves a pane alone; one that floods the longer the sooner it does so again.
    fn rest(&mut self, pane: PaneId, why: Why) {
        let time = match (&why, self.resumed.get(&pane)) {
            (Why::Spins(_), _) => SPINNER_RESTS,
            (Why::Floods, Some((at, before))) if at.elapsed() < CALM => {
                (*before * 2).min(LONGEST_REST)
            }
            (Why::Floods, Some(_) | None) => REST,
        };
        self.paused.entry(pane).or_insert(Rest { until: Instant::now() + time, time, why });
    }

    /// Says whether a pane that was left alone because it wrote on and on shows the same as the last time.
    fn has_come_to_rest(&mut self, pane: &PaneId, lines: &[String]) -> bool {
        let Some(Rest { why: Why::Spins(shown), .. }) = self.paused.get_mut(pane) else {
            return false;
        };
        shown.replace(lines.to_vec()).is_some_and(|before| before == lines)
    }

    /// Takes note of what a pane wrote, and says whether it writes on and on, and nobody wants all of it.
    fn flows_on(&mut self, pane: &PaneId) -> bool {
        let now = Instant::now();
        let flow = self.flows.entry(pane.clone()).or_insert(Flow { began: now, last: now });
        if now - flow.last > PAUSE {
            flow.began = now;
        }
        flow.last = now;
        let lasts = now - flow.began >= AS_IT_COMES;
        let mut watchers = self.watched.get(pane).into_iter().flatten();
        lasts && watchers.all(|watcher| watcher.now_and_then)
    }

    fn take_all(&mut self, messages: Vec<Message>) -> io::Result<()> {
        messages.into_iter().try_for_each(|message| self.take(message))
    }

    fn take(&mut self, message: Message) -> io::Result<()> {
        match message {
            Message::Output { pane, bytes, .. } => {
                // What was on its way when the pane was paused is not the whole of it.
                if self.paused.contains_key(&pane) {
                    return Ok(());
                }
                match self.feed(&pane, || Feed::Output(bytes.clone())) {
                    true if self.flows_on(&pane) => self.pause(pane, Why::Spins(None)),
                    true => Ok(()),
                    false => self.pause(pane, Why::Floods),
                }
            }
            Message::Paused(pane) => {
                self.rest(pane, Why::Floods);
                Ok(())
            }
            Message::Reply { asked: true, ok, lines } => self.answered(ok, lines),
            Message::ModeChanged(pane) => {
                self.feed(&pane, || Feed::Changed);
                Ok(())
            }
            Message::Other { name } if CHANGES.contains(&name.as_str()) => self.changed(),
            Message::Exit { .. } => Err(io::ErrorKind::BrokenPipe.into()),
            Message::Continued(_)
            | Message::Reply { asked: false, .. }
            | Message::TooLong
            | Message::Other { .. } => Ok(()),
        }
    }

    fn answered(&mut self, ok: bool, lines: Vec<String>) -> io::Result<()> {
        match self.expected.pop_front() {
            Some(Expected::Measures) => {
                self.measures = lines.first().filter(|_| ok).and_then(|line| Measures::parse(line));
            }
            Some(Expected::Lines(pane)) => {
                let measures = self.measures.take().filter(|_| ok);
                if measures.is_some() && self.has_come_to_rest(&pane, &lines) {
                    return self.go_on(&pane);
                }
                let told = match measures {
                    Some(m) => self.feed(&pane, || Feed::Picture(m.clone(), lines.clone())),
                    None => self.feed(&pane, || Feed::Changed),
                };
                if !told && self.watched.contains_key(&pane) {
                    return self.pause(pane, Why::Floods);
                }
            }
            Some(Expected::Nothing) | None => {}
        }
        Ok(())
    }

    /// Windows were arranged anew: every pane is looked at, and drawn from how it is shown now.
    fn changed(&mut self) -> io::Result<()> {
        let panes: Vec<PaneId> = self.watched.keys().cloned().collect();
        for pane in &panes {
            self.feed(pane, || Feed::Changed);
            self.picture(pane)?;
        }
        Ok(())
    }

    /// Tells all who watch a pane, and says whether all of them took it. Nobody is waited for.
    fn feed(&mut self, pane: &PaneId, what: impl Fn() -> Feed) -> bool {
        let Some(watchers) = self.watched.get(pane).filter(|watchers| !watchers.is_empty()) else {
            return false;
        };
        let full =
            |one: &Subscribed| matches!(one.feed.try_send(what()), Err(TrySendError::Full(_)));
        // All are told, whoever of them has no room.
        watchers.iter().filter(|one| full(one)).count() == 0
    }
}
