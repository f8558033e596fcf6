//! The event stream. It can start at any sequence number, and never skips or repeats an event.
//!
//! A slow reader uses a limited amount of memory: up to [`MAX_QUEUED_BYTES`] are queued for it, and
//! the rest stays in the ledger. Its connection is closed after a while, and the client then
//! resumes after the last event it has received.

use std::{convert::Infallible, path::Path, sync::Arc, time::Duration};

use axum::body::{Body, Bytes};
use provost_api::{ApiError, ErrorCode, EventRow};
use provost_core::ids::RunId;
use provost_engine::shell::{PublishedEvents, blocking::blocking_request};
use provost_ledger::{AcceptedLoss, SqliteReader, for_each_record_or_damage};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc};

use super::server::{ApiCaller, DaemonServer};

/// The limits for one read from the ledger. At least one event is always returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageLimit {
    pub(crate) rows: usize,
    /// Number of bytes of the events' data.
    pub(crate) bytes: usize,
}

/// The maximum number of bytes of events in one response. The next response starts after the `last` field.
pub(crate) const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// The maximum number of bytes queued for one follower.
const MAX_QUEUED_BYTES: usize = 1 << 20;

/// The page size for followers.
const FOLLOWER_PAGE: PageLimit = PageLimit { rows: 100, bytes: MAX_QUEUED_BYTES };

/// The kind of row that replaces lost events.
pub(crate) const EVENTS_LOST: &str = "ledger.events_lost";

/// The interval between keep-alive lines on a quiet stream, which detect clients that have disconnected.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Which events are requested.
#[derive(Clone, Debug)]
pub(crate) struct EventSelection {
    pub(crate) after: u64,
    pub(crate) scope: EventScope,
}

/// The session, run or team that the requested events belong to.
#[derive(Clone, Debug)]
pub(crate) enum EventScope {
    All,
    One(String),
    /// A run and all its sessions.
    Run(RunId),
}

impl EventSelection {
    pub(crate) fn matches(&self, row: &EventRow) -> bool {
        row.seq > self.after && self.includes(&row.session)
    }

    /// Whether the events of this session, run or team are requested.
    fn includes(&self, id: &str) -> bool {
        match &self.scope {
            EventScope::All => true,
            EventScope::One(one) => one == id,
            EventScope::Run(run) => id.parse().is_ok_and(|id| run.includes(id)),
        }
    }

    /// Whether a damaged record may be one of the requested events.
    fn may_include(&self, damaged: &provost_ledger::Error) -> bool {
        let provost_ledger::Error::Unreadable { stream, .. } = damaged else { return true };
        self.includes(stream.split_once('/').map_or(stream.as_str(), |(_, id)| id))
    }
}

/// A page of events.
#[derive(Debug)]
pub(crate) struct EventPage {
    pub(crate) rows: Vec<EventRow>,
    /// The last sequence number that was read.
    pub(crate) last: u64,
    /// Whether there may be more events.
    pub(crate) is_full: bool,
}

/// Reads recorded events, oldest first.
pub(crate) fn read(
    ledger: &Path,
    wanted: &EventSelection,
    page: PageLimit,
) -> Result<EventPage, ApiError> {
    let failed = |why: String| {
        ApiError::new(ErrorCode::Storage, format!("cannot read the ledger: {why}"))
            .next("provost ledger verify")
    };
    let reader = SqliteReader::open(ledger).map_err(|why| failed(why.to_string()))?;
    let (mut rows, mut last, mut bytes) = (Vec::new(), wanted.after, 0);
    let accepted = reader.accepted_losses().map_err(|why| failed(why.to_string()))?;
    let mut losses = accepted.into_iter().filter(|loss| loss.seq > wanted.after).peekable();
    let (mut is_full, mut damage) = (false, None);
    let read = for_each_record_or_damage(&reader, wanted.after, &mut |record| {
        let record = match record {
            Ok(record) => record,
            Err(why) if wanted.may_include(why) => {
                // Return the events before the damaged one first.
                is_full = !rows.is_empty();
                damage = rows.is_empty().then(|| why.to_string());
                return std::ops::ControlFlow::Break(());
            }
            Err(_) => return std::ops::ControlFlow::Continue(()),
        };
        while rows.len() < page.rows
            && let Some(loss) = losses.next_if(|loss| loss.seq < record.seq)
        {
            last = loss.seq;
            rows.push(loss_row(&loss));
        }
        is_full = rows.len() >= page.rows;
        if is_full {
            return std::ops::ControlFlow::Break(());
        }
        last = record.seq;
        let record = record.to_owned();
        let row = provost_engine::shell::event_row(&record);
        if wanted.matches(&row) {
            bytes += record.data.len();
            rows.push(row);
        }
        is_full = rows.len() >= page.rows || bytes >= page.bytes;
        if is_full { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
    });
    read.map_err(|why| failed(why.to_string()))?;
    damage.map_or(Ok(()), |why| Err(failed(why)))?;
    if !is_full {
        for loss in losses {
            last = loss.seq;
            rows.push(loss_row(&loss));
        }
    }
    Ok(EventPage { rows, last, is_full })
}

/// Returns the row for an accepted loss. It is shown to all callers, because the lost events may
/// belong to any session.
fn loss_row(loss: &AcceptedLoss) -> EventRow {
    EventRow {
        seq: loss.seq,
        at: loss.wall_ms,
        session: String::new(),
        stream: "ledger".to_owned(),
        version: 0,
        kind: EVENTS_LOST.to_owned(),
        actor: "operator".to_owned(),
        data: json!({"first": loss.first, "last": loss.last}),
        state: None,
    }
}

/// Follows the ledger after `wanted.after`.
pub(crate) fn follow(
    daemon: &DaemonServer,
    caller: &ApiCaller,
    wanted: EventSelection,
) -> (Body, impl Future<Output = ()> + use<>) {
    // Subscribe before the ledger is read, so that no event is lost in between.
    let live = daemon.handle.subscribe();
    let (outbox, receiver) = new_outbox();
    let stream = tokio_stream::StreamExt::map(
        tokio_stream::wrappers::UnboundedReceiverStream::new(receiver),
        |unread: QueuedBytes| Ok::<Bytes, Infallible>(unread.bytes),
    );
    let follower =
        EventStreamClient { daemon: daemon.clone(), caller: caller.clone(), wanted, outbox };
    (Body::from_stream(stream), follower.pump(live))
}

/// The queue of bytes that a client has not read yet, up to [`MAX_QUEUED_BYTES`].
#[derive(Debug)]
struct EventOutbox {
    sender: mpsc::UnboundedSender<QueuedBytes>,
    room: Arc<Semaphore>,
}

/// Queued bytes and their permit, which is released when the bytes are sent.
#[derive(Debug)]
struct QueuedBytes {
    bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

#[expect(
    clippy::disallowed_methods,
    reason = "the bytes are bounded, because each message takes its share of `room`"
)]
fn new_outbox() -> (EventOutbox, mpsc::UnboundedReceiver<QueuedBytes>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (EventOutbox { sender, room: Arc::new(Semaphore::new(MAX_QUEUED_BYTES)) }, receiver)
}

