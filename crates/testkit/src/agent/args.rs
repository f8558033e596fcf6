//! The arguments of the scripted agent, including the hidden ones of its grandchildren.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use super::Error;
use super::children::{Grandchild, GrandchildMode};
use super::report::LateReportArgs;

const USAGE: &str =
    "parse the arguments; usage: scripted-agent SCENARIO.toml|sample:NAME [--vars NAME=VALUE…]";

pub(super) const GRANDCHILD: &str = "--grandchild";
pub(super) const LATE_REPORT: &str = "--report-after-eof";
pub(super) const FROM_STEP: &str = "--from-step";
pub(super) const VARS: &str = "--vars";

pub(super) enum AgentInvocation {
    Play(PlayArgs),
    Grandchild(Grandchild),
    LateReport(LateReportArgs),
}

/// A scenario to play.
pub(super) struct PlayArgs {
    pub(super) scenario: String,
    pub(super) vars: BTreeMap<String, String>,
    /// The number of steps that were done before the agent replaced itself.
    pub(super) from_step: usize,
}

pub(super) fn parse(args: impl Iterator<Item = OsString>) -> Result<AgentInvocation, Error> {
    let args = args.map(OsString::into_string).collect::<Result<Vec<_>, _>>();
    let args = args.map_err(|arg| usage(&format!("{} is not UTF-8", arg.display())))?;
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        [GRANDCHILD, stance, seconds] => {
            grandchild(stance, seconds).map(AgentInvocation::Grandchild)
        }
        [LATE_REPORT, after_ms, reply_to, report @ ..] => {
            late(after_ms, reply_to, report).map(AgentInvocation::LateReport)
        }
        [scenario, rest @ ..] if !scenario.starts_with('-') => {
            play(scenario, rest).map(AgentInvocation::Play)
        }
        _ => Err(usage("a scenario is missing")),
    }
}

fn play(scenario: &str, rest: &[&str]) -> Result<PlayArgs, Error> {
    let mut play = PlayArgs { scenario: scenario.to_owned(), vars: BTreeMap::new(), from_step: 0 };
    let (mut rest, mut in_vars) = (rest.iter(), false);
    while let Some(word) = rest.next() {
        match (*word, word.split_once('=')) {
            (VARS, _) => in_vars = true,
            (FROM_STEP, _) => play.from_step = number(rest.next().copied().unwrap_or_default())?,
            (_, Some((name, value))) if in_vars => {
                play.vars.insert(name.to_owned(), value.to_owned());
            }
            _ => return Err(usage(&format!("unexpected argument `{word}`"))),
        }
    }
    Ok(play)
}

fn grandchild(stance: &str, seconds: &str) -> Result<Grandchild, Error> {
    let stance = GrandchildMode::named(stance)
        .ok_or_else(|| usage(&format!("`{stance}` is not a kind of grandchild")))?;
    Ok(Grandchild { stance, life: Duration::from_secs(number(seconds)?) })
}

fn late(after_ms: &str, reply_to: &str, report: &[&str]) -> Result<LateReportArgs, Error> {
    Ok(LateReportArgs {
        after: Duration::from_millis(number(after_ms)?),
        reply_to: (!reply_to.is_empty()).then(|| reply_to.to_owned()),
        argv: report.iter().map(|&word| word.to_owned()).collect(),
    })
}

fn number<N: std::str::FromStr>(word: &str) -> Result<N, Error> {
    word.parse().map_err(|_| usage(&format!("`{word}` is not a number")))
}

fn usage(why: &str) -> Error {
    Error::Usage(format!("{USAGE}: {why}"))
}
