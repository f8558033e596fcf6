//! Team messages: latency from sending to a waiting receiver, and throughput of concurrent senders.

mod fill;
mod queries;
mod senders;
mod show;

use std::{path::Path, sync::mpsc, time::Instant};

use anyhow::{Context, Result, ensure};
use provost_core::{
    ids::TeamId,
    team::{
        ManagerConfig, MemberLabels, MemberRole, MessageChannel, NewMessage, Priority, Recipient,
        TeamActor, TeamCommand, TeamLimits, TeamMessageKind, TeamSpec,
    },
    time::Moment,
};
use provost_engine::{
    board::{Board, BoardTransaction},
    shell::{NewMember, TeamStart},
};
use provost_ledger::{Ledger, MemLedger, SqliteLedger, StreamWrite, WriteBatch};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    append::LedgerWriter,
    daemon::BenchDaemon,
    table::{FigureTable, Goal},
    timing::{Sample, now, time},
};

pub(crate) use queries::run as look;
use senders::{MessageSender, MessageSenders, request};
pub(crate) use show::run as show;

/// The number of receivers that wait at the same time.
const WAITING: usize = 100;
const SENT: usize = 400;

/// The number of concurrent senders, and the number of messages that each sends per round. Every
/// round uses new teams, so that all rounds are alike.
const SENDERS: usize = 32;
const EACH: usize = 100;
const ROUNDS: usize = 15;

/// Measures how long a message takes to reach its receiver while a hundred receivers wait.
pub(crate) fn wait(table: &mut FigureTable) -> Result<()> {
    let daemon = BenchDaemon::home()?;
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
                        client.post(&format!("/v1/teams/{task}/next"), &request, &key);
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
        let mut client = MessageSender::open(&daemon, &tasks[0])?;
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
        let what = "a message sent to a waiting consumer, with 100 waiting";
        table.row(&format!("{what}: p50"), delays.median(), " ms", Goal::AtMost(5.0), &from);
        table.row(&format!("{what}: p99"), delays.quantile(0.99), " ms", Goal::AtMost(20.0), &from);
        Ok(())
    })
}

/// Measures the throughput of durable messages that many senders send over the socket. Compares it
/// with three uses of the ledger alone: as many writers that each wait for their commit, prepared
/// batches without waiting, and events without projections or search terms.
pub(crate) fn enqueue(table: &mut FigureTable) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut bare = LedgerWriter::open(&dir.path().join("bare"))?;
    bare.write(300)?;
    let mut same = PreparedMessages::open(&dir.path().join("same"))?;
    let daemon = BenchDaemon::home()?;
    daemon.start()?;
    let (mut to_waiting, mut to_packed) = (Sample::default(), Sample::default());
    let (mut to_bare, mut rates) = (Sample::default(), Sample::default());
    for round in 0..ROUNDS {
        let tasks: Vec<String> =
            team_numbers(round).map(|n| open(&daemon, n)).collect::<Result<_>>()?;
        let mut senders = MessageSenders::open(&daemon, &tasks)?;
        same.begin(round)?;
        let requests: Vec<String> = (0..EACH).map(|n| request(&post(round * EACH + n))).collect();
        let (sent, took) = time(|| senders.send(&requests));
        sent?;
        let rate = (SENDERS * EACH) as f64 / took.as_secs_f64();
        rates.add(rate);
        to_waiting.add(rate / same.waiting_rate()?);
        to_packed.add(rate / same.packed_rate()?);
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
        ("the same against its commits of 32 ready messages, with no waiting consumer", to_packed),
        ("the same against its commits of 32 events with neither row nor search terms", to_bare),
    ];
    for (what, sample) in others {
        table.row(what, sample.median(), "×", Goal::None, &sample.spread("×"));
    }
    Ok(())
}

/// The messages that the senders send, decided in advance, so that only their commits are measured.
struct PreparedMessages {
    board: Board,
    /// A ledger in memory, for the commits that preparing the messages needs.
    decided: MemLedger,
    ledger: SqliteLedger,
    tasks: Vec<TeamId>,
    sent: usize,
}

impl PreparedMessages {
    fn open(dir: &Path) -> Result<PreparedMessages> {
        let (board, decided) = (Board::default(), MemLedger::default());
        Ok(PreparedMessages {
            board,
            decided,
            ledger: crate::fill::open(dir)?,
            tasks: Vec::new(),
            sent: 0,
        })
    }

