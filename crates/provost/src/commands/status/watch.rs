//! `status --watch`: redraws a session or run on every event.

use std::{
    io::IsTerminal as _,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use provost_api::{ApiError, Client, ErrorCode, EventRow, RunGraphRow};
use serde::Deserialize;
use serde_json::json;

use crate::{
    clock,
    commands::{graph, mutation, run},
    context::Context,
    error::Error,
    follow::{self, EventFilter},
    target::{self, SessionOrRun},
    ui::{self, RunExtras, Screen},
};

/// The interval at which a terminal is redrawn without events, so that displayed ages stay current.
const TICK: Duration = Duration::from_secs(1);

/// Clears the terminal.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

/// Moves the cursor to the top. The old content is overwritten and not cleared, because some
/// terminals move cleared content to the scrollback, where a copy would accumulate every second.
const CURSOR_HOME: &[u8] = b"\x1b[H";

/// Clear the rest of the line, and everything below the cursor.
const CLEAR_TO_LINE_END: &str = "\x1b[K";
const CLEAR_BELOW: &[u8] = b"\x1b[J";

/// Redraws the session or run until its outcome is sealed.
pub(super) fn run(context: &Context, client: &Client, target: SessionOrRun) -> Result<(), Error> {
    let of = match &target {
        SessionOrRun::Session(row) => EventFilter::Session(row.id.clone()),
        SessionOrRun::Run(row) => EventFilter::Run(row.id.clone()),
    };
    let (mut heard, since) = newest(client, &of)?;
    let events = follow::follow_in_background(of, since)?;
    let graph = None;
    let mut watch = StatusWatch { context, target, graph, shown: Vec::new() };
    // The row was read before the stream was opened, so it may be out of date.
    watch.refresh()?;
    loop {
        watch.show(heard)?;
        if watch.is_sealed() {
            watch.leave();
            return Ok(());
        }
        if let Some(event) = next(&events, watch.redraws())? {
            heard = Some(event.at);
            watch.refresh()?;
        }
    }
}

/// The fields of an events reply that this command uses.
#[derive(Deserialize)]
struct EventTimesReply {
    events: Vec<EventTime>,
    last: u64,
    /// Whether the reply was truncated.
    #[serde(default)]
    more: bool,
}

#[derive(Deserialize)]
struct EventTime {
    at: i64,
}

/// Returns the time of the last event and its sequence number.
fn newest(client: &Client, of: &EventFilter) -> Result<(Option<i64>, u64), ApiError> {
    let (mut newest, mut last) = (None, 0);
    loop {
        let most = ("limit", Some("100000".to_owned()));
        let since = ("since", Some(last.to_string()));
        let path = target::with_query("/v1/events", &[of.query_parameter(), most, since]);
        let reply: EventTimesReply = client.get(&path)?;
        newest = reply.events.last().map(|event| event.at).or(newest);
        last = reply.last;
        if !reply.more {
            return Ok((newest, last));
        }
    }
}

/// Waits for the next event, and drains the events after it. Returns `None` if no event arrived in
/// time.
fn next(
    events: &Receiver<Result<EventRow, ApiError>>,
    ticks: bool,
) -> Result<Option<EventRow>, ApiError> {
    let ended = || ApiError::new(ErrorCode::Unreachable, "the event stream has ended");
    let first = if ticks {
        match events.recv_timeout(TICK) {
            Ok(event) => event?,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => return Err(ended()),
        }
    } else {
        events.recv().map_err(|_| ended())??
    };
    events.try_iter().try_fold(first, |_, event| event).map(Some)
}

fn graph_of(client: &Client, target: &SessionOrRun) -> Result<Option<RunGraphRow>, ApiError> {
    match target {
        SessionOrRun::Session(_) => Ok(None),
        SessionOrRun::Run(row) => graph::find_plan(client, row),
    }
}

struct StatusWatch<'a> {
    context: &'a Context,
    target: SessionOrRun,
    /// The plan of the run, if it has one.
    graph: Option<RunGraphRow>,
    shown: Vec<String>,
}

impl StatusWatch<'_> {
    /// Reads the current state.
    fn refresh(&mut self) -> Result<(), ApiError> {
        let client = self.context.daemon()?;
        self.target = match &self.target {
            SessionOrRun::Session(row) => {
                SessionOrRun::Session(Box::new(target::find_session(&client, &row.id)?))
            }
            SessionOrRun::Run(row) => {
                SessionOrRun::Run(Box::new(target::find_run(&client, &row.id)?))
            }
        };
        self.graph = graph_of(&client, &self.target)?;
        Ok(())
    }

    fn is_sealed(&self) -> bool {
        match &self.target {
            SessionOrRun::Session(row) => row.terminal && row.sealed,
            SessionOrRun::Run(row) => row.sealed,
        }
    }

    /// Whether the output is redrawn in place on a terminal.
    fn redraws(&self) -> bool {
        !self.context.ui.json && std::io::stdout().is_terminal()
    }

    fn show(&mut self, heard: Option<i64>) -> Result<(), Error> {
        let ui = &self.context.ui;
        if ui.json {
            return match &self.target {
                SessionOrRun::Session(row) => ui.value(&json!(row)),
                SessionOrRun::Run(row) => ui.value(&json!(row)),
            };
        }
        let lines = self.lines(heard);
        if self.redraws() {
            return self.draw(lines);
        }
        if lines != self.shown {
            ui.lines(&lines)?;
            self.shown = lines;
        }
        Ok(())
    }

    /// Draws as many lines as fit on the screen, starting with the status and pending requests. The
    /// final state is printed in full.
    fn draw(&mut self, lines: Vec<String>) -> Result<(), Error> {
        let ui = &self.context.ui;
        ui.raw(if self.shown.is_empty() { CLEAR } else { CURSOR_HOME })?;
        let fitting = if self.is_sealed() { lines } else { Screen::stdout().fit_rows(lines) };
        let cleared: Vec<String> =
            fitting.iter().map(|line| format!("{line}{CLEAR_TO_LINE_END}")).collect();
        ui.lines(&cleared)?;
        self.shown = fitting;
        ui.raw(CLEAR_BELOW)
    }

    fn lines(&self, heard: Option<i64>) -> Vec<String> {
        let (paint, screen, now) = (self.context.ui.paint, Screen::stdout(), clock::now_ms());
        match &self.target {
            SessionOrRun::Session(row) => ui::session_detail(paint, screen, now, row),
            SessionOrRun::Run(row) => {
                let beside = RunExtras { graph: self.graph.as_ref(), heard };
                ui::run_detail(paint, screen, now, row, beside)
            }
        }
    }

    fn leave(&self) {
        let next = match &self.target {
            SessionOrRun::Session(row) => mutation::next_commands(row),
            SessionOrRun::Run(row) => run::next_commands(row),
        };
        self.context.ui.next(&next);
    }
}
