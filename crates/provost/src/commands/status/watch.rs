//! `status --watch`: redraws one session or run on every event.

use std::{
    io::IsTerminal as _,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use provost_api::{ApiError, Client, Code, EventRow, GraphRow};
use serde::Deserialize;
use serde_json::json;

use crate::{
    clock,
    commands::{change, graph, run},
    context::Context,
    error::Error,
    follow::{self, Of},
    target::{self, Target},
    ui::{self, Beside, Screen},
};

/// How often a terminal is redrawn without events, so that ages stay current.
const TICK: Duration = Duration::from_secs(1);

/// Clears the terminal.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

/// Moves the cursor to the top. The old content is overwritten, not cleared: a terminal may move cleared content to its
/// scrollback, and would collect a copy every second.
const TOP: &[u8] = b"\x1b[H";

/// Clear the rest of a line, and everything below the cursor.
const REST_OF_LINE: &str = "\x1b[K";
const BELOW: &[u8] = b"\x1b[J";

/// Redraws it until its outcome is sealed.
pub(super) fn run(context: &Context, client: &Client, meant: Target) -> Result<(), Error> {
    let of = match &meant {
        Target::Session(row) => Of::Session(row.id.clone()),
        Target::Run(row) => Of::Run(row.id.clone()),
    };
    let (mut heard, since) = newest(client, &of)?;
    let events = follow::aside(of, since)?;
    let graph = None;
    let mut watch = Watch { context, meant, graph, shown: Vec::new() };
    // The row was read before the stream was opened, so it may be outdated.
    watch.look()?;
    loop {
        watch.show(heard)?;
        if watch.is_sealed() {
            watch.leave();
            return Ok(());
        }
        if let Some(event) = next(&events, watch.draws())? {
            heard = Some(event.at);
            watch.look()?;
        }
    }
}

/// The needed part of the reply with the events so far.
#[derive(Deserialize)]
struct EventsReply {
    events: Vec<At>,
    last: u64,
    /// Whether the reply was truncated.
    #[serde(default)]
    more: bool,
}

#[derive(Deserialize)]
struct At {
    at: i64,
}

/// Returns the time of the last event, and the event to continue after.
fn newest(client: &Client, of: &Of) -> Result<(Option<i64>, u64), ApiError> {
    let (mut newest, mut last) = (None, 0);
    loop {
        let most = ("limit", Some("100000".to_owned()));
        let since = ("since", Some(last.to_string()));
        let path = target::query("/v1/events", &[of.parameter(), most, since]);
        let reply: EventsReply = client.get(&path)?;
        newest = reply.events.last().map(|event| event.at).or(newest);
        last = reply.last;
        if !reply.more {
            return Ok((newest, last));
        }
    }
}

/// Waits for the next event and drains the ones after it; None if only time has passed.
fn next(
    events: &Receiver<Result<EventRow, ApiError>>,
    ticks: bool,
) -> Result<Option<EventRow>, ApiError> {
    let ended = || ApiError::new(Code::Unreachable, "the event stream has ended");
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

fn graph_of(client: &Client, meant: &Target) -> Result<Option<GraphRow>, ApiError> {
    match meant {
        Target::Session(_) => Ok(None),
        Target::Run(row) => graph::of_run(client, row),
    }
}

struct Watch<'a> {
    context: &'a Context,
    meant: Target,
    /// The plan of a run that has one.
    graph: Option<GraphRow>,
    shown: Vec<String>,
}

impl Watch<'_> {
    /// Reads the current state.
    fn look(&mut self) -> Result<(), ApiError> {
        let client = self.context.daemon()?;
        self.meant = match &self.meant {
            Target::Session(row) => Target::Session(Box::new(target::find(&client, &row.id)?)),
            Target::Run(row) => Target::Run(Box::new(target::find_run(&client, &row.id)?)),
        };
        self.graph = graph_of(&client, &self.meant)?;
        Ok(())
    }

    fn is_sealed(&self) -> bool {
        match &self.meant {
            Target::Session(row) => row.terminal && row.sealed,
            Target::Run(row) => row.sealed,
        }
    }

    /// Whether a terminal is redrawn repeatedly.
    fn draws(&self) -> bool {
        !self.context.ui.json && std::io::stdout().is_terminal()
    }

    fn show(&mut self, heard: Option<i64>) -> Result<(), Error> {
        let ui = &self.context.ui;
        if ui.json {
            return match &self.meant {
                Target::Session(row) => ui.value(&json!(row)),
                Target::Run(row) => ui.value(&json!(row)),
            };
        }
        let lines = self.lines(heard);
        if self.draws() {
            return self.draw(lines);
        }
        if lines != self.shown {
            ui.lines(&lines)?;
            self.shown = lines;
        }
        Ok(())
    }

    /// Draws as many lines as fit: the status and pending requests come first. At the end everything is left on the
    /// terminal.
    fn draw(&mut self, lines: Vec<String>) -> Result<(), Error> {
        let ui = &self.context.ui;
        ui.raw(if self.shown.is_empty() { CLEAR } else { TOP })?;
        let fitting = if self.is_sealed() { lines } else { Screen::output().fit(lines) };
        let cleared: Vec<String> =
            fitting.iter().map(|line| format!("{line}{REST_OF_LINE}")).collect();
        ui.lines(&cleared)?;
        self.shown = fitting;
        ui.raw(BELOW)
    }

    fn lines(&self, heard: Option<i64>) -> Vec<String> {
        let (paint, screen, now) = (self.context.ui.paint, Screen::output(), clock::now_ms());
        match &self.meant {
            Target::Session(row) => ui::card(paint, screen, now, row),
            Target::Run(row) => {
                let beside = Beside { graph: self.graph.as_ref(), heard };
                ui::run_card(paint, screen, now, row, beside)
            }
        }
    }

    fn leave(&self) {
        let next = match &self.meant {
            Target::Session(row) => change::next_commands(row),
            Target::Run(row) => run::next_commands(row),
        };
        self.context.ui.next(&next);
    }
}
