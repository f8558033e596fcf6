//! Converts the resolved configuration to types of the core, for sessions and runs.

use std::{collections::BTreeMap, str::FromStr, time::Duration};

use provost_api::ApiError;
use provost_config::{self as config, Resolved};
use provost_core::{
    limits::Bounds,
    run::RunHookEvent,
    session::{Budget, HookEvent, HookSpec},
    text::shell_quote,
    verdict::EmptyDiff,
};

use crate::error::usage;

/// Returns the check commands.
pub(crate) fn checks(config: &Resolved) -> Vec<String> {
    config.verify.checks.iter().map(shell_line).collect()
}

/// Returns the paths that are kept in a checkout from one check to the next.
pub(crate) fn keep(config: &Resolved) -> Vec<String> {
    config.verify.keep.iter().map(|pattern| pattern.as_str().to_owned()).collect()
}

/// Returns the files on which the checks depend.
pub(crate) fn protected(config: &Resolved) -> Vec<String> {
    config.verify.protected.iter().map(|pattern| pattern.as_str().to_owned()).collect()
}

/// Returns whether a result without any changes can pass.
pub(crate) fn no_change(config: &Resolved) -> EmptyDiff {
    if config.session.allow_empty_diff { EmptyDiff::Accepted } else { EmptyDiff::Refused }
}

/// Returns the limits on tokens and turns.
pub(crate) fn budget(config: &Resolved) -> Budget {
    Budget {
        tokens: config.budget.tokens.on().map(|tokens| tokens.get()),
        turns: config.budget.turns.on().copied(),
    }
}

/// Returns the limits on time and output.
pub(crate) fn bounds(config: &Resolved) -> Bounds {
    let (session, verify) = (&config.session, &config.verify);
    Bounds {
        settle_ms: ms(session.settle),
        drain_ms: ms(session.drain),
        stale_ms: ms(session.stale_after),
        limit_jitter_ms: ms(session.limit_jitter),
        limit_spacing_ms: ms(session.limit_spacing),
        stop_grace_ms: ms(session.stop_grace),
        time_limit_ms: session.time_limit.on().copied().map(ms),
        approval_ms: config.approvals.expire_after.on().copied().map(ms),
        rework: session.rework,
        check_time_ms: ms(verify.time_limit),
        check_output: verify.output_limit.get(),
        output_limit: session.output_limit.get(),
        ..Bounds::default()
    }
}

/// Returns the hooks for session events.
pub(crate) fn session_hooks(config: &Resolved) -> Result<BTreeMap<HookEvent, HookSpec>, ApiError> {
    hooks(config, "session.")
}

/// Returns the hooks for run events.
pub(crate) fn run_hooks(config: &Resolved) -> Result<BTreeMap<RunHookEvent, HookSpec>, ApiError> {
    hooks(config, "run.")
}

/// Returns the hooks for events whose names start with this prefix.
fn hooks<E: FromStr<Err = String> + Ord>(
    config: &Resolved,
    begins: &str,
) -> Result<BTreeMap<E, HookSpec>, ApiError> {
    let hook = |(event, hook): (&config::Event, &config::Hook)| {
        let event: E = event.name().parse().map_err(usage)?;
        let argv = match &hook.command {
            config::CommandSpec::Shell(line) => {
                vec!["sh".to_owned(), "-c".to_owned(), line.clone()]
            }
            config::CommandSpec::Argv(argv) => argv.as_slice().to_vec(),
        };
        let (time_limit_ms, output_limit) = (ms(hook.time_limit), hook.output_limit.get());
        Ok((event, HookSpec { argv, time_limit_ms, output_limit }))
    };
    config.hooks.iter().filter(|(event, _)| event.name().starts_with(begins)).map(hook).collect()
}

pub(crate) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Converts a command to a single shell command line.
pub(crate) fn shell_line(command: &config::CommandSpec) -> String {
    match command {
        config::CommandSpec::Shell(line) => line.clone(),
        config::CommandSpec::Argv(argv) => {
            argv.as_slice().iter().map(|word| shell_quote(word)).collect::<Vec<_>>().join(" ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_config_event_is_a_core_hook() {
        for event in config::Event::ALL {
            let of_session = event.name().parse::<HookEvent>().is_ok();
            assert!(of_session || event.name().parse::<RunHookEvent>().is_ok(), "{}", event.name());
        }
        assert_eq!(config::Event::ALL.len(), HookEvent::all().len() + RunHookEvent::ALL.len());
    }
}
