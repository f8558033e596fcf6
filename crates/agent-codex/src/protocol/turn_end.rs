//! Interprets the end of a turn. Only `completed` is a success, and an unknown status is an error.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use provost_core::session::TurnEnd;
use serde_json::Value;

use super::{
    rate_limit_reset,
    wire::{bounded, text},
};

/// The maximum number of bytes to keep from an error's text.
const MAX_DETAIL: usize = 4 << 10;

/// The maximum number of different account limits to track.
const MAX_LIMITS: usize = 16;

/// The time after the reset of a limit in which a turn may still end because of that limit.
const JUST_OVER_MS: u64 = 60_000;

/// The account's limits, as last reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct LimitTracker(BTreeMap<String, Vec<RateLimitWindow>>);

#[derive(Clone, Copy, Debug)]
struct RateLimitWindow {
    used_percent: f64,
    resets_at_ms: u64,
}

impl LimitTracker {
    /// Records the windows of a limit. An update without windows leaves the earlier ones unchanged.
    pub(crate) fn update(&mut self, limits: &Value) {
        let windows: Vec<RateLimitWindow> = ["primary", "secondary"]
            .iter()
            .filter_map(|name| parse_window(&limits[name]))
            .collect();
        let limit = text(limits, "limitId").unwrap_or_default();
        let room = self.0.contains_key(limit) || self.0.len() < MAX_LIMITS;
        if !windows.is_empty() && room {
            self.0.insert(limit.to_owned(), windows);
        }
    }

    /// Returns the latest reset time of all exhausted windows. It must be in the future, or have
    /// passed only recently, while the turn was ending. An older reset does not explain the current
    /// limit.
    fn reset_time(&self, now_ms: Option<u64>) -> Option<u64> {
        let used_up = self.0.values().flatten().filter(|window| window.used_percent >= 100.0);
        let until = used_up.map(|window| window.resets_at_ms).max()?;
        now_ms.is_none_or(|now| until.saturating_add(JUST_OVER_MS) > now).then_some(until)
    }
}

fn parse_window(window: &Value) -> Option<RateLimitWindow> {
    let resets_at_ms = window["resetsAt"].as_u64()?.checked_mul(1000)?;
    Some(RateLimitWindow { used_percent: window["usedPercent"].as_f64()?, resets_at_ms })
}

/// Converts a turn's status and error to its end. Reported numbers about a limit take precedence
/// over the text of the error.
pub(crate) fn turn_end(
    status: &str,
    error: &Value,
    limits: &LimitTracker,
    now_ms: Option<u64>,
    zone: Option<&TimeZone>,
) -> TurnEnd {
    match status {
        "completed" => TurnEnd::Ok,
        "interrupted" => TurnEnd::Interrupted,
        "failed" if is_limit(&error["codexErrorInfo"]) => {
            let detail = describe_error(error);
            let in_words = || rate_limit_reset::parse_reset(&detail, now_ms?, zone);
            TurnEnd::Limited { until_ms: limits.reset_time(now_ms).or_else(in_words), detail }
        }
        "failed" => TurnEnd::Error(describe_error(error)),
        other => {
            let named = bounded(other, MAX_DETAIL);
            TurnEnd::Error(format!("the turn ended with the unknown status {named:?}"))
        }
    }
}

/// Returns an error's message with its details.
pub(crate) fn describe_error(error: &Value) -> String {
    let message = text(error, "message").unwrap_or("the agent gave no reason");
    let details = text(error, "additionalDetails").map(|details| format!(" ({details})"));
    bounded(&format!("{message}{}", details.unwrap_or_default()), MAX_DETAIL)
}

/// Whether an account limit caused the error. The kind is a string, or an object with a single
/// field of that name.
fn is_limit(kind: &Value) -> bool {
    match kind {
        Value::String(word) => matches!(word.as_str(), "usageLimitExceeded" | "rateLimitExceeded"),
        Value::Object(fields) => {
            fields.values().any(|details| details["httpStatusCode"].as_u64() == Some(429))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn end(status: &str, error: &Value) -> TurnEnd {
        turn_end(status, error, &LimitTracker::default(), None, None)
    }

    #[test]
    fn r9_unknown_turn_status_fails_closed() {
        assert_eq!(end("completed", &Value::Null), TurnEnd::Ok);
        assert_eq!(end("interrupted", &Value::Null), TurnEnd::Interrupted);
        for status in ["failed", "inProgress", "", "succeeded", "Completed"] {
            assert!(matches!(end(status, &Value::Null), TurnEnd::Error(_)), "{status}");
        }
        let TurnEnd::Error(message) = end("exploded", &Value::Null) else { panic!() };
        assert!(message.contains("exploded"), "{message}");
    }

    #[test]
    fn usage_limit_reports_reset_time() {
        let mut limits = LimitTracker::default();
        limits.update(&json!({"limitId": "codex",
            "primary": {"usedPercent": 100, "resetsAt": 20}, "secondary": {"usedPercent": 40, "resetsAt": 90}}));
        limits.update(&json!({"limitId": "codex", "primary": null, "secondary": null}));
        let error = json!({"message": "later", "codexErrorInfo": "usageLimitExceeded"});
        let end = |now| turn_end("failed", &error, &limits, now, None);
        let limited = |until_ms| TurnEnd::Limited { until_ms, detail: "later".to_owned() };
        assert_eq!(end(Some(19_000)), limited(Some(20_000)));
        assert_eq!(end(None), limited(Some(20_000)));
        assert_eq!(end(Some(20_001)), limited(Some(20_000)), "it was reached meanwhile");
        assert_eq!(end(Some(80_000)), limited(None), "that is not why there is a limit now");
    }

    #[test]
    fn a09_reset_time_falls_back_to_text() {
        let error = json!({"message": "Try again in 5s.", "codexErrorInfo": "usageLimitExceeded"});
        let until = |limits: &LimitTracker, now| match turn_end("failed", &error, limits, now, None)
        {
            TurnEnd::Limited { until_ms, .. } => until_ms,
            other @ (TurnEnd::Ok | TurnEnd::Interrupted | TurnEnd::Error(_)) => panic!("{other:?}"),
        };
        let mut limits = LimitTracker::default();
        assert_eq!(until(&limits, Some(1_000)), Some(6_000));
        assert_eq!(until(&limits, None), None, "five seconds from when?");
        limits.update(&json!({"primary": {"usedPercent": 100, "resetsAt": 20}}));
        assert_eq!(until(&limits, Some(1_000)), Some(20_000));
    }

    #[test]
    fn http_429_is_limit_other_failures_are_errors() {
        let kind = |kind: Value| end("failed", &json!({"message": "m", "codexErrorInfo": kind}));
        let limited = |end| matches!(end, TurnEnd::Limited { .. });
        assert!(limited(kind(json!({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}))));
        assert!(!limited(kind(json!({"responseTooManyFailedAttempts": {"httpStatusCode": 500}}))));
        assert!(!limited(kind(json!("contextWindowExceeded"))));
        assert!(!limited(kind(json!(["usageLimitExceeded"]))));
    }
}
