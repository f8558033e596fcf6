//! Follows the event stream even if the daemon restarts. No event is missed or repeated.

use std::{
    sync::mpsc::{Receiver, sync_channel},
    time::Duration,
};

use provost_api::{ApiError, Client, ErrorCode, EventRow, StreamReply};
use provost_core::wait::{Wait, WaitStatus};
use provost_engine::stream;
use provost_ledger::{ReadLedger, SqliteReader, StreamId};

use crate::{clock, context::Context, error::chain, target};

/// How many times in a row to reopen a stream that contains no events.
const MAX_EMPTY_STREAMS: u32 = 20;

/// The delay between two such attempts.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// The capacity of the event queue.
const QUEUE_CAPACITY: usize = 256;

/// Which events to follow, given by a full id or by the user's input.
#[derive(Clone, Debug)]
pub(crate) enum EventFilter {
    All,
    Session(String),
    /// A run and all its sessions.
    Run(String),
    /// A team, without its members' sessions.
    Task(String),
}

impl EventFilter {
    /// Returns the query parameter that selects these events.
    pub(crate) fn query_parameter(&self) -> (&'static str, Option<String>) {
        match self {
            EventFilter::All => ("session", None),
            EventFilter::Session(id) => ("session", Some(id.clone())),
            EventFilter::Run(id) => ("run", Some(id.clone())),
            EventFilter::Task(id) => ("team", Some(id.clone())),
        }
    }
}

/// Returns the sequence number of the newest event.
pub(crate) fn newest(context: &Context) -> Result<u64, ApiError> {
    open_reader(context)?
        .last_seq()
        .map_err(|why| chain(ErrorCode::Storage, "cannot read the ledger", &why))
}

