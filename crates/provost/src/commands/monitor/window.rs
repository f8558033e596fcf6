//! The silence window: how long a session may be silent before the monitor reports it as stuck.

use std::time::Duration;

use provost_api::ApiError;
use provost_config::{Resolved, ValueSource};

use crate::{environment::Environment, error::usage};

/// Environment variables that set the window, in order of precedence. The second one is story-automator's.
const WINDOW_VARIABLES: [&str; 2] = ["PROVOST_STALE_SECONDS", "CODEX_OUTPUT_STALE_SECONDS"];

/// The environment variable that sets the configuration key. The flag overrides it.
const KEY_VARIABLE: &str = "PROVOST_MONITOR_STALE_AFTER";

/// The longest window that a variable can set: one week.
const MAX_SECONDS: u64 = 7 * 24 * 3600;

/// A silence window, and where it was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SilenceWindow {
    pub(super) length: Duration,
    pub(super) source: String,
}

impl SilenceWindow {
    pub(super) fn ms(&self) -> i64 {
        i64::try_from(self.length.as_millis()).unwrap_or(i64::MAX)
    }
}

/// Returns the variables to remove before the configuration is loaded. The alias is always removed,
/// because this module parses it. If the flag is given, the variable of the configuration key is
/// removed too, because the flag overrides it.
pub(super) fn ignored_variables(by_flag: bool) -> &'static [&'static str] {
    if by_flag { &[WINDOW_VARIABLES[0], KEY_VARIABLE] } else { &[WINDOW_VARIABLES[0]] }
}

/// Returns the setting with the highest precedence: the flag, then the variables, then the configuration.
pub(super) fn choose(
    environment: &Environment,
    resolved: &Resolved,
) -> Result<SilenceWindow, ApiError> {
    let source = resolved.provenance.get("monitor.stale_after").unwrap_or(&ValueSource::Default);
    let configured =
        SilenceWindow { length: resolved.monitor.stale_after, source: source.to_string() };
    if matches!(source, ValueSource::Flag { .. }) {
        return Ok(configured);
    }
    let set = WINDOW_VARIABLES.iter().find_map(|name| Some((*name, environment.get(name)?)));
    match set {
        Some((name, text)) => from_variable(name, text),
        None => Ok(configured),
    }
}

fn from_variable(name: &str, text: &str) -> Result<SilenceWindow, ApiError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = text.parse().ok().filter(|seconds| digits && (1..=MAX_SECONDS).contains(seconds));
    let length = seconds.map(Duration::from_secs).ok_or_else(|| {
        let message =
            format!("invalid {name}={text:?}: expected whole seconds from 1 to {MAX_SECONDS}");
        usage(message).next(format!("unset {name}"))
    })?;
    Ok(SilenceWindow { length, source: format!("environment ({name})") })
}

#[cfg(test)]
mod tests {
    use provost_config::{ConfigFile, FlagSetting, FlagValue, Inputs};

    use super::*;

    fn choice(
        flag: Option<&str>,
        variables: &[(&str, &str)],
        file: &str,
    ) -> Result<(u64, String), ApiError> {
        let flag = flag.map(|text| FlagSetting {
            flag: "--stale-after".to_owned(),
            key: "monitor.stale_after".to_owned(),
            value: FlagValue::Text(text.to_owned()),
        });
        let project = Some(ConfigFile { name: "provost.toml".to_owned(), text: file.to_owned() });
        let inputs = Inputs { flags: flag.into_iter().collect(), project, ..Inputs::default() };
        let resolved = provost_config::resolve(&inputs).unwrap();
        let window = choose(&Environment::from_pairs(variables), &resolved)?;
        Ok((window.length.as_secs(), window.source))
    }

    #[test]
    fn m25_window_follows_precedence() {
        let file = "monitor.stale_after = 40";
        let both = [("PROVOST_STALE_SECONDS", "20"), ("CODEX_OUTPUT_STALE_SECONDS", "30")];
        let of = |flag, variables: &[(&str, &str)], file| choice(flag, variables, file).unwrap();
        assert_eq!(of(Some("10"), &both, file), (10, "flag (--stale-after)".to_owned()));
        assert_eq!(of(None, &both, file).0, 20);
        assert_eq!(of(None, &both[1..], file).0, 30);
        assert_eq!(of(None, &[], file), (40, "project (provost.toml:1:9)".to_owned()));
        assert_eq!(of(None, &[], ""), (300, "default".to_owned()));
        assert_eq!(of(None, &[("PROVOST_STALE_SECONDS", "")], "").0, 300, "empty is unset");
    }

    #[test]
    fn invalid_value_names_its_variable() {
        for text in ["0", "-1", "5s", "1.5", " 5", "604801", "abc", "99999999999999999999999"] {
            let error = choice(None, &[("CODEX_OUTPUT_STALE_SECONDS", text)], "").unwrap_err();
            assert!(error.message.contains("CODEX_OUTPUT_STALE_SECONDS"), "{}", error.message);
            assert_eq!(error.code.exit_code(), 2, "{text}");
        }
    }
}
