//! Durable appends: the ledger against a bare loop with the same batching, and the whole engine with many writers.

use std::{ffi::OsString, path::Path, sync::Arc};

use anyhow::{Result, anyhow};
use provost_core::{
    ids::SessionId,
    lifecycle::ClaimKind,
    session::{Reporter, Testimony},
};
use provost_engine::shell::{Ask, DaemonEnvironment, Handle, Holders, Home, Owner, World};
use provost_git::Git;
use provost_ledger::{Batch, Ledger, Moment, NewEvent, ReadLedger, StreamId, StreamWrite};

use crate::{
    daemon::provost_bin,
    fill,
    table::{Goal, Table},
    timing::{Sample, time},
};

const ROUNDS: usize = 7;
const BATCHES: usize = 40;
const PER_BATCH: usize = 32;
const WRITERS: usize = 32;
const REPORTS: usize = 60;

pub(crate) fn run(table: &mut Table) -> Result<()> {
    let (mut same, mut single) = (Sample::default(), Sample::default());
    for _ in 0..ROUNDS {
        let dir = tempfile::tempdir()?;
        let ours = ledger_batches(dir.path())?;
        let bare = bare_batches(dir.path(), PER_BATCH)?;
        let alone = bare_batches(dir.path(), 1)?;
        same.add(ours / bare);
        single.add(ours / alone);
    }
    table.row(
        "append: ledger against a bare rusqlite loop, batches of 32",
        same.median(),
        "×",
        Goal::AtLeast(0.8),
        &same.spread("×"),
    );
    table.row(
        "append: ledger, batches of 32, against one transaction per event",
        single.median(),
        "×",
        Goal::None,
        &single.spread("×"),
    );
    let mut engine = Sample::default();
    for _ in 0..3 {
        let dir = tempfile::tempdir()?;
        let alone = bare_batches(dir.path(), 1)?;
        engine.add(engine_writers(&dir.path().join("home"))? / alone);
    }
    table.row(
        "append: engine with 32 writers against one transaction per event",
        engine.median(),
        "×",
        Goal::AtLeast(8.0),
        &engine.spread("×"),
    );
    Ok(())
}

/// What an event of a working session looks like.
fn data(n: usize) -> String {
    format!(
        "{{\"launch\":\"01a1e11b-6740-77d8-9cf8-3d2e564f1fb3.l{n}\",\"kind\":\"working\",\"source\":\"agent\",\"text\":\"{}\",\"standing\":\"applied\",\"cursor\":null}}",
        "x".repeat(250)
    )
}

/// Events per second through the ledger.
fn ledger_batches(dir: &Path) -> Result<f64> {
    let mut ledger = fill::open(&dir.join("ours"))?;
    let (done, took) = time(|| -> Result<()> {
        for batch in 0..BATCHES {
            let writes = (0..PER_BATCH).map(|n| write(n, batch)).collect::<Result<_>>()?;
            let at = Moment { wall_ms: 0, mono_ms: batch as u64 };
            ledger.append(Batch { at, writes, idempotency: Vec::new() })?;
        }
        Ok(())
    });
    done?;
    Ok((BATCHES * PER_BATCH) as f64 / took.as_secs_f64())
}

fn write(n: usize, batch: usize) -> Result<StreamWrite> {
    let event = NewEvent {
        kind: "claim.made".to_owned(),
        v: 1,
        actor: "operator".to_owned(),
        data: data(n),
    };
    Ok(StreamWrite {
        stream: StreamId::new(format!("session/{n}"))?,
        expected: batch as u64,
        events: vec![event],
        open: true,
        owed: Vec::new(),
        card: None,
        snapshot: None,
    })
}

/// Events per second through a bare loop that writes the same rows, so many per transaction.
fn bare_batches(dir: &Path, per_batch: usize) -> Result<f64> {
    let path = dir.join(format!("bare-{per_batch}.db"));
    let mut bare = rusqlite::Connection::open(&path)?;
    bare.pragma_update(None, "journal_mode", "wal")?;
    bare.pragma_update(None, "synchronous", "full")?;
    bare.execute_batch(
        "CREATE TABLE event (seq INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT, version INTEGER, kind TEXT, v INTEGER,
         wall INTEGER, mono INTEGER, actor TEXT, data TEXT, UNIQUE (stream, version)) STRICT",
    )?;
    let batches = if per_batch == 1 { BATCHES * 4 } else { BATCHES };
    let (done, took) = time(|| -> rusqlite::Result<()> {
        for batch in 0..batches {
            let transaction = bare.transaction()?;
            for n in 0..per_batch {
                let mut insert = transaction.prepare_cached(
                    "INSERT INTO event (stream, version, kind, v, wall, mono, actor, data) VALUES (?1, ?2, 'claim.made', 1, 0, 0, 'operator', ?3)",
                )?;
                insert.execute((format!("session/{n}"), batch as i64, data(n)))?;
            }
            transaction.commit()?;
        }
        Ok(())
    });
    done?;
    Ok((batches * per_batch) as f64 / took.as_secs_f64())
}

/// Reports per second through the whole engine, with many writers that each wait for durability.
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
    crate::daemon::end_holders(home)?;
    Ok(rate)
}

async fn write_reports(handle: &Handle) -> Result<f64> {
    let mut sessions = Vec::new();
    for n in 0..WRITERS {
        let id = SessionId(uuid::Uuid::from_u128(0x1_0000_0000_0000 + n as u128));
        let ask = Ask::Open { id, spec: Box::new(fill::spec(n as u64)), warnings: Vec::new() };
        handle.ask(ask, "operator", None).await?;
        sessions.push(id);
    }
    while !all_run(handle).await? {
        tokio::task::yield_now().await;
    }
    let start = crate::timing::now();
    let mut tasks = tokio::task::JoinSet::new();
    let shared = Arc::new(handle.clone());
    for id in sessions {
        let handle = Arc::clone(&shared);
        tasks.spawn(async move {
            for n in 0..REPORTS {
                let testimony = Testimony::Claim {
                    kind: ClaimKind::Working,
                    text: Some(format!("{n}{}", "x".repeat(250))),
                };
                let ask = Ask::Report {
                    session: Some(id.to_string()),
                    from: Reporter::Operator,
                    testimony,
                };
                handle.ask(ask, "operator", None).await?;
            }
            Ok::<(), provost_api::ApiError>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok((WRITERS * REPORTS) as f64 / start.elapsed().as_secs_f64())
}

async fn all_run(handle: &Handle) -> Result<bool> {
    let live = handle.ask_json(Ask::Live).await?;
    let live = live.as_array().ok_or_else(|| anyhow!("a list"))?;
    Ok(live.len() == WRITERS && live.iter().all(|launch| !launch["holder"].is_null()))
}

fn world(places: &Home) -> Result<World> {
    let program = provost_bin()?;
    Ok(World {
        home: places.clone(),
        git: Git::new(Path::new("git"), "/usr/bin:/bin".as_ref(), Path::new("/")),
        holders: Holders::new(vec![OsString::from(&program), "hold".into()]),
        environment: DaemonEnvironment::default(),
        program,
        key: [7; 32],
        secrets: provost_engine::shell::Secrets::default(),
    })
}

/// The number of events in a ledger, for other benchmarks to check themselves by.
pub(crate) fn events(ledger: &dyn ReadLedger) -> Result<u64> {
    Ok(ledger.last_seq()?)
}
