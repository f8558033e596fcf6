//! Durable appends: the ledger compared with a bare loop with the same batching, and the whole
//! engine with many writers.

use std::{ffi::OsString, path::Path};

use anyhow::{Result, anyhow};
use provost_agent::Adapters;
use provost_core::{
    ids::SessionId,
    lifecycle::ClaimKind,
    session::{ReportBody, Reporter},
};
use provost_engine::shell::{
    DaemonEnvironment, EngineHandle, EngineRequest, EngineWorld, Holders, Home, Owner,
};
use provost_git::Git;
use provost_ledger::{
    ClockReading, Ledger, NewEvent, ReadLedger, SqliteLedger, StreamId, StreamWrite, WriteBatch,
};

use crate::{
    daemon::provost_bin,
    fill,
    table::{FigureTable, Goal},
    timing::{Sample, time},
};

const ROUNDS: usize = 15;
const BATCHES: u64 = 40;
const WARM_UP: u64 = 300;
const PER_BATCH: usize = 32;
const WRITERS: usize = 32;
const REPORTS: usize = 150;
const FIRST_REPORTS: usize = 60;

pub(crate) fn run(table: &mut FigureTable) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut ours = LedgerWriter::open(&dir.path().join("ours"))?;
    let mut bare = RawSqliteWriter::open(&dir.path().join("bare.db"), PER_BATCH)?;
    let mut alone = RawSqliteWriter::open(&dir.path().join("alone.db"), 1)?;
    // Each commit also grows the file until the write-ahead log reaches its full size. Later
    // commits do not.
    ours.write(WARM_UP)?;
    bare.write(WARM_UP)?;
    alone.write(WARM_UP)?;
    let (mut same, mut single) = (Sample::default(), Sample::default());
    for _ in 0..ROUNDS {
        let (ours, bare) = (ours.rate()?, bare.rate()?);
        same.add(ours / bare);
        single.add(ours / alone.rate()?);
    }
    table.row(
        "append: ledger against a bare rusqlite loop, batches of 32",
        same.median(),
        "×",
        Goal::AtLeast(0.8),
        &same.spread("×"),
    );
    table.row(
        "append: ledger, the events of 32 writers in one commit, against one transaction per event",
        single.median(),
        "×",
        Goal::AtLeast(8.0),
        &single.spread("×"),
    );
    let mut engine = Sample::default();
    for _ in 0..3 {
        let home = tempfile::tempdir()?;
        let rate = engine_writers(home.path())?;
        engine.add(rate / alone.rate()?);
    }
    table.row(
        "reports through the whole engine by 32 writers, against one bare transaction per event",
        engine.median(),
        "×",
        Goal::None,
        &engine.spread("×"),
    );
    Ok(())
}

/// Returns the data of a typical event of a working session.
fn data(n: usize) -> String {
    format!(
        "{{\"launch\":\"01a1e11b-6740-77d8-9cf8-3d2e564f1fb3.l{n}\",\"kind\":\"working\",\"source\":\"agent\",\"text\":\"{}\",\"status\":\"applied\",\"cursor\":null}}",
        "x".repeat(250)
    )
}

/// The ledger, writing batches over many streams.
pub(crate) struct LedgerWriter {
    ledger: SqliteLedger,
    written: u64,
}

impl LedgerWriter {
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        Ok(LedgerWriter { ledger: fill::open(dir)?, written: 0 })
    }

    pub(crate) fn write(&mut self, batches: u64) -> Result<()> {
        for _ in 0..batches {
            let writes = (0..PER_BATCH).map(|n| write(n, self.written)).collect::<Result<_>>()?;
            let at = ClockReading { wall_ms: 0, mono_ms: self.written };
            self.ledger.append(WriteBatch { at, writes, idempotency: Vec::new() })?;
            self.written += 1;
        }
        Ok(())
    }

    /// Returns the events written per second.
    pub(crate) fn rate(&mut self) -> Result<f64> {
        let (done, took) = time(|| self.write(BATCHES));
        done?;
        Ok((BATCHES as usize * PER_BATCH) as f64 / took.as_secs_f64())
    }
}

fn write(n: usize, version: u64) -> Result<StreamWrite> {
    let event = NewEvent {
        kind: "claim.made".to_owned(),
        v: 1,
        actor: "operator".to_owned(),
        data: data(n),
        search_terms: Default::default(),
    };
    Ok(StreamWrite {
        stream: StreamId::new(format!("session/{n}"))?,
        expected: version,
        events: vec![event],
        open: true,
        pending: Vec::new(),
        projection: None,
        search_terms: None,
        snapshot: None,
    })
}

/// A bare loop that writes the same rows, `per_batch` in each transaction.
struct RawSqliteWriter {
    connection: rusqlite::Connection,
    per_batch: usize,
    written: u64,
}

