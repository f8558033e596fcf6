//! Model check of delivery in every order of events: two senders, three consumers, crashes and timeouts anywhere.
//!
//! Each message is acknowledged at most once, by its current lease holder; and from every state, a consumer that
//! keeps polling gets every stored message.

use std::collections::BTreeSet;

use provost_core::team::{MessageStatus, TeamCommand, TeamRejection};

use super::kit::{TestTeam, member, offered_lease, post};

/// Progress of a consumer with its current message: number and lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ConsumerState {
    Idle,
    Offered(u32, u32),
    Accepted(u32, u32),
}

#[derive(Clone)]
struct DeliveryModel {
    team: TestTeam,
    consumers: [ConsumerState; 3],
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
enum DeliveryStep {
    Send(usize),
    Ask(usize),
    Accept(usize),
    Acknowledge(usize),
    /// A consumer dies and comes back without its state.
    Crash(usize),
    /// More time than a lease passes.
    LeaseExpires,
}

fn all_steps() -> Vec<DeliveryStep> {
    let takers = (0..3).flat_map(|n| {
        [
            DeliveryStep::Ask(n),
            DeliveryStep::Accept(n),
            DeliveryStep::Acknowledge(n),
            DeliveryStep::Crash(n),
        ]
    });
    (0..2).map(DeliveryStep::Send).chain(takers).chain([DeliveryStep::LeaseExpires]).collect()
}

impl DeliveryModel {
    fn new() -> DeliveryModel {
        let mut team = TestTeam::paired();
        team.events.clear();
        DeliveryModel {
            team,
            consumers: [ConsumerState::Idle; 3],
            sent: [0; 2],
            acknowledged: [0; 2],
            ticks: 0,
        }
    }

    /// Returns the state after a step, or `None` if the step is impossible here.
    fn apply(&self, what: DeliveryStep) -> Option<DeliveryModel> {
        let mut world = self.clone();
        match what {
            DeliveryStep::Send(n) => world.send(n)?,
            DeliveryStep::Ask(n) => world.request_next(n)?,
            DeliveryStep::Accept(n) => world.accept(n)?,
            DeliveryStep::Acknowledge(n) => world.acknowledge(n)?,
            DeliveryStep::Crash(n) => {
                (world.consumers[n] != ConsumerState::Idle).then_some(())?;
                world.consumers[n] = ConsumerState::Idle;
            }
            DeliveryStep::LeaseExpires => {
                world.ticks = (world.ticks < TICKS).then_some(world.ticks + 1)?;
                world.team.advance_clock(100);
            }
        }
        Some(world)
    }

    fn send(&mut self, n: usize) -> Option<()> {
        let key = KEYS.get(self.sent[n])?;
        self.sent[n] += 1;
        match self.team.try_apply(&member("boss"), post("hand", key)) {
            Ok(_) | Err(TeamRejection::NothingNew) => Some(()),
            Err(why) => panic!("{why}"),
        }
    }

    fn request_next(&mut self, n: usize) -> Option<()> {
        (self.consumers[n] == ConsumerState::Idle).then_some(())?;
        let command = TeamCommand::Next { consumer: "hand".to_owned() };
        let events = self.team.try_apply(&member("hand"), command).ok()?;
        let (no, lease) = events.iter().find_map(offered_lease)?;
        self.consumers[n] = ConsumerState::Offered(no, lease);
        Some(())
    }

    fn accept(&mut self, n: usize) -> Option<()> {
        let ConsumerState::Offered(no, lease) = self.consumers[n] else { return None };
        let taken =
            self.team.try_apply(&member("hand"), TeamCommand::Accept { no, lease, polls: 0 });
        // If this fails, the lease has expired and may belong to another consumer.
        self.consumers[n] =
            if taken.is_ok() { ConsumerState::Accepted(no, lease) } else { ConsumerState::Idle };
        Some(())
    }

    fn acknowledge(&mut self, n: usize) -> Option<()> {
        let ConsumerState::Accepted(no, lease) = self.consumers[n] else { return None };
        let command = TeamCommand::Acknowledge { no, lease, note: None };
        if self.team.try_apply(&member("hand"), command).is_ok() {
            self.acknowledged[no as usize - 1] += 1;
        }
        self.consumers[n] = ConsumerState::Idle;
        Some(())
    }

    fn state_key(&self) -> String {
        let messages: Vec<(u32, &str, &MessageStatus)> = self
            .team
            .task
            .messages
            .iter()
            .map(|message| (message.offers, message.key.as_str(), &message.status))
            .collect();
        // Consumers are interchangeable, and so are senders: permuting them gives the same state.
        let (mut takers, mut sent) = (self.consumers, self.sent);
        takers.sort();
        sent.sort();
        format!("{messages:?} {takers:?} {sent:?} {}", self.ticks)
    }

    fn check_invariants(&self) {
        assert!(self.acknowledged.iter().all(|times| *times <= 1), "{}", self.state_key());
        let keys: BTreeSet<&str> =
            self.team.task.messages.iter().map(|message| message.key.as_str()).collect();
        assert_eq!(keys.len(), self.team.task.messages.len(), "one key is one message");
        // No sent message is lost: a consumer that keeps polling gets all of them.
        let mut drained = self.team.clone();
        drained.advance_clock(100);
        while drained.next("hand").is_some() {
            let held = drained.task.messages.iter().find_map(|message| {
                matches!(message.status, MessageStatus::Offered(_))
                    .then_some((message.no, message.offers))
            });
            let (no, lease) = held.expect("one was offered");
            drained.apply(&member("hand"), TeamCommand::Accept { no, lease, polls: 0 });
            drained.apply(&member("hand"), TeamCommand::Acknowledge { no, lease, note: None });
        }
        let handled = drained
            .task
            .messages
            .iter()
            .filter(|message| matches!(message.status, MessageStatus::Acknowledged { .. }));
        let sent = self.sent.iter().max().copied().unwrap_or(0);
        assert_eq!(handled.count(), sent, "{}", self.state_key());
    }
}

#[test]
fn d1_d2_d3_d4_every_order_handles_each_message_once() {
    let mut seen = BTreeSet::new();
    let mut open = vec![DeliveryModel::new()];
    let mut acknowledged_all = 0;
    while let Some(world) = open.pop() {
        world.check_invariants();
        acknowledged_all += usize::from(world.acknowledged == [1, 1]);
        for next in all_steps().into_iter().filter_map(|what| world.apply(what)) {
            if seen.insert(next.state_key()) {
                open.push(next);
            }
        }
    }
    assert!(seen.len() > 1_000, "only {} states were visited", seen.len());
    assert!(acknowledged_all > 0, "some order ends with everything handled");
}
