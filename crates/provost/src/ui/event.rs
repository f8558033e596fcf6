//! Events, one line each.

use provost_api::EventRow;

use super::{
    Paint, Tone, short,
    text::{clean, clip},
};

/// The columns that an event's data may take.
const DATA_WIDTH: usize = 100;

/// Shows an event: its number, its time of day (UTC), its session, its kind and what it says.
pub(crate) fn event_line(paint: Paint, event: &EventRow) -> String {
    let state = event.state.as_deref().map(|state| format!(" → {}", clean(state)));
    let data = if event.data.is_null() { String::new() } else { event.data.to_string() };
    let data = clip(&clean(&data), DATA_WIDTH);
    let seq = format!("{:>6}", event.seq);
    let line = format!(
        "{} {} {} {}{} {}",
        paint.paint(Tone::Dim, &seq),
        paint.paint(Tone::Dim, &time_of_day(event.at)),
        paint.paint(Tone::Bold, &short(&event.session)),
        clean(&event.kind),
        paint.paint(Tone::Live, &state.unwrap_or_default()),
        paint.paint(Tone::Dim, &data),
    );
    line.trim_end().to_owned()
}

fn time_of_day(at_ms: i64) -> String {
    let ms = at_ms.rem_euclid(86_400_000);
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}.{:03}Z", ms % 1000)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let event = EventRow {
            seq: 7,
            at: 3_723_004,
            session: "0199aa11-0000-7000-8000-0000deadbeef".to_owned(),
            version: 3,
            kind: "claim.made".to_owned(),
            actor: "agent".to_owned(),
            data: json!({"text": "a\n\u{202e}b"}),
            state: Some("completed".to_owned()),
        };
        insta::assert_snapshot!(event_line(Paint::OFF, &event), @r#"     7 01:02:03.004Z deadbeef claim.made → completed {"text":"a\n<U+202E>b"}"#);
    }
}
