//! The stream of events: from any sequence number on, none missed and none repeated.

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::body::{Body, Bytes};
use provost_api::{ApiError, Code, EventRow};
use provost_core::ids::{RunId, SessionId};
use provost_engine::shell::{Handle, Published, blocking::blocking_request};
use provost_ledger::{ReadLedger, SqliteReader};
use tokio::sync::{broadcast, mpsc};

/// How many events are read from the ledger at once.
const PAGE: usize = 100;

/// How often a line is sent on a quiet stream, so that a client that went away is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Which events are asked for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) after: u64,
    pub(crate) of: Of,
}

/// Whose events are asked for.
#[derive(Clone, Debug)]
pub(crate) enum Of {
    All,
    One(String),
    /// A run and all its sessions.
    Run(RunId),
}

impl Wanted {
    pub(crate) fn takes(&self, row: &EventRow) -> bool {
        row.seq > self.after
            && match &self.of {
                Of::All => true,
                Of::One(id) => *id == row.session,
                Of::Run(run) => row.session.parse().is_ok_and(|id| belongs(*run, id)),
            }
    }
}

/// Says whether an id is that of a run, or of one of its sessions, whose ids follow the run's own.
fn belongs(run: RunId, SessionId(id): SessionId) -> bool {
    let no = id.as_u128().wrapping_sub(run.0.as_u128());
    no == 0 || u32::try_from(no).is_ok_and(|no| run.session(no).0 == id)
}

/// Reads recorded events, oldest first. Gives the last sequence number that was looked at.
pub(crate) fn read(
    ledger: &Path,
    wanted: &Wanted,
    limit: usize,
) -> Result<(Vec<EventRow>, u64), ApiError> {
    let told = |why: String| {
        ApiError::new(Code::Storage, format!("the ledger could not be read: {why}"))
            .next("provost ledger verify")
    };
    let reader = SqliteReader::open(ledger).map_err(|why| told(why.to_string()))?;
    let (mut rows, mut last) = (Vec::new(), wanted.after);
    let read = reader.for_each_record(wanted.after, &mut |record| {
        last = record.seq;
        let row = provost_engine::shell::event_row(&record.to_owned());
        if wanted.takes(&row) {
            rows.push(row);
        }
        match rows.len() < limit {
            true => std::ops::ControlFlow::Continue(()),
            false => std::ops::ControlFlow::Break(()),
        }
    });
    read.map_err(|why| told(why.to_string()))?;
    Ok((rows, last))
}

/// Follows the ledger from `wanted.after` on.
pub(crate) fn follow(
    handle: &Handle,
    ledger: PathBuf,
    wanted: Wanted,
) -> (Body, impl Future<Output = ()> + use<>) {
    // Subscribed before the ledger is read, so that nothing falls between the two.
    let live = handle.subscribe();
    let (sender, receiver) = mpsc::channel::<Bytes>(8);
    let stream = tokio_stream::StreamExt::map(
        tokio_stream::wrappers::ReceiverStream::new(receiver),
        Ok::<Bytes, Infallible>,
    );
    (Body::from_stream(stream), pump(live, ledger, wanted, sender))
}

async fn pump(
    mut live: broadcast::Receiver<Published>,
    ledger: PathBuf,
    mut wanted: Wanted,
    sender: mpsc::Sender<Bytes>,
) {
    if catch_up(&ledger, &mut wanted, &sender).await.is_err() {
        return;
    }
    loop {
        let sent = tokio::select! {
            rows = live.recv() => match rows {
                Ok(rows) => send_new(&rows, &mut wanted, &sender).await,
                Err(broadcast::error::RecvError::Lagged(_)) => catch_up(&ledger, &mut wanted, &sender).await,
                Err(broadcast::error::RecvError::Closed) => return,
            },
            () = tokio::time::sleep(KEEP_ALIVE) => send(&sender, Bytes::from_static(b": keep-alive\n\n")).await,
        };
        if sent.is_err() {
            return;
        }
    }
}

/// The client went away.
struct Gone;

async fn catch_up(
    ledger: &Path,
    wanted: &mut Wanted,
    sender: &mpsc::Sender<Bytes>,
) -> Result<(), Gone> {
    loop {
        let (path, asked) = (ledger.to_owned(), wanted.clone());
        let page = blocking_request(move || read(&path, &asked, PAGE)).await;
        // A ledger that cannot be read ends the stream; the client asks again and is told why.
        let Ok((rows, last)) = page else { return Err(Gone) };
        let full = rows.len() == PAGE;
        for row in &rows {
            send(sender, message(row)).await?;
        }
        wanted.after = last.max(wanted.after);
        if !full {
            return Ok(());
        }
    }
}

async fn send_new(
    rows: &Arc<Vec<EventRow>>,
    wanted: &mut Wanted,
    sender: &mpsc::Sender<Bytes>,
) -> Result<(), Gone> {
    for row in rows.iter() {
        if wanted.takes(row) {
            send(sender, message(row)).await?;
        }
        wanted.after = wanted.after.max(row.seq);
    }
    Ok(())
}

async fn send(sender: &mpsc::Sender<Bytes>, bytes: Bytes) -> Result<(), Gone> {
    sender.send(bytes).await.map_err(|_| Gone)
}

fn message(row: &EventRow) -> Bytes {
    let data = serde_json::to_string(row).unwrap_or_default();
    format!("id: {}\nevent: {}\ndata: {data}\n\n", row.seq, row.kind).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runs_events_are_its_own_and_its_sessions() {
        let run: RunId = "01a1e323-29f4-7713-a950-131315b2a3b9".parse().unwrap();
        let other: SessionId = "01a1e323-29f4-7713-a950-131315b2a3b8".parse().unwrap();
        assert!(belongs(run, SessionId(run.0)));
        assert!(belongs(run, run.session(1)) && belongs(run, run.session(300)));
        assert!(!belongs(run, other), "what came before is another's");
    }
}
