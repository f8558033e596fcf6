//! The audit actor of a team's events: the peer, whose identity the socket proved, and the member
//! that it acted as.

use provost_core::team::TeamActor;

/// Separates the peer from the member. No name of a peer contains this text.
const SEPARATOR: &str = " as ";

/// The prefix of the actor for an agent's tool calls, which distinguishes them from commands that
/// the agent typed.
pub(crate) const TOOL_PREFIX: &str = "tool/";

/// Encodes the actor for the ledger.
pub(crate) fn encode_actor(proved: &str, who: &TeamActor) -> String {
    match who {
        TeamActor::Member(name) => format!("{proved}{SEPARATOR}{name}"),
        TeamActor::Operator | TeamActor::Policy | TeamActor::Provost => proved.to_owned(),
    }
}

/// Splits a recorded actor into the peer and the member that it acted as.
pub(crate) fn split_actor(recorded: &str) -> (&str, Option<&str>) {
    match recorded.split_once(SEPARATOR) {
        Some((proved, member)) => (proved, Some(member)),
        None => (recorded, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actor_round_trips_peer_and_member() {
        let member = |name: &str| TeamActor::Member(name.to_owned());
        for (proved, who, text) in [
            ("operator", TeamActor::Operator, "operator"),
            ("operator", member("boss"), "operator as boss"),
            ("launch/7#1", member("as as as"), "launch/7#1 as as as as"),
        ] {
            assert_eq!(encode_actor(proved, &who), text);
            let name = matches!(who, TeamActor::Member(_)).then(|| who.name());
            assert_eq!(split_actor(text), (proved, name));
        }
    }
}
