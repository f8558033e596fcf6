//! Many workers under one manager, with an engine that crashes repeatedly.

use provost_core::{
    ids::TeamId,
    team::{
        MemberRole, MessageChannel, MessageStatus, NewMessage, Priority, Recipient, Team,
        TeamActor, TeamCommand, TeamMessageKind, TeamSpec,
    },
};

use super::{Faults, Sim, SimReport};
use crate::{
    script,
    session_laws::BrokenLaw,
    team::{self, Consumer, SimTeam},
};

/// The number of actors that take a step before the simulation scans for ready actors again. A scan of thousands of
/// actors takes longer than a single step.
const AT_ONCE: usize = 200;

/// Maximum number of inputs that the owner commits together.
const BATCH: u64 = 200;

/// The number of consumers that race for the manager's messages.
const TAKERS: usize = 16;

/// Simulates `workers` workers under one manager. Each worker is instructed once and reports. Some instructions are
/// sent twice under the same key. The manager takes and acknowledges all news.
pub fn crowd(seed: u64, workers: u64) -> SimReport {
    // Small simulations record every event.
    let trace = (workers < 10).then(Vec::new);
    // A seed of this form produces neither a run nor a team of its own.
    let mut sim = Sim::new(8 * seed + 3, Faults::CRASHES, trace);
    let (id, faults) = (TeamId(uuid::Uuid::from_u64_pair(seed, u64::MAX)), Faults::CRASHES);
    let hands = (0..workers).map(|no| (script::session_id(seed, no), no));
    sim.specs = hands.clone().map(|(id, no)| (id, team::plain_worker(seed, no, &faults))).collect();
    let boss = ("boss".to_owned(), MemberRole::Manager, None);
    let members = hands.map(|(id, no)| (format!("w{no}"), MemberRole::Worker, Some(id)));
    let members = std::iter::once(boss).chain(members).collect();
    let boss = Consumer { never_fails: true, ..team::consumer(id, "boss", true) };
    sim.consumers = vec![boss; TAKERS];
    sim.teams = vec![SimTeam { id, spec: spec(), members, consumers: Vec::new() }];
    (sim.at_once, sim.batch, sim.world.obedient) = (AT_ONCE, BATCH, true);
    sim.user_actions.clear();
    sim.instruct(id, workers);
    sim.into_report_with(|sim| sim.all_workers_reported(id, workers))
}

pub(super) fn spec() -> TeamSpec {
    TeamSpec {
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
    fn instruct(&mut self, id: TeamId, workers: u64) {
        let boss = TeamActor::Member("boss".to_owned());
        let contract = TeamCommand::AcknowledgeContract { revision: 0 };
        self.ask_task(id, boss.clone(), contract);
        for no in 0..workers {
            self.ask_task(id, boss.clone(), instruction(no));
        }
        // Some requests are repeated long after they were first sent and forgotten.
        for no in (0..workers).step_by(3) {
            self.ask_task(id, boss.clone(), instruction(no));
        }
    }

    /// Each worker received its instruction once, and the manager received all news.
    fn all_workers_reported(&self, id: TeamId, workers: u64) -> Result<(), BrokenLaw> {
        let task = self.engine.team(id).ok_or("the team is missing")?;
        let given = self.engine.handled_instructions(id);
        if given != workers {
            return Err(format!("{given} of {workers} workers received their instruction"));
        }
        for worker in task.bound(MemberRole::Worker) {
            if worker.reported.attempts_sealed == 0 {
                return Err(format!("no news of {}", worker.name));
            }
        }
        match task.messages.iter().find(|message| !message.status.is_over()) {
            Some(message) => {
                Err(format!("message {} was not handled: {:?}", message.no, message.status))
            }
            None => nothing_was_dead_lettered(task),
        }
    }
}

fn nothing_was_dead_lettered(task: &Team) -> Result<(), BrokenLaw> {
    let dead = |status: &MessageStatus| matches!(status, MessageStatus::Dead { .. });
    match task.messages.iter().find(|message| dead(&message.status)) {
        Some(message) => Err(format!("message {}: {:?}", message.no, message.status)),
        None => Ok(()),
    }
}

fn instruction(no: u64) -> TeamCommand {
    TeamCommand::Post(Box::new(NewMessage {
        key: format!("do-{no}"),
        correlation: None,
        channel: MessageChannel::Cli,
        to: Recipient::Member(format!("w{no}")),
        kind: TeamMessageKind::Instruction,
        text: format!("do part {no}"),
        priority: Priority::Normal,
        expires_in_ms: None,
        steer: false,
    }))
}
