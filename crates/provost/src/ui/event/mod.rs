//! The event list, with the number, time, session, description and new state of each event.

mod bookkeeping;
mod describe_session;

use std::collections::BTreeMap;

use jiff::{Timestamp, tz::TimeZone};
use provost_api::{EventRow, Extensible};
use provost_core::{lifecycle::State, session::Event, team};
use provost_engine::history::describe_team;

use super::{
    Paint, Screen, Tone, short_id,
    text::{clip, escape_line, join_lines},
    unbreakable,
};

/// The column in which the description starts, after the number, time and session.
const TEXT_AT: usize = 32;

/// The maximum width of a description. It can extend over several lines.
const TEXT_WIDTH: usize = 300;

/// The maximum width of the raw data shown for an unknown event.
const DATA_WIDTH: usize = 100;

/// Shows events in order. A state is shown only when it has changed.
pub(crate) struct EventLines {
    paint: Paint,
    screen: Screen,
    zone: TimeZone,
    /// Whether to show bookkeeping too.
    verbose: bool,
    /// The state that was last shown for each session.
    states: BTreeMap<String, Extensible<State>>,
    /// The commit that was last shown for each session.
    commits: BTreeMap<String, String>,
}

impl EventLines {
    pub(crate) fn new(paint: Paint, screen: Screen, zone: TimeZone, verbose: bool) -> Self {
        EventLines {
            paint,
            screen,
            zone,
            verbose,
            states: BTreeMap::new(),
            commits: BTreeMap::new(),
        }
    }

    /// Shows an event with its number, local time, session, description and new state. Bookkeeping
    /// is hidden unless it changes the state.
    pub(crate) fn show(&mut self, event: &EventRow) -> Vec<String> {
        let before = self.states.get(&event.session);
        let changes_state = event.state.is_some() && event.state.as_ref() != before;
        let is_internal = self.repeats_commit(event) || bookkeeping::is_bookkeeping(event);
        if !self.verbose && !changes_state && is_internal {
            return Vec::new();
        }
        let state = self.changed_state(event).map(|state| state.replace('_', " "));
        let state =
            state.map(|state| format!(" {}", unbreakable(&format!("→ {}", escape_line(&state)))));
        let line = format!(
            "{} {} {}  {}{}",
            self.paint.paint(Tone::Dim, &format!("{:>6}", event.seq)),
            self.paint.paint(Tone::Dim, &format_time(event.at, &self.zone)),
            self.paint.paint(Tone::Bold, &short_id(&event.session)),
            clip(&escape_line(&describe(event)), TEXT_WIDTH),
            self.paint.paint(Tone::Live, &state.unwrap_or_default()),
        );
        self.screen.wrap(&line, TEXT_AT)
    }

    /// Whether an event records the commit that was last recorded for the session.
    fn repeats_commit(&mut self, event: &EventRow) -> bool {
        let Some(commit) = event.data["snapshot"]["commit"].as_str() else { return false };
        self.commits.insert(event.session.clone(), commit.to_owned()).as_deref() == Some(commit)
    }

    /// Returns the state after an event, unless it is the one that was last shown.
    fn changed_state(&mut self, event: &EventRow) -> Option<Extensible<State>> {
        let state = event.state.clone()?;
        let before = self.states.insert(event.session.clone(), state.clone());
        (before.as_ref() != Some(&state)).then_some(state)
    }
}