/// The client disconnected.
#[derive(Debug)]
struct ClientGone;

impl EventOutbox {
    /// Queues bytes, waiting for space if necessary. A message larger than the queue takes up all of it.
    async fn send(&self, bytes: Bytes) -> Result<(), ClientGone> {
        let needed = u32::try_from(bytes.len().min(MAX_QUEUED_BYTES)).unwrap_or(u32::MAX);
        let room = tokio::select! {
            room = Arc::clone(&self.room).acquire_many_owned(needed) => room.map_err(|_| ClientGone)?,
            () = self.sender.closed() => return Err(ClientGone),
        };
        self.sender.send(QueuedBytes { bytes, _room: room }).map_err(|_| ClientGone)
    }
}

/// A client that follows the ledger.
struct EventStreamClient {
    daemon: DaemonServer,
    caller: ApiCaller,
    wanted: EventSelection,
    outbox: EventOutbox,
}

impl EventStreamClient {
    async fn pump(mut self, mut live: broadcast::Receiver<PublishedEvents>) {
        let mut sent = self.catch_up().await;
        while sent.is_ok() {
            sent = tokio::select! {
                rows = live.recv() => match rows {
                    Ok(rows) => self.send_new(&rows).await,
                    Err(broadcast::error::RecvError::Lagged(_)) => self.catch_up().await,
                    Err(broadcast::error::RecvError::Closed) => return,
                },
                () = tokio::time::sleep(KEEP_ALIVE) => {
                    self.outbox.send(Bytes::from_static(b": keep-alive\n\n")).await
                }
                () = self.outbox.sender.closed() => return,
            };
        }
    }

    async fn catch_up(&mut self) -> Result<(), ClientGone> {
        loop {
            // If the ledger cannot be read, the stream ends, and the next request returns the error.
            let turn = self.daemon.read_turn(&self.caller).await.map_err(|_| ClientGone)?;
            let (path, asked) = (self.daemon.world.home.ledger(), self.wanted.clone());
            let read = move || {
                let _turn = turn;
                read(&path, &asked, FOLLOWER_PAGE)
            };
            let found = blocking_request(read).await.map_err(|_| ClientGone)?;
            for row in &found.rows {
                self.outbox.send(encode_event(row)).await?;
            }
            self.wanted.after = found.last.max(self.wanted.after);
            if !found.is_full {
                return Ok(());
            }
        }
    }

    async fn send_new(&mut self, rows: &[EventRow]) -> Result<(), ClientGone> {
        for row in rows {
            if self.wanted.matches(row) {
                self.outbox.send(encode_event(row)).await?;
            }
            self.wanted.after = self.wanted.after.max(row.seq);
        }
        Ok(())
    }
}

fn encode_event(row: &EventRow) -> Bytes {
    let data = serde_json::to_string(row).unwrap_or_default();
    format!("id: {}\nevent: {}\ndata: {data}\n\n", row.seq, row.kind).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_bytes_of_a_follower_are_bounded() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (outbox, mut receiver) = new_outbox();
            let long = Bytes::from(vec![b'x'; MAX_QUEUED_BYTES + 1]);
            outbox.send(long.clone()).await.unwrap();
            let mut waiting = tokio::task::JoinSet::new();
            waiting.spawn(async move {
                outbox.send(long).await?;
                outbox.send(Bytes::from_static(b"y")).await
            });
            tokio::task::yield_now().await;
            assert_eq!(receiver.len(), 1, "the second waits until the first is received");
            drop(receiver.recv().await.unwrap());
            let second = receiver.recv().await.unwrap();
            drop(receiver);
            drop(second);
            waiting.join_next().await.unwrap().unwrap().unwrap_err();
        });
    }
}
