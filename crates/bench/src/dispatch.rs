//! Team messages: latency from sending to a waiting receiver, and throughput of concurrent senders.

mod fill;
mod look;
mod senders;

use std::{path::Path, sync::mpsc, time::Instant};

use anyhow::{Context, Result, ensure};
use provost_core::{
    ids::StandingId,
    task::{
        Actor, Address, Channel, Command, Config, Kind, Labels, Post, Priority, Role, TaskBounds,
        TaskSpec,
    },
    time::Moment,
};
use provost_engine::{
    board::{Board, Turn},
    shell::{NewMember, Pairing},
};
use provost_ledger::{Batch, Ledger, MemLedger, SqliteLedger, StreamWrite};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    append::Ours,
    daemon::Daemon,
    table::{Goal, Table},
    timing::{Sample, now, time},
};

pub(crate) use look::run as look;
use senders::{Sender, Senders, request};

/// The number of receivers that wait at the same time.
const WAITING: usize = 100;
const SENT: usize = 400;

/// The number of concurrent senders, and messages of each per round. Every round uses new teams, so that all rounds
/// are alike.
const SENDERS: usize = 32;
const EACH: usize = 100;
const ROUNDS: usize = 15;

/// Measures the latency from sending a message to its waiting receiver, among a hundred waiting receivers.
pub(crate) fn wait(table: &mut Table) -> Result<()> {
    let daemon = Daemon::home()?;
    daemon.start()?;
    let tasks: Vec<String> = (0..WAITING).map(|n| open(&daemon, n)).collect::<Result<_>>()?;
    let (sender, taken) = mpsc::channel::<(usize, Instant)>();
    std::thread::scope(|scope| -> Result<()> {
        for (n, task) in tasks.iter().enumerate() {
            let (client, sender) = (daemon.client(), sender.clone());
            scope.spawn(move || {
                for turn in 0..SENT / WAITING {
                    let request = json!({"as": "hand", "wait_ms": 100_000});
                    let key = format!("next-{n}-{turn}");
                    let taken: Result<Value, _> =
                        client.post(&format!("/v1/tasks/{task}/next"), &request, &key);
                    if !taken.is_ok_and(|taken| taken["item"].is_object())
                        || sender.send((n, now())).is_err()
                    {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut delays = Sample::default();
        let mut client = Sender::open(&daemon, &tasks[0])?;
        for turn in 0..SENT {
            let n = turn % WAITING;
            let request = request(&post(turn));
            let begun = now();
            client.post(&tasks[n], &request)?;
            let (who, at) = taken.recv().context("a waiting receiver got no message")?;
            ensure!(who == n, "a message for {n} reached {who}");
            delays.add_ms(at.duration_since(begun));
        }
        let from = delays.spread(" ms");
        let what = "a message sent to whoever waits for it, with 100 waiting";
        table.row(&format!("{what}: p50"), delays.median(), " ms", Goal::AtMost(5.0), &from);
        table.row(&format!("{what}: p99"), delays.quantile(0.99), " ms", Goal::AtMost(20.0), &from);
        Ok(())
    })
}

/// Measures durable messages by many senders over the socket against the ledger alone: with as many writers that
/// each wait for their commit, with prepared batches and no waiting, and with events without projection or search
/// terms.
pub(crate) fn enqueue(table: &mut Table) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut bare = Ours::open(&dir.path().join("bare"))?;
    bare.write(300)?;
    let mut same = Same::open(&dir.path().join("same"))?;
    let daemon = Daemon::home()?;
    daemon.start()?;
    let (mut to_waiting, mut to_packed) = (Sample::default(), Sample::default());
    let (mut to_bare, mut rates) = (Sample::default(), Sample::default());
    for round in 0..ROUNDS {
        let tasks: Vec<String> =
            of_round(round).map(|n| open(&daemon, n)).collect::<Result<_>>()?;
        let mut senders = Senders::open(&daemon, &tasks)?;
        same.begin(round)?;
        let requests: Vec<String> = (0..EACH).map(|n| request(&post(round * EACH + n))).collect();
        let (sent, took) = time(|| senders.send(&requests));
        sent?;
        let rate = (SENDERS * EACH) as f64 / took.as_secs_f64();
        rates.add(rate);
        to_waiting.add(rate / same.rate_of_waiting()?);
        to_packed.add(rate / same.rate_of_packed()?);
        to_bare.add(rate / bare.rate()?);
    }
    table.row(
        "durable messages by 32 senders over the socket, against the ledger's group commit of the same with 32 writers",
        to_waiting.median(),
        "×",
        Goal::AtLeast(0.5),
        &format!("{}; {:.0} a second", to_waiting.spread("×"), rates.median()),
    );
    let others = [
        (
            "the same against its commits of 32 that are there already, with nobody who waits",
            to_packed,
        ),
        ("the same against its commits of 32 events with neither row nor words", to_bare),
    ];
    for (what, sample) in others {
        table.row(what, sample.median(), "×", Goal::None, &sample.spread("×"));
    }
    Ok(())
}

/// The same messages of the same teams, decided in advance, so that only their commits are measured.
struct Same {
    board: Board,
    /// Receives the commits made while deciding.
    decided: MemLedger,
    ledger: SqliteLedger,
    tasks: Vec<StandingId>,
    sent: usize,
}

impl Same {
    fn open(dir: &Path) -> Result<Same> {
        let (board, decided) = (Board::default(), MemLedger::default());
        Ok(Same { board, decided, ledger: crate::fill::open(dir)?, tasks: Vec::new(), sent: 0 })
    }

    /// Opens the teams of a round.
    fn begin(&mut self, round: usize) -> Result<()> {
        self.tasks = of_round(round).map(|n| StandingId(task_id(n))).collect();
        let batch = self.decide(|turn, id, n| {
            let (name, labels) = ("hand".to_owned(), Labels::default());
            let bind = Command::Bind { name, role: Role::Worker, session: None, labels };
            turn.open_task(id, spec(round * SENDERS + n), &[bind], "operator").is_ok()
        })?;
        self.ledger.append(batch)?;
        Ok(())
    }

    /// Applies a change to each team and returns the writes it needs.
    fn decide(
        &mut self,
        change: impl Fn(&mut Turn<'_>, StandingId, usize) -> bool,
    ) -> Result<Batch> {
        let mut turn = self.board.begin(Moment { wall_ms: 0, mono_ms: self.sent as u64 });
        for (n, id) in self.tasks.iter().enumerate() {
            ensure!(change(&mut turn, *id, n), "team {n} rejected the change");
        }
        let (batch, staged) = turn.stage().context("nothing to write")?;
        self.board.commit(staged, &self.decided.append(batch.clone())?);
        Ok(batch)
    }

    /// Returns the writes for the next messages, one per team in a batch.
    fn next(&mut self) -> Result<Vec<Batch>> {
        let mut batches = Vec::new();
        for _ in 0..EACH {
            let command = Command::Post(Box::new(message(self.sent)));
            batches.push(self.decide(|turn, id, _| {
                let done = turn.command_task(id, &Actor::Operator, &command, "operator");
                done.is_some_and(|done| done.is_ok())
            })?);
            self.sent += 1;
        }
        Ok(batches)
    }

    /// Returns messages per second when a message of every team is always ready.
    fn rate_of_packed(&mut self) -> Result<f64> {
        let batches = self.next()?;
        let (done, took) =
            time(|| batches.into_iter().try_for_each(|batch| self.ledger.append(batch).map(drop)));
        done?;
        Ok((SENDERS * EACH) as f64 / took.as_secs_f64())
    }

    /// Returns messages per second when each team has a writer that waits for durability between messages.
    fn rate_of_waiting(&mut self) -> Result<f64> {
        let batches = self.next()?;
        let at = batches[0].at;
        let mut of_writers: Vec<Vec<StreamWrite>> = vec![Vec::new(); SENDERS];
        for batch in batches {
            for (own, write) in of_writers.iter_mut().zip(batch.writes) {
                own.push(write);
            }
        }
        let (sender, waiting) = mpsc::channel::<(StreamWrite, mpsc::Sender<()>)>();
        let (done, took) = time(|| {
            std::thread::scope(|scope| -> Result<()> {
                for own in of_writers {
                    let sender = sender.clone();
                    scope.spawn(move || {
                        for write in own {
                            let (durable, told) = mpsc::channel();
                            if sender.send((write, durable)).is_err() || told.recv().is_err() {
                                return;
                            }
                        }
                    });
                }
                drop(sender);
                while let Ok(first) = waiting.recv() {
                    let (writes, who): (Vec<_>, Vec<_>) =
                        std::iter::once(first).chain(waiting.try_iter()).unzip();
                    self.ledger.append(Batch { at, writes, idempotency: Vec::new() })?;
                    for durable in who {
                        durable.send(()).context("a writer exited")?;
                    }
                }
                Ok(())
            })
        });
        done?;
        Ok((SENDERS * EACH) as f64 / took.as_secs_f64())
    }
}

/// Returns the numbers of the teams of a round.
fn of_round(round: usize) -> std::ops::Range<usize> {
    round * SENDERS..(round + 1) * SENDERS
}

/// Opens a team with one worker that pulls its messages.
fn open(daemon: &Daemon, n: usize) -> Result<String> {
    let id = task_id(n).to_string();
    let (name, labels) = ("hand".to_owned(), Labels::default());
    let hand = NewMember { name, role: Role::Worker, labels, session: None };
    let pairing = Pairing {
        spec: spec(n),
        members: vec![hand],
        criteria: Vec::new(),
        template: None,
        posts: Vec::new(),
    };
    let request = json!({"id": id, "pairing": pairing});
    let opened: Value = daemon.client().post("/v1/pairs", &request, &format!("open-{n}"))?;
    ensure!(opened["id"] == *id, "{opened}");
    Ok(id)
}

fn task_id(n: usize) -> Uuid {
    Uuid::from_u128(0x01a1_e700_0000_7000_8000_0000_0000_0000 + n as u128)
}

fn spec(n: usize) -> TaskSpec {
    TaskSpec {
        name: format!("task-{n}"),
        goal: "be measured".to_owned(),
        summary: None,
        project: None,
        cwd: "/".to_owned(),
        checks: Vec::new(),
        consent: Default::default(),
        config: Config::default(),
        policy: None,
        bounds: TaskBounds::default(),
    }
}

fn post(n: usize) -> Value {
    json!({"command": Command::Post(Box::new(message(n)))})
}

fn message(n: usize) -> Post {
    Post {
        key: format!("sent-{n}"),
        correlation: None,
        channel: Channel::Cli,
        to: Address::Member("hand".to_owned()),
        kind: Kind::Instruction,
        text: "x".repeat(250),
        priority: Priority::Normal,
        expires_in_ms: None,
        steer: false,
    }
}
