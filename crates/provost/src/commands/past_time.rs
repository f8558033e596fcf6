//! Past times on the command line: an age such as `10m`, or a time such as `14:30`.

use jiff::{
    Timestamp,
    civil::{DateTime, Time},
    tz::TimeZone,
};

use super::input::parse_age;
use crate::clock;

/// A time in the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PastTime {
    /// Milliseconds before now.
    Age(u64),
    /// Milliseconds since the Unix epoch.
    At(i64),
}

impl PastTime {
    /// Returns the time in milliseconds since the Unix epoch.
    pub(crate) fn at_ms(self, now_ms: i64) -> i64 {
        match self {
            PastTime::Age(ms) => now_ms.saturating_sub(i64::try_from(ms).unwrap_or(i64::MAX)),
            PastTime::At(at_ms) => at_ms,
        }
    }
}

/// Parses an age or a time. A time that does not specify a time zone is in this machine's time zone.
pub(crate) fn parse_past_time(text: &str) -> Result<PastTime, String> {
    if let Ok(age) = parse_age(text) {
        return Ok(PastTime::Age(age));
    }
    parse_time(text, clock::now_ms(), clock::local_zone()).map(PastTime::At).ok_or_else(|| {
        format!(
            "invalid time {text:?}: expected an age such as 10m, or a time such as 14:30, \"2026-02-28 14:30\" or 2026-02-28T14:30:00Z"
        )
    })
}

fn parse_time(text: &str, now_ms: i64, zone: TimeZone) -> Option<i64> {
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Some(timestamp.as_millisecond());
    }
    let local = match text.parse::<DateTime>() {
        Ok(local) => local,
        // A time of day without a date means today.
        Err(_) => {
            // A number without a colon is rejected, because it could be an hour or an age.
            let time = text.contains(':').then(|| text.parse::<Time>().ok()).flatten()?;
            let now = Timestamp::from_millisecond(now_ms).ok()?;
            now.to_zoned(zone.clone()).date().to_datetime(time)
        }
    };
    local.to_zoned(zone).ok().map(|zoned| zoned.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use jiff::tz::offset;

    use super::*;

    /// 2000-02-29 01:02:03 UTC.
    const NOW: i64 = 951_786_123_000;

    #[test]
    fn times_are_local_unless_they_name_a_zone() {
        let in_zone = |text: &str| parse_time(text, NOW, TimeZone::fixed(offset(2)));
        assert_eq!(in_zone("2000-02-29T01:02:03Z"), Some(NOW));
        assert_eq!(in_zone("2000-02-29 03:02:03"), Some(NOW));
        assert_eq!(in_zone("03:02:03"), Some(NOW));
        assert_eq!(in_zone("03:02"), Some(NOW - 3_000));
        assert_eq!(in_zone("2000-02-29"), Some(NOW - 3 * 3_600_000 - 123_000));
        for bad in ["", "soon", "25:00", "2000-02-30", "12"] {
            assert_eq!(in_zone(bad), None, "{bad}");
        }
    }

    #[test]
    fn age_is_before_now() {
        assert_eq!(parse_past_time("10m").unwrap().at_ms(NOW), NOW - 600_000);
        assert!(parse_past_time("later").is_err());
    }
}