/// Whether a session, run or team has ended and cannot produce any more events unless it is resumed.
pub(crate) fn is_over(context: &Context, of: &EventFilter) -> Result<bool, ApiError> {
    let streams = match of {
        EventFilter::All => return Ok(false),
        EventFilter::Session(id) => vec![format!("{}/{id}", stream::SESSION)],
        EventFilter::Task(id) => vec![format!("{}/{id}", stream::TEAM)],
        EventFilter::Run(id) => {
            let run = retry_unreachable(|| target::find_run(&context.daemon()?, id))?;
            let sessions = run.sessions.iter();
            let sessions = sessions.map(|session| format!("{}/{}", stream::SESSION, session.id));
            sessions.chain([format!("{}/{id}", stream::RUN)]).collect()
        }
    };
    let reader = open_reader(context)?;
    for id in streams {
        let Ok(id) = StreamId::new(id) else { continue };
        let state = reader
            .stream(&id)
            .map_err(|why| chain(ErrorCode::Storage, "cannot read the ledger", &why))?;
        if state.is_some_and(|state| state.head.open) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn open_reader(context: &Context) -> Result<SqliteReader, ApiError> {
    SqliteReader::open(&context.trusted_home()?.ledger())
        .map_err(|why| chain(ErrorCode::Storage, "cannot open the ledger", &why))
}

/// Waits until `look` returns `Done` or `Impossible`. The inner `Err` contains the reason why the
/// condition has become impossible. `look` is called once at the start and then after every event,
/// so if the condition already holds, this returns immediately.
pub(crate) fn wait_until<T>(
    context: &Context,
    of: EventFilter,
    mut look: impl FnMut() -> Result<WaitStatus<T>, ApiError>,
) -> Result<Result<T, String>, ApiError> {
    let mut wait = Wait::begin(newest(context)?);
    let mut events = EventFollower::new(context, of, Some(wait.since()));
    loop {
        if wait.is_due() {
            match retry_unreachable(&mut look)? {
                WaitStatus::Done(done) => return Ok(Ok(done)),
                WaitStatus::Impossible(reason) => return Ok(Err(reason)),
                WaitStatus::Pending => wait.mark_evaluated(),
            }
        }
        wait.record_event(events.next()?.seq);
    }
}

/// Retries while the daemon is unreachable, because a daemon that stops is replaced by the next one.
fn retry_unreachable<T>(mut ask: impl FnMut() -> Result<T, ApiError>) -> Result<T, ApiError> {
    for _ in 1..MAX_EMPTY_STREAMS {
        match ask() {
            Err(error) if error.code == ErrorCode::Unreachable => clock::sleep(RETRY_DELAY),
            other => return other,
        }
    }
    ask()
}

/// Follows events on a separate thread that runs until the process exits.
pub(crate) fn follow_in_background(
    of: EventFilter,
    since: u64,
) -> Result<Receiver<Result<EventRow, ApiError>>, ApiError> {
    let (sender, events) = sync_channel(QUEUE_CAPACITY);
    let thread = std::thread::Builder::new().name("events".to_owned());
    let started = thread.spawn(move || {
        let context = Context::new(true);
        let mut follow = EventFollower::new(&context, of, Some(since));
        loop {
            let event = follow.next();
            let over = event.is_err();
            if sender.send(event).is_err() || over {
                return;
            }
        }
    });
    match started {
        Ok(_) => Ok(events),
        Err(why) => {
            Err(ApiError::new(ErrorCode::Internal, format!("cannot start a thread: {why}")))
        }
    }
}

/// Follows events after a sequence number.
pub(crate) struct EventFollower<'a> {
    context: &'a Context,
    filter: EventFilter,
    /// The last event that was returned, or the last one before the stream started.
    last: Option<u64>,
    stream: Option<StreamReply>,
    empty_streams: u32,
}

impl<'a> EventFollower<'a> {
    /// Follows events after `since`, or only new events if it is `None`.
    pub(crate) fn new(context: &'a Context, of: EventFilter, since: Option<u64>) -> Self {
        EventFollower { context, filter: of, last: since, stream: None, empty_streams: 0 }
    }

    /// Opens the stream right away, so that no later event is missed.
    pub(crate) fn open(&mut self, client: &Client) -> Result<(), ApiError> {
        let path = target::with_query(
            "/v1/events",
            &[
                ("follow", Some("1".to_owned())),
                self.filter.query_parameter(),
                ("since", self.last.map(|last| last.to_string())),
            ],
        );
        self.stream = Some(client.stream(&path, self.last)?);
        Ok(())
    }

    /// Waits for the next event.
    pub(crate) fn next(&mut self) -> Result<EventRow, ApiError> {
        let mut data = String::new();
        loop {
            let Some(line) = self.line()? else {
                data.clear();
                continue;
            };
            if let Some(event) = self.take(&line, &mut data)? {
                return Ok(event);
            }
        }
    }

    /// Reads a line. Returns `None` if the stream broke and had to be reopened.
    fn line(&mut self) -> Result<Option<String>, ApiError> {
        if let Some(stream) = &mut self.stream
            && let Ok(Some(line)) = stream.line()
        {
            return Ok(Some(line));
        }
        self.reopen()?;
        Ok(None)
    }

    fn reopen(&mut self) -> Result<(), ApiError> {
        if self.stream.take().is_some() {
            self.empty_streams += 1;
        }
        if self.empty_streams > MAX_EMPTY_STREAMS {
            let message = "the daemon keeps closing the event stream";
            return Err(ApiError::new(ErrorCode::Unreachable, message).next("provost doctor"));
        }
        if self.empty_streams > 1 {
            clock::sleep(RETRY_DELAY);
        }
        let client = self.context.daemon()?;
        match self.open(&client) {
            // The daemon stopped between two calls. The next attempt starts a new one.
            Err(error)
                if error.code == ErrorCode::Unreachable
                    && self.empty_streams < MAX_EMPTY_STREAMS =>
            {
                self.empty_streams += 1;
                Ok(())
            }
            other => other,
        }
    }

    /// Processes one line of the stream, and returns the event if the line completes one.
    fn take(&mut self, line: &str, data: &mut String) -> Result<Option<EventRow>, ApiError> {
        match line.split_once(':') {
            Some(("data", rest)) => data.push_str(rest.strip_prefix(' ').unwrap_or(rest)),
            Some(("id", rest)) if data.is_empty() => self.set_stream_start(rest.trim()),
            Some(_) => {}
            None if line.is_empty() && !data.is_empty() => {
                return self.complete(&std::mem::take(data));
            }
            None => {}
        }
        Ok(None)
    }

    /// If no event has been returned yet, the first id marks the start of the stream.
    fn set_stream_start(&mut self, id: &str) {
        if self.last.is_none() {
            self.last = id.parse().ok().map(|id: u64| id.saturating_sub(1));
        }
    }

    fn complete(&mut self, data: &str) -> Result<Option<EventRow>, ApiError> {
        let event: EventRow = serde_json::from_str(data).map_err(|why| {
            ApiError::new(ErrorCode::Internal, format!("cannot read an event: {why}"))
                .next("provost daemon status")
        })?;
        if self.last.is_some_and(|last| event.seq <= last) {
            return Ok(None);
        }
        self.last = Some(event.seq);
        self.empty_streams = 0;
        Ok(Some(event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seqs(since: Option<u64>, lines: &[&str]) -> Vec<u64> {
        let context = Context::new(true);
        let mut follow = EventFollower::new(&context, EventFilter::All, since);
        let mut data = String::new();
        let taken = lines.iter().filter_map(|line| follow.take(line, &mut data).unwrap());
        taken.map(|event| event.seq).collect()
    }

    fn event(seq: u64) -> String {
        format!(
            r#"data: {{"seq":{seq},"at":0,"session":"s","version":1,"kind":"k","actor":"a","data":null}}"#
        )
    }

    #[test]
    fn repeated_events_and_comments_are_skipped() {
        let (one, two) = (event(1), event(2));
        let lines = [
            ": keep-alive",
            "",
            "id: 1",
            "event: k",
            &one,
            "",
            "id: 1",
            &one,
            "",
            "id: 2",
            &two,
            "",
        ];
        assert_eq!(seqs(None, &lines), [1, 2]);
        assert_eq!(seqs(Some(1), &lines), [2]);
    }

    #[test]
    fn unfinished_event_is_not_returned() {
        assert_eq!(seqs(None, &["id: 1", &event(1)]), [] as [u64; 0]);
    }

    #[test]
    fn unreadable_event_is_an_error() {
        let context = Context::new(true);
        let mut follow = EventFollower::new(&context, EventFilter::All, None);
        let mut data = "{".to_owned();
        assert!(follow.take("", &mut data).is_err());
    }
}
