//! The event list: number, time, session, description and new state.

mod describe_session;

use std::collections::BTreeMap;

use provost_api::EventRow;
use provost_core::session::Event;

use super::{
    Paint, Screen, Tone, short_id,
    text::{clip, escape_line},
    unbreakable,
};

/// The width before an event's description: number, time and session.
const TEXT_AT: usize = 33;

/// The maximum width of a description, over several lines.
const TEXT_WIDTH: usize = 300;

/// The maximum width of the raw data of an unknown event.
const DATA_WIDTH: usize = 100;

/// Shows events in order. A state is shown only when it changes.
pub(crate) struct EventLines {
    paint: Paint,
    screen: Screen,
    /// The last displayed state of each session.
    states: BTreeMap<String, String>,
}

impl EventLines {
    pub(crate) fn new(paint: Paint, screen: Screen) -> Self {
        EventLines { paint, screen, states: BTreeMap::new() }
    }

    /// Shows an event: its number, time (UTC), session, description and new state.
    pub(crate) fn show(&mut self, event: &EventRow) -> Vec<String> {
        let state = self.changed_state(event).map(|state| state.replace('_', " "));
        let state =
            state.map(|state| format!(" {}", unbreakable(&format!("→ {}", escape_line(&state)))));
        let line = format!(
            "{} {} {}  {}{}",
            self.paint.paint(Tone::Dim, &format!("{:>6}", event.seq)),
            self.paint.paint(Tone::Dim, &format_time(event.at)),
            self.paint.paint(Tone::Bold, &short_id(&event.session)),
            clip(&escape_line(&describe(event)), TEXT_WIDTH),
            self.paint.paint(Tone::Live, &state.unwrap_or_default()),
        );
        self.screen.wrap(&line, TEXT_AT)
    }

    /// Returns the state after an event, unless it is the one displayed before.
    fn changed_state(&mut self, event: &EventRow) -> Option<String> {
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
    let known = Event::KINDS.iter().find(|(kind, _)| *kind == event.kind);
    let read = known.and_then(|(kind, v)| Event::decode(kind, *v, &event.data.to_string()).ok());
    match read {
        Some(read) => describe_session::describe(&read),
        None => format!("{} {}", event.kind, clip(&event.data.to_string(), DATA_WIDTH)),
    }
}

/// Formats month, day and time of day, in UTC.
pub(super) fn format_time(at_ms: i64) -> String {
    let (days, ms) = (at_ms.div_euclid(86_400_000), at_ms.rem_euclid(86_400_000));
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    let (month, day) = month_and_day(days);
    format!("{month:02}-{day:02} {hours:02}:{minutes:02}:{seconds:02}Z")
}

/// Counts in eras of 400 years, and in years that start in March, so that a leap day is the last
/// day of its year.
fn month_and_day(days_since_1970: i64) -> (i64, i64) {
    let day_of_era = (days_since_1970 + 719_468).rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    (if from_march < 10 { from_march + 3 } else { from_march - 9 }, day)
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
            state: Some("wrapping_up".to_owned()),
        }
    }

    fn claim(text: &str) -> EventRow {
        let data = json!({
            "launch": LAUNCH, "kind": "completed", "source": "agent", "text": text,
            "standing": "applied", "cursor": null,
        });
        event("claim.made", data)
    }

    #[test]
    fn event_is_described_and_state_shown_once() {
        let mut lines = EventLines::new(Paint::OFF, Screen::UNLIMITED);
        let mut shown = lines.show(&claim("a\n\u{202e}b"));
        shown.extend(lines.show(&claim("again")));
        let cancelled = event("attempt.cancelled", json!({"because": "enough"}));
        let cancelled = EventRow { state: Some("cancelled".to_owned()), ..cancelled };
        shown.extend(lines.show(&cancelled));
        insta::assert_snapshot!(shown.join("\n"), @"
        7 02-29 01:02:03Z deadbeef  agent claims completed: a␊<U+202E>b → wrapping up
        7 02-29 01:02:03Z deadbeef  agent claims completed: again
        7 02-29 01:02:03Z deadbeef  cancelled: enough → cancelled
        ");
    }

    #[test]
    fn wrapped_text_is_indented() {
        let mut lines = EventLines::new(Paint::OFF, Screen::with_columns(70));
        let long = "the login works again, and so do the tests";
        insta::assert_snapshot!(lines.show(&claim(long)).join("\n"), @"
        7 02-29 01:02:03Z deadbeef  agent claims completed: the login
                                    works again, and so do the tests
                                    → wrapping up
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
        assert_eq!(format_time(0), "01-01 00:00:00Z");
        assert_eq!(format_time(951_782_400_000), "02-29 00:00:00Z");
        assert_eq!(format_time(1_763_251_199_999), "11-15 23:59:59Z");
        assert_eq!(format_time(-1), "12-31 23:59:59Z");
    }
}
