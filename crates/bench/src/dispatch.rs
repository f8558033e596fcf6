//! Messages of tasks: from being sent to whoever waits for them, and how many can be sent at once.

mod fill;
mod look;

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    sync::mpsc,
    time::{Duration, Instant},
};

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
use provost_ledger::{Ledger, SqliteLedger};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    append::Ours,
    daemon::Daemon,
    table::{Goal, Table},
    timing::{Sample, now, time},
};

pub(crate) use look::run as look;

/// How many wait at the same time.
const WAITING: usize = 100;
const SENT: usize = 400;

/// How many send at the same time, and how much each.
const SENDERS: usize = 32;
const EACH: usize = 100;
const ROUNDS: usize = 5;

/// From a message being sent to whoever waits for it having it, among a hundred who wait.
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
        let mut client = Connection::open(&daemon)?;
        for turn in 0..SENT {
            let n = turn % WAITING;
            let begun = now();
            client.post(&format!("/v1/tasks/{}/do", tasks[n]), &post(turn))?;
            let (who, at) = taken.recv().context("somebody who waits was not served")?;
            ensure!(who == n, "a message for {n} came to {who}");
            delays.add_ms(at.duration_since(begun));
        }
        let from = delays.spread(" ms");
        let what = "a message sent to whoever waits for it, with 100 waiting";
        table.row(&format!("{what}: p50"), delays.median(), " ms", Goal::AtMost(5.0), &from);
        table.row(&format!("{what}: p99"), delays.quantile(0.99), " ms", Goal::AtMost(20.0), &from);
        Ok(())
    })
}

/// Durable messages by many senders over the socket, against the ledger's own commits of the same messages, and of as many
/// events with nothing beside them.
pub(crate) fn enqueue(table: &mut Table) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut bare = Ours::open(&dir.path().join("bare"))?;
    bare.write(300)?;
    let mut same = Same::open(&dir.path().join("same"))?;
    let daemon = Daemon::home()?;
    daemon.start()?;
    let tasks: Vec<String> = (0..SENDERS).map(|n| open(&daemon, n)).collect::<Result<_>>()?;
    let (mut to_same, mut to_bare) = (Sample::default(), Sample::default());
    let mut rates = Sample::default();
    for round in 0..ROUNDS {
        let (sent, took) = time(|| send_all(&daemon, &tasks, round));
        sent?;
        let rate = (SENDERS * EACH) as f64 / took.as_secs_f64();
        rates.add(rate);
        to_same.add(rate / same.rate(round)?);
        to_bare.add(rate / bare.rate()?);
    }
    table.row(
        "durable messages by 32 senders over the socket, against the ledger's own commits of the same messages",
        to_same.median(),
        "×",
        Goal::AtLeast(0.5),
        &format!("{}; {:.0} a second", to_same.spread("×"), rates.median()),
    );
    table.row(
        "the same against its commits of 32 events with neither row nor words",
        to_bare.median(),
        "×",
        Goal::None,
        &to_bare.spread("×"),
    );
    Ok(())
}

/// The same messages of the same tasks, decided without a daemon: only their commits are measured.
struct Same {
    board: Board,
    ledger: SqliteLedger,
    tasks: Vec<StandingId>,
    now: u64,
}

impl Same {
    fn open(dir: &Path) -> Result<Same> {
        let tasks = (0..SENDERS).map(|n| StandingId(task_id(n))).collect();
        let mut same =
            Same { board: Board::default(), ledger: crate::fill::open(dir)?, tasks, now: 0 };
        same.commit(|turn, id, n| {
            let (name, labels) = ("hand".to_owned(), Labels::default());
            let bind = Command::Bind { name, role: Role::Worker, session: None, labels };
            turn.open_task(id, spec(n), &[bind], "operator").is_ok()
        })?;
        Ok(same)
    }

    /// Messages per second.
    fn rate(&mut self, round: usize) -> Result<f64> {
        let mut took = Duration::ZERO;
        for n in 0..EACH {
            let command = Command::Post(Box::new(message(round * EACH + n)));
            took += self.commit(|turn, id, _| {
                let done = turn.command_task(id, (&Actor::Operator, &command), "operator");
                done.is_some_and(|done| done.is_ok())
            })?;
        }
        Ok((SENDERS * EACH) as f64 / took.as_secs_f64())
    }

    /// Does something to each task, and gives how long that took to be durable once it was decided.
    fn commit(
        &mut self,
        change: impl Fn(&mut Turn<'_>, StandingId, usize) -> bool,
    ) -> Result<Duration> {
        self.now += 1;
        let mut turn = self.board.begin(Moment { wall_ms: 0, mono_ms: self.now });
        for (n, id) in self.tasks.iter().enumerate() {
            ensure!(change(&mut turn, *id, n), "the task {n} refuses");
        }
        let (batch, staged) = turn.stage().context("there is something to write")?;
        let (committed, took) = time(|| self.ledger.append(batch));
        self.board.commit(staged, &committed?);
        Ok(took)
    }
}

fn send_all(daemon: &Daemon, tasks: &[String], round: usize) -> Result<()> {
    std::thread::scope(|scope| {
        let senders: Vec<_> = tasks
            .iter()
            .map(|task| {
                scope.spawn(move || -> Result<()> {
                    let mut client = Connection::open(daemon)?;
                    for n in 0..EACH {
                        client.post(&format!("/v1/tasks/{task}/do"), &post(round * EACH + n))?;
                    }
                    Ok(())
                })
            })
            .collect();
        senders.into_iter().try_for_each(|one| one.join().ok().context("a sender died")?)
    })
}

/// Opens a task with one worker who asks for its messages.
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

/// A connection that is kept, as a program has that sends much.
struct Connection {
    stream: BufReader<UnixStream>,
}

impl Connection {
    fn open(daemon: &Daemon) -> Result<Self> {
        let stream = UnixStream::connect(daemon.path().join("daemon.sock"))?;
        Ok(Connection { stream: BufReader::new(stream) })
    }

    fn post(&mut self, path: &str, body: &Value) -> Result<()> {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: provost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.stream.get_mut().write_all(format!("{head}{body}").as_bytes())?;
        let (mut status, mut length) = (String::new(), 0);
        self.stream.read_line(&mut status)?;
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            match line.trim_end().to_ascii_lowercase().strip_prefix("content-length:") {
                Some(told) => length = told.trim().parse()?,
                None if line.trim_end().is_empty() => break,
                None => {}
            }
        }
        let mut reply = vec![0; length];
        self.stream.read_exact(&mut reply)?;
        ensure!(status.contains(" 200 "), "{status}{}", String::from_utf8_lossy(&reply));
        Ok(())
    }
}
