//! Parses the time at which a limit resets from the text of an error. Codex reports a time span
//! ("try again in 2 hours 5 minutes", "in 1.2s"), a local time of day ("at 3:05 PM") or a date ("at
//! Nov 3rd, 2026 3:05 PM").
//!
//! Only an unambiguous time is accepted. For any other text, the session waits for the default
//! time.

use jiff::{
    SignedDuration, Timestamp,
    civil::{Date, Time, time},
    tz::TimeZone,
};

/// The longest plausible wait. A longer one is ignored.
const MAX_WAIT: SignedDuration = SignedDuration::from_hours(31 * 24);

/// The time added to a span, because the text omits units below a minute and the wait must not end
/// too early.
const MINUTE: SignedDuration = SignedDuration::from_mins(1);

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Returns the wall-clock time in milliseconds, if the text contains exactly one future time. A
/// time of day is ambiguous unless the time zone of the agent's clock is known.
pub(crate) fn parse_reset(words: &str, now_ms: u64, zone: Option<&TimeZone>) -> Option<u64> {
    let now = Timestamp::from_millisecond(i64::try_from(now_ms).ok()?).ok()?;
    let words = words.to_ascii_lowercase();
    let instants: Vec<Option<Timestamp>> =
        words.split("try again ").skip(1).map(|rest| parse_time(rest, now, zone)).collect();
    let (first, others) = instants.split_first()?;
    let agreed = others.iter().all(|other| other == first);
    let at = first.filter(|at| agreed && *at > now && now.duration_until(*at) <= MAX_WAIT)?;
    u64::try_from(at.as_millisecond()).ok()
}

fn parse_time(rest: &str, now: Timestamp, zone: Option<&TimeZone>) -> Option<Timestamp> {
    match rest.split_once(' ')? {
        ("in", span) => now.checked_add(read_span(span)?).ok(),
        ("at", clock) => at_clock(clock, now, zone?),
        _ => None,
    }
}

/// Parses amounts with their units, largest first, up to the end of the sentence.
fn read_span(text: &str) -> Option<SignedDuration> {
    if text.starts_with("less than a minute") {
        return Some(MINUTE);
    }
    let (mut rest, mut sum, mut smallest_ms) = (first_sentence(text).trim(), 0.0, f64::INFINITY);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let amount: f64 = rest[..digits].parse().ok()?;
        let after = rest[digits..].trim_start();
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let unit_ms = unit_ms(&after[..end])?;
        if unit_ms >= smallest_ms {
            return None;
        }
        (sum, smallest_ms) = (sum + amount * unit_ms, unit_ms);
        rest = after[end..].trim_start_matches([' ', ',']);
    }
    let rounded = if smallest_ms >= 60_000.0 { MINUTE } else { SignedDuration::ZERO };
    let span = SignedDuration::try_from_secs_f64(sum / 1000.0).ok()?;
    (sum > 0.0).then(|| span.saturating_add(rounded))
}

/// Returns the text up to the end of its first sentence. A decimal point does not end a sentence.
fn first_sentence(text: &str) -> &str {
    let within = |at: usize| text[at + 1..].starts_with(|c: char| c.is_ascii_digit());
    let stops = text.match_indices(['.', ')', ';', '\n']);
    let mut stops = stops.filter(|(at, stop)| *stop != "." || !within(*at));
    stops.next().map_or(text, |(at, _)| &text[..at])
}

fn unit_ms(word: &str) -> Option<f64> {
    Some(match word {
        "ms" | "millisecond" | "milliseconds" => 1.0,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000.0,
        "d" | "day" | "days" => 86_400_000.0,
        _ => return None,
    })
}

/// Parses a time of the current day (`3:05 pm`), or a date and a time (`nov 3rd, 2026 3:05 pm`). Codex
/// omits the seconds, so the result is the end of the minute.
fn at_clock(text: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (day, at) = match words.as_slice() {
        [at, half, ..] if at.contains(':') => (now.to_zoned(zone.clone()).date(), clock(at, half)?),
        [month, day, year, at, half, ..] => (calendar(month, day, year)?, clock(at, half)?),
        _ => return None,
    };
    let moment = zone.to_ambiguous_timestamp(day.to_datetime(at)).unambiguous().ok()?;
    moment.checked_add(MINUTE).ok()
}