/// Describes an event. An unknown event is shown as it was recorded.
fn describe(event: &EventRow) -> String {
    if event.stream == "ledger" {
        let (first, last) = (&event.data["first"], &event.data["last"]);
        return format!("events {first} to {last} were lost, and the loss was accepted");
    }
    if let Some(words) = super::describe_run_event(&event.kind, &event.data) {
        return words;
    }
    let data = event.data.to_string();
    let format = |kinds: &[(&'static str, u16)]| {
        kinds.iter().find(|(kind, _)| *kind == event.kind).map(|(_, format)| *format)
    };
    let session = format(Event::KINDS).and_then(|v| Event::decode(&event.kind, v, &data).ok());
    if let Some(read) = session {
        return describe_session::describe(&read);
    }
    let team =
        format(team::Event::KINDS).and_then(|v| team::Event::decode(&event.kind, v, &data).ok());
    match team {
        Some(read) => join_lines(&describe_team(&read)),
        None => format!("{} {}", event.kind, clip(&data, DATA_WIDTH)),
    }
}

/// Formats the month, day and time of day in a time zone.
pub(crate) fn format_time(at_ms: i64, zone: &TimeZone) -> String {
    match Timestamp::from_millisecond(at_ms) {
        Ok(at) => at.to_zoned(zone.clone()).strftime("%m-%d %H:%M:%S").to_string(),
        // The time is outside the range that the calendar supports.
        Err(_) => "??-?? ??:??:??".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const LAUNCH: &str = "0199aa11-0000-7000-8000-0000deadbeef.l1";

    fn event(kind: &str, data: Value) -> EventRow {
        EventRow {
            seq: 7,
            at: 951_782_400_000 + 3_723_004,
            session: "0199aa11-0000-7000-8000-0000deadbeef".to_owned(),
            stream: "session".to_owned(),
            version: 3,
            kind: kind.to_owned(),
            actor: "provost".to_owned(),
            data,
            state: Some(State::Finishing.into()),
        }
    }

    fn claim(text: &str) -> EventRow {
        let data = json!({
            "launch": LAUNCH, "kind": "completed", "source": "agent", "text": text,
            "status": "applied", "cursor": null,
        });
        event("claim.made", data)
    }

    #[test]
    fn event_is_described_and_state_shown_once() {
        let mut lines = EventLines::new(Paint::OFF, Screen::UNLIMITED, TimeZone::UTC, false);
        let mut shown = lines.show(&claim("a\n\u{202e}b"));
        shown.extend(lines.show(&claim("again")));
        let cancelled = event("attempt.cancelled", json!({"because": "enough"}));
        let cancelled = EventRow { state: Some(State::Cancelled.into()), ..cancelled };
        shown.extend(lines.show(&cancelled));
        insta::assert_snapshot!(shown.join("\n"), @"
        7 02-29 01:02:03 deadbeef  agent claims completed: a␊<U+202E>b → finishing
        7 02-29 01:02:03 deadbeef  agent claims completed: again
        7 02-29 01:02:03 deadbeef  cancelled: enough → cancelled
        ");
    }

    #[test]
    fn lines_of_git_errors_are_joined() {
        let reason = json!({"reason": "error: overwritten:\n\ta\u{1b}[2J.txt\nAborting"});
        for (kind, begins) in [
            ("work.failed", "cannot create the working directory"),
            ("snapshot.failed", "cannot commit the work"),
        ] {
            let shown = describe(&event(kind, reason.clone()));
            assert_eq!(shown, format!("{begins}: error: overwritten: a␛[2J.txt Aborting"));
        }
    }

    #[test]
    fn wrapped_text_is_indented() {
        let mut lines = EventLines::new(Paint::OFF, Screen::with_columns(69), TimeZone::UTC, false);
        let long = "the login works again, and so do the tests";
        insta::assert_snapshot!(lines.show(&claim(long)).join("\n"), @"
        7 02-29 01:02:03 deadbeef  agent claims completed: the login
                                   works again, and so do the tests
                                   → finishing
        ");
    }

    #[test]
    fn unknown_event_is_shown_as_recorded() {
        assert_eq!(
            describe(&event("moon.risen", json!({"full": true}))),
            r#"moon.risen {"full":true}"#
        );
        assert_eq!(describe(&event("claim.made", json!({}))), "claim.made {}");
    }

    #[test]
    fn times_include_the_day() {
        let utc = |at_ms| format_time(at_ms, &TimeZone::UTC);
        assert_eq!(utc(0), "01-01 00:00:00");
        assert_eq!(utc(951_782_400_000), "02-29 00:00:00");
        assert_eq!(utc(1_763_251_199_999), "11-15 23:59:59");
        assert_eq!(utc(-1), "12-31 23:59:59");
        let east = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(format_time(951_782_400_000, &east), "02-29 02:00:00");
        assert_eq!(utc(i64::MAX), "??-?? ??:??:??");
    }

    #[test]
    fn bookkeeping_is_hidden_unless_it_changes_the_state() {
        let usage = |state: &str| {
            let data = json!({"launch": LAUNCH, "heard_ms": 5});
            EventRow { state: Some(Extensible::from_name(state)), ..event("stream.heard", data) }
        };
        let mut lines = EventLines::new(Paint::OFF, Screen::UNLIMITED, TimeZone::UTC, false);
        assert_eq!(lines.show(&usage("working")).len(), 1);
        assert_eq!(lines.show(&usage("working")).len(), 0);
        assert_eq!(lines.show(&usage("stalled")).len(), 1);
        let mut lines = EventLines::new(Paint::OFF, Screen::UNLIMITED, TimeZone::UTC, true);
        assert_eq!(lines.show(&usage("working")).len(), 1);
        assert_eq!(lines.show(&usage("working")).len(), 1);
    }
}
