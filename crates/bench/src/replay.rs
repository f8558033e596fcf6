//! Replay: folding every session, compared with a loop that only selects and parses the same rows.

use std::{collections::HashMap, ops::ControlFlow};

use anyhow::{Result, anyhow};
use provost_core::session::{Event, Session, SessionChange};
use provost_engine::stream;
use provost_ledger::{ReadLedger, SqliteReader};

use crate::{
    append, fill,
    table::{FigureTable, Goal},
    timing::{Sample, time},
};

const SESSIONS: u64 = 20_000;
const ROUNDS: usize = 5;

pub(crate) fn run(table: &mut FigureTable) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut ledger = fill::open(dir.path())?;
    fill::write_ended_sessions(&mut ledger, SESSIONS)?;
    let events = append::events(&ledger)?;
    drop(ledger);
    let mut ratio = Sample::default();
    for _ in 0..ROUNDS {
        let (bare, bare_time) = time(|| parse_only(dir.path()));
        let (folded, fold_time) = time(|| fold_all(dir.path()));
        anyhow::ensure!(bare? == events && folded? == SESSIONS, "the two loops saw different rows");
        ratio.add(bare_time.as_secs_f64() / fold_time.as_secs_f64());
    }
    let from = format!("{} events of {SESSIONS} sessions; {}", events, ratio.spread("×"));
    table.row("replay against select and parse", ratio.median(), "×", Goal::AtLeast(0.5), &from);
    Ok(())
}

/// Selects every row and parses its JSON.
fn parse_only(dir: &std::path::Path) -> Result<u64> {
    let bare = rusqlite::Connection::open(dir.join("ledger.db"))?;
    let mut statement =
        bare.prepare("SELECT seq, stream, version, kind, v, data FROM event ORDER BY seq")?;
    let mut rows = statement.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        let _stream: &str = row.get_ref(1)?.as_str()?;
        let _value: serde_json::Value = serde_json::from_str(row.get_ref(5)?.as_str()?)?;
        count += 1;
    }
    Ok(count)
}

/// Folds every session, as the engine does.
fn fold_all(dir: &std::path::Path) -> Result<u64> {
    let reader = SqliteReader::open(dir)?;
    let mut sessions: HashMap<String, Session> = HashMap::new();
    let mut failed = None;
    reader.for_each_record(0, &mut |record| {
        let event = match Event::decode(record.kind, record.v, record.data) {
            Ok(event) => event,
            Err(why) => {
                failed = Some(anyhow!(why));
                return ControlFlow::Break(());
            }
        };
        let at = stream::to_core(record.at);
        match (sessions.get_mut(record.stream), &event) {
            (Some(session), event) => session.evolve(at, event),
            (None, Event::Session(SessionChange::SessionOpened(opened))) => {
                if let Ok(id) = stream::parse_id::<Session>(record.stream) {
                    sessions.insert(record.stream.to_owned(), Session::open(id, at, opened));
                }
            }
            (None, _) => {}
        }
        ControlFlow::Continue(())
    })?;
    failed.map_or(Ok(()), Err)?;
    Ok(sessions.len() as u64)
}
