//! Spans of time and sizes, for people.

/// Says how long ago a moment was; the clock may have been set back meanwhile.
pub(crate) fn age(now_ms: i64, at_ms: i64) -> String {
    let ms = now_ms.saturating_sub(at_ms);
    match u64::try_from(ms) {
        Ok(ms) if ms >= 1000 => span(ms),
        Ok(_) | Err(_) => "now".to_owned(),
    }
}

/// Says when a moment was, for the middle of a sentence.
pub(crate) fn ago(now_ms: i64, at_ms: i64) -> String {
    match age(now_ms, at_ms).as_str() {
        "now" => "just now".to_owned(),
        age => format!("{age} ago"),
    }
}

/// Gives a span in its largest unit, two for small counts of it.
pub(crate) fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0 => format!("{ms}ms"),
        1..60 => format!("{seconds}s"),
        60..600 if !seconds.is_multiple_of(60) => format!("{minutes}m{}s", seconds % 60),
        60..3600 => format!("{minutes}m"),
        3600..36_000 if !minutes.is_multiple_of(60) => format!("{hours}h{}m", minutes % 60),
        3600..172_800 => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}

/// Gives a size in the largest unit that it reaches.
pub(crate) fn size(bytes: u64) -> String {
    let units = [("TiB", 1_u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.iter().find(|(_, scale)| bytes >= *scale) {
        Some((unit, scale)) => format!("{}.{} {unit}", bytes / scale, bytes % scale * 10 / scale),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        let shown: Vec<_> =
            [5, 1_500, 61_000, 120_000, 900_000, 3_720_000, 40_000_000, 200_000_000]
                .into_iter()
                .map(span)
                .collect();
        assert_eq!(shown, ["5ms", "1s", "1m1s", "2m", "15m", "1h2m", "11h", "2d"]);
    }

    #[test]
    fn the_future_is_now() {
        assert_eq!(age(1_000, 5_000), "now");
        assert_eq!(age(61_000, 1_000), "1m");
        assert_eq!(ago(61_000, 1_000), "1m ago");
        assert_eq!(ago(1_000, 1_000), "just now");
    }

    #[test]
    fn sizes_name_their_unit() {
        assert_eq!(size(17), "17 bytes");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(3 << 30), "3.0 GiB");
    }
}
