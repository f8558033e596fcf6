//! A session's reactions. They are resolved when the session is opened, so later changes to the
//! configuration do not affect them.

use provost_api::ApiError;
use provost_config::{self as config, Resolved};
use provost_core::{
    limits::Bounds,
    prompt,
    session::{
        AgentInterface, AgentSpec, Reaction, ReactionAction, ReactionTrigger, check_typeable,
    },
};

use super::{agents, spec_from_config::ms};
use crate::error::usage;

/// The default threshold for a nearly full context, in percent.
const NEARLY_FULL: u32 = 85;

/// Builds a session's reactions. `agent` returns the agent to which a reaction hands the work over.
pub(crate) fn build(
    config: &Resolved,
    interface: &AgentInterface,
    agent: impl Fn(&str) -> Result<AgentSpec, ApiError>,
) -> Result<Vec<Reaction>, ApiError> {
    let one = |(name, one): (&String, &config::Reaction)| reaction(name, one, interface, &agent);
    config.reactions.iter().map(one).collect()
}

/// Returns errors in the configured reactions. Each of them would prevent all sessions from starting.
pub(crate) fn invalid_reactions(config: &Resolved) -> Vec<String> {
    let agent = |name: &str| agents::find_outline(name, config);
    let one = |(name, one): (&String, &config::Reaction)| {
        reaction(name, one, &AgentInterface::command(), &agent).err()
    };
    config.reactions.iter().filter_map(one).map(|why| why.message).collect()
}

/// Applies the `resume_later` reaction to the bounds: how many times to wait for an account limit,
/// and how long by default.
pub(crate) fn bounded(bounds: Bounds, config: &Resolved) -> Bounds {
    let later = |one: &&config::Reaction| one.act == config::Act::ResumeLater;
    let Some(one) = config.reactions.values().find(later) else { return bounds };
    let wait = one.after.on().copied().map_or(bounds.limit_wait_ms, ms);
    Bounds { limit_waits: one.total, limit_wait_ms: wait, ..bounds }
}

fn reaction(
    name: &str,
    one: &config::Reaction,
    interface: &AgentInterface,
    agent: &impl Fn(&str) -> Result<AgentSpec, ApiError>,
) -> Result<Reaction, ApiError> {
    let refuse =
        |what: String| usage(format!("reactions.{name}: {what}")).next("provost config schema");
    let on = on(one);
    let act = act(one, agent).map_err(|why| match why {
        Some(why) => ApiError { message: format!("reactions.{name}: {}", why.message), ..why },
        None => refuse("\"hand_over\" needs an agent: set \"agent\" to its name".to_owned()),
    })?;
    if !act.applies_to(on) {
        return Err(refuse(format!(
            "{:?} is not a valid reaction to {:?}",
            act.as_str(),
            on.as_str()
        )));
    }
    if one.at.on().is_some() && one.on != config::On::Context {
        return Err(refuse("\"at\" is only valid with on = \"context\"".to_owned()));
    }
    if one.agent.is_some() && one.act != config::Act::HandOver {
        return Err(refuse("\"agent\" is only valid with do = \"hand_over\"".to_owned()));
    }
    let says = matches!(
        act,
        ReactionAction::Nudge { .. }
            | ReactionAction::Interrupt { .. }
            | ReactionAction::HandOver { .. }
    );
    if one.text.is_some() && !says {
        return Err(refuse(format!("{:?} sends no text: remove \"text\"", act.as_str())));
    }
    if let ReactionAction::Nudge { text } | ReactionAction::Interrupt { text } = &act {
        check_typeable(interface, text).map_err(|why| refuse(format!("\"text\": {why}")))?;
    }
    // For `resume_later`, `after` is the time to wait for the account. It does not delay the reaction.
    let after_ms =
        if act == ReactionAction::ResumeLater { 0 } else { one.after.on().copied().map_or(0, ms) };
    Ok(Reaction { name: name.to_owned(), on, after_ms, act, times: one.times, total: one.total })
}

fn on(one: &config::Reaction) -> ReactionTrigger {
    match one.on {
        config::On::Quiet => ReactionTrigger::Quiet,
        config::On::Stalled => ReactionTrigger::Stalled,
        config::On::NeedsInput => ReactionTrigger::NeedsInput,
        config::On::Context => {
            ReactionTrigger::Context { percent: one.at.on().copied().unwrap_or(NEARLY_FULL) }
        }
        config::On::UsageLimit => ReactionTrigger::UsageLimit,
    }
}

/// Returns the action. The error is `None` if the name of the agent is missing.
fn act(
    one: &config::Reaction,
    agent: &impl Fn(&str) -> Result<AgentSpec, ApiError>,
) -> Result<ReactionAction, Option<ApiError>> {
    let text = one.text.as_ref().map(|text| text.as_str().to_owned());
    Ok(match one.act {
        config::Act::Notify => ReactionAction::Notify,
        config::Act::Nudge => {
            ReactionAction::Nudge { text: text.unwrap_or_else(|| prompt::NUDGE.to_owned()) }
        }
        config::Act::Interrupt => ReactionAction::Interrupt {
            text: text.unwrap_or_else(|| prompt::INTERRUPTED.to_owned()),
        },
        config::Act::Compact => ReactionAction::Compact,
        config::Act::ResumeLater => ReactionAction::ResumeLater,
        config::Act::HandOver => {
            let name = one.agent.as_ref().ok_or(None)?.as_str();
            let agent = agent(name).map_err(Some)?;
            if !agent.interface.takes_instructions() {
                let message = format!(
                    "cannot hand over to {name:?}: the agent takes no \
                    instructions"
                );
                return Err(Some(usage(message).next("provost config show")));
            }
            ReactionAction::HandOver { agent: Box::new(agent), text }
        }
    })
}
