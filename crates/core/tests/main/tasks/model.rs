//! Model check of delivery in every order of events: two senders, three consumers, crashes and timeouts anywhere.
//!
//! Each message is acknowledged at most once, by its current lease holder; and from every state, a consumer that
//! keeps polling gets every stored message.

use std::collections::BTreeSet;

use provost_core::task::{Command, Rejected, Standing};

use super::kit::{Desk, member, offered, post};

/// Progress of a consumer with its current message: number and lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Taker {
    Idle,
    Offered(u32, u32),
    Accepted(u32, u32),
}

#[derive(Clone)]
struct World {
    desk: Desk,
    takers: [Taker; 3],
    /// Number of messages that each sender has sent so far; both use the same keys.
    sent: [usize; 2],
    /// Number of acknowledgements per message.
    acknowledged: [u32; KEYS.len()],
    ticks: u32,
}

const KEYS: [&str; 2] = ["first", "second"];

/// Maximum number of lease timeouts: enough for two consecutive leases.
const TICKS: u32 = 3;

#[derive(Clone, Copy, Debug)]
enum Happens {
    Send(usize),
    Ask(usize),
    Accept(usize),
    Acknowledge(usize),
    /// A consumer dies and comes back without its state.
    Crash(usize),
    /// More time than a lease passes.
    Time,
}

fn all() -> Vec<Happens> {
    let takers = (0..3).flat_map(|n| {
        [Happens::Ask(n), Happens::Accept(n), Happens::Acknowledge(n), Happens::Crash(n)]
    });
    (0..2).map(Happens::Send).chain(takers).chain([Happens::Time]).collect()
}

impl World {
    fn new() -> World {
        let mut desk = Desk::paired();
        desk.events.clear();
        World { desk, takers: [Taker::Idle; 3], sent: [0; 2], acknowledged: [0; 2], ticks: 0 }
    }

    /// Returns the state after a step, or `None` if the step is impossible here.
    fn after(&self, what: Happens) -> Option<World> {
        let mut world = self.clone();
        match what {
            Happens::Send(n) => world.send(n)?,
            Happens::Ask(n) => world.ask(n)?,
            Happens::Accept(n) => world.accept(n)?,
            Happens::Acknowledge(n) => world.acknowledge(n)?,
            Happens::Crash(n) => {
                (world.takers[n] != Taker::Idle).then_some(())?;
                world.takers[n] = Taker::Idle;
            }
            Happens::Time => {
                world.ticks = (world.ticks < TICKS).then_some(world.ticks + 1)?;
                world.desk.wait(100);
            }
        }
        Some(world)
    }

    fn send(&mut self, n: usize) -> Option<()> {
        let key = KEYS.get(self.sent[n])?;
        self.sent[n] += 1;
        match self.desk.does(&member("boss"), post("hand", key)) {
            Ok(_) | Err(Rejected::Nothing) => Some(()),
            Err(why) => panic!("{why}"),
        }
    }

    fn ask(&mut self, n: usize) -> Option<()> {
        (self.takers[n] == Taker::Idle).then_some(())?;
        let command = Command::Next { consumer: "hand".to_owned() };
        let events = self.desk.does(&member("hand"), command).ok()?;
        let (no, lease) = events.iter().find_map(offered)?;
        self.takers[n] = Taker::Offered(no, lease);
        Some(())
    }

    fn accept(&mut self, n: usize) -> Option<()> {
        let Taker::Offered(no, lease) = self.takers[n] else { return None };
        let taken = self.desk.does(&member("hand"), Command::Accept { no, lease, polls: 0 });
        // If this fails, the lease has expired and may belong to another consumer.
        self.takers[n] = if taken.is_ok() { Taker::Accepted(no, lease) } else { Taker::Idle };
        Some(())
    }

    fn acknowledge(&mut self, n: usize) -> Option<()> {
        let Taker::Accepted(no, lease) = self.takers[n] else { return None };
        let command = Command::Acknowledge { no, lease, note: None };
        if self.desk.does(&member("hand"), command).is_ok() {
            self.acknowledged[no as usize - 1] += 1;
        }
        self.takers[n] = Taker::Idle;
        Some(())
    }

    fn key(&self) -> String {
        let messages: Vec<(u32, &str, &Standing)> = self
            .desk
            .task
            .messages
            .iter()
            .map(|message| (message.offers, message.key.as_str(), &message.standing))
            .collect();
        // Consumers are interchangeable, and so are senders: permuting them gives the same state.
        let (mut takers, mut sent) = (self.takers, self.sent);
        takers.sort();
        sent.sort();
        format!("{messages:?} {takers:?} {sent:?} {}", self.ticks)
    }

    fn holds(&self) {
        assert!(self.acknowledged.iter().all(|times| *times <= 1), "{}", self.key());
        let keys: BTreeSet<&str> =
            self.desk.task.messages.iter().map(|message| message.key.as_str()).collect();
        assert_eq!(keys.len(), self.desk.task.messages.len(), "one key is one message");
        // No sent message is lost: a consumer that keeps polling gets all of them.
        let mut drained = self.desk.clone();
        drained.wait(100);
        while drained.next("hand").is_some() {
            let held = drained.task.messages.iter().find_map(|message| {
                matches!(message.standing, Standing::Offered(_))
                    .then_some((message.no, message.offers))
            });
            let (no, lease) = held.expect("one was offered");
            drained.done(&member("hand"), Command::Accept { no, lease, polls: 0 });
            drained.done(&member("hand"), Command::Acknowledge { no, lease, note: None });
        }
        let handled = drained
            .task
            .messages
            .iter()
            .filter(|message| matches!(message.standing, Standing::Acknowledged { .. }));
        let sent = self.sent.iter().max().copied().unwrap_or(0);
        assert_eq!(handled.count(), sent, "{}", self.key());
    }
}

#[test]
fn d1_d2_d3_d4_under_every_order_each_message_is_handled_once_and_none_is_lost() {
    let mut seen = BTreeSet::new();
    let mut open = vec![World::new()];
    let mut acknowledged_all = 0;
    while let Some(world) = open.pop() {
        world.holds();
        acknowledged_all += usize::from(world.acknowledged == [1, 1]);
        for next in all().into_iter().filter_map(|what| world.after(what)) {
            if seen.insert(next.key()) {
                open.push(next);
            }
        }
    }
    assert!(seen.len() > 1_000, "only {} states were visited", seen.len());
    assert!(acknowledged_all > 0, "some order ends with everything handled");
}
