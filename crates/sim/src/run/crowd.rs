//! Many workers under one manager, told by an engine that dies again and again.

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

/// How many act between two looks at who can: to look at thousands costs more than to act.
const AT_ONCE: usize = 200;

/// How many of what waits the owner takes together, at the most.
const BATCH: u64 = 200;

/// How many take the manager's messages, and race for each.
const TAKERS: usize = 16;

/// Tells of so many workers under one manager. Each is instructed once, under a key that some use twice, and reports;
/// the manager takes all news and says that it has them.
pub fn crowd(seed: u64, workers: u64) -> Report {
    // Of a seed that has neither a run nor a task of its own.
    // Few are told of with every event.
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
        // Whoever had no answer asks again, long after the first of them are forgotten.
        for no in (0..workers).step_by(3) {
            self.ask_task(id, boss.clone(), instruction(no));
        }
    }

    /// Each worker was given its instruction once, and the manager has all that there was to hear of it.
    fn everyone_was_heard(&self, id: StandingId, workers: u64) -> Result<(), Broken> {
        let task = self.engine.task(id).ok_or("there is no task")?;
        let given = self.engine.given(id);
        if given != workers {
            return Err(format!("{given} of {workers} workers were given their instruction"));
        }
        for worker in task.bound(Role::Worker) {
            if worker.told.attempts_sealed == 0 {
                return Err(format!("nothing was heard of {}", worker.name));
            }
        }
        match task.messages.iter().find(|message| !message.standing.is_over()) {
            Some(message) => Err(format!("message {} is left: {:?}", message.no, message.standing)),
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