impl RawSqliteWriter {
    fn open(path: &Path, per_batch: usize) -> Result<Self> {
        let connection = rusqlite::Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.execute_batch(
            "CREATE TABLE event (seq INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT, version INTEGER, kind TEXT, v INTEGER,
             wall INTEGER, mono INTEGER, actor TEXT, data TEXT, UNIQUE (stream, version)) STRICT",
        )?;
        Ok(RawSqliteWriter { connection, per_batch, written: 0 })
    }

    fn write(&mut self, batches: u64) -> Result<()> {
        for _ in 0..batches {
            let transaction = self.connection.transaction()?;
            for n in 0..self.per_batch {
                let mut insert = transaction.prepare_cached(
                    "INSERT INTO event (stream, version, kind, v, wall, mono, actor, data) VALUES (?1, ?2, 'claim.made', 1, 0, 0, 'operator', ?3)",
                )?;
                insert.execute((format!("session/{n}"), i64::try_from(self.written)?, data(n)))?;
            }
            transaction.commit()?;
            self.written += 1;
        }
        Ok(())
    }

    /// Returns the events written per second.
    fn rate(&mut self) -> Result<f64> {
        let batches = if self.per_batch == 1 { BATCHES * 4 } else { BATCHES };
        let (done, took) = time(|| self.write(batches));
        done?;
        Ok((batches as usize * self.per_batch) as f64 / took.as_secs_f64())
    }
}

/// Returns the reports per second through the whole engine, with many writers that each wait for durability.
fn engine_writers(home: &Path) -> Result<f64> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let places = Home::new(home);
    for directory in places.directories() {
        std::fs::create_dir_all(directory)?;
    }
    let opened = Owner::start(fill::open(&places.ledger())?, world(&places)?)?;
    let handle = opened.handle.clone();
    let rate = runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(opened.executor);
        let measured = write_reports(&handle).await;
        handle.stop().await;
        tasks.abort_all();
        measured
    })?;
    opened.owner.join().map_err(|_| anyhow!("the owner panicked"))?;
    runtime.shutdown_background();
    crate::daemon::stop_holders(home)?;
    Ok(rate)
}

async fn write_reports(handle: &EngineHandle) -> Result<f64> {
    let mut sessions = Vec::new();
    for n in 0..WRITERS {
        let id = SessionId(uuid::Uuid::from_u128(0x1_0000_0000_0000 + n as u128));
        let ask =
            EngineRequest::Open { id, spec: Box::new(fill::spec(n as u64)), warnings: Vec::new() };
        handle.request(ask, "operator", None).await?;
        sessions.push(id);
    }
    while !all_run(handle).await? {
        tokio::task::yield_now().await;
    }
    report(handle, &sessions, FIRST_REPORTS).await?;
    let start = crate::timing::now();
    report(handle, &sessions, REPORTS).await?;
    Ok((WRITERS * REPORTS) as f64 / start.elapsed().as_secs_f64())
}

/// Sends `count` reports from every session. Each report waits until it is durable.
async fn report(handle: &EngineHandle, sessions: &[SessionId], count: usize) -> Result<()> {
    let mut tasks = tokio::task::JoinSet::new();
    for &id in sessions {
        let handle = handle.clone();
        tasks.spawn(async move {
            for n in 0..count {
                let text = Some(format!("{n}{}", "x".repeat(250)));
                let testimony = ReportBody::Claim { kind: ClaimKind::Working, text };
                let session = Some(id.to_string());
                let ask = EngineRequest::Report { session, from: Reporter::Operator, testimony };
                handle.request(ask, "operator", None).await?;
            }
            Ok::<(), provost_api::ApiError>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

async fn all_run(handle: &EngineHandle) -> Result<bool> {
    let live = handle.live_launches().await?;
    Ok(live.len() == WRITERS && live.iter().all(|launch| launch.holder.is_some()))
}

fn world(places: &Home) -> Result<EngineWorld> {
    let program = provost_bin()?;
    Ok(EngineWorld {
        home: places.clone(),
        git: Git::new(Path::new("git"), "/usr/bin:/bin".as_ref(), Path::new("/")),
        holders: Holders::new(vec![OsString::from(&program), "hold".into()]),
        adapters: Adapters::new([]),
        gate: Default::default(),
        environment: DaemonEnvironment::default(),
        program,
        key: [7; 32],
        landing: std::sync::Arc::default(),
        checkouts: std::sync::Arc::default(),
        waits: Default::default(),
        secrets: provost_engine::shell::Secrets::default(),
        census: provost_engine::shell::Census::default(),
        moves: Default::default(),
    })
}

/// Returns the number of events in a ledger, for the self-checks of other benchmarks.
pub(crate) fn events(ledger: &dyn ReadLedger) -> Result<u64> {
    Ok(ledger.last_seq()?)
}
