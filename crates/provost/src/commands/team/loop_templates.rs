//! The loop templates and policies that are available in a directory: the built-in ones, as
//! modified by configuration files, and the project's own.

use std::collections::BTreeSet;

use provost_api::ApiError;
use provost_config::{CleanUp as Configured, LoopTemplate, Resolved, Switchable, TextLine};
use provost_core::team::{
    CleanUp, ManagingPolicy,
    templates::{BUILT_IN, LoopOutline, built_in},
};

use crate::{
    commands::spawn::spec_from_config::checks,
    error::{unknown_name, usage},
};

/// Returns the names of all loops, first the built-in ones and then those in configuration files.
pub(crate) fn names(config: &Resolved) -> Vec<String> {
    let own: BTreeSet<&str> = config.loops.keys().map(String::as_str).collect();
    let own = own.into_iter().filter(|name| !BUILT_IN.contains(name));
    BUILT_IN.into_iter().chain(own).map(str::to_owned).collect()
}

/// Returns all commands in the configuration: the checks, and the commands in its loops.
pub(crate) fn commands(config: &Resolved) -> Vec<String> {
    let proofs = config.loops.values().flat_map(|own| own.evidence.iter());
    let of_loops = proofs.filter_map(|(_, proof)| proof?.strip_prefix("verified:"));
    checks(config).into_iter().chain(of_loops.map(str::to_owned)).collect()
}

/// Finds a loop by name.
pub(crate) fn outline(config: &Resolved, name: &str) -> Result<LoopOutline, ApiError> {
    let own = config.loops.get(name);
    let from = own.and_then(|own| own.from.as_ref()).map_or(name, TextLine::as_str);
    let base = match (built_in(from), own) {
        (Some(base), _) => LoopOutline { name: name.to_owned(), ..base },
        (None, Some(own)) if own.from.is_none() => {
            LoopOutline::empty(name, "a loop defined by the project")
        }
        (None, Some(_)) => {
            let known = BUILT_IN.join(", ");
            let why = format!(
                "loops.{name}.from: there is no built-in loop \"{from}\", expected one of {known}"
            );
            return Err(usage(why).next("provost guide loops"));
        }
        (None, None) => {
            return Err(unknown_name("loop", name, &names(config)).next("provost guide loops"));
        }
    };
    own.map_or_else(|| Ok(base.clone()), |own| apply_overrides(base.clone(), own))
}

/// Applies the changes in a configuration file to a loop.
fn apply_overrides(base: LoopOutline, own: &LoopTemplate) -> Result<LoopOutline, ApiError> {
    let mut outline = LoopOutline {
        max: own.max.on().copied().unwrap_or(base.max),
        clean_up: own.clean_up.on().map_or(base.clean_up, |word| clean_up(*word)),
        plateau: match own.plateau {
            Switchable::Unset => base.plateau,
            Switchable::Off => None,
            Switchable::On(most) => Some(most),
        },
        tokens: own.tokens.on().map(|tokens| tokens.get()).or(base.tokens),
        tools: if own.tools.is_empty() {
            base.tools
        } else {
            own.tools.iter().map(|tool| tool.as_str().to_owned()).collect()
        },
        ..base
    };
    for (evidence, proof) in own.evidence.iter() {
        let Some(proof) = proof else {
            outline.evidence.retain(|(known, _)| known != evidence);
            continue;
        };
        let wanted = proof.parse().map_err(|why| {
            let key = format!("loops.{}.evidence.{evidence}", outline.name);
            usage(format!("{key}: {why}")).next("provost guide loops")
        })?;
        outline = outline.with_evidence(evidence, wanted);
    }
    Ok(outline)
}

fn clean_up(word: Configured) -> CleanUp {
    match word {
        Configured::Keep => CleanUp::Keep,
        Configured::Compact => CleanUp::Compact,
        Configured::NewThread => CleanUp::NewThread,
    }
}

/// Finds the policy that manages a team, by name.
pub(crate) fn policy(config: &Resolved, name: &str) -> Result<ManagingPolicy, ApiError> {
    let known: Vec<&str> = config.policies.keys().map(String::as_str).collect();
    let missing = || unknown_name("policy", name, &known).next("provost config show");
    let own = config.policies.get(name).ok_or_else(missing)?;
    let text = |line: &Option<TextLine>| line.as_ref().map(|line| line.as_str().to_owned());
    let after = own.nudge_after.on();
    Ok(ManagingPolicy {
        name: name.to_owned(),
        actions: own.actions,
        check: own.check,
        rework: own.rework,
        rework_text: text(&own.rework_text),
        accept: own.accept,
        nudge_after_ms: after.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        nudges: own.nudges,
        nudge_text: text(&own.nudge_text),
        continue_loop: own.continue_loop,
        finish: own.finish,
    })
}
