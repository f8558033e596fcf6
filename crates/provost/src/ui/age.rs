//! Formats durations, ages and sizes for display.

/// Returns the age of a timestamp. If the timestamp is in the future because the clock was changed, the age is zero.
pub(crate) fn age(now_ms: i64, at_ms: i64) -> String {
    let ms = now_ms.saturating_sub(at_ms);
    match u64::try_from(ms) {
        Ok(ms) if ms >= 1000 => format_duration(ms),
        Ok(_) | Err(_) => "now".to_owned(),
    }
}

/// Returns the age of a timestamp, phrased for use in a sentence.
pub(crate) fn ago(now_ms: i64, at_ms: i64) -> String {
    match age(now_ms, at_ms).as_str() {
        "now" => "just now".to_owned(),
        age => format!("{age} ago"),
    }
}

/// Returns how long a state has lasted, phrased for use after the name of the state.
pub(crate) fn for_how_long(now_ms: i64, since_ms: i64) -> String {
    match age(now_ms, since_ms).as_str() {
        "now" => "for 0s".to_owned(),
        age => format!("for {age}"),
    }
}

/// Formats a duration in its largest unit or, for small values, in two units.
pub(crate) fn format_duration(ms: u64) -> String {
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

/// Formats a duration for a sentence, in at most two units. The smaller one is left out if it is zero.
pub(crate) fn format_duration_long(ms: u64) -> String {
    let units = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)];
    let largest = units.iter().position(|(_, scale)| ms >= *scale);
    let Some(largest) = largest else { return "0 s".to_owned() };
    let (unit, scale) = units[largest];
    let whole = format!("{} {unit}", ms / scale);
    let next = units.get(largest + 1).filter(|(unit, _)| *unit != "ms");
    let rest = next.map(|(unit, scale_below)| (ms % scale / scale_below, unit));
    match rest.filter(|(count, _)| *count > 0) {
        Some((count, unit)) => format!("{whole} {count} {unit}"),
        None => whole,
    }
}

/// Replaces every duration in milliseconds in a sentence, such as `30000 ms`, with a readable one.
pub(crate) fn expand_durations(sentence: &str) -> String {
    let words: Vec<&str> = sentence.split(' ').collect();
    let mut expanded: Vec<String> = Vec::with_capacity(words.len());
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let unit = words.get(at + 1).and_then(|unit| unit.strip_prefix("ms"));
        match (word.parse().ok(), unit.filter(|rest| !rest.starts_with(char::is_alphanumeric))) {
            (Some(ms), Some(rest)) => {
                expanded.push(format!("{}{rest}", format_duration_long(ms)));
                at += 2;
            }
            _ => {
                expanded.push((*word).to_owned());
                at += 1;
            }
        }
    }
    expanded.join(" ")
}

/// Formats a size in the largest suitable unit.
pub(crate) fn format_size(bytes: u64) -> String {
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
    fn durations_are_short() {
        let shown: Vec<_> =
            [5, 1_500, 61_000, 120_000, 900_000, 3_720_000, 40_000_000, 200_000_000]
                .into_iter()
                .map(format_duration)
                .collect();
        assert_eq!(shown, ["5ms", "1s", "1m1s", "2m", "15m", "1h2m", "11h", "2d"]);
    }

    #[test]
    fn long_durations_have_two_units() {
        let formatted: Vec<_> =
            [0, 250, 1_500, 30_000, 90_000, 600_000, 5_400_000, 3_600_000, 90_000_000]
                .into_iter()
                .map(format_duration_long)
                .collect();
        let expected = [
            "0 s",
            "250 ms",
            "1 s",
            "30 s",
            "1 min 30 s",
            "10 min",
            "1 h 30 min",
            "1 h",
            "1 d 1 h",
        ];
        assert_eq!(formatted, expected);
    }

    #[test]
    fn only_milliseconds_are_expanded() {
        assert_eq!(
            expand_durations("a limit of 30000 ms, or 2 msgs"),
            "a limit of 30 s, or 2 msgs"
        );
        assert_eq!(expand_durations("seal in 61000 ms"), "seal in 1 min 1 s");
        assert_eq!(expand_durations("ms 5 x  y"), "ms 5 x  y");
    }

    #[test]
    fn future_timestamps_render_as_now() {
        assert_eq!(age(1_000, 5_000), "now");
        assert_eq!(age(61_000, 1_000), "1m");
        assert_eq!(ago(61_000, 1_000), "1m ago");
        assert_eq!(ago(1_000, 1_000), "just now");
    }

    #[test]
    fn sizes_name_their_unit() {
        assert_eq!(format_size(17), "17 bytes");
        assert_eq!(format_size(1536), "1.5 KiB");
        assert_eq!(format_size(3 << 30), "3.0 GiB");
    }
}