    /// Opens the teams of a round.
    fn begin(&mut self, round: usize) -> Result<()> {
        self.tasks = team_numbers(round).map(|n| TeamId(task_id(n))).collect();
        let batch = self.decide(|turn, id, n| {
            let (name, labels) = ("hand".to_owned(), MemberLabels::default());
            let bind = TeamCommand::Bind { name, role: MemberRole::Worker, session: None, labels };
            turn.open_team(id, spec(round * SENDERS + n), &[bind], "operator").is_ok()
        })?;
        self.ledger.append(batch)?;
        Ok(())
    }

    /// Applies a change to each team and returns the writes it needs.
    fn decide(
        &mut self,
        change: impl Fn(&mut BoardTransaction<'_>, TeamId, usize) -> bool,
    ) -> Result<WriteBatch> {
        let mut turn = self.board.begin(Moment { wall_ms: 0, mono_ms: self.sent as u64 });
        for (n, id) in self.tasks.iter().enumerate() {
            ensure!(change(&mut turn, *id, n), "team {n} rejected the change");
        }
        let (batch, staged) = turn.stage().context("nothing to write")?;
        self.board.commit(staged, &self.decided.append(batch.clone())?);
        Ok(batch)
    }

    /// Returns the writes for the next messages, one per team in a batch.
    fn next_batches(&mut self) -> Result<Vec<WriteBatch>> {
        let mut batches = Vec::new();
        for _ in 0..EACH {
            let command = TeamCommand::Post(Box::new(message(self.sent)));
            batches.push(self.decide(|turn, id, _| {
                let done = turn.command_team(id, &TeamActor::Operator, &command, "operator");
                done.is_some_and(|done| done.is_ok())
            })?);
            self.sent += 1;
        }
        Ok(batches)
    }

    /// Returns messages per second when a message of every team is always ready.
    fn packed_rate(&mut self) -> Result<f64> {
        let batches = self.next_batches()?;
        let (done, took) =
            time(|| batches.into_iter().try_for_each(|batch| self.ledger.append(batch).map(drop)));
        done?;
        Ok((SENDERS * EACH) as f64 / took.as_secs_f64())
    }

    /// Returns messages per second when each team has a writer that waits for durability between messages.
    fn waiting_rate(&mut self) -> Result<f64> {
        let batches = self.next_batches()?;
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
                            let (durable, confirmed) = mpsc::channel();
                            if sender.send((write, durable)).is_err() || confirmed.recv().is_err() {
                                return;
                            }
                        }
                    });
                }
                drop(sender);
                while let Ok(first) = waiting.recv() {
                    let (writes, who): (Vec<_>, Vec<_>) =
                        std::iter::once(first).chain(waiting.try_iter()).unzip();
                    self.ledger.append(WriteBatch { at, writes, idempotency: Vec::new() })?;
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
fn team_numbers(round: usize) -> std::ops::Range<usize> {
    round * SENDERS..(round + 1) * SENDERS
}

/// Opens a team with one worker that pulls its messages.
fn open(daemon: &BenchDaemon, n: usize) -> Result<String> {
    let id = task_id(n).to_string();
    let (name, labels) = ("hand".to_owned(), MemberLabels::default());
    let hand = NewMember { name, role: MemberRole::Worker, labels, session: None };
    let start = TeamStart {
        spec: spec(n),
        members: vec![hand],
        criteria: Vec::new(),
        template: None,
        posts: Vec::new(),
    };
    let request = json!({"id": id, "pairing": start});
    let opened: Value = daemon.client().post("/v1/pairs", &request, &format!("open-{n}"))?;
    ensure!(opened["id"] == *id, "{opened}");
    Ok(id)
}

fn task_id(n: usize) -> Uuid {
    Uuid::from_u128(0x01a1_e700_0000_7000_8000_0000_0000_0000 + n as u128)
}

fn spec(n: usize) -> TeamSpec {
    TeamSpec {
        name: format!("task-{n}"),
        goal: "be measured".to_owned(),
        summary: None,
        project: None,
        cwd: "/".to_owned(),
        checks: Vec::new(),
        consent: Default::default(),
        config: ManagerConfig::default(),
        policy: None,
        bounds: TeamLimits::default(),
    }
}

fn post(n: usize) -> Value {
    json!({"command": TeamCommand::Post(Box::new(message(n)))})
}

fn message(n: usize) -> NewMessage {
    NewMessage {
        key: format!("sent-{n}"),
        correlation: None,
        channel: MessageChannel::Cli,
        to: Recipient::Member("hand".to_owned()),
        kind: TeamMessageKind::Instruction,
        text: "x".repeat(250),
        priority: Priority::Normal,
        expires_in_ms: None,
        steer: false,
    }
}
