//! Many workers under one manager, with an engine that crashes repeatedly.

use provost_core::{
    ids::StandingId,
    task::{
        Actor, Address, Channel, Command, Kind, Post, Priority, Role, Standing, Task, TaskSpec,
    },
};

use super::{Faults, Report, Sim};
use crate::{
    laws::Broken,
    script,
    standing::{self, Pair, Taker},
};

/// The number of actors between two scans for ready ones: scanning thousands costs more than acting.
const AT_ONCE: usize = 200;

/// Maximum number of inputs that the owner takes together.
const BATCH: u64 = 200;

/// The number of consumers that race for the manager's messages.
const TAKERS: usize = 16;

/// Simulates `workers` workers under one manager. Each is instructed once, some twice under the same key, and
/// reports. The manager takes and acknowledges all news.
pub fn crowd(seed: u64, workers: u64) -> Report {
    // The seed has neither a run nor a team of its own.
    // Small simulations record every event.
    let trace = (workers < 10).then(Vec::new);
    let mut sim = Sim::new(8 * seed + 3, Faults::CRASHES, trace);
    let (id, faults) = (StandingId(uuid::Uuid::from_u64_pair(seed, u64::MAX)), Faults::CRASHES);
    let hands = (0..workers).map(|no| (script::session_id(seed, no), no));
    sim.specs =
        hands.clone().map(|(id, no)| (id, standing::plain_worker(seed, no, &faults))).collect();
    let boss = ("boss".to_owned(), Role::Manager, None);
    let members = hands.map(|(id, no)| (format!("w{no}"), Role::Worker, Some(id)));
    let members = std::iter::once(boss).chain(members).collect();
    let boss = Taker { steady: true, ..standing::taker(id, "boss", true) };
    sim.takers = vec![boss; TAKERS];
    sim.pairs = vec![Pair { id, spec: spec(), members, takers: Vec::new() }];
    (sim.at_once, sim.batch, sim.world.obedient) = (AT_ONCE, BATCH, true);
    sim.deeds.clear();
    sim.instruct(id, workers);
    sim.told_with(|sim| sim.everyone_was_heard(id, workers))
}

fn spec() -> TaskSpec {
    TaskSpec {
        name: "crowd".to_owned(),
        goal: "do it, all of you".to_owned(),
        summary: None,
        project: None,
        cwd: "/work".to_owned(),
        checks: Vec::new(),
        consent: Default::default(),
        config: Default::default(),
        policy: None,
        bounds: Default::default(),
    }
}

impl Sim {
    fn instruct(&mut self, id: StandingId, workers: u64) {
        let boss = Actor::Member("boss".to_owned());
        let contract = Command::AcknowledgeContract { revision: 0 };
        self.ask_task(id, boss.clone(), contract);
        for no in 0..workers {
            self.ask_task(id, boss.clone(), instruction(no));
        }
        // Some callers repeat their request, long after the first ones were forgotten.
        for no in (0..workers).step_by(3) {
            self.ask_task(id, boss.clone(), instruction(no));
        }
    }

    /// Each worker received its instruction once, and the manager received all news.
    fn everyone_was_heard(&self, id: StandingId, workers: u64) -> Result<(), Broken> {
        let task = self.engine.task(id).ok_or("the team is missing")?;
        let given = self.engine.given(id);
        if given != workers {
            return Err(format!("{given} of {workers} workers received their instruction"));
        }
        for worker in task.bound(Role::Worker) {
            if worker.told.attempts_sealed == 0 {
                return Err(format!("no news of {}", worker.name));
            }
        }
        match task.messages.iter().find(|message| !message.standing.is_over()) {
            Some(message) => Err(format!("message {} remains: {:?}", message.no, message.standing)),
            None => nothing_was_laid_aside(task),
        }
    }
}

fn nothing_was_laid_aside(task: &Task) -> Result<(), Broken> {
    let dead = |standing: &Standing| matches!(standing, Standing::Dead { .. });
    match task.messages.iter().find(|message| dead(&message.standing)) {
        Some(message) => Err(format!("message {}: {:?}", message.no, message.standing)),
        None => Ok(()),
    }
}

fn instruction(no: u64) -> Command {
    Command::Post(Box::new(Post {
        key: format!("do-{no}"),
        correlation: None,
        channel: Channel::Cli,
        to: Address::Member(format!("w{no}")),
        kind: Kind::Instruction,
        text: format!("do part {no}"),
        priority: Priority::Normal,
        expires_in_ms: None,
        steer: false,
    }))
}