fn clock(at: &str, half: &str) -> Option<Time> {
    let (hour, minute) = at.split_once(':')?;
    let (hour, minute): (i8, i8) = (hour.parse().ok()?, minute.parse().ok()?);
    let noon = match half.trim_end_matches(|c: char| !c.is_ascii_alphabetic()) {
        "am" => 0,
        "pm" => 12,
        _ => return None,
    };
    let plain = (1..=12).contains(&hour) && (0..60).contains(&minute);
    plain.then(|| time(hour % 12 + noon, minute, 0, 0))
}

fn calendar(month: &str, day: &str, year: &str) -> Option<Date> {
    let month = MONTHS.iter().position(|known| *known == month)?;
    let day = day.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()?;
    let month = i8::try_from(month).ok()? + 1;
    Date::new(year.parse().ok()?, month, day).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noon UTC on 2 November 2026. The agent's clock is two hours ahead.
    const NOON: u64 = 1_793_620_800_000;
    const MIN: u64 = 60_000;
    const HOUR: u64 = 60 * MIN;

    fn read(words: &str) -> Option<u64> {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        parse_reset(words, NOON, Some(&zone)).map(|until| until - NOON)
    }

    #[test]
    fn a09_reset_text_is_parsed() {
        for (words, wait) in [
            ("Rate limit reached. Please try again in 1.2s.", 1_200),
            ("slow (try again in 1.2s.) down: please try again in 1.2s.", 1_200),
            ("Try again in 20ms", 20),
            ("try again in 6m0s. Visit https://x.y.", 6 * MIN),
            ("You've hit your limit. Try again in 2 hours 5 minutes.", 2 * HOUR + 6 * MIN),
            ("Try again in 3 days, 1 hour.", 73 * HOUR + MIN),
            ("Try again in less than a minute.", MIN),
            ("purchase more credits or try again at 3:05 PM.", HOUR + 6 * MIN),
            ("try again at 11:59 pm", 10 * HOUR),
            ("or try again at Nov 3rd, 2026 2:00 PM.", 24 * HOUR + MIN),
            ("try again at Dec 1st, 2026 12:30 AM", 682 * HOUR + 31 * MIN),
        ] {
            assert_eq!(read(words), Some(wait), "{words}");
        }
    }

    #[test]
    fn a09_ambiguous_reset_text_is_ignored() {
        for words in [
            "",
            "Try again later.",
            "try again in a while",
            "try again in 5",
            "try again in 5 fortnights",
            "try again in 5 minutes 2 hours",
            "try again in 0s",
            "try again in 1s. Or try again in 2s.",
            "try again in 99999 days",
            "try again at 15:05",
            "try again at 13:05 PM",
            "try again at 1:60 PM",
            "try again at noon sharp",
            "try again at 1:05 PM",
            "try again at Nov 3rd, 2025 2:00 PM",
            "try again at Foo 3rd, 2026 2:00 PM",
            "try again at Nov 31st, 2026 2:00 PM",
        ] {
            assert_eq!(read(words), None, "{words}");
        }
        assert_eq!(parse_reset("try again at 3:05 PM", NOON, None), None, "whose afternoon?");
        assert!(parse_reset("try again in 3s", NOON, None).is_some());
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        // 24 October 2026, 14:00 UTC. In the following night, the hour from two to three occurs
        // twice.
        let before = 1_792_850_400_000;
        let reset = |words| parse_reset(words, before, Some(&berlin));
        assert_eq!(reset("try again at Oct 25th, 2026 2:30 AM"), None, "which of the two?");
        assert!(reset("try again at Oct 25th, 2026 3:30 AM").is_some());
    }

    #[test]
    fn hostile_reset_text_does_not_panic() {
        for words in
            ["try again in 1e999s", "try again in ....s", "try again at é:ü pm", "try again in é"]
        {
            assert_eq!(read(words), None, "{words}");
        }
        let long = format!("try again in {}s", "9".repeat(5_000));
        assert_eq!(read(&long), None);
        assert_eq!(parse_reset("try again in 1s", u64::MAX, None), None);
    }
}
